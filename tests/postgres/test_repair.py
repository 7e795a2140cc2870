"""fsck and repair on a server: damage is found and set aside in tables, and what is whole stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import leftoff
from leftoff.engine.project import open_store_at
from leftoff.errors import Corrupt, LeaseHeld, NotFound, StaleEpoch
from leftoff.store import repair
from leftoff.store.integrity import inspect
from leftoff.store.server_location import ServerPlace
from leftoff.store.store_copy import copy_store, table_rows
from tests.cli.command import call
from tests.damage import store as samples
from tests.damage.store import everything
from tests.damage.test_tampering import RUN, TAMPERING
from tests.damage.test_tampering import tamper as tamper_folder
from tests.postgres.server import Server

#: what is wrong by itself on a server, besides what can be wrong everywhere
MORE = {
    "the sequence of commits": ("SELECT setval('commit_number', 1)", "run", "run 0"),
    "a blob forgotten": ("UPDATE blob SET known = false", "blob", "artifact/"),
}
CASES = {what: case for what, case in {**TAMPERING, **MORE}.items() if what != "the store's own count"}
QUICK = {
    "two records swapped",
    "a record's bytes",
    "a value gone",
    "the newest version gone",
    "the listing's head",
    "a run's row gone",
    "a step's status",
    "the sequence of commits",
    "a blob forgotten",
    "a run's id that is a path",
    "an attempt's folder elsewhere",
}
_WORDS = {
    "x'4a31'": r"'\x4a31'",
    "zeroblob(32)": "decode(repeat('00', 32), 'hex')",
    "SELECT run, 'extra', key, seq, hash, data, blob, status, ord, leaf": (
        "(run, collection, key, seq, hash, data, blob) SELECT run, 'extra', key, seq, hash, data, blob"
    ),
}


class Sample:
    """Two runs in a folder, and what they read as."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".leftoff"
        store = leftoff.open(self.path)
        samples._fill(store, folder, "run-0", 4)
        samples._fill(store, folder, "run-1", 1)
        store.close()
        self.runs = {
            run_id: [v.seq for v in samples.leftoff_versions(self.path, run_id)]
            for run_id in ("run-0", "run-1")
        }
        self.expected = everything(self.path, self.runs)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """The store that each test gets a copy of."""
    return Sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def place(sample: Sample, url: str) -> Iterator[str]:
    """A copy of the sample on the server."""
    source, target = open_store_at(str(sample.path)), open_store_at(url)
    copy_store(source, target)
    source.close()
    target.close()
    yield url


def tamper(server: Server, url: str, sql: str) -> None:
    """Change rows behind leftoff's back, without a word of the server."""
    options = f'-c search_path="{ServerPlace(url).schema}" -c session_replication_role=replica'
    for word, here in _WORDS.items():
        sql = sql.replace(word, here)
    with psycopg.connect(server.url(), options=options) as conn:
        for statement in sql.split(";"):
            conn.execute(statement.encode())


def asked(server: Server, url: str, sql: str) -> list[Any]:
    with psycopg.connect(server.url(), options=f'-c search_path="{ServerPlace(url).schema}"') as conn:
        return conn.execute(sql.encode()).fetchall()


def repaired(url: str, lost: bool = False) -> leftoff.FsckReport:
    """Repair the store. ``lost``: contents of blobs are gone, which stays a problem."""
    with leftoff.open(url) as store:
        report = store.fsck(repair=True)
        assert lost == bool(report.problems)
        assert all(problem["code"] == "blob" for problem in report.problems)
        assert lost != store.fsck().ok
    return report


def changed(sample: Sample, url: str) -> dict[str, Any]:
    found = everything(url, sample.runs)  # type: ignore[arg-type]
    return {name: outcome for name, outcome in found.items() if outcome != sample.expected[name]}


def check_honest(sample: Sample, left: dict[str, Any]) -> None:
    """What is left is as it was: a version reads the same or is gone by name, and a head is one of the versions."""
    versions = {sample.expected[f"run-0@{seq}"] for seq in sample.runs["run-0"]}
    for name, outcome in left.items():
        if name.endswith(": now") and not isinstance(outcome, Exception):
            assert outcome in versions, name
        elif "@" in name:
            assert isinstance(outcome, (NotFound, Corrupt)), f"{name}: {outcome!r}"


def cases() -> Iterator[Any]:
    """All of them; `make test` plays a sample."""
    for what in CASES:
        yield pytest.param(what, marks=[] if what in QUICK else [pytest.mark.crash_full])


@pytest.mark.parametrize("what", list(cases()))
def test_damage_is_found_and_set_aside(sample: Sample, place: str, server: Server, what: str) -> None:
    """What follows from the records is worked out again; a run that no longer adds up goes back to where it did."""
    sql, code, where = CASES[what]
    tamper(server, place, sql)
    report = repaired(place, lost=what == "a blob's row gone")
    assert any(p["code"] == code and where in p["where"] for p in report.repaired), report.repaired
    left = changed(sample, place)
    check_honest(sample, left)
    if code == "run" or what == "a blob forgotten":
        assert {} == left
    if not ("value" in what or "blob" in what):
        assert [] == [name for name in left if name.startswith("run-1")]
    rows = asked(server, place, "SELECT DISTINCT repair FROM quarantine")
    if code not in ("blob",) and what != "the sequence of commits":
        (((name,),), (told,)) = rows, report.quarantined
        assert name in told


def test_the_same_report_as_of_a_folder(sample: Sample, place: str, server: Server, tmp_path: Path) -> None:
    """Run by run, what could not be proved."""
    folder = tmp_path / "copy" / ".leftoff"
    shutil.copytree(sample.path, folder)
    sql = f"UPDATE record SET data = x'4a31' WHERE run = {RUN} AND collection = 'variable' AND key = 'n'"
    tamper(server, place, sql)
    tamper_folder(folder, sql)
    there = repaired(place)
    with leftoff.open(folder) as store:
        here = store.fsck(repair=True)
    shown = [[{**loss, "aside": ...} for loss in report.salvaged] for report in (here, there)]
    assert shown[0] == shown[1]
    assert here.repaired == there.repaired
    with leftoff.open(place) as store:
        assert "repaired" in store.get("run-0").records["context"]


def test_what_was_set_aside_can_be_read(place: str, server: Server) -> None:
    """Rows as they were, to be put back with one statement."""
    before = asked(server, place, "SELECT * FROM version ORDER BY run, seq")
    tamper(server, place, f"DELETE FROM record WHERE run = {RUN} AND collection = 'knowledge'")
    repaired(place)
    back = "(jsonb_populate_record(NULL::version, kept)).* FROM quarantine WHERE source = 'version'"
    found = asked(server, place, f"SELECT {back} ORDER BY 1, 2")
    assert [row for row in before if row[0] == before[0][0]] == found


def test_a_repair_that_believes_everything_is_caught(
    place: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """THE DELIBERATE BREAKAGE: versions that were not added up are found by the look afterwards."""
    monkeypatch.setattr(repair.RunRemains, "_proved", lambda self: iter(self.versions))
    tamper(server, place, TAMPERING["a record gone"][0])
    with leftoff.open(place) as store:
        assert not store.fsck(repair=True).ok
    monkeypatch.undo()
    repaired(place)


def test_a_commit_after_the_look(place: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody commits to a damaged run before it is settled stays in it."""
    tamper(server, place, CASES["a step's status"][0])
    left = [True]

    def look(store: Any) -> Any:
        found = real(store)
        if left and left.pop():
            assert 0 == call("note", "in between", "--run", "run-0", cwd=Path("/"), LEFTOFF_STORE=place).code
        return found

    real = inspect
    monkeypatch.setattr("leftoff.store.repair.inspect", look)
    report = repaired(place)
    assert report.repaired
    with leftoff.open(place) as store:
        assert "in between" in [note["text"] for note in store.get("run-0").records["note"].values()]


def test_a_run_that_is_driven_is_left_alone(place: str, server: Server) -> None:
    """Whoever drives it would go on from what is not so any more. Others may be driven."""
    with leftoff.open(place) as store:
        (row,) = [
            row
            for row in store._store.read(lambda view: table_rows(view, "run", None, 10_000))
            if row[1] == "run-0"
        ]
        tamper(server, place, f"UPDATE lease SET kind = 'session', session = 's' WHERE run = {row[0]}")
        tamper(server, place, TAMPERING["a record gone"][0])
        with pytest.raises(LeaseHeld):
            store.fsck(repair=True)


def test_no_run_is_repaired_if_one_of_them_is_driven(place: str, server: Server) -> None:
    """A repair that is refused changes nothing, also of the runs that it would have come to first."""
    with leftoff.open(place) as store:
        runs = [row[0] for row in store._store.read(lambda view: table_rows(view, "run", None, 10_000))]
        tamper(server, place, f"UPDATE lease SET kind = 'session', session = 's' WHERE run = {max(runs)}")
        tamper(server, place, "DELETE FROM record WHERE collection = 'step'")
        damaged = asked(server, place, "SELECT * FROM version ORDER BY run, seq")
        with pytest.raises(LeaseHeld):
            store.fsck(repair=True)
    assert len(runs) == 2 and damaged == asked(server, place, "SELECT * FROM version ORDER BY run, seq")


def test_who_drove_a_run_that_was_repaired_is_fenced_off(url: str, server: Server) -> None:
    """What a process remembers of it is not so any more, though the head did not move; who begins anew looks anew."""
    with leftoff.open(url) as store:
        run = store.start("work", run_id="r")
        list(run.each("convert", ["a", "b"]))
        run.pause()
    tamper(server, url, "UPDATE record SET leaf = 1 WHERE collection = 'step' AND key = 'convert'")
    store = leftoff.open(url)
    run = store.resume("r")
    for number in range(3):
        run.variables["n"] = number
        run.commit()
    before = run._buffer.head.at
    repaired(url)
    run.variables["n"] = "late"
    with pytest.raises(StaleEpoch):
        run.commit()
    row = store._store.read(lambda view: view.find_run("r"))
    assert row is not None and before == (row.seq, int.from_bytes(row.digest, "big"))
    again = store.resume("r")
    with again.step("convert", again=True):
        again.variables["n"] += 1
    assert store.fsck().ok
    assert 3 == again.variables["n"]
    again.finish()
    with pytest.raises(StaleEpoch):  # what waits in the first one is of no use
        store.close()


def test_a_lost_blob_comes_back_when_it_is_saved_again(place: str, server: Server) -> None:
    """Its records stay, and reading it and fsck report that it is gone, until the same content is there again."""
    tamper(server, place, "DELETE FROM piece")
    with leftoff.open(place) as store:
        assert {"blob"} == {problem["code"] for problem in store.fsck(repair=True).problems}
        (about,) = [about for key, about in store.get("run-0").artifacts.items() if key.endswith("run-0.txt")]
        hash = bytes.fromhex(about["hash"][7:])
        with pytest.raises(Corrupt):
            b"".join(store._store.load_blob(hash))
        store._store.sweep()
        row = store._store.save_blob([b"run-0"])
        store._store.write(lambda tx: tx.put_blob(row))
        assert b"run-0" == b"".join(store._store.load_blob(hash))
        assert hash.hex() not in {problem["blob"] for problem in store.fsck().problems}
