"""Steps that an agent does, with fakes that speak each agent's lines."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Called, call, environment

FAKE = Path(__file__).parent / "fakes" / "agent.py"
AGENTS = ("claude", "codex", "gemini", "opencode")


class Stage:
    """A project with a workflow of agent steps, and fakes on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "fake").mkdir()
        for name in AGENTS:
            path = folder / "bin" / name
            path.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
            path.chmod(0o755)
        self.env = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "FAKE_LOG": str(folder / "fake"),
            "FAKE_SCRIPT": str(folder / "fake" / "script"),
        }

    def write(self, *steps: str) -> None:
        """A workflow of these steps, each the text below `- id: …`."""
        lines = ["name: flow", "steps:"]
        for number, step in enumerate(steps):
            lines.append(f"  - id: s{number}")
            lines += [f"    {line}" for line in step.splitlines()]
            lines += [f"    needs: [s{number - 1}]"] if number else []
        (self.folder / "flow.yaml").write_text("\n".join(lines) + "\n")

    def does(self, *words: str) -> None:
        """What the next lives of fakes do."""
        (self.folder / "fake" / "script").write_text(" ".join(words))

    def run(self, *words: str) -> Called:
        return call(*(words or ("run", "flow.yaml", "--yes")), cwd=self.folder, **self.env)  # type: ignore[arg-type]

    @property
    def log(self) -> list[dict[str, Any]]:
        path = self.folder / "fake" / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if entry["kind"] == kind]

    def shown(self) -> dict[str, Any]:
        document: dict[str, Any] = call("show", "latest", "--json", cwd=self.folder).json
        return document

    def result(self, step: str = "s0") -> Any:
        return next(r["result"] for r in self.shown()["step_records"] if r["step"] == step)

    def triggers(self) -> list[str]:
        run = self.shown()["run_id"]
        found = call("log", run, "--json", cwd=self.folder).json["checkpoints"]
        return [entry["trigger"] for entry in reversed(found)]


@pytest.fixture
def stage(project: Path) -> Stage:
    return Stage(project)


@pytest.mark.parametrize("agent", AGENTS)
def test_it_does_the_step(agent: str, stage: Stage) -> None:
    """Its result, its session, its turns and cost are in the step's record; a checkpoint is made before it starts."""
    stage.write(f"agent: {agent}\nprompt: Write it.")
    done = stage.run()
    assert 0 == done.code, str(done)
    (start,) = stage.of("start")
    result = stage.result()
    assert ("done", agent, start["session"]) == (result["result"], result["agent"], result["session_id"])
    assert "agent_start" == stage.triggers()[0]
    assert "Write it." == start["prompt"]
    if agent == "claude":
        assert (0.25, 3, "success") == (result["cost_usd"], result["turns"], result["subtype"])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_crash_resumes_the_session(agent: str, stage: Stage) -> None:
    """Killed in mid-stream: the same conversation goes on, by its id."""
    stage.write(f"agent: {agent}\nprompt: Write it.")
    stage.does("crash")
    assert 0 == stage.run().code
    first, second = stage.of("start")
    assert (None, first["session"]) == (first["resumed"], second["resumed"])
    assert "interrupted" in second["prompt"] and "Write it." in second["prompt"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_refused_resume_begins_anew_with_the_brief(agent: str, stage: Stage) -> None:
    """Where the conversation is gone, another one is told what is known. Each says so in its own way."""
    stage.write("run: echo hello", f"agent: {agent}\nprompt: Write it.")
    stage.does("crash", "refuse")
    assert 0 == stage.run().code
    third = stage.of("start")[2]
    assert third["resumed"] is None and third["session"] != stage.of("start")[0]["session"]
    assert "Done:\n- s0" in third["prompt"]
    assert third["session"] == stage.result("s1")["session_id"]


def test_no_network_is_no_refusal(stage: Stage) -> None:
    """A session that cannot be resumed now is resumed later."""
    stage.write("agent: claude\nprompt: Write it.")
    stage.does("crash", "offline", "offline")
    assert 1 == stage.run().code
    assert 0 == stage.run("resume", "--yes").code
    first, *others = stage.of("start")
    assert [first["session"]] * 3 == [entry["resumed"] for entry in others]


def test_a_resumed_session_keeps_its_id(stage: Stage) -> None:
    """Some versions name another one each time they start."""
    stage.env["FAKE_NEW_ID"] = "1"
    stage.write("agent: claude\nprompt: Write it.")
    stage.does("crash", "crash")
    assert 0 == stage.run().code
    first, *others = stage.of("start")
    assert [first["session"]] * 2 == [entry["resumed"] for entry in others]
    assert first["session"] == stage.result()["session_id"]


@pytest.mark.parametrize(("agent", "does"), [("opencode", "between"), ("codex", "reconnect")])
def test_what_is_not_the_end_is_a_crash(agent: str, does: str, stage: Stage) -> None:
    """Killed behind a turn that others follow, or behind an error that passes: its session is resumed."""
    stage.write(f"agent: {agent}\nprompt: Write it.")
    stage.does(does)
    assert 0 == stage.run().code
    first, second = stage.of("start")
    assert first["session"] == second["resumed"]


def test_dead_before_it_had_a_session(stage: Stage) -> None:
    """There is nothing to resume: another one begins, with what is known."""
    stage.write("run: echo hello", "agent: codex\nprompt: Write it.")
    stage.does("die")
    assert 0 == stage.run().code
    second = stage.of("start")[1]
    assert second["resumed"] is None and "Done:\n- s0" in second["prompt"]


def test_a_rate_limit_on_stderr(stage: Stage) -> None:
    """Told before there is a session: waited for as it says; and the next agent takes over."""
    stage.write("agent: gemini\nprompt: Write it.", "agents: [claude, codex]\nprompt: Write more.")
    stage.does("grumble", "ok", "grumble")
    done = stage.run()
    assert 0 == done.code, str(done)
    assert ["gemini", "gemini", "claude", "codex"] == [entry["agent"] for entry in stage.of("start")]
    assert stage.of("start")[1]["resumed"] is None


def test_its_costs_are_limited_by_us(stage: Stage) -> None:
    """OpenCode says what each turn costs: it is ended where that is too much."""
    stage.write("agent: opencode\nprompt: x\nbudget: 1\nturns: 50")
    stage.does("spend")
    assert 1 == stage.run().code
    kept = call("get", "step/s0", "latest", "--json", cwd=stage.folder).json["session"]
    assert "error_max_budget_usd" == kept["failed"] and 1.2 <= kept["cost_usd"] < 5


def test_limits_are_of_all_lives(stage: Stage) -> None:
    """What was spent before a crash is spent; the record has the sum."""
    stage.write("agent: opencode\nprompt: x\nbudget: 3\nturns: 9")
    stage.does("between", "between")
    assert 0 == stage.run().code
    assert (0.27, 3) == (stage.result()["cost_usd"], stage.result()["turns"])


WRONG_STEPS = {
    "agents: [clod, codex]\nprompt: x": "no agent 'clod'",
    "agents: []\nprompt: x": "`agents`",
    "agent: claude\nagents: [codex]\nprompt: x": "both there",
    "agent: claude\nprompt: x\nprompt_file: y": "both there",
    "agent: claude\nprompt: x\nturns: many": "`turns`",
    "agent: claude\nprompt: x\nturns: -1": "`turns`",
    "agent: claude\nprompt: x\nbudget: -3": "`budget`",
    "agent: codex\nprompt: x\nturns: 3": "codex has no limit of turns",
    "agents: [claude, gemini]\nprompt: x\nbudget: 3": "gemini has no limit of costs",
    "agent: opencode\nprompt: x\ntools: [Read]": "opencode has no list of tools",
    "agent: mine\nprompt: x\nturns: 3": "mine has no limit of turns",
}


@pytest.mark.parametrize("step", WRONG_STEPS)
def test_what_cannot_be_done_is_found_before_anything_runs(step: str, stage: Stage) -> None:
    """With the place in the file; an option that an agent does not have is never left out in silence."""
    (stage.folder / "leftoff.toml").write_text('[agents.mine]\ncommand = "mine {prompt}"\n')
    stage.write(step)
    for words in (("run", "flow.yaml", "--check"), ("run", "flow.yaml")):
        done = call(*words, cwd=stage.folder)
        assert 2 == done.code and WRONG_STEPS[step] in done.err and "flow.yaml:" in done.err, str(done)
    assert not (stage.folder / ".leftoff").exists()


def test_a_long_prompt_is_in_a_file(stage: Stage) -> None:
    """Longer than a word on a command line can be."""
    (stage.folder / "task.md").write_text("Do it. " * 30_000)
    stage.write("agent: claude\nprompt_file: task.md")
    assert 0 == stage.run().code
    assert "Read all of it" in stage.of("start")[0]["prompt"]


def test_a_rate_limit_is_waited_for(stage: Stage) -> None:
    """As long as it says; then the same session goes on."""
    stage.write("agent: claude\nprompt: Write it.")
    stage.does("limit")
    assert 0 == stage.run().code
    first, second = stage.of("start")
    assert first["session"] == second["resumed"]


def test_a_rate_limit_hands_over(stage: Stage) -> None:
    """To the next agent, with a brief that says why."""
    stage.write("agents: [claude, codex]\nprompt: Write it.")
    stage.does("limit")
    assert 0 == stage.run().code
    assert ["claude", "codex"] == [entry["agent"] for entry in stage.of("start")]
    told = stage.of("start")[1]["prompt"]
    assert "Another agent, claude" in told and "rate limit" in told and told.endswith("Write it.")
    assert "codex" == stage.result()["agent"]


def test_its_own_failure_fails_the_step(stage: Stage) -> None:
    """What the agent says is why."""
    stage.write("agent: gemini\nprompt: Write it.")
    stage.does("error")
    assert 1 == stage.run().code
    error = stage.shown()["step_records"][0]["error"]
    assert "it is too hard" in error["tail"]


def test_limits_and_permissions_are_passed_on(stage: Stage) -> None:
    """In the words of the agent's command line."""
    stage.write(
        "agent: claude\nprompt: x\nturns: 7\nbudget: 1.5\npermissions: plan\nmodel: opus\ntools: [Read, Bash]"
    )
    assert 0 == stage.run().code
    args = " ".join(stage.of("start")[0]["args"])
    wanted = ("--max-turns 7", "--max-budget-usd 1.5", "--permission-mode plan", "--model opus")
    assert all(
        words in args for words in (*wanted, "--allowedTools Read,Bash", "--output-format stream-json")
    )


def test_a_prompt_file_and_templates(stage: Stage) -> None:
    """A prompt may be a template, or in a file."""
    (stage.folder / "task.md").write_text("From a {{ file }}.")
    stage.write(
        "agent: claude\nprompt_file: task.md", "agent: claude\nprompt: 'After {{ results.s0.result }}.'"
    )
    done = stage.run()
    assert 0 == done.code, str(done)
    assert ["From a {{ file }}.", "After done."] == [entry["prompt"] for entry in stage.of("start")]


def test_an_agent_of_ones_own(stage: Stage) -> None:
    """From leftoff.toml; its output is the result."""
    mine = ["sh", "-c", "printf 'I did: %s' \"$0\"", "{prompt}"]
    (stage.folder / "leftoff.toml").write_text(f"[agents.mine]\ncommand = {json.dumps(mine)}\n")
    stage.write("agent: mine\nprompt: Write it.")
    assert 0 == stage.run().code
    assert "I did: Write it." == stage.result()["result"].strip()


def test_an_agent_that_is_not_installed_hands_over(stage: Stage) -> None:
    """The next in the list is there."""
    (stage.folder / "bin" / "claude").unlink()
    stage.write("agents: [claude, gemini]\nprompt: x")
    env = {**stage.env, "PATH": f"{stage.folder / 'bin'}:/usr/bin:/bin"}
    done = call("run", "flow.yaml", "--yes", cwd=stage.folder, **env)  # type: ignore[arg-type]
    assert 0 == done.code, str(done)
    assert ["gemini"] == [entry["agent"] for entry in stage.of("start")]


def test_stopping_is_clean(stage: Stage) -> None:
    """The agent is told to end, ends with 143, and the next life of the run resumes its session."""
    import subprocess

    from tests.cli.command import LEFTOFF

    stage.write("agent: claude\nprompt: x")
    stage.does("hang")
    process = subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml", "--yes"],
        cwd=stage.folder,
        env=environment(**stage.env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not stage.of("hangs"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert 130 == process.wait(60)
    assert 0 == stage.run("resume", "--yes").code
    first, second = stage.of("start")
    assert first["session"] == second["resumed"]


def test_an_agent_is_told_once_to_end(stage: Stage) -> None:
    """What it does to end cleanly is not cut off by being told again."""
    import subprocess

    from tests.cli.command import LEFTOFF

    stage.write("agent: claude\nprompt: x")
    stage.does("slow")
    process = subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml", "--yes"],
        cwd=stage.folder,
        env=environment(**stage.env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not stage.of("hangs"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert 130 == process.wait(60)
    (ended,) = stage.of("ends")
    assert ended["told"] <= 2  # by its group, and by us


def test_done_once_more_is_a_new_conversation(stage: Stage) -> None:
    """A step that was finished, and that somebody wants again, neither resumes its session nor takes its old result."""
    stage.write("agent: claude\nprompt: x", "run: exit 1")
    assert 1 == stage.run().code
    stage.write("agent: claude\nprompt: x", "run: exit 0")
    again = stage.run("resume", "latest", "--from-step", "s0", "--yes")
    assert 0 == again.code, str(again)
    assert [None, None] == [entry["resumed"] for entry in stage.of("start")]
    assert 2 == len(stage.of("finish"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("most", [4, pytest.param(20, marks=pytest.mark.crash_full)])
def test_killed_at_random(most: int, stage: Stage) -> None:
    """Three agent steps, everything killed again and again: no finished step starts again, each session is resumed."""
    import subprocess

    from tests.cli.command import LEFTOFF

    stage.write(*(f"agent: {agent}\nprompt: Part of {agent}." for agent in ("claude", "codex", "claude")))
    dice, env, kills = random.Random(7), environment(**stage.env, FAKE_SLEEP="0.4"), 0
    while kills < most:
        words = ["resume", "--yes"] if has_run(stage.folder) else ["run", "flow.yaml", "--yes"]
        process = subprocess.Popen(
            [str(LEFTOFF), *words],
            cwd=stage.folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert 0 == process.wait(dice.uniform(0.2, 2.0))
            check_starts(stage)
        except subprocess.TimeoutExpired:
            kill_all(stage.folder)
            process.wait()
            kills += 1
            if stage.log and not has_run(stage.folder):  # it was done when it was hit
                check_starts(stage)
    if has_run(stage.folder):
        assert 0 == stage.run("resume", "--yes").code
        check_starts(stage)


def has_run(folder: Path) -> bool:
    """Whether a run is unfinished."""
    runs = call("ls", "--json", cwd=folder).json["runs"]
    return any(run["status"] != "completed" for run in runs)


def kill_all(folder: Path) -> None:
    """SIGKILL for every process that works in a folder."""
    for _ in range(3):
        for name in os.listdir("/proc"):
            try:
                if (
                    name.isdigit()
                    and os.readlink(f"/proc/{name}/cwd") == str(folder)
                    and int(name) != os.getpid()
                ):
                    os.kill(int(name), signal.SIGKILL)
            except OSError:
                continue


def check_starts(stage: Stage) -> None:
    """What the fakes saw: of each step one conversation after another only where the first had not begun to exist."""
    completed = {
        record["step"] for record in stage.shown()["step_records"] if record["status"] == "completed"
    }
    assert {"s0", "s1", "s2"} == completed
    order = [entry["step"] for entry in stage.of("start")]
    assert sorted(order) == order, "a step was started after a later one had begun"
    for step in ("s0", "s1", "s2"):
        starts = [entry for entry in stage.of("start") if entry["step"] == step]
        for before, after in pairwise(starts):
            # Codex says its session's id itself: killed before that was on record, there is nothing to resume.
            known = before["agent"] == "claude" or after["resumed"] is not None
            refused = before["resumed"] is not None and not exists(stage, before["session"])
            if known and not refused:
                assert before["session"] == after["resumed"]
    (stage.folder / "fake" / "log.jsonl").unlink()


def exists(stage: Stage, session: str) -> bool:
    return (stage.folder / "fake" / "sessions" / session).exists()
