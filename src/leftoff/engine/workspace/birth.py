"""When a file was made. Python does not tell on Linux, the kernel does: by `statx`."""

from __future__ import annotations

import os
import sys

_AT_FDCWD, _NOFOLLOW, _BTIME = -100, 0x100, 0x800
_SIZE, _MASK_AT, _BTIME_AT = 256, 0, 80  # of the kernel's struct statx


def born(path: str) -> int:
    """Milliseconds since 1970; where the file system does not know, when it was last written to. 0: not there."""
    try:
        st = os.lstat(path)
    except OSError:
        return 0
    made = getattr(st, "st_birthtime", None)  # macOS and the BSDs
    if made is None and sys.platform == "linux":
        made = _statx(os.fsencode(path))
    return int(made * 1000) if made is not None else st.st_mtime_ns // 1_000_000


def _statx(path: bytes) -> float | None:
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).statx
    except AttributeError:  # a C library from before 2018
        return None
    out = ctypes.create_string_buffer(_SIZE)
    if call(_AT_FDCWD, path, _NOFOLLOW, _BTIME, out) != 0:
        return None
    if not int.from_bytes(out.raw[_MASK_AT : _MASK_AT + 4], sys.byteorder) & _BTIME:
        return None
    seconds = int.from_bytes(out.raw[_BTIME_AT : _BTIME_AT + 8], sys.byteorder, signed=True)
    return seconds + int.from_bytes(out.raw[_BTIME_AT + 8 : _BTIME_AT + 12], sys.byteorder) / 1e9
