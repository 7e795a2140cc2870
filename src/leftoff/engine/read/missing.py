"""Why no run is found: it is archived, or nobody took in the files of a protocol that lie there. For every face."""

from __future__ import annotations

import os

from leftoff.engine.retention.archive import find_archived, folder_of, kept, unfit_folders
from leftoff.errors import NoCheckpoint, NotFound
from leftoff.model.ids import parse_ref
from leftoff.store.rows import ARCHIVED_IN, BESIDE

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
    known = [*unfit_folders(project.store).values(), out_of_sight(project.store), error.hint]
    error.hint = project.store.advice or " ".join(filter(None, known))
    return error


def out_of_sight(store: Store) -> str:
    """What to know where the archive lies in a folder that is not here, as a sentence."""
    here = folder_of(store)
    if not store.exists() or (here is not None and os.path.isdir(here)):
        return ""
    folder = store.read(lambda view: view.fact(ARCHIVED_IN))
    if not folder or folder == BESIDE:
        return ""
    todo = "mount it" if here is not None else f'mount it, and name it in leftoff.toml: blobs = "{folder}"'
    return f"Archived runs are in {folder}, which cannot be seen from here; {todo}."


def _archived(store: Store, name: str) -> str | None:
    """The id of the archived run that a name fits."""
    found = kept(store, parse_ref(name).base) or find_archived(store, name, lambda found, _: found[0])
    return found.run_id if found is not None else None
