"""``python -m leftoff.agents.agent_step``: do an agent step, in a new process.

It continues where an earlier try stopped. A session that had begun is resumed by its id; if the agent refuses that, a
new one begins with the brief. If a service says "not now", the next agent takes over, or the step waits as long as the
service says. The step's limits hold for all of that together.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from typing import Any, NamedTuple

from leftoff.agents.adapters import Adapter, StepWishes, adapter, session_named
from leftoff.agents.agent_outcome import MISUSED, Outcome
from leftoff.agents.agent_process import NOT_FOUND, AgentLife, AgentStopped, SignalWatch, complain
from leftoff.clock import iso
from leftoff.engine.project import Project
from leftoff.engine.quoting import ends, quoted
from leftoff.engine.settings import Caller
from leftoff.errors import LeftoffError
from leftoff.operations.agent_steps import AgentStep

_OPTIONS = re.compile(r"^usage:", re.IGNORECASE | re.MULTILINE)  # below what was wrong, all that is right
_FULL, _LAST = 4000, 500  # characters of why: where it was called in the wrong way, and of any other failure
CRASHES = 2  # of an agent that are answered by resuming its session, within one try at the step
GUESSED, TOLD = 5, 100  # how often a service is waited for: where it does not say how long, and where it does
WAIT, LONGEST = 60.0, 8 * 86400.0  # seconds, where it does not say how long; at most, if it says a week
_SECRET = {"redacted": True}  # what stands in a record for a secret
_RAISE = "Raise `{}` in the workflow file, then resume."
WHY = 1200  # characters of what kept a step from its end: its checks, or its agent, said so
GO_ON = (
    "You were interrupted. Continue the task where you left off, and do not repeat what is done. "
    "The task was:\n\n"
)
NOT_YET = (
    "The task is not done yet: {why} Continue where you left off, and do not repeat what is done. "
    "The task was:\n\n"
)
BEGIN_AGAIN = (
    "Somebody worked on this before and was interrupted. Check what is there before you build on it, and do not "
    "repeat what is done. {why}What is known:\n\n{brief}\n\nThe task:\n\n"
)
TAKE_OVER = (
    "Another agent, {agent}, worked on this and cannot continue ({why}). Check what it did before you build on it, "
    "and do not repeat what is done. {said}What is known:\n\n{brief}\n\nThe task:\n\n"
)


class Spent:
    """What the lives of a step's agents have used up, as far as they reported it.

    ``total``: what the session ``of`` had cost when it last reported that. Claude continues to count if a session is
    resumed, so a life took what is new since then.
    """

    def __init__(self, known: Any) -> None:
        about = known if isinstance(known, dict) else {}
        self.cost: float | None = about.get("cost_usd")
        self.turns: int | None = about.get("turns")
        self.total: float = about.get("total_usd") or 0.0
        self.of: str | None = about.get("of")

    def add(self, out: Outcome) -> None:
        cost = out.cost if out.cost is not None else self._since(out)
        if out.total is not None:
            self.total, self.of = out.total, out.session
        if cost is not None:
            self.cost = round((self.cost or 0.0) + cost, 6)
        if out.turns is not None:
            self.turns = (self.turns or 0) + out.turns

    def _since(self, out: Outcome) -> float | None:
        if out.total is None or out.session != self.of or out.total < self.total:
            return out.total
        return out.total - self.total

    def to_json(self) -> dict[str, Any]:
        about = {"cost_usd": self.cost, "turns": self.turns}
        return {key: value for key, value in about.items() if value is not None}

    def record(self) -> dict[str, Any] | None:
        """Return it as the step's record has it, for the next life."""
        return (self.to_json() | ({"total_usd": self.total, "of": self.of} if self.of else {})) or None


class Next(NamedTuple):
    """How an agent is started next: which one, in which session, with which opening.

    ``kept``: an earlier session of the same agent, which counts until the new one has begun.
    """

    agent: str
    session: str | None  # to be resumed; a new one where there is none
    opening: str
    kept: str | None = None


class Failed(Exception):
    """The step is not done: why, and the exit code."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.why = why
        self.code = code if 0 < code < 256 else 128 - code if code < 0 else 1


class Act:
    """One try at a step."""

    def __init__(self, given: dict[str, Any], step: AgentStep) -> None:
        self.agents: list[str] = given["agents"]
        self.prompt: str = given["prompt"]
        self.asked = StepWishes.of(given)
        self.given = given
        self.adapters = {name: adapter(name, given.get("custom") or {}) for name in self.agents}
        self.wait = float(given.get("wait") or WAIT)
        self.step = step
        self.watch = SignalWatch()
        self.crashes = self.guessed = self.told = 0
        self.begun: set[str | None] = set()  # sessions that are known to be there
        self.spent = Spent(None)
        self.before: list[dict[str, str]] = []  # the agents that could not continue, and why
        self.last = Outcome()
        for each in self.adapters.values():
            each.check(given)

    def run(self) -> dict[str, Any]:
        """Do it and return the result of the step."""
        known = self.step.known()
        why = self.step.failure(known) if known else ""
        if known.get("done"):
            left = self.step.outcome(known)
            if left is not None:  # nobody lived to take it in
                print("it had ended already, and left its result", flush=True)
                _leave_variables(known.get("variables"))
                return left
            if not why:
                known = {}  # it was taken in, and the step is to be done once more
        self.spent = Spent(known.get("spent"))
        self.before = known.get("before") or []
        then = self._first(known, why)
        while True:
            code, out = self._once(then)
            own = self.adapters[then.agent].is_template and code == 0 and not out.ended
            if own or out.done(code):
                return self._done(then.agent, out)
            then = self._after(then, code, out)

    def _first(self, known: dict[str, Any], why: str) -> Next:
        """Continue where an earlier try stopped, else from the start."""
        before = known.get("agent")
        agent: str = before if before in self.agents else self.agents[0]
        own = known if agent == before and self.adapters[agent].resumes else {}
        session, kept = session_named(own.get("session_id")), session_named(own.get("kept"))
        if session or kept:
            told = NOT_YET.format(why=quoted(why, WHY)) if why else GO_ON
            return Next(agent, session or kept, told, kept if session else None)
        return Next(agent, None, self._again(why) if known else "")

    def _after(self, then: Next, code: int, out: Outcome) -> Next:
        """Return what to do after a life that did not end well."""
        agent, how = then.agent, self.adapters[then.agent]
        session = out.session if how.resumes else None
        after = self.agents[self.agents.index(agent) + 1 :]
        if out.limited or (code == NOT_FOUND and after):
            return self._not_now(then, session, out, after)
        if then.session is not None and out.refused:
            return self._refused(then)
        own = how.is_template and code > 0  # its exit code is all that it says
        misused = not own and out.misused(code, how.misuses)
        if out.ended or own or misused or code == NOT_FOUND or self.crashes > CRASHES:
            raise Failed(_why(how, code, out), code)
        self.crashes += 1
        if self.crashes > CRASHES:
            if then.session is None or then.session in self.begun or out.out_of_reach:
                raise Failed(_why(how, code, out), code)
            return self._refused(then)  # it never came as far as to say why
        ended, kept = f"{agent} ended with exit code {code} in mid-stream", None if out.begun else then.kept
        if session is None:
            complain(f"{ended}; a new session begins")
            return Next(agent, None, self._again(""), kept)
        complain(f"{ended}; its session is resumed")
        return Next(agent, session, GO_ON, kept)

    def _refused(self, then: Next) -> Next:
        """The agent rejected the session id. Retry with the previous id, else start a new session with the brief."""
        if then.kept:
            complain(f"session {then.session} cannot be resumed; {then.kept} is tried")
            return Next(then.agent, then.kept, GO_ON)
        complain(f"session {then.session} cannot be resumed; a new one begins")
        return Next(then.agent, None, self._again(""), then.session)

    def _again(self, why: str) -> str:
        said = f"It is not done yet: {quoted(why, WHY)} " if why else ""
        return BEGIN_AGAIN.format(brief=self.step.brief(), why=said)

    def _once(self, then: Next) -> tuple[int, Outcome]:
        """Run one life of the agent's process. Its session is recorded before it starts, if it is known by then."""
        agent, how, resume = then.agent, self.adapters[then.agent], then.session is not None
        asked = self._left(how)
        chosen = then.session or (str(uuid.uuid4()) if how.chooses else None)
        call = how.call(then.opening + self.prompt, asked, session=chosen, resume=resume)
        note = f"{agent} {'resumes' if resume else 'starts'} {chosen or 'a session'}"
        spent = self.spent.record()
        facts = {"agent": agent, "session_id": chosen, "resumed": resume or None, "kept": then.kept}
        self.step.keep("agent_start", note, **facts, spent=spent, before=self.before or None)

        def begun(found: str | None) -> None:
            new = found if not resume and found != chosen else None  # one that is resumed keeps its id
            if new or then.kept:
                self.step.keep(None, None, kept=None, **({"session_id": new} if new else {}))

        def limit(out: Outcome) -> str:
            return self._over(how, asked, out)

        life = AgentLife(how, self.watch, self.step.beat, begun, limit)
        self.last = out = life.out
        code = life.run(call)
        out.session = chosen if resume else out.session or chosen
        self.begun |= {out.session} if out.begun else set()
        self.spent.add(out)
        return code, out

    # -- limits

    def _left(self, how: Adapter) -> StepWishes:
        """Return what is left of the step's limits."""
        left: dict[str, Any] = {}
        if self.asked.turns is not None:
            left["turns"] = self.asked.turns - (self.spent.turns or 0)
        if self.asked.budget is not None:
            left["budget"] = round(self.asked.budget - (self.spent.cost or 0.0), 6)
        for name, what in (("turns", "turns"), ("budget", "USD")):
            if name in left and left[name] <= 0:
                raise Failed(f"{how.name} does not continue: {_used_up(name, what, self.asked)}", 1)
        return how.asked(self.given, **left)

    def _over(self, how: Adapter, left: StepWishes, out: Outcome) -> str:
        """Return why an agent must not continue whose own command line has no such limit; empty if it may."""
        if "turns" in how.counted and left.turns and (out.turns or 0) > left.turns:
            return _used_up("turns", "turns", self.asked)
        if "budget" in how.counted and left.budget and (out.cost or 0.0) >= left.budget:
            return _used_up("budget", "USD", self.asked)
        return ""

    # -- waiting, handing over

    def _not_now(self, then: Next, session: str | None, out: Outcome, after: list[str]) -> Next:
        """Let the next agent take over. If there is none, wait as told, then continue the same session."""
        agent = then.agent
        why = " ".join((out.said or out.subtype or "a rate limit").split())[:200]
        if after:
            complain(f"{agent}: {why}; {after[0]} takes over")
            said = ends(self.step.project.redactor.mask(" ".join(out.shown)), 600)
            self.before.append({"agent": agent, "why": why, "at": iso(self.step.project.now), "said": said})
            last = f"Its last words: {quoted(said, 610)}. " if said else ""
            told = TAKE_OVER.format(agent=agent, why=quoted(why, WHY), said=last, brief=self.step.brief())
            return Next(after[0], None, told)
        told_wait = out.wait(time.time())
        self.guessed, self.told = self.guessed + (told_wait is None), self.told + (told_wait is not None)
        if self.guessed > GUESSED or self.told > TOLD:
            raise Failed(_why(self.adapters[agent], 1, out), 1)
        seconds = min(self.wait * 2 ** (self.guessed - 1) if told_wait is None else told_wait, LONGEST)
        complain(f"{agent}: {why}; it continues in {seconds:.0f} s")
        until = iso(self.step.project.now + int(seconds * 1000))
        self.step.keep(None, None, waits_for=why, waits_until=until, spent=self.spent.record())
        self.watch.sleep(seconds, self.step.beat)
        if not out.begun:
            return then  # nobody was told anything yet
        return Next(agent, session, GO_ON) if session else Next(agent, None, self._again(""))

    # -- the end

    def _done(self, agent: str, out: Outcome) -> dict[str, Any]:
        """Record that the agent is done, before its process may be forgotten."""
        about = {
            "agent": agent,
            "session_id": out.session,
            "result": out.text,
            "subtype": out.subtype or None,
        }
        result = {key: value for key, value in about.items() if value is not None} | self.spent.to_json()
        left = {"outcome": result, "variables": self.step.variables(Caller().variables_file or "")}
        self.step.keep(None, None, done=True, **left, spent=self.spent.record())
        return result

    def failed(self, why: str) -> dict[str, Any]:
        """Return the step's error: why, and what it took so far."""
        spent = self.spent.to_json()
        known = self.step.known()
        if known:
            self.step.keep(None, None, failed=why, spent=self.spent.record())
        about = {"subtype": self.last.subtype or None, **spent}
        about |= {name: known.get(name) for name in ("agent", "session_id")}
        return {"message": why, **{key: value for key, value in about.items() if value is not None}}


def _used_up(name: str, what: str, asked: StepWishes) -> str:
    return f"its {getattr(asked, name)} {what} are used up. {_RAISE.format(name)}"


def _why(how: Adapter, code: int, out: Outcome) -> str:
    """Return why an agent did not do it, in one line."""
    said = out.error or out.subtype or out.warned
    if out.misused(code, how.misuses):  # the text is: notices, the reason, the usage
        told = _OPTIONS.split(said, maxsplit=1)[0].strip()
        lines = list(dict.fromkeys(told.splitlines()))
        said = told if MISUSED.search(told) else " ".join([*lines[-1:], *lines[:-1]])
        said = " ".join(said.split())[:_FULL]
    else:
        said = " ".join(said.split())[-_LAST:]
    if out.subtype and out.subtype not in ("success", said):
        said = f"{out.subtype}: {said}"
    limit = {"error_max_turns": "turns", "error_max_budget_usd": "budget"}.get(out.subtype)
    more = f". {_RAISE.format(limit)}" if limit else ""
    return f"{how.name} did not do it: {said or f'it ended with exit code {code}'}{more}"


def main() -> int:
    caller = Caller()
    given = caller.arguments or ""
    if given.startswith("@"):
        with open(given[1:], encoding="utf-8") as file:
            given = file.read()
    project = Project(caller.project or os.getcwd(), caller.store)
    try:
        act = Act(json.loads(given), AgentStep(project, caller))
        try:
            return _leave(act.run(), 0)
        except Failed as failed:
            complain(failed.why)
            return _leave(act.failed(failed.why), failed.code)
    except AgentStopped as stopped:
        return stopped.code
    except LeftoffError as error:
        why = f"{error.message} {error.hint}"
        complain(why)
        return _leave({"message": why}, error.exit_code)
    finally:
        project.close()


def _leave(about: dict[str, Any], code: int) -> int:
    """Write the result, or what failed; return the exit code."""
    with open(Caller().result_file or "", "w", encoding="utf-8") as file:
        json.dump(about, file)
    return code


def _leave_variables(known: Any) -> None:
    """Take over the variables of a try that was not recorded. A secret among them was not kept."""
    if not isinstance(known, dict):
        return
    kept = {name: value for name, value in known.items() if value != _SECRET}
    if len(kept) < len(known):
        complain(f"{len(known) - len(kept)} of its variables are secret, and were not kept: set them again")
    with open(Caller().variables_file or "", "w", encoding="utf-8") as file:
        file.write(json.dumps(kept) + "\n")


if __name__ == "__main__":
    sys.exit(main())
