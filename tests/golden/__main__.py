"""Record the golden cases again: ``python -m tests.golden --write [NAME…]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden import CASES, Session
from tests.syncs import syncs


def record(names: list[str]) -> None:
    for name in [name for name in os.environ if name.startswith("LEFTOFF_")]:
        del os.environ[name]
    paths = [CASES / f"{name}.txt" for name in names] or sorted(CASES.glob("*.txt"))
    for path in paths:
        with TemporaryDirectory(prefix="leftoff-golden-") as folder, syncs(False):
            before = path.read_text(encoding="utf-8")
            now = Session(Path(folder)).transcript(before)
        if now != before:
            path.write_text(now, encoding="utf-8")
            print(f"wrote {path.name}")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit("usage: python -m tests.golden --write [NAME…]")
    record(sys.argv[2:])
