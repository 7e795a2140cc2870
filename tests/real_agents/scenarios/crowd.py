"""Many sessions at once, in one folder."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from tests.real_agents.agents import AGENTS, Agent
from tests.real_agents.bed import Bed, expect, must
from tests.real_agents.model.answers import Answer, Request
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.sessions import last_turn

SESSIONS, AT_ONCE = 200, 10
SHARES = {"claude": 50, "codex": 90, "gemini": 10, "opencode": 30, "qwen": 20}  # Gemini CLI starts slowest


class Talks:
    """What the model says to each, and who heard of another."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.crossed: list[set[str]] = []

    def __call__(self, request: Request) -> Answer:
        texts = request.texts
        heard = {found for text in texts for found in re.findall(r"Session number (\d+)", text)}
        if len(heard) != 1:
            self.crossed.append(heard)
        number = min(heard, default="0")
        name = f"{self.folder}/s-{number}.txt"
        if any(f"text {number}." in text for text in texts):  # it was written
            return Answer(f"Session {number} is done.")
        return Answer(calls=(AGENTS[request.agent].write(name, f"text {number}.\n"),))


@scenario(
    f"{SESSIONS} sessions, {AT_ONCE} at once",
    "in one folder: each has its own run, and sees no other",
    once=True,
)
def crowd(bed: Bed, agent: Agent) -> str:
    project = bed.project(*AGENTS)
    names = [name for name, share in SHARES.items() for _ in range(share)]
    names = [names[number * 77 % SESSIONS] for number in range(SESSIONS)]  # in any order, all at a time
    bed.model.script()
    talks = Talks(str(project.folder))
    bed.model.replies = talks

    def one(number: int) -> str:
        who = AGENTS[names[number]]
        life = who.tell(project, f"Session number {number}: write its file")
        return who.session(life)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        sessions = list(pool.map(one, range(SESSIONS)))
    expect("requests that tell of another session", [], talks.crossed)
    runs = {run["session_id"]: run for run in project.runs()}
    expect("sessions with a run", SESSIONS, len(set(runs) & set(sessions)))
    expect("runs", SESSIONS, len(runs))
    expect("their states", {"completed"}, {run["status"] for run in runs.values()})
    for number, session in enumerate(sessions):
        turn = last_turn(project.show(runs[session]["run_id"]))
        must(f"session {number} is asked its own: {turn['prompt']}", f"number {number}:" in turn["prompt"])
        expect(f"files of session {number}", [f"s-{number}.txt"], turn.get("files"))
    project.sound()
    return ", ".join(f"{share} of {AGENTS[name].title}" for name, share in SHARES.items())
