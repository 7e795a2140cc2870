"""Finding runs: which one a REF names, wherever it is kept, and taking an archived one back."""

from __future__ import annotations

import os

from leftoff.engine.config.project import open_store
from leftoff.operations.reports import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, TypeVar

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.read.which import Which
    from leftoff.engine.retention.archive import Kept
    from leftoff.store.base import Store

    T = TypeVar("T")

    class Known(Protocol):
        """A run that was found."""

        @property
        def run(self) -> int: ...
        @property
        def run_id(self) -> str: ...


READS, RESUMES = "reads", "resumes"  # see engine.read.which


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


def whole_run(project: Project, caller: Caller, ref: str | None, which: Which) -> Target:
    """The run that a REF names, for what is about all of it: one version of it is not meant."""
    from leftoff.engine.read.which import need_whole

    return need_whole(target(project, caller, ref, which), ref if ref is not None else caller.named)


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
    from leftoff.engine.read.which import need_whole

    found = target(project, caller, word, current(project, caller), archived=False)
    return str(need_whole(found, word).row.run_id)


def _resolved(project: Project, text: str | None, which: Which, *, archived: bool) -> Target:
    if text is None:
        return _unnamed(project, which, archived=archived)
    if not archived:
        return _named(project, text, which, archived=False)
    from leftoff.engine.write.unmoved import until_unmoved

    # An archived run may be taken out before it was looked at.
    return until_unmoved(lambda: _named(project, text, which, archived=True))


def _named(project: Project, text: str, which: Which, *, archived: bool) -> Target:
    from leftoff.engine.read.find import resolve
    from leftoff.errors import NoCheckpoint, NotFound

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
    from leftoff.engine.read.which import need_whole
    from leftoff.engine.write.head import need_store
    from leftoff.errors import NotFound

    need_store(project.store)
    try:
        return Target(project.store.read(which), None)
    except NotFound as error:
        there = count_archived(project.store)
        exported = which.caller.run
        if there and exported is not None:  # the run of the environment may be one of these
            return need_whole(_resolved(project, exported, which, archived=archived), exported)
        if there and not error.listed:
            error.hint = f"{there} archived: `leftoff ls --all` lists them, by name they are found."
        raise project.explain(error, "") from None


def _archived_id(store: Store, text: str) -> Kept | None:
    """The run whose id a REF starts with, where that is archived: nothing else is meant by it."""
    if not _bundles(store) and not _is_shelved(store, text):
        return None
    from leftoff.engine.retention.archive import run_in_archive

    return run_in_archive(store, text)


def _is_shelved(store: Store, text: str) -> bool:
    """Whether a store that has no folder for them keeps that run as an archived one."""
    if store.archive_folder() is not None or not store.exists():
        return False
    from leftoff.model.ids import parse_ref
    from leftoff.store.rows import ARCHIVED

    row = store.read(lambda view: view.find_run(parse_ref(text).base, hidden=True))
    return row is not None and row.hidden == ARCHIVED


def _bundles(store: Store) -> list[str]:
    """The files of archived runs (no links), without loading what reads them."""
    folder = store.archive_folder()
    if folder is None or not os.path.isdir(folder):
        return []
    with os.scandir(folder) as there:
        return [
            each.name
            for each in there
            if each.name.endswith(".leftoff") and each.is_file(follow_symlinks=False)
        ]


def count_archived(store: Store) -> int:
    """How many runs are archived, in bundles or in the store itself."""
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
    project.look_aside(aside, folder, bundle)
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


def tell_gone(project: Project) -> None:
    """Say which archived runs, or that all of them, and which in the trash, are gone from their places."""
    from leftoff.engine.retention.archive import unfit_folders
    from leftoff.engine.retention.archive_check import gone_from_archive

    for wrong in unfit_folders(project.store).values():
        project.say(f"leftoff: {wrong} `leftoff fsck` tells more.")
    for run_id in gone_from_archive(project.store):
        project.say(f"leftoff: the bundle of the archived run {run_id} is gone. `leftoff fsck` tells more.")
