"""A store in a program's hands: open, look, keep in order."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Invalid, LeaseHeld, NoCheckpoint, NotFound, StoreUnavailable
from leftoff.testing import FakeClock

HUGE = "y" * 1_500_000
BIG = [{"i": i, "text": "x" * 100} for i in range(200)]


def blob_files(path: Path) -> list[Path]:
    return [file for file in (path / "blobs").rglob("*") if file.is_file()]


def database_size(path: Path) -> int:
    """The database with its log."""
    return sum(file.stat().st_size for file in path.glob("store.db*") if not file.name.endswith("-shm"))


def test_opening_creates_nothing(store_path: Path) -> None:
    """A folder that is not there is no error; looking at it neither, and it is still not there."""
    with leftoff.open(store_path) as store:
        assert [] == store.list()
        report = store.fsck()
        assert report.ok and {} == report.checked
        assert 0 == store.sweep()
        for look in (
            lambda: store.get("nothing"),
            lambda: store.resume(),
            lambda: store.prune("nothing"),
            lambda: store.remove("nothing"),
            lambda: store.backup(store_path.parent / "copy"),
        ):
            with pytest.raises(NotFound):
                look()
    assert not store_path.exists()


def test_the_first_write_creates_it(store_path: Path) -> None:
    """Private to its owner, ignored by git, with its parents."""
    deep = store_path.parent / "a" / "b" / ".leftoff"
    with leftoff.open(deep) as store:
        store.start("w").finish()
        assert 1 == len(store.list())
    assert 0o700 == stat.S_IMODE(deep.stat().st_mode)
    assert 0o600 == stat.S_IMODE((deep / "store.db").stat().st_mode)
    assert "*\n" == (deep / ".gitignore").read_text()


@pytest.mark.parametrize("given", [str, Path, lambda path: f"sqlite://{path}", lambda path: f"file://{path}"])
def test_a_folder_or_a_url(store_path: Path, given: Any) -> None:
    """Text, a path, or a URL of a folder."""
    with leftoff.open(given(store_path)) as store:
        store.start("w").finish()
    assert (store_path / "store.db").exists()
    assert str(store_path) in repr(store)


def test_what_cannot_be_a_store(tmp_path: Path) -> None:
    """A file in the way is told by name."""
    (tmp_path / "file").write_text("here first")
    with pytest.raises(StoreUnavailable, match="file"):
        leftoff.open(tmp_path / "file").start("w")
    assert "here first" == (tmp_path / "file").read_text()


def test_list(store: leftoff.Store) -> None:
    """The latest commit first; by status, workflow, branch, title and issue; no more than asked for."""
    store.start("a", run_id="one", title="T", issue=7).finish()
    store.start("a", run_id="two", branch="try").pause()
    store.start("b", run_id="three").finish("failed")
    store.resume("two", branch="try").pause()

    def ids(**where: Any) -> list[str]:
        return [info.id for info in store.list(**where)]

    assert ["two", "three", "one"] == ids()
    assert ["two"] == ids(status="paused") == ids(branch="try") == ids(limit=1)
    assert ["two", "three"] == ids(status=["paused", "failed"])
    assert ["two", "one"] == ids(workflow="a")
    assert ["one"] == ids(title="T") == ids(issue="7") == ids(issue=7)
    assert [] == ids(workflow="nothing")


def test_what_a_listing_knows(store: leftoff.Store) -> None:
    """Counters of the leaves, percent rounded down, the current and the next step, health."""
    run = store.start("w", run_id="r", title="T", steps=["a", "b", "c"])
    run.do("a", lambda: 1)
    with run.step("b"):
        (info,) = store.list()
        assert (33, "b", "c", "alive") == (info.percent, info.current_step, info.next_step, info.health)
    run.finish()
    document = store.list()[0].to_json()
    assert {
        "total": 3,
        "pending": 1,
        "running": 0,
        "waiting": 0,
        "completed": 2,
        "failed": 0,
        "blocked": 0,
        "skipped": 0,
    } == document["steps"]
    assert {"run_id", "workflow", "title", "branch", "git_branch", "issue", "status", "created_at"} <= {
        *document
    }
    assert {"updated_at", "completed_at", "percent", "current_step", "next_step", "head", "health"} <= {
        *document
    }
    assert {"session_id", "parent"} <= {*document}
    assert "finished" == document["health"] and document["completed_at"].endswith("Z")


def test_get(store: leftoff.Store) -> None:
    """A run to look at, by any REF; it cannot be written to, and shows what is committed by now."""
    run = store.start("w", run_id="r", title="T", issue=7)
    checkpoint = run.checkpoint()
    for ref in ("r", "w", "T", "#7", "latest", checkpoint.id or ""):
        assert "r" == store.get(ref).id
    view = store.get("r")
    run.variables["n"] = 1
    run.commit()
    assert {"n": 1} == dict(view.variables)
    assert not hasattr(view, "commit")
    with pytest.raises(TypeError):
        view.variables["n"] = 2  # type: ignore[index]
    assert "alive" == view.info.health  # nobody's lease was touched


def test_get_of_a_version(store: leftoff.Store) -> None:
    """A REF with a version in it shows that version, whatever comes later."""
    run = store.start("w", run_id="r")
    run.variables["n"] = 1
    run.put("knowledge", "k", 1)
    checkpoint = run.checkpoint()
    run.variables["n"] = 2
    run.put("score", "s", 1)
    run.checkpoint()
    for ref in (f"r@{checkpoint.seq}", f"r@{checkpoint.id}", "r~1", checkpoint.id or ""):
        view = store.get(ref)
        assert ({"n": 1}, False) == (dict(view.variables), "score" in view.records)
    assert {"n": 2} == dict(store.get("r").variables)
    assert ["n"] == list(store.get("r~1").diff(1).variables.added)


def test_ambiguous_and_unknown_refs(store: leftoff.Store) -> None:
    """What names nothing says so, with what comes near."""
    store.start("convert-pdfs", run_id="convert-pdfs-1").finish()
    with pytest.raises(NotFound, match="Nothing is called convert-pfds-1") as caught:
        store.get("convert-pfds-1")
    assert "convert-pdfs-1" in caught.value.hint
    with pytest.raises(NoCheckpoint):
        store.get("convert-pdfs-1~5")


def test_prune(store: leftoff.Store, store_path: Path) -> None:
    """Named checkpoints go, with every version, value and blob that only they could see; the space returns."""
    run = store.start("w", run_id="r")
    checkpoints = []
    for number in range(4):
        run.variables.update(
            n=number, big=[*BIG, number], huge=HUGE + str(number), noise=os.urandom(400_000).hex()
        )
        checkpoints.append(run.checkpoint())
    size = database_size(store_path)
    assert 4 <= len(blob_files(store_path))
    freed = store.prune("r", [c.id or "" for c in checkpoints[:3]])
    assert freed > 2_000_000
    store.close()
    assert database_size(store_path) < size - 2_000_000
    assert [checkpoints[3].id] == [version.id for version in store.get("r").history()]
    seen = store.get("r").at(checkpoints[3]).variables
    assert (3, [*BIG, 3], HUGE + "3") == (seen["n"], seen["big"], seen["huge"])
    with pytest.raises(NoCheckpoint, match="is gone"):
        store.get("r").at(checkpoints[0].seq)


def test_prune_keeps_what_others_see(store: leftoff.Store) -> None:
    """A value that a kept checkpoint, the head or another run has is not touched."""
    run = store.start("w", run_id="r", variables={"huge": HUGE, "big": BIG})
    old = run.checkpoint()
    other = run.fork(branch="b", run_id="fork")
    run.variables.update(huge="small", big=1)
    kept = run.checkpoint()
    run.variables["huge"] = HUGE
    run.commit()
    store.prune("r", [old.id or ""])
    assert HUGE == run.variables["huge"] == other.variables["huge"] == store.get("fork").variables["huge"]
    assert "small" == run.at(kept).variables["huge"]


def test_prune_of_what_is_not_there(store: leftoff.Store) -> None:
    """Nothing is dropped where one of the names is wrong; without names, only unsealed versions go."""
    run = store.start("w", run_id="r")
    one = run.checkpoint()
    run.variables["n"] = 1
    run.commit()
    run.checkpoint()
    with pytest.raises(NoCheckpoint):
        store.prune("r", [one.id or "", "ffffffff"])
    assert 2 == len(run.history())
    store.prune("r")
    assert 2 == len(run.history()) == len(run.history(sealed=False))


def test_pruned_while_it_is_driven(store: leftoff.Store) -> None:
    """The run goes on: what this process has seen may be gone, the newest is there."""
    run = store.start("w", run_id="r")
    for number in range(5):
        run.variables["n"] = number
        run.checkpoint()
    store.prune("r", [version.id or "" for version in run.history()[1:]])
    assert 4 == run.variables["n"]
    run.variables["n"] = 5
    run.commit()
    assert {"n": 5} == dict(run.variables)


def test_remove(store: leftoff.Store, store_path: Path) -> None:
    """A run goes to the trash, and keeps its id; not while it is driven. It comes back whole."""
    run = store.start("w", run_id="r", variables={"huge": HUGE})
    store.start("w", run_id="other", variables={"n": 1}).pause()
    with pytest.raises(LeaseHeld):
        store.remove("r")
    run.finish()
    store.remove("r")
    assert ["other"] == [info.id for info in store.list()]
    with pytest.raises(NotFound):
        store.get("r")
    with pytest.raises(NotFound, match="r is gone"):
        _ = run.info
    assert "r-2" == store.start("w", run_id="r").id
    store.undelete("r")
    assert HUGE == store.get("r").variables["huge"]


def test_sweep(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """What crashes left behind goes once it is old; what is in use stays."""
    run.variables["huge"] = HUGE
    run.commit()
    (in_use,) = blob_files(store_path)
    stray = store_path / "blobs" / "ab" / ("cd" * 31)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"left behind")
    os.utime(stray, (1, 1))
    store.sweep()
    assert in_use.exists() and not stray.exists()
    assert HUGE == store.get(run.id).variables["huge"]


def test_backup(store: leftoff.Store, run: leftoff.Run, tmp_path: Path) -> None:
    """A consistent copy with its blobs, while the run goes on; it is a store like any other."""
    run.variables.update(n=1, huge=HUGE, big=BIG)
    run.checkpoint()
    store.backup(tmp_path / "copy" / ".leftoff")
    run.variables["n"] = 2
    run.commit()
    with leftoff.open(tmp_path / "copy" / ".leftoff") as copy:
        assert copy.fsck().ok
        seen = copy.get(run.id)
        assert (1, HUGE, BIG) == tuple(seen.variables[name] for name in ("n", "huge", "big"))
        assert [version.id for version in run.history()] == [version.id for version in seen.history()]
    with pytest.raises(Invalid, match="not empty"):
        store.backup(tmp_path / "copy" / ".leftoff")


def test_fsck(store: leftoff.Store, run: leftoff.Run) -> None:
    """What was looked at, counted; a clean store is true."""
    run.variables.update(big=BIG, huge=HUGE)
    run.checkpoint()
    report = store.fsck()
    assert report and report.ok and [] == report.problems and [] == report.quarantined
    for what in ("pages", "records", "versions", "runs", "blobs"):
        assert report.checked[what] > 0
    assert "clean" in repr(report)


@pytest.mark.damages_store
def test_fsck_of_damage(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """It is false, and says what and where; the damaged value raises when it is read, the others can be read. Like
    `leftoff resume`, a program does not continue with it."""
    run.variables.update(huge=HUGE, n=1)
    run.pause()
    (blob,) = blob_files(store_path)
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.write_bytes(content)
    report = store.fsck()
    assert not report and not report.ok
    (problem,) = [p for p in report.problems if p["code"] == "blob"]
    assert str(blob) in problem["where"]
    look = store.get(run.id)
    with pytest.raises(leftoff.Corrupt):
        _ = look.variables["huge"]
    assert 1 == look.variables["n"]
    assert ["huge", "n"] == list(look.variables) and "'huge': <damaged>" in repr(look.variables)
    for drive in (lambda: store.resume(run.id), lambda: store.run(run.workflow)):
        with pytest.raises(leftoff.Corrupt, match="blob"):
            drive()


@pytest.mark.parametrize("short", ["a", "abc", "id:12", "nope", "99"])
def test_what_names_no_checkpoint_prunes_none(store: leftoff.Store, short: str) -> None:
    """A checkpoint to be dropped is named as a REF names it: too little of an id names nothing."""
    run = store.start("w", run_id="r")
    for _ in range(17):
        run.checkpoint()
    with pytest.raises(leftoff.NoCheckpoint):
        store.prune("r", [short])
    assert 17 == len(run.history())


def test_health_goes_by_the_settings(project: Path) -> None:
    """A run that nobody has heard of for longer than leftoff.toml allows is quiet, then stalled."""
    (project / "leftoff.toml").write_text('[heartbeat]\ninterval = "1h"\nquiet = "2h"\nstalled = "3h"\n')
    clock = FakeClock()
    with leftoff.Store(str(project / ".leftoff"), str(project), clock) as store:
        run = store.start("w", run_id="r")
        found = []
        for _ in range(4):
            found.append((run.info.health, store.list()[0].health, store.get("r").info.health))
            clock.advance(4_000_000)
        assert [("alive",) * 3, ("alive",) * 3, ("quiet",) * 3, ("stalled",) * 3] == found


def test_resume_means_the_run_that_the_command_means(
    store: leftoff.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was exported to this process, not just the latest."""
    store.start("work", run_id="first").pause()
    store.start("work", run_id="second").pause()
    monkeypatch.setenv("LEFTOFF_RUN", "first")
    assert "first" == store.resume().id
