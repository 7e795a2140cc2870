"""LazySteps that are seen to be settled without being decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from leftoff.engine.run_checks import LazySteps
from leftoff.model.codec import payload, store

if TYPE_CHECKING:
    from leftoff.model.codec import Row

NOW = "2026-11-15T12:00:00.000Z"
EARLY, LATE, NEVER = "2026-11-15T11:00:00.000Z", "2026-11-15T11:30:00.000Z", "2027-01-01T00:00:00.000Z"
DONE = {"attempt": 1, "completed_at": LATE, "order": 0, "started_at": EARLY, "status": "completed"}

times = st.sampled_from([EARLY, LATE, NEVER, "2026", "", None])
texts = st.sampled_from(
    ["a", "out/a.txt", 'x","status":"completed"', '"outputs":["y"]', "]", "\\", "{", "ü", "\n"]
)
nested = st.dictionaries(
    texts | st.sampled_from(["outputs", "status", "started_at"]), texts | st.lists(texts), max_size=2
)
records = st.fixed_dictionaries(
    {"status": st.sampled_from(["completed", "completed", "running", "failed", "skipped"])},
    optional={
        "attempt": st.integers(0, 3),
        "batch": st.integers(0, 3),
        "by": nested,
        "completed_at": times,
        "error": nested,
        "kind": texts,
        "note": texts,
        "order": st.integers(0, 5),
        "outputs": st.lists(texts, max_size=2),
        "result": texts | nested | st.integers() | st.none(),
        "started_at": times,
        "title": texts,
    },
)


def steps_of(found: dict[str, dict[str, Any]]) -> LazySteps:
    def decode(rows: Sequence[Row]) -> dict[str, Any]:
        return {key: payload(stored, key) for key, _, stored in rows}

    rows = [(key, b"", store(record)) for key, record in found.items()]
    return LazySteps(rows, decode, NOW)


@given(st.dictionaries(st.sampled_from(["a", "b", "a/b"]), records))
def test_settled_is_what_decoding_says(found: dict[str, dict[str, Any]]) -> None:
    """Whatever a record has in it, the bytes of a step that counts as settled say what the step says."""
    steps = steps_of(found)
    assert found == dict(steps)
    for path, record in found.items():
        assert record["status"] == steps.status(path)
        if path not in steps.open:
            assert "completed" == record["status"]
            assert record["started_at"] <= record["completed_at"] <= NOW
            assert 1 >= len(record.get("outputs", ()))
    settled = {path: record for path, record in found.items() if path not in steps.open}
    wrote = [output for record in settled.values() for output in record.get("outputs", ())]
    assert sorted(wrote) == sorted(steps.wrote)


def test_what_leftoff_records_is_settled() -> None:
    """A step that ended well is not decoded: with and without an output, with a plain result, with a title."""
    found = {
        "a": DONE,
        "b": {**DONE, "outputs": ["b.txt"], "kind": "run", "batch": 1},
        "c": {**DONE, "result": "fine", "title": "The {third}"},
    }
    steps = steps_of(found)
    assert {} == steps.open
    assert ["b.txt"] == steps.wrote
