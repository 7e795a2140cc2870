"""A run's checkpoints as a graph."""

from __future__ import annotations

from leftoff.engine.history import nearest_seq


def test_nearest() -> None:
    """The newest that is not newer."""
    assert [None, 2, 2, 5] == [nearest_seq([2, 5], seq) for seq in (1, 2, 4, 9)]
