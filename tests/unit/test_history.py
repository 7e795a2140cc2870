"""A run's checkpoints as a graph."""

from __future__ import annotations

from leftoff.engine.history import nearest_seq, parents
from leftoff.model.versions import Version


def sealed(seq: int, trigger: str = "manual", note: str | None = None) -> Version:
    return Version("run", seq, b"\0" * 32, 0, checkpoint=f"{seq:064x}", trigger=trigger, note=note)


def test_each_follows_the_one_before() -> None:
    """Without rollbacks the graph is a line; versions that are not sealed are left out."""
    assert {9: 5, 5: 2, 2: None} == parents([sealed(9), sealed(5), sealed(2)])


def test_a_rollback_follows_what_it_equals() -> None:
    """By the id in its note, by a version's number, or by the nearest checkpoint where that one is gone."""
    id_of_2 = f"{2:064x}"[:12]
    log = [
        sealed(9, "rollback", "back to version 3 (said)"),
        sealed(7, "rollback", f"back to {id_of_2}"),
        sealed(5),
        sealed(2),
    ]
    assert {9: 2, 7: 2, 5: 2, 2: None} == parents(log)


def test_a_note_that_says_something_else() -> None:
    """A rollback whose note does not name an older version follows the one before it."""
    for note in (
        None,
        "",
        "back to",
        "back to ffffffffffff",
        "back to version x",
        "back to version 99",
        "again from a",
    ):
        assert {4: 3, 3: None} == parents([sealed(4, "rollback", note), sealed(3)])


def test_nearest() -> None:
    """The newest that is not newer."""
    assert [None, 2, 2, 5] == [nearest_seq([2, 5], seq) for seq in (1, 2, 4, 9)]
