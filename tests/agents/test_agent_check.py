"""Agent steps that are wrong are found before anything starts."""

from __future__ import annotations

import pytest

from tests.agents.stage import Stage


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("agents: [nope, codex]\nprompt: x", "3:5: s0: There is no agent 'nope'"),
        ("agent: nope\nprompt: x", "One of claude, codex, gemini, opencode, qwen, mine"),
        ("agents: []\nprompt: x", "4:13: `agents` is empty"),
        ("agents: [3, {a: b}]\nprompt: x", "4:17: `agents` must be text"),
        ("agent: [claude, codex]\nprompt: x", "4:12: `agent` must be text, not a list"),
        ("agent: claude\nagents: [codex]\nprompt: x", "5:5: `agent` and `agents` at once"),
        ("agent: claude\nprompt: x\nprompt_file: y", "6:5: `prompt` and `prompt_file` at once"),
        ("agent: claude\nprompt_file: nope.md", "3:5: s0: the prompt_file nope.md does not exist"),
        ("agent: claude\nprompt: x\nturns: many", "6:12: `turns` must be a whole number from 1 on"),
        ("agent: claude\nprompt: x\nturns: -1", "6:12: `turns` must be a whole number from 1 on"),
        ('agent: claude\nprompt: x\nbudget: "-3"', "6:13: `budget` must be a number from 0 on"),
        ("agent: claude\nprompt: x\nbudget: 0", "6:13: `budget` cannot be 0"),
        ("agent: codex\nprompt: x\nbudget: 1", "3:5: s0: `budget` does not go with the agent codex"),
        ("agents: [claude, codex]\nprompt: x\ntools: [Read]", "`tools` does not go with the agent codex"),
        ("agent: opencode\nprompt: x\ntools: Read", "It has model, permissions, turns, budget."),
        ("agent: claude\nprompt: x\npermissions: nonsense", "3:5: s0: `permissions: nonsense` does not go"),
        ("agent: codex\nprompt: x\npermissions: dontAsk", "It can default, plan, acceptEdits, bypass."),
        ("agents: [claude, gemini]\nprompt: x\npermissions: auto", "does not go with the agent gemini"),
        ("agents: [claude, mine]\nprompt: x\npermissions: plan", "Put it into the command of [agents.mine]"),
        ("agent: claude\nprompt: x\npermissions: {codex: plan}", "given for codex, which is not an agent of"),
        ("agent: claude\nprompt: x\nmodel: {claude: [a]}", "6:21: `model.claude` must be text, not a list"),
        ("agent: mine\nprompt: x\nturns: 3", "Put it into the command of [agents.mine]."),
        ("agent: bad\nprompt: x", "[agents.bad] has no key 'comand'"),
        ("agent: none\nprompt: x", "[agents.none] has no command"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(step: str, said: str, stage: Stage) -> None:
    """Exit 2, in `run --check` and in `run`, and no run is started."""
    (stage.folder / "leftoff.toml").write_text(
        '[agents.mine]\ncommand = ["m"]\n[agents.bad]\ncomand = ["m"]\n[agents.none]\nresume = ["m"]\n'
    )
    stage.write(step)
    for words in (("run", "flow.yaml", "--check"), ("run", "flow.yaml", "--yes")):
        done = stage.run(*words)
        assert 2 == done.code and said in done.err, str(done)
    assert not (stage.folder / ".leftoff").exists()


@pytest.mark.parametrize(
    ("line", "said"), [('wait = "soon"', "wait is a number of seconds"), ("wiat = 3", "no key 'wiat'")]
)
def test_the_settings_of_agents(line: str, said: str, stage: Stage) -> None:
    """A word that nobody knows is never ignored."""
    (stage.folder / "leftoff.toml").write_text(f"[agents]\n{line}\n")
    stage.write("agent: claude\nprompt: x")
    done = stage.run("run", "flow.yaml", "--check")
    assert 2 == done.code and said in done.err, str(done)


def test_a_prompt_that_a_step_writes(stage: Stage) -> None:
    """It need not be there before, if it is declared; nor one whose name only a run knows."""
    stage.write(
        "run: echo Do it. > task.md\noutputs: [task.md]",
        "agent: claude\nprompt_file: task.md",
        "agent: claude\nprompt_file: '{{ outputs.s0[0] }}'",
    )
    assert 0 == stage.run("run", "flow.yaml", "--check").code
    assert 0 == stage.run().code
    assert ["Do it.\n"] * 2 == [entry["prompt"] for entry in stage.of("start")]
