"""Stores as a whole: what one is, checking it, bringing its schema up to date, copying all of one into another."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config.project import blobs_folder, open_store, without_password
from leftoff.errors import NotFound, Usage
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.fsck import FsckReport


class StoreInfo(Fields):
    """Where a store is, whether it is there, what it says of itself; and where facts of this machine about it lie."""

    store: str
    exists: bool
    about: dict[str, Any]
    folder: str

    def to_json(self) -> dict[str, Any]:
        return {"store": self.store, "exists": self.exists, **self.about, "folder": self.folder}


class Copied(Fields):
    """From where to where, how many rows of each table, and what was checked in the end."""

    source: str
    target: str
    copied: dict[str, int]
    checked: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {"from": self.source, "to": self.target, "copied": self.copied, "checked": self.checked}


class BackedUp(Fields):
    """A store, the folder of its backup, and the number of runs."""

    store: str
    folder: str
    runs: int

    def to_json(self) -> dict[str, Any]:
        return {"store": self.store, "backup": self.folder, "runs": self.runs}


def info(project: Project) -> StoreInfo:
    """What the project's store is."""
    project.takes_in_edits = False
    store = project.store
    about = store.about()
    if about.get("created_at") is not None:
        about["created_at"] = iso(about["created_at"])
    return StoreInfo(store.name, store.exists(), about, store.folder)


def projects_beside(project: Project) -> dict[str, str]:
    """All projects that are kept where the store is, with what opens each; none where it was named."""
    project.takes_in_edits = False
    return project.store.siblings()


def fsck(
    project: Project, *, repair: bool = False, counted: Callable[[dict[str, int]], None] | None = None
) -> FsckReport:
    """Check every page, record, version and blob. ``repair``: set damage aside, and keep what is whole. ``counted``:
    who is told how much was looked at so far."""
    from leftoff.engine.retention.fsck import fsck
    from leftoff.engine.retention.prune import sweep

    project.takes_in_edits = False  # what others did to a protocol's files waits: the store may be damaged
    project.store.counted = counted
    found = fsck(project.store, repair=repair)
    if repair:
        sweep(project.store)
    return found


def migrate(project: Project) -> StoreInfo:
    """Bring the schema of the project's store up to date."""
    project.takes_in_edits = False
    if not project.store.exists():
        raise NotFound(f"There is no store at {project.store.name}.", hint="The first write makes one.")
    project.store.migrate()
    return info(project)


def backup(project: Project, folder: str) -> BackedUp:
    """Copy one snapshot of the project's store into a new folder, while others write."""
    project.takes_in_edits = False
    full = os.path.abspath(folder)
    project.store.backup(full)
    saved = open_store(full, project.clock)
    try:
        return BackedUp(project.store.name, full, saved.about()["runs"])
    finally:
        saved.close()


def copy(
    project: Project, source: str, target: str, tell: Callable[[str, int, int], None] | None = None
) -> Copied:
    """Copy everything of one store into another that is empty, while nobody drives a run."""
    from leftoff.store.store_copy import copy_store

    blobs = blobs_folder(project.folder, project.settings)
    old, new = (open_store(each, project.clock, blobs) for each in (source, target))
    if old.name == new.name:
        raise Usage(f"{old.name} cannot be copied into itself.", hint="Name two stores.")
    try:
        done = copy_store(old, new, tell)
    finally:
        old.close()
        new.close()
    return Copied(old.name, new.name, done["copied"], done["checked"])


def passed_on(word: str) -> str:
    """A word of a command line; where it is a store's URL with a password, or an option with one, without it."""
    option, mark, url = word.partition("=") if word.startswith("--store=") else ("", "", word)
    return f"{option}{mark}{without_password(url)}"
