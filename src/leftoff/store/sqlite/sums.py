"""The two sums that SQLite keeps over pages and over the frames of its log, and what a wrong one says.

Both are linear in the 32-bit words that they go over. So where one byte was changed, the two differences say which word
it was in and by how much: the change can be found, undone, and proved.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    Sums = tuple[int, int]
    Order = Literal["little", "big"]

MASK = 0xFFFFFFFF


def sums(data: bytes, order: Order = "little", start: Sums = (0, 0)) -> Sums:
    a, b = start
    for x, y in struct.iter_unpack("<II" if order == "little" else ">II", data):
        a = (a + x + b) & MASK
        b = (b + y + a) & MASK
    return a, b


def undone(data: bytes, found: Sums, told: Sums, order: Order = "little") -> Iterator[bytes]:
    """Every way to change one byte of ``data`` so that its sums become what was told instead of what was found."""
    wrong = ((told[0] - found[0]) & MASK, (told[1] - found[1]) & MASK)
    # By how much the two sums grow when the last word grows by one; before it, as Fibonacci has it.
    weights = (
        0,
        1,
    )
    for offset in range(len(data) - 4, -4, -4):
        word = _fitting(int.from_bytes(data[offset : offset + 4], order), weights, wrong)
        if word is not None:
            yield data[:offset] + word.to_bytes(4, order) + data[offset + 4 :]
        weights = (weights[1], (weights[0] + weights[1]) & MASK)


def _fitting(word: int, weights: Sums, wrong: Sums) -> int | None:
    """What the word was, if a change of one byte in it explains both sums."""
    which = 0 if weights[0] & 1 else 1  # an odd weight has an inverse; the two are never both even
    grown = wrong[which] * pow(weights[which], -1, 1 << 32) & MASK
    if not grown or grown * weights[1 - which] & MASK != wrong[1 - which]:
        return None
    was = (word + grown) & MASK
    return was if differs_in_a_byte(word.to_bytes(4, "big"), was.to_bytes(4, "big")) else None


def differs_in_a_byte(left: bytes, right: bytes) -> bool:
    return sum(x != y for x, y in zip(left, right, strict=True)) == 1
