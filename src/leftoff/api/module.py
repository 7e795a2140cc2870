"""``leftoff.run`` and its sisters: the verbs of the module, on the project's own store.

Their words are the store's own, and go there as they are.
"""

from __future__ import annotations

import builtins
import os
from typing import TYPE_CHECKING, Any

from leftoff.api.store import Store
from leftoff.engine.config import project, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.api.read import RunView
    from leftoff.api.run import Run
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.retention.fsck import FsckReport

_stores: dict[tuple[int, str, str], Store] = {}


def open(location: str | os.PathLike[str] | None = None) -> Store:
    """A store by its folder or URL (left out: the project's own). It need not exist yet: the first write creates it."""
    if location is None:
        return project_store()
    text = project.absolute(os.fspath(location))
    home = os.path.dirname(text) if os.path.basename(text) == project.FOLDER else project.find_project()
    return Store(text, home)


def project_store() -> Store:
    """The store of the project that the current folder belongs to."""
    home = project.find_project()
    location = project.store_location(home, configured=settings.load(home).store)
    key = (os.getpid(), home, location)
    if key not in _stores:
        _stores[key] = Store(location, home)
    return _stores[key]


def run(
    workflow: str,
    *,
    title: str | None = None,
    steps: Sequence[Any] = (),
    branch: str | None = None,
    issue: str | int | None = None,
    variables: dict[str, Any] | None = None,
    take_over: bool = False,
    accept: Sequence[str] = (),
) -> Run:
    """Go on with the latest unfinished run of this workflow, in spite of the findings in ``accept``, or start one."""
    return project_store().run(**locals())


def start(
    workflow: str,
    *,
    title: str | None = None,
    steps: Sequence[Any] = (),
    branch: str | None = None,
    issue: str | int | None = None,
    run_id: str | None = None,
    variables: dict[str, Any] | None = None,
) -> Run:
    """Always a new run."""
    return project_store().start(**locals())


def resume(
    ref: str | None = None, *, branch: str | None = None, take_over: bool = False, accept: Sequence[str] = ()
) -> Run:
    """Go on with an unfinished run: the latest one, or what ``ref`` names, in spite of the findings in ``accept``."""
    return project_store().resume(**locals())


def get(ref: str) -> RunView:
    """A run to look at, by any REF."""
    return project_store().get(ref)


def list(**where: Any) -> builtins.list[RunInfo]:
    """Runs of the project's store, latest first, by the same words as ``Store.list``."""
    return project_store().list(**where)


def fsck(*, repair: bool = False) -> FsckReport:
    """Check the project's store."""
    return project_store().fsck(repair=repair)
