"""Trust that a person gives: what a project would run or lead outside, shown; then remembered, listed, taken back."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config import trust
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.project import open_store, store_home
from leftoff.engine.config.settings import tables_of
from leftoff.engine.lifecycle.origin import agree, agreed, disagree, may_run
from leftoff.engine.read.find import Target
from leftoff.files import ID_FILE, write_private
from leftoff.model.fields import Fields
from leftoff.model.words import UNFINISHED
from leftoff.store import folder_of
from leftoff.workflow.recovery.workflow_checks import definitions_of, what_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.config.trust import Item, Remembered
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow


class Run(Fields):
    """An unfinished run that was imported, and all that its workflow would run."""

    row: RunRow
    path: str
    commands: list[str]
    content: str


class Trust(Fields):
    """What of a project needs trust: the settings that have it, and those that do not; and runs that do not.
    ``home``: the work tree that its store is in; ``of_store``: what is asked about that."""

    project: str
    given: list[Item]
    asked: list[Item]
    runs: list[Run]
    home: str
    of_store: list[Item]

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "items": [
                {**item.to_json(), "trusted": trusted}
                for trusted, items in ((True, self.given), (False, self.asked))
                for item in items
            ],
            "runs": [
                {"run_id": run.row.run_id, "path": run.path, "commands": run.commands} for run in self.runs
            ],
        }


def look(project: Project) -> Trust:
    """What in the project would run a command or lead outside of it."""
    folder = project.folder
    tables = tables_of(folder)
    home, links = _links(folder, tables)
    items = trust.items_of(folder, tables)
    of_store = [] if CALLER.trusts(folder) else trust.not_trusted(home, links)
    asked = [*trust.not_trusted(folder, items), *of_store]
    runs = _runs(project) if not of_store and not CALLER.trusts(folder) else []
    given = [item for item in (*items, *links) if item not in asked]
    return Trust(folder, given, asked, runs, home, of_store)


def _links(folder: str, tables: dict[str, Any]) -> tuple[str, list[Item]]:
    """The work tree that the store is in, and what of that place needs trust."""
    named = tables.get("store")
    home, store = store_home(folder, folder_of(named) if isinstance(named, str) else None)
    return home, trust.store_items(home, store)


def _runs(project: Project) -> list[Run]:
    """Return the imported runs of workflow files that the user has not agreed to."""
    if not project.store.exists():
        return []
    found = []
    for row in project.store.read(lambda view: view.list_runs({"status": UNFINISHED}, None)):
        definitions = definitions_of(project, Target(row, None))
        new = definitions.new if definitions is not None else None
        if definitions is not None and new is not None and not may_run(project.store, row, new.digest):
            found.append(Run(row, definitions.path, what_runs(project.store, row, new), new.digest))
    return found


def give(project: Project, asked: Trust) -> None:
    """Store that the user has seen it and said yes."""
    for item in asked.asked:
        if item.does == trust.UNKNOWN:
            store_id = item.value or _name_store(item.target)
            trust.know_store(os.path.dirname(item.target), store_id, trusted=True)
        else:
            trust.remember(asked.home if item in asked.of_store else project.folder, item, iso(project.now))
    project.forget_settings()
    for run in asked.runs:
        agree(project.store, run.row, run.content)


def _name_store(folder: str) -> str:
    """Return the id of a store that has no file with its id, and write that file."""
    store = open_store(folder)
    try:
        store_id = str(store.about()["store_id"])
    finally:
        store.close()
    write_private(os.path.join(folder, ID_FILE), [f"{store_id}\n".encode()])
    return store_id


def given() -> list[Remembered]:
    """All that this user trusts, in every project."""
    return trust.remembered()


def take_back(project: Project) -> tuple[list[Remembered], list[str]]:
    """Trust nothing of this project any more: its store, its settings, imported runs. Damaged files go too."""
    runs = _distrust_runs(project)
    here, (home, links) = os.path.realpath(project.folder), _links(project.folder, tables_of(project.folder))
    forgotten = _forget_store(project.folder)
    found = [
        known
        for known in trust.remembered()
        if known.item is None
        or known.project == here
        or (known.item in links and known.project == os.path.realpath(home))
    ]
    for known in found:
        trust.forget(known)
    project.forget_settings()
    return [*found, *forgotten], runs


def _forget_store(folder: str) -> list[Remembered]:
    named = tables_of(folder).get("store")
    home, store = store_home(folder, folder_of(named) if isinstance(named, str) else None)
    path = os.path.join(home, store)
    item = trust.Item(store, trust.id_of(path), trust.UNKNOWN, path)
    gone = trust.forget_store(os.path.dirname(path), item.value)
    return [trust.Remembered(gone[0], home, item)] if gone else []


def _distrust_runs(project: Project) -> list[str]:
    """Forget what the user agreed to, of archived and trashed runs, too: they may come back."""
    if trust.not_trusted(*_links(project.folder, tables_of(project.folder))) or not project.store.exists():
        return []

    def find(view: View) -> list[RunRow]:
        unseen = [*view.archived(), *(each.row for each in view.trashed())]
        return [row for row in [*view.list_runs({}, None), *unseen] if agreed(view, row) is not None]

    def forget(tx: Tx) -> None:
        for row in theirs:
            disagree(tx, row)

    theirs = project.store.read(find)
    if theirs:
        project.store.write(forget)
    return [row.run_id for row in theirs]
