"""One attempt in the driver's hands, from the moment its step is due until it ended, and what it leaves."""

from __future__ import annotations

import glob
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leftoff.clock import iso
from leftoff.engine.steps import lifecycle
from leftoff.engine.workspace.tracking import Captured, Found
from leftoff.errors import Invalid, LeftoffError
from leftoff.host import Process
from leftoff.model.changes import NOTHING, ChangeSet
from leftoff.store.rows import BlobRow, RunRow
from leftoff.workflow.definition.durations import text as duration_text
from leftoff.workflow.definition.model import Step
from leftoff.workflow.processes.attempt_folder import AttemptFolder, Exit, LogFollower
from leftoff.workflow.template.templates import Templates

STARTING, RUNNING, CHECKING = "starting", "running", "checking"


@dataclass(eq=False)
class LiveAttempt:
    """An attempt at a step, or at an item of one. It has a process, or will have one."""

    unit: str
    step: Step
    item: Any  # NOTHING if it is not an item
    token: str
    folder: AttemptFolder
    phase: str = STARTING
    process: Process | None = None
    checker: Process | None = None  # of the check that runs
    began: float = 0.0  # monotonic
    cwd: str = ""  # rendered
    outputs: list[str] = field(default_factory=list)  # declared, rendered
    cache: dict[str, Any] | None = None  # the parts of its cache key
    checks: list[tuple[str, str | None]] = field(
        default_factory=list
    )  # scripts left; the criterion each decides
    results: dict[str, bool] = field(default_factory=dict)  # of criteria
    exit: Exit | None = None
    stopped: str | None = None  # why it was asked to end
    why: str | None = None  # adopted, reattached
    doubtful: bool = False  # it ended without a driver: if something is missing, it runs again
    expands: bool = False  # it finds the items of a `foreach`
    follower: LogFollower | None = None

    @property
    def leaf(self) -> str:
        return self.step.path

    @property
    def running(self) -> Process | None:
        """Return the process that runs for it now."""
        return {RUNNING: self.process, CHECKING: self.checker}.get(self.phase)

    @property
    def is_item(self) -> bool:
        return self.item is not NOTHING


@dataclass
class Left:
    """What a step that ended well has left, to be committed with its completion."""

    outputs: list[str]
    captured: list[Captured]
    result: Any  # NOTHING if it returned nothing
    variables: dict[str, Any]
    criteria: dict[str, bool] = field(default_factory=dict)
    cache: dict[str, Any] | None = None  # its cache key, and what it set
    commit: str | None = None  # that git has checked out now
    tree: Found | None = None  # the tracked files as they are now

    def put(self, changes: ChangeSet, blobs: list[BlobRow], path: str, row: RunRow, at: int) -> None:
        """Add everything that does not belong into the step's own record to a commit."""
        for got in self.captured:
            got.put(changes)
            blobs += [got.blob] if got.blob is not None else []
        for key, value in self.variables.items():
            changes.put("variable", key, value)
        for key, met in self.criteria.items():
            changes.put("criterion", key, {"met": met, "step": path, "at": iso(at)})
        if self.commit is not None and self.commit != row.card.get("git_head"):
            changes.put("run", "git_head", self.commit)
        if self.tree is not None:
            self.tree.put(changes, row.seq + 1)
            blobs += self.tree.blobs

    def check(self, path: str) -> None:
        """Raise ``Invalid`` if something cannot be stored, before anything is written."""
        changes = ChangeSet()
        for key, value in self.variables.items():
            changes.put("variable", key, value)
        if self.outputs or self.result is not NOTHING:
            result = None if self.result is NOTHING else self.result
            lifecycle.check(path, {"status": "completed", "outputs": self.outputs, "result": result})


def error_of(exit: Exit, timeout: float | None, tail: str) -> dict[str, Any]:
    """Return the error for the record of a step whose command failed."""
    about: dict[str, Any]
    if exit.timed_out:
        limit = f" after {duration_text(timeout)}" if timeout else ""
        about = {"type": "timeout", "message": f"It was stopped: it took too long (timeout{limit})."}
    elif exit.error:
        about = {"type": "not_started", "message": exit.error}
    elif exit.signal:
        about = {
            "type": "signal",
            "message": f"It was ended by signal {exit.signal} ({_signal(exit.signal)}).",
        }
    else:
        meaning = {126: " (found, but cannot be executed)", 127: " (command not found)"}.get(exit.code, "")
        about = {"type": "exit", "message": f"It ended with exit code {exit.code}{meaning}."}
    about["exit_code"] = exit.code
    if tail:
        about["tail"] = tail
    return about


def error_about(error: LeftoffError) -> dict[str, Any]:
    """Return the error for the record of a step that leftoff could not start or complete."""
    hint = error.hint if error.hint != type(error).default_hint else ""
    return {"type": error.code, "message": f"{error.message.rstrip('.')}. {hint}" if hint else error.message}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def outputs_of(templates: Templates, values: dict[str, Any], step: Step) -> tuple[list[str], str]:
    """Return the declared outputs of a step and its working folder, rendered."""
    outputs = [templates.render(text, values, f"{step.path}: outputs") for text in step.outputs]
    return outputs, templates.render(step.cwd, values, f"{step.path}: cwd") if step.cwd else ""


def existing(project: str, cwd: str, patterns: Sequence[str]) -> list[str]:
    """Return the files of declared outputs. Raise ``Invalid`` for the first that is missing.

    An output is a path or a pattern, relative to the project's folder, else to the step's working folder.
    """
    out: list[str] = []
    for pattern in patterns:
        found = _matches(os.path.join(project, pattern)) or _matches(os.path.join(project, cwd, pattern))
        if not found:
            raise Invalid(
                f"The declared output {pattern} is not there.",
                hint="The command must write it, or the step must not declare it.",
            )
        out += found
    return out


def _matches(full: str) -> list[str]:
    if os.path.lexists(full):
        return [os.path.normpath(full)]
    return sorted(glob.glob(full, recursive=True)) if glob.has_magic(full) else []
