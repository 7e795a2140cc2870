"""`leftoff verify`: the verb itself; what it finds has tests of its own, in `tests/verify`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, files_below, harmless, release, started
from tests.cli.terminal import Terminal, shown

KEYS = {"verdict", "findings", "run_id", "resume_from", "plan"}


def test_text_and_json_agree(tmp_path: Path) -> None:
    """Text says it in a line, JSON has the contract's keys; both exit alike."""
    run = release(tmp_path)
    assert f"{run} can be resumed" in succeed("verify", "@", cwd=tmp_path).out
    found = succeed("verify", run, "--json", cwd=tmp_path).json
    assert set(found) == KEYS
    assert [("collect", "skip"), ("build", "skip"), ("test", "run"), ("publish", "run")] == [
        (entry["step"], entry["action"]) for entry in found["plan"]
    ]
    assert "test" == found["resume_from"]


def test_an_older_version(tmp_path: Path) -> None:
    """With a version it is that version that is looked at."""
    run = release(tmp_path)
    found = succeed("verify", f"{run}~1", "--json", cwd=tmp_path).json
    assert "build" == found["resume_from"]


@pytest.mark.parametrize("columns", [16, 40, 80])
def test_it_fits_and_is_harmless(tmp_path: Path, columns: int) -> None:
    """Whatever a finding quotes is escaped, and folded to the width of the terminal."""
    started(tmp_path, "evil", "--steps", "a")
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("put", "criterion", "c", '{"met": false, "step": "x\\u001b[31m' + "y" * 60 + '"}', cwd=tmp_path)
    succeed("set", "a=" + HOSTILE, cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    terminal = shown("verify", "latest", cwd=tmp_path, columns=columns)
    assert harmless(terminal.shown)
    assert all(len(line) <= columns for line in terminal.shown.splitlines())
    assert harmless(succeed("verify", "latest", cwd=tmp_path).out)


def test_a_narrow_terminal_loses_no_word(tmp_path: Path) -> None:
    """The verdict and each finding go on in the next line, further in, where the terminal is narrow."""
    started(tmp_path, "w", "--steps", "a", "--run-id", "nightly-build-of-the-site")
    succeed("step", "block", "a", "--error", "no route", cwd=tmp_path)
    with Terminal("verify", "@", cwd=tmp_path, columns=40) as terminal:
        assert 7 == terminal.end()
    lines = terminal.shown.splitlines()
    assert ["? nightly-build-of-the-site can be", "  resumed once a person has decided"] == lines[:2]
    assert all(line.startswith("    ") for line in lines[3:] if line)
    assert not any("…" in line for line in lines)


def test_wrong_words(tmp_path: Path) -> None:
    """It needs a run that is there; nothing is made where nothing is."""
    assert 3 == call("verify", cwd=tmp_path).code
    assert 3 == call("verify", "nothing", cwd=tmp_path).code
    assert [] == files_below(tmp_path)
