"""Steps of a driven run: do, each, step. A finished step is never run again unless told to.

Entering a step commits that it is running, so that whoever comes after a crash sees what was in flight. Leaving it
commits everything that was buffered meanwhile, and seals a checkpoint.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from leftoff.api.arguments import Given, content, facts, other_arguments
from leftoff.api.arguments import given as arguments_of
from leftoff.api.loops import BROKE, RAISED, UNTOLD, Each
from leftoff.api.step_log import StepLog, listen, logger
from leftoff.clock import iso
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import Seal
from leftoff.errors import Invalid, LeftoffError, StepDone
from leftoff.model.changes import NOTHING
from leftoff.model.frozen import freeze_holed, thaw
from leftoff.model.ids import check_step, quote_part, shown_step, step_readings
from leftoff.model.words import EACH, STEP_ENDED

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from leftoff.api.buffer import Buffer

    Record = dict[str, Any]

T = TypeVar("T")
Item = tuple[T, str, "Given | None"]  # an item, the path of its step, and its content
NO_ARGUMENTS = facts({}, None)
ENDED = STEP_ENDED
DECLARED_AT_ONCE = 500  # items of a batch that are declared in one commit
MOST_FRAMES = 20  # of a traceback that is kept
MOST_LOST = 100_000  # characters of a result that cannot be recorded
_OURS = __file__.rpartition("api")[0]  # where leftoff's own code is
REMEMBERED = 32  # errors that are known to have been sealed


def _check_return(function: Any, path: str) -> None:
    """What cannot be recorded is refused before the work begins, where the function's annotation tells."""
    if getattr(function, "__annotations__", None):
        from leftoff.api.values import check_return

        check_return(function, path)


def _recorded(result: Any, path: str) -> tuple[Any, bool]:
    """A result as JSON, and whether it is something else."""
    if result is NOTHING or type(result) in (str, int, bool, type(None)):
        return result, False
    from leftoff.api.values import encode

    made = encode(result, f"step/{path}.result")
    return made, made is not result


class Step:
    """One step, as a context: ``with run.step("publish") as step: …; step.result = {…}``."""

    def __init__(
        self,
        run: StepsMixin,
        path: str,
        title: str | None = None,
        batch: str | None = None,
        *,
        again: bool = False,
        given: Given | None = None,
    ) -> None:
        self._run = run
        self.path = path
        self.title = title
        self.again = again
        self.batch = batch  # the step of which this is an item
        self.given = given  # its arguments, or the item's content
        self.result: Any = NOTHING
        self.outputs: list[str] = []
        self.began = 0.0
        self._log: StepLog | None = None

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are this step's log."""
        return logger

    def step(self, name: str, **options: Any) -> Step:
        """A step below this one."""
        return self._run.step(f"{self.path}/{name}", **options)

    def __enter__(self) -> Step:
        self._run._enter(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._run._complete(self)
        else:
            self._run._fail(self, error)

    async def __aenter__(self) -> Step:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<step {self.path}>"


class StepsMixin:
    """The part of ``Run`` that knows steps."""

    if TYPE_CHECKING:
        id: str
        _buffer: Buffer

    def _init_steps(self) -> None:
        self._open = threading.local()
        self._left_open: list[tuple[Step, str]] = []
        self._told_errors: list[BaseException] = []
        self._left_undone: str | None = None  # what `map` went on in spite of
        # By path, the arguments of steps that this process did, or took as they were recorded.
        self._called: dict[str, str] = {}

    # -- reading

    @property
    def steps(self) -> Mapping[str, Any]:
        """Steps by path in their declared order: ``run.steps["collect"]["status"]``."""
        self._close_left_open(None)
        with self._buffer.lock:
            there = self._buffer.steps.known()
            return {
                path: freeze_holed(*there[path], f"step/{path}") for path in sorted(there, key=self._rank)
            }

    def _rank(self, path: str) -> list[tuple[int, str]]:
        """Where a step stands: by the order of each part of its path."""
        out, at, there = [], -1, self._buffer.steps.known()
        while True:
            at = path.find("/", at + 1)
            part = path if at < 0 else path[:at]
            order = there[part][0].get("order") if part in there else None
            out.append((order if isinstance(order, int) else 1 << 40, part))
            if at < 0:
                return out

    def done(self, path: str) -> bool:
        """Whether a step is finished: completed or skipped."""
        found = self._named(path)
        return found is not None and found[0]["status"] in ENDED

    def _finished(self, path: str, given: Given | None, batch: str | None = None) -> bool:
        """Whether a step is finished. Raise an error if it was done with other arguments than ``given``."""
        found = self._named(path)
        if found is None or found[0]["status"] not in ENDED:
            return False
        record, called = found[0], self._called.get(path)
        if given is not None and record["status"] == "completed" and "digest" in record:
            if record["digest"] != given.record["digest"] or called not in (None, given.exact):
                raise other_arguments(path, record, given, batch, self.id if called is None else None)
            self._called[path] = given.exact
        return True

    def _named(self, path: str) -> tuple[Record, list[list[Any]]] | None:
        """The step of that path, or of that name as people read it."""
        with self._buffer.lock:
            known = self._buffer.steps.known()
            found = known.get(path)
            if found is None and ("[" in path or "\\" in path):
                found = next(filter(None, map(known.get, step_readings(path))), None)
            return found

    def result(self, path: str) -> Any:
        """Return a copy of what a finished step returned."""
        found = self._named(path)
        if found is None or "result" not in found[0]:
            return None
        kept, where = found[0]["result"], f"the result of step {path}"
        holes = [p[1:] for p in found[1] if p and p[0] == "result"]
        if holes:
            kept = freeze_holed(kept, holes, where)
        if not found[0].get("typed"):
            return kept if holes else thaw(kept)
        from leftoff.api.values import decode

        return decode(kept, where)

    # -- running

    def step(self, path: str, *, again: bool = False, title: str | None = None) -> Step:
        """A step to be entered. One that is finished raises ``StepDone``, unless ``again``."""
        check_step(path)
        if not again and self.done(path):
            raise StepDone(f"Step {shown_step(path)} of run {self.id} is already finished.")
        return Step(self, path, title, again=again)

    def do(self, path: str, fn: Callable[..., T], *args: Any, again: bool = False, **named: Any) -> T:
        """Call ``fn`` as a step, once: where it is finished already, its recorded result is returned instead.

        The arguments count: a finished step that is called with others is an error, ``Usage``, or ``Diverged`` if an
        earlier process did it. ``again`` runs it with the new ones. Each call returns a copy of the recorded result.
        Tuples, sets, dates, dataclasses, arrays and what `leftoff.register` knows come back as what they were.
        """
        given = NO_ARGUMENTS
        if args or named or isinstance(fn, partial):
            given = arguments_of(fn, args, named, self._buffer.redactor)
        if again or not self._finished(path, given):
            _check_return(fn, path)
            with Step(self, check_step(path), again=again, given=given) as step:
                step.result = fn(*args, **named)
        return self.result(path)  # type: ignore[no-any-return]

    def each(
        self,
        path: str,
        items: Iterable[T],
        *,
        key: str | Callable[[T], str] | None = None,
        again: bool = False,
    ) -> Iterator[T]:
        """Loop over items, one step below ``path`` for each; those that are finished are skipped.

        An exception in the loop's body fails the item, ``break`` leaves it pending. Going on to the next completes it.
        With ``key``, a finished item whose content changed is an error, unless ``again``.
        """
        check_step(path)
        return Each(self, path, iter(self._keyed(path, items, key, again)), again)

    def _keyed(
        self, path: str, items: Iterable[T], key: Any, again: bool, fn: Any = None
    ) -> Iterable[Item[T]]:
        """Return each item with the path of its step. A list of items is declared up front, to show the progress.

        ``fn``: the function that is called with the items.
        """
        taken: set[str] = set()

        def name(item: T) -> str:
            part = quote_part(_item_key(item, key))
            below, number = f"{path}/{part}", 2
            while below in taken:
                below, number = f"{path}/{part}#{number}", number + 1
            taken.add(below)
            return below

        def given(item: T) -> Given | None:
            """Return the content of an item. An item without a key is known by its name alone."""
            if isinstance(fn, partial):
                return arguments_of(fn, (item,), {}, self._buffer.redactor)
            return content(item, self._buffer.redactor) if key is not None else None

        if not isinstance(items, (list, tuple, dict, set, frozenset, range)):
            return ((item, name(item), given(item)) for item in items)
        found = [(item, check_step(name(item)), given(item)) for item in items]
        if not again:
            for _, below, now in found:
                self._finished(below, now, path)
        new = [below for _, below, _ in found if self._buffer.steps.get(below) is None]
        if new and self._buffer.steps.get(path) is None:
            self._declare(path, {EACH: True})
        for start in range(0, len(new), DECLARED_AT_ONCE):
            some = new[start : start + DECLARED_AT_ONCE]
            for below in some:
                self._declare(below)
            self._buffer.commit(None, only=[path, *some])
        return found

    def _declare(self, path: str, known: dict[str, Any] | None = None) -> None:
        self._buffer.steps.change(path, lambda record: lifecycle.declare(record["order"], known))

    # -- the life of one step

    def _item(self, path: str, batch: str, given: Given | None) -> Step:
        return Step(self, path, batch=batch, again=True, given=given)  # the loop has asked already

    def _stack(self) -> list[Step]:
        stack: list[Step] | None = getattr(self._open, "stack", None)
        if stack is None:
            stack = self._open.stack = []
        return stack

    def _current_step(self) -> str | None:
        stack = self._stack()
        return stack[-1].path if stack else None

    def _outputs(self, step: str | None, path: str) -> None:
        told = [open_step for open_step in self._stack() if open_step.path == step]
        for open_step in told:
            if path not in open_step.outputs:
                open_step.outputs.append(path)
        if step is not None and not told:
            self._buffer.steps.add_output(step, path)

    def _enter(self, step: Step) -> None:
        self._close_left_open(None)
        record = self._buffer.steps.get(step.path) or {}
        if record.get("status") in ENDED and not step.again:
            raise StepDone(f"Step {shown_step(step.path)} of run {self.id} is already finished.")
        self._buffer.steps.refuse_approval(step.path)
        now = iso(self._buffer.clock.now())

        def begun(record: Record) -> Record:
            out = lifecycle.start(record, now)
            if step.title:
                out["title"] = step.title
            return out

        change = self._buffer.steps.change(step.path, begun)
        step.began = monotonic()
        if self._buffer.heart is not None and self._buffer.burst.defers(step.path, change):
            self._buffer.heart.watch()
        else:
            # It only says what is in flight; the step's end syncs it too.
            self._buffer.commit(None, durable=False, only=[step.batch or step.path, step.path])
        self._stack().append(step)
        listen()
        step._log = StepLog(self._buffer, step.path, self._buffer.steps.known()[step.path][0]["attempt"])
        step._log.enter()

    def _leave_stack(self, step: Step) -> None:
        stack = self._stack()
        if step in stack:
            stack.remove(step)
        if step._log is not None:
            step._log.leave()
            step._log = None

    def _complete(self, step: Step) -> None:
        now = iso(self._buffer.clock.now())
        try:
            result, typed = _recorded(step.result, step.path)
        except Invalid as error:
            self._fail(step, error, lost=step.result)
            raise

        def done(record: Record) -> Record:
            out = lifecycle.complete(record, now, result, typed=typed)
            if step.given is not None:
                out.update(step.given.record)
            if step.outputs:
                out["outputs"] = lifecycle.merged(record.get("outputs"), step.outputs)
            return out

        if step.given is not None:
            self._called[step.path] = step.given.exact
        try:
            # Nobody else's commit may tell that it is complete, without what it did.
            with self._buffer.committing:
                change = self._buffer.steps.change(step.path, done)
                if isinstance(result, (dict, list)):  # not the caller's own object
                    self._buffer.steps.known()[step.path][0]["result"] = change.entry("result")
                self._buffer.burst.over(step.path, monotonic() - step.began)
                self._buffer.commit(Seal("step_complete", step.path))
        except Invalid as error:
            self._fail(step, error)
            raise
        self._leave_stack(step)

    def _fail(self, step: Step, error: BaseException, *, lost: Any = NOTHING) -> None:
        """An exception ended the step: Ctrl-C leaves it to be done again, anything else is its failure."""
        self._leave_stack(step)
        self._buffer.burst.broken(step.path)
        self._told_errors = [*self._told_errors[-REMEMBERED:], error]
        now = iso(self._buffer.clock.now())
        try:
            if isinstance(error, Exception):
                told = {"type": type(error).__name__, "message": self._told(error), **self._trace(error)}
                told.update(self._lost(lost))
                self._buffer.steps.change(step.path, lambda record: lifecycle.fail(record, now, told))
                self._change_batch(step, lambda record: lifecycle.fail(record, now))
                self._buffer.commit(Seal("error", step.path, told["message"]))
            else:
                trigger = "user_interrupt" if isinstance(error, KeyboardInterrupt) else "session_end"
                self._buffer.steps.change(step.path, lambda record: lifecycle.put_back(record, now))
                self._change_batch(step, lifecycle.put_back)
                self._buffer.commit(Seal(trigger, step.path))
        except LeftoffError:
            if isinstance(error, LeftoffError):
                return  # the store is the reason: the first error says it
            raise

    def _change_batch(self, step: Step, change: Callable[[Record], Record]) -> None:
        """A batch whose loop was left is not running any more."""
        if step.batch is not None:
            self._buffer.steps.change(step.batch, change)

    def _lost(self, result: Any) -> Record:
        """Nothing of the work is lost, though it cannot be recorded: what it looks like is kept with the error."""
        if result is NOTHING:
            return {}
        try:
            text = repr(result)
        except Exception:  # it is the program's own
            text = object.__repr__(result)
        return {"result": self._buffer.redactor.mask(text[:MOST_LOST])}

    def _trace(self, error: BaseException) -> Record:
        """Where it was raised: the program's own lines, without ours."""
        if error.__traceback__ is None:
            return {}
        from traceback import extract_tb, format_list

        own = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
        text = "".join(format_list(own[-MOST_FRAMES:]))
        return {"traceback": self._buffer.redactor.mask(text)[:4000]} if text else {}

    def _told(self, error: BaseException) -> str:
        text = error.message if isinstance(error, LeftoffError) else str(error)
        return self._buffer.redactor.mask(text or type(error).__name__)[:2000]

    def _sealed_error(self, error: BaseException) -> bool:
        return any(error is told for told in self._told_errors)

    def _left(self, step: Step, how: str) -> None:
        """A loop was left in the middle of an item. By an exception: it will be told by whoever catches it."""
        if not self._buffer.driving or (self._buffer.steps.get(step.path) or {}).get("status") != "running":
            return
        self._leave_stack(step)
        if how == BROKE:
            self._put_back(step)
        else:
            with self._buffer.lock:
                self._left_open.append((step, how))

    def _put_back(self, step: Step) -> None:
        self._leave_stack(step)
        self._buffer.steps.change(step.path, lifecycle.forget)
        self._change_batch(step, lifecycle.put_back)

    def _close_all(self, error: BaseException | None) -> None:
        """The run is left: so is every loop of this thread that still has an item open."""
        self._left_open += [(step, UNTOLD) for step in self._stack() if step.batch is not None]
        self._close_left_open(error)

    def _close_left_open(self, error: BaseException | None) -> None:
        """Settle the items whose loop was left, now that the error is known or can no longer be."""
        if not self._left_open:
            return
        with self._buffer.lock:
            left, self._left_open = self._left_open, []
        for step, how in left:
            if error is not None:
                self._fail(step, error)
            elif how == RAISED:
                self._fail(step, sys.exc_info()[1] or Exception("An exception, caught outside the loop."))
            else:
                self._put_back(step)


def _item_key(item: Any, key: Any) -> str:
    """What names an item: itself, its field, or what ``key`` says of it."""
    if callable(key):
        name = key(item)
    elif isinstance(key, str):
        name = item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
        if name is None:
            raise Invalid(f"An item of type {type(item).__name__} has no {key!r} to be named by.")
    elif isinstance(item, str):
        name = item
    elif isinstance(item, (int, float)) and not isinstance(item, bool):
        name = repr(item)
    elif hasattr(item, "__fspath__"):
        name = item.__fspath__()
    else:
        raise Invalid(
            f"An item of type {type(item).__name__} has no name of its own.",
            hint='Say what names it: run.each(step, items, key="id"), or key=lambda item: …',
        )
    if not isinstance(name, (str, int)) or name == "":
        raise Invalid(f"{name!r} cannot name an item.", hint="key= must give text that is not empty.")
    return str(name)
