"""The real command, called as anyone would call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEFTOFF = Path(sys.executable).parent / "leftoff"


@dataclass(frozen=True)
class Called:
    """What a call of the command gave."""

    words: tuple[str | bytes, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    def __str__(self) -> str:
        shown = " ".join(w if isinstance(w, str) else repr(w) for w in self.words)
        return f"$ leftoff {shown[:200]}\nexit {self.code}\n{self.out[:2000]}\n{self.err[:2000]}"


def environment(**more: str) -> dict[str, str]:
    """Ours without what leftoff would listen to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
    return {**kept, **more}


def call(
    *words: str | bytes, cwd: Path | str, input: str | None = None, timeout: float = 60, **env: str
) -> Called:
    """Run `leftoff WORDS` in a folder; stdin is closed unless there is input."""
    done = subprocess.run(
        [str(LEFTOFF), *words],
        cwd=cwd,
        input=None if input is None else input.encode(),
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        timeout=timeout,
        env=environment(**env),
    )
    out, err = (part.decode("utf-8", "surrogateescape") for part in (done.stdout, done.stderr))
    return Called(words, done.returncode, out, err)


def succeed(*words: str | bytes, cwd: Path | str, **more: Any) -> Called:
    """Run it, given that it must end well."""
    result = call(*words, cwd=cwd, **more)
    assert 0 == result.code, str(result)
    return result
