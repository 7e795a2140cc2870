"""Capturing what a step produced: hashed always, copied into the store unless it looks like a secret.

An artifact may be anywhere, and a symbolic link to it is followed; what of it can be restored is for
``leftoff.engine.workspace`` to say. A file is judged by what it is, not by the name of a link to it: one to `.env` is
`.env`, and what a link inside the project leads to outside of it is told, and not copied.
"""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.workspace.file_state import hash_file, hashed, open_file, take
from leftoff.engine.workspace.project_files import is_own
from leftoff.errors import NotFound, Usage
from leftoff.model.changes import blob_stored
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Workspace
    from leftoff.model.changes import ChangeSet
    from leftoff.store.rows import BlobRow

__all__ = ["WITHHELD", "Captured", "capture", "hash_file", "relative"]

WITHHELD = "withheld"  # of a record about a file that holds a secret: it is never copied, by nobody


class Captured(Fields):
    """A file as it was when it was looked at: what its record says, and the blob that holds its content."""

    key: str
    about: dict[str, Any]
    blob: BlobRow | None

    def stored(self) -> bytes | None:
        """Stored bytes that hold on to the blob; ``None`` where there is none and plain JSON will do."""
        return blob_stored(self.blob.hash, self.about) if self.blob is not None else None

    def put(self, changes: ChangeSet, collection: str = "artifact") -> None:
        """Into a change set; the blob must have its row in the same commit. A file whose name holds a secret of the
        workflow is not recorded: another name would be another file."""
        if changes.name(self.key) != self.key:
            return
        stored = self.stored()
        if stored is None:
            changes.put(collection, self.key, self.about)
        else:
            changes.put_stored(collection, self.key, stored)


def relative(project: str, path: str) -> str:
    """As records name files: relative to the project where they are inside it, also where one of both is named through
    a link."""
    full = os.path.abspath(os.path.join(project, path)) if not os.path.isabs(path) else os.path.normpath(path)
    inside = os.path.relpath(full, project)
    if _leads_out(inside):
        folder, name = os.path.split(full)
        inside = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(project))
    return full if _leads_out(inside) else inside


def _leads_out(path: str) -> bool:
    return path == ".." or path.startswith("../")


def capture(
    workspace: Workspace,
    path: str,
    *,
    step: str | None = None,
    name: str | None = None,
    most: int | None = None,
) -> Captured:
    """Hash a file and keep a copy, durable before any record refers to it. ``most``: larger ones are only hashed."""
    full = path if os.path.isabs(path) else os.path.join(_here(), path)
    _need_file(path, full)
    shown, redactor = relative(workspace.folder, full), workspace.redactor
    _need_plain_name(shown, redactor)
    name = redactor.name(name) if name else None
    about: dict[str, Any] = {"path": shown, "step": step, "name": name, "captured_at": iso(workspace.at)}
    if os.path.islink(full):
        about["followed"] = True
    fd = open_file(full)
    real = _real(workspace, full, fd)
    secret = redactor.in_file(fd)
    elsewhere = os.path.isabs(real) and not os.path.isabs(shown)
    if elsewhere and workspace.say is not None:
        workspace.say(
            f"leftoff: {shown} leads out of the project, to {real}: it is hashed, but no copy is kept."
        )
    withheld = secret or elsewhere or redactor.secret_file(shown) or redactor.secret_file(real)
    if withheld or (most is not None and os.fstat(fd).st_size > most):
        (digest, size), st, seen = take(full, hashed, fd=fd)
        row = None
    else:
        row, st, seen = take(full, workspace.store.save_blob, fd=fd)
        digest, size = row.hash, row.size
    about[WITHHELD] = secret or None
    about.update(hash="sha256:" + digest.hex(), size=size, captured=row is not None, seen=seen)
    about["mode"] = f"{st.st_mode & 0o777:04o}"
    return Captured(name or shown, _known(about), row)


def _need_file(path: str, full: str) -> None:
    if os.path.isfile(full):
        return
    what = f"There is no file {path}"
    if os.path.exists(full):
        what = f"{path} is a folder, not a file" if os.path.isdir(full) else f"{path} is no plain file"
    raise NotFound(f"{what}.", hint="Nothing was recorded. Write the file before you record it.")


def _need_plain_name(shown: str, redactor: Redactor) -> None:
    if redactor.name(shown) != shown:
        raise Usage(
            "The name of a file holds a secret of the workflow.",
            hint="Nothing was recorded. Give it another name.",
        )


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        hint = "Nothing was recorded. Name the file by its whole path."
        raise NotFound("The current folder is gone.", hint=hint) from None


def _real(workspace: Workspace, full: str, fd: int) -> str:
    """What was opened, by its own name, as records name files; ``Usage`` where that is git's or the store's."""
    try:
        found = os.readlink(f"/proc/self/fd/{fd}")  # of the very file: a link may lead elsewhere by now
    except OSError:
        found = os.path.realpath(full)
    real, own = relative(os.path.realpath(workspace.folder), found), workspace.store.folder
    stores = found.startswith(os.path.join(os.path.realpath(own), ""))
    if stores or is_own(real):
        os.close(fd)
        what = "leftoff's store" if stores else "what git or leftoff keep"
        raise Usage(f"{full} is part of {what}.", hint="Nothing was recorded. Name files of your work.")
    return real


def _known(about: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if value is not None}
