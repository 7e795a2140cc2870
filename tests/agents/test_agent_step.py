"""Steps that an agent does, with fakes that speak each agent's lines: how they are called, what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.agents.stage import AGENTS, Stage
from tests.cli.command import LEFTOFF, call, environment


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
    costs = {"claude": 0.25, "opencode": 0.26}
    assert (costs.get(agent), 3 if agent == "claude" else 2) == (result.get("cost_usd"), result["turns"])


def test_limits_and_permissions_are_passed_on(stage: Stage) -> None:
    """In the words of the agent's command line."""
    limits = "permissions: plan\nmodel: opus\ntools: [Read, Bash]"
    stage.write(
        f"agent: claude\nprompt: x\nturns: 7\nbudget: 1.5\n{limits}", f"agent: gemini\nprompt: x\n{limits}"
    )
    assert 0 == stage.run().code
    first, second = (" ".join(entry["args"]) for entry in stage.of("start"))
    wanted = ("--max-turns 7", "--max-budget-usd 1.5", "--permission-mode plan", "--model opus")
    assert all(
        words in first for words in (*wanted, "--allowedTools Read,Bash", "--output-format stream-json")
    )
    assert "--model opus --approval-mode plan --allowed-tools Read,Bash" in second


@pytest.mark.parametrize("word", ["acceptEdits", "workspace-write", "auto_edit"])
def test_permissions_are_told_in_each_agents_own_word(word: str, stage: Stage) -> None:
    """Whoever's word the step uses, whoever takes over; a model is told to whom it belongs."""
    stage.write(f"agents: [claude, codex, gemini]\nprompt: x\npermissions: {word}\nmodel: {{claude: opus}}")
    stage.does("limit", "limit")
    assert 0 == stage.run().code
    claude, codex, gemini = (" ".join(entry["args"]) for entry in stage.of("start"))
    assert "--model opus" in claude and "--permission-mode acceptEdits" in claude
    assert "--sandbox workspace-write" in codex and "--model" not in codex
    assert "--approval-mode auto_edit" in gemini and "--model" not in gemini


def test_codex_is_resumed_in_the_same_sandbox(stage: Stage) -> None:
    """`codex exec resume ID` does not know --sandbox, and takes it as a setting."""
    stage.write("agent: codex\nprompt: x\npermissions: read-only")
    stage.does("crash")
    assert 0 == stage.run().code
    first, second = (entry["args"] for entry in stage.of("start"))
    assert ["exec", "--json", "--sandbox", "read-only", "x"] == first
    assert ["exec", "resume", stage.of("start")[0]["session"], "--json"] == second[:4]
    assert ["-c", 'sandbox_mode="read-only"'] == second[4:6]


def test_a_prompt_file_and_templates(stage: Stage) -> None:
    """A prompt may be a template, or in a file."""
    (stage.folder / "task.md").write_text("From a {{ file }}.")
    stage.write(
        "agent: claude\nprompt_file: task.md", "agent: claude\nprompt: 'After {{ results.s0.result }}.'"
    )
    done = stage.run()
    assert 0 == done.code, str(done)
    assert ["From a {{ file }}.", "After done."] == [entry["prompt"] for entry in stage.of("start")]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_prompt_that_no_command_line_holds(agent: str, stage: Stage) -> None:
    """It comes on stdin, whole; so does one that looks like an option."""
    text = "- " + "word\n" * 40_000
    (stage.folder / "task.md").write_text(text)
    stage.write(f"agent: {agent}\nprompt_file: task.md", f"agent: {agent}\nprompt: --help me")
    done = stage.run()
    assert 0 == done.code, str(done)
    assert [text, "--help me"] == [entry["prompt"] for entry in stage.of("start")]


def test_an_agent_of_ones_own(stage: Stage) -> None:
    """From leftoff.toml; its output is the result. The prompt stands where its command says, else it is on stdin."""
    word, stdin = (
        ["sh", "-c", "printf 'I did: %s' \"$0\"", "{prompt}"],
        ["sh", "-c", "printf 'I read: '; cat"],
    )
    (stage.folder / "leftoff.toml").write_text(
        f"[agents.mine]\ncommand = {json.dumps(word)}\n[agents.yours]\ncommand = {json.dumps(stdin)}\n"
    )
    stage.write("agent: mine\nprompt: Write it.", "agent: yours\nprompt: Read it.")
    assert 0 == stage.run().code
    assert "I did: Write it." == stage.result()["result"].strip()
    assert "I read: Read it." == stage.result("s1")["result"].strip()


def test_its_own_session(stage: Stage) -> None:
    """An agent of leftoff.toml that takes a session's id is resumed by it."""
    script = 'echo "$@" >> calls; [ "$1" = on ] || kill -9 $$'
    mine = ["sh", "-c", script, "sh"]
    (stage.folder / "leftoff.toml").write_text(
        f"[agents.mine]\ncommand = {json.dumps([*mine, 'new', '{session}'])}\n"
        f"resume = {json.dumps([*mine, 'on', '{session}'])}\n"
    )
    stage.write("agent: mine\nprompt: x")
    assert 0 == stage.run().code
    (new, first), (on, second) = (line.split() for line in (stage.folder / "calls").read_text().splitlines())
    assert ("new", "on", first) == (new, on, second)
    assert first == stage.result()["session_id"]


def test_an_agent_that_is_not_installed_hands_over(stage: Stage) -> None:
    """The next in the list is there."""
    (stage.folder / "bin" / "claude").unlink()
    stage.write("agents: [claude, gemini]\nprompt: x")
    env = {**stage.env, "PATH": f"{stage.folder / 'bin'}:/usr/bin:/bin"}
    done = call("run", "flow.yaml", "--yes", cwd=stage.folder, **env)  # type: ignore[arg-type]
    assert 0 == done.code, str(done)
    assert ["gemini"] == [entry["agent"] for entry in stage.of("start")]


def test_its_own_failure_fails_the_step(stage: Stage) -> None:
    """What the agent says is why, in the step's error, with its session and what it took."""
    stage.write("agent: claude\nprompt: Write it.")
    stage.does("error")
    assert 1 == stage.run().code
    error = stage.record["error"]
    assert "claude did not do it: error_during_execution: it is too hard" == error["message"]
    facts = (error["exit_code"], error["cost_usd"], error["turns"], error["session_id"])
    assert (1, 0.01, 1, stage.of("start")[0]["session"]) == facts


def hanging(stage: Stage, step: str) -> subprocess.Popen[bytes]:
    """A run whose agent does nothing until it is told to end."""
    stage.write(step)
    stage.does("hang")
    process = subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml", "--yes"],
        cwd=stage.folder,
        env=environment(**stage.env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not stage.of("hangs"):
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_stopping_is_clean(stage: Stage) -> None:
    """The agent is told to end, once, takes its time, ends with 143; the next life of the run resumes its session."""
    process = hanging(stage, "agent: claude\nprompt: x")
    process.send_signal(signal.SIGTERM)
    assert 130 == process.wait(60)
    assert 1 == len(stage.of("told"))
    assert 0 == stage.run("resume", "--yes").code
    first, second = stage.of("start")
    assert first["session"] == second["resumed"]


def test_what_only_we_are_told_is_passed_on(stage: Stage) -> None:
    """Whoever ends the agent's keeper alone ends the agent as well, and as cleanly."""
    process = hanging(stage, "agent: claude\nprompt: x")
    os.kill(stage.of("hangs")[0]["parent"], signal.SIGTERM)
    assert 1 == process.wait(60)
    assert 1 == len(stage.of("told"))
    assert 143 == stage.record["error"]["exit_code"]


def test_done_once_more_is_a_new_conversation(stage: Stage) -> None:
    """A step that was finished, and that somebody wants again, neither resumes its session nor takes its old result."""
    stage.write("agent: claude\nprompt: x", "run: exit 1")
    assert 1 == stage.run().code
    stage.write("agent: claude\nprompt: x", "run: exit 0")
    again = stage.run("resume", "latest", "--from-step", "s0", "--yes")
    assert 0 == again.code, str(again)
    assert [None, None] == [entry["resumed"] for entry in stage.of("start")]
    assert 2 == len(stage.of("finish"))
