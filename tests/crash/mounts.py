"""File systems made for a test and gone after it: a small tmpfs, an ext4 in a file. Needs root."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def command(*words: str) -> None:
    """Run it; a failure carries what it said."""
    if shutil.which(words[0]) is None:
        raise AssertionError(f"{words[0]} is not installed; these tests cannot be made without it")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} failed: {done.stderr.strip()}")


def unmount(point: Path) -> None:
    """Unmount, with a little patience for whoever still looks at it; a loop device frees itself then."""
    for attempt in range(50):
        if subprocess.run(["umount", str(point)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.02 * (attempt + 1) / 10)
    command("umount", "--lazy", str(point))


@contextmanager
def mounted(point: Path, *words: str) -> Iterator[Path]:
    """Mount on a new folder, and unmount whatever happens."""
    point.mkdir()
    command("mount", *words, str(point))
    try:
        yield point
    finally:
        unmount(point)


@contextmanager
def tmpfs(point: Path, size: str) -> Iterator[Path]:
    """A file system in memory that is full soon."""
    with mounted(point, "-t", "tmpfs", "-o", f"size={size}", "tmpfs") as folder:
        yield folder


def make_image(image: Path, size: int) -> None:
    """An empty ext4 in a file."""
    with image.open("wb") as file:
        file.truncate(size)
    command("mkfs.ext4", "-q", "-F", str(image))


@contextmanager
def ext4(image: Path, point: Path) -> Iterator[Path]:
    """The ext4 in a file; by itself it would commit only once a minute, so only a sync makes data last."""
    with mounted(point, "-t", "ext4", "-o", "loop,commit=60", str(image)) as folder:
        yield folder
