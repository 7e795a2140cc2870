"""The digest of a state: a sum that forgets history, and the ids that follow from it."""

from __future__ import annotations

import hashlib
import random
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from leftoff.model.codec import MASK, checkpoint_id, sha256, tagged, term, to_bytes

RECORDS = [
    ("run", "status", b'J"running"'),
    ("variable", "title", 'J"Caf\u00e9"'.encode()),
    ("variable", "messages", b"L"),
    ("item", "messages/0000000000", b'J{"a":1}'),
    ("step", "convert/a%2Fb.pdf", b'J{"order":0,"status":"completed"}'),
]
GOLDEN_DIGEST = "f0f5de1d126fa5dbfe348f3a2edabf874ec9caf91c38897540f7740531ef87d2"
GOLDEN_ID = "82a6a9b0874bc07b016e290ef75344f572157312a6e0337d398a480af60bd434"


def digest_of(records: list[tuple[str, str, bytes]]) -> int:
    return reduce(lambda total, r: (total + term(r[0], r[1], sha256(r[2]).digest())) & MASK, records, 0)


def test_golden_vector() -> None:
    """These records have this digest, and the checkpoint this id, for ever."""
    digest = to_bytes(digest_of(RECORDS))
    assert GOLDEN_DIGEST == digest.hex()
    assert GOLDEN_ID == checkpoint_id("convert-20260131-090500", 7, digest)


def test_recipe() -> None:
    """The recipe in docs/internals/format.md, written out with nothing of ours, gives the same."""
    total = 0
    for collection, key, stored in RECORDS:
        inner = hashlib.sha256(stored).digest()
        outer = hashlib.sha256(collection.encode() + b"\0" + key.encode() + b"\0" + inner).digest()
        total = (total + int.from_bytes(outer, "big")) % 2**256
    assert total == digest_of(RECORDS)
    digest = total.to_bytes(32, "big")
    for seq in range(100):
        expected = hashlib.sha256(f"run-1:{seq}:{digest.hex()}".encode()).hexdigest()
        while expected[:4].isdigit():
            expected = hashlib.sha256(expected.encode()).hexdigest()
        assert expected == checkpoint_id("run-1", seq, digest)
        assert expected != checkpoint_id("run-2", seq, digest)


def test_an_id_is_no_number() -> None:
    """The first four digits of an id have a letter among them, so that no version's number is meant by them."""
    assert not [seq for seq in range(300) if checkpoint_id("r", seq, b"\0" * 32)[:4].isdigit()]


@given(st.randoms())
def test_order_does_not_matter(order: random.Random) -> None:
    """Equal states have equal digests, in whatever order they came about."""
    shuffled = list(RECORDS)
    order.shuffle(shuffled)
    assert digest_of(RECORDS) == digest_of(shuffled)


def test_taking_away_leaves_no_trace() -> None:
    """A record that was added and taken away again is as if it had never been there."""
    extra = term("variable", "gone", sha256(b"J1").digest())
    before = digest_of(RECORDS)
    assert before == ((before + extra) & MASK) - extra & MASK


def test_every_part_counts() -> None:
    """Collection, key and bytes each make another digest; none runs over into the next."""
    hash = sha256(b"J1").digest()
    terms = {
        term("variable", "ab", hash),
        term("variable", "a", hash),
        term("note", "ab", hash),
        term("variable", "ab", sha256(b"J2").digest()),
        term("variablea", "b", hash),
    }
    assert 5 == len(terms)


def test_tagged() -> None:
    """Wherever it is shown, a digest says its algorithm."""
    assert "sha256:" + "00" * 31 + "07" == tagged(to_bytes(7))


@given(st.integers(0, MASK))
def test_bytes_are_always_32(digest: int) -> None:
    """Stored, a digest is 32 bytes, the greatest first."""
    assert digest == int.from_bytes(to_bytes(digest), "big")
    assert 32 == len(to_bytes(digest))
