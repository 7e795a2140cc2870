"""Follow what happens in a project while others work: commits, drivers that die, what steps print."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from leftoff.engine.attempt_logs import AttemptLog, Choice, FoundLogs, find_logs
from leftoff.engine.find import READS
from leftoff.engine.lease import state
from leftoff.engine.project import Project
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_info import health
from leftoff.engine.settings import Caller
from leftoff.errors import LeftoffError, NotFound
from leftoff.files import open_plain
from leftoff.operations.run_reports import current_row, step_named
from leftoff.operations.runs import target
from leftoff.store.base import View
from leftoff.store.notifications import News as News
from leftoff.store.rows import Lease, RunRow

EVERY_S = 1.0  # between looks at processes and clocks
UNCHANGED = 0  # in place of a version that is not new
MOST = 1000  # running runs whose drivers are looked at


class Changes:
    """What happens in a project from the making of this on. It costs no query while nothing happens.

    The store reports commits (``Store.watch``). Here it looks at what no commit reports: that a driver died, that a run
    has been quiet for too long.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._watch = project.store.watch()
        self._running: list[RunRow] = []
        self._behind = False
        self._leases: dict[str, Lease] = {}
        self._states: dict[str, str] = {}
        self._look()

    def wait(self, seconds: float | None = None) -> News:
        """Return what happened since the last call, empty if nothing did in that time. ``None``: wait until it does."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = EVERY_S if end is None else max(0.0, end - time.monotonic())
            news = self._watch.wait(min(EVERY_S, left))
            self._behind = self._behind or bool(news)
            # Many commits a second do not cause as many looks.
            aged = [] if news and time.monotonic() - self._looked < EVERY_S else self._aged()
            if news or aged or (end is not None and time.monotonic() >= end):
                return News({**dict.fromkeys(aged, UNCHANGED), **news.runs}, news.others)

    def follow(self) -> Iterator[News]:
        """Yield everything that happens; the first at once, for a caller that looks then."""
        yield News(others=True)
        while True:
            yield self.wait()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *why: object) -> None:
        self._watch.close()

    def _look(self) -> None:
        """Read who drives what, and the runs whose health may change by itself."""

        def look(view: View) -> tuple[list[RunRow], dict[str, Lease]]:
            return view.list_runs({"status": ["running"]}, MOST), dict(view.leases())

        store = self._project.store
        self._looked, self._behind = time.monotonic(), False
        self._running, self._leases = store.read(look) if store.exists() else ([], {})
        self._states = self._states_now()

    def _states_now(self) -> dict[str, str]:
        """Return whether each driver is alive, and the health of each running run."""
        now, limits = self._project.now, self._project.limits
        states = {run_id: state(lease, now) for run_id, lease in self._leases.items()}
        for row in self._running:
            alive = health(row, self._leases.get(row.run_id), now, *limits)
            states[row.run_id] = f"{alive} {states.get(row.run_id, '')}"
        return states

    def _aged(self) -> list[str]:
        """Return the runs whose state differs from the last look. Without a commit since, look only if one may."""
        if not self._behind and self._states_now() == self._states:
            return []
        before = self._states
        self._look()  # the store does not report beats: perhaps there was one
        return [run_id for run_id, now in self._states.items() if now != before.get(run_id)]


# -- logs

LOOK_S = 0.2
MOST_JSON = 1 << 20  # bytes of one log in a document
BLOCK = 1 << 18
LONGEST = 1 << 20  # bytes of a line that is kept together


class RunLogs:
    """The logs of a run that are wanted. ``shared``: other machines may have some that are not in the store."""

    def __init__(self, project: Project, row: RunRow, choice: Choice) -> None:
        self.run_id = row.run_id
        self.choice = choice
        self.archived = row.is_archived
        self.shared = project.store.shared
        self._project = project
        self._run = row.run

    def find(self) -> FoundLogs:
        """Return those that there are, in the order of the steps."""
        return find_logs(self._project.store, self._run, self.run_id, self.choice, self._project.now)

    def follow(self) -> Iterator[tuple[FoundLogs, bool]]:
        """Yield the logs again and again, and whether more may come, until no process is left that could add any.

        The store is read if something happened to the run. The caller reads the files.
        """
        with Changes(self._project) as changes:
            found, more = self.find(), True
            while more:
                began = time.monotonic()
                more = found.driven or any(log.is_written for log in found.logs)  # before files are read
                yield found, more
                if more and changes.wait(max(LOOK_S, 4 * (time.monotonic() - began))).concerns(self.run_id):
                    found = self.find()


def logs_of(project: Project, caller: Caller, ref: str | None, choice: Choice) -> RunLogs:
    """Return the logs of the run that is meant."""
    try:
        row = target(project, caller, ref).row
    except NotFound as error:
        if ref is not None:
            with suppress(LeftoffError):  # the word may be a step of the current run
                run = current_row(project, caller, READS).run
                if project.store.read(lambda view: view.row(run, "step", ref)) is not None:
                    error.hint = f"{ref} is a step of the current run: `leftoff logs @ {ref}`."
        raise
    step = step_named(project, row, choice.step) if choice.step else None
    return RunLogs(project, row, choice._replace(step=step))


def log_document(project: Project, log: AttemptLog) -> dict[str, Any]:
    """Return a log as JSON; of a long one its end, and how much was ``cut``."""
    about = {**log.to_json(), **({"error": log.error} if log.raised else {})}
    if not log.there:
        return {**about, "text": None}
    file = LogFile(log.path or "")
    cut = file.skip_to(MOST_JSON)
    text = "".join(log_text(redacted_log(block, project.redactor)) for block in file.read(ended=True))
    return {**about, "text": text, **({"cut": cut} if cut else {})}


class LogFile:
    """A log that may still be written, read in whole lines from where the last look ended.

    It may be of any size and hold any bytes, so it is never read whole.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._at = 0
        self._rest = b""

    def skip_to(self, most: int) -> int:
        """Skip all but the last ``most`` bytes. Return how many were skipped."""
        try:
            self._at = max(0, os.stat(self.path).st_size - most)
        except OSError:
            self._at = 0
        return self._at

    def read(self, *, ended: bool) -> Iterator[bytes]:
        """Yield blocks that end with a line. ``ended``: and the rest, as no more will be written."""
        try:
            file = open(open_plain(self.path, os.O_NOFOLLOW), "rb")  # noqa: SIM115 - closed below, whoever stops reading
        except (FileNotFoundError, NotADirectoryError):
            return
        with file:
            file.seek(self._at)
            while block := file.read(BLOCK):
                self._at += len(block)
                block = self._rest + block
                cut = block.rfind(b"\n") + 1
                if not cut and len(block) >= LONGEST:
                    cut = len(block)
                self._rest = block[cut:]
                if cut:
                    yield block[:cut]
        if ended and self._rest:
            block, self._rest = self._rest, b""
            yield block


def redacted_log(block: bytes, redactor: Redactor) -> bytes:
    """Redact a block by the rules of today; it was redacted when it was written."""
    text = block.decode("utf-8", "surrogateescape")
    if not redactor.suspicious("", text):
        return block
    if "PRIVATE KEY" in text:  # the only secret that has several lines
        text = redactor.mask(text)
    return "\n".join(map(redactor.mask, text.split("\n"))).encode("utf-8", "surrogateescape")


def log_text(block: bytes) -> str:
    """Return text for JSON and for terminals, from any bytes."""
    return block.decode("utf-8", "backslashreplace")
