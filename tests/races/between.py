"""Two halves of one operation, and somebody who does something between them.

The second one works through handles of its own, as another process would; it comes exactly once, right after (or right
before) a function that stands at the seam.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.opening import open_run
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.host import this_process
from leftoff.operations.run_reports import add_note
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import succeed


class Seam:
    """Lets somebody act right after, or before, the first calls of a function that is named by its module."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def after(self, where: str, act: Callable[[], Any], times: int = 1) -> None:
        self._wrap(where, act, times, before=False)

    def before(self, where: str, act: Callable[[], Any], times: int = 1) -> None:
        self._wrap(where, act, times, before=True)

    def _wrap(self, where: str, act: Callable[[], Any], times: int, *, before: bool) -> None:
        module, _, name = where.rpartition(".")
        try:
            owner: Any = importlib.import_module(module)
        except ModuleNotFoundError:
            above, _, kind = module.rpartition(".")
            owner = getattr(importlib.import_module(above), kind)
        real, left = getattr(owner, name), times

        def wrapped(*words: Any, **named: Any) -> Any:
            nonlocal left
            due, left = left > 0, left - 1
            if due and before:
                act()
            done = real(*words, **named)
            if due and not before:
                act()
            return done

        self._patch.setattr(owner, name, wrapped)


def note(folder: Path, run_id: str, text: str = "in between") -> None:
    """A report by somebody else, as `leftoff note` makes it."""
    project = Project(str(folder))
    add_note(project, Caller(named=run_id), text)
    project.close()


def taken_up(folder: Path, run_id: str) -> None:
    """Somebody drives the run from now on, and has not committed yet."""
    store = SqliteStore(str(folder / ".leftoff"))
    open_run(store, run_id, store.clock.now(), driver=(this_process(), "somebody"))
    store.close()


def notes(folder: Path, ref: str) -> list[str]:
    """The notes of a run, wherever it is."""
    return [
        about["text"] for about in succeed("show", ref, "--json", cwd=folder).json["records"]["note"].values()
    ]


@contextmanager
def here(folder: Path) -> Iterator[Project]:
    """The project, for one call."""
    project = Project(str(folder))
    try:
        yield project
    finally:
        project.close()
