"""A bundle is the run: exported from one store and imported into another, nothing tells them apart."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.export import Bundle, export_run, import_bundle, would_import
from leftoff.errors import Conflict, NotFound, StoreUnavailable, Usage
from leftoff.store.sqlite import SqliteStore
from tests.bundle.samples import make_run, random_run, write_bundle
from tests.cli.command import call, succeed
from tests.seams import SEAMS


def take_in(folder: Path, bundle: Path) -> bool:
    """Import into the store of a folder; whether that made a new run."""
    store = SqliteStore(str(folder / ".leftoff"))
    try:
        with Bundle(str(bundle)) as checked:
            return import_bundle(store, checked, 1_800_000_000_000)
    finally:
        store.close()


def everything(folder: Path, run_id: str, *, states: bool = True) -> dict[str, Any]:
    """All that can be read of a run: its versions, with their digests, and its state at each of them."""
    with leftoff.open(folder / ".leftoff") as store:
        run = store.get(run_id)
        versions = run.history(sealed=False)
        facts = [{**v.to_json(), "checkpoint": v.checkpoint, "counts": v.counts} for v in versions]
        found = {}
        for version in versions if states else ():
            at = run.at(version.seq)
            found[version.seq] = {name: repr(values) for name, values in at.records.items()}
        return {"versions": facts, "states": found, "info": run.info.to_json()}


def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Two projects."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    return here, there


def test_logs_come_along(tmp_path: Path) -> None:
    """What commands printed, by attempt, and what Python code logged. The next attempt has the next number. Exported
    again, the run gives the same bytes."""
    here, there = homes(tmp_path)
    text = "name: f\nsteps: [{id: a, run: echo tried $LEFTOFF_ATTEMPT; test -e go, retries: 1}]\n"
    (here / "f.yaml").write_text(text)
    assert 1 == call("run", "f.yaml", "--run-id", "f", cwd=here).code
    with leftoff.open(here / ".leftoff") as store, store.run("py") as run, run.step("b"):
        run.log.warning("python said")
    for name, run_id in (("f", "f"), ("py", run.id)):
        succeed("export", run_id, "-o", f"../{name}.leftoff", cwd=here)
    succeed("import", "../f.leftoff", "../py.leftoff", cwd=there)
    assert succeed("logs", "f", cwd=here).out == succeed("logs", "f", cwd=there).out != ""
    assert "tried" in succeed("logs", "a", "--run", "f", "--attempt", "1", cwd=there).out
    assert "python said" in succeed("logs", run.id, cwd=there).out
    succeed("export", "f", "-o", "../again.leftoff", cwd=there)
    assert (tmp_path / "f.leftoff").read_bytes() == (tmp_path / "again.leftoff").read_bytes()
    (there / "go").touch()
    succeed("resume", "f", "--trust", cwd=there)
    assert 3 == succeed("show", "f", "--json", cwd=there).json["step_records"][0]["attempt"]


def test_everything_comes_along(tmp_path: Path) -> None:
    """Checkpoint ids, digests, times, notes, and every state that could be read before."""
    here, there = homes(tmp_path)
    run_id = make_run(here)
    write_bundle(here, run_id, tmp_path / "run.leftoff")
    assert take_in(there, tmp_path / "run.leftoff")
    assert everything(here, run_id) == everything(there, run_id)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.crash_full) for n in range(2, 8))]
)
def test_any_history_comes_along(seed: int, tmp_path: Path) -> None:
    """Also one with rollbacks, deletions and pruned versions; and exporting the copy gives the same bytes."""
    here, there = homes(tmp_path)
    run_id = random_run(here, seed)
    write_bundle(here, run_id, tmp_path / "one.leftoff")
    take_in(there, tmp_path / "one.leftoff")
    assert everything(here, run_id) == everything(there, run_id)
    write_bundle(there, run_id, tmp_path / "two.leftoff")
    assert (tmp_path / "one.leftoff").read_bytes() == (tmp_path / "two.leftoff").read_bytes()


def test_files_come_along(tmp_path: Path) -> None:
    """The content of artifacts is in the bundle, not only their hashes."""
    here, there = homes(tmp_path)
    run_id = make_run(here)
    write_bundle(here, run_id, tmp_path / "run.leftoff")
    take_in(there, tmp_path / "run.leftoff")
    store = SqliteStore(str(there / ".leftoff"))
    wanted = (here / "page-2.txt").read_bytes()
    with leftoff.open(here / ".leftoff") as source:
        hash = source.get(run_id).artifacts["page-2.txt"]["hash"]
    assert wanted == b"".join(store.load_blob(bytes.fromhex(hash.removeprefix("sha256:"))))
    store.close()


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    """The second time there is nothing to do, and not a byte is written."""
    here, there = homes(tmp_path)
    run_id = make_run(here)
    write_bundle(here, run_id, tmp_path / "run.leftoff")
    assert take_in(there, tmp_path / "run.leftoff")
    before = everything(there, run_id, states=False)
    assert not take_in(there, tmp_path / "run.leftoff")
    assert before == everything(there, run_id, states=False)
    with leftoff.open(there / ".leftoff") as store:
        assert [run_id] == [run.run_id for run in store.list()]


@pytest.mark.parametrize("ahead", ["here", "there"])
def test_other_content_is_a_conflict(ahead: str, tmp_path: Path) -> None:
    """A run that went on, on either side, is not overwritten; both versions are named."""
    here, there = homes(tmp_path)
    run_id = random_run(here, 3)
    write_bundle(here, run_id, tmp_path / "run.leftoff")
    take_in(there, tmp_path / "run.leftoff")
    with leftoff.open(tmp_path / ahead / ".leftoff") as store:
        store.resume(run_id).finish()
    write_bundle(here, run_id, tmp_path / "run.leftoff")
    before = everything(there, run_id, states=False)
    with pytest.raises(Conflict, match="is already here with other content: here at version"):
        take_in(there, tmp_path / "run.leftoff")
    assert before == everything(there, run_id, states=False)


def test_a_driven_run_is_exported_as_it_is(tmp_path: Path) -> None:
    """Nobody drives the copy: the lease stays behind, and the next one can take it."""
    here, there = homes(tmp_path)
    with leftoff.open(here / ".leftoff") as store:
        run = store.start("driven", steps=["a"])
        write_bundle(here, run.id, tmp_path / "run.leftoff")
        run.finish()
    take_in(there, tmp_path / "run.leftoff")
    with leftoff.open(there / ".leftoff") as store:
        assert "running" == store.get(run.id).status
        with store.resume(run.id) as again, again.step("a"):
            pass


def test_export_sees_one_snapshot(tmp_path: Path) -> None:
    """Each export is one snapshot, also while another thread commits: it passes the check."""
    (here,) = homes(tmp_path)[:1]
    stop = threading.Event()
    with leftoff.open(here / ".leftoff") as store:
        run = store.start("busy")
        run.commit()

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                run.variables["list"] = [number] * (number % 10 + 10)
                run.variables["number"] = number
                run.commit()
                time.sleep(0.005)  # so that the exports stay small

        thread = threading.Thread(target=work)
        thread.start()
        try:
            heads = set()
            for number in range(3):
                path = tmp_path / f"{number}.leftoff"
                write_bundle(here, run.id, path)
                with Bundle(str(path)) as bundle:
                    heads.add(bundle.head.seq)
        finally:
            stop.set()
            thread.join()
        run.finish()
    assert len(heads) > 1


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Not even a store."""
    here, there = homes(tmp_path)
    write_bundle(here, random_run(here, 1), tmp_path / "run.leftoff")
    with Bundle(str(tmp_path / "run.leftoff")) as bundle:
        assert would_import(SqliteStore(str(there / ".leftoff")), bundle)
    assert [] == list(there.iterdir())


def test_the_file_is_private_and_complete(tmp_path: Path) -> None:
    """Mode 0600, replaced in one step, and nothing else is left beside it."""
    here, out = homes(tmp_path)
    path = out / "run.leftoff"
    path.write_text("what was there before")
    write_bundle(here, random_run(here, 1), path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert ["run.leftoff"] == os.listdir(out)


def target_row(folder: Path, seed: int = 1) -> tuple[SqliteStore, Any]:
    """A store and a run in it."""
    run_id = random_run(folder, seed)
    store = SqliteStore(str(folder / ".leftoff"))
    return store, store.read(lambda view: view.find_run(run_id))


def test_never_into_the_store(tmp_path: Path) -> None:
    """An export cannot replace the database it reads, by any name for it."""
    here, there = homes(tmp_path)
    store, row = target_row(here)
    (there / "link").symlink_to(here / ".leftoff")
    for path in (here / ".leftoff" / "store.db", there / "link" / "store.db", there / "link" / "new"):
        with pytest.raises(Usage, match="inside the store"):
            export_run(store, row, str(path))
    store.close()


def test_wrong_places_are_refused(tmp_path: Path) -> None:
    """A missing folder, a folder, a pipe: each says so, and nothing is left."""
    here, there = homes(tmp_path)
    store, row = target_row(here)
    os.mkfifo(there / "pipe")
    with pytest.raises(NotFound, match="no folder"):
        export_run(store, row, str(there / "no" / "file"))
    for path in (there, there / "pipe"):
        with pytest.raises(Usage, match="not a regular file"):
            export_run(store, row, str(path))
    assert ["pipe"] == os.listdir(there)
    store.close()


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up half way is an error that says so, and the old file stays."""
    here, there = homes(tmp_path)
    store, row = target_row(here)
    (there / "run.leftoff").write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SEAMS["files.sync"], full)
    with pytest.raises(StoreUnavailable, match="full"):
        export_run(store, row, str(there / "run.leftoff"))
    assert ["run.leftoff"] == os.listdir(there)
    assert "before" == (there / "run.leftoff").read_text()
    store.close()
