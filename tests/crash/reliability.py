"""A plugin for pytest that writes `docs/explanation/reliability.md`: `make crash` loads it.

It counts the cases of each guarantee and the faults that they made. A run of only a part of the tests writes a
temporary file instead, because its figures would look like those of a full run. It works with and without pytest-xdist:
each worker attaches its faults to the report of the test, and the main process adds them up.

`python -m tests.crash.reliability` writes the page without figures.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.crash import faults
from tests.crash.guarantees import GUARANTEES, Guarantee

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
FULL = "crash_full or not crash_full"
MARK = "faults"  # of the property in a test's report

OPENING = """# Reliability

`make crash` writes this page. It plays the tests of the [guarantees](guarantees.md) with real processes, signals,
disks and databases, and counts what they did. The figures are not edited by hand.
"""
NO_FIGURES = """**No full run is recorded on this page yet.** `sudo make crash` adds the figures."""
CLOSING = """\
## How faults are made

- **Kills**: `SIGKILL` from a parent process at a random moment, or by `strace` at a chosen system call. Some tests do
  not count their kills, so the figure is a lower bound.
- **Power cuts**: the store is on an ext4 file system in a file. The writer is stopped, and the file is copied. Data
  that was never synced is not in the copy. The copy is mounted and read.
- **Failed system calls**: `strace` makes one call of a commit fail with `ENOSPC` or `EIO`, for each call in turn.
- **Full disks**: a file system of a few megabytes, or a limit on the size of files.
- **Damages**: one flipped byte, one page of zeros or one lost end per case.

The tests are tested too: they must catch broken variants, such as a writer that acknowledges too early, a store that
does not sync, and a driver that forgets its steps.

## What the figures do not show

The tests run on one kind of machine, with ext4 and tmpfs. A disk that ignores `fsync` is not simulated. A case is one
test with one set of parameters. It can belong to several guarantees, and some cases make hundreds of faults. Zero
failures in these cases prove nothing about other machines and other cases.

## Run it

`sudo make crash` needs Linux, root, `strace` and a long time. `make test` runs a sample of the same tests without
root.
"""


@dataclass
class Tally:
    """What the tests of a guarantee, or all tests, did."""

    cases: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds
        self.faults += other.faults


def belongs(guarantee: Guarantee, file: str) -> bool:
    """Whether a test file, named from the repository's root, tests a guarantee."""
    return any(fnmatch(file, f"tests/{pattern}") for pattern in guarantee.tests)


class Reliability:
    """Collects the reports of one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.began = time.monotonic()
        self.tests: dict[str, Tally] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Attach the faults of a test to the report of its call."""
        if call.when != "teardown" and (found := faults.taken()):
            item.user_properties.append((f"{MARK} {call.when}", found))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(self.config, "workerinput"):
            return
        tally = self.tests.setdefault(report.nodeid, Tally())
        tally.cases = 1
        tally.failed |= report.failed
        tally.skipped |= report.skipped
        tally.seconds += report.duration
        for name, found in report.user_properties:
            if name == f"{MARK} {report.when}" and isinstance(found, dict):
                tally.faults.update(found)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if not hasattr(self.config, "workerinput"):
            self.config.stash[WHOLE] = exitstatus in (0, 1) and not self.partial(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        whole = self.config.stash.get(WHOLE, False)
        text = page(self.figures(), list(self.by_guarantee()), whole=whole)
        if whole:
            PAGE.write_text(text, encoding="utf-8")
            terminalreporter.write_line(f"wrote {PAGE.relative_to(ROOT)}")
            return
        with tempfile.NamedTemporaryFile("w", prefix="reliability-", suffix=".md", delete=False) as file:
            file.write(text)
        terminalreporter.write_line(
            f"only a part of the tests ran: {PAGE.name} is unchanged, see {file.name}"
        )

    def partial(self, session: pytest.Session) -> bool:
        """Whether some of the tests were left out or the run was stopped."""
        option = self.config.option
        asked = [Path(word).resolve() for word in self.config.args]
        chosen = (
            option.keyword,
            option.deselect,
            option.ignore,
            option.ignore_glob,
            option.lf,
            option.maxfail,
        )
        stopped = session.shouldfail or session.shouldstop
        return asked != [ROOT / "tests"] or option.markexpr != FULL or any(chosen) or bool(stopped)

    def by_guarantee(self) -> Iterator[tuple[Guarantee, Tally]]:
        for guarantee in GUARANTEES:
            total = Tally()
            for name, tally in self.tests.items():
                if belongs(guarantee, name.partition("::")[0]):
                    total.add(tally)
            yield guarantee, total

    def figures(self) -> Tally:
        """All tests, with the time by the clock."""
        total = Tally()
        for tally in self.tests.values():
            total.add(tally)
        total.seconds = time.monotonic() - self.began
        return total


WHOLE = pytest.StashKey[bool]()


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def lasted(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def listed(counted: Counter[str]) -> str:
    return ", ".join(f"{counted[kind]:,} {kind}" for kind in faults.KINDS if counted[kind]) or "not counted"


def summary(total: Tally, whole: bool) -> str:
    """Return the figures of the whole run, its date and its machine."""
    dirty = " with uncommitted changes" if git("status", "--porcelain", "src", "tests") else ""
    start = "" if whole else "**Only a part of the tests ran.** "
    return (
        f"{start}{total.cases:,} cases, {total.failed:,} failed, {total.skipped:,} skipped, in "
        f"{lasted(total.seconds)}. Faults: {listed(total.faults)}.\n\n"
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {git('rev-parse', '--short=12', 'HEAD')}{dirty}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores."
    )


def page(total: Tally | None, found: list[tuple[Guarantee, Tally]], *, whole: bool) -> str:
    """The page; without `total` it has no figures."""
    lines = ["| | guarantee | how it is tested |", "| --- | --- | --- |"]
    lines += [f"| {one.number} | {one.words} | {one.how} |" for one in GUARANTEES]
    parts = [OPENING, "## How each guarantee is tested\n", "\n".join(lines) + "\n", "## Figures\n"]
    if total is None:
        parts.append(NO_FIGURES + "\n")
    else:
        rows = [
            "| | cases | failed | skipped | time in tests | faults |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        rows += [
            f"| {one.number} | {tally.cases:,} | {tally.failed:,} | {tally.skipped:,} | {lasted(tally.seconds)} "
            f"| {listed(tally.faults)} |"
            for one, tally in found
        ]
        parts += [summary(total, whole) + "\n", "\n".join(rows) + "\n"]
    return "\n".join([*parts, CLOSING])


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reliability(config), "reliability")


if __name__ == "__main__":
    PAGE.write_text(page(None, [], whole=False), encoding="utf-8")
