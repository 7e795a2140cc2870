"""Results of more than a megabyte come back as any others, from memory and from the store."""

from __future__ import annotations

import math
from typing import Any

import pytest

import leftoff

ROWS = [{"name": f"user {n}", "id": n, "score": n / 7, "tags": ["a", {"b": None}]} for n in range(20_000)]
KINDS: dict[str, Any] = {
    "bytes": bytes(range(256)) * 8000,
    "bytearray": bytearray(b"x" * 1_500_000),
    "rows": ROWS,
    "text": 'line "one"\n\\ é 東京 \x00' * 80_000,
    "typed": {"rows": ROWS, "data": b"\xff" * 1_000_000, "set": set(range(1000)), 7: (1, 2)},
    "infinite": [*range(20_000), math.inf],
    "keys": {"$type": "bytes", "value": ["x" * 70_000]},
    "nested bytes": [{"data": b"a\xfe" * 100_000, "n": n} for n in range(6)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_result_comes_back(store: leftoff.Store, kind: str) -> None:
    """The first time, again, after a change of the copy, among the steps, and in a later process."""
    value = KINDS[kind]
    with pytest.raises(KeyboardInterrupt), store.run("w", run_id="r") as run:
        for _ in range(3):
            found = run.do("make", lambda: value)
            assert value == found and type(value) is type(found)
            assert found is not value or isinstance(value, (bytes, str))
            if isinstance(found, (list, bytearray)):
                found.clear()
        assert "completed" == run.steps["make"]["status"]
        assert [*run.steps["make"]] == [*dict(run.steps["make"])]
        assert (
            value == run.do("again", lambda: value, again=True) == run.do("again", lambda: value, again=True)
        )
        run.pause()
        raise KeyboardInterrupt
    with store.run("w", run_id="r") as run:
        assert value == run.do("make", lambda: pytest.fail("it is done"))
    assert store.fsck().ok


def test_outputs_of_a_step_with_a_large_result(store: leftoff.Store, tmp_path: Any) -> None:
    """What is added to its record later keeps the result."""
    with store.run("w") as run:
        run.do("make", lambda: ROWS)
        path = store.project + "/late.txt"
        with open(path, "w") as file:
            file.write("x")
        run.artifact(path, step="make")
        run.commit()
        assert ROWS == run.result("make") and ["late.txt"] == run.steps["make"]["outputs"]


def test_secrets_in_a_large_result(store: leftoff.Store) -> None:
    """One among thousands of rows is not stored; in a long text only the secret is masked."""
    key = "sk-ant-api03-" + "aB3" * 20
    rows: list[dict[str, Any]] = [*ROWS, {"note": key}, {"db": {"password": "hunter2"}}]
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        assert rows == run.do("rows", lambda: rows)
        report = run.do("report", lambda: "A line of the report.\n" * 60_000 + key)
        assert report.endswith("report.\n[redacted]")
        raise KeyboardInterrupt
    with store.run("w") as run:
        found: list[Any] = run.do("rows", lambda: pytest.fail("it is done"))
        assert ROWS[-1] == found[len(ROWS) - 1]
        for read in (lambda: found[-2]["note"], lambda: found[-1]["db"]["password"]):
            with pytest.raises(leftoff.Redacted):
                read()
