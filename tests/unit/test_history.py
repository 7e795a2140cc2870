"""A run's checkpoints as a graph."""

from __future__ import annotations

from leftoff.engine.history import nearest_seq, went_back_to
from leftoff.model.changes import Version


def test_a_rollback_says_where_it_went() -> None:
    """By the id in its note or by a version's number; a note that says something else names no version."""
    ids: dict[str | None, int] = {"0" * 12: 2}
    for note, seq in (
        ("back to version 3 (said)", 3),
        (f"back to {'0' * 12}", 2),
        (None, None),
        ("back to", None),
        ("back to ffffffffffff", None),
        ("back to version x", None),
        ("back to version 99", None),
        ("again from a", None),
    ):
        version = Version("run", 9, b"\0" * 32, 0, trigger="rollback", note=note)
        assert seq == went_back_to(version, ids)


def test_nearest() -> None:
    """The newest that is not newer."""
    assert [None, 2, 2, 5] == [nearest_seq([2, 5], seq) for seq in (1, 2, 4, 9)]
