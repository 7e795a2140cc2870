"""sha256, and the digest of a state: a sum, so that a commit costs what it changes.

``sum of sha256(collection NUL key NUL sha256(stored bytes)) modulo 2**256`` over the live records. Adding and
removing a record are both one addition, history leaves no trace in it, and it can be checked at every kept version
after any pruning. It detects corruption; it is not a signature.

OpenSSL's sha256 is several times as fast on long input, but loading OpenSSL takes two milliseconds. So it is used where
it is loaded already (the Python API loads it); a command that hashes a few records uses the interpreter's own. Code
that has much to hash calls ``long_sha256``, which is always OpenSSL's.
"""

from __future__ import annotations

import sys
from _operator import itemgetter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _hashlib import HASH  # slow to load

Row = tuple[str, bytes, bytes]  # key, hash, stored bytes

MASK = (1 << 256) - 1
_PAYS = 4000  # records of a few hundred bytes: from here on, loading OpenSSL pays
_HASH, _STORED = itemgetter(1), itemgetter(2)


def _openssl() -> Callable[..., HASH]:
    try:
        from _hashlib import openssl_sha256
    except ImportError:  # a Python built without OpenSSL
        from hashlib import sha256

        return sha256
    return openssl_sha256


def _own() -> Callable[..., HASH]:
    """Return the interpreter's own sha256, if it was built with one."""
    try:
        own: Any = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        return _openssl()
    found: Callable[..., HASH] = own.sha256
    return found


_OWN = _own()
sha256: Callable[..., HASH] = _openssl() if "_hashlib" in sys.modules else _OWN


def long_sha256(data: bytes = b"") -> HASH:
    """Hash files and whole stores."""
    return _openssl()(data)


def term(collection: str, key: str, value_hash: bytes) -> int:
    """Return what one live record adds to the digest."""
    return int.from_bytes(sha256(f"{collection}\0{key}\0".encode() + value_hash).digest(), "big")


def sum_of(collection: str, rows: Collection[Row]) -> int:
    """Return what many live records of one collection add to the digest: the sum of ``term`` of each."""
    hashed = _openssl() if len(rows) > _PAYS else sha256
    if sys.version_info < (3, 12):  # there the interpreter's own starts faster on short texts
        hashed = _OWN
    prefix = f"{collection}\0".encode()
    terms = [hashed(prefix + key.encode() + b"\0" + hash).digest() for key, hash, _ in rows]
    return sum(map(int.from_bytes, terms))


def sound(rows: Collection[Row]) -> bool:
    """Return whether all stored bytes match their hashes."""
    hashed = _openssl() if len(rows) > _PAYS else sha256
    try:
        return [found.digest() for found in map(hashed, map(_STORED, rows))] == list(map(_HASH, rows))
    except TypeError:  # not even bytes
        return False


def to_bytes(digest: int) -> bytes:
    return digest.to_bytes(32, "big")


def tagged(digest: bytes) -> str:
    """Return a digest as it is shown, and stored in text: ``sha256:…``."""
    return "sha256:" + digest.hex()


def checkpoint_id(run_id: str, seq: int, digest: bytes) -> str:
    """Return 64 hex characters, of which people use any unique prefix of at least four. One of the first four is a
    letter, so that a prefix is never a number."""
    made = sha256(f"{run_id}:{seq}:{digest.hex()}".encode()).hexdigest()
    while made[:4].isdigit():
        made = sha256(made.encode()).hexdigest()
    return made


def is_checkpoint_id(text: str | None, run_id: str, seq: int, digest: bytes) -> bool:
    """Return whether an id follows from a version."""
    return text == checkpoint_id(run_id, seq, digest)
