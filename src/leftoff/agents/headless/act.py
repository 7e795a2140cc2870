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

from leftoff.agents.headless.commands import CHOOSES, Asked, command_of
from leftoff.agents.headless.ledger import Ledger
from leftoff.agents.headless.lines import Outcome
from leftoff.agents.headless.process import NOT_FOUND, Stopped, Watch, complain, live
from leftoff.errors import LeftoffError

CRASHES = 2  # of an agent that are answered by resuming its session, within one try at the step
WAITS = 5  # for a service that says "not now"
WAIT, LONGEST = 60.0, 6 * 3600.0  # seconds, where it does not say how long; at most
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
        opening = ""
        while True:
            code, out = self._once(agent, session, opening)
            opening = ""
            if out.ok or (agent in self.custom and code == 0):
                result = out.to_json(agent)
                self.ledger.done(result)
                return result
            after = self.agents[self.agents.index(agent) + 1 :]
            if out.limited or (code == NOT_FOUND and after):
                agent, session, opening = self._not_now(agent, out, after)
            elif session is not None and not out.begun and not out.ended and 0 < code != NOT_FOUND:
                complain(f"session {session} cannot be resumed; a new one begins")
                session, opening = None, BEGIN_AGAIN.format(brief=self.ledger.brief())
            elif not out.ended and out.session and self.crashes < CRASHES:
                self.crashes += 1
                session = out.session
                complain(f"{agent} ended with exit code {code} in mid-stream; its session is resumed")
            else:
                raise SystemExit(_failed(agent, code, out))

    def _once(self, agent: str, session: str | None, opening: str) -> tuple[int, Outcome]:
        """One life of the agent's process. Its session is on record before it starts, where that can be known."""
        resume = session is not None
        chosen = session or (str(uuid.uuid4()) if agent in CHOOSES else None)
        prompt = (GO_ON if resume else opening) + self.prompt
        words = command_of(agent, prompt, self.asked, self.custom, session=chosen, resume=resume)
        facts = {"agent": agent, "session_id": chosen, "resumed": resume or None}
        note = f"{agent} {'resumes' if resume else 'starts'} {chosen or 'a session'}"
        self.ledger.keep("agent_start", note, **{k: v for k, v in facts.items() if v is not None})

        def learned(found: str) -> None:
            if found != chosen:
                self.ledger.keep(None, None, session_id=found)

        code, out = live(words, agent, self.watch, self.ledger.beat, learned)
        out.session = out.session or chosen
        return code, out

    def _not_now(self, agent: str, out: Outcome, after: list[str]) -> tuple[str, str | None, str]:
        """The next agent takes over; where there is none, wait as told, then go on with the same session."""
        why = " ".join((out.error or "it is not there").split())[:200]
        if after:
            complain(f"{agent}: {why}; {after[0]} takes over")
            told = TAKE_OVER.format(agent=agent, why=why, brief=self.ledger.brief())
            return after[0], None, told
        self.waits += 1
        if self.waits > WAITS:
            raise SystemExit(_failed(agent, 1, out))
        seconds = min(out.wait(time.time()) or self.wait * 2 ** (self.waits - 1), LONGEST)
        complain(f"{agent}: {why}; it goes on in {seconds:.0f} s")
        self.ledger.keep(None, None, waits_for=why)
        self.watch.sleep(seconds, self._beat_now_and_then())
        return agent, out.session, ""

    def _beat_now_and_then(self) -> Any:
        last = [0.0]

        def beat() -> None:
            if time.monotonic() - last[0] > 20:
                last[0] = time.monotonic()
                self.ledger.beat()

        return beat


def _failed(agent: str, code: int, out: Outcome) -> int:
    """Say why; the exit code of the step."""
    why = out.error or out.subtype or f"exit code {code}"
    complain(f"{agent} did not do it: {why}")
    return code if 0 < code < 256 else 128 - code if code < 0 else 1


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
