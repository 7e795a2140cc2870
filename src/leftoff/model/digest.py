"""The digest of a state: a sum, so that a commit costs what it changes.

``sum of sha256(collection NUL key NUL sha256(stored bytes)) modulo 2**256`` over the live records. Adding and
taking away are both one addition, history leaves no trace in it, and it can be checked at every kept version
after any pruning. It finds corruption; it is no signature.
"""

from __future__ import annotations

from _operator import itemgetter

from leftoff.model.codec import sha256
from leftoff.model.hashing import for_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    Row = tuple[str, bytes, bytes]  # key, hash, stored bytes

MASK = (1 << 256) - 1
_HASH, _STORED = itemgetter(1), itemgetter(2)


def term(collection: str, key: str, value_hash: bytes) -> int:
    """What one live record adds to the digest."""
    return int.from_bytes(sha256(f"{collection}\0{key}\0".encode() + value_hash).digest(), "big")


def sum_of(collection: str, rows: Collection[Row]) -> int:
    """What many live records of one collection add to the digest; the same as ``term`` of each, in one go."""
    prefix, hashed = f"{collection}\0".encode(), for_many(len(rows), short=True)
    terms = [hashed(prefix + key.encode() + b"\0" + hash).digest() for key, hash, _ in rows]
    return sum(map(int.from_bytes, terms))


def sound(rows: Collection[Row]) -> bool:
    """Whether all stored bytes have their hashes; which one does not, is for whoever cares to find out."""
    hashed = for_many(len(rows))
    try:
        return [found.digest() for found in map(hashed, map(_STORED, rows))] == list(map(_HASH, rows))
    except TypeError:  # not even bytes
        return False


def to_bytes(digest: int) -> bytes:
    return digest.to_bytes(32, "big")


def tagged(digest: bytes) -> str:
    """As shown and stored in text: ``sha256:…``."""
    return "sha256:" + digest.hex()


def checkpoint_id(run_id: str, seq: int, digest: bytes) -> str:
    """64 hex characters, of which people use any unique prefix of at least four: there is a letter in it, so that it is
    no number."""
    made = sha256(f"{run_id}:{seq}:{digest.hex()}".encode()).hexdigest()
    while made[:4].isdigit():
        made = sha256(made.encode()).hexdigest()
    return made


def is_checkpoint_id(text: str | None, run_id: str, seq: int, digest: bytes) -> bool:
    """Return whether an id follows from a version."""
    return text == checkpoint_id(run_id, seq, digest)
