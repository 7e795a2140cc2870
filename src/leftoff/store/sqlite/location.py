"""Where an embedded store lives: its folder, its file system, its permissions."""

from __future__ import annotations

import os
import sys

from leftoff.errors import Corrupt, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# SQLite's WAL needs shared memory between all who open it; none of these gives that across machines.
NETWORK = frozenset(
    "nfs nfs4 cifs smb smb2 smb3 smbfs 9p afs afpfs ncpfs ncp coda ceph lustre gpfs glusterfs fuse.glusterfs "
    "fuse.sshfs fuse.s3fs fuse.gcsfuse fuse.rclone davfs fuse.davfs2 webdav beegfs orangefs".split()
)
GITIGNORE = "*\n"
SAFE_MOUNT = "Put the store on a local disk (LEFTOFF_STORE=/local/path), or share one through PostgreSQL."

NAME = ".leftoff"  # of the folder, where nobody named another
FOLDER = 0o040000  # in a mode
MOUNTS = "/proc/self/mountinfo"
SWEPT = "swept"  # a file in the store's folder: when what is due was last swept
DAY_MS = 86_400_000
ARCHIVE = "archive"
BY_RUN = ("attempts", ARCHIVE, "trash", "quarantine")  # folders in it that may hold very many names


def links_in(folder: str, deep: bool = True) -> list[str]:
    """The links in a store's folder and in the folders there: what is kept would be written through them. Where there
    are very many names, whoever writes looks out for himself."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_symlink():
                found.append(name)
            elif deep and name not in BY_RUN and entry.is_dir():
                found += [f"{name}/{inside}" for inside in links_in(entry.path, False)]
    return found


def stranger(folder: str) -> int | None:
    """The user that a folder belongs to, where that is neither whoever asks nor the machine's own; for that one nobody
    is."""
    me = os.geteuid()
    owner = os.stat(folder).st_uid if me else 0
    return owner if owner not in (0, me) else None


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def file_system(path: str, mounts: str | None = None) -> str:
    """The type of the file system that holds ``path``, or an empty string where that cannot be told."""
    if sys.platform == "darwin":
        return _darwin(path)
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts or MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
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


def _may_be_network() -> bool:
    """Whether the mounts speak of such a file system at all: a look that costs little, and mostly is enough."""
    try:
        with open(MOUNTS, "rb", buffering=0) as file:
            return not NETWORK.isdisjoint(file.read().decode("latin-1").split())
    except OSError:
        return True


def refuse_network(folder: str, kind: str | None = None) -> None:
    """Raise where the folder is on a file system that several machines may share."""
    if kind is None:
        kind = file_system(folder) if _may_be_network() else ""
    if kind in NETWORK:
        error = StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where SQLite's write-ahead log loses data.",
            hint=SAFE_MOUNT,
        )
        error.retry = False
        raise error


def remains_of(path: str) -> str:
    """What says that the database at ``path``, which is empty or gone, was there once; nothing where it was not."""
    log = path + "-wal"
    if not os.path.exists(log) or os.path.getsize(log) == 0:
        return ""
    return f"is empty or gone, but its log {log} is not: the database was cut off"


def cut_off(path: str, remains: str) -> Corrupt:
    """The error for a database of which only that remains: it must not be written over."""
    return Corrupt(
        f"{path} {remains}.",
        where=path,
        hint="Restore store.db from a backup; or let `leftoff fsck --repair` keep what the rest of it proves.",
    )


def make_folder(folder: str) -> None:
    """Create the store's folder, private to its owner and ignored by git, with its parents durable.

    One that is there under the usual name is made private; what somebody named is left as they made it.
    """
    if os.path.exists(folder) and not os.path.isdir(folder):
        hint = "Move it away, or use another store."
        raise StoreUnavailable(f"{folder} is a file, not a folder.", hint=hint)
    missing = []
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700 if path == missing[0] else 0o777)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        sync_folder(os.path.dirname(path))
    if not missing and os.path.basename(folder) == NAME:
        make_private(folder)
    ignore = os.path.join(folder, ".gitignore")
    if not os.path.exists(ignore):
        with open(os.open(ignore, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(GITIGNORE)


def make_private(folder: str) -> None:
    """Take everybody else's rights to a folder of our own away; one of somebody else stays as it is, as does a link."""
    try:
        facts = os.lstat(folder)
        mode = facts.st_mode
        if mode & 0o170000 == FOLDER and mode & 0o077 and facts.st_uid == os.geteuid():
            os.chmod(folder, mode & 0o7700)
    except OSError:  # gone, or on a disk that takes nothing: whoever writes there says so
        pass


def forget_folder(folder: str) -> None:
    """Remove a store's folder in which there never was a store; one that has anything in it stays as it is."""
    if os.listdir(folder) != [".gitignore"]:
        return
    os.unlink(os.path.join(folder, ".gitignore"))
    try:
        os.rmdir(folder)
    except OSError:  # somebody made a store in it just now
        make_folder(folder)


def is_due(stamp: str, now: int) -> bool:
    """Whether the time of a file is a day ago, or a day ahead: then a clock was wrong."""
    try:
        return abs(now - os.stat(stamp).st_mtime_ns // 1_000_000) >= DAY_MS
    except OSError:
        return True


def mark_done(stamp: str, now: int) -> None:
    """What is due once a day is done for today."""
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(stamp, ns=(now * 1_000_000, now * 1_000_000))


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    sync_file(path, os.O_DIRECTORY)


def sync_file(path: str, flags: int = 0) -> None:
    """Make what is in a file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """fsync that reaches the platter: on macOS that is F_FULLFSYNC."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def make_archive(folder: str) -> None:
    """The folder of bundles; its name is durable before anything is moved there."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    sync_folder(os.path.dirname(folder))


def write_private(path: str, content: Iterable[bytes]) -> None:
    """A file that only its owner reads, whole or not at all; its folder is made."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    temp = f"{path}.{os.getpid()}"
    with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        for piece in content:
            file.write(piece)
    os.replace(temp, path)
