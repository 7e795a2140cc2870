"""Find runs and look at them: the run that a REF names, listings, `status`, and single records (`get`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leftoff.engine.find import READS, Target, Which, need_store, need_whole, refuse_archived, resolve
from leftoff.engine.lease import gone
from leftoff.engine.run_info import RunInfo, list_info, run_info
from leftoff.engine.run_reader import PROVED, Reader, Value, seen_step
from leftoff.engine.step_lifecycle import known_step
from leftoff.errors import Ambiguous, NotFound, Redacted, Usage
from leftoff.model.ids import parse_ref, step_readings
from leftoff.model.words import COLLECTIONS, RESTORING, RUN_STATUS, UNFINISHED
from leftoff.operations.run_reports import current_row, which_run
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.engine.attention import Glance
    from leftoff.engine.project import Project
    from leftoff.engine.restoring import HalfRestored
    from leftoff.engine.settings import Caller

    class Known(Protocol):
        """A run that was found."""

        @property
        def run(self) -> int: ...
        @property
        def run_id(self) -> str: ...

# -- the run that a REF names


def target(project: Project, caller: Caller, ref: str | None, which: Which | None = None) -> Target:
    """Return what a REF names, be the run active or archived.

    ``@``, or no REF at all, is the run that ``which`` finds, by default as for a verb that reads. If several runs would
    do and a person is there, they choose.
    """
    which = which or which_run(project, caller, READS)
    text = ref if ref is not None else caller.named
    try:
        found = _resolved(project, text, which)
    except Ambiguous as error:
        picked = caller.pick(error.message, error.listed) if caller.pick is not None and error.runs else None
        if picked is None:
            raise
        rest = text[len(parse_ref(text).base) :] if text is not None else ""
        found = _resolved(project, picked + rest, which)
    if ref is not None and caller.named is not None:
        _refuse_two(project, which, ref, found)
    if which.told:
        project.say(which.told)
    return found


def whole_run(project: Project, caller: Caller, ref: str | None, which: Which) -> Target:
    """Return the run that a REF names. Raise ``Usage`` if it names one version."""
    return need_whole(target(project, caller, ref, which), ref if ref is not None else caller.named)


def run_id_of(project: Project, caller: Caller, word: str) -> str:
    """Return the id of the run that a word names, for a report on it. Raise ``NotFound`` if it is archived."""
    row = need_whole(target(project, caller, word, which_run(project, caller)), word).row
    refuse_archived(row)
    return str(row.run_id)


def run_and_step(project: Project, caller: Caller, words: Sequence[str]) -> tuple[str | None, str | None]:
    """Split the words ``[RUN] [STEP]``. One word next to --run is a step, unless only a run has that name."""
    if len(words) == 1 and caller.named is not None and not _only_a_run(project, caller, words[0]):
        return None, words[0]
    return (words[0] if words else None), (words[1] if len(words) > 1 else None)


def _only_a_run(project: Project, caller: Caller, word: str) -> bool:
    """Return whether a word names a run, and no step of the run that ``caller`` named."""
    which, step = which_run(project, caller, READS), word.removeprefix("/")
    try:
        run = _resolved(project, caller.named, which).row.run
        if project.store.read(lambda view: view.row(run, "step", known_step(view, run, step))) is not None:
            return False
        _resolved(project, word, which)
        return True
    except (NotFound, Usage):
        return False


def _resolved(project: Project, text: str | None, which: Which) -> Target:
    """Return what a text names. ``None``: the run that ``which`` finds."""
    try:
        if text is not None:
            current = which.unnamed if text == which.caller.named else which.find
            return resolve(project.store, text, current, which.choose)
        need_store(project.store)
        return Target(project.store.read(which.unnamed), None)
    except NotFound as error:
        if text is None and not error.listed and (there := _count_archived(project.store)):
            error.hint = f"{there} archived: `leftoff status --all` lists them, by name they are found."
        raise project.explain(error) from None


def _refuse_two(project: Project, which: Which, ref: str, found: Target) -> None:
    """Raise ``Usage`` if the REF and --run name different runs."""
    text = which.caller.named
    assert text is not None
    try:
        other = resolve(project.store, text, which.unnamed, which.choose).row.run_id
    except NotFound:
        other = ""
    if other != found.row.run_id:
        named = f"is run {other}" if other else "names nothing"
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


def info_of(project: Project, row: Known) -> RunInfo:
    """Return a run as listings show it, as it is now."""
    found = run_info(project.store, row.run, project.now, project.limits)
    if found is None:
        raise gone(row.run_id)
    return found


# -- listings


class Listed(NamedTuple):
    """Runs, latest first, and whether there are ``more``; then archived runs.

    ``sizes``: the bytes that each takes, by id, if they were asked for. ``aside``: how many runs are archived and not
    listed.
    """

    runs: list[RunInfo]
    more: bool
    archived: list[RunInfo]
    sizes: dict[str, int] = {}
    aside: int = 0

    def to_json(self) -> dict[str, Any]:
        found = [run.to_json() for run in (*self.runs, *self.archived)]
        if self.sizes:
            found = [{**about, "bytes": self.sizes.get(about["run_id"], 0)} for about in found]
        return {"runs": found, **({"archived": self.aside} if self.aside else {})}


def list_project_runs(
    project: Project,
    status: Sequence[str] | None = None,
    workflow: str | None = None,
    branch: str | None = None,
    limit: int | None = None,
    *,
    archived: bool = False,
    sizes: bool = False,
) -> Listed:
    """List runs, none if there is no store. ``archived``: also the archived ones. ``sizes``: with their bytes."""
    for word in status or ():
        if word not in RUN_STATUS:
            raise Usage(f"There is no run status {word!r}.", hint=f"Statuses: {', '.join(RUN_STATUS)}.")
    store, most = project.store, None if limit is None else limit + 1

    def listed(**where: Any) -> list[RunInfo]:
        return list_info(store, project.now, project.limits, status=status, branch=branch, **where)

    def is_wanted(run: RunInfo) -> bool:
        return workflow is None or run.workflow.casefold() == workflow.casefold()

    found = listed(limit=most, workflow=workflow)
    if not found and workflow is not None:  # the name may be written with other capitals
        found = [run for run in listed(name=workflow) if is_wanted(run)][:most]
    if not found:
        project.point_out()
    shown = found if limit is None else found[:limit]
    away = [run for run in listed(archived=True) if is_wanted(run)] if archived else []
    taken: dict[str, int] = {}
    if sizes:
        from leftoff.engine.run_states import run_size

        taken = {run.run_id: run_size(store, run.row) for run in (*shown, *away)}
    # Asking a server twice is slow, so archived runs are counted there only if no run is listed.
    aside = 0 if archived or (found and store.shared) else _count_archived(store)
    return Listed(shown, len(found) > len(shown), away, taken, aside)


def _count_archived(store: SqlStore) -> int:
    return len(store.read(lambda view: view.list_runs({"archived": True}))) if store.exists() else 0


def step_names(project: Project, caller: Caller) -> list[str]:
    """Return the steps of the run that is meant, if there are several of the latest."""
    store, row = project.store, current_row(project, caller, READS)
    return store.read(lambda view: list(Reader(store, view, row.run, row.run_id).raw("step")))


# -- status

_NEEDING = 10  # runs that need a person
_TIMED = 10  # runs whose time is shown if none of them is the current one


class Status(NamedTuple):
    """The project, its store, the current run and all that are not finished, at one moment.

    ``why_none``: why there is no current run. ``times`` (used, estimated, left) and ``checkpoints`` (the newest one):
    of the current run, else of those that were touched last. ``half_restored``: rollbacks that were killed while they
    renamed files, by run. ``problems``: which files of the protocol are out of sync, and why. ``trash``: how many runs
    it has, and their bytes. ``waiting``: how many events of agents are in the spool. ``needs``: the runs that need a
    person, the most urgent first.
    """

    project: str
    store: str
    exists: bool
    branch: str
    git_branch: str | None
    runs: list[RunInfo]
    current: RunInfo | None
    why_none: str
    times: dict[str, dict[str, float | None]]
    half_restored: dict[str, HalfRestored]
    problems: list[str]
    checkpoints: dict[str, dict[str, Any]]
    trash: tuple[int, int] = (0, 0)
    waiting: int = 0
    needs: Sequence[Glance] = ()

    def to_json(self) -> dict[str, Any]:
        from leftoff.engine.attention import wanted

        current = self.current.run_id if self.current is not None else ""
        return {
            "project": self.project,
            "store": self.store,
            "branch": self.branch,
            "git_branch": self.git_branch,
            "current_run": current or None,
            "time": self.times.get(current),
            "times": self.times,
            "checkpoint": self.checkpoints.get(current),
            "checkpoints": self.checkpoints,
            "half_restored": {run: found.command for run, found in self.half_restored.items()},
            "problems": self.problems,
            "trash": {"runs": self.trash[0], "bytes": self.trash[1]},
            "events_waiting": self.waiting,
            "needs_you": [
                {"run_id": seen.info.run_id, "why": seen.why, "what": what, "command": command}
                for seen in self.needs
                for what, command in wanted(seen)
            ],
            "runs": [run.to_json() for run in self.runs],
        }


def status(project: Project, caller: Caller) -> Status:
    """Return where the project stands."""
    from leftoff.engine.attention import needing
    from leftoff.engine.git import git_branch
    from leftoff.engine.history import latest_checkpoint
    from leftoff.engine.restoring import find_half_restored
    from leftoff.engine.run_states import in_trash, removal_size
    from leftoff.engine.show import timing
    from leftoff.engine.spool import Spool

    store = project.store
    runs = list_project_runs(project, UNFINISHED).runs
    current, why_none = None, ""
    try:
        current = info_of(project, current_row(project, caller))
    except (NotFound, Usage) as error:
        if caller.named or caller.run:
            raise
        why_none = error.message
    timed = [current] if current is not None else runs[:_TIMED]
    cut_short = {run.run_id: find_half_restored(store, run.row) for run in runs if RESTORING in run.row.card}
    trashed = [each.row for each in in_trash(store)]
    return Status(
        project=project.folder,
        store=store.name,
        exists=store.exists(),
        branch=caller.branch,
        git_branch=git_branch(project.folder),
        runs=runs,
        current=current,
        why_none=why_none,
        times={run.run_id: timing(store, run.row, project.now) for run in timed},
        checkpoints={
            run.run_id: last for run in timed if (last := latest_checkpoint(store, Target(run.row, None)))
        },
        half_restored={run_id: found for run_id, found in cut_short.items() if found},
        problems=store.follower.problems() if store.follower is not None else [],
        trash=(len(trashed), removal_size(store, trashed)),
        waiting=len(Spool(project.store_folder).names()),
        needs=needing(store, project.now, project.limits, _NEEDING),
    )


# -- single records


def variables(project: Project, caller: Caller) -> dict[str, Any]:
    """Return all variables of the run that is meant."""
    found: dict[str, Any] = _read(project, caller, None, lambda reader: reader.plain("variable"))
    return found


def get(
    project: Project, caller: Caller, name: str, ref: str | None = None, *, redacted: bool = False
) -> Any:
    """Return a variable, or the record that ``COLLECTION/KEY`` names, of the run or version that a REF names.

    A secret was never stored. Reading one raises ``Redacted``, so that no script uses the mark in its place;
    ``redacted``: return the mark.
    """
    from leftoff.model.typed import readable

    collection, _, key = name.partition("/")
    if not key or collection not in COLLECTIONS:
        collection, key = "variable", name
    value: Value = _read(project, caller, ref, lambda reader: _record(reader, collection, key))
    if [] in value.holes and not redacted:
        raise Redacted(
            name, hint="Secrets are not stored. Read it from where it is kept, or allow it in leftoff.toml."
        )
    if collection == "step" and isinstance(value.plain, dict):
        return seen_step(value.plain)
    return readable(value.plain) if collection == "variable" else value.plain


def _read(project: Project, caller: Caller, ref: str | None, look: Callable[[Reader], Any]) -> Any:
    found, store = target(project, caller, ref), project.store
    row, seq = found.row, found.version.seq if found.version is not None else None

    def read(view: View) -> Any:
        now = view.run_row(row.run) if seq is None else None
        if now is not None:
            view.prove(now, PROVED)
        return look(Reader(store, view, row.run, row.run_id, seq))

    return store.read(read)


def _record(reader: Reader, collection: str, key: str) -> Value:
    keys = step_readings(key) if collection == "step" else [key]
    for each in keys:
        value = reader.value(collection, each)
        if value is not None:
            return value
    from difflib import get_close_matches

    known = list(reader.raw(collection))
    near = get_close_matches(key, known, 3, 0.5)
    what = "variable" if collection == "variable" else f"{collection} record"
    some = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    hint = f"It has {some or f'no {what} at all'}."
    raise NotFound(f"The run has no {what} {key}.", hint=f"Did you mean {', '.join(near)}?" if near else hint)
