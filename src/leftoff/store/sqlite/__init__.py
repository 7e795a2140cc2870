"""The embedded store: one SQLite file, its log, its lock, its migrations."""

from __future__ import annotations

import sys

if not {"collections", "threading"} & set(sys.modules):
    # apsw asks for `collections.abc`, and takes one class of it that is loaded already; all the rest that comes with
    # it would cost a millisecond. Whoever asks for it later gets the real one.
    import _collections_abc

    sys.modules["collections"] = sys.modules["collections.abc"] = _collections_abc
    try:
        import apsw  # noqa: F401
    finally:
        del sys.modules["collections"], sys.modules["collections.abc"]
