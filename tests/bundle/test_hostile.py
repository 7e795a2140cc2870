"""A bundle that somebody tampered with is refused whole, says why, and leaves nothing."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import leftoff
from leftoff.engine.retention.bundle_check import climbs, open_bundle
from leftoff.engine.retention.export import import_bundle
from leftoff.errors import BadData, Corrupt, Invalid, LeftoffError, NotFound, Unsupported
from leftoff.model.codec import JSON, encode
from leftoff.store.blobs import zstd
from leftoff.store.bundle import read as format
from leftoff.store.sqlite.store import SqliteStore
from tests.bundle.forge import DRIVER, forge, make_run, sum_up, tampering, write_bundle


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with something of everything."""
    folder = tmp_path_factory.mktemp("source")
    path = folder / "good.leftoff"
    write_bundle(folder, make_run(folder), path)
    return path


def listing(folder: Path) -> dict[str, int]:
    """Every name below a folder, with its size."""
    return {str(p.relative_to(folder)): p.lstat().st_size for p in folder.rglob("*")}


def refused(path: Path, folder: Path) -> LeftoffError:
    """The error of an import that must fail; nothing may be left of it, anywhere below the folder."""
    before = listing(folder)
    store = SqliteStore(str(folder / "home" / ".leftoff"))
    with pytest.raises(LeftoffError) as caught:
        bundle = open_bundle(str(path))
        try:
            import_bundle(store, bundle, 0, DRIVER)
        finally:
            bundle.close()
    store.close()
    assert before == listing(folder)
    assert caught.value.hint
    return caught.value


def run_sql(sql: str) -> Callable[[apsw.Connection], None]:
    """Tampering by a few statements."""

    def tamper(db: apsw.Connection) -> None:
        for _ in db.execute(sql):
            pass

    return tamper


def bomb(db: apsw.Connection) -> None:
    """A pack that unpacks to a thousand times what it declares."""
    data = zstd().compress(bytes(1 << 28), 3)
    db.execute("UPDATE pack SET data = ?, size = 1000 WHERE pack = 0", (data,))


def open_bomb(db: apsw.Connection) -> None:
    """One that declares it openly."""
    db.execute("UPDATE pack SET data = ?, size = ?", (zstd().compress(bytes(1 << 28), 3), 1 << 28))


def wide_window(db: apsw.Connection) -> None:
    """A frame that asks for a gigabyte of memory to be unpacked."""
    library = zstd()
    options = {library.CompressionParameter.window_log: 30, library.CompressionParameter.content_size_flag: 0}
    packer = library.ZstdCompressor(options=options)
    db.execute("UPDATE pack SET data = ?", (packer.compress(b"x" * 1000) + packer.flush(),))


def two_frames(db: apsw.Connection) -> None:
    """Something behind the frame."""
    db.execute("UPDATE pack SET data = CAST(data || ? AS BLOB)", (zstd().compress(b"more", 3),))


def swapped_pieces(db: apsw.Connection) -> None:
    """The content of one file under the name of another."""
    a, b = (row[0] for row in db.execute("SELECT hash FROM blob ORDER BY hash LIMIT 2"))
    db.execute("UPDATE piece SET blob = zeroblob(32) WHERE blob = ?", (a,))
    db.execute("UPDATE piece SET blob = ? WHERE blob = ?", (a, b))
    db.execute("UPDATE piece SET blob = ? WHERE blob = zeroblob(32)", (b,))


LIES: dict[str, Callable[[apsw.Connection], None]] = {
    "digest": run_sql("UPDATE version SET digest = zeroblob(32) WHERE seq = 2"),
    "short digest": run_sql("UPDATE version SET digest = x'00'"),
    "head digest": run_sql("UPDATE bundle SET value = printf('%064d', 0) WHERE name = 'digest'"),
    "checkpoint id": run_sql(
        "UPDATE version SET checkpoint = printf('%064d', 1) WHERE checkpoint IS NOT NULL"
    ),
    "version gone": run_sql("DELETE FROM version WHERE seq = 3"),
    "every version gone": run_sql("DELETE FROM version; UPDATE bundle SET value = 0 WHERE name = 'versions'"),
    "head gone": run_sql("DELETE FROM version WHERE seq = (SELECT max(seq) FROM version)"),
    "negative seq": run_sql("UPDATE version SET seq = -seq"),
    "time before 1970": run_sql("UPDATE version SET at = -1"),
    "time after all": run_sql("UPDATE version SET at = 1 << 62"),
    "counters": run_sql("UPDATE version SET counts = '[]'"),
    "counters that are none": run_sql("UPDATE version SET counts = 'x'"),
    "counters of the head": run_sql("UPDATE version SET counts = '[9,0,0,0,0,0,0]'"),
    "trigger": run_sql("UPDATE version SET trigger = 'evil' WHERE trigger IS NOT NULL"),
    "note without a seal": run_sql("UPDATE version SET note = 'x' WHERE checkpoint IS NULL"),
    "endless note": run_sql(
        "UPDATE version SET note = printf('%.*c', 2000000, 'x') WHERE trigger IS NOT NULL"
    ),
    "step of a seal": run_sql("UPDATE version SET step = '' WHERE checkpoint IS NOT NULL"),
    "alias of nothing": run_sql("INSERT INTO alias VALUES (999, 'x')"),
    "alias with a newline": run_sql(
        "INSERT INTO alias SELECT seq, 'a' || char(10) || 'b' FROM version WHERE checkpoint IS NOT NULL LIMIT 1"
    ),
    "other run id": run_sql("UPDATE bundle SET value = 'another' WHERE name = 'run_id'"),
    "run id that climbs": run_sql("UPDATE bundle SET value = '../../evil' WHERE name = 'run_id'"),
    "run id with a space": run_sql("UPDATE bundle SET value = 'x removed 1' WHERE name = 'run_id'"),
    "no run id": run_sql("DELETE FROM bundle WHERE name = 'run_id'"),
    "another fact": run_sql("INSERT INTO bundle VALUES ('extra', '1')"),
    "created never": run_sql("UPDATE bundle SET value = 'never' WHERE name = 'created_at'"),
    "created too late": run_sql(
        "UPDATE bundle SET value = printf('%.*c', 5000, '9') WHERE name = 'created_at'"
    ),
    "record gone": run_sql("DELETE FROM record WHERE collection = 'note'"),
    "record renamed": run_sql("UPDATE record SET key = key || 'x' WHERE collection = 'note'"),
    "unknown collection": run_sql("UPDATE record SET collection = 'evil' WHERE collection = 'note'"),
    "key with NUL": run_sql("UPDATE record SET key = 'a' || char(0) || 'b' WHERE collection = 'note'"),
    "endless key": run_sql(
        "UPDATE record SET key = printf('%.*c', 9999, 'k') || key WHERE collection = 'note'"
    ),
    "step with an empty part": run_sql(
        "UPDATE record SET key = 'a//b' WHERE collection = 'step' AND key = 'b'"
    ),
    "ends before it begins": run_sql("UPDATE record SET until = seq - 1 WHERE until IS NOT NULL"),
    "never ends": run_sql("UPDATE record SET until = NULL WHERE until IS NOT NULL"),
    "ends after the end": run_sql("UPDATE record SET until = 1 << 40 WHERE until IS NULL"),
    "begins after the end": run_sql("UPDATE record SET seq = 1 << 40 WHERE collection = 'note'"),
    "two at once": run_sql(
        "INSERT INTO record SELECT collection, key, seq + 1, NULL, value FROM record WHERE collection = 'note'"
    ),
    "value of nothing": run_sql("UPDATE record SET value = 1 << 40 WHERE collection = 'note'"),
    "another value": run_sql("UPDATE record SET value = 1 WHERE collection = 'note'"),
    "value with another hash": run_sql("UPDATE value SET hash = zeroblob(32)"),
    "value outside of its pack": run_sql("UPDATE value SET start = 1 << 40"),
    "value before its pack": run_sql("UPDATE value SET start = -5"),
    "empty value": run_sql("UPDATE value SET size = 0"),
    "endless value": run_sql("UPDATE value SET size = 1 << 62"),
    "value in no pack": run_sql("UPDATE value SET pack = 99999"),
    "value that nobody has": run_sql(
        "INSERT INTO value SELECT 1 << 30, hash, pack, start, size FROM value LIMIT 1"
    ),
    "pack gone": run_sql("DELETE FROM pack WHERE pack = 0"),
    "pack of garbage": run_sql("UPDATE pack SET data = randomblob(1000)"),
    "pack of nothing": run_sql("UPDATE pack SET data = x''"),
    "negative pack": run_sql("UPDATE pack SET size = -1"),
    "pack larger than all": run_sql("UPDATE pack SET size = 1 << 62"),
    "pack that says less": run_sql("UPDATE pack SET size = size - 1"),
    "pack that says more": run_sql("UPDATE pack SET size = size + 1"),
    "bomb": bomb,
    "open bomb": open_bomb,
    "wide window": wide_window,
    "two frames": two_frames,
    "file gone": run_sql("DELETE FROM blob WHERE hash = (SELECT min(hash) FROM blob)"),
    "piece gone": run_sql("DELETE FROM piece WHERE number = 0"),
    "piece too many": run_sql("INSERT INTO piece SELECT blob, 99, size, data FROM piece LIMIT 1"),
    "pieces swapped": swapped_pieces,
    "file of another size": run_sql("UPDATE blob SET size = size + 1"),
    "file larger than all": run_sql("UPDATE blob SET size = 1 << 62"),
    "negative file": run_sql("UPDATE blob SET size = -1"),
    "pieces without end": run_sql("UPDATE blob SET pieces = 1 << 62"),
    "file that nobody has": run_sql(
        "INSERT INTO blob VALUES (unhex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'), 0, 0)"
    ),
    "trigger in the schema": run_sql("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END"),
    "view": run_sql("CREATE VIEW v AS SELECT 1"),
    "table": run_sql("CREATE TABLE t (x)"),
    "index": run_sql("CREATE INDEX i ON record (value)"),
    "virtual table": run_sql("CREATE VIRTUAL TABLE f USING fts5(x)"),
    "column": run_sql("ALTER TABLE version ADD COLUMN more TEXT"),
    "view instead of a table": run_sql(
        "ALTER TABLE record RENAME TO other; CREATE VIEW record AS SELECT * FROM other"
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_found(lie: str, good: Path, tmp_path: Path) -> None:
    """Whatever is changed in a bundle, the import says what is wrong with it, and nothing is left."""
    path = Path(shutil.copy(good, tmp_path / "bad.leftoff"))
    with tampering(path) as db:
        LIES[lie](db)
        if "schema" not in lie and "view" not in lie:
            sum_up(db)
    error = refused(path, tmp_path)
    assert isinstance(error, (Corrupt, Invalid))
    assert str(path) in error.message


def record(collection: str, key: str, value: object) -> tuple[str, str, bytes]:
    return collection, key, JSON + encode(value)


BASIS = [record("run", "status", "running"), record("run", "workflow", "forged")]
FORGERIES: dict[str, list[tuple[str, str, bytes]]] = {
    "artifact that climbs out": [record("artifact", "x", {"path": "../../.ssh/authorized_keys"})],
    "file that climbs out": [record("file", "a/../../x", {})],
    "file whose path climbs out": [record("file", "x", {"path": "a/b/../../../x"})],
    "status of the run": [record("run", "status", "evil")],
    "status of a step": [record("step", "a", {"status": "evil"})],
    "step that is not an object": [record("step", "a", 5)],
    "text that is no JSON": [("variable", "x", b"J{")],
    "number that is endless": [("variable", "x", b"J" + b"9" * 10_000)],
    "nesting without end": [("variable", "x", b"J" + b"[" * 200_000 + b"]" * 200_000)],
    "unknown tag": [("variable", "x", b"Xevil")],
    "no bytes at all": [("variable", "x", b"")],
    "head of a list elsewhere": [("note", "x", b"L")],
    "redacted places that are none": [("variable", "x", b'R{"paths":[1],"value":2}')],
    "redacted without places": [("variable", "x", b"R5")],
    "blob that is not there": [("artifact", "x", b"B" + bytes(32))],
    "blob that is no hash": [("artifact", "x", b"Bshort")],
    "entry of nothing": [record("item", "x/0000000000", 1)],
    "list with a hole": [("variable", "x", b"L"), record("item", "x/0000000001", 1)],
    "invalid UTF-8": [("variable", "x", b'J"\xff"')],
}


@pytest.mark.parametrize("what", FORGERIES)
def test_forgeries_are_found(what: str, tmp_path: Path) -> None:
    """Right hashes do not make it right: what no commit could have stored is refused."""
    forged = {record[:2]: record for record in BASIS + FORGERIES[what]}
    forge(tmp_path / "bad.leftoff", list(forged.values()))
    assert isinstance(refused(tmp_path / "bad.leftoff", tmp_path), Corrupt)


def test_a_careful_forgery_is_just_data(tmp_path: Path) -> None:
    """A digest is no signature: what could have been committed comes in; absolute paths name files, no more."""
    records = [*BASIS, record("artifact", "x", {"path": "/etc/passwd"}), record("variable", "x", "\x1b[2J")]
    forge(tmp_path / "made-up.leftoff", records)
    with leftoff.open(tmp_path / ".leftoff") as store:
        bundle = open_bundle(str(tmp_path / "made-up.leftoff"))
        assert import_bundle(store._store, bundle, 0, DRIVER)
        bundle.close()
        assert {"path": "/etc/passwd"} == store.get("forged").artifacts["x"]


def test_a_newer_schema_is_named(good: Path, tmp_path: Path) -> None:
    """The message names both numbers."""
    path = Path(shutil.copy(good, tmp_path / "new.leftoff"))
    with tampering(path) as db:
        db.execute("PRAGMA user_version = 7")
    error = refused(path, tmp_path)
    assert isinstance(error, Unsupported) and "schema 7; this leftoff knows 1" in error.message


def test_other_files_are_not_bundles(tmp_path: Path) -> None:
    """Text, nothing, a folder, a pipe, a device, a foreign database, a store: each is refused without waiting."""
    (tmp_path / "text").write_text("hello " * 100)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with tampering(tmp_path / "foreign.db") as db:
        db.execute("CREATE TABLE t (x)")
    with leftoff.open(tmp_path / "other" / ".leftoff") as store:
        store.start("x").finish()
    names = ["text", "empty", "folder", "pipe", "foreign.db", "other/.leftoff/store.db"]
    for path in [*(tmp_path / name for name in names), Path("/dev/zero")]:
        assert isinstance(refused(path, tmp_path), Invalid), path
    assert isinstance(refused(tmp_path / "missing", tmp_path), NotFound)


@pytest.mark.parametrize("part", [0.0001, 0.01, 0.3, 0.7, 0.99, 0.99999])
def test_a_truncated_file_is_found(part: float, good: Path, tmp_path: Path) -> None:
    """However much of it is missing."""
    path = tmp_path / "cut.leftoff"
    path.write_bytes(good.read_bytes()[: int(good.stat().st_size * part)])
    assert isinstance(refused(path, tmp_path), BadData)


def facts_of(path: Path) -> list[tuple[object, ...]]:
    """What a checked bundle says of each version."""
    bundle = open_bundle(str(path))
    try:
        return [(v.seq, v.checkpoint, v.trigger, v.step, v.note, v.at, v.aliases) for v in bundle.versions]
    finally:
        bundle.close()


def test_flipped_bits_are_found(good: Path, tmp_path: Path) -> None:
    """A flipped bit is refused, or it changed nothing that counts: never a wrong run."""
    dice = random.Random(5)
    whole, wanted = good.read_bytes(), facts_of(good)
    found = 0
    for _ in range(60):
        at = dice.randrange(len(whole))
        path = tmp_path / "flipped.leftoff"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        try:
            assert wanted == facts_of(path), at
        except BadData:
            found += 1
    assert found > 40


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE version SET note = 'another' WHERE note IS NOT NULL",
        "UPDATE version SET trigger = 'review' WHERE trigger IS NOT NULL",
        "UPDATE version SET at = at + 1",
        "INSERT INTO alias SELECT max(seq), 'a name' FROM version WHERE checkpoint IS NOT NULL",
        "UPDATE bundle SET value = value + 1 WHERE name = 'created_at'",
        "UPDATE version SET counts = '[0,0,0,0,1,0,0]' WHERE seq = 1",
    ],
)
def test_what_no_digest_covers_is_summed_up(change: str, good: Path, tmp_path: Path) -> None:
    """Times, triggers, notes and names are not part of a state; a sum over them finds what changed."""
    path = Path(shutil.copy(good, tmp_path / "bad.leftoff"))
    with tampering(path) as db:
        db.execute(change)
    assert "its checksum does not match" in refused(path, tmp_path).message
    with tampering(path) as db:
        sum_up(db)
    facts_of(path)


def test_what_lies_beside_it_is_ignored(good: Path, tmp_path: Path) -> None:
    """A journal or a write-ahead log beside the file is neither read nor touched, and none is made."""
    home = tmp_path / "bundles"
    home.mkdir()
    path = Path(shutil.copy(good, home / "run.leftoff"))
    raw = bytearray(path.read_bytes())
    raw[18:20] = b"\x02\x02"  # says: I have a write-ahead log
    path.write_bytes(raw)
    (home / "run.leftoff-wal").write_bytes(os.urandom(5000))
    (home / "run.leftoff-journal").write_bytes(os.urandom(5000))
    before = listing(home)
    bundle = open_bundle(str(path))
    bundle.close()
    assert before == listing(home)


def test_limits_are_told(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is too large, or would unpack to too much, is refused with both numbers."""
    monkeypatch.setattr(format, "TOTAL", 1_000_000)
    error = refused(good, tmp_path)
    assert "would unpack to" in error.message and "1,000,000 is the most" in error.message
    monkeypatch.setattr(format, "TOTAL", 1000)
    assert "a bundle has at most 1,000" in refused(good, tmp_path).message


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("a", False),
        ("a/../b", False),
        ("..a/b", False),
        ("/x", False),
        ("..", True),
        ("../x", True),
        ("a/../../x", True),
    ],
)
def test_paths_that_climb(path: str, out: bool) -> None:
    """Only where the way really leads out."""
    assert out == climbs(path)
