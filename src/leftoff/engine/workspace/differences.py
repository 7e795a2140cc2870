"""What somebody changed in a file, as a unified diff: from what was last recorded to what is there."""

from __future__ import annotations

import os

from leftoff.engine.workspace.content import FILE, LINK, present, recorded
from leftoff.engine.workspace.git import repository
from leftoff.engine.workspace.paths import place
from leftoff.engine.workspace.plan import digest_of
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.content import Content
    from leftoff.engine.workspace.plan import Entry, Plan
    from leftoff.store.base import Store

MOST_BYTES = 1 << 20
MOST_LINES = 400


def difference(store: Store, project: str, plan: Plan, entry: Entry, redactor: Redactor) -> str:
    """What a plan would overwrite or delete, against what was last recorded; else against what would be restored."""
    about = plan.sides.newest.get(entry.path)
    if about is not None:
        return since_recorded(store, project, entry.path, about, redactor)
    old = _committed(project, entry) if entry.commit else recorded_text(store, entry.want)
    return _compared(project, entry.path, old, "as it would be restored", redactor)


def _committed(project: str, entry: Entry) -> str | None:
    """The text of a file that a plan would restore from a commit of git."""
    if entry.want.kind != FILE or entry.want.size > MOST_BYTES:
        return f"-> {entry.want.target}" if entry.want.kind == LINK else None
    repo = repository(project)
    base = repo.bases(entry.commit, [entry.path]).get(entry.path) if repo is not None else None
    return _text(repo.content(entry.commit, base)) if repo is not None and base is not None else None


def since_recorded(
    store: Store, project: str, path: str, about: Mapping[str, Any], redactor: Redactor
) -> str:
    """From what a record says to what is there: a unified diff, or a sentence where there can be none."""
    return _compared(project, path, recorded_text(store, recorded(about)), "as recorded", redactor)


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


def recorded_text(store: Store, content: Content) -> str | None:
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind != FILE:
        return ""
    digest = digest_of(content.hash or "")
    if content.size > MOST_BYTES or store.read(lambda view: view.blob(digest)) is None:
        return None
    try:
        return _text(b"".join(store.load_blob(digest)))
    except LeftoffError:
        return None


def present_text(project: str, path: str, content: Content) -> str | None:
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind != FILE:
        return ""
    if content.size > MOST_BYTES:
        return None
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
