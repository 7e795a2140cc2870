"""Which logs there are of a run: one per attempt at a step.

Logs of commands are found by the attempts' rows, never by looking into folders. Python code has no rows: its files are
named by step and attempt, as the step's record has them. The error of a Python step is shown like a log, whether or not
the step logged anything.

A log is a fact about this machine, not part of the state: a version of a run says nothing about it. The caller reads
the file.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from leftoff.clock import iso, millis
from leftoff.engine.approvals import is_rejected
from leftoff.engine.find import need_run
from leftoff.engine.lease import state as lease_state
from leftoff.engine.run_reader import Reader
from leftoff.engine.run_states import attempts_folder
from leftoff.errors import NotFound
from leftoff.files import write_private
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.changes import counts_of
from leftoff.model.codec import sha256
from leftoff.model.ids import quote_part, shown_step, unquote_part, with_item
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import PYTHON_LOGS, Attempt, RunRow

LONGEST_NAME = 200  # bytes of a file's name
_LAST = "~"  # after every ord, which is made of digits and slashes
LOG_FILE = "log"  # in the attempt's folder
_FAILED = 1000  # failed steps that are looked at


class PythonAttempt(NamedTuple):
    """An attempt of Python code at a step: what its record says, with the names that a row has."""

    step: str
    number: int
    current: int
    started_at: int | None
    ended_at: int | None
    log: str | None = None
    exit_code: int | None = None
    process: None = None

    @property
    def token(self) -> str:
        return f"{self.step}#{self.number}"


class AttemptLog(NamedTuple):
    """One attempt at a step, and the file with what it printed.

    ``error``: why its step failed, if this is the newest attempt. ``driven``: a driver of the run may be alive.
    """

    attempt: Attempt | PythonAttempt
    path: str | None
    failed: bool
    error: dict[str, Any] | None = None
    driven: bool = False

    @property
    def step(self) -> str:
        return str(self.attempt.step)

    @property
    def ended(self) -> bool:
        return self.attempt.ended_at is not None

    @property
    def there(self) -> bool:
        return self.path is not None and os.path.exists(self.path)

    @property
    def silent(self) -> bool:
        """Whether it ended without printing anything. A log is created for the first line."""
        if self.of_python or self.attempt.log is None:
            return False
        said_nothing = self.error is not None and not self.error.get("tail")
        return not self.there and self.ended and (self.attempt.exit_code == 0 or said_nothing)

    @property
    def is_written(self) -> bool:
        """Whether its process lives, so that more may come. One that cannot be seen from here does not count."""
        process = self.attempt.process
        if process is None:
            return not self.ended and self.driven and self.of_python
        return not self.ended and process.state() == ALIVE

    @property
    def elsewhere(self) -> str:
        """The machine that has the log of an attempt that has not ended; empty if that is this one. Another user of
        this machine has another folder for a shared store."""
        process = self.attempt.process
        if self.ended or self.there or process is None or self.path is None:
            return ""
        state = process.state()
        theirs = state == ALIVE and not os.path.isdir(os.path.dirname(self.path))
        return process.host if theirs or state == UNKNOWN else ""

    @property
    def of_python(self) -> bool:
        return isinstance(self.attempt, PythonAttempt)

    @property
    def raised(self) -> str:
        """The exception of Python code, as Python prints it."""
        if not self.error or not self.of_python:
            return ""
        trace, told = self.error.get("traceback"), f"{self.error.get('type')}: {self.error.get('message')}\n"
        return f"Traceback (most recent call last):\n{trace}{told}" if trace else told

    def to_json(self) -> dict[str, Any]:
        about = self.attempt
        found = {
            "step": about.step,
            "attempt": about.number,
            "exit_code": about.exit_code,
            "started_at": iso(about.started_at) if about.started_at is not None else None,
            "ended_at": iso(about.ended_at) if about.ended_at is not None else None,
            "path": self.path,
        }
        return with_item(found, about.step)


class Choice(NamedTuple):
    """Which logs are wanted: of a step (and those below it), of one attempt rather than the newest, of failed ones."""

    step: str | None = None
    number: int | None = None
    failed: bool = False

    def has(self, path: str) -> bool:
        return self.step is None or path == self.step or path.startswith(f"{self.step}/")


class FoundLogs(NamedTuple):
    """The logs of a run at one moment, and whether a driver may add to them."""

    logs: list[AttemptLog]
    driven: bool


def find_logs(store: SqlStore, run: int, run_id: str, choice: Choice, now: int) -> FoundLogs:
    """Return the wanted logs, in the order of the steps."""

    def look(view: View) -> FoundLogs:
        row, reader = need_run(view, run, run_id), Reader(store, view, run, run_id)
        driven = row.status == "running" and lease_state(view.lease(run), now) in (ALIVE, "unknown")
        logs = [
            *_of_commands(store, reader, row, choice),
            *(log._replace(driven=driven) for log in _of_python(store, reader, row, choice)),
        ]
        ranks = {log.step: (view.row(run, "step", log.step) or ("", "", _LAST))[2] or _LAST for log in logs}
        logs.sort(key=lambda log: (ranks[log.step], log.step, log.attempt.number))
        return FoundLogs([log for log in logs if log.failed or not choice.failed], driven)

    return store.read(look)


def failures(store: SqlStore, run: int, run_id: str) -> dict[str, Any]:
    """Return which failed steps were ``rejected`` by a person or a deadline, and whether failed ones are ``logged``:
    some of them began, and may have printed something."""

    def look(view: View) -> dict[str, Any]:
        reader, failed = Reader(store, view, run, run_id), view.leaves(run, "failed", _FAILED)
        rejected = [path for path in failed if is_rejected(reader.record("step", path))]
        return {"rejected": rejected, "logged": any(each.step in failed for each in view.attempts(run))}

    return store.read(look)


# -- of commands


def _of_commands(store: SqlStore, reader: Reader, row: RunRow, choice: Choice) -> list[AttemptLog]:
    view = reader.view
    attempts = [each for each in view.attempts(row.run) if choice.has(each.step)]
    if choice.step is not None and not attempts:
        _need_step(view, row, choice.step)
    out = []
    for attempt in attempts:
        newest = attempt.number == attempt.current
        if attempt.number != choice.number if choice.number is not None else not newest:
            continue
        # A command may succeed and its step fail, by its checks or a missing output.
        step = view.row(row.run, "step", attempt.step)
        failed = attempt.ended_at is not None and attempt.exit_code != 0
        failed = failed or (step is not None and step[1] == "failed" and newest)
        error = reader.record("step", attempt.step).get("error") if newest and attempt.exit_code else None
        out.append(
            AttemptLog(
                attempt, _path(store, view, attempt), failed, error if isinstance(error, dict) else None
            )
        )
    return out


def _path(store: SqlStore, view: View, attempt: Attempt) -> str | None:
    """Return the path of an attempt's log. One of another machine is first written as the store has it."""
    if not attempt.log:
        return None
    path = os.path.join(store.folder, attempt.log, LOG_FILE)
    if attempt.ended_at is not None and not os.path.exists(path):
        last, whole = view.kept_log(attempt.token)
        if whole is not None:
            write_private(path, store.load_blob(whole), durable=False)
        elif last:
            write_private(path, [last], durable=False)
    return path


def _need_step(view: View, row: RunRow, step: str) -> None:
    """Raise ``NotFound`` if the run has no such step."""
    if view.row(row.run, "step", step) is not None or view.has_below(row.run, step):
        return
    from difflib import get_close_matches

    name = shown_step(step)
    known = [shown_step(record.key) for record in view.records(row.run, "step")][:10_000]
    near = get_close_matches(name, known, 3, 0.5) or [path for path in known if path.endswith(f"/{name}")][:3]
    hint = f"Did you mean {', '.join(near)}?" if near else f"`leftoff show {row.run_id} --steps` lists them."
    raise NotFound(f"Run {row.run_id} has no step {name}.", hint=hint)


# -- of Python code


def python_log(store: SqlStore, run_id: str, step: str, number: int) -> str:
    """Return where the log of an attempt of Python code at a step is."""
    return os.path.join(attempts_folder(store, run_id), PYTHON_LOGS, _file_name(step), str(number))


def _file_name(step: str) -> str:
    """Return a step's path as one name; its hash, if that is too long."""
    name = quote_part(step)
    return name if len(name.encode()) <= LONGEST_NAME else sha256(step.encode()).hexdigest()


def _of_python(store: SqlStore, reader: Reader, row: RunRow, choice: Choice) -> list[AttemptLog]:
    folder = os.path.join(attempts_folder(store, row.run_id), PYTHON_LOGS)
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if not names and not counts_of(row.counts)["failed"]:
        return []
    steps = reader.plain("step")
    told = {_file_name(path) for path in steps}
    # In a burst of quick steps a start is committed late: a step that was killed before has a log and no record.
    steps |= {unquote_part(name): {} for name in names if name not in told and len(name) != 64}
    out = []
    for path, record in steps.items():
        name, error, current = _file_name(path), record.get("error"), record.get("attempt") or 1
        raised = isinstance(error, dict) and ("traceback" in error or "result" in error)
        if not choice.has(path) or not (name in names or raised):
            continue
        number = choice.number or current
        file, newest = os.path.join(folder, name, str(number)), number == current
        if not newest or record.get("status") != "failed":
            error = None
        if error is None and not os.path.exists(file):
            continue
        began = millis(record.get("started_at")) if newest else None
        ended = millis(record.get("completed_at" if newest else "started_at"))
        attempt = PythonAttempt(path, number, current, began, ended)
        out.append(AttemptLog(attempt, file, error is not None, error))
    return out
