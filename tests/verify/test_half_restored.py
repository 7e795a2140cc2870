"""A rollback with files that was killed: noticed by whoever wants to go on, with the command that completes it."""

from __future__ import annotations

import fcntl
import subprocess
import sys

import pytest

from tests.cli.command import environment, succeed
from tests.verify.situations import Place, codes

KILLED = """
import os, sys
from leftoff.engine import restoring
real = restoring._Writer.put
def put(self, entry):
    if entry.path == "b":
        os._exit(9)
    return real(self, entry)
restoring._Writer.put = put
from leftoff.cli.dispatch import dispatch
sys.exit(dispatch(sys.argv[1:]))
"""


@pytest.fixture
def killed(place: Place) -> Place:
    """Two files, of which one is back at the first version, and the other is not."""
    place.start("--steps", "x")
    for text in ("one\n", "two\n"):
        for name in ("a", "b"):
            place.file(name, text)
        succeed("track", "a", "b", cwd=place.folder)
        succeed("save", cwd=place.folder)
    words = [sys.executable, "-c", KILLED, "rollback", "@~1", "--files", "--yes"]
    assert 9 == subprocess.run(words, cwd=place.folder, env=environment(), capture_output=True).returncode
    assert ("one\n", "two\n") == ((place.folder / "a").read_text(), (place.folder / "b").read_text())
    return place


def test_it_is_told_and_completed(killed: Place) -> None:
    """`verify`, `resume` and `status` name the command; that completes it, and then nothing is found."""
    found = next(f for f in killed.verify(code=7)["findings"] if f["code"] == "files.half_restored")
    assert ("ask", "r", ["keep the current", "stop"]) == (found["level"], found["subject"], found["choices"])
    command = found["hint"].split("`")[1]
    assert command.startswith("leftoff rollback r@")
    assert command in " ".join(killed.back(code=7).err.split())
    assert command in " ".join(succeed("status", cwd=killed.folder).out.split())
    assert {"r": command} == succeed("status", "--json", cwd=killed.folder).json["half_restored"]
    succeed(*command.split()[1:], cwd=killed.folder)
    assert ("one\n", "one\n") == ((killed.folder / "a").read_text(), (killed.folder / "b").read_text())
    assert [] == killed.verify(code=0)["findings"]
    assert {} == succeed("status", "--json", cwd=killed.folder).json["half_restored"]


def test_it_is_accepted(killed: Place) -> None:
    """Whoever goes on with the files as they are is not asked again; what was there before can be had back."""
    killed.back("--accept", "files.half_restored", "--accept", "files.changed", code=0)
    assert "files.half_restored" not in dict(codes(killed.verify(code=0)))
    assert ("one\n", "two\n") == ((killed.folder / "a").read_text(), (killed.folder / "b").read_text())
    assert [] == [path.name for path in killed.folder.iterdir() if path.name.startswith(".leftoff-")]


def test_it_goes_on_just_now(killed: Place) -> None:
    """While somebody is at it, nobody goes on, whatever they accept."""
    with open(killed.folder / ".leftoff/restore.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = killed.verify(code=6)["findings"][0]
        assert ("files.half_restored", "refuse") == (found["code"], found["level"])
        killed.back("--yes", code=6)
