"""What a checkpoint says of the world around a run: the files it knows as they are by now, git, its issue."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.workspace.tracking import Found
    from leftoff.model.changes import ChangeSet
    from leftoff.store.rows import BlobRow, RunRow


class Surroundings(Fields):
    """What was seen. ``dirty``: what git calls so, where that was looked at. ``issue``: as `context` records."""

    head: str | None
    files: Found | None
    dirty: list[str] | None
    issue: dict[str, Any]

    @property
    def blobs(self) -> list[BlobRow]:
        return self.files.blobs if self.files is not None else []

    def put(self, row: RunRow, changes: ChangeSet) -> None:
        """Into the change set of the commit that seals."""
        from leftoff.engine.workspace.surroundings import remember_git

        remember_git(self.head, row, changes, self.dirty)
        for key, value in self.issue.items():
            changes.put("context", key, value)
        if self.files is not None:
            self.files.put(changes, row.seq + 1)


def look_around(project: Project, row: RunRow, *, dirty: bool = False, issue: bool = False) -> Surroundings:
    """Look at the world for a checkpoint of a run, before the transaction that seals it.

    ``dirty``: also at what is not committed. ``issue``: also at its issue.
    """
    from leftoff.engine.config.git_head import git_head
    from leftoff.engine.workspace.surroundings import dirty_paths

    return Surroundings(
        git_head(project.folder),
        _files(project, row),
        dirty_paths(project.folder) if dirty else None,
        project.issue_snapshot(row.issue, row.card.get("git_branch")) if issue else {},
    )


def _files(project: Project, row: RunRow) -> Found | None:
    """The files that the run knows, as they are by now; ``None`` where it knows none."""
    store = project.store
    # Where asking costs less than the code that looks.
    asks_twice = not (project.settings.capture.git or store.far)
    if asks_twice and not store.read(lambda view: view.hashes(row.run, "file")):
        return None
    from leftoff.engine.workspace.tracking import for_checkpoint

    return for_checkpoint(project.workspace(), row)
