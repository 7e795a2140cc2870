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


@case("import", "import leftoff")
def importing(context: Context) -> Iterator[Row]:
    """Bare Python and `import leftoff` take turns; the difference counts."""
    bare, ours = [], []
    with context.folder("disk") as folder:
        start("import leftoff", folder)  # writes the bytecode
        for _ in range(context.rounds(31, 7)):
            bare.append(start("pass", folder))
            ours.append(start("import leftoff", folder))
    over = statistics.median(b - a for a, b in zip(bare, ours, strict=True))
    yield Row(
        "over bare Python",
        over * 1e3,
        "ms",
        at_most=60,
        raw={
            "bare_ms": round(statistics.median(bare) * 1e3, 1),
            "leftoff_ms": round(statistics.median(ours) * 1e3, 1),
        },
    )
