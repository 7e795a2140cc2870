"""`leftoff put`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import started

OPEN = (
    "message",
    "conflict",
    "knowledge",
    "member",
    "criterion",
    "score",
    "error",
    "context",
    "note",
    "extra",
)
MORE = ("approval", "artifact", "file", "variable")


@pytest.mark.parametrize("collection", [*OPEN, *MORE])
def test_any_record(collection: str, tmp_path: Path) -> None:
    """Any collection keeps any JSON; nothing is printed and nothing is sealed."""
    run = started(tmp_path)
    done = succeed("put", collection, "key one", '{"a": [1, null]}', cwd=tmp_path)
    assert ("", "") == (done.out, done.err)
    assert {"a": [1, None]} == succeed("get", f"{collection}/key one", cwd=tmp_path).json
    again = succeed("put", collection, "key one", "-1", "--json", cwd=tmp_path)
    assert {"run_id": run, "seq": 3} == again.json
    assert "-1\n" == succeed("get", f"{collection}/key one", cwd=tmp_path).out
    assert [] == succeed("log", "--json", cwd=tmp_path).json["checkpoints"]


def test_new_never_overwrites(tmp_path: Path) -> None:
    """--new is a conflict where the key exists, and of ten who try at once one succeeds."""
    started(tmp_path)
    with ThreadPoolExecutor(10) as pool:
        codes = list(
            pool.map(lambda n: call("put", "member", "lead", f'"{n}"', "--new", cwd=tmp_path).code, range(10))
        )
    assert [0] + [5] * 9 == sorted(codes)
    done = call("put", "member", "lead", '"x"', "--new", "--json", cwd=tmp_path)
    assert 5 == done.code and "conflict" == done.json["error"]["code"] and "already exists" in done.err


def test_a_step_keeps_its_status_and_place(tmp_path: Path) -> None:
    """What a step's record does not say stays; a new one is pending, behind the others."""
    started(tmp_path, "flow", "--steps", "a,b")
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("put", "step", "a", '{"title": "A"}', cwd=tmp_path)
    succeed("put", "step", "c", '{"instructions": "last"}', cwd=tmp_path)
    records = succeed("show", "@", "--json", cwd=tmp_path).json["step_records"]
    assert [("a", "completed"), ("b", "pending"), ("c", "pending")] == [
        (r["step"], r["status"]) for r in records
    ]
    assert "A" == records[0]["title"]


def test_a_variable_is_set(tmp_path: Path) -> None:
    """A record of the collection variable is what `set` would set, long lists too."""
    started(tmp_path)
    (tmp_path / "v.json").write_text(str(list(range(3000))))
    succeed("put", "variable", "v", "@v.json", cwd=tmp_path)
    assert list(range(3000)) == succeed("get", "v", cwd=tmp_path).json


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "status", '"completed"'), 2, "leftoff's own"),
        (("item", "x/1", "1"), 2, "leftoff's own"),
        (("knowlege", "x", "1"), 2, "Did you mean knowledge"),
        (("knowledge", "x", "{bad"), 2, "is not JSON"),
        (("knowledge", "x", "plain text"), 2, "quotes"),
        (("knowledge", "x", "@missing"), 3, "does not exist"),
        (("knowledge", "", "1"), 2, "empty"),
        (("knowledge", "x"), 2, "needs COLLECTION KEY JSON"),
        (("step", "a//b", "{}"), 2, "not a step path"),
        (("step", "a", '{"status": "weird"}'), 2, "weird"),
        (("step", "a", "[]"), 2, "must be an object"),
        (("knowledge", b"\xff", "1"), 2, "not UTF-8"),
    ],
)
def test_what_is_refused(words: tuple[str | bytes, ...], code: int, says: str, tmp_path: Path) -> None:
    """What leftoff keeps for itself, and what is no JSON, is refused with a hint; nothing is written."""
    started(tmp_path)
    done = call("put", *words, cwd=tmp_path)
    assert (code, "") == (done.code, done.out)
    assert says in done.err and "Traceback" not in done.err
    assert 1 == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]["seq"]


def test_a_step_that_is_put_as_done_leaves_no_error(tmp_path: Path) -> None:
    """What was open is settled, and the run is blocked no more."""
    run = started(tmp_path, "flow", "--steps", "a")
    succeed("step", "block", "a", "--error", "no", cwd=tmp_path)
    succeed("put", "step", "a", '{"status": "completed"}', cwd=tmp_path)
    found = succeed("show", run, "--json", cwd=tmp_path).json
    assert ("running", None) == (found["status"], found["records"].get("error"))
