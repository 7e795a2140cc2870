"""A file is known to be unchanged from its stat alone, and never by mistake."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine import file_state
from leftoff.engine.file_state import compare_files, hashed, open_regular, read_steadily, unchanged


def settle(path: Path) -> None:
    """Wait until what is written to the file from now on gets another time."""
    while file_state.tick() <= path.stat().st_ctime_ns:
        time.sleep(0.001)


def about(path: Path) -> dict[str, Any]:
    (digest, size), _, seen = read_steadily(str(path), hashed, open_regular(str(path)))
    return {"hash": f"sha256:{digest.hex()}", "size": size, "seen": seen}


def test_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of them cost a stat each: none is opened."""
    entries = {}
    for number in range(1000):
        path = tmp_path / str(number)
        path.write_text(f"file {number}")
        if number == 0:
            settle(path)
    settle(path)
    for number in range(1000):
        entries[str(number)] = about(tmp_path / str(number))
    monkeypatch.setattr(file_state, "open_regular", lambda *_, **__: pytest.fail("a file was opened"))
    assert {"same"} == set(compare_files(str(tmp_path), entries).values())


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda path: path.write_text("other"), "changed"),
        (lambda path: path.write_text("longer text"), "changed"),
        (lambda path: path.write_text("first"), "same"),
        (lambda path: os.utime(path, ns=(1, 1)), "same"),
        (lambda path: path.chmod(0o600), "same"),
        (lambda path: path.unlink(), "gone"),
        (lambda path: (path.unlink(), path.mkdir()), "changed"),
        (fifo, "changed"),
        (lambda path: (path.rename(f"{path}2"), path.symlink_to(f"{path}2")), "changed"),
        (lambda path: (path.unlink(), path.symlink_to("nowhere")), "changed"),
    ],
)
def test_what_became_of_a_file(change: Any, expected: str, tmp_path: Path) -> None:
    """Whatever touches a file makes leftoff look again, and its content decides."""
    path = tmp_path / "f"
    path.write_text("first")
    record = about(path)
    change(path)
    assert {"f": expected} == compare_files(str(tmp_path), {"f": record})


def test_same_size_and_time_are_not_enough(tmp_path: Path) -> None:
    """A change that restores size and mtime shows in the ctime."""
    path = tmp_path / "f"
    path.write_text("first")
    record, before = about(path), path.stat()
    settle(path)
    path.write_text("other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not unchanged(record, path.stat())
    assert {"f": "changed"} == compare_files(str(tmp_path), {"f": record})


def test_a_file_changed_while_it_was_hashed_is_dirty(tmp_path: Path) -> None:
    """In the same tick of the clock a second change would leave no trace, so nothing is remembered of such a file."""
    path = tmp_path / "f"
    path.write_text("first")
    changed = path.stat().st_ctime_ns
    assert file_state.stat_facts(path.stat(), changed) is None
    assert file_state.stat_facts(path.stat(), changed + 1) is not None
    assert not unchanged({"size": 5, "hash": "x", "seen": None}, path.stat())

    def growing(chunks: Any) -> int:
        total = sum(map(len, chunks))
        with path.open("a") as file:
            file.write("more")
        return total

    assert read_steadily(str(path), growing, open_regular(str(path)))[2] is None


def test_times_in_whole_seconds_need_two_of_them(tmp_path: Path) -> None:
    """A file system that knows only seconds cannot tell two changes within one apart."""
    path = tmp_path / "f"
    path.write_text("first")
    st = path.stat()
    whole = os.stat_result(
        (*st[:9], 1000, *st[10:]), {"st_ctime_ns": 1000 * 10**9, "st_mtime_ns": 1000 * 10**9}
    )
    assert file_state.stat_facts(whole, 1001 * 10**9) is None
    assert file_state.stat_facts(whole, 1003 * 10**9) is not None


def test_deep_hashes_everything(tmp_path: Path) -> None:
    """A record that claims to have seen what it has not is found out by --deep, and only by that."""
    path = tmp_path / "f"
    path.write_text("first")
    record = about(path)
    record["hash"] = "sha256:" + "0" * 64
    entries = {"f": record}
    assert ["same", "changed"] == [
        compare_files(str(tmp_path), entries, deep=deep)["f"] for deep in (False, True)
    ]


def test_links_and_deletions(tmp_path: Path) -> None:
    """A link is where it points to; a file that was deleted is the same while it is not there."""
    (tmp_path / "link").symlink_to("a")
    entries: dict[str, dict[str, Any]] = {"link": {"target": "a", "size": 1}, "gone": {"status": "deleted"}}
    assert {"link": "same", "gone": "same"} == compare_files(str(tmp_path), entries)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "gone").write_text("")
    assert {"link": "changed", "gone": "changed"} == compare_files(str(tmp_path), entries)
