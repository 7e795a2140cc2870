"""How fast the verbs start that agents call by the thousand.

The bound is on processor time, which hardly depends on what else the machine does, and on what is imported.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, environment, succeed

HOT = {"set": ("set", "x=1"), "step done": ("step", "done", "a"), "save": ("save",), "beat": ("beat",)}
MOST = 5.0
# Slow to load, and for these verbs of no use.
HEAVY = {
    "argparse", "asyncio", "importlib.metadata", "inspect", "logging", "minijinja", "msgspec", "rich", "subprocess",
    "tomllib", "unittest", "yaml",
}  # fmt: skip


def warm(cwd: Path) -> dict[str, str]:
    """An environment with compiled modules of its own, as an installed package has them."""
    env = environment(PYTHONPYCACHEPREFIX=str(cwd / "cache"))
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def spent(words: tuple[str, ...], cwd: Path, env: dict[str, str]) -> float:
    """Processor seconds of one process."""
    pid = os.posix_spawn(
        words[0],
        words,
        {**env, "LEFTOFF_PROJECT": str(cwd)},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(pid, 0)
    assert 0 == status, words
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("verb", HOT)
def test_cold_start(verb: str, tmp_path: Path) -> None:
    """At most five times a bare Python."""
    succeed("start", "flow", cwd=tmp_path)
    env = warm(tmp_path)
    bare, words = (sys.executable, "-c", "pass"), (str(LEFTOFF), *HOT[verb])
    spent(bare, tmp_path, env), spent(words, tmp_path, env)  # compiles
    times = [(spent(bare, tmp_path, env), spent(words, tmp_path, env)) for _ in range(9)]
    ratio = statistics.median(b for _, b in times) / statistics.median(a for a, _ in times)
    assert ratio <= MOST


@pytest.mark.parametrize("verb", HOT)
def test_nothing_heavy_is_imported(verb: str, tmp_path: Path) -> None:
    """What a bare Python has not loaded and is heavy stays unloaded."""
    succeed("start", "flow", cwd=tmp_path)
    script = (
        "import sys; bare = set(sys.modules); from leftoff.cli import main; code = main(sys.argv[1:]); "
        "print(*sorted(set(sys.modules) - bare), file=sys.stderr); sys.exit(code)"
    )
    import subprocess

    words = (sys.executable, "-c", script, *HOT[verb])
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    assert set() == HEAVY & set(done.stderr.split())
