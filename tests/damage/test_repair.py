"""Repair sets damage aside, keeps what is whole, and loses nothing that can be read."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import Corrupt, LeaseHeld, NoCheckpoint, NotFound, StaleEpoch, StoreUnavailable
from leftoff.store.repair import salvage
from leftoff.store.repair.carve import Carver
from leftoff.store.sqlite.pages import mends
from leftoff.store.sqlite.store import SqliteStore
from tests.damage.store import PAGE, Outcome, Sample, everything, flip, problems, tidy
from tests.damage.test_flips import HEADER, kinds, offsets
from tests.damage.test_tampering import TAMPERING, tamper


def repair(path: Path) -> leftoff.FsckReport:
    """Repair a store; it is clean afterwards, and says so again when it is asked anew."""
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
    """What is left is as it was: a version reads the same or is gone by name, and a head is one of the versions.

    Damage is told only of values whose blob is lost: no repair brings its bytes back.
    """
    lost = blob_names(sample.path) - blob_names(path)
    for name, outcome in changed(sample, path).items():
        run_id = name.partition(":")[0].partition("@")[0]
        is_version = name.endswith(": now") or ("@" in name and ":" not in name)
        if is_version and not isinstance(outcome, Exception):  # the head, or what marks it as salvaged
            assert outcome in {sample.expected[f"{run_id}@{seq}"] for seq in sample.runs[run_id]}, name
        elif isinstance(outcome, Corrupt):
            assert outcome.where.removeprefix("blob ") in lost, f"{name}: {outcome!r}"
        elif "@" in name or isinstance(outcome, Exception):
            assert isinstance(outcome, NotFound), f"{name}: {outcome!r}"


def blob_names(path: Path) -> set[str]:
    """The names of the blobs that are in their place."""
    return {file.parent.name + file.name for file in path.glob("blobs/*/*")}


def set_aside(report: leftoff.FsckReport, name: str) -> list[Path]:
    return [Path(path) for path in report.quarantined if Path(path).name == name]


def check_flips(sample: Sample, folder: Path, total: int) -> int:
    """Flip a byte, repair; how often everything was back as it was. Otherwise only words about versions are missing."""
    data = (sample.path / "store.db").read_bytes()
    whole = 0
    for number, offset in enumerate(offsets(data, total)):
        path = sample.copy(folder / f"{number}" / ".leftoff")
        flip(path / "store.db", offset, 1 << number % 8)
        damaged = (path / "store.db").read_bytes()
        report = repair(path)
        assert [damaged] == [file.read_bytes() for file in set_aside(report, "store.db")]
        left = changed(sample, path)
        assert all(name.endswith(": history") for name in left), left
        whole += not left
    return whole


def test_flipped_bytes_are_put_right(sample: Sample, tmp_path: Path) -> None:
    """After one flipped byte everything reads as before, and the damaged file is kept."""
    assert check_flips(sample, tmp_path, 6) >= 5


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_flipped_bytes_are_put_right(sample: Sample, tmp_path: Path) -> None:
    """The same four hundred times: words about a version are lost once in a while, a value never."""
    assert check_flips(sample, tmp_path, 400) >= 380


def test_several_bytes_would_explain(sample: Sample, tmp_path: Path) -> None:
    """Also where the checksum alone does not tell which byte it was, no value is lost: hashes and digests tell."""
    data = (sample.path / "store.db").read_bytes()
    schema = {row.pages[0] for row in carver(data).rows() if row.table == "sqlite_schema"}
    for number in [*schema, kinds(data)["overflow"][0], kinds(data)["leaf index"][0]]:
        path = sample.copy(tmp_path / f"{number}" / ".leftoff")
        start = (number - 1) * PAGE
        flip(path / "store.db", start + 7, 2)  # in the highest byte of a word
        assert 1 < len(mends((path / "store.db").read_bytes()[start : start + PAGE]))
        repair(path)
        left = changed(sample, path)
        assert all(name.endswith(": history") for name in left), f"page {number}: {left}"


@pytest.mark.parametrize("garbage", [False, True], ids=["zeros", "garbage"])
@pytest.mark.parametrize("kind", ["first", "map", "overflow", "leaf index", "leaf table", "inner index"])
def test_lost_page(sample: Sample, tmp_path: Path, kind: str, garbage: bool) -> None:
    """A page that is lost takes what was on it, and no more; what no longer fits is written down beside."""
    rng = random.Random(kind)
    path = sample.copy(tmp_path / ".leftoff")
    data = (path / "store.db").read_bytes()
    lost = rng.sample(kinds(data)[kind], min(3, len(kinds(data)[kind])))
    damaged = bytearray(data)
    for number in lost:
        damaged[(number - 1) * PAGE : number * PAGE] = rng.randbytes(PAGE) if garbage else bytes(PAGE)
    (path / "store.db").write_bytes(damaged)
    report = repair(path)
    check_honest(sample, path)
    check_kept(data, set(lost), path, report)


def carver(data: bytes) -> Carver:
    count = len(data) // PAGE
    return Carver(lambda n: data[(n - 1) * PAGE : n * PAGE] if 0 < n <= count else None, count)


def check_kept(data: bytes, lost: set[int], path: Path, report: leftoff.FsckReport) -> None:
    """Every record of the old file that has no byte on a lost page is in the new one, or in the lines beside it."""
    before = carver(data)
    rows = [row for row in before.rows() if row.table in ("record", "past") and lost.isdisjoint(row.pages)]
    gone = {
        row.values["hash"] for row in before.rows() if row.table == "value" and not lost.isdisjoint(row.pages)
    }
    after = carver((path / "store.db").read_bytes())
    there = [row.values for row in after.rows() if row.table in ("record", "past")]
    kept = {(values["collection"], values["key"], values["seq"]) for values in there}
    for file in report.quarantined:
        if file.endswith(".jsonl"):
            lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
            kept |= {(line["collection"], line["key"], line["since"]) for line in lines if "key" in line}
    hidden = {row.values["run"] for row in before.rows() if row.table == "run" and row.values["hidden"]}
    for row in rows:
        values = row.values
        if values["hash"] not in gone and values["run"] not in hidden:
            assert (values["collection"], values["key"], values["seq"]) in kept


def test_sabotage_is_seen(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THE DELIBERATE BREAKAGE: a repair that believes every version without adding up its records is caught."""
    monkeypatch.setattr(salvage.Rest, "_wrong", lambda self: dict.fromkeys(self.versions, 0))
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, TAMPERING["a record gone"][0])
    with leftoff.open(path) as store:
        assert not store.fsck(repair=True).ok
    with pytest.raises(AssertionError):
        check_honest(sample, path)
    repaired = sample.copy(tmp_path / "again" / ".leftoff")
    tamper(repaired, TAMPERING["a record gone"][0])
    monkeypatch.undo()
    for place in (path, repaired):
        repair(place)
        check_honest(sample, place)


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering(sample: Sample, tmp_path: Path, what: str) -> None:
    """What follows from the records is worked out again; a run that no longer adds up goes back to where it did."""
    sql, code, _ = TAMPERING[what]
    path = sample.copy(tmp_path / ".leftoff")
    tamper(path, sql)
    report = repair(path)
    check_honest(sample, path)
    if code in ("run", "blob"):
        assert {} == changed(sample, path)
    if code == "stray":  # nothing says any more what the run was called
        (file,) = [Path(name) for name in report.quarantined if name.endswith(".jsonl")]
        assert file.name.startswith("run-") and "item item" in file.read_text()


def test_clean_store_is_left_alone(sample: Sample, tmp_path: Path) -> None:
    """There is nothing to repair in a clean store, and nothing is written."""
    path = sample.copy(tmp_path / ".leftoff")
    before = (path / "store.db").read_bytes()
    assert [] == repair(path).quarantined
    assert before == (path / "store.db").read_bytes()
    assert not (path / "quarantine").exists()


def test_no_run_is_left(sample: Sample, tmp_path: Path) -> None:
    """A run none of whose versions can be proved is left out, with all of its records beside; the others stay."""
    path = sample.copy(tmp_path / ".leftoff")
    tamper(
        path,
        "UPDATE version SET digest = zeroblob(32) WHERE run = (SELECT run FROM run WHERE run_id = 'run-0')",
    )
    report = repair(path)
    with leftoff.open(path) as store:
        assert {"fork", "run-1"} == {info.run_id for info in store.list()}
    assert {} == {k: v for k, v in changed(sample, path).items() if not k.startswith(("run-0", "list"))}
    (file,) = set_aside(report, "run-0.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    expected = json.loads(sample.expected["run-0: now"])
    found = {
        line["key"]: line.get("value")
        for line in lines
        if line.get("collection") == "knowledge" and not line["until"]
    }
    assert expected["knowledge"] == found


def test_run_that_went_back(sample: Sample, tmp_path: Path) -> None:
    """A run whose head is lost goes on from its newest whole version, and whoever drove it before is fenced off."""
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
        assert (
            sealed.seq + 2 == view.info.row.seq
        )  # that it was salvaged: a lost version's number is not given again
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


# -- blobs


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_lost_blobs(sample: Sample, tmp_path: Path, damage: str) -> None:
    """Damaged files move away. The records that refer to them stay; only reading the lost content says that it is."""
    path = sample.copy(tmp_path / ".leftoff")
    blobs = sorted(path.glob("blobs/*/*"))
    for blob in blobs:
        flip(blob, 0) if damage == "flipped" else blob.unlink()
    report = repair(path)
    assert (len(blobs) if damage == "flipped" else 0) == len(report.quarantined)
    assert all(path / "quarantine" / "blobs" == Path(file).parent for file in report.quarantined)
    assert report.checked["records_without_blob"] > 0
    with leftoff.open(path) as store:
        run = store.get("run-0")
        assert "noise.bin" in run.artifacts
        assert 29 == run.variables["n"]
        with pytest.raises(Corrupt):
            _ = run.variables["huge"]
    for name, outcome in changed(sample, path).items():
        assert isinstance(outcome, (Corrupt, NotFound)), name


def test_lost_blob_that_comes_back(sample: Sample, tmp_path: Path) -> None:
    """The same content saved again makes every version that refers to it whole again."""
    path = sample.copy(tmp_path / ".leftoff")
    for blob in path.glob("blobs/*/*"):
        blob.unlink()
    repair(path)
    with leftoff.open(path) as store, store.start("again") as run:
        for name in ("noise.bin", "text.txt", "run-0.txt", "run-1.txt"):
            run.artifact(sample.path.parent / name)
        run.variables.update(a="run-0" * 300_000, b="run-1" * 300_000)
    assert {"list"} == set(changed(sample, path))


def test_what_is_out_of_sight_stays_so(sample: Sample, tmp_path: Path) -> None:
    """A run that is archived in the store, and one in its trash, are no more seen after a repair than before."""
    path = sample.copy(tmp_path / ".leftoff")
    store = SqliteStore(str(path))
    archived, trashed = (store.read(lambda view, n=name: view.find_run(n)) for name in ("run-0", "run-1"))  # type: ignore[misc]
    assert archived is not None and trashed is not None
    store.write(lambda tx: tx.archive(archived.run))
    store.write(lambda tx: tx.trash(trashed.run, 1))
    store.close()
    with open(path / "store.db", "rb+") as file:
        file.seek(5 * PAGE)
        file.write(bytes(4 * PAGE))  # too much to be mended: the rest is put together anew
    repair(path)
    assert ["run-0"] == [row.run_id for row in store.read(lambda view: view.archived())]
    assert ["run-1"] == [each.row.run_id for each in store.read(lambda view: view.trashed())]
    store.close()


def test_blob_in_the_trash(sample: Sample, tmp_path: Path) -> None:
    """A blob whose file is damaged comes back from the trash, if it is whole there."""
    path = sample.copy(tmp_path / ".leftoff")
    (path / "trash").mkdir(exist_ok=True)
    blob = max(path.glob("blobs/*/*"), key=lambda file: file.stat().st_size)
    (path / "trash" / (blob.parent.name + blob.name)).write_bytes(blob.read_bytes())
    flip(blob, 100)
    repair(path)
    assert {} == changed(sample, path)


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
    with another_process(path, what):
        number = kinds((path / "store.db").read_bytes())["overflow"][0]
        flip(path / "store.db", (number - 1) * PAGE + 50)
        before = (path / "store.db").read_bytes()
        with leftoff.open(path) as store, pytest.raises(error):
            store.fsck(repair=True)
        assert before == (path / "store.db").read_bytes()
    repair(path)


def test_command(sample: Sample, tmp_path: Path) -> None:
    """`leftoff fsck --repair --json` names what it set aside, and ends with 0 once the store is clean."""
    path = sample.copy(tmp_path / ".leftoff")
    flip(path / "store.db", 5 * PAGE + 77)
    flip(max(path.glob("blobs/*/*"), key=lambda file: file.stat().st_size), 100)
    command = [sys.executable, "-m", "leftoff", "fsck", "--repair", "--json", "--store", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    said = json.loads(done.stdout)
    assert said["ok"] and {"page", "blob"} <= {problem["code"] for problem in said["repaired"]}
    assert all(os.path.exists(file) for file in said["quarantined"])
    assert {"blobs"} < {Path(file).parent.name for file in said["quarantined"]}


def test_work_goes_on(sample: Sample, tmp_path: Path) -> None:
    """A store that was built anew takes new runs, new commits to old ones, prunes and another repair."""
    path = sample.copy(tmp_path / ".leftoff")
    for round_ in range(2):
        data = bytearray((path / "store.db").read_bytes())
        data[:HEADER] = bytes(HEADER)
        (path / "store.db").write_bytes(data)
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
        tidy(path / "store.db")
    names = sorted(os.listdir(path / "quarantine"))
    assert 2 == len(names)


def test_database_gone(sample: Sample, tmp_path: Path) -> None:
    """Where the database is gone there is nothing to keep; the blobs stay, and the store is a new one."""
    path = sample.copy(tmp_path / ".leftoff")
    blobs = sorted(path.glob("blobs/*/*"))
    (path / "store.db").unlink()
    repair(path)
    assert blobs == sorted(path.glob("blobs/*/*"))
