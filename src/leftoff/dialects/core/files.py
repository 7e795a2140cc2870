"""Files that a document names: as records, and as lists of paths."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.dialects.importing.report import shown
from leftoff.engine.steps.artifacts import hash_file
from leftoff.engine.workspace.capturing import DELETED, WAS
from leftoff.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import Draft, Records, Source, State

PLACE = "place"  # of a file record: where its path stands in the list of a document
HASHED = 64 << 20  # bytes of files that are looked at for one document
# What leftoff adds when it looks at a file.
_OURS = ("hash", "size", "mode", "seen", "followed", "captured", "captured_at", WAS, PLACE)


def about_file(about: dict[str, Any]) -> dict[str, Any]:
    """What was said of a file, without what leftoff found when it looked at it."""
    return (
        {key: value for key, value in about.items() if key not in _OURS} if "captured_at" in about else about
    )


def decode_files(draft: Draft, entries: list[Any], status: str | None, where: str) -> None:
    """Records of `file`, by path; a file that is known as an artifact is one already."""
    made = _artifact_paths(draft.known) if draft.known is not None and status == "created" else {}
    for number, entry in enumerate(entries):
        about = dict(entry) if isinstance(entry, dict) else {"path": entry}
        path = about.get("path")
        if not isinstance(path, str) or not path:
            draft.repairs.add(f"{where}: {shown(entry)} names no file; kept as it is written.")
        elif path not in made:
            if status is not None:
                about |= {"status": status, PLACE: number}
            if not draft.put("file", path, about):
                draft.repairs.add(f"{where}: {shown(path)} is there twice, or cannot be a name.")


def entry_of(path: str, about: dict[str, Any]) -> dict[str, Any]:
    """A file as the protocols list it: its path, its status, then the rest."""
    rest = {key: value for key, value in about_file(about).items() if key not in ("path", "status")}
    return {"path": path, **({"status": about["status"]} if "status" in about else {}), **rest}


def created(state: State) -> list[str]:
    """Files that came about: those that say so, and every artifact; new ones behind those that were there."""
    own = {key: about for key, about in state.of("file").items() if _came_about(about)}
    made = _artifact_paths(state)
    return _in_order(own, sorted(set(made) - set(own), key=lambda path: (made[path], path)))


def modified(state: State) -> list[str]:
    return _in_order({key: about for key, about in state.of("file").items() if not _came_about(about)}, [])


def _in_order(files: dict[str, Any], others: list[str]) -> list[str]:
    """Each of the files that has a place at that place, the others around them."""
    placed = [(about[PLACE], key) for key, about in files.items() if isinstance(_field(about, PLACE), int)]
    out = [*others, *(key for key, about in files.items() if not isinstance(_field(about, PLACE), int))]
    for place, key in sorted(placed):
        out.insert(place, key)
    return out


def _came_about(about: Any) -> bool:
    """Whether a file was created by the run; one that is gone by now, too."""
    status = _field(about, "status")
    return bool((_field(about, WAS) if status == DELETED else status) == "created")


def _field(about: Any, name: str) -> Any:
    return about.get(name) if isinstance(about, dict) else None


def _artifact_paths(state: State) -> dict[str, str]:
    """By path, when each was captured."""
    found = [about for about in state.of("artifact").values() if isinstance(about, dict)]
    return {
        about["path"]: str(about.get("captured_at", ""))
        for about in found
        if isinstance(about.get("path"), str)
    }


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
    for start in (project, os.path.join(project, folder)):
        full = os.path.join(start, path)
        if "\0" not in path and os.path.isfile(full):
            real = os.path.realpath(full)
            if real.startswith(os.path.realpath(project) + os.sep):
                return real
    return None
