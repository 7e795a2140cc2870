"""What a run keeps of files: its artifacts and the files it tracks; one of them shown, never executed."""

from __future__ import annotations

from typing import Any

from leftoff.errors import LeftoffError
from leftoff.operations import Project
from leftoff.operations.files import file_at
from leftoff.operations.pages.one_run import kept
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, ref_of
from leftoff.web.views.previews import preview

PAGE = 200


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?path=``: the one that is shown."""
    found = kept(project, asked.caller, ref_of(asked), "artifact", "file")
    text = asked.query.get("text", "").strip().casefold()
    files = [
        about
        for about in [*_named(found["artifact"], "artifact"), *_named(found["file"], "file")]
        if text in f"{about['name']} {about['path']}".casefold()
    ]
    path = asked.query.get("path", "")
    return {
        **heading(project, asked),
        "tab": "artifacts",
        "files": files[:PAGE],
        "left_out": max(0, len(files) - PAGE),
        "text": asked.query.get("text", ""),
        "path": path,
        "shown": _shown(project, asked, path) if path else None,
    }


def _named(records: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "name": name,
            "path": str(about.get("path") or name),
            "size": about.get("size"),
            "status": str(about.get("status") or ""),
            "step": about.get("step"),
            "has_copy": "hash" in about,
        }
        for name, about in records.items()
        if isinstance(about, dict)
    ]


def _shown(project: Project, asked: Asked, path: str) -> dict[str, Any]:
    """The preview of a file, or why there is none."""
    if project.redactor.secret_file(path):
        return {"kind": "none", "why": "It is a secret file, and is not shown."}
    try:
        return preview(path, file_at(project, asked.caller, ref_of(asked), path), project.redactor.mask)
    except LeftoffError as error:
        return {"kind": "none", "why": f"{error.message} {error.hint}"}
