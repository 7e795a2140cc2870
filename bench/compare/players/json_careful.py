"""A JSON file written with care: a temporary file, `fsync`, `rename`, and `fsync` of the folder."""

from __future__ import annotations

import os
from pathlib import Path

from bench.compare.players import json_file
from bench.compare.players.json_file import drive, found, grow, read, versions

__all__ = ["drive", "found", "grow", "read", "versions"]


def write(path: Path, text: str) -> None:
    """Replace the file in one step that survives a power cut."""
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


json_file.write = write
