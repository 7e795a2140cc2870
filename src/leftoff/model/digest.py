"""The digest of a state: a sum, so that a commit costs what it changes.

``sum of sha256(collection NUL key NUL sha256(stored bytes)) modulo 2**256`` over the live records. Adding and
taking away are both one addition, history leaves no trace in it, and it can be checked at every kept version
after any pruning. It finds corruption; it is no signature.
"""

from __future__ import annotations

from leftoff.model.codec import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class Keyed(Protocol):
        """A record, as far as the digest is concerned."""

        @property
        def key(self) -> str: ...

        @property
        def hash(self) -> bytes: ...


MASK = (1 << 256) - 1
EMPTY = 0


def term(collection: str, key: str, value_hash: bytes) -> int:
    """What one live record adds to the digest."""
    return int.from_bytes(sha256(f"{collection}\0{key}\0".encode() + value_hash).digest(), "big")


def sum_of(collection: str, records: Iterable[Keyed]) -> int:
    """What many live records of one collection add to the digest; the same as ``term`` of each, in one loop."""
    total, prefix, integer, hashed = 0, f"{collection}\0".encode(), int.from_bytes, sha256
    for record in records:
        total += integer(hashed(prefix + record.key.encode() + b"\0" + record.hash).digest(), "big")
    return total


def to_bytes(digest: int) -> bytes:
    return digest.to_bytes(32, "big")


def tagged(digest: bytes) -> str:
    """As shown and stored in text: ``sha256:…``."""
    return "sha256:" + digest.hex()


def checkpoint_id(run_id: str, seq: int, digest: bytes) -> str:
    """64 hex characters; people use any unique prefix of at least four."""
    return sha256(f"{run_id}:{seq}:{digest.hex()}".encode()).hexdigest()
