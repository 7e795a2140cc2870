"""A session that dies, and those that come after it."""

from __future__ import annotations

import random
import time

from tests.real_agents.agents import Agent, calls, flat
from tests.real_agents.bed import Bed, Project, expect, must
from tests.real_agents.life import Life
from tests.real_agents.model.answers import Answer
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.sessions import last_turn, states

OFFER = "Unfinished: "
BRIEF = "You continue unfinished work: leftoff run"
HELLO = Answer("Hello.")
MOMENTS = 10
REQUESTS = 4  # of a turn that is killed


def told(bed: Bed, words: str) -> bool:
    """Whether the model was told that, in a request since the script began."""
    return any(request.says(words) for request in bed.model.requests)


def killed(bed: Bed, agent: Agent, *, todo: bool = False) -> tuple[Project, str]:
    """A session that wrote a file, and was killed while the model spoke; and its id."""
    project = bed.project(agent.name)
    parts = (
        agent.lists({"Write the guide": "completed", "Fix notes": "in_progress", "Ship": "pending"})
        if todo
        else []
    )
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*flat(parts, calls(write)), Answer(waits=True))
    life = agent.ask(project, "Write the guide", todo=todo)
    bed.model.wait_for_wait()
    run = project.show()
    expect("while it lives", ("running", "alive"), (run["status"], run["health"]))
    life.kill()
    return project, agent.session(life)


@scenario(
    "killed, a new session", "it gets one line about the run; no session gets it while the first one is alive"
)
def new_session(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*calls(write), Answer(waits=True))
    life = agent.ask(project, "Write the guide")
    bed.model.wait_for_wait()
    bed.model.more(HELLO)
    agent.tell(project, "hello")
    must("no session is told while the first one lives", not told(bed, OFFER))
    life.kill()
    bed.model.script(HELLO)
    agent.tell(project, "hello")
    must("a new session is told of the run", told(bed, OFFER))
    run = project.show("Write the guide")
    expect("its state", ("running", "dead"), (run["status"], run["health"]))
    project.sound()


def finishes(agent: Agent) -> tuple[Answer, ...]:
    """Return what a later session does to end the work that was cut off: a turn that changes nothing is not enough."""
    return (*calls(agent.shell("echo the rest >> guide.md")), Answer("All of it is done."))


@scenario("killed, resumed by id", "the session gets the whole brief of its run")
def resumed(bed: Bed, agent: Agent) -> None:
    project, session = killed(bed, agent)
    run_id = project.show()["run_id"]
    bed.model.script(*finishes(agent))
    agent.tell(project, "go on", resume=session)
    must("it is told its brief", told(bed, f"{BRIEF} {run_id}"))
    run = project.show(run_id)
    expect("its state", ("completed", session), (run["status"], run["session_id"]))
    expect("turns", ["Write the guide", "go on"], [one["prompt"] for one in run["records"]["turn"].values()])
    project.sound()


@scenario('killed, "resume" typed', "a new session takes over the run, and gets the whole brief")
def typed(bed: Bed, agent: Agent) -> str | None:
    project, first = killed(bed, agent)
    run_id = project.show()["run_id"]
    bed.model.script(*finishes(agent))
    word = "continue" if agent.name == "codex" else "resume"
    life = agent.tell(project, word)
    must("it is told the brief", told(bed, f"{BRIEF} {run_id}") and told(bed, "Write the guide"))
    run = project.show(run_id)
    must("it is another session", agent.session(life) != first)
    expect("its state", ("completed", agent.session(life)), (run["status"], run["session_id"]))
    project.sound()
    return "`continue`: `resume` is a subcommand of its own" if agent.name == "codex" else None


@scenario("killed, with a todo list", "the brief says what is done and what is not")
def with_list(bed: Bed, agent: Agent) -> None:
    project, session = killed(bed, agent, todo=True)
    wanted = {"Write the guide": "completed", "Fix notes": "running", "Ship": "pending"}
    expect("steps", wanted, states(project.show()))
    bed.model.script(HELLO)
    agent.tell(project, "go on", resume=session, todo=True)
    must("it is told of its steps", told(bed, BRIEF) and told(bed, "Fix notes"))
    expect("status", "paused", project.show()["status"])
    project.sound()


@scenario(
    "taken over three times",
    "the run keeps its steps and their states, even if a session numbers them differently",
)
def takeover(bed: Bed, agent: Agent) -> None:
    project, _ = killed(bed, agent, todo=True)
    run_id = project.show()["run_id"]
    lists = (
        {"Fix notes": "in_progress", "Ship": "pending"},
        {"Ship": "pending", "Fix notes": "completed"},
        {"Tell everybody": "pending", "Ship": "in_progress"},
    )
    for items in lists:
        bed.model.script(*agent.lists(items), Answer(waits=True))
        life = agent.ask(project, "continue", todo=True)
        bed.model.wait_for_wait()
        life.kill()
    wanted = {
        "Write the guide": "completed",
        "Fix notes": "completed",
        "Ship": "running",
        "Tell everybody": "pending",
    }
    expect("steps", wanted, states(project.show(run_id)))
    expect("runs", [run_id], [one["run_id"] for one in project.runs()])
    project.sound()


def _moment(bed: Bed, agent: Agent, request: int, seconds: float) -> str:
    """A turn that is killed so long after one of its requests; what became of it."""
    project = bed.project(agent.name)
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    change = agent.shell("echo more >> notes.txt")
    bed.model.script(*calls(write, change, agent.shell("true")), Answer("The guide is written."))
    life: Life = agent.ask(project, "Write the guide")
    bed.model.wait_for_request(request)
    time.sleep(seconds)
    life.kill()
    run = project.wait_for("Write the guide")  # its hooks outlive it, and are not slower than a person
    ended = last_turn(run)["status"] == "completed"
    must("a turn that ended well was answered in full", not ended or bed.model.served.answers >= REQUESTS)
    bed.model.script(HELLO)
    agent.tell(project, "hello")
    expect("a new session is told", not ended, told(bed, OFFER))
    if not ended:
        bed.model.script(HELLO)
        agent.tell(project, "continue")
        must("and gets the brief", told(bed, f"{BRIEF} {run['run_id']}"))
    project.sound(
        "The input on stdin is not JSON", "its hook was killed"
    )  # while it spoke, or its hook worked
    return "after its end" if ended else "in the turn"


@scenario(
    f"killed at {MOMENTS} random moments",
    "whenever it dies in a turn, the next session gets a line, and the store is sound",
)
def moments(bed: Bed, agent: Agent) -> str:
    project = bed.project(agent.name)
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*calls(write, agent.shell("true"), agent.shell("true")), Answer("The guide is written."))
    life = agent.ask(project, "Write the guide")
    bed.model.wait_for_request()
    began = time.monotonic()
    life.wait()
    length = (time.monotonic() - began) / REQUESTS
    by_chance = random.Random(13)
    parts = [by_chance.uniform(0, REQUESTS) for _ in range(MOMENTS)]  # however fast the machine is by then
    found = [_moment(bed, agent, 1 + int(part), part % 1 * length) for part in parts]
    return ", ".join(f"{found.count(kind)} {kind}" for kind in sorted(set(found), reverse=True))


def _errors(bed: Bed, agent: Agent, status: int) -> None:
    project = bed.project(agent.name)
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    refuses = Answer(
        status=status, message=f"the service says {status}", wait=1 if status in (429, 529) else None
    )
    bed.model.script(*calls(write), *[refuses] * 40)
    agent.tell(project, "Write the guide")
    run = project.show()
    must(f"the run is open: {run['status']}", run["status"] in ("paused", "running"))
    must("its turn did not end well", last_turn(run)["status"] != "completed")
    bed.model.script(HELLO)
    agent.tell(project, "hello")
    must("a new session is told of the run", told(bed, OFFER))
    project.sound()


for _status in (400, 401, 429, 529):

    def _play(bed: Bed, agent: Agent, status: int = _status) -> None:
        _errors(bed, agent, status)

    scenario(f"API error {_status}", "the turn stays open, and the next session gets a line")(_play)
