"""What becomes of an agent step whose agent dies, is refused, has to wait, or runs out of what it was given."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.stage import AGENTS, Stage
from tests.cli.command import LEFTOFF, call, environment


def do(stage: Stage, step: str, *words: str, code: int = 0) -> list[dict[str, object]]:
    """Run a workflow of one step whose agents do these things; their starts."""
    stage.write(step)
    stage.does(*words)
    done = stage.run()
    assert code == done.code, str(done)
    return stage.of("start")


# -- crashes


@pytest.mark.parametrize("agent", AGENTS)
def test_a_crash_resumes_the_session(agent: str, stage: Stage) -> None:
    """Killed in mid-stream: the same conversation goes on, by its id. A turn that calls tools is not the end."""
    first, second = do(stage, f"agent: {agent}\nprompt: Write it.", "crash")
    assert (None, first["session"]) == (first["resumed"], second["resumed"])
    assert "interrupted" in str(second["prompt"]) and "Write it." in str(second["prompt"])
    assert 1 == len(stage.of("finish"))


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_what_is_left_of_it_ends_before_the_next_begins(agent: str, stage: Stage) -> None:
    """A launcher that is killed alone leaves a child that works on: it is told to end, and waited for."""
    first, second = do(stage, f"agent: {agent}\nprompt: x", "orphan")
    assert first["session"] == second["resumed"]
    assert ["start", "gone", "start", "finish"] == [entry["kind"] for entry in stage.log]


@pytest.mark.parametrize(
    ("agent", "begins", "ends"),
    [
        ("claude", "error: option '--permission-mode", "Allowed choices are plan."),
        ("codex", "error: invalid value 'x' for '--sandbox", "[possible values]"),
        ("gemini", "Gemini CLI is not running in a trusted directory.", "automatically approved."),
        ("opencode", "Invalid values: Argument: format", 'Given: "x"'),
    ],
)
def test_a_wrong_call_is_no_crash(agent: str, begins: str, ends: str, stage: Stage) -> None:
    """It would be as wrong the next time. What it says is told whole, without colours and without all its options."""
    assert 1 == len(do(stage, f"agent: {agent}\nprompt: x", "usage", "usage", "usage", code=1))
    said = stage.record["error"]["message"]
    assert said.startswith(f"{agent} did not do it: {begins}") and said.endswith(ends), said
    assert "\x1b" not in said


def test_an_id_that_is_chosen_is_known_to_whoever_comes_next(stage: Stage) -> None:
    """Gemini's too: killed before it said anything, its session is asked for by id."""
    first, second = do(stage, "agent: gemini\nprompt: x", "early", "refuse")[:2]
    assert first["args"][first["args"].index("--session-id") + 1] == second["resumed"]  # type: ignore[index,attr-defined]


def test_a_passing_error_is_no_end(stage: Stage) -> None:
    """Codex says that it reconnects, then dies: a crash like any other."""
    first, second = do(stage, "agent: codex\nprompt: x", "reconnect")
    assert first["session"] == second["resumed"]


def test_a_session_keeps_the_id_it_was_resumed_by(stage: Stage) -> None:
    """Some call themselves otherwise in a resumed life; the next crash still resumes the first."""
    first, second, third = do(stage, "agent: claude\nprompt: x", "crash", "other-id")
    assert first["session"] == second["resumed"] == third["resumed"]


def test_killed_before_it_said_its_id(stage: Stage) -> None:
    """Nobody knows what it did: the next one begins with the brief, in the same try and in the next life of the run."""
    starts = do(stage, "agent: codex\nprompt: x", "early", "early", "early", code=1)
    assert [None] * 3 == [entry["resumed"] for entry in starts]
    assert "x" == starts[0]["prompt"] and "Somebody worked on this before" in str(starts[1]["prompt"])
    assert 0 == stage.run("resume", "--yes").code
    assert "Somebody worked on this before" in stage.of("start")[3]["prompt"]


# -- refusals


@pytest.mark.parametrize(
    ("agent", "how"),
    [*((agent, "refuse") for agent in AGENTS), ("codex", "refuse-stderr"), ("opencode", "refuse-stderr")],
)
def test_a_refused_resume_begins_anew_with_the_brief(agent: str, how: str, stage: Stage) -> None:
    """Where the conversation is gone, in the words of each agent, another one is told what is known."""
    stage.write("run: echo hello", f"agent: {agent}\nprompt: Write it.")
    stage.does("crash", how, "crash")
    done = stage.run()
    assert 0 == done.code, str(done)
    first, second, third, fourth = stage.of("start")
    assert first["session"] == second["resumed"]
    assert third["resumed"] is None and third["session"] != first["session"]
    assert "Done:\n- s0" in third["prompt"]
    assert third["session"] == fourth["resumed"] == stage.result("s1")["session_id"]


def test_no_network_is_no_refusal(stage: Stage) -> None:
    """The conversation is still there, and is resumed when the network is back: at once, or in a later life."""
    starts = do(stage, "agent: claude\nprompt: x", "crash", "offline", "offline", code=1)
    assert "getaddrinfo ENOTFOUND" in stage.record["error"]["message"]
    assert 0 == stage.run("resume", "--yes").code
    assert {starts[0]["session"]} == {entry["resumed"] for entry in stage.of("start")[1:]}


def test_the_old_session_counts_until_the_new_one_has_begun(stage: Stage) -> None:
    """A refusal may have been a mistake: where the new session never came to life, the old one is asked once more."""
    starts = do(stage, "agent: codex\nprompt: x", "crash", "refuse", "offline", "offline", code=1)
    assert [None, starts[0]["session"], None, None] == [entry["resumed"] for entry in starts]
    assert 0 == stage.run("resume", "--yes").code
    assert starts[0]["session"] == stage.of("start")[-1]["resumed"]


# -- "not now"


@pytest.mark.parametrize(
    ("agent", "how"), [*((agent, "limit") for agent in AGENTS), ("gemini", "limit-stderr")]
)
def test_a_rate_limit_is_waited_for(agent: str, how: str, stage: Stage) -> None:
    """As long as it says; then the same session goes on, or begins."""
    first, second = do(stage, f"agent: {agent}\nprompt: Write it.", how)
    assert (first["session"] if how == "limit" else None) == second["resumed"]
    assert ("Write it." == second["prompt"]) == (how == "limit-stderr")


@pytest.mark.parametrize("how", ["limit", "limit-stderr"])
def test_a_rate_limit_hands_over(how: str, stage: Stage) -> None:
    """To the next agent, with a brief that says why."""
    starts = do(stage, "agents: [claude, codex]\nprompt: Write it.", how)
    assert ["claude", "codex"] == [entry["agent"] for entry in starts]
    told = str(starts[1]["prompt"])
    assert "Another agent, claude" in told and told.endswith("Write it.")
    assert ("hit your limit" if how == "limit" else "429 Too Many Requests") in told
    assert "codex" == stage.result()["agent"]


def test_a_wait_and_a_hand_over_can_be_seen(stage: Stage) -> None:
    """In the events of the run, in its listing and on its page: who waits, why, and until when; who took over."""
    says = "echo 'too many requests, try again in 3000s'; exit 1"
    mine = json.dumps(["sh", "-c", says])
    (stage.folder / "leftoff.toml").write_text(
        f"[agents.one]\ncommand = {mine}\n[agents.two]\ncommand = {mine}\n"
    )
    stage.write("agents: [one, two]\nprompt: x")
    out = stage.folder / "events"
    with out.open("wb") as file:
        words = [str(LEFTOFF), "run", "flow.yaml", "--yes", "--trust", "--json"]
        driver = subprocess.Popen(words, cwd=stage.folder, env=environment(**stage.env), stdout=file)
    try:
        end = time.monotonic() + 60
        while '"agent_waits"' not in out.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        events = {one["event"]: one for one in map(json.loads, out.read_text().splitlines())}
        changed, waits = events["agent_changed"], events["agent_waits"]
        assert ("one", "two", "s0") == (changed["from"], changed["agent"], changed["step"])
        assert ("two", "s0") == (waits["agent"], waits["step"]) and "too many requests" in waits["why"]
        run = call("status", "--all", "--json", cwd=stage.folder).json["runs"][0]
        assert {key: waits[key] for key in ("step", "agent", "why", "until")} == run["waits"]
        until = f"waits for two until {waits['until'][:10]} {waits['until'][11:16]} UTC"
        shown = call("show", "latest", cwd=stage.folder).out
        assert (
            until in call("status", cwd=stage.folder).out
            and until in shown
            and "one could not continue" in shown
        )
    finally:
        driver.terminate()
        driver.wait()
    assert "waits" not in call("status", "--all", "--json", cwd=stage.folder).json["runs"][0]


def test_an_agent_of_ones_own_hands_over(stage: Stage) -> None:
    """What it prints says that it is limited; any other failure is its answer."""
    mine = ["sh", "-c", "echo 'rate limit exceeded, try again in 5s'; exit 1"]
    (stage.folder / "leftoff.toml").write_text(f"[agents.mine]\ncommand = {json.dumps(mine)}\n")
    (start,) = do(stage, "agents: [mine, codex]\nprompt: x")
    assert "codex" == start["agent"] and "rate limit exceeded" in str(start["prompt"])


def test_a_secret_in_its_last_words_is_not_stored_in_part(stage: Stage) -> None:
    """They are shortened in their middle, where the secret is."""
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    says = f"{'word ' * 54}{secret} {'word ' * 54} rate limit exceeded, try again in 5s"
    mine = json.dumps(["sh", "-c", f"echo '{says}'; exit 1"])
    (stage.folder / "leftoff.toml").write_text(f"[agents.mine]\ncommand = {mine}\n")
    (start,) = do(stage, "agents: [mine, codex]\nprompt: x")
    told = str(start["prompt"]) + json.dumps(stage.shown())
    assert "word word" in told and not any(secret[at : at + 8] in told for at in range(len(secret) - 7))


def test_waiting_has_an_end(stage: Stage) -> None:
    """A service that never says how long is asked so often, and then the step fails with what it says."""
    mine = ["sh", "-c", "echo x >> tries; echo 'Too many requests' >&2; exit 1"]
    (stage.folder / "leftoff.toml").write_text(
        f"[agents]\nwait = 0.001\n[agents.mine]\ncommand = {json.dumps(mine)}\n"
    )
    do(stage, "agent: mine\nprompt: x", code=1)
    assert "x\n" * 6 == (stage.folder / "tries").read_text()
    assert "mine did not do it: Too many requests" == stage.record["error"]["message"]


# -- limits of the step, whoever does it and in however many lives


def test_limits_hold_for_all_lives_together(stage: Stage) -> None:
    """What one life took is not there for the next; the record has the sum."""
    starts = do(stage, "agent: claude\nprompt: x\nturns: 9\nbudget: 1.0", "crash", "limit")
    left = [" ".join(str(word) for word in entry["args"]) for entry in starts]  # type: ignore[attr-defined]
    wanted = [("9", "1.0"), ("8", "1.0"), ("7", "0.99")]
    for (turns, budget), args in zip(wanted, left, strict=True):
        assert f"--max-turns {turns} --max-budget-usd {budget}" in args
    assert (0.26, 5) == (stage.result()["cost_usd"], stage.result()["turns"])


@pytest.mark.parametrize("version", ["new", "old"])
def test_a_session_that_is_resumed_costs_what_is_new(version: str, stage: Stage) -> None:
    """Claude's total counts on over all lives of a session: 0.25, 0.5, 0.75 are 0.75, and within the budget of 1.0."""
    stage.env |= {"FAKE_OLD": "1"} if version == "old" else {}
    step = "agent: claude\nprompt: x\nbudget: 1.0\noutputs: [out]\nretries: {max: 1, backoff: 0s}"
    do(stage, step, code=1)
    (stage.folder / "out").touch()
    done = stage.run("resume", "--yes")
    assert 0 == done.code, str(done)
    budgets = [entry["args"][entry["args"].index("--max-budget-usd") + 1] for entry in stage.of("start")]
    assert ["1.0", "0.75", "0.5"] == budgets
    assert (0.75, 9) == (stage.result()["cost_usd"], stage.result()["turns"])


def test_what_is_used_up_is_not_begun(stage: Stage) -> None:
    """A step that had its turns does not start an agent again until somebody allows more."""
    do(stage, "agent: claude\nprompt: x\nturns: 1", "error", code=1)
    assert 1 == stage.run("resume", "--yes").code
    assert "its 1 turns are used up. Raise `turns`" in stage.record["error"]["message"]
    stage.write("agent: claude\nprompt: x\nturns: 5")
    assert 0 == stage.run("resume", "--yes").code
    assert 2 == len(stage.of("start"))


@pytest.mark.parametrize(
    ("agent", "limit", "said"),
    [
        ("codex", "turns: 4", "its 4 turns are used up"),
        ("gemini", "turns: 4", "its 4 turns are used up"),
        ("opencode", "turns: 4", "its 4 turns are used up"),
        ("opencode", "budget: 0.05", "its 0.05 USD are used up"),
    ],
)
def test_limits_are_kept_by_watching(agent: str, limit: str, said: str, stage: Stage) -> None:
    """An agent that has no option for a limit is stopped when its lines say that it is reached."""
    do(stage, f"agent: {agent}\nprompt: x\n{limit}", "endless", code=1)
    assert said in stage.record["error"]["message"]


def test_within_its_limits_it_is_left_alone(stage: Stage) -> None:
    """Three calls of tools are four turns."""
    do(stage, "agent: codex\nprompt: x\nturns: 4", "tools-3")
    assert 4 == stage.result()["turns"]


# -- what was missing


@pytest.mark.parametrize("retries", ["", "\nretries: {max: 1, backoff: 0s}"])
def test_an_agent_is_told_what_is_missing(retries: str, stage: Stage) -> None:
    """It said that it was done, and an output is not there: its session goes on, and hears of it."""
    outputs = f"agent: claude\nprompt: Write it.\noutputs: [out.txt]{retries}"
    do(stage, outputs, code=1)
    if not retries:
        assert 1 == stage.run("resume", "--yes").code
    first, second = stage.of("start")
    assert first["session"] == second["resumed"]
    assert "not done yet: “The declared output out.txt is not there" in second["prompt"]


def ended_unseen(stage: Stage, lines: str) -> Path:
    """An agent that left these variables, and ended while nobody watched; the folder of its attempt."""
    script = f"printf '{lines}' >> \"$LEFTOFF_VARS\"; echo x >> calls; until [ -e go ]; do sleep 0.1; done"
    (stage.folder / "leftoff.toml").write_text(
        f"[agents.mine]\ncommand = {json.dumps(['sh', '-c', script])}\n"
    )
    stage.write("agent: mine\nprompt: x")
    driver = subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml", "--yes"], cwd=stage.folder, env=environment(**stage.env)
    )
    until((stage.folder / "calls").exists)
    driver.kill()
    driver.wait()
    (stage.folder / "go").touch()
    (folder,) = (stage.folder / ".leftoff/attempts").glob("*/*")
    until(lambda: (folder / "exit").exists() and (folder / "exit").read_bytes())
    return folder


@pytest.mark.parametrize("damaged", ["exit", "result", "vars"])
def test_what_it_left_is_damaged(damaged: str, stage: Stage) -> None:
    """It ended while nobody watched, and told so before: it is not called again, and its variables are the run's."""
    (ended_unseen(stage, "v=1\\n") / damaged).write_text("junk\n")
    done = stage.run("resume", "--yes")
    assert 0 == done.code, str(done)
    assert ("x\n", {"v": 1}) == ((stage.folder / "calls").read_text(), stage.shown()["variables"])


def test_secrets_among_what_it_left(stage: Stage) -> None:
    """They are known by their names, and not kept, also where its variables wait to be taken in; the others are."""
    lines = "v=1\\nAPI_TOKEN=hunter2-plain\\nurl=https://u:pw12345678@h/x\\n"
    (ended_unseen(stage, lines) / "exit").write_text("junk\n")
    before = json.dumps(stage.shown())
    done = stage.run("resume", "--yes")
    assert 0 == done.code, str(done)
    assert 1 == stage.shown()["variables"]["v"]
    told = before + json.dumps(stage.shown())
    assert [] == [secret for secret in ("hunter2-plain", "pw12345678") if secret in told]


def until(is_so: Callable[[], object]) -> None:
    """Wait for others to come so far."""
    while not is_so():
        time.sleep(0.05)
