"""Damage, from the verdict to going on: what is damaged is named, and so is the last checkpoint that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.verify.situations import Place, codes, only

pytestmark = pytest.mark.damages_store


def test_the_last_good_checkpoint_is_offered(place: Place) -> None:
    """A damaged head: the newest checkpoint that is whole is named, and going on from there works."""
    place.start("--steps", "a,b,c")
    for step in ("a", "b"):
        succeed("step", "done", step, cwd=place.folder)
    whole = place.head["seq"]
    succeed("set", "x=1", cwd=place.folder)
    place.tamper("UPDATE record SET data = x'4a32' WHERE collection = 'variable' AND key = 'x'")
    found = only(place.verify(code=4))
    assert ("integrity.record", "refuse") == (found["code"], found["level"])
    assert "variable/x of run r" in found["message"]
    assert f"`leftoff resume r@{whole}`" in found["hint"]
    place.back("--yes", code=4)
    assert 0 == call("resume", f"r@{whole}", "--yes", cwd=place.folder).code
    assert ("completed", "pending") == (place.status("b"), place.status("c"))
    assert [] == place.verify(code=0)["findings"]


def test_a_digest_that_is_off(place: Place) -> None:
    """The same where no record is damaged by itself: one is gone."""
    place.start("--steps", "a,b")
    succeed("step", "done", "a", cwd=place.folder)
    whole = place.head["seq"]
    succeed("set", "x=1", "y=2", cwd=place.folder)
    place.tamper("DELETE FROM record WHERE collection = 'variable' AND key = 'x'")
    found = only(place.verify(code=4))
    assert ("integrity.digest", True) == (found["code"], f"r@{whole} is intact" in found["hint"])


def test_a_damaged_run_that_is_completed(place: Place) -> None:
    """For programs the verdict is an event, and the last event has the exit code."""
    place.start("--steps", "a")
    succeed("step", "done", "a", cwd=place.folder)
    succeed("set", "x=1", cwd=place.folder)
    succeed("finish", cwd=place.folder)
    place.tamper("UPDATE record SET data = x'4a32' WHERE collection = 'variable' AND key = 'x'")
    driver = place.resume()
    driver.end(4)
    assert ("verdict", "end", 4) == (*(event["event"] for event in driver.events), driver.events[-1]["exit"])


def copies(place: Place) -> list[Path]:
    """The files that the store keeps copies in."""
    return [path for path in (place.folder / ".leftoff/blobs").rglob("*") if path.is_file()]


def spoil(copy: Path) -> None:
    """A byte in its middle is another."""
    copy.chmod(0o600)
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 0xFF
    copy.write_bytes(data)


def test_a_damaged_copy(place: Place) -> None:
    """`--deep` reads every copy that the run has; one that is damaged is refused, with its path."""
    place.start("--steps", "a,b")
    (place.folder / "o.bin").write_bytes(bytes(range(256)) * 8000)
    succeed("step", "done", "a", "--output", "o.bin", cwd=place.folder)
    assert [] == place.verify("r", "--deep", code=0)["findings"]
    (blob,) = copies(place)
    spoil(blob)
    found = place.verify("r", "--deep", code=4)
    assert [("integrity.blob", "refuse")] == codes(found)
    assert "o.bin" == found["findings"][0]["subject"]
    assert [] == place.verify(code=0)["findings"]
    call("fsck", "--repair", cwd=place.folder)
    assert [("integrity.blob", "refuse")] == codes(place.verify("r", "--deep", code=4))


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_an_output_whose_copy_is_lost(repaired: bool, gone: bool, place: Place) -> None:
    """--yes brings back only what the store has as it was recorded: else the step runs again, before a repair and
    after one."""
    place.start("--steps", "a,b")
    (place.folder / "o.bin").write_bytes(bytes(range(256)) * 8000)
    succeed("step", "done", "a", "--output", "o.bin", cwd=place.folder)
    succeed("pause", cwd=place.folder)
    (place.folder / "o.bin").unlink()
    (copy,) = copies(place)
    if gone:
        copy.unlink()
    else:
        spoil(copy)
    if repaired:
        assert 4 == call("fsck", "--repair", cwd=place.folder).code
    done = place.back("--yes", code=0)
    assert "the copy that was kept is damaged or gone" in done.err
    assert ("pending", False) == (place.status("a"), (place.folder / "o.bin").exists())
