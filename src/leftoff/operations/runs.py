"""Find the run that a REF names."""

from __future__ import annotations

from leftoff.operations.reports import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target, Which
    from leftoff.engine.read.info import RunInfo
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

    class Known(Protocol):
        """A run that was found."""

        @property
        def run(self) -> int: ...
        @property
        def run_id(self) -> str: ...


READS, RESUMES = "reads", "resumes"  # see engine.read.find


def target(project: Project, caller: Caller, ref: str | None, which: Which | None = None) -> Target:
    """Return what a REF names, be the run active or archived. ``@``, or no REF at all, is the run that ``which`` finds,
    by default as for a verb that reads.

    If several runs would do and a person is there, they choose.
    """
    from leftoff.errors import Ambiguous

    which = which or current(project, caller, READS)
    text = ref if ref is not None else caller.named
    try:
        found = _resolved(project, text, which)
    except Ambiguous as error:
        picked = caller.pick(error.message, error.listed) if caller.pick is not None and error.runs else None
        if picked is None:
            raise
        found = _resolved(project, _with_base(text, picked), which)
    if ref is not None and caller.named is not None:
        _refuse_two(project, which, ref, found)
    if which.told:
        project.say(which.told)
    return found


def whole_run(project: Project, caller: Caller, ref: str | None, which: Which) -> Target:
    """The run that a REF names, for what is about all of it: one version of it is not meant."""
    from leftoff.engine.read.find import need_whole

    return need_whole(target(project, caller, ref, which), ref if ref is not None else caller.named)


def run_and_step(project: Project, caller: Caller, words: Sequence[str]) -> tuple[str | None, str | None]:
    """What was named of ``[RUN] [STEP]``. One word beside ``--run`` is a step; where that run has no such step and the
    word names a run, a run was named twice."""
    if len(words) == 1 and caller.named is not None and not _only_a_run(project, caller, words[0]):
        return None, words[0]
    return (words[0] if words else None), (words[1] if len(words) > 1 else None)


def _only_a_run(project: Project, caller: Caller, word: str) -> bool:
    """Whether a word names a run, and no step of the run that ``caller`` named."""
    from leftoff.engine.steps.reports import known_step
    from leftoff.errors import NotFound, Usage

    which, step = current(project, caller, READS), word.removeprefix("/")
    try:
        run = _resolved(project, caller.named, which).row.run
        if project.store.read(lambda view: view.row(run, "step", known_step(view, run, step))) is not None:
            return False
        _resolved(project, word, which)
        return True
    except (NotFound, Usage):
        return False


def run_id_of(project: Project, caller: Caller, word: str) -> str:
    """Return the id of the run that a word names, for a report on it. Raise ``NotFound`` if it is archived."""
    from leftoff.engine.read.find import need_whole, refuse_archived

    row = need_whole(target(project, caller, word, current(project, caller)), word).row
    refuse_archived(row)
    return str(row.run_id)


def _resolved(project: Project, text: str | None, which: Which) -> Target:
    """Return what a text names. ``None``: the run that ``which`` finds."""
    from leftoff.engine.read.find import Target, resolve
    from leftoff.engine.write.head import need_store
    from leftoff.errors import NotFound

    try:
        if text is not None:
            current = which.unnamed if text == which.caller.named else which.find
            return resolve(project.store, text, current, which.choose)
        need_store(project.store)
        return Target(project.store.read(which.unnamed), None)
    except NotFound as error:
        if text is None and not error.listed and (there := count_archived(project.store)):
            error.hint = f"{there} archived: `leftoff ls --all` lists them, by name they are found."
        raise project.explain(error) from None


def count_archived(store: Store) -> int:
    """Return how many runs are archived."""
    return len(store.read(lambda view: view.list_runs({"archived": True}))) if store.exists() else 0


def _with_base(text: str | None, run_id: str) -> str:
    """A REF with a run's id in the place of what could have been several."""
    from leftoff.model.ids import parse_ref

    return run_id if text is None else run_id + text[len(parse_ref(text).base) :]


def _refuse_two(project: Project, which: Which, ref: str, found: Target) -> None:
    """Two different runs must not be named."""
    from leftoff.engine.read.find import resolve
    from leftoff.errors import NotFound, Usage

    text = which.caller.named
    assert text is not None
    try:
        other = resolve(project.store, text, which.unnamed, which.choose).row.run_id
    except NotFound:
        other = ""
    if other != found.row.run_id:
        named = f"is run {other}" if other else "names nothing beside it"
        raise Usage(
            f"Two runs are named: {ref} is of run {found.row.run_id}, and --run {text} {named}.",
            hint="Nothing was changed. Name one of them, positionally or with --run.",
        )


def say_active_again(project: Project, row: RunRow) -> None:
    """Tell the user that a run left the archive. ``row``: the run as it was found."""
    if row.is_archived:
        now = project.store.read(lambda view: view.run_row(row.run))
        if now is not None and not now.is_archived:
            project.say(f"leftoff: {row.run_id} was archived; it is back in the store.")


def info(project: Project, row: Known) -> RunInfo:
    """A run as it is now."""
    from leftoff.engine.read.info import run_info
    from leftoff.engine.write.head import gone

    found = run_info(project.store, row.run, project.now, project.limits)
    if found is None:
        raise gone(row.run_id)
    return found
