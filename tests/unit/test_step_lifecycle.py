"""The life of a step's record: what each change clears, and who may write it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.model.words import ONCE_MORE

SOURCE = Path(leftoff.__file__).parent
OWN = {"order": 3, "title": "Publish", "kind": "command", "attempt": 2}
TRIED = {
    **OWN,
    "status": "failed",
    "started_at": "09:00",
    "completed_at": "10:00",
    "interrupted_at": "08:00",
    "waits_until": "11:00",
    "error": {"type": "E", "message": "no"},
    "last_error": {"type": "E", "message": "before"},
    "result": 7,
    "outputs": ["a.txt"],
    "why": "it said so",
    ONCE_MORE: True,
}
NOW = "12:00"


def test_a_new_try_starts_from_nothing() -> None:
    """Nothing of the last try is left but how many there were; that it is done once more holds until it has ended."""
    expected = {**OWN, "status": "running", "attempt": 3, "started_at": NOW, ONCE_MORE: True}
    assert {**expected, "why": "attempt 2 failed"} == lifecycle.start(TRIED, NOW)


def test_why_a_try_is_made() -> None:
    """It is derived from how the last one ended, unless the record says it; and it stays when the try has ended."""
    assert "first run" == lifecycle.start({"status": "pending"}, NOW)["why"]
    assert "input x changed" == lifecycle.start({"status": "pending"}, NOW, 1, "input x changed")["why"]
    cut_off = lifecycle.put_back({**OWN, "status": "running", "why": "first run"}, NOW)
    assert "attempt 2 was cut off" == cut_off["why"] == lifecycle.start(cut_off, NOW)["why"]
    assert "you asked" == lifecycle.start(lifecycle.redo(TRIED, "you asked"), NOW)["why"]
    assert "why" not in lifecycle.put_back({"status": "running"})


def test_what_is_said_of_a_step_before_its_first_try_stays() -> None:
    """A step that was never tried may know what it will write."""
    planned = {"order": 0, "status": "pending", "outputs": ["a.txt"]}
    assert ["a.txt"] == lifecycle.start(planned, NOW)["outputs"]


@pytest.mark.parametrize(("end", "status"), [(lifecycle.complete, "completed"), (lifecycle.skip, "skipped")])
def test_a_step_that_ended_is_open_no_more(end: Any, status: str) -> None:
    """No error, no interruption, no deadline; and it is not to be done once more."""
    kept = {"started_at": "09:00", "result": 7, "outputs": ["a.txt"]}
    kept |= {"why": TRIED["why"]} if status == "completed" else {}
    assert {**OWN, **kept, "status": status, "completed_at": NOW} == end(TRIED, NOW)


def test_a_failed_step_is_still_to_be_done_once_more() -> None:
    """Only the end of a step takes that away; its error is the new one."""
    failed = lifecycle.fail(TRIED, NOW, {"message": "again"})
    assert (True, {"message": "again"}, NOW) == (failed[ONCE_MORE], failed["error"], failed["completed_at"])
    assert {"interrupted_at", "waits_until", "last_error"}.isdisjoint(failed)


def test_whoever_goes_on_knows_how_the_last_try_ended() -> None:
    """A step that is put back keeps its error; one that is tried again, or unblocked, does not."""
    assert TRIED["error"] == lifecycle.put_back(TRIED)["error"]
    assert {"completed_at", "waits_until"}.isdisjoint(lifecycle.put_back(TRIED))
    kept = {"started_at": "09:00", "outputs": ["a.txt"], ONCE_MORE: True}
    assert {**OWN, **kept, "status": "pending", "why": "attempt 2 failed"} == lifecycle.retry(TRIED)


def test_once_more_is_as_if_it_had_never_been_tried() -> None:
    """But for how often that was."""
    assert {**OWN, "status": "pending", ONCE_MORE: True, "why": "asked"} == lifecycle.redo(TRIED, "asked")


def _writes(path: Path) -> list[str]:
    """Calls that put or delete a record of a step in a change set; a draft is a document's, not a run's."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if node.func.attr not in ("put", "delete", "put_stored"):
            continue
        first, receiver = node.args[0], ast.unparse(node.func.value)
        named = isinstance(first, ast.Constant) and first.value == "step"
        if named and receiver != "draft":
            found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)[:60]}")
    return found


def test_only_the_lifecycle_writes_steps() -> None:
    """No other module puts or deletes a step's record by itself."""
    modules = [path for path in sorted(SOURCE.rglob("*.py")) if '"step"' in path.read_text()]
    found = [line for path in modules for line in _writes(path)]
    may = ("engine/step_lifecycle.py:", "protocols/document_draft.py:")  # a draft is no run
    assert [] == [line for line in found if not line.startswith(may)]
    assert found  # where there is nothing to be found, it is looked for in the wrong way
