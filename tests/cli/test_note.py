"""`leftoff note`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import started


def notes(cwd: Path) -> list[dict[str, Any]]:
    return list(succeed("show", "latest", "--json", cwd=cwd).json["records"].get("note", {}).values())


def test_a_note_is_kept(tmp_path: Path) -> None:
    """It prints nothing, seals nothing, and keeps the text, the time and the step it is about."""
    run = started(tmp_path)
    done = succeed("note", "the API allows\n10 requests", cwd=tmp_path)
    assert ("", "") == (done.out, done.err)
    assert {"run_id": run, "seq": 3} == succeed(
        "note", "two", "words", "--step", "a", "--json", cwd=tmp_path
    ).json
    succeed("note", "below", cwd=tmp_path, LEFTOFF_STEP="build")
    found = notes(tmp_path)
    assert ["the API allows\n10 requests", "two words", "below"] == [note["text"] for note in found]
    assert [None, "a", "build"] == [note.get("step") for note in found]
    assert [] == succeed("log", "latest", "--json", cwd=tmp_path).json["checkpoints"]


def test_notes_of_the_same_moment_are_all_kept(tmp_path: Path) -> None:
    """Several agents that write a note at once lose none."""
    started(tmp_path)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda n: succeed("note", f"note {n}", cwd=tmp_path), range(20)))
    assert {f"note {n}" for n in range(20)} == {note["text"] for note in notes(tmp_path)}


def test_a_dash_and_a_secret(tmp_path: Path) -> None:
    """Text may start with a dash after --, and secrets in it are masked."""
    started(tmp_path)
    succeed("note", "--", "-x is a flag; password=hunter2hunter2", cwd=tmp_path)
    (note,) = notes(tmp_path)
    assert note["text"].startswith("-x is a flag") and "hunter2" not in note["text"]


@pytest.mark.parametrize("words", [(), ("",), ("  \n",), (b"\xff",)])
def test_nothing_to_note(words: tuple[str | bytes, ...], tmp_path: Path) -> None:
    """An empty note, or bytes that are no text, is wrong usage."""
    started(tmp_path)
    done = call("note", *words, cwd=tmp_path)
    assert 2 == done.code and 2 <= done.err.count("\n")
    assert [] == notes(tmp_path)
