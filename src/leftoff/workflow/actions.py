"""Turn a step into the command of an attempt, and what the attempt leaves into a result.

There is one action per kind of step. It makes the command that a shim executes. Kinds that only wait for a person have
none. Headless agents register their action here; the driver knows nothing else of them.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.tracking import Captured, Found
from leftoff.errors import Invalid, LeftoffError, Unsupported
from leftoff.host import Process, python
from leftoff.model.changes import NOTHING, ChangeSet
from leftoff.store.rows import BlobRow, RunRow
from leftoff.workflow.attempt_folder import (
    ARGS,
    RESULT,
    SCRIPT,
    VARS,
    AttemptFolder,
    Exit,
    Job,
    LogFollower,
)
from leftoff.workflow.definition import StepDefinition
from leftoff.workflow.durations import duration_text as duration_text
from leftoff.workflow.run_state import RunState
from leftoff.workflow.templates import Templates, Values, whole_expression

if TYPE_CHECKING:
    from leftoff.workflow.driver import Driver

NO_FOLDER = AttemptFolder("")
STARTING, RUNNING, CHECKING = "starting", "running", "checking"


@dataclass(eq=False)
class LiveAttempt:
    """An attempt at a step, or at an item of one. It has a process, or will have one."""

    unit: str
    step: StepDefinition
    item: Any  # NOTHING if it is not an item
    token: str
    folder: AttemptFolder
    phase: str = STARTING
    process: Process | None = None
    check_folder: AttemptFolder = NO_FOLDER  # of the check that runs
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
    because: str | None = None  # why it is not taken from an earlier run
    reattached: bool = False  # an earlier driver started it
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


@dataclass
class StepLeft:
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
        known = exit.signal in set(signal.Signals)
        name = signal.Signals(exit.signal).name if known else "unknown"
        about = {"type": "signal", "message": f"It was ended by signal {exit.signal} ({name})."}
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


def outputs_of(state: RunState, step: StepDefinition, item: Any) -> tuple[list[str], str]:
    """Return the declared outputs of a step and its working folder, rendered."""
    values, render = state.values(step, item), state.templates.render
    outputs = [render(text, values, f"{step.path}: outputs") for text in step.outputs]
    return outputs, render(step.cwd, values, f"{step.path}: cwd") if step.cwd else ""


def existing(project: str, cwd: str, patterns: Sequence[str]) -> list[str]:
    """Return the files of declared outputs. Raise ``Invalid`` for the first that is missing.

    An output is a path or a pattern, relative to the project's folder, else to the step's working folder.
    """

    def matches(full: str) -> list[str]:
        if os.path.lexists(full):
            return [os.path.normpath(full)]
        return sorted(glob.glob(full, recursive=True)) if glob.has_magic(full) else []

    out: list[str] = []
    for pattern in patterns:
        found = matches(os.path.join(project, pattern)) or matches(os.path.join(project, cwd, pattern))
        if not found:
            raise Invalid(
                f"The declared output {pattern} is not there.",
                hint="The command must write it, or the step must not declare it.",
            )
        out += found
    return out


LONGEST = 100_000  # bytes of a script on a command line; a longer one goes through a file
_BASH = ("-eo", "pipefail")
_INLINE = {**dict.fromkeys("perl ruby node lua Rscript".split(), "-e"), "php": "-r"}  # -c is another thing


@dataclass
class Command:
    """What to execute, and what to add to its environment.

    ``values`` are the variables that hold the values of its script. They decide what the command does, so they are a
    part of the step's cache key.
    """

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)


class Action:
    """A way to do a step."""

    def command(self, step: StepDefinition, templates: Templates, values: Values, folder: str) -> Command:
        """Return the command line of an attempt whose files are in ``folder``."""
        raise NotImplementedError

    def result(self, folder: str) -> Any:
        """Return the step's result after its command ended well; ``NOTHING`` if there is none."""
        try:
            with open(os.path.join(folder, RESULT), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return NOTHING

    def failure(self, folder: str) -> dict[str, Any]:
        """Return what the command reports about its failure: a `message`, and facts."""
        return {}


class Shell(Action):
    """`run:` a script for the shell."""

    def command(self, step: StepDefinition, templates: Templates, values: Values, folder: str) -> Command:
        return script(step, step.run, templates, values, folder, f"{step.path}: run")

    def result(self, folder: str) -> Any:
        return NOTHING


class Python(Action):
    """`python:` a function, called in a new process."""

    def command(self, step: StepDefinition, templates: Templates, values: Values, folder: str) -> Command:
        env = exchange(_filled(step.args, templates, values, f"{step.path}: with"), folder)
        return Command([*python("leftoff.workflow.python_step"), step.python], env)


KNOWN: dict[str, Action] = {"run": Shell(), "python": Python()}


def register_action(kind: str, action: Action) -> None:
    """Make a kind of step executable."""
    KNOWN[kind] = action


def action_of(step: StepDefinition) -> Action:
    found = KNOWN.get(step.kind)
    if found is None:
        raise Unsupported(
            f"{step.path}: this leftoff cannot execute `{step.kind}:` steps.",
            hint="Give the step `run:` or `python:`, or no action at all and do it by hand.",
        )
    return found


def script(
    step: StepDefinition, text: str, templates: Templates, values: dict[str, Any], folder: str, where: str
) -> Command:
    """Return the command that executes a script of a step, with the script's values in its environment."""
    shell = shell_of(step)
    rendered, held = templates.shell(text, values, where, shell=shell)
    if isinstance(step.shell, list):
        argv = [*shell, rendered]
    elif len(rendered.encode("utf-8", "surrogateescape")) <= LONGEST:
        argv = [*shell, _INLINE.get(os.path.basename(shell[0]), "-c"), rendered]
    else:
        argv = [*shell, _kept(os.path.join(folder, f"{SCRIPT}{abs(hash(where)) % 10_000}"), rendered)]
    return Command(argv, values=held)


def exchange(args: Any, folder: str) -> dict[str, str]:
    """Return the environment with the arguments of a process and the path for its result."""
    text = json.dumps(args)
    if len(text) > LONGEST:  # JSON is ASCII
        text = "@" + _kept(os.path.join(folder, ARGS), text)
    return {"LEFTOFF_ARGS": text, "LEFTOFF_RESULT": os.path.join(folder, RESULT)}


def _kept(path: str, text: str) -> str:
    """Write a text to a file. Return its path."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def shell_of(step: StepDefinition) -> list[str]:
    """Return the step's shell; by default bash if there is one, which ends at the first failure."""
    if isinstance(step.shell, list):
        return list(step.shell)
    if step.shell:
        words = shlex.split(step.shell)
        if not words:
            raise Invalid(f"{step.path}: `shell:` is empty.")
        return words
    bash = shutil.which("bash")
    return [bash, *_BASH] if bash else [shutil.which("sh") or "/bin/sh", "-e"]


def _filled(value: Any, templates: Templates, values: dict[str, Any], where: str) -> Any:
    """Render the templates in arguments. A text that is one template keeps its value's type."""
    if isinstance(value, dict):
        return {key: _filled(entry, templates, values, where) for key, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, templates, values, where) for entry in value]
    if not isinstance(value, str):
        return value
    if whole_expression(value) is not None:
        return templates.value(value, values, where)
    return templates.render(value, values, where)


# -- jobs


def job_of(
    driver: Driver, live: LiveAttempt, command: Command, values: dict[str, Any], *, check: str = ""
) -> Job:
    """Return the job of a step's command, or of the named check of it.

    A check runs in the project's folder, to which declared outputs are relative too. It ends with its driver: a driver
    that resumes the run checks again.
    """
    setting, step = driver.setting, live.step
    env = {
        **driver.environ,
        **setting.secrets,
        **own_environment(driver.templates, step, values),
        "LEFTOFF_SECRETS": ",".join(setting.secrets),
        "LEFTOFF_RUN": driver.run_id,
        "LEFTOFF_STEP": live.unit,
        "LEFTOFF_ATTEMPT": live.token,
        "LEFTOFF_PROJECT": setting.project,
        "LEFTOFF_STORE": setting.store_url,
        "LEFTOFF_BRANCH": str(driver.state.facts.get("branch") or "main"),
        "LEFTOFF_VARS": live.folder.file(VARS),
        "LEFTOFF_PERSIST": "" if step.persist is None else "\n".join(step.persist) or "\n",
        **command.env,
        **command.values,
    }
    secrets = tuple(value for value in setting.secrets.values() if value)
    token = f"{live.token}.{check}" if check else live.token
    folder = live.check_folder if check else live.folder
    cwd = setting.project if check else os.path.join(setting.project, live.cwd)
    limits = (step.timeout, setting.grace, secrets)
    return Job(token, folder.path, command.argv, env, cwd, *limits, bound=bool(check))


def start_check(driver: Driver, live: LiveAttempt, text: str, name: str) -> str:
    """Start a check of what an attempt left, in a folder of that name below the attempt's. Return its token."""
    folder = live.check_folder = live.folder.below(name)
    folder.remove()  # an earlier driver may have died while it checked
    folder.make()
    values = driver.state.values(live.step, live.item)
    command = script(live.step, text, driver.templates, values, folder.path, f"{live.step.path}: checks")
    job = job_of(driver, live, command, values, check=name)
    driver.launcher.start(job)
    return job.token


def own_environment(templates: Templates, step: StepDefinition, values: dict[str, Any]) -> dict[str, str]:
    """Return what the definition puts into a step's environment."""
    return {
        name: templates.render(text, values, f"{step.path}: env: {name}") for name, text in step.env.items()
    }
