"""What resuming would do: for each step run, skip, adopt, reattach or ask, and why."""

from __future__ import annotations

from leftoff.engine.resume.finding import ASK, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, Protocol

    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.finding import Finding
    from leftoff.errors import LeftoffError

    class Lay(Protocol):
        """A run's steps, and those of them that something is done with, in order."""

        @property
        def steps(self) -> Mapping[str, Mapping[str, Any]]: ...

        def leaves(self) -> list[str]: ...


_OF_A_STEP = ("outputs.missing", "outputs.changed", "step.not_idempotent", "step.elsewhere")
_DONE = ("completed", "skipped")


class Wish:
    """What is asked for beyond going on: steps to do once more; the only ones to do (``None``: all that is left).

    ``restart``: what still runs of a step is ended, and the step is done anew. Not ``resumes``: somebody only looks.
    """

    __slots__ = ("only", "repeat", "restart", "resumes")

    def __init__(
        self,
        repeat: Collection[str] = (),
        only: Collection[str] | None = None,
        *,
        restart: bool = False,
        resumes: bool = True,
    ) -> None:
        self.repeat = frozenset(repeat)
        self.only = None if only is None else frozenset(only)
        self.restart = restart
        self.resumes = resumes

    def leaves_out(self, path: str) -> bool:
        """Whether a step is not among those that shall be done now."""
        return self.only is not None and path not in self.only


class Drive:
    """What whoever executes a run knows of it. Of one that somebody only reports on there is nothing to know."""

    problem: LeftoffError | None = None  # why it could not be executed

    @property
    def checks(self) -> tuple[Callable[[World], Iterable[Finding]], ...]:
        return ()

    def wished(self, world: World, wish: Wish) -> Iterable[Finding]:
        """What is found in view of what is asked for."""
        return ()

    def known(self, world: World, wish: Wish) -> Mapping[str, tuple[str, str]]:
        """What becomes of steps that were in flight or decided, and why."""
        return {}

    def lay(self, world: World) -> Lay:
        return world

    def once(self, path: str) -> bool:
        """Whether a step must not simply run a second time."""
        return False


def make_plan(
    lay: Lay, findings: Iterable[Finding], known: Mapping[str, tuple[str, str]], wish: Wish
) -> list[dict[str, Any]]:
    """One entry per leaf step, in declared order. ``known``: what a runner knows of steps that were in flight."""
    asked = {
        finding.subject: finding
        for finding in findings
        if finding.subject is not None and finding.code in _OF_A_STEP and finding.level in (ASK, REFUSE)
    }
    plan, steps = [], lay.steps
    for path in lay.leaves():
        question = asked.get(path)
        action, why = _intent(steps.get(path, {}), question, known.get(path))
        if path in wish.repeat and question is None:
            action, why = "run", "it is to be done once more"
        elif wish.leaves_out(path) and question is None and action in ("run", "ask"):
            action, why = "skip", "it is not among those to be done now"
        plan.append({"step": path, "action": action, "why": why})
    return plan


def _intent(
    record: Mapping[str, Any], asked: Finding | None, known: tuple[str, str] | None
) -> tuple[str, str]:
    status = record.get("status")
    if asked is not None:
        return "ask", asked.message
    if known is not None:
        return ("run" if known[0] == "ask" else known[0]), known[1]  # what was asked about was accepted
    if status in _DONE:
        when = record.get("completed_at")
        return "skip", f"it is {status}" + (f" since {when}" if when else "")
    if status == "failed":
        return "run", f"it failed: {_message(record)}"
    if status == "running":
        return "run", "it was in flight, and nobody knows how it ended"
    if status == "waiting":
        return "ask", f"it waits for {'a decision' if record.get('kind') == 'approval' else 'a person'}"
    if status == "blocked":
        return "ask", f"it is blocked: {_message(record)}"
    return "run", "it is to be done"


def _message(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "no reason was given")


def resume_from(plan: list[dict[str, Any]]) -> str | None:
    """The first step that something would happen to."""
    return next((entry["step"] for entry in plan if entry["action"] != "skip"), None)
