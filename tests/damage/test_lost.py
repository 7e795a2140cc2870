"""What a repair noted as lost is lost, and nothing more: every verb goes on, takes the note along, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leftoff.store.sqlite.store import SqliteStore
from tests.cli.command import Called, call
from tests.damage.store import flip

pytestmark = pytest.mark.damages_store


def tracked(folder: Path) -> None:
    """A run with two versions of a file, the last one seen."""
    assert 0 == call("start", "flow", "--run-id", "r", cwd=folder).code
    for text in ("one", "two"):
        (folder / "a.txt").write_text(text)
        assert 0 == call("track", "a.txt", cwd=folder).code
        assert 0 == call("save", cwd=folder).code


def lose(folder: Path) -> None:
    """Every blob is gone, and a repair noted it."""
    for blob in (folder / ".leftoff" / "blobs").rglob("*/*"):
        blob.unlink()
    assert 4 == call("fsck", cwd=folder).code
    assert 0 == call("fsck", "--repair", cwd=folder).code


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    tracked(tmp_path)
    lose(tmp_path)
    return tmp_path


def says_so(done: Called) -> bool:
    return done.code == 0 and "the copy of a.txt (@" in done.err


def test_verbs_go_on_and_say_what_is_lost(lost: Path) -> None:
    """Forking, archiving and bringing back a run: none of it stops, and each says which copy is lost."""
    assert says_so(call("fork", "r", "--run-id", "f", cwd=lost))
    assert 0 == call("rollback", "r@3", cwd=lost).code
    assert 0 == call("finish", "--run", "r", cwd=lost).code
    assert says_so(call("archive", "r", cwd=lost))
    assert 3 == call("cat", "r:a.txt", cwd=lost).code
    assert says_so(call("undelete", "r", cwd=lost))
    assert 0 == call("fsck", cwd=lost).code
    for ref in ("r", "f"):
        done = call("cat", f"{ref}:a.txt", cwd=lost)
        assert (3, True) == (done.code, "is lost" in done.err)


def test_a_lost_value_says_which_and_what_helps(tmp_path: Path) -> None:
    """A value that lay in a blob: who reads it is told its name, and not to repair once more; a fork takes it along,
    and set again it is there."""
    (tmp_path / "big").write_text("x" * 1_100_000)
    assert 0 == call("start", "flow", "--run-id", "r", cwd=tmp_path).code
    assert 0 == call("set", "big=@big", cwd=tmp_path).code
    lose(tmp_path)
    assert 0 == call("fork", "r", "--run-id", "f", cwd=tmp_path).code
    for words in (("get", "big", "f"), ("show", "f"), ("resume", "f", "--yes"), ("verify", "f")):
        done = call(*words, cwd=tmp_path)
        assert (4, True) == (done.code, "variable/big of run f is lost" in done.out + done.err), words
        assert (True, False) == ("Set it again" in done.out + done.err, "fsck" in done.out + done.err), words
    assert 0 == call("set", "big=1", "--run", "f", cwd=tmp_path).code
    assert 0 == call("resume", "f", "--yes", cwd=tmp_path).code


@pytest.mark.parametrize("noted", [False, True], ids=["damaged", "noted as lost"])
def test_where_to_go_back_to(tmp_path: Path, noted: bool) -> None:
    """The checkpoint that is named as intact is one, with its values in blobs: the run resumes from there."""
    (tmp_path / "big").write_text("x" * 1_100_000)
    assert 0 == call("start", "flow", "--run-id", "r", cwd=tmp_path).code
    whole = call("save", "--json", cwd=tmp_path).json["seq"]
    for words in (("set", "big=@big"), ("save",), ("set", "c=1")):
        assert 0 == call(*words, cwd=tmp_path).code
    if noted:
        lose(tmp_path)
    else:
        (blob,) = (tmp_path / ".leftoff" / "blobs").rglob("*/*")
        flip(blob, 20)
    (finding,) = call("verify", "r", "--json", cwd=tmp_path).json["findings"]
    assert f"`leftoff resume r@{whole}` continues" in finding["hint"]
    assert 0 == call("resume", f"r@{whole}", "--yes", cwd=tmp_path).code


def test_a_lost_step_goes_along(tmp_path: Path) -> None:
    """The record of a step that lay in a blob: nobody knows how the step ended, and no copy of its run claims to."""
    assert 0 == call("start", "flow", "--run-id", "r", cwd=tmp_path).code
    assert 0 == call("step", "done", "a", "--result", json.dumps("x" * 1_100_000), cwd=tmp_path).code
    lose(tmp_path)
    assert 0 == call("fork", "r", "--run-id", "f", cwd=tmp_path).code
    assert 0 == call("fsck", cwd=tmp_path).code
    done = call("verify", "f", cwd=tmp_path)
    assert (4, True) == (done.code, "step/a" in done.out)


@pytest.mark.parametrize("damage", ["flipped", "gone", "forgotten"])
def test_a_damaged_copy_is_told_by_diff(tmp_path: Path, damage: str) -> None:
    """It is not taken for one that was not kept: the same is said as by whoever reads the file alone."""
    tracked(tmp_path)
    for blob in (tmp_path / ".leftoff" / "blobs").rglob("*/*"):
        flip(blob, 0) if damage == "flipped" else blob.unlink()
    if damage == "forgotten":
        store = SqliteStore(str(tmp_path / ".leftoff"))
        store.write(lambda tx: tx.execute("DELETE FROM blob"))  # type: ignore[attr-defined]
        store.close()
    for words in (("cat", "r@3:a.txt"), ("diff", "r@3", "r@5"), ("diff", "r@3", "r")):
        assert 4 == call(*words, cwd=tmp_path).code, words
    (tmp_path / "a.txt").write_text("three")
    done = call("verify", "r", "--json", cwd=tmp_path)
    assert "a.txt" in str(done.json)
    assert 0 == call("fsck", "--repair", cwd=tmp_path).code
    done = call("diff", "r@3", "r@5", cwd=tmp_path)
    assert (0, True) == (done.code, "its copy at r@3 is lost" in done.out)
