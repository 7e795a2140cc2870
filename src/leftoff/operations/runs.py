"""Runs: which one a REF names, wherever it is kept; what is known of one, of many, and of where this is."""

from __future__ import annotations

import os

from leftoff.engine.config.project import open_store
from leftoff.model.fields import Fields
from leftoff.operations.reports import current, current_row, this_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeVar

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.read.which import Which
    from leftoff.engine.retention.archive import Kept
    from leftoff.engine.workspace.journal import CutShort
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    T = TypeVar("T")

    class Known(Protocol):
        """A run that was found."""

        @property
        def run(self) -> int: ...
        @property
        def run_id(self) -> str: ...


READS, RESUMES = "reads", "resumes"  # see engine.read.which
_LOOKED_AT = 200  # checkpoints, for a session of the agent


def target(
    project: Project,
    caller: Caller,
    ref: str | None,
    which: Which | None = None,
    *,
    archived: bool = True,
) -> Target:
    """What a REF names; ``@``, or no REF at all, is the run that is meant: ``which`` says that, by default as for a
    verb that reads. An archived run is looked at in a store of its own: whoever changes it takes it back
    (``taken_back``) once nothing stands in the way any more. Not ``archived``: it is not there.

    Where several runs would do and a person is there, they choose.
    """
    from leftoff.errors import Ambiguous

    which = which or current(project, caller, READS)
    text = ref if ref is not None else caller.named
    try:
        found = _resolved(project, text, which, archived=archived)
    except Ambiguous as error:
        picked = caller.pick(error.message, error.listed) if caller.pick is not None and error.runs else None
        if picked is None:
            raise
        found = _resolved(project, _with_base(text, picked), which, archived=archived)
    if ref is not None and caller.named is not None:
        _refuse_two(project, which, ref, found)
    if which.told:
        project.say(which.told)
    return found


def look_up(project: Project, caller: Caller, ref: str | None, which: Which | None = None) -> Target:
    """What a REF names, wherever it is kept; the project's store stays the one that is meant."""
    looks = project.once_more()
    try:
        return target(looks, caller, ref, which)
    finally:
        looks.close()


def name_of(project: Project, caller: Caller, ref: str | None, which: Which | None = None) -> str:
    """The run that a REF names, wherever it is kept."""
    return str(look_up(project, caller, ref, which).row.run_id)


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

    looks, step = project.once_more(), word.removeprefix("/")
    try:
        run = target(looks, caller, None).row.run
        if looks.store.read(lambda view: view.row(run, "step", known_step(view, run, step))) is not None:
            return False
        _resolved(looks, word, current(looks, caller, READS), archived=True)
        return True
    except (NotFound, Usage):
        return False
    finally:
        looks.close()


def run_id_of(project: Project, caller: Caller, word: str) -> str:
    """The run that a word names, for a report on it: an archived one takes none."""
    from leftoff.errors import Usage

    found = target(project, caller, word, current(project, caller), archived=False)
    if found.version is not None:
        raise Usage(f"{word} is one version of run {found.row.run_id}.", hint="Name the run alone.")
    return str(found.row.run_id)


def _resolved(project: Project, text: str | None, which: Which, *, archived: bool) -> Target:
    from leftoff.engine.read.find import resolve
    from leftoff.errors import NoCheckpoint, NotFound

    if text is None:
        return _unnamed(project, which, archived=archived)
    bundle = _archived_id(project.store, text) if archived else None
    current = which.unnamed if text == which.caller.named else which

    def find(store: Store) -> Target:
        return resolve(store, text, current, which.choose)

    if bundle is not None:
        return _look_aside(project, bundle, find)
    try:
        return find(project.store)
    except NoCheckpoint:  # the run is there
        raise
    except NotFound as error:
        from leftoff.engine.retention.archive import find_archived

        bundle = find_archived(project.store, text, which.of_archived) if archived else None
        if bundle is None:
            raise project.explain(error, text) from None
        return _look_aside(project, bundle, find)


def _unnamed(project: Project, which: Which, *, archived: bool) -> Target:
    """The run that is meant where nobody names one."""
    from leftoff.engine.read.find import Target
    from leftoff.engine.write.head import need_store
    from leftoff.errors import NotFound

    need_store(project.store)
    try:
        return Target(project.store.read(which), None)
    except NotFound as error:
        there = _count_archived(project.store)
        if there and which.caller.run is not None:  # the run of the environment may be one of these
            return _resolved(project, which.caller.run, which, archived=archived)
        if there and not error.listed:
            error.hint = f"{there} archived: `leftoff ls --all` lists them, by name they are found."
        raise project.explain(error, "") from None


def _archived_id(store: Store, text: str) -> Kept | None:
    """The run whose id a REF starts with, where that is archived in a bundle: nothing else is meant by it."""
    if not _bundles(store):
        return None
    from leftoff.engine.retention.archive import run_in_archive

    return run_in_archive(store, text)


def _bundles(store: Store) -> list[str]:
    """The files of archived runs, without loading what reads them."""
    folder = store.archive_folder()
    names = os.listdir(folder) if folder is not None and os.path.isdir(folder) else []
    return [name for name in names if name.endswith(".leftoff")]


def _count_archived(store: Store) -> int:
    inside = len(store.read(lambda view: view.archived())) if store.exists() else 0
    return inside + len(_bundles(store))


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


def _look_aside(project: Project, bundle: Kept, find: Callable[[Store], Target]) -> Target:
    """What a REF names in an archived run, which stays where it is."""
    from tempfile import TemporaryDirectory

    from leftoff.engine.retention.archive import take_out
    from leftoff.host import this_process

    folder = TemporaryDirectory(prefix="leftoff-")
    aside = open_store(folder.name + "/.leftoff")
    try:
        take_out(project.store, bundle, aside, project.now, (this_process(), "leftoff"))
        found = find(aside)
    except BaseException:
        aside.close(soon=True)
        folder.cleanup()
        raise
    project.look_aside(aside, folder, bundle.run_id)
    return found


def taken_back(project: Project, found: Target) -> Target:
    """The same in the project's store, into which an archived run comes back: for whoever changes it, once nobody has
    anything against that. ``Moved`` where it is not what was looked at any more."""
    if not project.is_aside:
        return found
    from leftoff.engine.lifecycle.opening import find
    from leftoff.engine.read.find import Target
    from leftoff.engine.retention.archive import run_in_archive, take_out
    from leftoff.engine.write.unmoved import Moved
    from leftoff.host import this_process

    run_id, seen = project.look_back(), found.row
    store = project.store
    bundle = run_in_archive(store, run_id)
    if bundle is not None:  # else somebody was faster
        take_out(store, bundle, store, project.now, (this_process(), "leftoff"))
        project.say(f"leftoff: {run_id} was archived; it is back in the store.")
    row = store.read(lambda view: find(view, run_id))
    if (row.seq, row.digest) != (seen.seq, seen.digest):
        raise Moved(f"Run {row.run_id} went on from version {seen.seq} to {row.seq} meanwhile.")
    return Target(row, found.version)


def tried_first(
    project: Project, found: Target, work: Callable[[Target], T], changed: Callable[[T], bool]
) -> T:
    """Do something to a run. With an archived one it is tried where that is looked at: it comes back only for what
    nothing stands in the way of, and what changes it."""
    done = work(found)
    return work(taken_back(project, found)) if project.is_aside and changed(done) else done


def info(project: Project, row: Known) -> RunInfo:
    """A run as it is now."""
    from leftoff.engine.read.info import run_info
    from leftoff.engine.write.head import gone

    found = run_info(project.store, row.run, project.now, project.limits)
    if found is None:
        raise gone(row.run_id)
    return found


def session_of_agent(project: Project, row: RunRow, agent: str) -> str | None:
    """The latest session of an agent that worked on a run: the one it is bound to, else one of an older version."""
    if row.card.get("agent") == agent and row.session:
        return str(row.session)
    from leftoff.engine.read.state import Reader

    store = project.store

    def look(view: View) -> str | None:
        for version in view.versions(row.run, sealed=True, limit=_LOOKED_AT):
            known = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
            if known.get("agent") == agent and isinstance(known.get("session_id"), str):
                return str(known["session_id"])
        return None

    return store.read(look)


def hand_over(project: Project, row: RunRow, agent: str, session: str | None) -> None:
    """From now on another agent works on a run: a checkpoint says so. ``session``: its own earlier one, if any."""
    from leftoff.engine.write.commit import Seal, Terms
    from leftoff.engine.write.report import report

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        changes.put("run", "agent", agent)
        if session:
            changes.put("run", "session_id", session)
        elif row.session:
            changes.delete("run", "session_id")  # it was another agent's; the new one says its own
        return Seal("manual", note=f"handed over to {agent}")

    report(project.store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor)


# -- many runs


class Wanted(Fields):
    """Which runs to list. ``limit``: at most so many. ``archived``: the archived ones, too. ``sizes``: with the bytes
    that each takes."""

    status: Sequence[str] | None = None
    workflow: str | None = None
    branch: str | None = None
    limit: int | None = None
    archived: bool = False
    sizes: bool = False


class Listed(Fields):
    """Runs, latest first, and whether there are more; the archived ones, as they were listed. ``sizes``: the bytes that
    each takes, by id, where they were asked for. ``aside``: how many are archived and not listed."""

    runs: list[RunInfo]
    more: bool
    archived: list[dict[str, Any]]
    sizes: dict[str, int] = {}
    aside: int = 0

    def to_json(self) -> dict[str, Any]:
        found = [*(run.to_json() for run in self.runs), *self.archived]
        if self.sizes:
            found = [{**about, "bytes": self.sizes.get(about["run_id"], 0)} for about in found]
        return {"runs": found, **({"archived": self.aside} if self.aside else {})}


def check_statuses(words: Sequence[str]) -> None:
    """Each must be the status of a run."""
    from leftoff.errors import Usage
    from leftoff.model.words import RUN_STATUS

    for word in words:
        if word not in RUN_STATUS:
            raise Usage(f"There is no run status {word!r}.", hint=f"Statuses: {', '.join(RUN_STATUS)}.")


def list_runs(project: Project, wanted: Wanted) -> Listed:
    """Runs as listings show them; none where there is no store."""
    from leftoff.engine.read.info import list_info

    limit = None if wanted.limit is None else wanted.limit + 1
    where: dict[str, Any] = {"status": wanted.status, "branch": wanted.branch}

    def listed(**more: Any) -> list[RunInfo]:
        return list_info(project.store, project.now, project.limits, **where, **more)

    found = listed(limit=limit, workflow=wanted.workflow)
    if not found and wanted.workflow is not None:  # written another way; all are looked at for that
        named = listed(name=wanted.workflow)
        found = [run for run in named if _alike(run.workflow, wanted.workflow)][:limit]
    if not found:
        project.point_out()
    shown = found if wanted.limit is None else found[: wanted.limit]
    there = _archived(project, wanted) if wanted.archived else []
    sizes = _sizes(project, shown, there) if wanted.sizes else {}
    # Where asking twice is dear, only who sees no run is told of these.
    asks = not (found and project.store.far)
    aside = _count_archived(project.store) if asks and not wanted.archived else 0
    return Listed(shown, len(found) > len(shown), there, sizes, aside)


def _sizes(project: Project, runs: list[RunInfo], archived: list[dict[str, Any]]) -> dict[str, int]:
    from leftoff.engine.retention.archive import kept, size_of
    from leftoff.engine.retention.disk import run_size

    store = project.store
    sizes = {run.run_id: run_size(store, run.row) for run in runs}
    found = [kept(store, run["run_id"]) for run in archived]
    return sizes | {each.run_id: size_of(store, each) for each in found if each is not None}


def _archived(project: Project, wanted: Wanted) -> list[dict[str, Any]]:
    from leftoff.engine.retention.archive import archived

    return [
        about
        for about in archived(project.store)
        if (wanted.status is None or about["status"] in wanted.status)
        and wanted.branch in (None, about.get("branch"))
        and (wanted.workflow is None or _alike(about.get("workflow") or "", wanted.workflow))
    ]


def _alike(name: str, other: str) -> bool:
    """Names are matched without regard to case."""
    return name.casefold() == other.casefold()


# -- where this is

_TIMED = 10  # runs whose time is told where none is the current one


class Status(Fields):
    """The project, its store, the current run and all that are not finished, at one moment.

    ``why_none``: why there is no current run. ``times``, ``checkpoints``: of the current run, where there is none of
    those that were touched last; the time used, and the newest checkpoint. ``cut_short``: rollbacks that were killed
    before all files were in their place, by run. ``problems``: which files of the protocol could not be kept in step,
    and why. ``trash``: how many runs lie there, and their bytes.
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
    cut_short: dict[str, CutShort]
    problems: list[str]
    checkpoints: dict[str, dict[str, Any]]
    trash: tuple[int, int] = (0, 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "store": self.store,
            "branch": self.branch,
            "git_branch": self.git_branch,
            "current_run": self.current.run_id if self.current is not None else None,
            "time": self.times[self.current.run_id] if self.current is not None else None,
            "times": self.times,
            "checkpoint": self.checkpoints.get(self.current.run_id) if self.current is not None else None,
            "checkpoints": self.checkpoints,
            "half_restored": {run: found.command for run, found in self.cut_short.items()},
            "problems": self.problems,
            "trash": {"runs": self.trash[0], "bytes": self.trash[1]},
            "runs": [run.to_json() for run in self.runs],
        }


def status(project: Project, caller: Caller) -> Status:
    """Where this is."""
    from leftoff.engine.config.git_head import git_branch
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.history import latest
    from leftoff.engine.read.timing import timing
    from leftoff.engine.workspace.journal import cut_short
    from leftoff.model.words import UNFINISHED

    store, folder = project.store, project.folder
    runs = list_runs(project, Wanted(status=UNFINISHED)).runs
    row, why_none = _current_or_why(project, caller)
    current = info(project, row) if row is not None else None
    timed = [current] if current is not None else runs[:_TIMED]
    found = {run.run_id: cut_short(store, folder, run.row.run, run.run_id) for run in runs}
    return Status(
        project=folder,
        store=store.name,
        exists=store.exists(),
        branch=caller.branch,
        git_branch=git_branch(folder),
        runs=runs,
        current=current,
        why_none=why_none,
        times={run.run_id: timing(store, run.row, project.now) for run in timed},
        checkpoints={run.run_id: last for run in timed if (last := latest(store, Target(run.row, None)))},
        cut_short={run_id: short for run_id, short in found.items() if short},
        problems=store.follower.problems() if store.follower is not None else [],
        trash=_in_trash(project),
    )


def _in_trash(project: Project) -> tuple[int, int]:
    """How many runs lie in the trash, and how many bytes they take."""
    from leftoff.engine.retention.trash import contents, size

    there = contents(project.store)
    return len(there), size(project.store, there)


def _current_or_why(project: Project, caller: Caller) -> tuple[RunRow | None, str]:
    """The run that is meant; where nobody named one, there may be none, and why."""
    from leftoff.errors import NotFound, Usage

    try:
        return current_row(project, caller), ""
    except (NotFound, Usage) as error:
        if caller.named or caller.run:
            raise
        return None, error.message


def board(project: Project) -> str:
    """The table of active checkpoints, as the sitebuilder protocol has it."""
    from leftoff.dialects.sitebuilder.board import table

    return table(project.store, project.now, project.limits)
