"""Files that a document names: as records, and as lists of paths."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.dialects.report import shown
from leftoff.engine.artifacts import hash_file
from leftoff.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import Draft, Records, Source, State

HASHED = 64 << 20  # bytes of files that are looked at for one document
# What leftoff adds when it looks at a file.
_OURS = ("hash", "size", "mode", "seen", "followed", "captured", "captured_at")


def about_file(about: dict[str, Any]) -> dict[str, Any]:
    """What was said of a file, without what leftoff found when it looked at it."""
    return (
        {key: value for key, value in about.items() if key not in _OURS} if "captured_at" in about else about
    )


def decode_files(draft: Draft, entries: list[Any], status: str | None, where: str) -> None:
    """Records of `file`, by path; a file that is known as an artifact is one already."""
    made = _artifact_paths(draft.known) if draft.known is not None and status == "created" else set()
    for entry in entries:
        about = dict(entry) if isinstance(entry, dict) else {"path": entry}
        path = about.get("path")
        if not isinstance(path, str) or not path:
            draft.repairs.add(f"{where}: {shown(entry)} names no file; kept as it is written.")
        elif path not in made:
            if status is not None:
                about["status"] = status
            if not draft.put("file", path, about):
                draft.repairs.add(f"{where}: {shown(path)} is there twice, or cannot be a name.")


def entry_of(path: str, about: dict[str, Any]) -> dict[str, Any]:
    """A file as the protocols list it: its path, its status, then the rest."""
    rest = {key: value for key, value in about_file(about).items() if key not in ("path", "status")}
    return {"path": path, **({"status": about["status"]} if "status" in about else {}), **rest}


def created(state: State) -> list[str]:
    """Files that came about: those that say so, and every artifact."""
    own = {key for key, about in state.of("file").items() if _status(about) == "created"}
    return sorted(own | _artifact_paths(state))


def modified(state: State) -> list[str]:
    return [key for key, about in state.of("file").items() if _status(about) != "created"]


def _status(about: Any) -> Any:
    return about.get("status") if isinstance(about, dict) else None


def _artifact_paths(state: State) -> set[str]:
    found = (about.get("path") for about in state.of("artifact").values() if isinstance(about, dict))
    return {path for path in found if isinstance(path, str)}


def looked_at(records: Records, project: str, source: Source, now: int, most: int = HASHED) -> Records:
    """Artifacts with their hashes, where the files exist inside the project, and are not too large together."""
    left, out = most, dict(records)
    for (collection, key), about in records.items():
        named = about.get("path") if collection == "artifact" and isinstance(about, dict) else None
        full = _inside(named, project, os.path.dirname(source.path)) if isinstance(named, str) else None
        if full is None or os.path.getsize(full) > left:
            continue
        left -= os.path.getsize(full)
        try:
            digest, size = hash_file(full)
        except StoreUnavailable:
            continue
        found = {"hash": f"sha256:{digest.hex()}", "size": size, "captured": False}
        out[collection, key] = {**about, **found, "captured_at": iso(now)}
    return out


def _inside(path: str, project: str, folder: str) -> str | None:
    """A file of the project: named from its top, or from where the document lies."""
    top = os.path.realpath(project)
    for start in (project, os.path.join(project, folder)):
        full = os.path.realpath(os.path.join(start, path)) if "\0" not in path else ""
        if full.startswith(top + os.sep) and os.path.isfile(full):
            return full
    return None
