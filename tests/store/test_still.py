"""A store in a folder that takes nothing is read as it lies, unless somebody else writes there."""

from __future__ import annotations

import resource
from pathlib import Path

import apsw
import pytest

import leftoff
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.store.sqlite.still import open_still
from leftoff.store.sqlite.store import SqliteStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """One without a log, which SQLite cannot open as usual."""

    def refused(self: SqliteStore) -> apsw.Connection:
        raise apsw.CantOpenError("unable to open database file")

    with leftoff.open(tmp_path / "a b%") as opened:
        opened.start("x").finish()
    store = SqliteStore(str(tmp_path / "a b%"))
    for end in ("-wal", "-shm"):
        Path(store.path + end).unlink()
    monkeypatch.setattr(SqliteStore, "_connect", refused)
    return store


def test_it_is_read_and_left_as_it_is(store: SqliteStore) -> None:
    """Every look opens it anew, and nothing is made beside it."""
    before = sorted(Path(store.folder).iterdir())
    for _ in range(2):
        assert 1 == store.read(lambda view: len(view.list_runs({})))
    assert before == sorted(Path(store.folder).iterdir())
    assert not [db for db in apsw.connections() if db.filename == store.path]


def test_somebody_who_writes_meanwhile_is_noticed(store: SqliteStore) -> None:
    """What was read counts for nothing, whatever came of it; that may be repeated."""
    log = Path(store.path + "-wal")
    for divisor in (1, 0):
        with pytest.raises(StoreUnavailable, match="written to while") as caught:
            store.read(lambda view, by=divisor: (log.write_bytes(b"x"), 1 // by))  # type: ignore[misc]
        assert caught.value.retry
        log.unlink()


def test_no_file_may_be_opened_any_more(store: SqliteStore) -> None:
    """That is why SQLite could not open it: nobody is sent to copy a folder."""
    Path(store.path + "-wal").write_bytes(b"x")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(StoreUnavailable, match="Too many open files") as caught:
            store.read(lambda view: view.list_runs({}))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "ulimit -n" in caught.value.hint


def test_an_older_one_is_told(store: SqliteStore) -> None:
    """A copy without the log that it had is not read as if nothing were missing."""
    store.turn.open()
    store.turn.mark(1000)
    with pytest.raises(Corrupt, match="and was at 1000"):
        store.read(lambda view: view.list_runs({}))
    assert not [db for db in apsw.connections() if db.filename == store.path]
    store.turn.close()


def test_a_log_is_never_left_out(store: SqliteStore) -> None:
    """It holds newer commits than the database."""
    Path(store.path + "-wal").write_bytes(b"x")
    with pytest.raises(StoreUnavailable, match="its log has no index") as caught:
        open_still(store.path)
    assert "--store" in caught.value.hint
