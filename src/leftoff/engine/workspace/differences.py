"""What somebody changed in a file, as a unified diff: from what was last recorded to what is there."""

from __future__ import annotations

import os

from leftoff.engine.workspace.content import (
    ABSENT,
    FILE,
    LINK,
    NOTHING_THERE,
    OTHER,
    Content,
    present,
    recorded,
    shown_mode,
)
from leftoff.engine.workspace.copies import CopiesThen
from leftoff.engine.workspace.git import repository
from leftoff.engine.workspace.paths import place
from leftoff.errors import UnsafePath
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.plan import Entry, Plan, Sides

MOST_BYTES = 1 << 20
MOST_LINES = 400


class FileDiff(Fields):
    """What changed in a file: as a unified diff, or why that cannot be shown; and how many lines came and went."""

    text: str
    added: int = 0
    removed: int = 0
    old: dict[str, Any] | None = None  # what was there, and what is: kind, hash, size
    new: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"diff": self.text, "added": self.added, "removed": self.removed}


class FileSide:
    """One side of a comparison: what its records say of files, or, of the present, what is there."""

    def __init__(
        self, copies: CopiesThen, project: str, name: str, files: Mapping[str, Any], *, now: bool
    ) -> None:
        self.copies, self.project, self.name, self.now = copies, project, name, now
        self.files = files  # records by path

    def content(self, path: str) -> Content:
        about = self.files.get(path)
        if self.now and not os.path.isabs(path):  # what is outside the project is not looked at
            try:
                return present(self.project, path, about)
            except UnsafePath:  # behind a link by now: it is not followed
                return Content(OTHER)
        return recorded(about) if about is not None else NOTHING_THERE

    def text(self, path: str, content: Content) -> str | None:
        known = self.files.get(path)
        if self.now and (known is None or recorded(known).hash != content.hash):
            return present_text(self.project, path, content)
        return recorded_text(self.copies, known) if known is not None else ""


def file_diffs(old: FileSide, new: FileSide, redactor: Redactor) -> dict[str, FileDiff]:
    """By path, what differs between two sides, of every file that one of them has a record of."""
    out = {}
    for path in sorted({*old.files, *new.files}):
        before, after = old.content(path), new.content(path)
        if before.same(after) or (before.kind == after.kind == FILE and before.hash == after.hash):
            continue
        out[path] = _file_diff(path, (old, before), (new, after), redactor)
        out[path].old, out[path].new = _facts(before), _facts(after)
    return out


def _facts(content: Content) -> dict[str, Any]:
    """As records have them: permissions are octal digits."""
    mode = {"mode": shown_mode(content.mode)} if content.mode is not None else {}
    return {**content.to_json(), **mode}


def _file_diff(
    path: str, old: tuple[FileSide, Content], new: tuple[FileSide, Content], redactor: Redactor
) -> FileDiff:
    names = [_named(path, side, content) for side, content in (old, new)]
    if redactor.secret_file(path):
        return FileDiff(f"{path} differs; it is a secret file, and is not shown.")
    texts = [side.text(path, content) for side, content in (old, new)]
    if texts[0] is None or texts[1] is None:
        sizes = [
            f"{content.size} bytes" if content.kind == FILE else content.kind for _, content in (old, new)
        ]
        why = "it is no text, too long, or was not kept"
        return FileDiff(f"{path} differs ({sizes[0]}, {sizes[1]}); {why}.")
    text = unified(texts[0], texts[1], *names)
    marks = [line[:1] for line in text.splitlines()[2:]]
    return FileDiff(redactor.mask(text), marks.count("+"), marks.count("-"))


def _named(path: str, side: FileSide, content: Content) -> str:
    return "/dev/null" if content.kind == ABSENT else f"{path}\t({side.name})"


def difference(project: str, plan: Plan, entry: Entry, redactor: Redactor) -> str:
    """What a plan would overwrite or delete, against what was last recorded; else against what would be restored."""
    sides = plan.sides
    about = sides.newest.get(entry.path)
    if about is not None:
        old = recorded_text(CopiesThen(sides.store, (sides.run, sides.run_id, None)), about)
        return _compared(project, entry.path, old, "as recorded", redactor)
    old = _committed(project, entry) if entry.commit else _wanted(sides, entry)
    return _compared(project, entry.path, old, "as it would be restored", redactor)


def _committed(project: str, entry: Entry) -> str | None:
    """The text of a file that a plan would restore from a commit of git."""
    if entry.want.kind != FILE or entry.want.size > MOST_BYTES:
        return f"-> {entry.want.target}" if entry.want.kind == LINK else None
    repo = repository(project)
    base = repo.bases(entry.commit, [entry.path]).get(entry.path) if repo is not None else None
    return _text(repo.content(entry.commit, base)) if repo is not None and base is not None else None


def _wanted(sides: Sides, entry: Entry) -> str | None:
    """The text of a file that a plan would restore from its copy."""
    if entry.want.kind == ABSENT:
        return ""
    about = {"path": entry.path, "captured": True, **entry.want.to_json()}
    return recorded_text(CopiesThen(sides.store, (sides.run, sides.run_id, sides.seq)), about)


def _compared(project: str, path: str, old: str | None, what: str, redactor: Redactor) -> str:
    new = present_text(project, path, present(project, path))
    if old is None or new is None or redactor.secret_file(path):
        return f"{path} has changed; it cannot be shown: it is no text, too long, secret, or was not kept."
    return redactor.mask(unified(old, new, f"{path} ({what})", f"{path} (now)"))


def unified(old: str, new: str, before: str, after: str) -> str:
    """At most so many lines; equal texts differ in their mode."""
    from difflib import unified_diff

    lines = list(unified_diff(old.splitlines(), new.splitlines(), before, after, lineterm=""))
    if not lines:
        return f"--- {before}\n+++ {after}\n(the same text: its permissions or the ends of its lines differ)"
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def recorded_text(copies: CopiesThen, about: Mapping[str, Any]) -> str | None:
    """What a file held by its record; None where that is no text, too long or not kept."""
    content = recorded(about)
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind != FILE:
        return ""
    data = copies.read(about) if content.size <= MOST_BYTES else None
    return _text(data) if data is not None else None


def present_text(project: str, path: str, content: Content) -> str | None:
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind == OTHER or content.size > MOST_BYTES:
        return None
    if content.kind != FILE:
        return ""
    at = place(project, path)
    if at is None:
        return ""
    with at, open(os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at.folder), "rb") as file:
        return _text(file.read(MOST_BYTES))


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
