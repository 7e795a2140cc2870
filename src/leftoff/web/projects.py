"""What is served: one folder or several, each with its store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from leftoff.errors import NotFound
from leftoff.model.fields import Fields
from leftoff.model.ids import slug
from leftoff.operations import Project


class Served(Fields):
    """A project that is served. ``key``: its name in URLs. ``name``: as people read it. ``store``: where its store is,
    where somebody said."""

    key: str
    name: str
    folder: str
    store: str | None = None

    @contextmanager
    def open(self) -> Iterator[Project]:
        """The project, for one request: its settings and its store may have changed since the last one."""
        project = Project(self.folder, self.store, say=_nobody_listens)
        try:
            yield project
        finally:
            project.close(soon=True)


class Projects:
    """All that is served, by key, in the order in which it was named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._served = {one.key: one for one in served}

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    def __len__(self) -> int:
        return len(self._served)

    def of(self, key: str) -> Served:
        """The project of that key."""
        found = self._served.get(key)
        if found is None:
            raise NotFound(f"No project {key!r} is served here.", hint="The home page lists those that are.")
        return found


def serve_folders(folders: Sequence[str], store: str | None = None) -> Projects:
    """Folders to serve, each once. Two of the same name are told apart by a number."""
    served: dict[str, Served] = {}
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders):
        name = os.path.basename(folder) or folder
        key = base = slug(name)
        number = 1
        while key in served:
            number += 1
            key = f"{base}-{number}"
        served[key] = Served(key, name, folder, store)
    return Projects([*served.values()])


def serve_stores(folder: str, stores: Mapping[str, str]) -> Projects:
    """Projects of one server, by name, with what opens each. ``folder``: where this machine would work on them."""
    found = [
        Served(slug(name or "leftoff"), name or "leftoff", folder, store) for name, store in stores.items()
    ]
    return Projects(found)


def _nobody_listens(text: str) -> None:
    """Talk beside the work has no place on a page."""
