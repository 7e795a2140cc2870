"""Find out which files changed in a turn, by whom, and which of them no hook event has reported."""

from __future__ import annotations

from leftoff.engine.lifecycle.turns import Others, Unclaimed
from leftoff.engine.read.state import Reader
from leftoff.engine.read.which import OPEN_TURN
from leftoff.engine.workspace.file_state import look_at_files
from leftoff.engine.workspace.git import uncommitted
from leftoff.engine.workspace.hook_order import name_of, on_their_way
from leftoff.engine.workspace.tracking import changed_by_others, own_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow


def whose(
    project: Project, own: str, view: View, row: RunRow, names: list[str], busy: set[str]
) -> tuple[list[str], Unclaimed | None]:
    """Of files that changed: those that are the turn's, as the agent told or nobody else was at work; and those that
    are nobody's. What another says it changed since the turn began is neither. ``own``: the session of the turn.
    ``busy``: sessions that were telling something after the files were looked at."""
    store, now = project.store, project.at
    value = Reader(store, view, row.run, row.run_id).value("turn", row.card.get(OPEN_TURN) or "")
    turn = value.plain if value is not None and isinstance(value.plain, dict) else {}
    began = view.version(row.run, turn["seq"]) if isinstance(turn.get("seq"), int) else None
    since = began.at if began is not None else row.updated_at
    doubtful = [name for name in names if name not in (turn.get("files") or ())]
    others = Others(store, view, row, since, now)
    known = {name_of(one) for one in (own, *others.sessions)}
    number = len(others.turns) + len(busy - known)
    if not doubtful or not number:
        return names, None
    claimed = others.claimed | changed_by_others(view, row.run, doubtful, since).keys()
    free = [name for name in doubtful if name not in claimed]
    unclaimed = Unclaimed(free, number) if free else None
    return [name for name in names if name not in doubtful], unclaimed


def add_unreported(
    project: Project, row: RunRow, turn: dict[str, Any], files: list[dict[str, Any]], seconds: float
) -> None:
    """Add to the last turn of a run, as it was read, what a shell changed in it: no event has told of that. Nothing is
    stored. ``files``: those that the run knows. ``seconds``: how long git may take."""
    known = {about.get("path") for about in files} | own_files(project.store)
    seen, dirty = look_at_files(project.folder, files), uncommitted(project.folder, seconds) or []
    names = [*(path for path in dirty if path not in known), *seen.changed, *seen.gone]
    busy = on_their_way(project.store_folder)
    own, free = project.store.read(lambda view: whose(project, row.session or "", view, row, names, busy))
    turn["files"] = list(dict.fromkeys([*(turn.get("files") or ()), *own]))
    if free is not None:
        turn["unclaimed"] = list(dict.fromkeys([*(turn.get("unclaimed") or ()), *free.paths]))
        turn["others"] = free.others
