"""With reflinks, the copy of an output takes no space, and an edit of the output leaves it as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, succeed
from tests.crash import mounts
from tests.crash.harness import require_root

SIZE = 20_000_000


@pytest.mark.crash_full
def test_a_copy_shares_its_blocks(tmp_path: Path) -> None:
    require_root()
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(400_000_000)
    mounts.command("mkfs.xfs", "-q", "-m", "reflink=1", str(image))
    with mounts.mounted(tmp_path / "project", "-t", "xfs", "-o", "loop", str(image)) as project:
        content = os.urandom(SIZE)
        (project / "big.bin").write_bytes(content)
        (project / "text").write_text("compressed " * 100_000)
        succeed("start", "w", "--run-id", "r", cwd=project)
        subprocess.run(["sync", "-f", str(project)], check=True)
        before = os.statvfs(project).f_bfree
        for name in ("big.bin", "text"):
            succeed("artifact", name, "--run", "r", cwd=project)
        subprocess.run(["sync", "-f", str(project)], check=True)
        assert (before - os.statvfs(project).f_bfree) * 4096 < SIZE / 10
        with (project / "big.bin").open("r+b") as file:
            file.write(b"edited in place")
        words = [str(LEFTOFF), "cat", "big.bin", "--run", "r"]
        assert content == subprocess.run(words, cwd=project, capture_output=True, check=True).stdout
        assert [] == succeed("fsck", "--json", cwd=project).json["problems"]
