"""``python -m leftoff.agents.headless.act``: does an agent step, in a process of its own.

It goes on where an earlier try stopped. A session that was begun is resumed by its id; where that is refused, a new one
begins with the brief. A service that says "not now" is waited for as long as it says, or the next agent takes over.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from typing import Any

from leftoff.agents.headless.commands import CHOOSES, KNOWN, WATCHED, Asked, command_of
from leftoff.agents.headless.ledger import Ledger
from leftoff.agents.headless.lines import Outcome
from leftoff.agents.headless.process import CANNOT, NOT_FOUND, Stopped, Watch, complain, live
from leftoff.errors import LeftoffError

CRASHES = 2  # of an agent that are answered by resuming its session, within one try at the step
WAITS = 5  # for a service that says "not now"
WAIT, LONGEST = 60.0, 7 * 86400.0  # seconds, where it does not say how long; at most
LONGEST_WORD = 100_000  # bytes; the kernel takes no longer word than 128 KiB
GO_ON = (
    "You were interrupted. Go on with the task where you left off; what is done need not be done again. "
    "The task was:\n\n"
)
BEGIN_AGAIN = "Somebody worked on this before and was interrupted. What is known:\n\n{brief}\n\nThe task:\n\n"
TAKE_OVER = (
    "Another agent, {agent}, worked on this and cannot go on ({why}). Check what it did before you build on it; "
    "what is done need not be done again. What is known:\n\n{brief}\n\nThe task:\n\n"
)


class Act:
    """One try at a step."""

    def __init__(self, given: dict[str, Any], ledger: Ledger) -> None:
        self.agents: list[str] = given["agents"]
        self.prompt: str = given["prompt"]
        self.asked = Asked(given)
        self.custom: dict[str, Any] = given.get("custom") or {}
        self.wait = float(given.get("wait") or WAIT)
        self.ledger = ledger
        self.watch = Watch()
        self.crashes = self.waits = 0
        self.cost, self.turns = 0.0, 0  # spent so far, also in earlier tries

    def run(self) -> dict[str, Any]:
        """Do it; the result of the step."""
        known = self.ledger.known()
        if known.get("done"):
            left = self.ledger.outcome(known)
            if left is not None:  # nobody lived to take it in
                print("it had ended already, and left its result", flush=True)
                return left
            known = {}  # it was taken in, and the step is to be done once more
        before = known.get("agent")
        agent: str = before if before in self.agents else self.agents[0]
        session: str | None = known.get("session_id") if agent == before else None
        self._count(known.get("cost_usd"), known.get("turns"))
        opening = self._again() if before and session is None else ""
        while True:
            code, out = self._once(agent, session, opening)
            if self._did_it(agent, code, out):
                result = {**out.to_json(agent), **self._spent()}
                self.ledger.done(result)
                return result
            agent, session, opening = self._next(agent, session, code, out)

    def _next(self, agent: str, session: str | None, code: int, out: Outcome) -> tuple[str, str | None, str]:
        """Who goes on, in which session, told what; where nobody can, the step has failed."""
        after = self.agents[self.agents.index(agent) + 1 :]
        if out.limited or (code == NOT_FOUND and after):
            return self._not_now(agent, out, after)
        if session is not None and out.refused:
            complain(f"session {session} cannot be resumed; a new one begins")
            return agent, None, self._again()
        if not out.ended and code not in (NOT_FOUND, CANNOT) and self._crashed(agent, code, out):
            return agent, out.session, "" if out.session else self._again()
        raise SystemExit(self._failed(agent, code, out))

    def _crashed(self, agent: str, code: int, out: Outcome) -> bool:
        """An agent that ended without a word of its own is asked again, a few times."""
        self.crashes += 1
        if self.crashes > CRASHES or (agent in self.custom and not out.session):
            return False
        how = "its session is resumed" if out.session else "a new session begins"
        complain(f"{agent} ended with exit code {code} in mid-stream; {how}")
        return True

    def _did_it(self, agent: str, code: int, out: Outcome) -> bool:
        if agent in self.custom and agent not in KNOWN:
            return code == 0
        return out.ok and (code == 0 or agent not in WATCHED)

    def _again(self) -> str:
        return BEGIN_AGAIN.format(brief=self.ledger.brief())

    # -- what was spent

    def _count(self, cost: Any, turns: Any) -> None:
        self.cost += float(cost or 0)
        self.turns += int(turns or 0)

    def _spent(self) -> dict[str, Any]:
        """Of all lives of the agents that did the step."""
        spent: dict[str, Any] = {"cost_usd": round(self.cost, 6), "turns": self.turns}
        return {name: value for name, value in spent.items() if value}

    def _once(self, agent: str, session: str | None, opening: str) -> tuple[int, Outcome]:
        """One life of the agent's process. Its session is on record before it starts, where that can be known."""
        resume = session is not None
        chosen = session or (str(uuid.uuid4()) if agent in CHOOSES else None)
        prompt = _short((GO_ON if resume else opening) + self.prompt)
        asked = self.asked.less(self.cost, self.turns)
        words = command_of(agent, prompt, asked, self.custom, session=chosen, resume=resume)
        facts = {"agent": agent, "session_id": chosen, "resumed": resume or None, **self._spent()}
        note = f"{agent} {'resumes' if resume else 'starts'} {chosen or 'a session'}"
        self.ledger.keep("agent_start", note, **{k: v for k, v in facts.items() if v is not None})

        def learned(found: str) -> None:
            if (
                found != chosen and not resume
            ):  # a resumed session stays known by the id that it was resumed by
                self.ledger.keep(None, None, session_id=found)

        def over(out: Outcome) -> str:
            return asked.over(out.cost or 0.0, out.turns or 0) if agent in WATCHED else ""

        code, out = live(words, agent, self.watch, self.ledger.beat, learned, over)
        out.session = chosen if resume else out.session or chosen
        out.begun = out.begun or resume
        if agent in self.custom and code != 0 and not out.error:
            out.error = out.text[-2000:]
        self._count(out.cost, out.turns)
        if self._spent():
            self.ledger.keep(None, None, **self._spent())
        return code, out

    def _failed(self, agent: str, code: int, out: Outcome) -> int:
        """Say why, and keep it; the exit code of the step."""
        why = out.error or out.subtype or f"exit code {code}"
        complain(f"{agent} did not do it: {why}")
        self.ledger.keep(None, None, failed=" ".join(why.split())[:500])
        return code if 0 < code < 256 else 128 - code if code < 0 else 1

    def _not_now(self, agent: str, out: Outcome, after: list[str]) -> tuple[str, str | None, str]:
        """The next agent takes over; where there is none, wait as told, then go on with the same session."""
        why = " ".join((out.why or "it is not there").split())[:200]
        if after:
            complain(f"{agent}: {why}; {after[0]} takes over")
            told = TAKE_OVER.format(agent=agent, why=why, brief=self.ledger.brief())
            return after[0], None, told
        self.waits += 1
        if self.waits > WAITS:
            raise SystemExit(self._failed(agent, 1, out))
        seconds = min(out.wait(time.time()) or self.wait * 2 ** (self.waits - 1), LONGEST)
        complain(f"{agent}: {why}; it goes on in {seconds:.0f} s")
        self.ledger.keep(None, None, waits_for=why)
        self.watch.sleep(seconds, self._beat_now_and_then())
        return agent, out.session if out.begun else None, ""

    def _beat_now_and_then(self) -> Any:
        last = [0.0]

        def beat() -> None:
            if time.monotonic() - last[0] > 20:
                last[0] = time.monotonic()
                self.ledger.beat()

        return beat


def _short(prompt: str) -> str:
    """A prompt that fits on a command line: a longer one is in a file, which the agent is told to read."""
    if len(prompt.encode()) <= LONGEST_WORD:
        return prompt
    path = os.path.join(os.path.dirname(os.environ["LEFTOFF_RESULT"]), "prompt.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(prompt)
    return f"Your task is in the file {path}. Read all of it, and do what it says."


def main() -> int:
    given = os.environ["LEFTOFF_ARGS"]
    if given.startswith("@"):
        with open(given[1:], encoding="utf-8") as file:
            given = file.read()
    ledger = Ledger()
    act = Act(json.loads(given), ledger)
    try:
        result = act.run()
        with open(os.environ["LEFTOFF_RESULT"], "w", encoding="utf-8") as file:
            json.dump(result, file)
        return 0
    except Stopped as stopped:
        return stopped.code
    except LeftoffError as error:
        complain(f"{error.message} {error.hint}")
        return error.exit_code
    finally:
        ledger.desk.close()


if __name__ == "__main__":
    sys.exit(main())
