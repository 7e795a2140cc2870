"""Retention: which runs go, by the rules or because somebody says so; into the archive, into the trash, and back."""

from __future__ import annotations

import os

from leftoff.engine.read.which import Deciding, Fit
from leftoff.errors import Conflict, LeftoffError, NotFound, Usage
from leftoff.model.fields import Fields
from leftoff.model.words import in_words
from leftoff.operations.runs import target, tell_gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.retention import Pruned
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.retention.archive import Archived
    from leftoff.engine.retention.trash import InTrash
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow


def prune(project: Project, *, dry: bool = False, empty: bool = False) -> Pruned:
    """Let go what the rules no longer keep; with ``empty`` all that lies in the trash, too. ``dry``: only say what that
    is."""
    from leftoff.dialects.retention import Upkeep

    return Upkeep(project).prune(dry=dry, empty=empty)


def withdraw_files(project: Project, *, dry: bool = False) -> Pruned:
    """Take the protocol's files out of the project, for whoever shares it; the store keeps everything."""
    from leftoff.dialects.retention import Pruned

    follower = project.store.follower
    if follower is None:
        raise NotFound(
            "This project keeps no protocol's files.", hint="`leftoff init --dialect D` would set that up."
        )
    done = Pruned(dry)
    for path in follower.withdraw(dry=True):
        info = os.lstat(os.path.join(project.folder, path))
        done.removed.append({"kind": "file", "action": "remove", "path": path})
        done.freed += info.st_blocks * 512
    if not dry:
        follower.withdraw()
    return done


def by_itself(project: Project) -> None:
    """Retention once a day, where the project wants it. Never on verbs that agents call often."""
    if not (project.settings.section("retention") or project.settings.section("mirror")):
        return
    from leftoff.dialects.retention import Upkeep

    try:
        Upkeep(project).by_itself()
    except (LeftoffError, OSError) as error:
        project.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")


# -- one run


def archive(
    project: Project, caller: Caller, ref: str | None = None, before: Callable[[RunRow], None] | None = None
) -> Archived:
    """Move a run that is over into the archive; the files of a protocol go where that archives them. One that is in it
    stays as it is. ``before``: what is done to it first, once nothing stands in the way."""
    from leftoff.dialects.retention import Upkeep
    from leftoff.engine.retention.archive import already
    from leftoff.engine.retention.policy import IN_PROGRESS

    over = Fit(
        lambda view, row: row.status not in IN_PROGRESS, "is over", "are over", among=None, by_name=True
    )
    found = target(project, caller, ref, Deciding(caller, project.now, over))
    run_id = found.row.run_id
    if found.version is not None:
        raise Usage(f"{ref} is one version of run {run_id}.", hint=f"leftoff archive {run_id}")
    if project.is_aside and (there := already(project.own_store, run_id)) is not None:
        return there
    _refuse_unfinished(found.row)
    if before is not None:
        before(found.row)
    try:
        return Upkeep(project).archive(found.row, _refuse_unfinished)
    except NotFound:  # somebody was faster
        there = already(project.store, run_id)
        if there is None:
            raise
        return there


def _refuse_unfinished(row: RunRow) -> None:
    from leftoff.engine.retention.policy import IN_PROGRESS

    if row.status in IN_PROGRESS:
        raise Conflict(
            f"Run {row.run_id} {in_words(row.status)}; only a finished run can be archived.",
            hint=f"`leftoff finish --run {row.run_id}` ends it.",
        )


class Removed(Fields):
    """The run that is gone, how many bytes that gave back, measured on disk, and how many go within the hour: somebody
    else has the store open, and may still read them."""

    run_id: str
    freed: int
    waiting: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"removed": [self.run_id], "bytes_freed": self.freed, "bytes_waiting": self.waiting}


def remove(
    project: Project, caller: Caller, ref: str | None, agree: Callable[[RunRow], bool]
) -> Removed | None:
    """Remove a run for good, an archived one with its bundle; ``None`` where somebody did not agree to it. One that
    went on meanwhile is asked about again."""
    from leftoff.engine.retention.prune import check_removable
    from leftoff.engine.write.unmoved import until_unmoved

    store = project.store
    any_run = Fit(lambda view, row: True, "could be removed", "could be removed", among=None, by_name=True)

    def work() -> Removed | None:
        found = target(project, caller, ref, Deciding(caller, project.now, any_run))
        row = found.row
        if found.version is not None:
            raise Usage(
                f"{ref} is one version of run {row.run_id}; rm removes a whole run.",
                hint=f"`leftoff rm {row.run_id}` removes all of it.",
            )
        if project.store is not store:
            return _remove_archived(project, store, row, agree)
        check_removable(project.store, row.run_id, project.now)
        return remove_run(project, row) if agree(row) else None

    return until_unmoved(work)


def _remove_archived(
    project: Project, store: Store, row: RunRow, agree: Callable[[RunRow], bool]
) -> Removed | None:
    """``store``: where it is archived; the project has the archived run's instead."""
    from leftoff.engine.retention import archive

    try:
        return Removed(row.run_id, archive.remove(store, project.archived)) if agree(row) else None
    finally:
        store.close(soon=True)


def remove_run(project: Project, row: RunRow) -> Removed:
    """Remove a run that somebody decided about already."""
    from leftoff.dialects.retention import one_thread
    from leftoff.engine.retention.disk import disk_use, given_back
    from leftoff.engine.retention.prune import remove

    store = project.store
    before = disk_use(store.folder)
    freed = remove(store, row.run_id, project.now, row)
    freed += store.sweep(thorough=False, at_once=one_thread())
    waiting = disk_use(os.path.join(store.folder, "trash"))
    return Removed(row.run_id, given_back(store, before, freed), waiting)


# -- back from the trash


def trash(project: Project) -> list[InTrash]:
    """What retention removed, and can be brought back."""
    from leftoff.engine.retention.trash import contents

    tell_gone(project)
    return contents(project.store)


def undelete(project: Project, ref: str) -> RunInfo:
    """Bring a run back that retention removed."""
    from leftoff.engine.lifecycle.opening import find
    from leftoff.engine.retention.trash import undelete
    from leftoff.host import this_process
    from leftoff.operations.runs import info

    store = project.store
    run_id = undelete(store, ref, project.now, (this_process(), "leftoff undelete"))
    row = store.read(lambda view: find(view, run_id))
    return info(project, row)
