"""What `import leftoff` adds to a bare Python."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.registry import Context, Row, case


def start(code: str, cwd: Path) -> float:
    """Seconds a Python takes to start, run `code` and end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=cwd)
    return time.perf_counter() - began


FIRST_USE = "import leftoff; leftoff.open('.leftoff').list()"


@case("import", "import leftoff")
def importing(context: Context) -> Iterator[Row]:
    """Bare Python, `import leftoff` and a first use take turns; the difference to bare Python counts.

    The package loads its parts lazily, so the import alone says little: the first use shows what was put off.
    """
    taken: dict[str, list[float]] = {"pass": [], "import leftoff": [], FIRST_USE: []}
    with context.folder("disk") as folder:
        start(FIRST_USE, folder)  # writes the bytecode
        for _ in range(context.rounds(31, 7)):
            for code, times in taken.items():
                times.append(start(code, folder))
    bare = taken.pop("pass")
    for (code, times), bound in zip(taken.items(), (60.0, None), strict=True):
        over = statistics.median(b - a for a, b in zip(bare, times, strict=True))
        raw: dict[str, object] = {
            "bare_ms": round(statistics.median(bare) * 1e3, 1),
            "leftoff_ms": round(statistics.median(times) * 1e3, 1),
        }
        yield Row(f"`{code}` over bare Python", over * 1e3, "ms", at_most=bound, raw=raw)
