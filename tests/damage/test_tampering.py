"""What page checksums cannot see, because SQLite itself wrote it: rows and files that are not what was committed."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import leftoff
from leftoff.store import sqlite_connection as connection
from tests.cli.command import call, succeed
from tests.damage.store import Sample, flip, problems, wrong
from tests.races.between import Seam

pytestmark = pytest.mark.damages_store

RUN = "(SELECT run FROM run WHERE run_id = 'run-0')"
SWAP = f"""
    CREATE TEMP TABLE t AS SELECT key, hash, data FROM record
        WHERE run = {RUN} AND collection = 'variable' AND key IN ('n', 'last');
    UPDATE record SET (hash, data) = (SELECT t.hash, t.data FROM t WHERE t.key <> record.key)
        WHERE run = {RUN} AND collection = 'variable' AND key IN ('n', 'last')"""

TAMPERING = {
    "two records swapped": (SWAP, "digest", "run-0@"),
    "a record gone": (
        f"DELETE FROM record WHERE run = {RUN} AND collection = 'knowledge' AND key = 'k1'",
        "digest",
        "run-0@",
    ),
    "a record more": (
        f"INSERT INTO record SELECT run, 'extra', key, seq, hash, data, blob, status, ord, leaf FROM record"
        f" WHERE run = {RUN} AND collection = 'variable' AND key = 'n'",
        "digest",
        "run-0@",
    ),
    "a superseded record's time": (
        f"UPDATE past SET seq = 1 WHERE run = {RUN} AND key = 'text'",
        "digest",
        "run-0@",
    ),
    "a record's bytes": (
        f"UPDATE record SET data = x'4a31' WHERE run = {RUN} AND collection = 'variable' AND key = 'n'",
        "record",
        "variable/n of run-0@",
    ),
    "a record's blob": (
        f"UPDATE record SET blob = zeroblob(32) WHERE run = {RUN} AND collection = 'artifact' AND blob IS NOT NULL",
        "record",
        "artifact/",
    ),
    "a value's bytes": ("UPDATE value SET data = x'4a31'", "value", "value "),
    "a value gone": ("DELETE FROM value", "record", " of "),
    "a blob's row gone": ("DELETE FROM blob", "blob", "artifact/"),
    "a version's digest": (f"UPDATE version SET digest = zeroblob(32) WHERE run = {RUN}", "digest", "run-0@"),
    "a checkpoint's id": (
        f"UPDATE version SET checkpoint = 'abcd' WHERE run = {RUN} AND checkpoint IS NOT NULL",
        "checkpoint",
        "run-0@",
    ),
    "a version's counters": (
        f"UPDATE version SET counts = '[9,0,0,0,0,0,0]' WHERE run = {RUN}",
        "run",
        "run-0@",
    ),
    "all versions gone": (f"DELETE FROM version WHERE run = {RUN}", "digest", "run run-0"),
    "the newest version gone": (
        f"DELETE FROM version WHERE run = {RUN} AND seq = (SELECT seq FROM run WHERE run_id = 'run-0')",
        "digest",
        "run run-0",
    ),
    "the listing's head": ("UPDATE run SET seq = seq + 1 WHERE run_id = 'run-0'", "run", "run run-0"),
    "the listing's counters": (
        "UPDATE run SET counts = '[0,0,0,1,0,0,0]' WHERE run_id = 'run-0'",
        "run",
        "run run-0",
    ),
    "the listing's status": ("UPDATE run SET status = 'failed' WHERE run_id = 'run-0'", "run", "run run-0"),
    "the listing's title": ("UPDATE run SET title = 'mine' WHERE run_id = 'run-0'", "run", "run run-0"),
    "the listing's card": ("UPDATE run SET card = '{' WHERE run_id = 'run-0'", "run", "run run-0"),
    "the order of commits": ("UPDATE run SET n = n + 1 WHERE run_id = 'run-0'", "run", "run run-0"),
    "a run hidden": ("UPDATE run SET hidden = 1 WHERE run_id = 'run-0'", "run", "run run-0"),
    "a run's row gone": ("DELETE FROM run WHERE run_id = 'run-0'", "stray", "table record"),
    "the store's own count": ("UPDATE run SET n = 0 WHERE run = 0", "run", "run 0"),
    "a step's status": (
        f"UPDATE record SET status = 'failed' WHERE run = {RUN} AND collection = 'step' AND key = 'collect'",
        "run",
        "step/collect of run-0",
    ),
    "a step's leaf": (
        f"UPDATE record SET leaf = 1 WHERE run = {RUN} AND collection = 'step' AND key = 'convert'",
        "run",
        "step/convert of run-0",
    ),
    "a run's id that is a path": (
        "UPDATE run SET run_id = '../../run-0' WHERE run_id = 'run-0'",
        "unreadable",
        "run ../../run-0",
    ),
    "an attempt's folder elsewhere": (
        "INSERT INTO attempt (token, run, step, number, log, started_at)"
        f" VALUES ('t', {RUN}, 'collect', 1, 'attempts/../..', 1)",
        "unreadable",
        "an attempt",
    ),
}


def tamper(path: Path, sql: str) -> None:
    """Change rows as SQLite does, with sound pages."""
    db = connection.prepare(connection.open_file(str(path / "store.db")), str(path))
    try:
        with db:
            for _ in db.execute(sql):
                pass
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found(sample: Sample, tmp_path: Path, what: str) -> None:
    """Rows that do not fit together are reported, with the place and a code that says what kind of thing is wrong."""
    sql, code, place = TAMPERING[what]
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, sql)
    found = problems(path)
    assert any(p["code"] == code and place in p["where"] for p in found), found


@pytest.mark.parametrize("offset", range(0, 60, 7))
@pytest.mark.parametrize("kind", ["raw", "zstd"])
def test_flipped_byte_of_a_blob(sample: Sample, tmp_path: Path, kind: str, offset: int) -> None:
    """Any flipped byte of a blob's file is reported with its path, and its content never read as something else."""
    path = sample.copy(tmp_path / ".leftoff")
    packed = b"\x28\xb5\x2f\xfd"
    files = [f for f in path.glob("blobs/*/*") if (f.read_bytes()[:4] == packed) == (kind == "zstd")]
    blob = max(files, key=lambda file: file.stat().st_size)
    flip(blob, offset if offset < 30 else blob.stat().st_size - 1 - offset, 1 << offset % 8)
    assert [str(blob)] == [p["where"] for p in problems(path)]
    assert {} == wrong(sample, path)


@pytest.mark.parametrize("change", ["gone", "longer", "shorter", "empty", "a folder"])
def test_blob_of_another_length(sample: Sample, tmp_path: Path, change: str) -> None:
    """A blob that is not there, or not all of it, or more than it, is reported with its path."""
    path = sample.copy(tmp_path / ".leftoff")
    for blob in path.glob("blobs/*/*"):
        data = blob.read_bytes()
        blob.unlink()
        if change == "a folder":
            blob.mkdir()
        elif change != "gone":
            blob.write_bytes({"longer": data + b"\0", "shorter": data[:-1], "empty": b""}[change])
        assert [str(blob)] == [p["where"] for p in problems(path)]
        assert {} == wrong(sample, path)
        blob.rmdir() if blob.is_dir() else blob.unlink(missing_ok=True)
        blob.write_bytes(data)
    assert [] == problems(path)


def test_database_gone(sample: Sample, tmp_path: Path) -> None:
    """A store whose database is gone is no new store."""
    path = sample.copy(tmp_path / ".leftoff")
    (path / "store.db").unlink()
    assert ["missing"] == [p["code"] for p in problems(path)]


def test_a_prune_drops_what_is_no_checkpoint_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is cut short leaves none behind which a checkpoint that it dropped would look lost."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("set", "x=1", cwd=project)
    saved = succeed("save", "--json", cwd=project).json
    succeed("set", "x=2", cwd=project)

    def die() -> None:
        raise KeyboardInterrupt

    Seam(monkeypatch).before("leftoff.store.upkeep.over", die)
    with leftoff.open(project / ".leftoff") as store, pytest.raises(KeyboardInterrupt):
        store.prune("r", [saved["checkpoint_id"]])
    assert "it was pruned" in call("show", f"r@{saved['seq'] - 1}", cwd=project).err
    succeed("show", f"r@{saved['seq']}", cwd=project)
