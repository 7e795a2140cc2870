"""Why no run is found: it is archived, or nobody took in the files of a protocol that lie there. For every face."""

from __future__ import annotations

from leftoff.engine.retention.archive import find_archived, kept
from leftoff.errors import NoCheckpoint, NotFound
from leftoff.model.ids import parse_ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project
    from leftoff.store.base import Store, View


def explain(project: Project, error: NotFound, name: str, view: View | None) -> NotFound:
    """The same error, or one that says more."""
    if isinstance(error, NoCheckpoint):  # the run is there
        return error
    archived = _archived(project.store, name) if name else None
    if archived is not None:
        return NotFound(
            f"Run {archived} is archived.",
            hint=f"`leftoff undelete {archived}` brings it back; `leftoff show {archived}` looks into it.",
        )
    project.point_out(view)
    error.hint = project.store.advice or error.hint
    return error


def _archived(store: Store, name: str) -> str | None:
    """The id of the archived run that a name fits."""
    found = kept(store, parse_ref(name).base) or find_archived(store, name, lambda found, _: found[0])
    return found.run_id if found is not None else None
