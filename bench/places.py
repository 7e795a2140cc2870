"""Facts about where a case writes."""

from __future__ import annotations

import os
from pathlib import Path

RAM = Path("/dev/shm")
DISK = Path("/var/tmp")
IN_MEMORY = {"tmpfs", "ramfs"}


def filesystem(path: Path) -> str:
    """The type of the file system that holds `path`, from the longest mount point above it."""
    target = str(path.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        point, type_ = line.split()[1:3]
        if (target + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, type_
    return kind


def require(disk: Path, ram: Path) -> None:
    """A `disk` that is memory would make every durability figure a lie; so would a `ram` that is not."""
    if filesystem(disk) in IN_MEMORY:
        raise SystemExit(f"{disk} is in memory: name a folder on a disk with --disk")
    if filesystem(ram) not in IN_MEMORY:
        raise SystemExit(f"{ram} is not in memory: name a tmpfs with --ram")


def allocated(folder: Path) -> int:
    """Bytes the file system spends on all files and folders under `folder`."""
    total = folder.lstat().st_blocks
    for parent, folders, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(parent, name)).st_blocks for name in folders + files)
    return total * 512
