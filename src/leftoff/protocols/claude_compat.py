"""The four checkpoint utilities of the Claude protocol, over the store: save, load, list and clean up."""

from __future__ import annotations

import os
from typing import Any

from leftoff.clock import iso
from leftoff.engine.project import Project
from leftoff.engine.project_files import ProjectFiles
from leftoff.engine.retention_policy import REMOVE, kept_for
from leftoff.errors import LeftoffError
from leftoff.model.ids import slug
from leftoff.model.words import UNFINISHED
from leftoff.protocols.claude import DIALECT, is_key, make_id, project_in, snake
from leftoff.protocols.document_draft import Source, State, fit_id
from leftoff.protocols.import_documents import Importer
from leftoff.protocols.loose_values import Repairs
from leftoff.protocols.project_retention import Retention
from leftoff.protocols.protocol import read, state_at, write
from leftoff.store.rows import RunRow

MAX_AGE_DAYS = 7


class Checkpoints:
    """The checkpoints of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.store = project.store
        self.files = ProjectFiles(project.folder)

    def unfinished(self, kind: str | None, project: str | None = None) -> list[RunRow]:
        """Return the unfinished runs of a type and project, latest first."""
        where: dict[str, Any] = {"status": UNFINISHED, "workflow": kind}
        rows = self.store.read(lambda view: view.list_runs(where)) if self.store.exists() else []
        wanted = snake(project) if project is not None else None
        return [
            row for row in rows if wanted in (None, snake(str(row.card.get("project") or row.title or "")))
        ]

    def state(self, row: RunRow) -> State:
        return self.store.read(lambda view: state_at(self.store, view, row, DIALECT))

    def document(self, row: RunRow) -> dict[str, Any]:
        return write(DIALECT, self.state(row))

    def save(self, kind: str, state: dict[str, Any]) -> tuple[str, str | None]:
        """Write a checkpoint and import it. Return the run's id, and the path of its file unless it succeeded."""
        document, folder = self._completed(kind, state), self.project.folder
        said = read(DIALECT, document, Source(f"The state of {kind}"), Repairs())
        there = self._row(said.run_id)
        known = self.state(there) if there is not None else said
        before = DIALECT.place(folder, known) if there is not None else None
        path = DIALECT.place(folder, known, said.status) or DIALECT.place(folder, known, "running")
        assert path is not None
        self._write(path, before or path, document)
        if said.status != "completed":
            return said.run_id, path
        self.files.remove(path)  # unless the mirror, where there is one, was first
        return said.run_id, None

    def _completed(self, kind: str, state: dict[str, Any]) -> dict[str, Any]:
        """Return the document of a checkpoint: what was given, and the other fields that the protocol requires."""
        state = {key: value for key, value in state.items() if key != "checkpoint_id" or value is not None}
        project = project_in(state, str(state.get("checkpoint_id", "")))[0] or "project"
        known = self._known(kind, project, state.get("checkpoint_id"))
        now = self.project.now
        if not known:
            known = {
                "checkpoint_id": make_id(slug(kind), project, now),
                "workflow_type": kind,
                "project_name": project,
                "created_at": iso(now),
            }
        if "workflow_state" not in state:  # what the protocol has no key for is the workflow's own
            there, own = (
                known.get("workflow_state"),
                {key: value for key, value in state.items() if is_key(key)},
            )
            inside = {key: value for key, value in state.items() if key not in own}
            state = {**own, "workflow_state": {**(there if isinstance(there, dict) else {}), **inside}}
        document = {**known, "status": "in_progress", **state, "workflow_type": kind, "updated_at": iso(now)}
        document.setdefault("last_error", None)
        return document

    def _known(self, kind: str, project: str, given: Any) -> dict[str, Any]:
        """Return the checkpoint that is saved again: the one of that id, else the newest of the project."""
        found = self.unfinished(kind, project)[:1] if given is None else [self._row(fit_id(str(given)))]
        return self.document(found[0]) if found and found[0] is not None else {}

    def _row(self, run_id: str) -> RunRow | None:
        return self.store.read(lambda view: view.find_run(run_id)) if self.store.exists() else None

    def _write(self, path: str, old: str, document: dict[str, Any]) -> None:
        """Replace a checkpoint and import it. If the import is refused, the old file is restored."""
        kept = self.files.read(old)
        self.files.replace(path, DIALECT.dump(document).encode())
        if old != path and kept is not None:
            self.files.remove(old)
        rejected: list[LeftoffError] = []
        project = self.project
        importer = Importer(
            self.store,
            project.folder,
            project.redactor,
            project.now,
            lambda at, error: rejected.append(error),
        )
        importer.write(importer.read([os.path.join(project.folder, path)], DIALECT))
        if rejected:
            self.files.remove(path)
            if kept is not None:
                self.files.replace(old, kept)
            raise rejected[0]

    def clean_up(self, days: int) -> list[str]:
        """Remove finished runs that are older. Return their ids."""
        retention = Retention(self.project, DIALECT, kept_for(days, days))
        retention.look()
        went = [each for each in retention.carry_out().removed if each["kind"] == "run"]
        for about in went:
            if about["action"] == REMOVE:
                DIALECT.remove_files(self.project.folder, about["run_id"])
        return [about["run_id"] for about in went]
