"""Old records: read in today's schema, and written in it before anything else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Redacted, Unsupported
from leftoff.model import upgrades


def second_schema(collection: str, key: str, value: Any) -> Any:
    """A change of schema, as a later leftoff may make one."""
    if (collection, key) == ("variable", "size"):
        return {"bytes": value}
    if collection == "variable" and isinstance(value, dict) and "login" in value:
        return {"account": value["login"], **{k: v for k, v in value.items() if k != "login"}}
    if (collection, key) == ("variable", "rows"):
        return [*value, {"total": len(value)}]
    if collection == "step":
        return {**value, "kind": "step"}
    if collection == "artifact":
        return {**value, "media": "text"}
    return value


def upgrade_leftoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upgrades.UPGRADES, 1, second_schema)
    assert 2 == upgrades.current()


ROWS = [{"i": i, "text": "x" * 100} for i in range(60)]


@pytest.fixture
def old_run(store_path: Path, tmp_path: Path) -> str:
    """A run that was written before the upgrade."""
    (tmp_path / "page.md").write_text("# page\n")
    with leftoff.open(store_path) as store:
        run = store.start("old", run_id="old", steps=["a", "b"])
        run.variables.update(
            size=5, rows=ROWS, same="s", db={"login": {"password": "hunter2", "user": "bob"}}
        )
        run.artifact(tmp_path / "page.md")
        run.do("a", lambda: 1)
        run.pause()
    return "old"


def raw(store: leftoff.Store, run_id: str) -> dict[str, bytes]:
    """The stored bytes of every record but the items."""

    def look(view: Any) -> dict[str, bytes]:
        row = view.find_run(run_id)
        names = [name for name in view.collections(row.run) if name != "item"]
        return {f"{r.collection}/{r.key}": r.stored for name in names for r in view.records(row.run, name)}

    return store._store.read(look)


def test_no_upgrades_yet() -> None:
    """The schema of this leftoff is the first one."""
    assert ({}, 1) == (upgrades.UPGRADES, upgrades.current())


def test_upgrades_apply_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record goes through every schema since its own."""
    monkeypatch.setitem(upgrades.UPGRADES, 1, lambda c, k, v: [*v, "1 to 2"])
    monkeypatch.setitem(upgrades.UPGRADES, 2, lambda c, k, v: [*v, "2 to 3"])
    assert ["1 to 2", "2 to 3"] == upgrades.upgrade(1, "note", "k", [])
    assert ["2 to 3"] == upgrades.upgrade(2, "note", "k", [])
    assert [] == upgrades.upgrade(3, "note", "k", [])


@pytest.mark.parametrize("schema", [2, 99, 0, -1, "1", None, 1.0])
def test_a_schema_from_the_future_is_refused(schema: object) -> None:
    """What this leftoff does not know is refused by its number."""
    with pytest.raises(Unsupported, match=r"run-1 was written with record schema"):
        upgrades.check(schema, "run-1")


def test_old_runs_read_upgraded(old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading shows today's schema and writes nothing."""
    with leftoff.open(store_path) as store:
        before = raw(store, old_run)
        upgrade_leftoff(monkeypatch)
        run = store.get(old_run)
        assert {"bytes": 5} == run.variables["size"]
        assert {"total": 60} == run.variables["rows"][-1] and ROWS == run.variables["rows"][:-1]
        assert "step" == run.steps["a"]["kind"]
        assert "text" == run.artifacts["page.md"]["media"]
        assert {"bytes": 5} == run.at(run.history()[0]).variables["size"]
        assert "bob" == run.variables["db"]["account"]["user"]
        with pytest.raises(Redacted, match=r"db\.account\.password"):
            run.variables["db"]["account"]["password"]
        assert before == raw(store, old_run)


def test_writing_first_commits_the_upgraded_records(
    old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run never mixes two schemas: driving it upgrades all of it, in a version of its own."""
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        run = store.resume(old_run)
        stored = raw(store, old_run)
        assert b"J2" == stored["run/schema"]
        assert b'J{"bytes":5}' == stored["variable/size"]
        assert b'"kind":"step"' in stored["step/b"]
        assert b"B" == stored["artifact/page.md"][:1] and b'"media":"text"' in stored["artifact/page.md"]
        assert {"total": 60} == run.variables["rows"][-1] and 61 == len(run.variables["rows"])
        run.variables["size"] = {"bytes": 6}
        run.finish()
        assert {"bytes": 6} == store.get(old_run).variables["size"]


def test_the_upgrade_keeps_what_was_redacted(
    old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it moves to another place."""
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        run = store.resume(old_run)
        assert "bob" == run.variables["db"]["account"]["user"]
        with pytest.raises(Redacted, match=r"db\.account\.password"):
            run.variables["db"]["account"]["password"]


def test_an_upgraded_run_is_not_upgraded_again(
    old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and driving it once more change nothing of its values."""
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        store.resume(old_run).pause()
        assert {"bytes": 5} == store.resume(old_run).variables["size"]
        assert 61 == len(store.get(old_run).variables["rows"])


def test_a_new_run_has_the_schema_of_its_leftoff(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started after an upgrade is not read through it."""
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        store.start("new", run_id="new", variables={"size": {"bytes": 1}}).pause()
        assert {"bytes": 1} == store.get("new").variables["size"]
        assert b"J2" == raw(store, "new")["run/schema"]


def test_old_versions_of_an_upgraded_run(
    old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version is read in the schema it was written in; going back to one upgrades it again."""
    with leftoff.open(store_path) as store:
        before = store.get(old_run).history()[0]
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        run = store.resume(old_run)
        run.variables["size"] = {"bytes": 6}
        run.checkpoint()
        assert {"bytes": 5} == run.at(before).variables["size"]
        run.rollback(before)
        assert {"bytes": 5} == run.variables["size"] == run.at(before).variables["size"]
        assert b"J2" == raw(store, old_run)["run/schema"]
        run.variables["size"] = {"bytes": 7}
        run.commit()
        assert {"bytes": 7} == store.get(old_run).variables["size"]


def test_forks_of_old_runs_are_upgraded(
    old_run: str, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork starts in today's schema, and what it is given is in it already."""
    with leftoff.open(store_path) as store:
        before = store.get(old_run).history()[0]
    upgrade_leftoff(monkeypatch)
    with leftoff.open(store_path) as store:
        run = store.resume(old_run)
        for ref in (None, before):
            fork = run.fork(branch="b", ref=ref, size={"bytes": 9})
            assert {"bytes": 9} == fork.variables["size"]
            assert 61 == len(fork.variables["rows"])
            assert b"J2" == raw(store, fork.id)["run/schema"]


def test_a_run_from_the_future_is_not_driven(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by its number, and left as it was: nobody drives it, nothing is written."""
    with monkeypatch.context() as patch, leftoff.open(store_path) as store:
        patch.setitem(upgrades.UPGRADES, 1, second_schema)
        store.start("new", run_id="new", variables={"size": {"bytes": 1}}).pause()
    with leftoff.open(store_path) as store:
        before = raw(store, "new")
        for drive in (lambda: store.resume("new"), lambda: store.run("new")):
            with pytest.raises(Unsupported, match="schema 2"):
                drive()
        with pytest.raises(Unsupported, match="schema 2"):
            _ = store.get("new").variables["size"]
        store.close()
        assert before == raw(store, "new")
        assert "idle" == store.list()[0].health
