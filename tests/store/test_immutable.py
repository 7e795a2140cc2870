"""A store in a folder that nothing can be written to is read as an immutable file, if nobody writes there."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import leftoff
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.store.sqlite import SqliteStore


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
    """Every read opens it again, and nothing is made next to it."""
    before = sorted(Path(store.folder).iterdir())
    for _ in range(2):
        assert 1 == store.read(lambda view: len(view.list_runs({})))
    assert before == sorted(Path(store.folder).iterdir())
    assert not [db for db in apsw.connections() if db.filename == store.path]


def test_a_process_that_writes_meanwhile_is_noticed(store: SqliteStore) -> None:
    """What was read is not returned, and the read may be tried again."""
    log = Path(store.path + "-wal")
    with pytest.raises(StoreUnavailable, match="written to while") as caught:
        store.read(lambda view: log.write_bytes(b"x"))
    assert caught.value.retry


def test_an_older_one_is_refused(store: SqliteStore) -> None:
    """A copy without the log that it had is not read as if nothing were missing."""
    store.turn.open()
    store.turn.mark(1000)
    with pytest.raises(Corrupt, match="and was at 1000"):
        store.read(lambda view: view.list_runs({}))
    store.turn.close()


def test_a_log_is_never_left_out(store: SqliteStore) -> None:
    """It holds newer commits than the database."""
    Path(store.path + "-wal").write_bytes(b"x")
    with pytest.raises(StoreUnavailable, match="its log has no index") as caught:
        store.read(lambda view: view.list_runs({}))
    assert "--store" in caught.value.hint
