"""sha256, from where it costs least.

OpenSSL's is several times as fast on long input, but loading OpenSSL takes two milliseconds, a tenth of all that a
command takes. So it is used where it is loaded already, which the Python API sees to; a command that hashes a few
records takes the interpreter's own. Whoever has much to hash takes ``long_sha256``, which is always OpenSSL's.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _hashlib import HASH
    from collections.abc import Callable

_PAYS = 4000  # records of a few hundred bytes


def _openssl() -> Callable[..., HASH]:
    try:
        from _hashlib import openssl_sha256
    except ImportError:  # a Python built without OpenSSL
        from hashlib import sha256

        return sha256
    return openssl_sha256


def _own() -> Callable[..., HASH]:
    """The interpreter's own, if it was built with one."""
    try:
        own = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        return _openssl()
    found: Callable[..., HASH] = own.sha256
    return found


def long_sha256(data: bytes = b"") -> HASH:
    """For files, and for whole stores."""
    return _openssl()(data)


def for_many(count: int, *, short: bool = False) -> Callable[..., HASH]:
    """For so many records, or texts of a few ``short`` words: the quicker one, where loading it pays."""
    if short and sys.version_info < (3, 12):  # until then the interpreter's own began at once
        return _OWN
    return _openssl() if count > _PAYS else sha256


_OWN = _own()
sha256: Callable[..., HASH] = _openssl() if "_hashlib" in sys.modules else _OWN
