"""The world around a run: the commit that git has checked out, and the files that the run knows."""

from __future__ import annotations

from leftoff.engine.project import git_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.changes import ChangeSet
    from leftoff.store.rows import RunRow


def remember_git(project: str, row: RunRow, changes: ChangeSet) -> None:
    """A checkpoint remembers the commit that it was made on."""
    head = git_head(project)
    if head is not None and head != row.card.get("git_head"):
        changes.put("run", "git_head", head)
