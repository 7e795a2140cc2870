"""`leftoff store`: what the store is, its schema, and a copy of everything. On a server: tests/postgres."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.fixture
def filled(project: Path) -> Path:
    """A project with a run."""
    succeed("start", "site", "--steps", "a,b", "--run-id", "one", cwd=project)
    succeed("step", "done", "a", cwd=project)
    return project


def test_info(filled: Path) -> None:
    """Where it is, of which kind, and how much is in it."""
    shown = succeed("store", "info", cwd=filled).out
    found = succeed("store", "info", "--json", cwd=filled).json
    assert ("sqlite", 1, 1, True) == tuple(found[key] for key in ("kind", "schema", "runs", "exists"))
    assert str(filled / ".leftoff") == found["store"] == found["folder"]
    assert found["store_id"] in shown and found["created_at"] in shown
    assert found["created_at"].endswith("Z")


def test_info_of_nothing(project: Path) -> None:
    """Makes nothing."""
    found = succeed("store", "info", "--json", cwd=project).json
    assert (False, "sqlite") == (found["exists"], found["kind"])
    assert "nothing yet" in succeed("store", "info", cwd=project).out
    assert 3 == call("store", "migrate", cwd=project).code
    assert [] == list(project.iterdir())


def test_copy(filled: Path) -> None:
    """The same runs, with their history, in another folder."""
    done = succeed("store", "copy", ".leftoff", "other", "--json", cwd=filled).json
    assert (str(filled / ".leftoff"), str(filled / "other")) == (done["from"], done["to"])
    for words in (("show", "one", "--json"), ("log", "one", "--json")):
        here, there = (succeed(*words, "--store", store, cwd=filled).json for store in (".leftoff", "other"))
        assert here == there
    assert 4 == call("store", "copy", ".leftoff", "other", cwd=filled).code


@pytest.mark.parametrize("words", ["", "copy", "copy a", "info x", "what", "copy .leftoff .leftoff"])
def test_wrong_words(project: Path, words: str) -> None:
    """Are refused, and nothing is made."""
    assert 2 == call("store", *words.split(), cwd=project).code
    assert [] == list(project.iterdir())


def test_copy_of_nothing(project: Path) -> None:
    """Is told, and makes nothing."""
    assert 3 == call("store", "copy", ".leftoff", "other", cwd=project).code
    assert [] == list(project.iterdir())


def test_info_counts_everything(project: Path) -> None:
    """`bytes` is what the store's folder takes on disk, and the parts add up to it. The trash is counted, too."""
    (project / "flow.yaml").write_text(
        "name: flow\nsteps: [{id: a, run: echo printed; seq 300000 > out, outputs: [out]}]\n"
    )
    succeed("run", "flow.yaml", "--run-id", "r", cwd=project)
    succeed("rm", "r", "--yes", cwd=project)
    found = succeed("store", "info", "--json", cwd=project).json
    folder = project / ".leftoff"
    assert sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*"))) == found["bytes"]
    parts = [f"bytes_{name}" for name in ("database", "wal", "blobs", "logs", "removed", "other")]
    assert sum(found[name] for name in parts) == found["bytes"]
    assert found["bytes_blobs"] > 100_000 and found["bytes_logs"] > 0
    assert (1, True) == (found["trash"], found["bytes_in_trash"] > 100_000)
