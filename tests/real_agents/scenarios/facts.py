"""What a session that takes over can say of the work before, from nothing but the text that leftoff gives it."""

from __future__ import annotations

import html
import re
import subprocess
import time
from collections.abc import Callable

from tests.real_agents.agents import Agent, calls, flat
from tests.real_agents.bed import Bed, Project, must
from tests.real_agents.model.answers import Answer, Request
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.deaths import BRIEF

SESSIONS, LEAST = 10, 8
TASK = (
    "Add a token-bucket rate limiter in src/limiter.py, call it from src/api.py, test refill and two keys, and "
    "document it in README.md."
)
STEPS = ["Write the limiter", "Call it from the API", "Test refill and two keys", "Document it"]
TEST = """\
import unittest
class Limits(unittest.TestCase):
    def test_refill_is_capped(self):
        for number in range(60):
            print("bucket", number, "is being filled with tokens")
        self.assertEqual(15, 10)
"""
SAID = "The test fails: tokens grow past the rate. I will cap them with min(), then run the tests again."
QUESTION = "Should the limit count requests that auth refused?"


def _work(project: Project, agent: Agent, moment: int) -> list[Answer]:
    """A turn in which all that is asked for comes up. What follows that differs with the moment of the kill."""
    folder = project.folder
    start = dict.fromkeys(STEPS, "pending")
    first = {**start, STEPS[0]: "in_progress"}
    then = {**start, STEPS[0]: "completed", STEPS[1]: "completed", STEPS[2]: "in_progress"}
    limiter = agent.write(str(folder / "src" / "limiter.py"), "class Bucket:\n    rate = 10\n")
    decided = Answer("Decision: no Redis, because there is only one process.", (limiter,))
    api = agent.shell("echo 'import limiter' >> src/api.py")
    test = agent.write(str(folder / "test_limiter.py"), TEST)
    further = [agent.shell(f"echo look {number}") for number in range(moment // 2)]
    last = Answer(waits=True) if moment % 2 else Answer(calls=(agent.shell("touch asleep; sleep 300"),))
    return flat(
        agent.lists(first),
        decided,
        calls(api),
        agent.lists(then, first),
        calls(test, agent.shell("python3 -B -m unittest -q")),
        Answer(f"{SAID} {QUESTION}", (agent.shell("echo look"),)),
        calls(*further),
        last,
    )


def _line(text: str, start: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(start)), "")


def answers(text: str, agent: Agent, killed_at: float) -> dict[str, bool]:
    """Which of nine questions the text answers."""
    clock = re.search(r"killed in mid-task at (\d\d):(\d\d) UTC", text)
    seconds = (int(clock[1]) * 60 + int(clock[2])) * 60 - killed_at % 86400 if clock else 43200.0
    changed = _line(text, "Changed: ")
    return {
        "task": "token-bucket rate limiter" in _line(text, "Task: "),
        "current step": STEPS[2] in _line(text, "[>] "),
        "files": all(name in changed for name in ("src/limiter.py", "src/api.py", "test_limiter.py")),
        "failing assertion": "AssertionError: 15 != 10" in _line(text, "Failing: "),
        "question": QUESTION in _line(text, "Unanswered question"),
        "decisions": "no Redis" in text,
        "who": f"{agent.title} was killed" in text,
        "when": abs(seconds) < 300,
        "next": STEPS[3] in _line(text, "[ ] "),
    }


def _injected(request: Request) -> str:
    """Return the brief in a request. Gemini CLI escapes some of its characters."""
    text = html.unescape(next((text for text in request.texts if BRIEF in text), ""))
    lines = text[text.find(BRIEF) :].splitlines()
    last = next((at for at, line in enumerate(lines) if "leftoff brief --all" in line), len(lines))
    return "\n".join(lines[: last + 1]) if BRIEF in text else ""


def _session(bed: Bed, agent: Agent, moment: int) -> tuple[int, int]:
    """A session that is killed, and a fresh one that is asked nine things. Return how many it can answer, and the
    length of what it was told."""
    project = bed.project(agent.name)
    (project.folder / "src" / "api.py").write_text("import app\n")
    for words in (("add", "src"), ("commit", "-qm", "api")):
        subprocess.run(["git", *words], cwd=project.folder, env=bed.env, check=True)
    bed.model.script(*_work(project, agent, moment))
    life = agent.ask(project, TASK, todo=True)
    if moment % 2:
        bed.model.wait_for_wait()
    else:
        _wait_for(lambda: (project.folder / "asleep").exists() or life.process.poll() is not None)
        time.sleep(0.2 * moment)
    life.kill()
    killed_at, found = time.time(), dict[str, bool]()
    told = ""

    def model(request: Request) -> Answer | None:
        nonlocal told
        if request.main and not told and (told := _injected(request)):
            found.update(answers(told, agent, killed_at))
            return Answer("\n".join(f"{fact}: {known}" for fact, known in found.items()))
        return None

    bed.model.script()
    bed.model.replies = model
    agent.tell(project, "continue" if agent.name == "codex" else "resume", todo=True)
    must("the fresh session is told", told)
    missing = ", ".join(fact for fact, known in found.items() if not known)
    print(
        f"        {agent.name} {moment}: {sum(found.values())} of {len(found)}, {len(told) // 4} tokens"
        f"{f'; missing: {missing}' if missing else ''}",
        flush=True,
    )
    return sum(found.values()), len(told) // 4


def _wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


@scenario(
    f"{SESSIONS} killed sessions, nine questions",
    f"a fresh session answers {LEAST} or more of nine from the brief: task, current step, files, failing assertion, "
    "question, decisions, who, when, next",
)
def facts(bed: Bed, agent: Agent) -> str:
    found = [_session(bed, agent, moment) for moment in range(SESSIONS)]
    known, tokens = [one for one, _ in found], [length for _, length in found]
    must(f"every brief answers {LEAST} of 9: {known}", min(known) >= LEAST)
    return f"{', '.join(map(str, known))} of 9, in {', '.join(map(str, tokens))} tokens"
