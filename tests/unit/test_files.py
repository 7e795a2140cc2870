"""Files of our own are whole, whoever writes them at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leftoff.files import write_private


def test_two_who_write_the_same_file(tmp_path: Path) -> None:
    """Each writes aside, under a name of its own: threads of one process, too."""
    path = tmp_path / "there" / "file"

    def content() -> Iterator[bytes]:
        yield b"of the "
        write_private(str(path), [b"of the second"])
        assert b"of the second" == path.read_bytes()
        yield b"first"

    write_private(str(path), content())
    assert b"of the first" == path.read_bytes()
    assert [path] == list(path.parent.iterdir())
    assert 0o600 == path.stat().st_mode & 0o777
