"""One call of a step (or of a workflow inside another): replayed, or begun, repeated and recorded.

Nothing waits in here. `leftoff.python.durable_running` calls the function and sleeps between attempts, in a thread
or in a coroutine.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Seal
from leftoff.errors import Invalid, LeftoffError, NeedsPerson, StepFailed, StepTimeout, Usage
from leftoff.model.changes import NOTHING
from leftoff.model.ids import ancestors, step_word
from leftoff.model.words import ONCE_MORE
from leftoff.python.arguments import argument_key, call_facts
from leftoff.python.replay import Scope, needs_key
from leftoff.python.values import encode_value

if TYPE_CHECKING:
    from leftoff.python.durable import Durable
    from leftoff.python.durable_running import Map

# The number of a call in its scope (0: it has a key, or is an item of a map), its step's path and order.
Place = tuple[int, str, int]

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
_KEPT = ("order", "attempt", "title", "status", "why", ONCE_MORE)  # of the record of an earlier attempt
NOW, LATER, NEVER = "now", "later", "never"  # when a failure reaches the workflow


class Call:
    """A function, its arguments, and the step that records the call."""

    def __init__(
        self,
        function: Durable[..., Any],
        scope: Scope,
        args: tuple[Any, ...],
        named: dict[str, Any],
        arguments: dict[str, Any],
        place: Place,
        *,
        is_map: bool = False,
    ) -> None:
        self.function = function
        self.scope = scope
        self.args = args
        self.named = named
        self.given = call_facts(arguments, scope.flow.buffer.redactor).of(function.code)
        self.facts = self.given.record
        self.number, self.path, self.order = place
        self.has_below = is_map or function.is_group  # whether its steps are below it
        self.reaches = NOW
        self.map: Map | None = None  # of which this is an item
        self.looked = False  # whether the record was looked at
        self.replaces = False  # a record that no longer fits, on purpose
        self._claimed = False
        self.old: dict[str, Any] = {}
        self._record: dict[str, Any] = {}
        self._failed = 0
        self._began = 0.0

    @property
    def begun(self) -> bool:
        return bool(self._record)

    @property
    def attempt(self) -> int:
        return int(self._record["attempt"])

    # -- replay

    def recorded(self) -> Any:
        """Return the recorded result, raise the recorded failure, or return ``MISSING`` if the call is to be made."""
        if self.looked:
            return MISSING
        self.looked = True
        flow = self.scope.flow
        if 0 < self.number <= self.scope.last:
            flow.follow(self)
        record = flow.buffer.step(self.path)
        if record is None:
            return MISSING
        if not flow.fits(self, record):
            self.replaces = True
            same = record.get("version") == self.function.settings.version
            what = (
                "version" if not same else "code" if record["digest"] == self.facts["digest"] else "arguments"
            )
            self.old = {key: record[key] for key in ("order", "attempt") if key in record}
            self.old |= {"status": "pending", "why": f"its {what} changed"}
            return MISSING
        if record["status"] in ("completed", "skipped"):
            return flow.steps.result(self.path)
        self.old = record
        if "raised" in record:
            self._raise_again(record, record["raised"])
        if "in_doubt" in record and self.path not in flow.again:
            raise flow.breaks(
                NeedsPerson(
                    f"Step {self.path} of run {flow.run.id} was cut off, and is not to be repeated blindly "
                    "(idempotent=False).",
                    hint=f"If it took effect: leftoff step done {step_word(self.path)} --run {flow.run.id} "
                    f"--result JSON, with what it returned. If not: resume with again=[{self.path!r}].",
                )
            )
        return MISSING

    def _raise_again(self, record: dict[str, Any], raised: dict[str, Any]) -> None:
        """Raise a failure that the workflow had caught. Any other is tried again."""
        flow, number = self.scope.flow, raised.get("next")
        if raised.get("escaped"):
            flow.give_way(self, raised)
        elif number is not None and self.scope.last >= number:
            # This step and those below it failed as they were recorded: resuming had made them pending.
            for path in flow.below(self.path):
                found = flow.buffer.step(path)
                if found is not None and "error" in found:
                    flow.buffer.move_step(path, lifecycle.fail(found, flow.buffer.now(), found["error"]))
            error = step_failed(self.path, record.get("error") or {})
            flow.failed(error, self)
            raise error

    # -- its life

    def begin(self) -> None:
        """Start an attempt."""
        flow, old = self.scope.flow, self.old
        self._must_be_wanted()
        if not self._claimed:
            if flow.live.setdefault(self.path, self) is not self:
                raise Usage(
                    f"Step {self.path} is under way in another thread.", hint="Its key must be its own."
                )
            self._claimed = True
        kept = {"order": self.order, **{key: old[key] for key in _KEPT if key in old}}
        record = lifecycle.start(kept, flow.buffer.now())
        record.update(self.facts)
        if self.function.settings.version is not None:
            record["version"] = self.function.settings.version
        if flow.revision:
            record["revision"] = flow.revision
        self._failed = int(old.get("retried") or 0)
        self._record, self._began = record, monotonic()
        if self.has_below:
            flow.buffer.move_step(self.path, record)
            return
        durable = not self.function.settings.idempotent
        if durable:
            record["in_doubt"] = True
        if self._failed:
            record["retried"] = self._failed
        with flow.recording():
            flow.buffer.start_step(self.path, record, ancestors(self.path), durable=durable)

    def _release(self) -> None:
        if self._claimed:
            self.scope.flow.live.pop(self.path, None)
            self._claimed = False

    def _must_be_wanted(self) -> None:
        """Refuse the outcome of a thread that was left behind by Ctrl-C or a timeout."""
        if self.scope.flow.closed:
            raise Usage(f"Step {self.path} ended after its workflow; it is not recorded.")

    def succeed(self, value: Any) -> Any:
        """Record what the function returned. Return the value as every later call gets it."""
        flow = self.scope.flow
        try:
            result = encode_value(value, f"the result of {self.function.name}")
            record = lifecycle.complete(self._record, flow.buffer.now(), result, typed=result is not value)
            record.pop("in_doubt", None)
            record.pop("retried", None)
            self._must_be_wanted()
            took = monotonic() - self._began
            self._release()
            with flow.recording():
                change = flow.buffer.move_step(self.path, record)
                flow.buffer.commit_completed(self.path, record, change, took)
        except Invalid as error:  # it cannot be recorded
            self.fail(error, lost=value)
            raise
        return flow.steps.result(self.path)

    def pause_after(self, error: BaseException) -> float:
        """Record how an attempt ended. Return the seconds until the next one, or raise the error if there is none."""
        if not isinstance(error, Exception):
            self.cut_off(error)
            raise error
        pause = self.fail(error)
        if pause is None:
            raise error
        return pause

    def fail(self, error: Exception, lost: Any = NOTHING) -> float | None:
        """Record that the function raised. Return the seconds until the next attempt, or ``None`` if there is none.

        ``lost``: what it returned, if that cannot be recorded.
        """
        flow, settings = self.scope.flow, self.function.settings
        self._must_be_wanted()
        self._failed += 1
        kind = type(error)
        named = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__qualname__}"
        )
        record = lifecycle.retry(self._record, flow.steps.describe(error, named, lost))
        in_doubt = isinstance(error, StepTimeout) and not settings.idempotent
        pause = None if self.has_below or in_doubt else settings.pause_after(error, self._failed)
        if pause is not None:
            record["retried"] = self._failed
            record.pop("in_doubt", None)
            with flow.recording():
                flow.buffer.fail_step(self.path, record, None)
            self.old = record
            return pause
        if not in_doubt:
            record.pop("in_doubt", None)
        record.pop("retried", None)
        if self.map is not None:
            self.map.stopped = True
        record = lifecycle.fail({**record, "why": self._record["why"]}, flow.buffer.now(), record["error"])
        if self.reaches == NOW:
            record["raised"] = {"next": self.scope.count + 1}
            if not self.scope.own():
                record["raised"]["apart"] = True
        elif self.reaches == LATER:
            record["raised"] = {}
        sealed = flow.steps.is_sealed(error)
        flow.steps.mark_sealed(error)
        self.old = record
        flow.failed(error, self)
        self._release()
        try:
            seal = None if sealed else Seal("error", self.path, record["error"]["message"])
            flow.buffer.fail_step(self.path, record, seal)
        except LeftoffError as problem:
            flow.breaks(problem)
            if not isinstance(error, LeftoffError):
                raise
        return None

    def reached(self) -> None:
        """Record that a deferred failure reaches the workflow only now."""
        if "raised" in self.old:
            record = self._raised(next=self.scope.count + 1)
            # At once: the start of the next step is committed alone, and must not come before this.
            with self.scope.flow.recording():
                self.scope.flow.buffer.fail_step(self.path, record, None)

    def mark_escaped(self) -> None:
        """Record that the failure ended the run."""
        if "raised" in self.old:
            self.scope.flow.buffer.move_step(self.path, self._raised(escaped=True))

    def _raised(self, **facts: Any) -> dict[str, Any]:
        if self.old["status"] != "failed":  # resuming had made it pending
            self.old = lifecycle.fail(self.old, self.scope.flow.buffer.now(), self.old.get("error"))
        self.old = {**self.old, "raised": {**self.old["raised"], **facts}}
        return self.old

    def cut_off(self, error: BaseException) -> None:
        """Record that Ctrl-C, an exit or a cancelled task ended it: it is to be done again."""
        flow = self.scope.flow
        self._release()
        if flow.closed:
            return
        seal = None
        if isinstance(error, KeyboardInterrupt) and not flow.steps.is_sealed(error):
            flow.steps.mark_sealed(error)
            seal = Seal("user_interrupt", self.path)
        try:
            flow.buffer.fail_step(self.path, self._interrupted(), seal)
        except LeftoffError as problem:  # the error that ended the step is the one to raise
            flow.breaks(problem)

    def put_back(self) -> None:
        """Make the step pending: the workflow is left while another thread still makes the call."""
        if self.begun:
            self.scope.flow.buffer.move_step(self.path, self._interrupted())

    def _interrupted(self) -> dict[str, Any]:
        return lifecycle.put_back(self._record, self.scope.flow.buffer.now())


def place_call(
    function: Durable[..., Any], scope: Scope, args: tuple[Any, ...], named: dict[str, Any]
) -> Call:
    """Return a call with its identity, which is taken when the call is made."""
    scope.flow.check()
    own = scope.own()
    bound = function.signature.bind(args, named)
    arguments = function.counted(bound)
    key = function.key_of(bound, args, named)
    if key is None and function.settings.keyed:
        key = argument_key(arguments, scope.flow.buffer.redactor)
    if key is None and not own:
        raise needs_key(function.name, "another thread or task than the workflow's own")
    keyed = (0, scope.keyed_path(function.name, key), scope.count) if key is not None else None
    call = Call(function, scope, args, named, arguments, keyed or scope.next_place(function.name))
    if not own:
        call.reaches = LATER
    return call


# -- a recorded failure as an exception: of the same class if possible, so that the same ``except`` catches it

_made: dict[type, type[StepFailed]] = {}


def step_failed(path: str, about: dict[str, Any]) -> StepFailed:
    """Return the failure of a step as its record describes it."""
    kind, message = str(about.get("type") or "Exception"), str(about.get("message") or "")
    plain = StepFailed(message, step=path, kind=kind)
    plain.hint = ""  # its text is the message alone, as it was the first time
    original = _original(kind)
    if original is None:
        return plain
    try:
        both = _both(original)
        try:  # without its __init__, which may need any arguments
            made = BaseException.__new__(both)
        except TypeError:  # OSError and its like have a __new__ of their own
            made = original.__new__(both)
    except TypeError:  # a class that cannot be made or derived from so
        return plain
    made.args = plain.args
    made.__dict__.update(plain.__dict__)
    return made


def _original(name: str) -> type[Exception] | None:
    """Return the exception's class if the program has loaded it. Nothing is imported for this."""
    module, _, qualname = name.rpartition(":")
    found: Any = sys.modules.get(module or "builtins")
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _both(original: type[Exception]) -> type[StepFailed]:
    if issubclass(original, StepFailed):
        return original
    if original not in _made:
        _made[original] = type(original.__name__, (StepFailed, original), {"__module__": original.__module__})
    return _made[original]
