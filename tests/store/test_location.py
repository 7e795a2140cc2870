"""Errors of places that belong to others."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leftoff.files import failure


@pytest.mark.parametrize(("place", "advised"), [("/.leftoff", False), ("{}/.leftoff/blobs/ab", True)])
def test_what_is_not_ours_to_read(
    tmp_path: Path, place: str, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose it is, is said; nobody is told to have a folder of the system given to them."""
    (tmp_path / ".leftoff/blobs").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    error = failure(PermissionError(errno.EACCES, "Permission denied", place.format(tmp_path)), "store")
    assert "belongs to" in error.hint and advised == ("chown" in error.hint)
