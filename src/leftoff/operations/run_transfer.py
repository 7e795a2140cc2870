"""Export runs, and import bundles and the documents of protocols."""

from __future__ import annotations

import os
from typing import Any

from leftoff.engine.export import Bundle, Exported, export_run, import_bundle, would_import
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.errors import LeftoffError, StoreUnavailable, Usage
from leftoff.operations.runs import target
from leftoff.protocols.import_documents import Importer, documents_under
from leftoff.protocols.registry import followed_protocol, protocol, protocols
from leftoff.store.bundle import check_is_bundle, may_be_bundle

BUNDLES = "leftoff"  # what a bundle has in place of a protocol


def export_to(project: Project, caller: Caller, ref: str | None, path: str) -> Exported:
    """Write a run with its whole history to one file."""
    found = target(project, caller, ref)
    if found.version is not None:
        run_id = found.row.run_id
        raise Usage(
            f"{ref} is one version of {run_id}; an export has them all.",
            hint=f"leftoff export {run_id} -o {path}, or fork that version and export the fork.",
        )
    return export_run(project.store, found.row, path)


class Imported:
    """The result, by file."""

    def __init__(self) -> None:
        self.imported: list[dict[str, Any]] = []
        self.rejected: list[dict[str, Any]] = []
        self.codes: list[int] = []

    def reject(self, path: str, error: LeftoffError) -> None:
        self.rejected.append({"path": path, "code": error.code, "message": error.message, "hint": error.hint})
        self.codes.append(error.exit_code)

    def exit_code(self, strict: bool) -> int:
        """Return 5 for a conflict, which a person decides; other rejections count if nothing else was imported."""
        if 5 in self.codes:
            return 4 if 4 in self.codes and not self.imported else 5
        if self.codes and not self.imported:
            return self.codes[0] if len(set(self.codes)) == 1 else 4
        return 4 if strict and self.rejected else 0


def import_runs(
    project: Project, paths: list[str], kind: str | None, *, strict: bool = False, dry: bool = False
) -> Imported:
    """Import runs from files, each whole or not at all.

    ``kind``: the protocol of the files, if they do not say so. ``strict``: refuse what needs repairs. ``dry``: write
    nothing.
    """
    outcome = Imported()
    project.takes_in_edits = False  # files are imported as it is asked for here, and reported
    bundles, others = [], []
    for path in paths:  # all are looked at before the store is opened: one may be the store
        if kind not in (None, BUNDLES) or not (kind or may_be_bundle(path)):
            others.append(path)
            continue
        try:
            check_is_bundle(path)
            bundles.append(path)
        except LeftoffError as error:
            outcome.reject(path, error)
    for path in bundles:
        try:
            with Bundle(path) as bundle:
                store = project.store
                new = would_import(store, bundle) if dry else import_bundle(store, bundle, project.now)
                run_id = bundle.run_id
        except StoreUnavailable:
            raise  # it is not the file's fault
        except LeftoffError as error:
            outcome.reject(path, error)
        else:
            kind_of = {"protocol": BUNDLES, "dialect": BUNDLES}
            outcome.imported.append({"run_id": run_id, "path": path, **kind_of, "repairs": [], "new": new})
    if others:
        try:
            wanted = protocol(kind) if kind is not None else None
        except Usage as error:
            raise Usage(f"--protocol cannot be {kind!r}.", hint=error.hint) from None
        importer = Importer(project.store, project.folder, project.redactor, project.now, outcome.reject)
        read = importer.read(others, wanted, strict=strict)
        found = importer.plan(read) if dry else importer.write(read)
        outcome.imported += [each.to_json() for each in found]
    return outcome


def list_protocols(project: Project) -> list[dict[str, Any]]:
    """Return every protocol as JSON: its files here, whether they are kept in step, an example, how its runs begin."""
    files, followed = documents_under(project.folder), followed_protocol(project.folder, project.settings)
    out = []
    for each in protocols():
        path, document = each.example
        about = {
            "name": each.name,
            "about": each.about,
            "synced": each is followed,
            "mirrored": each is followed,  # the key's name before
            "files": [os.path.relpath(path, project.folder) for path in files if each.owns(path)],
            "example": {"path": path, "document": document},
            "starts": each.starts,
        }
        out.append(about)
    return out
