"""Results are plain lists and dicts in the order in which the function made them, and each reader has a copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import leftoff
from tests.api.others import said
from tests.cli.command import succeed
from tests.postgres.conftest import location as location
from tests.postgres.conftest import name as name
from tests.postgres.conftest import server as server
from tests.postgres.conftest import url as url

ROWS = [{"name": "Ada", "age": 36, "city": "London", "more": {"z": 1, "b": [{"y": 1, "a": 2}]}}]
LARGE = [{"name": "x" * 1_100_000, "age": 1}]  # stored as a file

PROGRAM = """
import json, os
import leftoff

ROWS = json.load(open("rows.json"))
load = leftoff.step(lambda: ROWS, name="load")

@leftoff.workflow
def flow() -> list:
    return load()

with leftoff.open(os.environ["WHERE"]) as store:
    with store.run("plain") as run:
        print(json.dumps(run.do("load", lambda: ROWS)))
        print(json.dumps(run.map(lambda n: ROWS, [1], name="map")[0]))
        print(json.dumps(run.result("load")))
        if "STOP" in os.environ:
            raise SystemExit
    print(json.dumps(flow.run(store=store, run_id="f")))
    print(json.dumps(store.get("plain").steps["load"]["result"]))
    print(json.dumps(store.get("f").steps["1-load"]["result"]))
"""


def plain(value: Any) -> bool:
    """Whether a value has no other containers than Python's own."""
    if isinstance(value, dict):
        return type(value) is dict and all(map(plain, value.values()))
    return not isinstance(value, list) or (type(value) is list and all(map(plain, value)))


def test_keys_keep_their_order(location: str, tmp_path: Path) -> None:
    """The first time, after a restart, and of a durable function; in either store."""
    check_order(location, tmp_path, ROWS)


def test_keys_of_large_results_keep_their_order(tmp_path: Path) -> None:
    """The same for a result that is stored as a file."""
    check_order(str(tmp_path / ".leftoff"), tmp_path, LARGE)


def check_order(location: str, tmp_path: Path, rows: Any) -> None:
    wanted = json.dumps(rows)
    (tmp_path / "rows.json").write_text(wanted)
    assert [wanted] * 3 == said(PROGRAM, tmp_path, WHERE=location, STOP="1")
    assert [wanted] * 6 == said(PROGRAM, tmp_path, WHERE=location)


def test_the_order_survives_export_and_import(tmp_path: Path) -> None:
    """A bundle has the result as it was made."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    with leftoff.open(here / ".leftoff") as store, store.start("plain", run_id="r") as run:
        run.do("load", lambda: ROWS)
    succeed("export", "r", "-o", str(tmp_path / "r.leftoff"), cwd=here)
    succeed("import", str(tmp_path / "r.leftoff"), cwd=there)
    with leftoff.open(there / ".leftoff") as store:
        assert json.dumps(ROWS) == json.dumps(store.get("r").steps["load"]["result"])
    assert ROWS == succeed("show", "r", "--steps", "--json", cwd=there).json["step_records"][0]["result"]


def test_the_order_survives_later_changes_of_the_record(store: leftoff.Store, run: leftoff.Run) -> None:
    """A fork and a rollback copy the result as it is."""
    run.do("load", lambda: ROWS)
    good = run.checkpoint()
    run.do("load", list, again=True)
    run.rollback(good)
    assert json.dumps(ROWS) == json.dumps(run.result("load"))
    assert json.dumps(ROWS) == json.dumps(run.fork(branch="other").result("load"))


def test_results_can_be_changed(store: leftoff.Store, run: leftoff.Run) -> None:
    """A caller may change what it got. That changes neither the record nor what another call returns."""
    made = [{"n": 2, "tags": ["b"]}, {"n": 1, "tags": ["a"]}]
    wanted = json.dumps(made)

    def change(rows: Any) -> None:
        assert wanted == json.dumps(rows) and plain(rows)
        rows.sort(key=lambda row: row["n"])
        rows[0].update(new=True)
        rows[0]["tags"].append("c")

    change(run.do("load", lambda: made))
    made.clear()
    change(run.do("load", list))
    change(run.result("load"))
    change(run.map(lambda _: json.loads(wanted), [1], name="map")[0])
    change(run.map(lambda _: None, [1], name="map")[0])
    run.pause()
    again = store.resume(run.id)
    change(again.do("load", list))
    change(again.do("load", list))
    change(again.map(lambda _: None, [1], name="map")[0])


def test_a_result_of_a_durable_function_can_be_changed(store: leftoff.Store) -> None:
    """What a workflow does to a result is not in the record."""

    @leftoff.step
    def load() -> Any:
        return {"b": [1], "a": 2}

    @leftoff.workflow
    def flow() -> Any:
        found = load()
        found["b"].append(2)
        return found

    assert '{"b": [1, 2], "a": 2}' == json.dumps(flow.run(store=store, run_id="f"))
    assert '{"b": [1, 2], "a": 2}' == json.dumps(flow.run(store=store, run_id="f"))
    assert '{"b": [1], "a": 2}' == json.dumps(store.get("f").steps["1-load"]["result"])


def test_the_order_is_kept_where_something_was_redacted(store: leftoff.Store, run: leftoff.Run) -> None:
    """Of the entries that are stored."""
    made = {"user": "ada", "password": "hunter2-and-more", "age": 36}
    assert list(made) == list(run.do("load", lambda: made))
    run.pause()
    assert list(made) == list(store.resume(run.id).result("load"))
