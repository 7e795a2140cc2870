"""A store that came along with a repository: whatever its rows and its folder name, nothing outside is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leftoff.store.sqlite import SqliteStore
from tests.cli.command import call, succeed

pytestmark = pytest.mark.damages_store

FLOW = "name: flow\nsteps:\n  - {id: a, run: 'false'}\n"


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    """A run of a workflow, with an attempt that did not end; beside the project lies what is none of its own."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    (folder / "flow.yaml").write_text(FLOW)
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=folder).code
    for name in ("mine/inside/file", "mine/vars", "mine/log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return folder


def write(project: Path, sql: str, *values: object) -> None:
    """Change rows as whoever made the store could."""
    store = SqliteStore(str(project / ".leftoff"))
    store.write(lambda tx: tx.execute(sql, values))  # type: ignore[attr-defined]
    store.close()


def untouched(tmp_path: Path) -> list[str]:
    """All that lies beside the project, and has what it had."""
    beside = (path for path in tmp_path.rglob("*") if path.is_file() and "cloned" not in path.parts)
    return sorted(str(path.relative_to(tmp_path)) for path in beside if path.read_text() == "mine")


@pytest.mark.parametrize("how", ["attempts/../../../mine", "the whole path"])
def test_the_folder_of_an_attempt_is_elsewhere(cloned: Path, tmp_path: Path, how: str) -> None:
    """Nothing is tidied up there, or written there by a copy; a repair takes such an attempt out."""
    log = str(tmp_path / "mine") if how == "the whole path" else how
    write(cloned, "UPDATE attempt SET log = ?, ended_at = NULL", log)
    before = untouched(tmp_path)
    for words in (
        ("run", "flow.yaml", "--fresh"),
        ("store", "copy", ".leftoff", "copied/.leftoff"),
        ("fsck",),
    ):
        assert 4 == call(*words, cwd=cloned).code, words
    assert before == untouched(tmp_path)
    succeed("fsck", "--repair", cwd=cloned)
    succeed("rm", "r", "--yes", cwd=cloned)
    assert before == untouched(tmp_path)


def test_a_store_in_a_folder_that_others_use(tmp_path: Path) -> None:
    """A repository may name any folder of its own for the store: what leftoff did not make there is not swept."""
    theirs = (
        "tmp/mine",
        "trash/mine",
        "attempts/r/mine",
        "attempts/other/mine/file",
        "archive/mine",
        "hooks/mine",
        "sync/displaced/mine",
        "pending/mine.died",
        "pending/mine.event",
        "pending/mine.lock",
        "pending/mine.new",
        "pending/mine.turn",
        "waiting/mine",
    )
    for name in theirs:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (1, 1))
    (tmp_path / "leftoff.toml").write_text('store = "."\n[mirror]\ndialect = "dotagent"\n')
    succeed("start", "dotagent", "--run-id", "s", cwd=tmp_path)
    event = {"session_id": "s", "cwd": str(tmp_path), "source": "startup", "prompt": "go on"}
    for name in ("SessionStart", "UserPromptSubmit", "Stop"):
        succeed("hook", "claude", cwd=tmp_path, input=json.dumps({**event, "hook_event_name": name}))
    succeed("rm", "s", "--yes", cwd=tmp_path)
    for words in (("prune",), ("prune", "--empty-trash"), ("fsck", "--repair")):
        succeed(*words, cwd=tmp_path)
    assert [] == [name for name in theirs if not (tmp_path / name).exists()]


def test_a_pipe_in_the_place_of_a_blob(cloned: Path) -> None:
    """Nobody waits for whoever would write into it: it is damage, which is told."""
    (cloned / "large").write_text("x" * 100_000)
    succeed("start", "w", "--run-id", "b", cwd=cloned)
    succeed("artifact", "large", "--run", "b", cwd=cloned)
    (blob,) = (path for path in (cloned / ".leftoff/blobs").rglob("*") if path.is_file())
    blob.unlink()
    os.mkfifo(blob)
    for words in (("cat", "b:large"), ("fsck",), ("export", "b", "-o", "bundle")):
        assert 4 == call(*words, cwd=cloned, timeout=60).code, words
    assert 4 == call("fsck", "--repair", cwd=cloned, timeout=60).code


def test_a_pipe_among_what_a_mirror_displaced(tmp_path: Path) -> None:
    """What a mirror has aside is looked at by every verb: none of them waits."""
    (tmp_path / "leftoff.toml").write_text('[mirror]\ndialect = "dotagent"\n')
    succeed("start", "dotagent", "--run-id", "s", cwd=tmp_path)
    os.mkfifo(tmp_path / ".leftoff/sync/displaced" / f"{'0' * 24}")
    succeed("set", "a=1", "--run", "s", cwd=tmp_path, timeout=60)


@pytest.mark.parametrize("run_id", ["../../../mine"])
def test_the_id_of_a_run_is_a_path(cloned: Path, tmp_path: Path, run_id: str) -> None:
    """No file or folder is called by it: the run is refused, by name, and a repair sets aside what it has."""
    write(cloned, "UPDATE run SET run_id = ?, status = 'completed' WHERE run_id = 'r'", run_id)
    before, beside = untouched(tmp_path), sorted(os.listdir(tmp_path))
    for words in (("ls",), ("rm", run_id, "--yes"), ("archive", run_id), ("show", run_id)):
        assert 4 == call(*words, cwd=cloned).code, words
    succeed("fsck", "--repair", cwd=cloned)
    assert [] == succeed("ls", "--json", cwd=cloned).json["runs"]
    assert (before, beside) == (untouched(tmp_path), sorted(os.listdir(tmp_path)))
