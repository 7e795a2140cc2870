"""Runs that come from elsewhere or go there: bundles, and the documents of projects that follow a written protocol."""

from __future__ import annotations

import os

from leftoff.errors import LeftoffError, StoreUnavailable, Usage
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.export import Exported

BUNDLES = "leftoff"  # the dialect of what `export` writes
GENERIC = "generic"  # that of files of no protocol


def export(project: Project, caller: Caller, ref: str | None, path: str) -> Exported:
    """Write a run with its whole history to one file."""
    from leftoff.engine.retention.export import export_run
    from leftoff.operations.runs import target

    found = target(project, caller, ref)
    if found.version is not None:
        run_id = found.row.run_id
        raise Usage(
            f"{ref} is one version of {run_id}; an export has them all.",
            hint=f"leftoff export {run_id} -o {path}, or fork that version and export the fork.",
        )
    return export_run(project.store, found.row, path)


# -- taking in


class Import(Fields):
    """Files to take in. ``dialect``: what they are, where that is not for them to say. ``strict``: what needs repairs
    is refused. ``dry``: nothing is written. ``agree``: whether a file of no protocol is read, and in which way."""

    paths: list[str]
    dialect: str | None = None
    strict: bool = False
    dry: bool = False
    agree: Callable[[str, str], bool] | None = None


class Imported:
    """What became of the files."""

    def __init__(self) -> None:
        self.imported: list[dict[str, Any]] = []
        self.rejected: list[dict[str, Any]] = []
        self.codes: list[int] = []
        self.readable: dict[str, str] = {}  # files of no protocol, by path, and what could be read from where

    def instead(self, path: str, other: Imported) -> None:
        """Somebody agreed to another way of reading a file: this came of it."""
        at = next(number for number, entry in enumerate(self.rejected) if entry["path"] == path)
        del self.rejected[at], self.codes[at]
        self.imported += other.imported
        self.rejected += other.rejected
        self.codes += other.codes

    def accept(self, path: str, run_id: str, new: bool) -> None:
        about = {"run_id": run_id, "path": path, "dialect": BUNDLES, "repairs": [], "new": new}
        self.imported.append(about)

    def reject(self, path: str, error: LeftoffError) -> None:
        self.rejected.append({"path": path, "code": error.code, "message": error.message, "hint": error.hint})
        self.codes.append(error.exit_code)
        way = getattr(error, "way", None)
        if way is not None:
            self.readable[path] = way

    def exit_code(self, strict: bool) -> int:
        """A conflict wants somebody to decide; other rejections count where nothing else came in."""
        if 5 in self.codes:
            return 4 if 4 in self.codes and not self.imported else 5
        if self.codes and not self.imported:
            return self.codes[0] if len(set(self.codes)) == 1 else 4
        return 4 if strict and self.rejected else 0


def import_runs(project: Project, request: Import) -> Imported:
    """Take in runs, each whole or not at all."""
    outcome = Imported()
    project.takes_in_edits = False  # files are taken in as they are asked for here, and told of
    bundles, others = _sorted(request, outcome)
    for path in bundles:
        try:
            outcome.accept(path, *_import_bundle(project, path, request))
        except StoreUnavailable:
            raise  # it is not the file's fault
        except LeftoffError as error:
            outcome.reject(path, error)
    if others:
        _import_documents(project, request, others, outcome)
    for path, way in outcome.readable.items() if request.agree is not None else ():
        if request.agree is not None and request.agree(path, way):
            again = Imported()
            _import_documents(project, request.but(dialect=GENERIC), [path], again)
            outcome.instead(path, again)
    return outcome


def _sorted(request: Import, outcome: Imported) -> tuple[list[str], list[str]]:
    """Bundles, and whatever else is named. All are looked at before the store is opened: one may be the store."""
    from leftoff.store.bundle import check_is_bundle, may_be_bundle

    bundles, others = [], []
    for path in request.paths:
        if request.dialect not in (None, BUNDLES) or not (request.dialect or may_be_bundle(path)):
            others.append(path)
            continue
        try:
            check_is_bundle(path)
            bundles.append(path)
        except LeftoffError as error:
            outcome.reject(path, error)
    return bundles, others


def _import_documents(project: Project, request: Import, paths: list[str], outcome: Imported) -> None:
    from leftoff.dialects.import_documents import Importer
    from leftoff.dialects.registry import dialect

    try:
        wanted = dialect(request.dialect) if request.dialect is not None else None
    except Usage as error:
        raise Usage(f"--dialect cannot be {request.dialect!r}.", hint=error.hint) from None
    importer = Importer(project.store, project.folder, project.redactor, project.now, outcome.reject)
    read = importer.read(paths, wanted, strict=request.strict)
    found = importer.plan(read) if request.dry else importer.write(read)
    outcome.imported += [each.to_json() for each in found]


def _import_bundle(project: Project, path: str, request: Import) -> tuple[str, bool]:
    """Return the run's id, and whether it is (or would be) new here."""
    from leftoff.engine.read.quoting import note_bundle
    from leftoff.engine.retention.export import Bundle, import_bundle, would_import
    from leftoff.host import this_process

    with Bundle(path) as bundle:
        if request.dry:
            return bundle.run_id, would_import(project.store, bundle)
        by, note = (this_process(), "leftoff import"), note_bundle(os.path.basename(path))
        return bundle.run_id, import_bundle(project.store, bundle, project.now, by, note)


# -- protocols


class DialectHere(Fields):
    """A protocol that is understood: whether its files are kept in step here, and which there are; a file of it with a
    short document, and how one of its runs begins."""

    name: str
    about: str
    mirrored: bool
    files: list[str]
    example: tuple[str, dict[str, Any]] | None = None
    starts: str | None = None

    def to_json(self) -> dict[str, Any]:
        known = {"name": self.name, "about": self.about, "mirrored": self.mirrored, "files": self.files}
        path, document = self.example or (None, None)
        return {**known, "example": {"path": path, "document": document}, "starts": self.starts}


def dialects(project: Project) -> list[DialectHere]:
    """Every protocol, with the files of each in this project."""
    from leftoff.dialects.import_documents import documents_under
    from leftoff.dialects.registry import READERS, dialects

    files, followed = documents_under(project.folder), project.settings.section("mirror").get("dialect")
    out = []
    for each in dialects():
        own = [os.path.relpath(path, project.folder) for path in files if each.owns(path)]
        starts = each.starts if each.name not in READERS else None
        out.append(DialectHere(each.name, each.about, each.name == followed, own, each.example, starts))
    return out
