"""Versions: what a row of a run's history says of itself."""

from __future__ import annotations

import pytest

from leftoff.model.changes import NO_COUNTS, Version, counts_of, pack_counts
from leftoff.model.words import COLLECTIONS, FINISHED, RUN_STATUS, STEP_STATUS, TRIGGERS, UNFINISHED


def test_checkpoint_as_json() -> None:
    """A checkpoint has the keys that the command line promises, its id short and its digest tagged."""
    version = Version(
        "r-1",
        7,
        bytes(31) + b"\x07",
        1_769_850_300_123,
        checkpoint="a3f9b2" + "0" * 58,
        trigger="manual",
        step="a/b",
        note="n",
        aliases=("CP-1",),
    )
    assert {
        "checkpoint_id": "a3f9b2000000",
        "aliases": ["CP-1"],
        "run_id": "r-1",
        "seq": 7,
        "trigger": "manual",
        "step": "a/b",
        "created_at": "2026-01-31T09:05:00.123Z",
        "note": "n",
        "digest": "sha256:" + "00" * 31 + "07",
        "can_resume": True,
    } == version.to_json()
    assert "<checkpoint a3f9b2000000 (manual) of r-1@7>" == repr(version)


def test_a_plain_version_has_no_id() -> None:
    """Only what is sealed has an id."""
    version = Version("r-1", 7, bytes(32), 0)
    assert version.id is None and version.to_json()["checkpoint_id"] is None
    assert "<version 7 of r-1>" == repr(version)


def test_counters_are_packed_in_the_order_of_the_words() -> None:
    """Leaf steps by status, as every version carries them."""
    counts = {word: number for number, word in enumerate(STEP_STATUS)}
    assert "[0,1,2,3,4,5,6]" == pack_counts(counts)
    assert counts == counts_of(pack_counts(counts))
    assert dict.fromkeys(STEP_STATUS, 0) == counts_of(NO_COUNTS)
    assert NO_COUNTS == pack_counts({})


@pytest.mark.parametrize("words", [COLLECTIONS, TRIGGERS, RUN_STATUS, STEP_STATUS])
def test_words_are_plain(words: tuple[str, ...]) -> None:
    """Stored words are lower-case, each there once."""
    assert sorted(set(words)) == sorted(words)
    assert all(word.isascii() and word.islower() and word.replace("_", "").isalpha() for word in words)


def test_a_run_is_finished_or_not() -> None:
    """Every run status is one or the other."""
    assert set(RUN_STATUS) == {*UNFINISHED, *FINISHED}
    assert not set(UNFINISHED) & set(FINISHED)
