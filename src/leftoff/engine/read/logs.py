"""Which logs there are of a run: one per attempt.

Those of commands are found through the attempts' rows, never by looking into folders. Those of Python code have no row:
their files are named by step and attempt, as its record has them. What a step of Python code failed with is told as
a log would be, whether or not it logged anything.

A log is a fact about this machine, as its attempt is: it is not part of the state, and a version of a run says nothing
about it. Reading the file itself is for whoever shows it.
"""

from __future__ import annotations

import os

from leftoff.clock import iso, millis
from leftoff.engine.read.state import Reader
from leftoff.engine.retention.store_upkeep import attempts_folder
from leftoff.engine.steps.approvals import is_rejected
from leftoff.engine.steps.lifecycle import why_failed
from leftoff.engine.write.head import need_run
from leftoff.engine.write.lease import state as lease_state
from leftoff.errors import NotFound
from leftoff.files import is_led_away, write_private
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.digest import sha256
from leftoff.model.fields import Fields
from leftoff.model.ids import quote_part, shown_step, unquote_part, with_item
from leftoff.model.versions import counts_of
from leftoff.store.rows import ATTEMPTS, PYTHON_LOGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, View
    from leftoff.store.rows import Attempt, RunRow

LONGEST_NAME = 200  # bytes of a file's name
_LAST = "~"  # behind every ord, which is made of digits and slashes
FILE = "log"  # in the attempt's folder
_FAILED = 1000  # steps that failed, of which so many are looked at


class Log(Fields):
    """One attempt at a step, and the file with what it printed."""

    attempt: Attempt | Try
    path: str | None
    failed: bool
    error: dict[str, Any] | None = None  # why its step failed, where this is the newest attempt
    driven: bool = False  # whether somebody drives the run

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
        """Whether it ended without having printed anything: a log is made for the first line of it."""
        if self.of_python:
            return False
        said_nothing = self.error is not None and not self.error.get("tail")
        return not self.there and self.ended and (self.attempt.exit_code == 0 or said_nothing)

    @property
    def is_written(self) -> bool:
        """Whether its process lives, so that more may come; one that cannot be seen from here does not count."""
        process = self.attempt.process
        if process is None:
            return not self.ended and self.driven and self.of_python
        return not self.ended and process.state() == ALIVE

    @property
    def elsewhere(self) -> str:
        """The machine that it lies on while its attempt goes on; nothing, if that is this one. Another user of this
        machine has a folder of their own for a store that is shared."""
        process = self.attempt.process
        if self.ended or self.there or process is None or self.path is None:
            return ""
        state = process.state()
        theirs = state == ALIVE and not os.path.isdir(os.path.dirname(self.path))
        return process.host if theirs or state == UNKNOWN else ""

    @property
    def of_python(self) -> bool:
        return isinstance(self.attempt, Try)

    @property
    def raised(self) -> str:
        """What Python code failed with, as Python tells it."""
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


class Try(Fields):
    """An attempt of Python code at a step, which has no row: what its record says, in the words of one."""

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


class Choice(Fields):
    """Which logs are wanted: of a step (and those below it), of one attempt rather than the newest, of failed ones."""

    step: str | None = None
    number: int | None = None
    failed: bool = False


class FoundLogs(Fields):
    """The run and its logs at one moment, and whether anybody is there who may add to them. ``unstarted``: the steps
    that failed before anything of them ran, and why, where those that failed are wanted."""

    row: RunRow
    logs: list[Log]
    driven: bool
    unstarted: dict[str, str] = {}


def find_logs(store: Store, run: int, run_id: str, choice: Choice, now: int) -> FoundLogs:
    """The logs that are wanted, in the order of the steps."""

    def look(view: View) -> FoundLogs:
        row = need_run(view, run, run_id)
        attempts = _wanted(view, row, choice)
        steps = {attempt.step: view.row(run, "step", attempt.step) for attempt in attempts}
        reader = Reader(store, view, run, run_id)
        logs = [
            Log(each, _path(store, view, each), _has_failed(each, steps[each.step]), _error(reader, each))
            for each in attempts
        ]
        driven = row.status == "running" and lease_state(view.lease(run), now) in (ALIVE, "unknown")
        for log in _of_python(store, reader, row, choice):
            steps[log.step] = view.row(run, "step", log.step)
            logs.append(log.but(driven=driven))
        logs.sort(key=lambda log: ((steps[log.step] or ("",) * 3)[2] or _LAST, log.step, log.attempt.number))
        if not choice.failed:
            return FoundLogs(row, logs, driven)
        there = {log.step for log in logs}
        unstarted = {
            path: why
            for path, why in _unstarted(reader, view).items()
            if path not in there and _is_within(path, choice.step)
        }
        return FoundLogs(row, [log for log in logs if log.failed], driven, unstarted)

    return store.read(look)


class Failures(Fields):
    """Steps of a run that failed. ``rejected``: a person, or a deadline, said no. ``logged``: some of them ran, and may
    have printed something."""

    rejected: list[str]
    logged: bool


def failures(store: Store, run: int, run_id: str) -> Failures:
    def look(view: View) -> Failures:
        reader, failed = Reader(store, view, run, run_id), view.leaves(run, "failed", _FAILED)
        found = [path for path in failed if is_rejected(_record(reader, path))]
        return Failures(found, len(_unstarted(reader, view)) < len(failed))

    return store.read(look)


def _unstarted(reader: Reader, view: View) -> dict[str, str]:
    """The steps that failed before anything of them ran, and why."""
    tried = {attempt.step for attempt in view.attempts(reader.run)}
    failed = (path for path in view.leaves(reader.run, "failed", _FAILED) if path not in tried)
    return {path: why_failed(_record(reader, path)) for path in failed}


def _record(reader: Reader, path: str) -> dict[str, Any]:
    found = reader.value("step", path)
    return dict(found.plain) if found is not None else {}


def _wanted(view: View, row: RunRow, choice: Choice) -> list[Attempt]:
    attempts = view.attempts(row.run)
    if choice.step is not None:
        attempts = [each for each in attempts if _is_within(each.step, choice.step)]
        if not attempts and not _is_step(view, row, choice.step):
            raise _no_step(view, row, choice.step)
    if choice.number is not None:
        return [each for each in attempts if each.number == choice.number]
    return [each for each in attempts if each.number == each.current]


# -- of Python code


def python_log(store: Store, run_id: str, step: str, number: int) -> str:
    """Where the log of an attempt of Python code at a step is."""
    return os.path.join(attempts_folder(store, run_id), PYTHON_LOGS, _file_name(step), str(number))


def _file_name(step: str) -> str:
    """A step's path as one name; of one that is too long for that, its hash."""
    name = quote_part(step)
    return name if len(name.encode()) <= LONGEST_NAME else sha256(step.encode()).hexdigest()


def _of_python(store: Store, reader: Reader, row: RunRow, choice: Choice) -> list[Log]:
    """The logs of steps that a Python program runs, and what those of them failed with that logged nothing."""
    folder = os.path.join(attempts_folder(store, row.run_id), PYTHON_LOGS)
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if not names and not counts_of(row.counts)["failed"]:
        return []
    steps = reader.plain("step")
    told = {_file_name(path): path for path in steps}
    # In a burst of quick steps a start is told late: one that was killed before has its log, and no record.
    steps |= {unquote_part(name): {} for name in names if name not in told and len(name) != 64}
    logs = (
        _python_try(os.path.join(folder, _file_name(path)), path, record, choice)
        for path, record in steps.items()
        if _is_within(path, choice.step) and (_file_name(path) in names or _has_raised(record))
    )
    return [log for log in logs if log is not None]


def _is_within(path: str, step: str | None) -> bool:
    return step is None or path == step or path.startswith(f"{step}/")


def _has_raised(record: dict[str, Any]) -> bool:
    error = record.get("error")
    return isinstance(error, dict) and ("traceback" in error or "result" in error)


def _python_try(folder: str, path: str, record: dict[str, Any], choice: Choice) -> Log | None:
    current = record.get("attempt") or 1
    number = choice.number or current
    file, newest = os.path.join(folder, str(number)), number == current
    error = record.get("error") if newest and record.get("status") == "failed" else None
    if error is None and not os.path.exists(file):
        return None
    ended = millis(record.get("completed_at" if newest else "started_at"))
    began = millis(record.get("started_at")) if newest else None
    made = Try(path, number, current, began, ended)
    return Log(made, file, error is not None, error)


def _is_step(view: View, row: RunRow, step: str) -> bool:
    return view.row(row.run, "step", step) is not None or view.has_below(row.run, step)


def _path(store: Store, view: View, attempt: Attempt) -> str | None:
    """The file: the row has its folder, relative to the store's. One of another machine is as the store kept it."""
    if not attempt.log:
        return None
    path = os.path.join(store.folder, attempt.log, FILE)
    if is_led_away(path, ATTEMPTS):  # what lies behind a link is no log of ours
        return None
    if attempt.ended_at is not None and not os.path.exists(path):
        last, whole = view.kept_log(attempt.token)
        if whole is not None:
            # Whoever looks at it again, or follows it, finds it here.
            write_private(path, store.load_blob(whole), durable=False)
        elif last:
            write_private(path, [last], durable=False)
    return path


def _has_failed(attempt: Attempt, step: Any) -> bool:
    """A command may end well and its step fail all the same, by its checks or what it did not write."""
    if attempt.ended_at is not None and attempt.exit_code != 0:
        return True
    return step is not None and step[1] == "failed" and bool(attempt.number == attempt.current)


def _error(reader: Reader, attempt: Attempt) -> dict[str, Any] | None:
    if attempt.number != attempt.current or not attempt.exit_code:
        return None
    found = reader.value("step", attempt.step)
    error = found.plain.get("error") if found is not None else None
    return error if isinstance(error, dict) else None


def _no_step(view: View, row: RunRow, step: str) -> NotFound:
    from difflib import get_close_matches

    name = shown_step(step)
    known = [shown_step(record.key) for record in view.records(row.run, "step")][:10_000]
    near = get_close_matches(name, known, 3, 0.5) or [path for path in known if path.endswith(f"/{name}")][:3]
    hint = f"Did you mean {', '.join(near)}?" if near else f"`leftoff show {row.run_id} --steps` lists them."
    return NotFound(f"Run {row.run_id} has no step {name}.", hint=hint)
