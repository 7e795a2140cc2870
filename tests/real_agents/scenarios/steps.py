"""Agents that do steps of a workflow: limits, cost, rate limits, and who takes over."""

from __future__ import annotations

from typing import Any

from leftoff.agents.agent_step import TAKE_OVER
from tests.real_agents.agents import AGENTS, Agent, calls, flat
from tests.real_agents.bed import Bed, Project, Unsupported, expect, must
from tests.real_agents.model.answers import Answer, Request
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.deaths import finishes

PRICES = {
    "claude-sonnet": (3.0, 15.0),
    "claude-haiku": (1.0, 5.0),
    "claude-opus": (5.0, 25.0),
}  # of a million tokens


def flow(project: Project, name: str, *steps: str) -> None:
    """A workflow of steps, one after the other, each given as the text below its id."""
    lines = [f"name: {name}", "steps:"]
    for number, step in enumerate(steps, 1):
        lines += [f"  - id: s{number}", *(f"    {line}" for line in step.splitlines())]
        lines += [f"    needs: [s{number - 1}]"] if number > 1 else []
    (project.folder / "flow.yaml").write_text("\n".join(lines) + "\n")
    (project.folder / "leftoff.toml").write_text("[agents]\nwait = 1\n")


def play(project: Project, *words: str) -> int:
    """`leftoff run`, until it ends."""
    return project.start(["leftoff", *(words or ("run", "flow.yaml", "--yes", "--trust"))]).wait()


def step(project: Project, name: str = "s1") -> dict[str, Any]:
    """What is recorded of a step of the latest run."""
    found: dict[str, Any] = next(one for one in project.show()["step_records"] if one["step"] == name)
    return found


def told_of(record: dict[str, Any]) -> dict[str, Any]:
    """What the agent said of itself, in the result or the error."""
    return record["result"] or record["error"] or {}


@scenario("step", "an agent does a step; its result says who, in which session, and in how many turns")
def one_step(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    model = f"\nmodel: {agent.todo_model}" if agent.todo_model else ""
    flow(
        project,
        "notes",
        f"agent: {agent.name}\nprompt: Write NOTES.md\npermissions: bypass\noutputs: [NOTES.md]{model}",
    )
    first, later = {"Look": "in_progress", "Write": "pending"}, {"Look": "completed", "Write": "in_progress"}
    write = agent.write(str(project.folder / "NOTES.md"), "# Notes\n")
    parts = flat(agent.lists(first), calls(agent.shell("true")), agent.lists(later, first), calls(write))
    bed.model.script(*parts, Answer("The notes are written."))
    expect("exit code", 0, play(project))
    record = step(project)
    expect("status", "completed", record["status"])
    found = record["result"]
    expect("agent and words", (agent.name, "The notes are written."), (found["agent"], found["result"]))
    must("a session", found["session_id"])
    expect("turns, as the model counted them", bed.model.served.turns, found["turns"])
    expect("runs", ["notes"], [run["workflow"] for run in project.runs()])
    project.sound()


def _price(model: str) -> tuple[float, float]:
    return next(price for start, price in PRICES.items() if model.startswith(start))


@scenario("cost", "over three lives of one session, cost and turns are what the model counted")
def cost(bed: Bed, agent: Agent) -> str:
    project = bed.project()
    model = "\nmodel: claude-sonnet-4-5" if agent.name == "claude" else ""
    about = f"agent: {agent.name}\nprompt: Write NOTES.md\npermissions: bypass\nretries: 2\noutputs: [NOTES.md]{model}"
    flow(project, "cost", about)
    write = agent.write(str(project.folder / "NOTES.md"), "# Notes\n")
    bed.model.script(
        Answer("Done?", tokens=(1200, 300)),
        Answer("Now?", tokens=(900, 50)),
        *calls(write),
        Answer("Written."),
    )
    expect("exit code", 0, play(project))
    found = step(project)["result"]
    expect("turns", bed.model.served.turns, found["turns"])
    if agent.name not in ("claude", "opencode"):
        must(f"no cost: {found.get('cost_usd')}", not found.get("cost_usd"))
        return f"{found['turns']} turns; it tells no cost"

    def price(model: str) -> tuple[float, float]:  # OpenCode reports no cost of the title, which Haiku writes
        return (0.0, 0.0) if agent.name == "opencode" and "haiku" in model else _price(model)

    expect("cost", round(bed.model.served.cost(price), 6), round(found["cost_usd"], 6))
    return f"{found['turns']} turns, {found['cost_usd']:.4f} dollars"


@scenario("limit of turns", "the step ends when its turns are used up, with that reason")
def turns(bed: Bed, agent: Agent) -> None:
    project = bed.project()
    flow(project, "limit", f"agent: {agent.name}\nprompt: Go round\npermissions: bypass\nturns: 2")
    bed.model.script(*calls(*[agent.shell(f"echo {number}; sleep 1") for number in range(30)]))
    expect("exit code", 1, play(project))
    record = step(project)
    expect("status", "failed", record["status"])
    must(f"it says why: {record['error']}", "turns" in str(record["error"]))
    must(f"it was stopped: {bed.model.served.answers} answers", bed.model.served.answers < 12)


@scenario("limit of cost", "the step ends when its budget is used up, with that reason")
def budget(bed: Bed, agent: Agent) -> None:
    project = bed.project()
    flow(project, "budget", f"agent: {agent.name}\nprompt: Go round\npermissions: bypass\nbudget: 0.01")
    bed.model.script(*calls(*[agent.shell(f"echo {number}") for number in range(30)]))
    if (
        project.call("run", "--check", "flow.yaml").code == 2
    ):  # leftoff does not promise what the agent has not
        raise Unsupported(_no_such_option(project, agent))
    expect("exit code", 1, play(project))
    must(f"it says why: {step(project)['error']}", "budget" in str(step(project)["error"]))
    must(f"it was stopped: {bed.model.served.answers} answers", bed.model.served.answers < 12)


def _no_such_option(project: Project, agent: Agent) -> str:
    """What an agent says that is given a limit of cost."""
    words = {"codex": ["codex", "exec"], "gemini": ["gemini", "-p"], "qwen": ["qwen", "-p"]}[agent.name]
    life = project.start([*words, "hello", "--max-budget-usd", "1"])
    must("it refuses the option", life.wait())
    lines = [line for line in (life.err + life.out).splitlines() if "argument" in line]
    return f"`{lines[0].strip()}`"


@scenario("rate limit in a step", "it waits as long as the service says, and continues in the same session")
def rate_limit(bed: Bed, agent: Agent) -> None:
    project = bed.project()
    flow(
        project,
        "later",
        f"agent: {agent.name}\nprompt: Write NOTES.md\npermissions: bypass\noutputs: [NOTES.md]",
    )
    refuses = Answer(status=429, message="Rate limit reached. Please try again in 1s.", wait=1)
    again = Answer(status=429, message="Rate limit reached. Please try again in 1s.", wait=1)
    write = agent.write(str(project.folder / "NOTES.md"), "# Notes\n")
    bed.model.script(*calls(agent.shell("echo one")), refuses, again, *calls(write), Answer("Written."))
    expect("exit code", 0, play(project))
    expect("attempts", 1, step(project)["attempt"])
    must("the service refused", bed.model.served.refusals)
    must("the conversation is the same one", bed.model.main[-1].says("echo one"))


@scenario(
    "taken over with permissions",
    "if a service refuses, the next agent does the step, with the same permissions",
)
def failover(bed: Bed, agent: Agent) -> str:
    others = [name for name in AGENTS if name != agent.name]
    why = TAKE_OVER.partition("{why}")[0].format(agent=agent.name)
    for name in others:
        other = AGENTS[name]
        project = bed.project()
        may = "bypass" if "opencode" in (agent.name, name) else "acceptEdits"  # which OpenCode does not have
        about = (
            f"agents: [{agent.name}, {name}]\nprompt: Write NOTES.md\npermissions: {may}\noutputs: [NOTES.md]"
        )
        flow(project, "failover", about)
        write = other.write(str(project.folder / "NOTES.md"), "# Notes\n")
        bed.model.script(*calls(write), Answer(f"Written by {name}."))

        def refuse(request: Request) -> Answer | None:
            return (
                Answer(status=429, message="Rate limit reached.", wait=1)
                if request.agent == agent.name
                else None
            )

        bed.model.replies = refuse
        expect(f"exit code, to {name}", 0, play(project))
        expect("who did it", name, step(project)["result"]["agent"])
        must(
            "it was told why",
            any(one.says(why) for one in bed.model.main if one.agent == name),
        )
    return f"by {' and by '.join(others)}"


@scenario(
    "handed over",
    "`leftoff handover` continues the run in each other agent, which gets the brief and is bound to it",
)
def handover(bed: Bed, agent: Agent) -> str:
    others = [name for name in AGENTS if name != agent.name]
    for name in others:
        other = AGENTS[name]
        project = bed.project(agent.name, name)
        write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
        bed.model.script(*calls(write), Answer(waits=True))
        life = agent.ask(project, "Write the guide")
        bed.model.wait_for_wait()
        life.kill()
        run_id = project.show()["run_id"]
        over = project.leftoff("handover", run_id, "--to", name, "--json").json
        bed.model.script(*finishes(other))
        words = other.words(over["command"][-1], None, False)
        taken = project.start(words, **over["env"])
        taken.wait()
        must(f"{name} is told", any(one.says("This work is handed over to you") for one in bed.model.main))
        run = project.show(run_id)
        expect(f"session, to {name}", other.session(taken), run["session_id"])
        expect(f"status, to {name}", "completed", run["status"])
        project.sound()
    return f"to {' and to '.join(others)}"
