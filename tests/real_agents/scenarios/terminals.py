"""What a person does: agents in a terminal, with the questions that they ask there."""

from __future__ import annotations

from tests.real_agents.agents import AGENTS, Agent, calls
from tests.real_agents.bed import Bed, expect, must
from tests.real_agents.model.answers import Answer
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.deaths import HELLO, OFFER, told
from tests.real_agents.scenarios.sessions import last_turn
from tests.real_agents.terminal import Terminal

# What an agent may ask before it begins, and which of the answers is chosen.
QUESTIONS = {
    "Is this a project you created": "Yes, I trust this folder",
    "New MCP server found": "Use this MCP server",
    "Approve this server": "Approve this server",
    "Trust this folder?": "Trust and continue",
    "Hooks need review": "Trust all and continue",
    "Try new model": "Use existing model",
}


@scenario(
    "handed over in a terminal",
    "`leftoff handover --go` starts it there, bound to the run; killed with its terminal, the next session gets a line",
)
def in_a_terminal(bed: Bed, agent: Agent) -> str:
    names = list(AGENTS)
    before = AGENTS[names[names.index(agent.name) - 1]]
    project = bed.project(before.name, agent.name)
    bed.model.script(*calls(before.write(str(project.folder / "guide.md"), "# Guide\n")), Answer(waits=True))
    life = before.ask(project, "Write the guide")
    bed.model.wait_for_wait()
    life.kill()
    first = project.show()
    bed.model.script(Answer(waits=True))
    with Terminal(project, ["leftoff", "handover", first["run_id"], "--to", agent.name, "--go"]) as terminal:
        terminal.until(lambda: bool(bed.model.main), "a request", QUESTIONS)
        bed.model.wait_for_wait()
        must("it is told", told(bed, "This work is handed over to you") and told(bed, "Write the guide"))
        run = project.show(first["run_id"])
        must("it is bound to the run", run["session_id"] != first["session_id"])
        expect(
            "while it lives",
            ("running", "alive", agent.name),
            (run["status"], run["health"], last_turn(run)["agent"]),
        )
        terminal.kill()
    expect("its health, killed", "dead", project.show(first["run_id"])["health"])
    bed.model.more(HELLO)  # what was asked before is not answered: a daemon would end the turn
    agent.tell(project, "hello")
    must("the next session is told of the run", told(bed, OFFER))
    project.sound()
    return f"from {before.title}"
