"""Results of more than a megabyte come back as any others, from memory and from the store."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leftoff

ROWS = [{"name": f"user {n}", "id": n, "score": n / 7, "tags": ["a", {"b": None}]} for n in range(20_000)]
TABLE = [{"name": f"user {n}", "id": n, "score": n / 7} for n in range(30_000)]


class Color(enum.StrEnum):
    RED = "name"


KINDS: dict[str, Any] = {
    "bytes": bytes(range(256)) * 8000,
    "bytearray": bytearray(b"x" * 1_500_000),
    "rows": ROWS,
    "text": 'line "one"\n\\ é 東京 \x00' * 80_000,
    "typed": {"rows": ROWS, "data": b"\xff" * 1_000_000, "set": set(range(1000)), 7: (1, 2)},
    "infinite": [*range(20_000), math.inf],
    "table": TABLE,
    "one row is not a number": [*TABLE, {"name": "x", "id": 0, "score": math.inf}],
    "one row has a tuple": [*TABLE, {"name": "x", "id": 0, "score": (1, 2)}],
    "one row has more keys": [*TABLE, {"id": 0}, {1: 2}],
    "one row has another key": [*TABLE, {Color.RED: "x", "id": 0, "score": 0.5}],
    "many keys": {f"key {n}": [n, {"n": n}] for n in range(60_000)},
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


FRAMES: dict[str, Any] = {
    "numbers": pd.DataFrame({"n": np.arange(200_000), "x": np.arange(200_000) / 7}),
    "text": pd.DataFrame({"s": [f"user {n}" for n in range(100_000)], "t": pd.Series(["é", None] * 50_000)}),
    "objects": pd.DataFrame({"o": pd.Series([(1, 2), math.nan, "x", None] * 30_000, dtype=object)}),
    "times": pd.DataFrame({"t": pd.date_range("2026", periods=200_000, freq="s", tz="UTC")}),
    "lists": pd.DataFrame({"o": [[n, {"n": n}] for n in range(60_000)]}),
    "sliced": pd.DataFrame(np.arange(900_000).reshape(-1, 9), columns=list("abcdefghi")).iloc[::2, 1:3],
    "categories": pd.DataFrame(
        {"c": pd.Categorical(["a", "b", None] * 200_000)}, index=range(0, 1_200_000, 2)
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_large_table_comes_back(store: leftoff.Store, kind: str) -> None:
    """The first time, again after a change of the copy, and in a later process. Its index keeps its class."""
    frame = FRAMES[kind].copy()
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        found = run.do("make", lambda: frame)
        pd.testing.assert_frame_equal(FRAMES[kind], found)
        found.iloc[0, 0] = found.iloc[1, 0]
        pd.testing.assert_frame_equal(FRAMES[kind], frame)
        frame.iloc[1, 0] = frame.iloc[2, 0]
        pd.testing.assert_frame_equal(FRAMES[kind], run.do("make", lambda: pytest.fail("it is done")))
        raise KeyboardInterrupt
    with store.run("w") as run:
        again: Any = run.do("make", lambda: pytest.fail("it is done"))
        pd.testing.assert_frame_equal(FRAMES[kind], again)
        assert type(FRAMES[kind].index) is type(again.index)


def test_the_first_reader_of_a_table_gets_what_the_others_get(store: leftoff.Store) -> None:
    """In a wide table with lists in one column, nobody else can change the entries of the copy."""
    entries: list[Any] = [[1]]

    def make() -> pd.DataFrame:
        frame = pd.DataFrame(np.zeros((1, 1100)), columns=[f"{n:01200}" for n in range(1100)])
        return frame.assign(o=[entries])

    with store.run("w") as run:
        found: Any = run.do("make", make)
        entries.append([2])
        again: Any = run.do("make", lambda: pytest.fail("it is done"))
        assert [[1]] == found["o"].iloc[0] == again["o"].iloc[0]


def test_the_function_keeps_its_own_object(store: leftoff.Store) -> None:
    """What it changes afterwards does not change what the step returned, and the other way round."""
    own = [dict(row) for row in TABLE]
    array: Any = np.arange(300_000)
    with store.run("w") as run:
        rows: Any = run.do("rows", lambda: own)
        numbers: Any = run.do("numbers", lambda: array)
        own[0]["name"], array[0] = "changed", 7
        rows[1]["name"], numbers[1] = "changed", 7
        assert (TABLE[0], TABLE[1]) == (rows[0], own[1]) and (0, 1) == (numbers[0], array[1])
        assert TABLE == run.result("rows") and 1 == run.result("numbers")[1]


def test_a_large_result_and_a_full_disk(store: leftoff.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the disk, and the result is recorded when there is room again."""
    full = OSError(28, "No space left on device")

    def write(*_: Any) -> int:
        raise full

    with store.run("w") as run:
        with monkeypatch.context() as patched:
            patched.setattr("leftoff.store.blobs._write_all", write)
            with pytest.raises(leftoff.StoreUnavailable):
                run.do("make", lambda: TABLE)
        run.commit()
        assert TABLE == run.do("make", lambda: pytest.fail("it is done"))


def test_what_cannot_be_recorded_in_a_large_result(store: leftoff.Store) -> None:
    with store.run("w") as run:
        for bad in (object(), "\ud800"):
            with pytest.raises(leftoff.Invalid, match=r"result\[30000\]\.id"):
                run.do("make", lambda bad=bad: [*TABLE, {"name": "x", "id": bad, "score": 0.5}])


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


@pytest.mark.parametrize("numbers", [[1e308, 1e308], [math.inf]])
def test_a_name_of_a_secret_next_to_large_numbers(store: leftoff.Store, numbers: list[float]) -> None:
    """The value under it is not stored, in small and in large results, and neither is that of an argument."""
    secret = "hunter2hunter2A"
    with store.run("w") as run:
        for name, filler in (("small", "x " * 50_000), ("large", ["x " * 50_000] * 20)):
            about = {"numbers": numbers, "db": {"password": secret}, "filler": filler}

            def make(db: dict[str, str], about: dict[str, Any] = about) -> dict[str, Any]:
                return about

            run.do(name, make, {"password": secret})
        assert secret.encode() not in stored_bytes(store)


@pytest.mark.parametrize("rows", [3, 20_000])
def test_a_column_with_the_name_of_a_secret(store: leftoff.Store, rows: int) -> None:
    """Its text is not stored, of a table, a series and an index. Numbers and ordinary words are."""
    texts = [f"Tr0ub4dor-{n}" for n in range(rows)]
    kept = pd.DataFrame({"token": ["the", "cat", "sat"] * rows, "secret": 1.5, "password": 7})
    secrets: dict[str, Any] = {
        "table": pd.DataFrame({"id": range(rows), "password": texts}),
        "series": pd.Series(texts, name="password"),
        "index": pd.DataFrame({"id": range(rows)}, index=pd.Index(texts, name="password")),
    }
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        for name, value in secrets.items():
            run.do(name, lambda value=value: value)
        run.do("kept", lambda: kept)
        raise KeyboardInterrupt
    with store.run("w") as run:
        assert b"Tr0ub4dor" not in stored_bytes(store)
        for name in secrets:
            with pytest.raises(leftoff.Redacted):
                run.result(name)
        pd.testing.assert_frame_equal(kept, run.result("kept"))


def test_secrets_in_a_large_result(store: leftoff.Store) -> None:
    """One among thousands of rows is not stored; in a long text only the secret is masked."""
    key = "sk-ant-api03-" + "aB3" * 20
    rows: list[dict[str, Any]] = [*ROWS, {"note": key}, {"db": {"password": "hunter2"}}]
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        assert rows == run.do("rows", lambda: rows)
        table = [*TABLE, {"name": f"Bearer {key}", "id": 1, "score": 0.5}, *TABLE]
        assert table == run.do("table", lambda: table)
        frame = pd.DataFrame({"s": [*map(str, range(300_000)), key]})
        assert key == run.do("frame", lambda: frame)["s"].iloc[-1]
        report = run.do("report", lambda: "A line of the report.\n" * 60_000 + key)
        assert report.endswith("report.\n[redacted]")
        raise KeyboardInterrupt
    with store.run("w") as run:
        found: list[Any] = run.do("rows", lambda: pytest.fail("it is done"))
        assert ROWS[-1] == found[len(ROWS) - 1]
        assert TABLE[-1] == run.result("table")[-1]
        for read in (lambda: run.result("frame"), lambda: run.result("table")[len(TABLE)]["name"]):
            with pytest.raises(leftoff.Redacted):
                read()
        assert key.encode() not in stored_bytes(store)
        for read in (lambda: found[-2]["note"], lambda: found[-1]["db"]["password"]):
            with pytest.raises(leftoff.Redacted):
                read()


def stored_bytes(store: leftoff.Store) -> bytes:
    """Everything in the store's folder, unpacked."""
    from leftoff.store.blobs import zstd

    out = b""
    for path in Path(store.project, ".leftoff").rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        out += zstd().decompress(data) if data[:4] == b"\x28\xb5\x2f\xfd" else data
    return out
