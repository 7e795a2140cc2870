"""Repair sets damage aside and keeps the rest readable, and never makes a wrong value of it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import Corrupt, LeaseHeld, NoCheckpoint, NotFound, StaleEpoch, StoreUnavailable
from leftoff.store.repair import RunRemains
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import call, succeed
from tests.damage.store import PAGE, Outcome, Sample, everything, flip, problems, tidy
from tests.damage.test_flips import damages
from tests.damage.test_tampering import TAMPERING, tamper


def repair(path: Path) -> leftoff.FsckReport:
    """Repair a store; it is clean afterwards, and says so again when it is asked again."""
    with leftoff.open(path) as store:
        report = store.fsck(repair=True)
    assert [] == report.problems
    assert [] == problems(path)
    return report


def changed(sample: Sample, path: Path) -> dict[str, Outcome]:
    """What no longer reads as it did."""
    found = everything(path, sample.runs)
    return {name: outcome for name, outcome in found.items() if outcome != sample.expected[name]}


def check_honest(sample: Sample, path: Path) -> None:
    """What is left is as it was: a version reads the same or is gone, and a head is one of the versions."""
    for name, outcome in changed(sample, path).items():
        run_id = name.partition(":")[0].partition("@")[0]
        is_version = name.endswith(": now") or ("@" in name and ":" not in name)
        if is_version and not isinstance(outcome, Exception):
            assert outcome in {sample.expected[f"{run_id}@{seq}"] for seq in sample.runs[run_id]}, name
        elif "@" in name or isinstance(outcome, Exception):
            assert isinstance(outcome, NotFound), f"{name}: {outcome!r}"


def check_random_damage(sample: Sample, folder: Path, total: int) -> list[int]:
    """Damage and repair the database many times; return how many runs were kept each time."""
    data, kept = (sample.path / "store.db").read_bytes(), []
    for number, (what, damaged) in enumerate(damages(data, total)):
        path = sample.copy(folder / str(number) / ".leftoff")
        (path / "store.db").write_bytes(damaged)
        try:
            report = repair(path)
        except Corrupt as error:
            assert "SQLite cannot read any table" in error.message, what
            assert damaged == (path / "store.db").read_bytes()
            assert not list((path / "quarantine").iterdir())
            continue
        assert not report.repaired or damaged == Path(report.quarantined[0]).read_bytes()
        check_honest(sample, path)
        with leftoff.open(path) as store:
            kept.append(len(store.list()))
    return kept


@pytest.mark.damages_store
def test_random_damage(sample: Sample, tmp_path: Path) -> None:
    """After a repair the store is clean, what it has is what was written, and the damaged file is kept."""
    kept = check_random_damage(sample, tmp_path, 10)
    assert 3 in kept


@pytest.mark.crash_full
@pytest.mark.damages_store
@pytest.mark.timeout(3600)
def test_much_random_damage(sample: Sample, tmp_path: Path) -> None:
    """The same three hundred times."""
    check_random_damage(sample, tmp_path, 300)


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering(sample: Sample, tmp_path: Path, what: str) -> None:
    """What follows from the records is worked out again; a run that no longer adds up goes back to where it did."""
    sql, code, _ = TAMPERING[what]
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, sql)
    repair(path)
    check_honest(sample, path)
    if code in ("run", "blob"):
        assert {} == changed(sample, path)


def test_sabotage_is_seen(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THE DELIBERATE BREAKAGE: a repair that believes every version without adding up its records is caught."""
    monkeypatch.setattr(RunRemains, "_proved", lambda self: iter(self.versions))
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, TAMPERING["a record gone"][0])
    with leftoff.open(path) as store:
        assert not store.fsck(repair=True).ok
    with pytest.raises(AssertionError):
        check_honest(sample, path)
    monkeypatch.undo()
    repair(path)
    check_honest(sample, path)


def test_clean_store_is_left_alone(sample: Sample, tmp_path: Path) -> None:
    """There is nothing to repair in a clean store, and nothing is written."""
    path = sample.copy(tmp_path / ".leftoff")
    before = (path / "store.db").read_bytes()
    assert [] == repair(path).quarantined
    assert before == (path / "store.db").read_bytes()
    assert not (path / "quarantine").exists()


def test_a_run_that_is_lost_is_named(project: Path) -> None:
    """A run none of whose versions can be proved is left out; the command says which, and where its rows are."""
    for run in ("r", "other"):
        succeed("start", "w", "--run-id", run, cwd=project)
        succeed("set", "x=1", "--run", run, cwd=project)
    tamper(project / ".leftoff", "UPDATE version SET digest = zeroblob(32) WHERE run = 1")
    told = succeed("fsck", "--repair", cwd=project).out.splitlines()
    (lost,) = [line for line in told if line.startswith("  lost: run r: ")]
    assert "What is left is clean. Runs lost: r." == told[-1]
    assert Path(lost.rpartition(" is in ")[2].removesuffix(".")).name == "store.db"
    assert "Clean." == succeed("fsck", cwd=project).out.splitlines()[-1]
    assert (3, "1\n") == (call("show", "r", cwd=project).code, succeed("get", "x", "other", cwd=project).out)


def test_run_that_went_back(sample: Sample, tmp_path: Path) -> None:
    """A run whose head is lost continues from its newest whole version, and its driver is fenced off."""
    path = sample.copy(tmp_path / ".leftoff")
    with leftoff.open(path) as store:
        run = store.start("work", run_id="work")
        run.variables["a"] = "kept"
        sealed = run.checkpoint()
        run.variables["b"] = "lost"
        run.commit()
        tamper(path, "UPDATE record SET data = x'4a31' WHERE collection = 'variable' AND key = 'b'")
        store._store.release()  # type: ignore[attr-defined]
        assert store.fsck(repair=True).ok
        view = store.get("work")
        assert {"a": "kept"} == dict(view.variables)
        assert sealed.seq + 2 == view.info.row.seq  # the number of a lost version is not given again
        with pytest.raises(NoCheckpoint, match="a repair could not bring it back"):
            view.at(sealed.seq + 1)
        run.variables["c"] = 1
        with pytest.raises(StaleEpoch):
            run.commit()
        store._runs.discard(run)
        again = store.resume("work", accept=["integrity.salvaged"])
        again.variables["b"] = "again"
        again.finish()
    assert [] == problems(path)


def test_what_is_out_of_sight_stays_so(sample: Sample, tmp_path: Path) -> None:
    """A run that is archived in the store, and one in its trash, are no more seen after a repair than before."""
    path = sample.copy(tmp_path / ".leftoff")
    store = SqliteStore(str(path))
    archived, trashed = (store.read(lambda view, n=name: view.find_run(n)) for name in ("run-0", "run-1"))  # type: ignore[misc]
    assert archived is not None and trashed is not None
    store.write(lambda tx: tx.archive(archived.run))
    store.write(lambda tx: tx.trash(trashed.run, 1))
    store.close()
    tamper(path, "UPDATE run SET title = 'mine'")
    repair(path)
    assert ["run-0"] == [row.run_id for row in store.read(lambda view: view.archived())]
    assert ["run-1"] == [each.row.run_id for each in store.read(lambda view: view.trashed())]
    store.close()


@pytest.mark.damages_store
@pytest.mark.parametrize("left", ["nothing", "an empty file", "no header"])
def test_nothing_is_left(sample: Sample, tmp_path: Path, left: str) -> None:
    """If SQL can read nothing, repair says so and changes nothing: only a backup helps."""
    path = sample.copy(tmp_path / ".leftoff")
    data = (path / "store.db").read_bytes()
    tidy(path / "store.db")
    (path / "store.db").unlink()
    if left != "nothing":
        (path / "store.db").write_bytes(b"" if left == "an empty file" else bytes(PAGE) + data[PAGE:])
    before = sorted(file for file in path.rglob("*") if file.is_file() and "lock" != file.name)
    done = call("fsck", "--repair", "--store", str(path), cwd=tmp_path)
    assert (4, True) == (done.code, "backup" in done.err)
    tidy(path / "store.db")
    assert before == sorted(file for file in path.rglob("*") if file.is_file() and "lock" != file.name)


def test_work_continues(sample: Sample, tmp_path: Path) -> None:
    """A store that was rebuilt takes new runs, new commits to old ones, prunes and another repair."""
    path = sample.copy(tmp_path / ".leftoff")
    for round_ in range(2):
        tamper(path, "UPDATE run SET title = 'mine' WHERE run > 0")
        repair(path)
        with leftoff.open(path) as store:
            with store.start("new") as run:
                run.variables["x"] = list(range(3000))
                run.do("step", str, round_)
            back = store.resume(f"run-1@{store.get('run-1').history()[0].seq}")
            back.append("items", {"n": round_})
            back.finish()
            store.prune("run-1")
        assert [] == problems(path)
    assert 2 == len(list((path / "quarantine").iterdir()))


# -- blobs


@pytest.mark.damages_store
@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_damaged_blobs(sample: Sample, tmp_path: Path, damage: str) -> None:
    """Reads and fsck report them, also after a repair, which moves damaged files away; all else can be read. The same
    content saved again makes every version whole."""
    path = sample.copy(tmp_path / ".leftoff")
    blobs = sorted(path.glob("blobs/*/*"))
    for blob in blobs:
        flip(blob, 0) if damage == "flipped" else blob.unlink()
    done = call("fsck", "--repair", "--json", "--store", str(path), cwd=tmp_path)
    assert 4 == done.code
    assert {"blob"} == {problem["code"] for problem in done.json["problems"]}
    assert (len(blobs) if damage == "flipped" else 0) == len(done.json["quarantined"])
    with leftoff.open(path) as store:
        run = store.get("run-0")
        assert ("noise.bin" in run.artifacts, 29) == (True, run.variables["n"])
        with pytest.raises(Corrupt):
            _ = run.variables["huge"]
    assert all(isinstance(outcome, Corrupt) for outcome in changed(sample, path).values())
    with leftoff.open(path) as store, store.start("again") as new:
        for name in ("noise.bin", "text.txt", "run-0.txt", "run-1.txt", "run-2.txt"):
            new.artifact(sample.path.parent / name)
        new.variables.update(a="run-0" * 300_000, b="run-1" * 300_000, c="run-2" * 300_000)
    assert {"list"} == set(changed(sample, path))
    assert [] == problems(path)


def test_blob_in_the_trash(sample: Sample, tmp_path: Path) -> None:
    """A blob whose file is damaged comes back from the trash, if it is whole there."""
    path = sample.copy(tmp_path / ".leftoff")
    (path / "trash").mkdir(exist_ok=True)
    blob = max(path.glob("blobs/*/*"), key=lambda file: file.stat().st_size)
    (path / "trash" / (blob.parent.name + blob.name)).write_bytes(blob.read_bytes())
    flip(blob, 100)
    repair(path)
    assert {} == changed(sample, path)


@pytest.mark.damages_store
@pytest.mark.parametrize("damage", ["flipped", "gone", "forgotten"])
def test_a_damaged_copy_of_a_file(project: Path, damage: str) -> None:
    """It is not taken for one that was not kept: every verb that needs it exits with 4, and nothing is restored."""
    succeed("start", "flow", "--run-id", "r", cwd=project)
    for text in ("one", "two"):
        (project / "a.txt").write_text(text)
        succeed("track", "a.txt", cwd=project)
        succeed("save", cwd=project)
    for blob in (project / ".leftoff" / "blobs").rglob("*/*"):
        flip(blob, 0) if damage == "flipped" else blob.unlink()
    if damage == "forgotten":
        tamper(project / ".leftoff", "DELETE FROM blob")
    for words in (
        ("cat", "r@3:a.txt"),
        ("diff", "r@3", "r@5"),
        ("restore", "r@3", "a.txt", "--yes"),
        ("export", "r", "-o", "bundle"),
        ("fsck",),
    ):
        assert 4 == call(*words, cwd=project).code, words
    assert "two" == (project / "a.txt").read_text()
    succeed("show", "r", cwd=project)


# -- who may


HOLDER = """
import sys
import leftoff
store = leftoff.open(sys.argv[1])
if sys.argv[2] == "drives":
    run = store.start("held", run_id="held")
else:
    db = store._store.take()
    db.execute("BEGIN")
    db.execute("SELECT * FROM run").fetchall()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path, what: str) -> Iterator[None]:
    command = [sys.executable, "-c", HOLDER, str(path), what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and "ready\n" == process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@pytest.mark.damages_store
@pytest.mark.parametrize(("what", "error"), [("drives", LeaseHeld), ("reads", StoreUnavailable)])
def test_refused_while_others_are_there(
    sample: Sample, tmp_path: Path, what: str, error: type[Exception]
) -> None:
    """Nothing is repaired under a process that drives a run, or has the database open; and nothing is changed."""
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, "UPDATE run SET title = 'mine' WHERE run_id = 'run-0'")
    with another_process(path, what):
        before = (path / "store.db").read_bytes()
        with leftoff.open(path) as store, pytest.raises(error):
            store.fsck(repair=True)
        assert before == (path / "store.db").read_bytes()
    repair(path)


@pytest.mark.damages_store
def test_a_flip_under_one_table(sample: Sample, tmp_path: Path) -> None:
    """A flipped bit costs at most what the digests prove to be wrong: all runs are kept, wherever it was."""
    data, rng = (sample.path / "store.db").read_bytes(), random.Random(3)
    for number in range(6):
        path = sample.copy(tmp_path / str(number) / ".leftoff")
        flip(path / "store.db", rng.randrange(2 * PAGE, len(data)), 1 << rng.randrange(8))
        repair(path)
        check_honest(sample, path)
        with leftoff.open(path) as store:
            assert 3 == len(store.list())
