"""``leftoff.run`` and the other functions of the package: methods of the store of the current project."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Concatenate, ParamSpec, TypeVar

from leftoff.api.store import Store
from leftoff.engine.config import project, settings

P = ParamSpec("P")
R = TypeVar("R")
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


def _of_project(method: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
    """Return a function that calls a method of the project's store, with the method's signature."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> R:
        return method(project_store(), *args, **named)

    call.__wrapped__ = MethodType(method, _stores)  # a bound method, so that `help` shows no self
    call.__module__, call.__qualname__ = __name__, call.__name__
    return call


run = _of_project(Store.run)
start = _of_project(Store.start)
resume = _of_project(Store.resume)
get = _of_project(Store.get)
list = _of_project(Store.list)
fsck = _of_project(Store.fsck)
