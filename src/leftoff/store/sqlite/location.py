"""Where an embedded store lives: on which file system, and what is left of one whose database is gone."""

from __future__ import annotations

import os
import sys

from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.store.sqlite import connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.blobs import Blobs

SAFE_MOUNT = "Put the store on a local disk (LEFTOFF_STORE=/local/path), or share one through PostgreSQL."


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def file_system(path: str, mounts: str | None = None) -> str:
    """The type of the file system that holds ``path``, or an empty string where that cannot be told."""
    if sys.platform == "darwin":
        return _darwin(path)
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts or connection.MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file]
    except OSError:
        return ""
    best, kind = -1, ""
    real = os.path.realpath(path)
    for fields in lines:
        if "-" not in fields:
            continue
        point, fs = _unescape(fields[4]), fields[fields.index("-") + 1]
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # The device number settles it; btrfs and overlays show another one, so the longest mount point decides then.
        score = len(point) + (10_000 if fields[2] == wanted else 0)
        if inside and score >= best:
            best, kind = score, fs
    return kind


def _darwin(path: str) -> str:
    import subprocess

    out = subprocess.run(["/usr/bin/stat", "-f", "%T", path], capture_output=True, text=True)
    where = subprocess.run(["df", path], capture_output=True, text=True).stdout.splitlines()[-1:]
    lines = subprocess.run(["mount"], capture_output=True, text=True).stdout.splitlines()
    device = where[0].split()[0] if where else out.stdout
    return next((line.partition("(")[2].partition(",")[0] for line in lines if line.startswith(device)), "")


def refuse_network(folder: str, kind: str | None = None) -> None:
    """Raise where the folder is on a file system that several machines may share."""
    if kind is None:
        kind = file_system(folder)
    if kind in connection.NETWORK:
        error = StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where SQLite's write-ahead log loses data.",
            hint=SAFE_MOUNT,
        )
        error.retry = False
        raise error


def remains_of(path: str, size: int | None, blobs: Blobs) -> str:
    """What says that the database at ``path``, which is empty (``size``) or gone, was there once; nothing where it was
    not."""
    log = path + "-wal"
    if os.path.exists(log) and os.path.getsize(log):
        return f"is empty or gone, but its log {log} is not: the database was cut off"
    if size == 0:
        return "is empty: the database was cut off"
    return "is gone, but its blobs are there" if next(blobs.names(), None) is not None else ""


def cut_off(path: str, remains: str) -> Corrupt:
    """The error for a database of which only that remains: it must not be written over."""
    return Corrupt(
        f"{path} {remains}.",
        where=path,
        hint="Let `leftoff fsck --repair` keep what can be proved; or put the folder aside, and a backup in its place.",
    )
