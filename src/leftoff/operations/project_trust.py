"""Show, give and take back the user's trust in a project: its store, its settings, imported runs."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine import settings as trust
from leftoff.engine.find import Target
from leftoff.engine.imported_runs import agree, agreed, disagree, may_run
from leftoff.engine.project import Project, open_store_at, store_home
from leftoff.engine.settings import CALLER, Remembered, TrustItem, tables_of
from leftoff.files import ID_FILE, write_private
from leftoff.model.words import UNFINISHED
from leftoff.store import folder_of
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow
from leftoff.workflow.workflow_checks import definitions_of


class UntrustedRun(NamedTuple):
    """An unfinished run that was imported, and the lines of its workflow."""

    row: RunRow
    path: str
    commands: list[str]
    content: str


class Trust(NamedTuple):
    """What of a project needs trust: the settings that have it, and those that do not; and runs that do not.

    ``home``: the work tree that its store is in; ``of_store``: what is asked about that.
    """

    project: str
    given: list[TrustItem]
    asked: list[TrustItem]
    runs: list[UntrustedRun]
    home: str
    of_store: list[TrustItem]

    def to_json(self) -> dict[str, Any]:
        items = [(item, True) for item in self.given] + [(item, False) for item in self.asked]
        return {
            "project": self.project,
            "items": [{**item.to_json(), "trusted": trusted} for item, trusted in items],
            "runs": [
                {"run_id": run.row.run_id, "path": run.path, "commands": run.commands} for run in self.runs
            ],
        }


def look_at_trust(project: Project) -> Trust:
    """Return what in the project would run a command or lead outside of it."""
    folder = project.folder
    home, _, links = _store_items(folder)
    items = trust.items_of(folder, tables_of(folder))
    of_store = [] if CALLER.trusts(folder) else trust.not_trusted(home, links)
    asked = [*trust.not_trusted(folder, items), *of_store]
    runs = []
    if not of_store and not CALLER.trusts(folder) and project.store.exists():
        for row in project.store.read(lambda view: view.list_runs({"status": UNFINISHED}, None)):
            definitions = definitions_of(project, Target(row, None))
            new = definitions.new if definitions is not None else None
            if definitions is not None and new is not None and not may_run(project.store, row, new.digest):
                runs.append(UntrustedRun(row, definitions.path, new.text.splitlines(), new.digest))
    given = [item for item in (*items, *links) if item not in asked]
    return Trust(folder, given, asked, runs, home, of_store)


def _store_items(folder: str) -> tuple[str, str, list[TrustItem]]:
    """Return the work tree that the store is in, the store's folder in it, and what of it needs trust."""
    named = tables_of(folder).get("store")
    home, store = store_home(folder, folder_of(named) if isinstance(named, str) else None)
    return home, store, trust.store_items(home, store)


def give_trust(project: Project, asked: Trust) -> None:
    """Store that the user has seen it and said yes."""
    for item in asked.asked:
        if item.does == trust.UNKNOWN:
            store_id = item.value
            if not store_id:  # the file with its id is missing
                with closing(open_store_at(item.target)) as store:
                    store_id = str(store.about()["store_id"])
                write_private(os.path.join(item.target, ID_FILE), [f"{store_id}\n".encode()])
            trust.know_store(os.path.dirname(item.target), store_id, trusted=True)
        else:
            trust.remember(asked.home if item in asked.of_store else project.folder, item, iso(project.now))
    project.forget_settings()
    for run in asked.runs:
        agree(project.store, run.row, run.content)


def take_back_trust(project: Project) -> tuple[list[Remembered], list[str]]:
    """Trust nothing of this project any more: its store, its settings, imported runs. Damaged files are removed."""
    folder = project.folder
    home, store, links = _store_items(folder)
    runs: list[RunRow] = []
    if not trust.not_trusted(home, links) and project.store.exists():

        def find(view: View) -> list[RunRow]:
            unlisted = [*view.archived(), *(each.row for each in view.trashed())]
            return [row for row in [*view.list_runs({}, None), *unlisted] if agreed(view, row) is not None]

        def forget(tx: Tx) -> None:
            for row in runs:
                disagree(tx, row)

        runs = project.store.read(find)
        if runs:
            project.store.write(forget)
    path = os.path.join(home, store)
    item = trust.TrustItem(store, trust.id_of(path), trust.UNKNOWN, path)
    gone = trust.forget_store(os.path.dirname(path), item.value)
    here, there = os.path.realpath(folder), os.path.realpath(home)
    found = []
    for known in trust.remembered():
        if known.item is None or known.project == here or (known.item in links and known.project == there):
            found.append(known)
            if os.path.exists(known.path):
                os.unlink(known.path)
    project.forget_settings()
    return [*found, *([Remembered(gone[0], home, item)] if gone else [])], [row.run_id for row in runs]
