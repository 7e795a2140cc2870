"""One unit of work in the driver's hands: a step, or an item of one, from the moment it is due until it ended."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.steps import lifecycle
from leftoff.errors import Invalid
from leftoff.model.changes import NOTHING, ChangeSet

if TYPE_CHECKING:
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.tracking import Found
    from leftoff.errors import LeftoffError
    from leftoff.host import Process
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.processes.attempt_folder import AttemptFolder, Exit, LogFollower
    from leftoff.workflow.run.ledger import Page
    from leftoff.workflow.template.templates import Templates

STARTING, RUNNING, CHECKING = "starting", "running", "checking"


class LiveAttempt:
    """An attempt at a step, or at an item of one, that the driver has in hand: it has a process, or will have one."""

    __slots__ = (
        "began",
        "cache",
        "checker",
        "checks",
        "cwd",
        "doubtful",
        "exit",
        "expands",
        "folder",
        "follower",
        "item",
        "leaf",
        "outputs",
        "phase",
        "process",
        "results",
        "step",
        "stopped",
        "token",
        "unit",
        "why",
    )

    def __init__(self, unit: str, step: Step, item: Any, token: str, folder: AttemptFolder) -> None:
        self.unit = unit
        self.leaf = step.path
        self.step = step
        self.item = item
        self.token = token
        self.folder = folder
        self.phase = STARTING
        self.process: Process | None = None
        self.checker: Process | None = None  # of the check that runs
        self.began = 0.0  # monotonic
        self.cwd = ""  # rendered
        self.outputs: list[str] = []  # declared, rendered
        self.cache: dict[str, Any] | None = None  # its parts
        self.checks: list[tuple[str, str | None]] = []  # scripts that are left; the criterion they decide
        self.results: dict[str, bool] = {}  # of criteria
        self.exit: Exit | None = None
        self.stopped: str | None = None  # why it was told to end
        self.why: str | None = None  # adopted, reattached
        self.doubtful = False  # nobody knows how it ended: what does not hold puts it back
        self.expands = False  # it finds the items of a `foreach`
        self.follower: LogFollower | None = None

    @property
    def running(self) -> Process | None:
        """The process that runs for it now."""
        return {RUNNING: self.process, CHECKING: self.checker}.get(self.phase)

    @property
    def is_item(self) -> bool:
        return self.item is not NOTHING

    def __repr__(self) -> str:
        return f"<{self.phase} {self.unit}>"


class Left:
    """What a step that ended well has left, to be taken in with its completion."""

    __slots__ = ("cache", "captured", "commit", "criteria", "outputs", "result", "tree", "variables")

    def __init__(
        self, outputs: list[str], captured: list[Captured], result: Any, variables: dict[str, Any]
    ) -> None:
        self.outputs = outputs
        self.captured = captured
        self.result = result  # NOTHING where it returned nothing
        self.variables = variables
        self.criteria: dict[str, bool] = {}
        self.cache: dict[str, Any] | None = None  # what it is known by, and what it set
        self.commit: str | None = None  # that git has checked out by now
        self.tree: Found | None = None  # the files that the run knows, as they are by now

    def put(self, page: Page, path: str) -> None:
        """All but what goes into the step's own record."""
        for got in self.captured:
            got.put(page.changes)
            page.blobs += [got.blob] if got.blob is not None else []
        for key, value in self.variables.items():
            page.put("variable", key, value)
        for key, met in self.criteria.items():
            page.put("criterion", key, {"met": met, "step": path, "at": iso(page.at)})
        row = page.row()
        if self.commit is not None and self.commit != row.card.get("git_head"):
            page.put("run", "git_head", self.commit)
        if self.tree is not None:
            self.tree.put(page.changes, row.seq + 1)
            page.blobs += self.tree.blobs

    def check(self, path: str) -> None:
        """What cannot be kept is the step's failure, found before anything is written."""
        changes = ChangeSet()
        for key, value in self.variables.items():
            changes.put("variable", key, value)
        if self.outputs or self.result is not NOTHING:
            result = None if self.result is NOTHING else self.result
            lifecycle.check(path, {"status": "completed", "outputs": self.outputs, "result": result})


def error_of(exit: Exit, timeout: float | None, tail: str) -> dict[str, Any]:
    """What a failed command's end says, for the step's record."""
    about: dict[str, Any]
    if exit.timed_out:
        from leftoff.workflow.definition.durations import text

        limit = f" after {text(timeout)}" if timeout else ""
        about = {"type": "timeout", "message": f"It was stopped: it took too long (timeout{limit})."}
    elif exit.error:
        about = {"type": "not_started", "message": exit.error}
    elif exit.signal:
        about = {
            "type": "signal",
            "message": f"It was ended by signal {exit.signal} ({_signal(exit.signal)}).",
        }
    else:
        about = {"type": "exit", "message": f"It ended with exit code {exit.code}{_meaning(exit.code)}."}
    about["exit_code"] = exit.code
    if tail:
        about["tail"] = tail
    return about


def about(error: LeftoffError) -> dict[str, Any]:
    """What kept us from doing a step, or from taking in what it left; with what to do where that is known."""
    hint = error.hint if error.hint != type(error).default_hint else ""
    return {"type": error.code, "message": f"{error.message.rstrip('.')}. {hint}" if hint else error.message}


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _meaning(code: int) -> str:
    """What shells mean by some exit codes."""
    return {126: " (found, but cannot be executed)", 127: " (command not found)"}.get(code, "")


def outputs_of(templates: Templates, values: dict[str, Any], step: Step) -> tuple[list[str], str]:
    """The outputs that a step declares, rendered, and the folder that it works in."""
    outputs = [templates.render(text, values, f"{step.path}: outputs") for text in step.outputs]
    return outputs, templates.render(step.cwd, values, f"{step.path}: cwd") if step.cwd else ""


def existing(project: str, cwd: str, patterns: list[str]) -> list[str]:
    """The files that declared outputs stand for; ``Invalid`` names the first that is not there.

    An output is a path or a pattern, relative to the project's folder, else to the one the step works in.
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
