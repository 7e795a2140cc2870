"""Trust that a person gives: what a project would run or lead outside, shown; then remembered, listed, taken back."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config import trust
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.project import store_home
from leftoff.engine.config.settings import FILE, tables_of
from leftoff.engine.lifecycle.origin import TRUSTED, distrust, how_ours, is_ours, trust_run
from leftoff.engine.read.find import Target
from leftoff.engine.resume.request import ResumeRequest
from leftoff.model.fields import Fields
from leftoff.model.words import UNFINISHED
from leftoff.store import folder_of
from leftoff.workflow.recovery.provider import definitions_of
from leftoff.workflow.recovery.shown import what_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.config.trust import Item, Remembered
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow


class Run(Fields):
    """An unfinished run that was not begun here by this user, and all that its workflow would run."""

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
    items = [*_whose(folder), *trust.items_of(folder, tables)]
    of_store = [] if CALLER.trusts(folder) else trust.not_trusted(home, links)
    asked = [*trust.not_trusted(folder, items), *of_store]
    runs = _runs(project) if not of_store and not CALLER.trusts(folder) else []
    given = [item for item in (*items, *links) if item not in asked]
    return Trust(folder, given, asked, runs, home, of_store)


def _whose(folder: str) -> list[Item]:
    """Whose the settings are."""
    path = os.path.join(folder, FILE)
    return trust.file_items(path) if os.path.exists(path) else []


def _links(folder: str, tables: dict[str, Any]) -> tuple[str, list[Item]]:
    """The work tree that the store is in, and what of that place needs trust."""
    named = tables.get("store")
    home, store = store_home(folder, folder_of(named) if isinstance(named, str) else None)
    return home, trust.store_items(home, store)


def _runs(project: Project) -> list[Run]:
    """Runs of workflow files that came from elsewhere."""
    if not project.store.exists():
        return []
    found = []
    for row in project.store.read(lambda view: view.list_runs({"status": UNFINISHED}, None)):
        definitions = definitions_of(project, ResumeRequest(Target(row, None)))
        new = definitions.new if definitions is not None else None
        if definitions is not None and new is not None and not is_ours(project.store, row, new.digest):
            found.append(Run(row, definitions.path, what_runs(project.store, row, new), new.digest))
    return found


def give(project: Project, asked: Trust) -> None:
    """A person has seen it, and says yes."""
    for item in asked.asked:
        trust.remember(asked.home if item in asked.of_store else project.folder, item, iso(project.now))
    project.forget_settings()
    for run in asked.runs:
        trust_run(project.store, run.row, run.content)


def given() -> list[Remembered]:
    """All that this user trusts, in every project."""
    return trust.remembered()


def take_back(project: Project) -> tuple[list[Remembered], list[str]]:
    """Nothing of this project is trusted any more: settings, and runs from elsewhere. What is damaged goes too."""
    runs = _distrust_runs(project)
    here, (home, links) = os.path.realpath(project.folder), _links(project.folder, tables_of(project.folder))
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
    return found, runs


def _distrust_runs(project: Project) -> list[str]:
    """Also those that are archived, or in the trash: they may come back."""
    if trust.not_trusted(*_links(project.folder, tables_of(project.folder))) or not project.store.exists():
        return []

    def find(view: View) -> list[RunRow]:
        unseen = [*view.archived(), *(each.row for each in view.trashed())]
        marks = [(row, how_ours(view, row)) for row in [*view.list_runs({}, None), *unseen]]
        return [row for row, ours in marks if ours is not None and ours.how == TRUSTED]

    def forget(tx: Tx) -> None:
        for row in theirs:
            distrust(tx, row)

    theirs = project.store.read(find)
    if theirs:
        project.store.write(forget)
    return [row.run_id for row in theirs]
