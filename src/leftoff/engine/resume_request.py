"""What a user asks for when a run is to continue, and which steps that means."""

from __future__ import annotations

from leftoff.engine.commit import Seal
from leftoff.engine.show import in_order, inner_steps
from leftoff.errors import Conflict, NotFound
from leftoff.hints import Any, Collection, Mapping, NamedTuple
from leftoff.model.ids import ancestors, shown_step, step_word
from leftoff.model.words import FINISHED, in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.find import Target
    from leftoff.engine.run_facts import World

DONE = ("completed", "skipped")


class ResumeRequest(NamedTuple):
    """How a run shall continue. Every face asks in this shape.

    ``target``: the run, and the version to go back to if that is an older one. ``from_step``: this step and every later
    one run again. ``only``: nothing but these steps runs, finished ones again (``None``: all that is left); ``failed``:
    failed steps are among them; ``adds``: those of them that are new, with their records. ``repeat``: single steps that
    run once more. ``variables``: values that are set first. ``accept``: codes of findings that are accepted;
    ``answers``: a choice by code, or by code:subject; ``yes``: the answer to most other questions. ``restart``: a step
    that still runs is ended, not followed. ``workflow``: the definition from now on, if its file was given. ``deep``:
    every file is hashed. Not ``resumes``: the user only looks. ``seen``: the stamp of the questions that were shown, if
    the answers are about those.
    """

    target: Target
    from_step: str | None = None
    only: Collection[str] | None = None
    adds: Mapping[str, dict[str, Any]] = {}
    failed: bool = False
    repeat: frozenset[str] = frozenset()
    variables: Mapping[str, Any] = {}
    accept: Collection[str] = ()
    yes: bool = False
    restart: bool = False
    workflow: Any = None
    deep: bool = False
    resumes: bool = True
    answers: Mapping[str, str] = {}
    seen: str | None = None

    @property
    def goes_on(self) -> bool:
        """Return whether the run only continues from where it is: nothing is set or done again."""
        other = self.from_step is not None or self.only or self.failed or self.repeat or self.variables
        return self.target.version is None and not other

    @property
    def over(self) -> str | None:
        """Return what to say if the run is completed and nothing is to run again."""
        again = self.from_step is not None or self.only or self.repeat
        return nothing_left(self.target) if self.target.row.status == "completed" and not again else None

    @property
    def seq(self) -> int | None:
        """Return the version to go back to, None if the run continues from its head."""
        version = self.target.version
        return version.seq if version is not None and version.seq != self.target.row.seq else None

    def repeated(self, steps: Mapping[str, Any]) -> set[str]:
        """Return all steps that run once more, with the steps that contain them."""
        found = with_outer(steps, self.repeat)
        if self.from_step is not None:
            found |= set(from_step(steps, self.from_step, self.target.row.run_id))
        return found

    def seal(self) -> Seal | None:
        """Return how going back to do steps again is sealed."""
        if self.from_step is not None:
            return Seal("rollback", self.from_step, f"again from {shown_step(self.from_step)}")
        if not self.repeat:
            return None
        single = sorted(self.repeat)
        names = ", ".join(map(shown_step, single[:5]))
        return Seal("rollback", single[0], f"once more: {names}{'…' if len(single) > 5 else ''}")


def nothing_left(target: Target) -> str | None:
    """Return what to say of a finished run, unless an older version of it is meant."""
    row = target.row
    if row.status not in FINISHED or target.version is not None:
        return None
    return f"Run {row.run_id} is {row.status}: nothing is left to do."


class Selection(NamedTuple):
    """The steps that a request means: those that run once more, and the only ones to run (``None``: all)."""

    repeat: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    restart: bool = False
    resumes: bool = True

    def leaves_out(self, path: str) -> bool:
        return self.only is not None and path not in self.only


def select(world: World, request: ResumeRequest) -> Selection:
    """Work out what a request means for the steps of a run."""
    steps, restart = world.steps, request.restart
    if request.from_step is not None:
        repeat = from_step(steps, request.from_step, world.run_id)
        return Selection(frozenset(repeat), restart=restart, resumes=request.resumes)
    named = [*(request.only or ())]
    if request.failed:
        named += [path for path in world.leaves() if steps[path].get("status") == "failed"]
        if not named:
            raise NotFound(
                f"No step of run {world.run_id} has failed.", hint="Leave out --failed to continue."
            )
    if not named:
        return Selection(restart=restart, resumes=request.resumes)
    for step in named:
        from_step(steps, step, world.run_id)  # raises if there is no such step
    wanted = with_outer(steps, named)
    needs = world.needs()
    for path in sorted(wanted):
        for other in needs.get(path, ()):
            status = world.steps.status(other) or "completed"
            if other not in wanted and status not in DONE:
                raise Conflict(
                    f"Step {shown_step(path)} needs {shown_step(other)}, which {in_words(status)}.",
                    hint=f"Name it too: --only {step_word(other)} {step_word(path)}",
                )
    done = {path for path in named if steps.get(path, {}).get("status") in DONE}
    again = with_outer(steps, done) & set(world.leaves()) if done else ()
    return Selection(frozenset(again), frozenset(wanted), restart, request.resumes)


def from_step(steps: Mapping[str, Any], step: str, run_id: str) -> list[str]:
    """Return the step, the steps below it, every later one in declared order, and the steps that contain it."""
    ordered = in_order(steps)
    first = next((i for i, path in enumerate(ordered) if path == step or path.startswith(step + "/")), None)
    if first is None:
        named = ", ".join(map(shown_step, ordered[:20])) or "none yet"
        raise NotFound(f"Run {run_id} has no step {shown_step(step)}.", hint=f"Its steps: {named}.")
    return [path for i, path in enumerate(ordered) if i >= first or step.startswith(path + "/")]


def with_outer(steps: Mapping[str, Any], some: Collection[str]) -> set[str]:
    """Return these steps, the steps below them, and the steps that contain them."""
    wanted = set(some)
    outer = inner_steps(wanted)
    return {path for path in steps if path in outer or not wanted.isdisjoint((path, *ancestors(path)))}
