"""A store's file: how it is opened, who may read it, and what happens when it is something else."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from leftoff import files
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.store import sqlite_connection as connection
from leftoff.store import sqlite_files as location
from leftoff.store.blobs import Blobs
from leftoff.store.sqlite import SqliteStore
from tests.contract.scribe import Scribe
from tests.seams import SEAMS
from tests.store.processes import child
from tests.syncs import syncs


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    with syncs(True):
        yield store
    store.close()


def pragmas(store: SqliteStore, *names: str) -> dict[str, Any]:
    """What a reading connection and the writing one say, which must be the same."""
    reading = store.read(lambda view: {n: connection.pragma(view.db, n) for n in names})  # type: ignore[attr-defined]
    writing = store.write(lambda tx: {n: connection.pragma(tx.db, n) for n in names})  # type: ignore[attr-defined]
    assert reading == writing
    return dict(reading)


# -- how it is opened


def test_settings(store: SqliteStore) -> None:
    """The write-ahead log, a sync at every commit, page checksums, and pages that can be given back."""
    Scribe(store)
    expected: dict[str, Any] = {
        "journal_mode": "wal",
        "synchronous": 2,
        "auto_vacuum": 2,
        "page_size": connection.PAGE_SIZE,
        "checksum_verification": "1",
    }
    assert expected == {
        k: str(v) if k == "checksum_verification" else v for k, v in pragmas(store, *expected).items()
    }
    assert 8 == store.read(lambda view: view.db.reserve_bytes(None, -1))  # type: ignore[attr-defined]


def test_settings_survive(store: SqliteStore, tmp_path: Path) -> None:
    """A store that is opened again, and a backup of it, are set up the same way."""
    Scribe(store)
    names = ("journal_mode", "synchronous", "auto_vacuum", "page_size", "checksum_verification")
    first = pragmas(store, *names)
    store.close()
    store.backup(str(tmp_path / "copy"))
    copy = SqliteStore(str(tmp_path / "copy"))
    assert first == pragmas(SqliteStore(store.folder), *names) == pragmas(copy, *names)
    copy.close()


def test_every_commit_is_synced_again(store: SqliteStore) -> None:
    """A write that need not be synced does not switch the sync off for those that come after it."""
    Scribe(store)

    def synchronous(**how: Any) -> object:
        return store.write(lambda tx: connection.pragma(tx.db, "synchronous"), **how)  # type: ignore[attr-defined]

    assert [2, 1, 1, 2, 2] == [synchronous(durable=durable) for durable in (True, False, False, True, True)]


def test_checkpoint_does_not_fail_a_commit(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log cannot be moved home (a full disk), what was committed is durable as it is: no error."""
    scribe = Scribe(store)
    monkeypatch.setattr(SEAMS["store.CHECKPOINT_PAGES"], 1)
    tried = []

    class Full:
        def wal_checkpoint(self, **how: Any) -> None:
            tried.append(how)
            raise apsw.FullError("database or disk is full")

    plain = store._log.move_home
    monkeypatch.setattr(store._log, "move_home", lambda db: plain(Full()))  # type: ignore[arg-type]
    scribe.commit({("note", "n"): 1})
    assert tried
    scribe.verify()


OTHERS = """
import apsw
before = apsw.vfs_names()[0]
store.write(add("run"))
assert before == apsw.vfs_names()[0], apsw.vfs_names()
path = os.path.join(os.path.dirname(sys.argv[1]), "mine.db")
mine = apsw.Connection(path)
mine.execute("CREATE TABLE t (x)")
say(mine.open_vfs, mine.reserve_bytes(None, -1))
"""


def test_other_users_of_apsw_are_left_alone(store: SqliteStore) -> None:
    """Loading the checksums does not change how the rest of the process opens its databases."""
    with child(OTHERS, store.folder) as each:
        assert "unix 0" == each.hear()


# -- who may read it


def test_modes(store: SqliteStore) -> None:
    """The folder is its owner's alone, and so is every file in it that holds data; git ignores it."""
    old = os.umask(0o022)
    try:
        scribe = Scribe(store)
        row = store.save_blob([b"secret"])
        scribe.commit({("note", "n"): 1}, blobs=[row])
    finally:
        os.umask(old)
    folder = Path(store.folder)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    assert "*\n" == (folder / ".gitignore").read_text()
    del files[".gitignore"]
    assert {
        "store.db",
        "store.db-wal",
        "store.db-shm",
        "id",
        "lock",
        "swept",
        row.hash.hex()[2:],
    } == files.keys()
    assert {0o600} == set(files.values())
    assert 0o700 == stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "after"), [(0o777, 0o700), (0o750, 0o700), (0o555, 0o500), (0o2770, 0o2700)]
)
def test_the_usual_folder_is_made_private(before: int, after: int, tmp_path: Path) -> None:
    """Whoever made it: others lose their rights, and its owner gains none."""
    folder = tmp_path / ".leftoff"
    folder.mkdir()
    folder.chmod(before)
    with suppress(PermissionError):  # nobody but root makes a .gitignore in one that is read-only
        files.make_folder(str(folder))
    assert after == stat.S_IMODE(folder.stat().st_mode)


def test_a_folder_of_somebody_else_keeps_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As does one behind a link."""
    there, link = tmp_path / "there", tmp_path / ".leftoff"
    there.mkdir(mode=0o755)
    link.symlink_to(there)
    files.make_folder(str(link))
    assert 0o755 == stat.S_IMODE(there.stat().st_mode)
    monkeypatch.setattr(os, "geteuid", lambda: there.stat().st_uid + 1)
    files.make_private(str(there))
    assert 0o755 == stat.S_IMODE(there.stat().st_mode)


def test_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    """A folder of another name that somebody made for the store is used as it is, and its own .gitignore too."""
    store = SqliteStore(str(tmp_path / "mine"))
    os.mkdir(store.folder, 0o750)
    Path(store.folder, ".gitignore").write_text("mine\n")
    Scribe(store)
    assert 0o750 == stat.S_IMODE(os.stat(store.folder).st_mode)
    assert "mine\n" == Path(store.folder, ".gitignore").read_text()
    assert 0o600 == stat.S_IMODE(os.stat(store.path).st_mode)
    store.close()


def test_parents_are_made(tmp_path: Path) -> None:
    """The folders above the store are made too, open to whom the umask lets in."""
    store = SqliteStore(str(tmp_path / "a" / "b" / ".leftoff"))
    Scribe(store)
    modes = [stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("a", "a/b", "a/b/.leftoff")]
    mask = os.umask(0)
    os.umask(mask)
    assert [0o777 & ~mask, 0o777 & ~mask, 0o700] == modes
    store.close()


# -- half made, or something else


def test_nobody_sees_half_a_store(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short while it is made, a store is not there; the next write makes it."""

    def cut(*args: object) -> None:
        assert not SqliteStore(store.folder).exists()
        raise OSError(28, "No space left on device")

    for place in ("leftoff.store.sqlite_files.migrate", "os.rename"):
        with monkeypatch.context() as patch:
            patch.setattr(place, cut)
            with pytest.raises(StoreUnavailable, match="full"):
                store.write(lambda tx: None)
        assert not store.exists()
    Scribe(store).verify()
    made = {".gitignore", "id", "lock", "store.db", "store.db-wal", "store.db-shm", "swept"}
    assert made == set(os.listdir(store.folder))


def test_left_over_log_is_not_written_over(store: SqliteStore) -> None:
    """A log whose database is gone may be all that is left of somebody's work: refused, and left as it is."""
    Scribe(store, "old")
    log = Path(store.path + "-wal").read_bytes()
    assert log
    store.close()
    os.unlink(store.path)
    Path(store.path + "-wal").write_bytes(log)
    new = SqliteStore(store.folder)
    with pytest.raises(Corrupt, match="is empty or gone, but its log"):
        Scribe(new, "new")
    assert log == Path(store.path + "-wal").read_bytes()
    os.unlink(store.path + "-wal")


def test_made_by_another_between_two_looks(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is there because another process made the store a moment ago is no damage."""
    other, look = SqliteStore(store.folder), location.remains_of

    def made_meanwhile(path: str, size: int | None, blobs: Blobs) -> str:
        monkeypatch.undo()
        Scribe(other)
        return look(path, size, blobs)

    monkeypatch.setattr(SEAMS["location.remains_of"], made_meanwhile)
    assert store.exists()
    other.close()


def as_text(path: Path) -> None:
    path.write_text("not a database\n" * 1000)


def as_short_text(path: Path) -> None:
    path.write_text("x")


def as_folder(path: Path) -> None:
    path.mkdir()


def as_foreign(version: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE t (x)")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
        db.close()

    return make


WRONG: dict[str, tuple[Callable[[Path], None], type[LeftoffError], str]] = {
    "text": (as_text, Corrupt, "not a leftoff store"),
    "short text": (as_short_text, Corrupt, "leftoff"),
    "folder": (as_folder, StoreUnavailable, "store.db"),
    "foreign": (as_foreign(0), Corrupt, "not one of leftoff's"),
    "foreign, our number": (as_foreign(1), Corrupt, "store.db"),
    "foreign, high number": (as_foreign(77), Unsupported, "another layout"),
}


@pytest.mark.damages_store
@pytest.mark.parametrize("kind", WRONG)
def test_something_else_in_its_place(store: SqliteStore, kind: str) -> None:
    """Whatever lies where the store should be is told apart, by reading and by writing, and left as it is."""
    make, error, words = WRONG[kind]
    path = Path(store.path)
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for use in (lambda: store.read(lambda view: view.list_runs({})), lambda: store.write(lambda tx: None)):
        with pytest.raises(error, match=words) as caught:
            use()
        assert caught.value.hint
    assert before == (path.read_bytes() if path.is_file() else None)


@pytest.mark.damages_store
def test_empty_file_is_no_store(store: SqliteStore) -> None:
    """leftoff never leaves an empty database: it was cut off, which is told, and it is not written over."""
    Scribe(store).verify()
    store.close()
    os.truncate(store.path, 0)
    for call in (lambda: Scribe(store), store.exists, lambda: store.read(lambda view: view.list_runs({}))):
        with pytest.raises(Corrupt, match="is empty: the database was cut off"):
            call()
    assert 0 == Path(store.path).stat().st_size
    assert ["missing"] == [problem["code"] for problem in store.check()["problems"]]


@pytest.mark.damages_store
def test_blobs_without_a_database(store: SqliteStore) -> None:
    """A folder with blobs and no database is no new store."""
    store.save_blob([b"content"])
    store.close()
    for suffix in ("", "-wal", "-shm"):
        os.unlink(store.path + suffix)
    with pytest.raises(Corrupt, match="its blobs are there"):
        Scribe(store)


def test_file_in_place_of_the_folder(store_path: Path) -> None:
    """A file where the folder should be is told so."""
    store_path.write_text("mine")
    store = SqliteStore(str(store_path))
    with pytest.raises(StoreUnavailable, match="a file, not a folder"):
        store.write(lambda tx: None)
    with pytest.raises(StoreUnavailable):
        store.exists()
    assert "mine" == store_path.read_text()


# -- damage


def damaged(store: SqliteStore, change: Callable[[bytearray], None]) -> SqliteStore:
    """The store with its file changed while nobody had it open."""
    Scribe(store)
    store.close()
    path = Path(store.path)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    return SqliteStore(store.folder)


@pytest.mark.damages_store
@pytest.mark.parametrize("value", [0, 7, 9, 255])
def test_checksums_cannot_be_switched_off(store: SqliteStore, value: int) -> None:
    """A header that no longer says that pages have checksums is damage, not a store without them."""

    def change(content: bytearray) -> None:
        assert 8 == content[20]
        content[20] = value

    broken = damaged(store, change)
    for use in (lambda: broken.read(lambda view: view.list_runs({})), lambda: broken.write(lambda tx: None)):
        with pytest.raises(Corrupt, match=r"store\.db"):
            use()
    broken.close()


@pytest.mark.damages_store
def test_flipped_byte_is_told(store: SqliteStore) -> None:
    """A byte changed in a page that is read is told as damage of that file."""

    def change(content: bytearray) -> None:
        for page in range(1, len(content) // 4096):
            content[page * 4096 + 100] ^= 1

    broken = damaged(store, change)
    with pytest.raises(Corrupt, match="checksum"):
        broken.read(lambda view: view.list_runs({}))
    broken.close()


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system takes only UTF-8")
def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """SQLite cannot name it: told as what it is, with what to do."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    with pytest.raises(StoreUnavailable, match="not UTF-8") as caught:
        Scribe(SqliteStore(os.path.join(folder, ".leftoff")))
    assert "--store" in str(caught.value.hint)


def test_a_disk_that_fails_where_no_store_is_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether blobs lie there cannot be told: that is said as every failure of a disk is."""

    def fails(folder: str) -> list[str]:
        raise OSError(errno.EIO, "Input/output error", folder)

    monkeypatch.setattr(SEAMS["blobs._names"], fails)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        SqliteStore(str(tmp_path / ".leftoff")).exists()
