"""Files of a run: `track` them, read them as they were (`cat`), bring them back (`restore`, `rollback`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from leftoff.engine.commit import Guard
from leftoff.engine.continue_run import go_back
from leftoff.engine.file_versions import WHY_NOT_KEPT, FileThen
from leftoff.engine.find import READS, Deciding, Fit, Target, need_only_carrier
from leftoff.engine.history import file_records
from leftoff.engine.project import Project
from leftoff.engine.project_files import check_path, given_path
from leftoff.engine.restoring import Agree, RestoreOutcome, RestorePlan, Restorer, last_good
from leftoff.engine.run_info import RunInfo
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import Caller
from leftoff.engine.tracking import look_at_git, track_given
from leftoff.errors import LeftoffError, NotFound, Usage
from leftoff.host import Process
from leftoff.model.changes import ChangeSet
from leftoff.model.words import UNFINISHED
from leftoff.operations.run_reports import (
    check_free,
    current_row,
    guard_of,
    report_run,
    session_of_caller,
    which_run,
)
from leftoff.operations.runs import info_of, say_active_again, target
from leftoff.operations.workflow_runs import end_steps_of, is_driven
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow
from leftoff.workflow.stop_run import left_running

_SHOWN = 5

EndSteps = Callable[[str, dict[str, list[Process]]], bool]


def track_files(project: Project, caller: Caller, paths: list[str], *, git: bool = False) -> dict[str, Any]:
    """Record files as they are now, in one commit. ``git``: every file that git calls dirty."""
    looked = current_row(project, caller)  # before anything is stored for a run that does not exist
    workspace = project.workspace()
    found = look_at_git(workspace, looked) if git else track_given(workspace, looked, paths)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if found.news(Reader(project.store, tx, row.run, row.run_id), row.seq):
            found.put(changes, row.seq + 1)

    done = report_run(project, caller, make, row=looked, blobs=found.blobs)
    return {**done.to_json(), "files": [got.about for got in found.captured]}


def file_at(project: Project, caller: Caller, ref: str | None, path: str) -> FileThen:
    """Return a file as a version has it. ``path``: relative to the project, or with ./ to the current folder."""
    here = path.startswith(("./", "../", "/"))
    path = given_path(project.folder, path) if here else check_path(path, "REF:PATH")
    found = target(project, caller, ref)
    try:
        return FileThen(project.store, project.folder, found, path)
    except NotFound:
        if ref is None:
            _refuse_version(project, caller, path, "leftoff cat {}:PATH")
        raise


def _refuse_version(project: Project, caller: Caller, word: str, example: str) -> None:
    """Raise ``Usage`` if a word names a version: then the file is missing."""
    try:
        found = target(project, caller, word)
    except LeftoffError:
        return
    raise Usage(
        f"A file is missing: {word} names a version of {found.row.run_id}.",
        hint=f"Name the file as well: {example.format(word)}",
    )


def restorer_of(project: Project, caller: Caller, found: Target, guard: Guard | None = None) -> Restorer:
    """Return what brings files back to a version. ``guard``: of the process that drives the run."""
    now, guard = project.clock.now, guard or guard_of(caller)
    return Restorer(project.store, project.folder, project.redactor, now, found, caller.session, guard)


# -- single files


def restore_words(project: Project, caller: Caller, words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words `[REF] PATH…`: the first of several is a REF, unless a file of that name is there or known."""
    first, *others = words
    if os.path.lexists(first):
        return None, words
    if "@" not in first and "~" not in first:
        path = given_path(project.folder, first)
        try:
            known = current_row(project, caller, READS)
        except NotFound:
            known = None
        if known is not None and path in file_records(project.store, known.run, known.run_id, known.seq):
            return None, words
    if others:
        return first, others
    _refuse_version(project, caller, first, "leftoff restore {} PATH")
    return None, words


def restore_files(
    project: Project, caller: Caller, ref: str | None, given: list[str], agree: Agree
) -> tuple[RunInfo, int, RestoreOutcome]:
    """Bring single files back to a version, by default to the latest checkpoint that has all of them.

    Return the run, how many files were named, and what was done. ``given``: paths from the current folder. Raise
    ``NotFound`` if one cannot be as it was; the others are restored.
    """
    paths = list(dict.fromkeys(given_path(project.folder, path) for path in given))
    found = target(project, caller, ref, which_run(project, caller) if ref is not None else None)
    if ref is None:
        row = found.row
        for version in project.store.read(lambda view: view.versions(row.run, sealed=True)):
            known = file_records(project.store, row.run, row.run_id, version.seq)
            if all(path in known and known[path].get("status") != "deleted" for path in paths):
                found = Target(row, version)
                break
        else:
            named = paths[0] if len(paths) == 1 else f"all of {', '.join(paths)}"
            hint = f"`leftoff show {row.run_id} --files` lists what it has; `leftoff track PATH` remembers a file."
            raise NotFound(f"No checkpoint of {row.run_id} has {named}.", hint=hint)
        ref = f"{found.row.run_id}@{found.seq}"
        project.say(f"leftoff: from {ref}, the latest checkpoint that has it.")
    project.move_to_worktree(found.row)
    done = restorer_of(project, caller, found).restore(paths, agree)
    say_active_again(project, found.row)
    if done.done and done.plan.lost:
        raise _lost(done.plan, ref, "Whatever else was named is restored.")
    return info_of(project, found.row), len(paths), done


def _lost(plan: RestorePlan, ref: str, rest: str) -> NotFound:
    """Return the error for files that cannot be as they were. ``rest``: what was done all the same."""
    names = "; ".join(f"{entry.path} ({entry.why})" for entry in plan.lost[:_SHOWN])
    more = f" and {len(plan.lost) - _SHOWN} more" if len(plan.lost) > _SHOWN else ""
    return NotFound(f"Not restored from {ref}: {names}{more}.", hint=f"{WHY_NOT_KEPT} {rest}")


# -- a whole version


class Rollback(NamedTuple):
    """Where to go back to. ``good``: the newest checkpoint, up to there, without a failed step or an unmet criterion.
    ``files``: also restore tracked files."""

    ref: str | None = None
    good: bool = False
    files: bool = False


class RolledBack(NamedTuple):
    """The run, the version that it is back at, and what was done with files. ``done``: False if the user said no."""

    run: RunInfo
    target: Target
    outcome: RestoreOutcome | None = None
    done: bool = True

    @property
    def changed(self) -> bool:
        """Return False if the run was there already, and every file as it was then."""
        completed = self.outcome is not None and self.outcome.completed
        return completed or self.run.row.seq != self.target.row.seq

    @property
    def lost(self) -> NotFound | None:
        """Return an error if no file could be brought back, though some are not as they were."""
        plan = self.outcome.plan if self.outcome is not None and self.done else None
        if plan is None or not plan.lost or plan.touched:
            return None
        ref = f"{self.run.run_id}@{self.target.seq}"
        return _lost(plan, ref, "The run itself is back there; no file was changed.")

    def to_json(self) -> dict[str, Any]:
        files = {"files": self.outcome.to_json()} if self.outcome is not None else {}
        return {**self.run.to_json(), **files}


class RollbackPlan(NamedTuple):
    """The version a rollback goes to, what it does with files if it is asked to, which steps it ends first."""

    target: Target
    files: RestorePlan | None
    running: dict[str, list[Process]]


def plan_rollback(project: Project, caller: Caller, request: Rollback) -> RollbackPlan:
    """Return what a rollback would do. Nothing is changed."""
    found = _back_to(project, caller, request)
    plan = restorer_of(project, caller, found).plan(None) if request.files else None
    return RollbackPlan(found, plan, left_running(project.store, found.row, project.store_folder))


def _back_to(project: Project, caller: Caller, request: Rollback) -> Target:
    fit = Fit(
        lambda view, row: row.status in UNFINISHED,
        "is unfinished",
        "could be meant",
        "rollback RUN@SEQ",
        strict=False,
    )
    found, ref = target(project, caller, request.ref, Deciding(caller, project.now, fit)), request.ref
    if ref is not None:
        project.store.read(lambda view: need_only_carrier(view, ref, found))
    project.move_to_worktree(found.row)
    return last_good(project.store, found) if request.good else found


def rollback_run(
    project: Project, caller: Caller, request: Rollback, end_steps: EndSteps, agree: Agree
) -> RolledBack:
    """Go back to an older version of a run. ``end_steps`` asks whether steps that run without a driver are ended, as no
    file is restored while one of them still writes."""
    found = _back_to(project, caller, request)
    if is_driven(project, found.row):
        check_free(project, caller, found)
        running = left_running(project.store, found.row, project.store_folder)
        if running and not end_steps(found.row.run_id, running):
            return RolledBack(info_of(project, found.row), found, done=False)
        if running:
            end_steps_of(project, found.row)
    outcome = None
    if request.files:
        outcome = restorer_of(project, caller, found).rollback(agree)
    else:
        session, guard = session_of_caller(project, caller), guard_of(caller)
        go_back(project.store, found, project.now, session=session, guard=guard)
    say_active_again(project, found.row)
    return RolledBack(info_of(project, found.row), found, outcome, outcome is None or outcome.done)
