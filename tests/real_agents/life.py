"""Processes: an agent's life, and how it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

PATIENCE = 900.0  # seconds; only something that hangs takes longer, on however busy a machine


def parents() -> dict[int, int]:
    """Every process of the namespace, and its parent."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(name)] = int(fields[1])
    return found


def below(pid: int) -> list[int]:
    """The processes that one has started, directly or not: the nearest first."""
    known, out = parents(), [pid]
    for one in out:
        out += [child for child, parent in known.items() if parent == one]
    return out[1:]


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def end(pids: list[int]) -> None:
    """SIGKILL, and until they are gone."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until = time.monotonic() + PATIENCE
    while set(pids) & set(parents()):
        if time.monotonic() > until:
            raise TimeoutError(f"processes {pids} outlive SIGKILL")
        time.sleep(0.02)


class Life:
    """One process of an agent's, or of leftoff's, with what it prints in files."""

    def __init__(self, words: list[str], cwd: Path, env: dict[str, str], kept: Path) -> None:
        self.out_file, self.err_file = kept.with_suffix(".out"), kept.with_suffix(".err")
        self.words = words
        with self.out_file.open("wb") as out, self.err_file.open("wb") as err:
            self.process = subprocess.Popen(
                words,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self.out_file.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_file.read_text(errors="replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of JSON that it has printed, whole ones."""
        found = []
        for line in self.out.splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue
            if isinstance(one, dict):
                found.append(one)
        return found

    def wait(self, patience: float = PATIENCE) -> int:
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                f"{' '.join(self.words)[:80]} did not end: {(self.out + self.err)[-300:]}"
            ) from None

    def kill(self) -> None:
        """All of it at once: the launcher, its child, whatever they have started, hooks apart that have let go."""
        end([self.pid, *below(self.pid)])
        self.process.wait()
