"""Every error that leaves leftoff, as one tree.

::

    LeftoffError
    ├── Usage              2   the call itself is wrong
    │   ├── Ambiguous      2   a REF that names several things
    │   └── BadDefinition  2   a workflow file with a mistake: file:line:column
    ├── NotFound           3   no such run, step, record or file
    │   └── NoCheckpoint   3   no such checkpoint or version
    │       └── Pruned     3   it was there, and retention removed it
    ├── BadData            4
    │   ├── Corrupt        4   bytes are not what was written
    │   ├── Invalid        4   a value, name or document that cannot be kept
    │   │   ├── BadSettings 2  a leftoff.toml with a mistake: file:line:column
    │   │   └── BadTemplate 4  a template of a workflow that cannot be rendered with the values there are
    │   ├── Unsupported    4   written by a newer leftoff, or in a way this one cannot handle
    │   └── Rewound        4   the store went back behind what it had acknowledged: versions of a run are lost
    ├── Conflict           5   someone else was first
    │   ├── LeaseHeld      5   another live process drives the run
    │   ├── StaleEpoch     5   this process was the driver, and is no longer
    │   └── StepDone       5   the step is finished already
    ├── CannotResume       6   the world changed; carries its findings
    │   ├── Diverged       6   a resumed run makes other calls than were recorded
    │   └── UnsafePath     6   a link, a pipe, a device or a read-only file is where leftoff would write or read
    ├── NeedsPerson        7   a question that only a person may answer
    │   └── Redacted       7   a secret that was never stored, to be given again
    ├── StepFailed         1   a step failed in an earlier process, and its workflow had caught that
    ├── StepTimeout        1   a step took longer than it may (also a TimeoutError)
    ├── StoreUnavailable   8   out of reach, read-only, locked, disk full, I/O error
    └── Frozen             2   a value read from a run was changed in place (also a TypeError)

Each class fixes ``code`` (a stable word), ``exit_code`` (of the command), ``retry`` (whether the same call may
succeed later) and a default ``hint``. Errors of the operating system become ours in ``leftoff.files``, those of a
server or of SQLite in the store's ``failures``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    T = TypeVar("T")

MOST_LISTED = 10  # of what it could have been


class LeftoffError(Exception):
    """What is wrong (the message) and what to do about it (the hint)."""

    code = "error"
    exit_code = 1
    retry = False
    default_hint = "LEFTOFF_DEBUG=1 shows where it comes from."

    #: what it could have been: name, what that is, its status, and when it was last touched (milliseconds)
    listed: Sequence[tuple[str, str, str, int]] = ()
    #: lines for the user to copy into a file, printed after the hint
    paste = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    @property
    def whole(self) -> str:
        """What is wrong, in one line, with the names of what it could have been."""
        if not self.listed:
            return self.message
        names = [name for name, *_ in self.listed]
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        return f"{self.message.removesuffix('.')}: {', '.join(names[:MOST_LISTED])}{more}."

    def __str__(self) -> str:
        return f"{self.whole}\n{self.hint}" if self.hint else self.whole


class Usage(LeftoffError):
    code = "usage"
    exit_code = 2
    default_hint = (
        "Nothing was changed. See `leftoff help`, or docs/reference/python-api.md for the Python API."
    )


class Ambiguous(Usage):
    code = "ambiguous"
    default_hint = "Give a longer part of the id, or one of the candidates."
    runs = False  # whether the candidates are runs, by their ids

    def __init__(
        self, message: str, *, listed: Sequence[tuple[str, str, str, int]] = (), hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.listed = list(listed)

    @property
    def candidates(self) -> list[str]:
        """The names of what it could have been."""
        return [name for name, *_ in self.listed]


class BadDefinition(Usage):
    """The message has one line per problem, each starting with ``file:line:column:``."""

    code = "bad_definition"
    default_hint = "Nothing was started. docs/reference/workflow-file.md explains every key."


class NotFound(LeftoffError, LookupError):
    code = "not_found"
    exit_code = 3
    default_hint = "`leftoff status --all` lists every run."


class NoCheckpoint(NotFound):
    code = "no_checkpoint"
    default_hint = "`leftoff history RUN` lists the checkpoints of a run."


class Pruned(NoCheckpoint):
    code = "pruned"
    default_hint = "Retention removed it; choose a checkpoint that `leftoff history RUN` still lists."


class BadData(LeftoffError):
    code = "bad_data"
    exit_code = 4
    default_hint = "Nothing was changed. `leftoff fsck` checks what is stored."


class Corrupt(BadData):
    code = "corrupt"
    default_hint = "`leftoff fsck` shows the extent of the damage; `leftoff fsck --repair` sets it aside."
    older = False  # whether it is a store that is whole, and older than it was

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.where = where


class Invalid(BadData, ValueError):
    code = "invalid"
    default_hint = "Nothing of it was stored. Correct it, then try again."

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class BadSettings(Invalid):
    """The message starts with ``file:line:column:``."""

    code = "bad_settings"
    exit_code = 2
    default_hint = "Nothing was changed. docs/reference/settings.md explains every key."


class BadTemplate(Invalid):
    code = "bad_template"
    default_hint = (
        "Correct the template in the workflow file, or set the variable; see docs/reference/workflow-file.md."
    )


class Unsupported(BadData):
    code = "unsupported"
    default_hint = "Upgrade leftoff (`pip install --upgrade leftoff`)."


class Rewound(BadData):
    code = "rewound"
    default_hint = (
        "A server that lacked the last commits took over, or a backup was put back. Nothing was changed. "
        "`leftoff verify` says what is left; resume the run, or open it again, to continue from there."
    )

    run_id = ""
    kept = 0  #: the version that the run is at
    newest = 0  #: the one that it was at


class Conflict(LeftoffError):
    code = "conflict"
    exit_code = 5
    default_hint = "Nothing was changed. Look at the current state, then try again."


class LeaseHeld(Conflict):
    code = "lease_held"
    retry = True
    default_hint = "Wait for it, or stop it there; a driver that died is replaced automatically."


class StaleEpoch(Conflict):
    code = "stale_epoch"
    default_hint = "Another process took the run over. Stop here; what was committed before is kept."


class StepDone(Conflict):
    code = "step_done"
    default_hint = (
        "Ask `run.done(step)` first, or use `run.do(step, fn)`; `again=True` runs it again on purpose."
    )


class CannotResume(LeftoffError):
    code = "cannot_resume"
    exit_code = 6
    default_hint = "Resume an older checkpoint, or start a new run."

    def __init__(self, message: str, *, findings: Sequence[object] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = list(findings)


class Diverged(CannotResume):
    code = "diverged"
    default_hint = (
        "A workflow must make the same calls each time: what differs from one time to the next (the time, chance, "
        "files) belongs in a step. Changed on purpose? A new version= on the step or the workflow runs what no longer "
        "fits again. Or start a new run."
    )


class UnsafePath(CannotResume):
    code = "unsafe_path"
    default_hint = "It was left as it is. Move it away, or replace it with a plain file, then try again."


class NeedsPerson(LeftoffError):
    code = "needs_person"
    exit_code = 7
    default_hint = "Ask the person in charge, then continue."


class Redacted(NeedsPerson):
    code = "redacted"

    def __init__(self, name: str, *, field: str = "", hint: str = "") -> None:
        allow = f'[redaction] allow = ["{field}"]' if field else "[redaction] allow"
        if hint:
            pass
        elif name.lower().startswith(("the result of step ", "step/")):
            hint = (
                "Secrets are not stored: read it inside the step that needs it. If it is not a secret, allow it in "
                f"leftoff.toml ({allow}) and run the step again: again=True, or a new version= of a durable step."
            )
        else:
            how = "the whole value to run.variables[…]" if field else f"run.variables[{name!r}] = …"
            hint = (
                f"Secrets are not stored. Assign it again ({how}), or read it from the environment. If it is not a "
                f"secret, allow it in leftoff.toml: {allow}."
            )
        super().__init__(f"{name} was redacted when it was saved.", hint=hint)
        self.name = name


class StepFailed(LeftoffError):
    """What was recorded of it: ``step``, ``kind`` (the exception's class) and the message.

    An instance of that class too, where that can be, so that the same ``except`` catches it.
    """

    code = "step_failed"
    default_hint = (
        "The failure is recorded, and the workflow continued without the step; it does not run again."
    )

    def __init__(self, message: str, *, step: str = "", kind: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.step = step
        self.kind = kind


class StepTimeout(LeftoffError, TimeoutError):
    code = "step_timeout"
    default_hint = "Give it more time (timeout=), or make it faster; resuming runs it again."


class StoreUnavailable(LeftoffError):
    code = "store_unavailable"
    exit_code = 8
    retry = True
    default_hint = (
        "Nothing was changed. Check the disk (`df -h`) and the folder's permissions, then try again."
    )


class Frozen(LeftoffError, TypeError):
    code = "frozen"
    exit_code = 2
    default_hint = (
        'Make a copy, change it and assign it: x = list(run.variables["x"]); …; run.variables["x"] = x'
    )


def usage_errors(call: Callable[[], T]) -> T:
    """Call a function that reads a request. A value that cannot be stored is wrong usage there, not bad data."""
    try:
        return call()
    except Invalid as error:
        raise Usage(error.message, hint=error.hint) from None


def extra_hint(extra: str) -> str:
    """Return how to install an optional extra."""
    return f"Install leftoff with the extra `{extra}`: pip install 'leftoff[{extra}]', or '.[{extra}]' in a clone."
