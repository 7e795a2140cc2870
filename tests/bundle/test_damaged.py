"""A bundle that is damaged, foreign or too new is rejected with exit 4 and a reason, and nothing of it is imported."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from leftoff.store.blobs import zstd
from leftoff.store.sqlite_connection import open_file
from tests.bundle.samples import make_run, write_bundle
from tests.cli.command import call, succeed


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a bundle with a file."""
    here = tmp_path_factory.mktemp("here")
    write_bundle(here, make_run(here), here / "run.leftoff")
    return (here / "run.leftoff").read_bytes()


def rejected(folder: Path, content: bytes) -> dict[str, Any]:
    """Import these bytes as a bundle, which fails; return what is said of them."""
    (folder / "bad.leftoff").write_bytes(content)
    done = call("import", "bad.leftoff", "--protocol", "leftoff", "--json", cwd=folder)
    assert (4, []) == (done.code, done.json["imported"]), done
    assert not (folder / ".leftoff").exists()
    (entry,) = done.json["rejected"]
    assert "bad.leftoff" in entry["message"] and entry["hint"]
    return dict(entry)


@pytest.mark.parametrize("part", range(12))
def test_a_flipped_bit(bundle: bytes, tmp_path: Path, part: int) -> None:
    """It is found wherever it is."""
    at = 6 + part * (len(bundle) - 7) // 11
    flipped = bundle[:at] + bytes([bundle[at] ^ 16]) + bundle[at + 1 :]
    assert "corrupt" == rejected(tmp_path, flipped)["code"]


@pytest.mark.parametrize("left", [5, 1000, -1, -4])
def test_cut_short(bundle: bytes, tmp_path: Path, left: int) -> None:
    entry = rejected(tmp_path, bundle[:left])
    assert ("corrupt", True) == (entry["code"], "truncated" in entry["message"]), entry


def test_bytes_after_its_end(bundle: bytes, tmp_path: Path) -> None:
    assert "after its end" in rejected(tmp_path, bundle + b"more")["message"]
    assert "after its end" in rejected(tmp_path, bundle + bytes(1 << 20))["message"]


@pytest.mark.parametrize("content", [b"", b"text", zstd().compress(b"text"), zstd().compress(b"")])
def test_no_bundle(tmp_path: Path, content: bytes) -> None:
    assert "invalid" == rejected(tmp_path, content)["code"]


def test_other_databases(bundle: bytes, tmp_path: Path) -> None:
    """A SQLite database is not a bundle, packed or not."""
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t (x)")
    content = (tmp_path / "other.db").read_bytes()
    for each in (content, zstd().compress(content)):
        assert "invalid" == rejected(tmp_path, each)["code"]


def edited(bundle: bytes, folder: Path, sql: str) -> bytes:
    """A bundle whose database was changed."""
    path = folder / "edited.db"
    path.write_bytes(zstd().decompress(bundle))
    db = open_file(str(path))
    db.execute(sql).fetchall()
    db.close()
    return bytes(zstd().compress(path.read_bytes()))


def test_too_new(bundle: bytes, tmp_path: Path) -> None:
    """The message names both numbers."""
    entry = rejected(tmp_path, edited(bundle, tmp_path, "PRAGMA user_version = 99"))
    assert ("unsupported", True) == (entry["code"], "schema 99" in entry["message"]), entry


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE piece SET data = zeroblob(length(data)) WHERE number = 0",
        "DELETE FROM piece",
        "UPDATE past SET data = zeroblob(length(data))",
        "UPDATE record SET data = CAST('J1' AS BLOB) WHERE collection = 'step'",
        "DELETE FROM record WHERE collection = 'note'",
        "DELETE FROM past",
        "UPDATE version SET digest = zeroblob(32)",
        "DELETE FROM blob",
        "INSERT INTO piece VALUES (CAST('attempts/../../escaped' AS BLOB), 0, x'00')",
    ],
)
def test_what_does_not_have_its_hash(bundle: bytes, tmp_path: Path, sql: str) -> None:
    """Records, versions and files are checked by their hashes, also if the file's own checksum is right."""
    assert "corrupt" == rejected(tmp_path, edited(bundle, tmp_path, sql))["code"]


def test_the_bundle_itself_is_sound(bundle: bytes, tmp_path: Path) -> None:
    """Packed again as in the other tests, without a change, it is imported."""
    (tmp_path / "good.leftoff").write_bytes(edited(bundle, tmp_path, "SELECT 1"))
    succeed("import", "good.leftoff", cwd=tmp_path)
    succeed("fsck", cwd=tmp_path)
