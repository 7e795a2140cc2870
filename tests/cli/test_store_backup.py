"""`leftoff store backup`: a copy of the store in a new folder, made while others write."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.command import call, succeed


def test_a_store_larger_than_the_cache_of_sqlite(project: Path) -> None:
    """The copy has every run, value and file, its pages have checksums, and work continues in it."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    for number in range(8):
        (project / "value").write_text(json.dumps(os.urandom(400_000).hex()))
        succeed("set", f"v{number}=@value", cwd=project)
    (project / "page.txt").write_text("hello")
    succeed("track", "page.txt", cwd=project)
    done = succeed("store", "backup", "copies/one", "--json", cwd=project).json
    assert {"store": str(project / ".leftoff"), "backup": str(project / "copies/one"), "runs": 1} == done
    assert ["one"] == os.listdir(project / "copies")
    for words in (("show", "r", "--json"), ("cat", "r:page.txt")):
        assert succeed(*words, cwd=project).out == succeed("--store", "copies/one", *words, cwd=project).out
    assert "Clean" in succeed("--store", "copies/one", "fsck", cwd=project).out
    succeed("--store", "copies/one", "step", "done", "a", "--run", "r", cwd=project)


def test_refused(project: Path) -> None:
    """Nothing is written if there is no store, or if the folder has something in it."""
    assert 3 == call("store", "backup", "copy", cwd=project).code
    succeed("start", "w", cwd=project)
    (project / "full").mkdir()
    (project / "full" / "mine").touch()
    done = call("store", "backup", "full", cwd=project)
    assert (4, True) == (done.code, "not empty" in done.err)
    assert {".leftoff", "full"} == set(os.listdir(project))
    assert 2 == call("store", "backup", cwd=project).code
