"""A restore that fails changes nothing, and "restored" means that the file is there: also the second time."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.workspace.trees import tree

LARGE, LIMIT = 800_000, 500_000
FLOW = """name: build
steps:
  - {id: fill, run: 'mkdir -p out && cp seed out/big.bin', outputs: [out/big.bin]}
  - {id: use, run: 'test -e go && cmp seed out/big.bin && touch used'}
"""


def limited(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, which can write no file that is larger than the limit."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    line = [str(LEFTOFF), *words]
    env = environment()
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, preexec_fn=limit)


def checkpoints(folder: Path) -> list[str]:
    return [entry["checkpoint_id"] for entry in succeed("log", "r", "--json", cwd=folder).json["checkpoints"]]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A run whose first step left a large file, which is gone, and whose second step is to be done."""
    (tmp_path / "seed").write_bytes(b"large" * (LARGE // 5))
    (tmp_path / "flow.yaml").write_text(FLOW)
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=tmp_path).code
    (tmp_path / "out/big.bin").unlink()
    (tmp_path / "go").touch()
    return tmp_path


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A run with two versions of two files; of the first version, one file is large and in a folder that is gone."""
    folder = tmp_path / "dist"
    folder.mkdir()
    succeed("start", "w", "--run-id", "r", cwd=tmp_path)
    (tmp_path / "a.txt").write_text("first\n")
    (folder / "big.bin").write_bytes(b"x" * LARGE)
    succeed("track", "a.txt", "dist/big.bin", cwd=tmp_path)
    succeed("save", cwd=tmp_path)
    (tmp_path / "a.txt").write_text("second\n")
    (folder / "big.bin").unlink()
    folder.rmdir()
    return tmp_path


def test_resume_after_a_restore_that_failed(built: Path) -> None:
    """The first call fails, and no step runs. The second brings the file back before the next step runs."""
    before = checkpoints(built)
    failed = limited(built, "resume", "r", "--yes")
    assert (8, False) == (failed.returncode, (built / "used").exists()), failed.stderr
    assert "out/big.bin cannot be restored" in failed.stderr and "restored out/big.bin" not in failed.stderr
    assert before == checkpoints(built)
    done = succeed("resume", "r", "--yes", cwd=built)
    assert "restored out/big.bin." in done.err
    assert (built / "used").exists()
    assert (built / "seed").read_bytes() == (built / "out/big.bin").read_bytes()


def test_resume_after_a_checkpoint_without_the_file(built: Path) -> None:
    """A checkpoint that saw that the output was gone does not change what its step recorded of it."""
    (built / "out/big.bin").write_bytes((built / "seed").read_bytes())
    succeed("track", "out/big.bin", "--run", "r", cwd=built)
    (built / "out/big.bin").unlink()
    succeed("save", "--run", "r", cwd=built)
    assert "restored out/big.bin." in succeed("resume", "r", "--yes", cwd=built).err
    assert (built / "used").exists()


def test_what_cannot_be_restored_stops_the_run(built: Path) -> None:
    """A file is in the place of the output's folder: nothing is called restored, and no step runs."""
    (built / "out").rmdir()
    (built / "out").write_text("mine")
    said = call("resume", "r", "--yes", cwd=built)
    assert 7 == said.code and "restored out/big.bin" not in said.err, str(said)
    assert "out/big.bin was not restored: out is in the way" in said.err
    assert not (built / "used").exists()


@pytest.mark.parametrize("ref", ["r~0", "@~0"])
def test_rollback_after_one_that_failed(changed: Path, ref: str) -> None:
    """Nothing was changed, so the same relative REF names the same version."""
    before, known = tree(changed), checkpoints(changed)
    failed = limited(changed, "rollback", ref, "--files", "--yes")
    assert 8 == failed.returncode and "Nothing was changed." in failed.stderr, failed.stderr
    assert (before, known) == (tree(changed), checkpoints(changed))
    succeed("rollback", ref, "--files", "--yes", cwd=changed)
    assert ("first\n", LARGE) == ((changed / "a.txt").read_text(), (changed / "dist/big.bin").stat().st_size)


def test_restore_after_one_that_failed(changed: Path) -> None:
    """The same for single files."""
    before, known = tree(changed), checkpoints(changed)
    words = ("restore", "r~0", "a.txt", "dist/big.bin", "--yes")
    assert 8 == limited(changed, *words).returncode
    assert (before, known) == (tree(changed), checkpoints(changed))
    succeed(*words, cwd=changed)
    assert ("first\n", LARGE) == ((changed / "a.txt").read_text(), (changed / "dist/big.bin").stat().st_size)
