"""An import that is cut short leaves nothing to be seen, and the next one succeeds."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.export import Bundle, import_bundle
from leftoff.errors import StoreUnavailable
from leftoff.store.sqlite import SqliteStore, SqliteTx
from tests.bundle.samples import make_run, write_bundle
from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.seams import SEAMS

KILLED = """
import os, signal, sys
from leftoff.cli import main
from leftoff.store.sqlite import SqliteTx
left, add_version = int(sys.argv[1]), SqliteTx.add_version
def dying(self, *words):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    add_version(self, *words)
SqliteTx.add_version = dying
sys.exit(main(["import", sys.argv[2]]))
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle that takes several batches."""
    here = tmp_path / "here"
    here.mkdir()
    write_bundle(here, make_run(here), tmp_path / "run.leftoff")
    return tmp_path / "run.leftoff"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another project."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("versions", [0, 5])
def test_killed_half_way(versions: int, bundle: Path, there: Path) -> None:
    """No run is seen, fsck is clean, a sweep gives everything back, and importing again works."""
    command = [sys.executable, "-c", KILLED, str(versions), str(bundle)]
    env = environment(TMPDIR=str(there.parent))  # a killed process leaves its temporary folder
    killed = subprocess.run(command, cwd=there, env=env, capture_output=True)
    assert -signal.SIGKILL == killed.returncode, killed.stderr
    with leftoff.open(there / ".leftoff") as store:
        assert [] == store.list()
        assert store.fsck().ok
        store.sweep()
        left = "SELECT count(*) FROM run WHERE run > 0"
        assert 0 == store._store.read(lambda view: view.execute(left).fetchone()[0])  # type: ignore[attr-defined]
    assert "imported" in succeed("import", str(bundle), cwd=there).out
    with leftoff.open(there / ".leftoff") as store:
        assert ["completed"] == [run.status for run in store.list()]


def test_a_failure_half_way_cleans_up(bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full while rows are added, the error says so, and nothing of the run is left."""
    store, add_version, calls = SqliteStore(str(there / ".leftoff")), SqliteTx.add_version, list[int]()

    def failing(self: SqliteTx, *what: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StoreUnavailable("The disk is full.")
        add_version(self, *what)

    with Bundle(str(bundle)) as checked:
        monkeypatch.setattr(SqliteTx, "add_version", failing)
        with pytest.raises(StoreUnavailable):
            import_bundle(store, checked, 0)
    left = "SELECT (SELECT count(*) FROM run WHERE run > 0) + (SELECT count(*) FROM record)"
    assert 0 == store.read(lambda view: view.execute(left).fetchone()[0])  # type: ignore[attr-defined]
    store.close()


def test_ctrl_c_behind_its_end(bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is there, and others may have reported on it: it stays."""
    store, write = SqliteStore(str(there / ".leftoff")), SqliteStore.write

    def interrupted(self: SqliteStore, *what: Any, **how: Any) -> object:
        done = write(self, *what, **how)
        rows = self.read(lambda view: view.list_runs({}))
        if rows:
            monkeypatch.undo()
            succeed("note", "acknowledged", "--run", rows[0].run_id, cwd=there, LEFTOFF_TRUST="1")
            raise KeyboardInterrupt
        return done

    with Bundle(str(bundle)) as checked:
        monkeypatch.setattr(SEAMS["SqliteStore.write"], interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_bundle(store, checked, 0)
    (row,) = store.read(lambda view: view.list_runs({}))
    assert "acknowledged" in succeed("show", row.run_id, "--json", cwd=there, LEFTOFF_TRUST="1").out
    store.close()


def test_two_at_once(bundle: Path, there: Path) -> None:
    """Processes that import the same bundle at the same moment make one run, and both succeed."""
    command = [str(LEFTOFF), "import", str(bundle), "--json"]
    both = [subprocess.Popen(command, cwd=there, env=environment(), stdout=subprocess.PIPE) for _ in range(3)]
    for process in both:
        process.communicate(timeout=60)
    assert [0, 0, 0] == [process.returncode for process in both]
    with leftoff.open(there / ".leftoff") as store:
        assert 1 == len(store.list())
        assert store.fsck().ok


def test_a_full_disk_half_way(bundle: Path, there: Path) -> None:
    """By a limit on the size of files: exit 8, and the store is as it was."""
    succeed("import", str(bundle), "--dry-run", cwd=there)
    limited = f"ulimit -f 64; {LEFTOFF} import {bundle}"
    done = subprocess.run(
        ["bash", "-c", limited], cwd=there, env=environment(), capture_output=True, text=True
    )
    assert (8, "") == (done.returncode, done.stdout)
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) >= 2
    with leftoff.open(there / ".leftoff") as store:
        assert [] == store.list()
        assert store.fsck().ok
    assert 0 == call("import", str(bundle), cwd=there).code
