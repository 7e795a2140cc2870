"""What an agent does by itself: it compacts its memory, and asks helpers."""

from __future__ import annotations

import json

from tests.real_agents.agents import Agent, Claude, calls
from tests.real_agents.bed import Bed, Project, Unsupported, expect, must
from tests.real_agents.model.answers import Answer, Call, Request
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.deaths import BRIEF, finishes, killed, told
from tests.real_agents.scenarios.sessions import states
from tests.real_agents.terminal import Terminal

HEADLESS = {"claude": "/compact", "qwen": "/compress"}  # the prompts that compact without a terminal
HELPERS = {
    "claude": ("Agent", "Explore"),
    "opencode": ("task", "general"),
    "qwen": ("agent", "general-purpose"),
}  # the tool that asks a helper, and a kind of helper
SUMMARY = Answer("<summary>What matters: the guide is half done.</summary>")


def _notes(project: Project, run_id: str) -> list[str]:
    found = project.leftoff("log", run_id, "--json").json["checkpoints"]
    return [one["note"] or "" for one in found]


@scenario("compaction", "a checkpoint before it, and the session continues in its run")
def compaction(bed: Bed, agent: Agent) -> str | None:
    if agent.name in ("codex", "opencode"):
        return _compacts_by_itself(bed, agent)
    project, session = killed(bed, agent)
    run_id = project.show()["run_id"]
    bed.model.script(SUMMARY)
    if agent.name in HEADLESS:
        agent.tell(project, HEADLESS[agent.name], resume=session)
    else:
        _compacts_in_a_terminal(project, run_id, session)
    must(
        f"a checkpoint before it: {_notes(project, run_id)}",
        any("compacted" in note for note in _notes(project, run_id)),
    )
    bed.model.script(*finishes(agent))
    agent.tell(project, "go on", resume=session)
    must("it is told its brief", told(bed, f"{BRIEF} {run_id}"))
    expect("status", "completed", project.show(run_id)["status"])
    project.sound()
    return None if agent.name in HEADLESS else "in a terminal: without one it has no `/compress`"


def _compacts_in_a_terminal(project: Project, run_id: str, session: str) -> None:
    with Terminal(project, ["gemini", "--resume", session]) as terminal:
        terminal.until(lambda: "Type your message" in terminal.screen, "the prompt")
        terminal.types("/compress")
        terminal.until(lambda: terminal.sent("Compresses the context"), "an empty line")
        terminal.until(lambda: any("compacted" in note for note in _notes(project, run_id)), "the checkpoint")


def _compacts_by_itself(bed: Bed, agent: Agent) -> str:
    """Codex and OpenCode do it in the middle of a turn, when there is too much."""
    project = bed.project(agent.name)
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    large = Answer(calls=(write,), tokens=(199_000, 200))  # OpenCode compares it with the model's limit
    bed.model.script(large, *calls(agent.shell("true")), Answer("The guide is written."))
    words = agent.words("Write the guide", None, False)
    if agent.name == "codex":
        words[-1:-1] = ["-c", "model_auto_compact_token_limit=500"]
    expect("its exit code", 0, project.start(words).wait())
    run = project.show()
    must(
        f"a checkpoint before it: {_notes(project, run['run_id'])}",
        any("compacted" in one for one in _notes(project, run["run_id"])),
    )
    expect("status", "completed", run["status"])
    must("it is told its brief", told(bed, f"{BRIEF} {run['run_id']}"))
    project.sound()
    return "by itself, in the middle of a turn"


@scenario("subagent", "a helper that is done is kept as a member, with what it said")
def subagent(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    if agent.name == "gemini":
        raise Unsupported(_no_such_event(bed, agent, project))
    if agent.name in HELPERS:
        tool, kind = HELPERS[agent.name]
        helper = Call(tool, {"description": "look", "prompt": "Look around", "subagent_type": kind})
        bed.model.script(*calls(helper), Answer("Fine."))
        bed.model.replies = lambda request: (
            Answer("I looked around.")
            if request.says("Look around") and not request.says("ask a helper")
            else None
        )
    else:
        bed.model.script()
        bed.model.replies = _Asks(agent, project)
    agent.tell(project, "ask a helper")
    found = list((project.show()["records"].get("member") or {}).values())
    expect("members", [("completed", "I looked around.")], [(one["status"], one["message"]) for one in found])
    project.sound()


class _Asks:
    """A model of Codex's that asks a helper, and goes on once leftoff knows that it is done."""

    def __init__(self, agent: Agent, project: Project) -> None:
        self.agent, self.project, self.asked = agent, project, False

    def __call__(self, request: Request) -> Answer:
        if request.says("Look around") and not request.says("ask a helper"):
            return Answer("I looked around.")
        if not self.asked:
            self.asked = True
            return Answer(calls=(Call("multi_agent_v1.spawn_agent", {"message": "Look around"}),))
        if self.project.runs() and self.project.show()["records"].get("member"):
            return Answer("Fine.")
        return Answer(calls=(self.agent.shell("sleep 0.5"),))


def _no_such_event(bed: Bed, agent: Agent, project: Project) -> str:
    """What Gemini CLI says where hooks ask for the end of helpers."""
    path = project.folder / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["SubagentStop"] = settings["hooks"]["AfterAgent"]
    path.write_text(json.dumps(settings))
    bed.model.script(Answer("Hello."))
    life = agent.tell(project, "hello")
    lines = [line for line in life.err.splitlines() if "SubagentStop" in line]
    must(f"it says that it has no such event: {life.err[-300:]}", lines)
    return f"`{lines[0].strip()}`"


WORKFLOW = """\
export const meta = { name: "demo", description: "two agents", phases: [{ title: "one" }] }
phase("one")
await agent("Say one")
await agent("Say two")
"""


@scenario(
    "its own workflow run, cut off",
    "it is listed as a run, and the brief says which of its agents have finished",
)
def workflow_run(bed: Bed, agent: Agent) -> None:
    if agent.name != "claude":
        raise Unsupported(f"{agent.title} has no workflow runs")
    project = bed.project(agent.name)
    answers = {"Say one": Answer("one"), "Say two": Answer(waits=True)}

    def model(request: Request) -> Answer | None:
        asked = [words for words in answers if any(text.endswith(words) for text in request.texts)]
        return answers[asked[0]] if asked else None

    bed.model.script(Answer(calls=(Call("Workflow", {"script": WORKFLOW}),)), Answer("It runs."))
    bed.model.replies = model
    words = [
        word + " Workflow" if word == Claude.allowed else word for word in agent.words("Do it", None, False)
    ]
    life = project.start(words, CLAUDE_CODE_WORKFLOWS="1")
    bed.model.wait_for_wait()
    life.kill()
    bed.model.script(Answer("I know."))
    agent.tell(project, "resume")
    must("it is told which have finished", told(bed, "finished: Say one; not finished: Say two"))
    run = next(one for one in project.runs() if one["run_id"].startswith("wf_"))
    expect("its state", "abandoned", run["status"])
    expect("its agents", {"Say one": "completed", "Say two": "pending"}, states(project.show(run["run_id"])))
