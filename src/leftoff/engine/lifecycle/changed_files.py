"""Find out which files changed in a turn, by whom, and which of them no hook event has reported."""

from __future__ import annotations

from typing import Any

from leftoff.engine.config.project import Project
from leftoff.engine.lifecycle.spool import Spool
from leftoff.engine.lifecycle.turns import RUNNING, Unclaimed, last_turn
from leftoff.engine.read.find import OPEN_TURN
from leftoff.engine.read.state import Reader
from leftoff.engine.workspace.file_state import look_at_files
from leftoff.engine.workspace.git import uncommitted
from leftoff.engine.workspace.tracking import changed_by_others, own_files
from leftoff.engine.write.lease import state as lease_state
from leftoff.host import ALIVE
from leftoff.model.words import UNFINISHED
from leftoff.store.base import View
from leftoff.store.rows import RunRow

_OTHERS = 200  # runs that are read for other sessions that are at work


def whose(
    project: Project, own: str, view: View, row: RunRow, names: list[str], busy: set[str]
) -> tuple[list[str], Unclaimed | None]:
    """Return the changed files that are the turn's, and those that another session may have changed.

    The turn's are those that its agent reported, and all if no other session was at work since the turn began. A file
    that another session reported is neither. ``own``: the session of the turn. ``busy``: sessions that had an event
    waiting after the files were looked at.
    """
    value = Reader(project.store, view, row.run, row.run_id).value("turn", row.card.get(OPEN_TURN) or "")
    turn = value.plain if value is not None and isinstance(value.plain, dict) else {}
    began = view.version(row.run, turn["seq"]) if isinstance(turn.get("seq"), int) else None
    since = began.at if began is not None else row.updated_at
    doubtful = [name for name in names if name not in (turn.get("files") or ())]
    others = _turns_of_others(project, view, row, since) if doubtful else []
    number = len(others) + len(busy - {str(other.get("session")) for other in others} - {own})
    if not doubtful or not number:
        return names, None
    claimed = {path for other in others for path in other.get("files") or ()}
    claimed |= changed_by_others(view, row.run, doubtful, since).keys()
    free = [name for name in doubtful if name not in claimed]
    unclaimed = Unclaimed(free, number) if free else None
    return [name for name in names if name not in doubtful], unclaimed


def _turns_of_others(project: Project, view: View, row: RunRow, since: int) -> list[dict[str, Any]]:
    """Return the turns of other sessions that are running, or ended after a moment.

    A run without turns is a workflow's. Most often the agent itself has started it in its shell.
    """
    found = []
    for other in view.list_runs({}, _OTHERS):
        if other.run == row.run or (other.session and other.session == row.session):
            continue
        if other.updated_at < since:
            is_open = other.status in UNFINISHED
            if not is_open or lease_state(view.lease(other.run), project.at) not in (ALIVE, "unknown"):
                continue
        key, turn = last_turn(Reader(project.store, view, other.run, other.run_id))
        if turn and turn.get("status") != RUNNING:
            ended = view.record(other.run, "turn", key)
            version = view.version(other.run, ended.seq) if ended is not None else None
            if version is None or version.at < since:
                continue
        if turn:
            found.append(turn)
    return found


def add_unreported(
    project: Project, row: RunRow, turn: dict[str, Any], files: list[dict[str, Any]], seconds: float
) -> None:
    """Add to the last turn of a run, as it was read, what a shell changed in it: no event has reported that. Nothing is
    stored. ``files``: those that the run knows. ``seconds``: how long git may take."""
    known = {about.get("path") for about in files} | own_files(project.store)
    seen, dirty = look_at_files(project.folder, files), uncommitted(project.folder, seconds) or []
    names = [*(path for path in dirty if path not in known), *seen.changed, *seen.gone]
    busy = Spool(project.store_folder).sessions()
    own, free = project.store.read(lambda view: whose(project, row.session or "", view, row, names, busy))
    turn["files"] = list(dict.fromkeys([*(turn.get("files") or ()), *own]))
    if free is not None:
        turn["unclaimed"] = list(dict.fromkeys([*(turn.get("unclaimed") or ()), *free.paths]))
        turn["others"] = free.others
