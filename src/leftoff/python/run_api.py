"""Runs as objects: `RunView` reads one, `Run` is one that this process drives.

A `RunView` takes no lease and writes nothing. The changes of a `Run` are buffered. They become durable together: at
``commit()``, at ``checkpoint()`` and at the end of a step. That is also when other processes see them, and when this
one picks up theirs. A commit that fails keeps its changes: call it again.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import contextmanager
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from leftoff.clock import Clock
from leftoff.engine import find
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Head, Seal, new_token
from leftoff.engine.history import Diff, diff
from leftoff.engine.lease import gone
from leftoff.engine.opening import status_changes
from leftoff.engine.project_files import given_path
from leftoff.engine.restoring import RestorePlan, Restorer
from leftoff.engine.run_info import LIMITS, RunInfo, run_info
from leftoff.engine.run_reader import Reader, Value, need_version
from leftoff.engine.step_lifecycle import note_record
from leftoff.engine.tracking import capture, look_around, track_given
from leftoff.errors import Corrupt, NeedsPerson, NotFound, Redacted, StoreUnavailable
from leftoff.model.changes import Version, check_address
from leftoff.model.codec import freeze_holed
from leftoff.model.ids import check_step, parse_ref, quote_part, shown_step
from leftoff.model.words import UNFINISHED, refuse_decision
from leftoff.python.arguments import Signature, call_key, given_arguments
from leftoff.python.calls import (
    ATTEMPTS,
    ONCE,
    Attempts,
    check_size,
    code_digest,
    is_coroutine_function,
    make_step,
    plainly,
)
from leftoff.python.item_steps import Each, ItemMap, Results, found_items
from leftoff.python.run_buffer import Heartbeat, RunBuffer
from leftoff.python.run_steps import NO_ARGUMENTS, RunSteps, Step, logger
from leftoff.python.values import restored
from leftoff.store.base import SqlStore as StoreOfRuns
from leftoff.store.base import View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.python.store_api import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_DO_OPTIONS = ("keyed", *ATTEMPTS)


class _Attempts(TypedDict, total=False):
    again: bool
    retries: int | dict[str, Any]
    retry_on: type[Exception] | tuple[type[Exception], ...]
    timeout: float | str | None
    on_code_change: Literal["warn", "rerun", "ignore"]


class DoOptions(_Attempts, total=False):
    """The options of ``do``."""

    keyed: bool


class MapOptions(_Attempts, Generic[T], total=False):
    """The options of ``map``."""

    name: str | None
    key: str | Callable[[T], str] | None
    max_parallel: int
    keep_going: bool


class _Named(Mapping[str, T]):
    """A mapping that knows its keys before it reads a value. Its ``repr`` shows what is redacted or damaged as such."""

    __slots__ = ()

    def _keys(self) -> Collection[str]:
        raise NotImplementedError

    def __contains__(self, key: object) -> bool:
        return key in self._keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def __repr__(self) -> str:
        parts = []
        for key in self:
            try:
                parts.append(f"{key!r}: {self[key]!r}")
            except Redacted:
                parts.append(f"{key!r}: <redacted>")
            except Corrupt:
                parts.append(f"{key!r}: <damaged>")
        return "{" + ", ".join(parts) + "}"


class Values(_Named[Any]):
    """A read-only collection of records, decoded when they are looked at."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: dict[str, Value]) -> None:
        self._name = name
        self._values = values

    def _keys(self) -> Collection[str]:
        return self._values

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if self._name == "variable":
            return restored(freeze_holed(value.plain, value.holes, key), key)
        return freeze_holed(value.plain, value.holes, f"{self._name}/{key}")


class Collections(_Named[Mapping[str, Any]]):
    """``run.records["knowledge"]``: any collection by its name."""

    __slots__ = ("_of",)

    def __init__(self, of: Readable) -> None:
        self._of = of

    def _keys(self) -> Collection[str]:
        return self._of._names()

    def __getitem__(self, collection: str) -> Mapping[str, Any]:
        check_address(collection, "any")
        return self._of._read(collection)

    def __repr__(self) -> str:
        return f"<records: {', '.join(self)}>"


class Readable:
    """The records of a run, at its newest state or at one version."""

    def __init__(self, store: StoreOfRuns, number: int, run_id: str, at: int | None = None) -> None:
        self._store = store
        self._number = number
        self._run_id = run_id
        self._at = at  # the seq of the version; None: the newest state

    def _reader(self, view: View) -> Reader:
        return Reader(self._store, view, self._number, self._run_id, self._at)

    def _read(self, collection: str) -> Mapping[str, Any]:
        return Values(collection, self._store.read(lambda view: self._reader(view).values(collection)))

    def _names(self) -> list[str]:
        def look(view: View) -> list[str]:
            if self._at is None:
                return view.collections(self._number)
            reader = self._reader(view)
            return [name for name in reader.collections() if reader.raw(name)]

        return self._store.read(look)

    @property
    def variables(self) -> Mapping[str, Any]:
        return self._read("variable")

    @property
    def steps(self) -> Mapping[str, Any]:
        """Steps by path: ``run.steps["collect"]["status"]``."""
        return self._read("step")

    @property
    def artifacts(self) -> Mapping[str, Any]:
        return self._read("artifact")

    @property
    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """Any collection: ``run.records["knowledge"]["KE-1"]``."""
        return Collections(self)


class Snapshot(Readable):
    """A run at one version: read-only, whatever happens to the run meanwhile."""

    def __init__(self, store: StoreOfRuns, run: int, version: Version) -> None:
        super().__init__(store, run, version.run_id, version.seq)
        self.version = version

    @property
    def run_id(self) -> str:
        return self.version.run_id

    @property
    def seq(self) -> int:
        return self.version.seq

    @property
    def status(self) -> str:
        return str(self._read("run")["status"])

    def __repr__(self) -> str:
        return f"<{self.run_id} at version {self.seq}>"


class RunView(Readable):
    """A run to be read: its newest state (or the version it was asked for), its history, any kept version of it."""

    def __init__(
        self,
        store: StoreOfRuns,
        number: int,
        run_id: str,
        clock: Clock,
        *,
        version: Version | None = None,
        limits: tuple[int, int] = LIMITS,
    ) -> None:
        super().__init__(store, number, run_id, version.seq if version is not None else None)
        self._clock = clock
        self._limits = limits
        self.id = run_id

    @property
    def info(self) -> RunInfo:
        """What a listing shows of it, as of now."""
        found = run_info(self._store, self._number, self._clock.now(), self._limits)
        if found is None:
            raise gone(self.id)
        return found

    @property
    def status(self) -> str:
        return self.info.status

    @property
    def title(self) -> str | None:
        return self.info.title

    @property
    def workflow(self) -> str:
        return self.info.workflow

    @property
    def branch(self) -> str:
        return self.info.branch

    def history(self, *, sealed: bool = True, limit: int | None = None) -> list[Version]:
        """Its checkpoints (``sealed=False``: every version that can be read), newest first."""
        return self._store.read(lambda view: view.versions(self._number, sealed=sealed, limit=limit))

    def at(self, ref: str | int | Version) -> Snapshot:
        """The run at a version: a checkpoint id or prefix, ``~N``, or a seq."""
        return Snapshot(self._store, self._number, self._version(ref))

    def diff(self, old: str | int | Version, new: str | int | Version | None = None) -> Diff:
        """What changed from ``old`` to ``new`` (left out: to the newest version)."""
        left = self._version(old)
        newest = self._at or self._store.read(lambda view: self._row(view).seq)
        right = self._version(new).seq if new is not None else newest
        return diff(self._store, (self._number, self.id, left.seq), (self._number, self.id, right))

    def _row(self, view: View) -> RunRow:
        row = view.run_row(self._number)
        if row is None or row.is_gone:
            raise gone(self.id)
        return row

    def _version(self, ref: Any) -> Version:
        """Return the version of this run that a seq, a `Version` or a REF names."""

        def look(view: Any) -> Version:
            row = self._row(view)
            if isinstance(ref, int):
                return need_version(view, self._number, self.id, ref)
            if hasattr(ref, "seq"):
                if ref.run_id != self.id:
                    raise NotFound(f"{ref} is not a version of run {self.id}.")
                return need_version(view, self._number, self.id, ref.seq)
            text = str(ref)
            own = parse_ref(text if text.startswith(("~", "@", f"{self.id}@", f"{self.id}~")) else f"@{text}")
            if own.base not in ("@", self.id):
                raise NotFound(f"{text} is not a version of run {self.id}.")
            return find.version_of(view, row, own) if own.has_version else view.version(row.run, row.seq)

        return self._store.read(look)

    def __repr__(self) -> str:
        return repr(self.info)


class Variables(_Named[Any], MutableMapping[str, Any]):
    """A run's variables. Assignments are buffered until the next commit.

    What is read is frozen where it is JSON. Tuples, sets, dates, dataclasses, arrays and what `leftoff.register` knows
    come back as what they were, as a copy of your own: assign it again to keep what you changed.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: RunBuffer) -> None:
        self._buffer = buffer

    def _keys(self) -> Collection[str]:
        return self._buffer.variable_names()

    def __getitem__(self, name: str) -> Any:
        return self._buffer.variable(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._buffer.assign(name, value)

    def __delitem__(self, name: str) -> None:
        self._buffer.unassign(name)


class Run(RunView):
    """One run, driven by this process until it is finished, paused, or the process ends."""

    def __init__(self, owner: Store, head: Head, epoch: int, *, resumed: bool) -> None:
        super().__init__(owner._store, head.run, head.run_id, owner._clock, limits=owner._limits)
        self._owner = owner
        self.resumed = resumed  # whether there was something to continue
        self._buffer = RunBuffer(owner._store, head, epoch, owner._clock, owner._redactor)
        self._steps = RunSteps(self._buffer)
        self._variables = Variables(self._buffer)
        self._notes = 0
        lifecycle.said.clear()
        self._buffer.heart = Heartbeat(self._buffer, owner._heartbeat)
        owner._drives(self)

    # -- variables

    @property
    def variables(self) -> Variables:
        return self._variables

    def append(self, name: str, item: Any) -> None:
        """Add one entry to the list variable ``name`` (made if need be). Costs the same at any length."""
        self._buffer.append(name, item)

    def compare_and_set(self, name: str, expected: Any, value: Any) -> None:
        """Set a variable only if it still has the expected value (``None``: only if it is not there), and commit.

        ``Conflict`` if another process was faster; nothing is changed then.
        """
        self._buffer.compare_and_set(name, expected, value)

    # -- steps

    @property
    def steps(self) -> Mapping[str, Any]:
        """Steps by path in their declared order: ``run.steps["collect"]["status"]``."""
        return self._steps.all()

    def done(self, path: str) -> bool:
        """Whether a step is finished: completed or skipped."""
        return self._steps.done(path)

    def result(self, path: str) -> Any:
        """Return a copy of what a finished step returned."""
        return self._steps.result(path)

    def step(self, path: str, *, again: bool = False, title: str | None = None) -> Step:
        """A step to be entered. One that is finished raises ``StepDone``, unless ``again``."""
        return self._steps.step(path, again=again, title=title)

    @overload
    def do(
        self,
        path: str,
        fn: Callable[..., T],  # mypy cannot infer `lambda page=page: …` as a Callable[[], T]
        **options: Unpack[DoOptions],
    ) -> T: ...
    @overload
    def do(self, path: str, fn: Callable[P, T], *args: P.args, **named: P.kwargs) -> T: ...
    @overload
    def do(self, path: str, fn: Callable[[*Ts], T], *args: *Ts, **options: Unpack[DoOptions]) -> T: ...
    def do(  # type: ignore[misc]
        self, path: str, fn: Callable[..., Any], *args: Any, again: bool = False, **named: Any
    ) -> Any:
        """Call ``fn`` as a step, once: if it is finished already, its recorded result is returned instead.

        Each call returns a copy of the recorded result. Tuples, sets, dates, dataclasses, arrays and what
        `leftoff.register` knows come back as what they were. If ``fn`` is a coroutine function, await the result.

        The arguments count: a finished step that is called with others is an error, ``Usage``, or ``Diverged`` if an
        earlier process did it. ``again=True`` runs it with the new ones. ``keyed=True`` makes a step below ``path`` for
        each argument: ``fetch/a``, ``fetch/b``.

        ``retries``: how often a failed attempt is repeated (``{"max", "backoff", "factor", "jitter"}`` says how).
        ``retry_on``: an exception class, or a tuple of them, after which it is (left out: any ``Exception``).
        ``timeout``: of one attempt, in seconds or like ``"10m"``. Time is up for ``fn``, but Python cannot stop a
        thread: a plain function continues in the background. ``on_code_change``: what happens if the code of ``fn``
        has changed since the step was finished: ``"warn"`` prints a line and returns the recorded result, ``"ignore"``
        only returns it, ``"rerun"`` runs the step again. Code of functions that ``fn`` calls does not count.

        An option that is a parameter of ``fn`` itself is passed to ``fn``. With other options, pass named arguments of
        ``fn`` by ``functools.partial`` if a type checker is to check them.
        """
        steps, given, attempts, keyed = self._steps, NO_ARGUMENTS, ONCE, False
        if named:
            own = Signature(fn, path).has
            options = {word: named.pop(word) for word in _DO_OPTIONS if word in named and not own(word)}
            if options:
                keyed = options.pop("keyed", False)
                attempts = Attempts(path, **options)
        if args or named or isinstance(fn, partial):
            given = given_arguments(fn, args, named, steps.buffer.redactor)
        if keyed:
            path = f"{path}/{quote_part(call_key(fn, args, named, steps.buffer.redactor))}"
        given, is_async = given.of(code_digest(fn)), is_coroutine_function(fn)
        check_step(path)
        change = attempts.on_code_change
        if attempts is ONCE and not is_async:  # the plain case, without what the others cost
            if again or not steps.finished(path, given, on_code_change=change):
                with Step(steps, path, again=True, given=given) as step:
                    step.result = fn(*args, **named)
            return steps.result(path)

        async def course() -> Any:
            if again or not steps.finished(path, given, on_code_change=change):  # when it is awaited
                enter, work = partial(Step, steps, path, again=True, given=given), partial(fn, *args, **named)
                await make_step(enter, work, attempts, is_async=is_async)
            return steps.result(path)

        return course() if is_async else plainly(course())

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are the log of the step that is under way: ``leftoff logs`` shows them."""
        return logger

    def each(
        self,
        path: str,
        items: Iterable[T],
        *,
        key: str | Callable[[T], str] | None = None,
        again: bool = False,
    ) -> Iterator[T]:
        """Loop over items, one step below ``path`` for each; those that are finished are skipped.

        An exception that leaves the run's ``with`` block fails the item, ``break`` leaves it pending. Asking for the
        next completes it.
        With ``key``, a finished item whose content changed is an error, unless ``again``.
        """
        check_step(path)
        return Each(self._steps, path, iter(found_items(self._steps, path, items, key, again)), again)

    @overload
    def map(  # type: ignore[overload-overlap]
        self, fn: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], **options: Unpack[MapOptions[T]]
    ) -> Coroutine[Any, Any, Results[R]]: ...
    @overload
    def map(
        self, fn: Callable[[T], R], items: Iterable[T], **options: Unpack[MapOptions[T]]
    ) -> Results[R]: ...
    def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        name: str | None = None,
        key: str | Callable[[T], str] | None = None,
        max_parallel: int = 1,
        keep_going: bool = False,
        again: bool = False,
        **options: Any,
    ) -> Any:
        """Call ``fn`` with each item, a step each, ``max_parallel`` at a time; what they return, in order.

        The steps are below ``name`` (left out: the name of ``fn``). An item that is text, a number or a path names its
        own step. For any other item, ``key`` is the field that names it, or a function that gives its name. Finished
        items are not done again, unless ``again``. With ``key``, a finished item whose content changed is an error:
        ``Usage``, or ``Diverged`` if an earlier process did it.

        With ``max_parallel=1`` the calls are made one after another in this thread, else in that many threads. If
        ``fn`` is a coroutine function, they are tasks: await the result. The first failure is raised, and nothing new
        is begun after it. With ``keep_going`` the other items are done, and the list that comes back has ``failures``,
        by key, and ``None`` in the places of those items. Ctrl-C waits for no thread: items that are under way are
        done again when the program is started again.

        ``retries``, ``retry_on``, ``timeout`` and ``on_code_change`` are those of ``do``, for each item.
        """
        unknown = [word for word in options if word not in ATTEMPTS]
        if unknown:
            raise TypeError(f"map() got an unexpected keyword argument {unknown[0]!r}")
        path = check_step(name or getattr(fn, "__name__", "map").strip("<>"))
        attempts = Attempts(path, **options) if options else ONCE
        found = list(found_items(self._steps, path, list(items), key, again, fn))
        mapping = ItemMap(self._steps, path, fn, found, attempts, keep_going=keep_going, again=again)
        return mapping.run(check_size(max_parallel))

    # -- commits

    def commit(self) -> Version | None:
        """Make everything buffered durable, and pick up what others committed. ``None`` if nothing changed."""
        self._steps.close_left_open()
        return self._buffer.commit_all()

    def checkpoint(
        self, trigger: str = "manual", note: str | None = None, *, step: str | None = None
    ) -> Version:
        """Commit and seal: a version with an id, to come back to."""
        self._steps.close_left_open()
        buffer = self._buffer
        # Record the files that the run knows, git, and at the end of a phase the issue.
        row = buffer.store.read(buffer.row)
        around = look_around(self._owner._project, row, dirty=True, issue=trigger == "phase_transition")
        with buffer.lock:
            around.put(row, buffer.pending)
            buffer.blobs += around.blobs
        version = buffer.commit(Seal(trigger, step or self._steps.current(), self._masked(note), asked=True))
        return version or self._version(buffer.head.seq)

    def refresh(self) -> None:
        """Pick up what others have committed, without committing anything."""
        self._buffer.refresh()

    # -- records

    def put(self, collection: str, key: str, value: Any) -> None:
        """Set any record but those by which leftoff knows what to execute, or that was decided; durable with the next
        commit."""
        refuse_decision(collection, key, value)
        self._buffer.put(collection, key, value)

    def note(self, text: str) -> None:
        """Leave a note for the next reader of the run."""
        now = self._clock.now()
        about = note_record(self._buffer.redactor.mask(text), now, self._steps.current())
        with self._buffer.lock:
            self._notes += 1
            key = f"{now:015d}-{self._notes:04d}-{new_token()[:3].hex()}"
            self._buffer.pending.put("note", key, about)

    def _names(self) -> list[str]:
        return sorted({*super()._names(), *self._buffer.collections()})

    def _read(self, collection: str) -> Mapping[str, Any]:
        if collection == "step":
            return self.steps
        if collection == "variable":
            return self.variables
        return Values(collection, self._buffer.read(collection))

    # -- files

    def artifact(
        self,
        path: Any,
        *,
        name: str | None = None,
        step: str | None = None,
        keep: Literal["copy", "hash"] = "copy",
    ) -> dict[str, Any]:
        """Record a file that the current step produced, with a copy of it as it is now (``keep="hash"``: without)."""
        step, copy = step or self._steps.current(), keep == "copy"
        got = capture(self._owner._project.workspace(), os.fsdecode(path), step=step, name=name, copy=copy)
        with self._buffer.lock:
            got.put(self._buffer.pending)
            if got.blob is not None:
                self._buffer.blobs.append(got.blob)
            self._steps.add_output(step, got.about["path"])
        return got.about

    def track(self, *paths: Any) -> list[dict[str, Any]]:
        """Remember files as they are now, with a copy; durable with the next commit. What is recorded of each."""
        row = self._buffer.store.read(self._buffer.row)
        found = track_given(self._owner._project.workspace(), row, [os.fsdecode(path) for path in paths])
        with self._buffer.lock:
            found.put(self._buffer.pending, row.seq + 1)
            self._buffer.blobs += found.blobs
        return [got.about for got in found.captured]

    def restore(self, ref: str | int | Version, *paths: Any, yes: bool = False) -> list[str]:
        """Single files as they were at a version; those that had to be restored or deleted."""
        version = self._version(ref)
        names = [given_path(self._owner.project, os.fsdecode(path)) for path in paths]
        with self._buffer.committing:
            done = self._restorer(version).restore(names, partial(_agree, yes))
            self._buffer.refresh()
        return [entry.path for entry in done.plan.touched]

    # -- history

    def rollback(self, ref: str | int | Version, *, files: bool = False, yes: bool = False) -> Version:
        """Go back to a version: a new checkpoint equal to it, after the present was saved.

        ``files``: tracked files are what they were, too. If some were changed since they were last recorded, that is
        ``NeedsPerson``, unless ``yes``; what is there is saved first in any case.
        """
        version = self._version(ref)
        buffer = self._buffer
        with buffer.committing:
            restorer = self._restorer(version)
            if files:
                restorer.rollback(partial(_agree, yes))
            else:
                restorer.back()
            buffer.refresh()
            if self.status != "running":  # it is driven, whatever status that version has
                with buffer.lock:
                    status_changes(buffer.pending, "running", buffer.clock.now())
                buffer.commit(None)
        return restorer.version or version

    def _restorer(self, version: Version) -> Restorer:
        """Return what brings files and records back to a version, under the lease of this process."""
        buffer = self._buffer
        buffer.must_drive()
        self.commit()
        target, now = find.Target(buffer.store.read(buffer.row), version), buffer.clock.now
        return Restorer(buffer.store, self._owner.project, buffer.redactor, now, target, guard=buffer.guard)

    def fork(
        self,
        *,
        branch: str,
        ref: str | int | Version | None = None,
        run_id: str | None = None,
        **variables: Any,
    ) -> Run:
        """A new run on another branch that starts from here (or from ``ref``)."""
        self.commit()
        return self._owner._fork(self, ref, branch, run_id, variables)

    def diff(self, old: Any, new: Any = None) -> Any:
        self.commit()
        return super().diff(old, new)

    # -- its end

    def beat(self) -> None:
        """Say that this run is still driven. A thread does so by itself."""
        self._buffer.beat()

    def finish(self, status: str = "completed", *, summary: str | None = None) -> None:
        """End the run (completed, failed or abandoned) and stop driving it."""
        self._settle(status, None, summary)

    def pause(self, note: str | None = None) -> None:
        """Stop driving the run for now; it stays unfinished."""
        self._settle("paused", Seal("session_end", note=self._masked(note)) if note else None)

    def _masked(self, text: str | None) -> str | None:
        return self._buffer.redactor.mask(text) if text is not None else None

    def _settle(self, status: str, seal: Seal | None = None, summary: str | None = None) -> None:
        """Set the run's status in the commit that ends the driving."""
        if not self._buffer.driving:
            return
        self._steps.close_all(None)
        if self._buffer.settle(status, seal, self._masked(summary)):
            self._owner._runs.discard(self)

    @contextmanager
    def _or_release(self) -> Iterator[None]:
        """Stop driving the run if the body fails."""
        try:
            yield
        except BaseException:
            self._owner._runs.discard(self)
            self._buffer.release()
            raise

    def _let_go(self) -> None:
        """Stop driving the run, without a word to the store."""
        self._owner._runs.discard(self)
        self._buffer.let_go()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._buffer.driving:
            return
        self._steps.close_all(error)
        try:
            self._leave(error)
        except StoreUnavailable:
            if error is None:
                raise
            # The error that ended the work is the one to raise. The lease ends with the process.

    def _leave(self, error: BaseException | None) -> None:
        sealed = error is not None and self._steps.is_sealed(error)
        if error is None and self._steps.left_undone is not None:
            self._settle("failed", Seal("error", note=self._steps.left_undone))
        elif error is None:
            self._print_open_steps()
            self.finish()
        elif isinstance(error, Exception):
            self._settle("failed", None if sealed else Seal("error", note=self._steps.message(error)))
        elif isinstance(error, KeyboardInterrupt):
            self._settle("paused", None if sealed else Seal("user_interrupt"))
            print(
                f"leftoff: run {self.id} is kept. Start it again to continue where it left off.",
                file=sys.stderr,
            )
        else:
            self._settle("paused", Seal("session_end"))

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _print_open_steps(self) -> None:
        left = self._steps.unfinished()
        if left and self.status in UNFINISHED:
            shown = ", ".join(map(shown_step, left[:5])) + (
                f" and {len(left) - 5} more" if len(left) > 5 else ""
            )
            print(f"leftoff: run {self.id} is completed; steps left: {shown}", file=sys.stderr)

    def __repr__(self) -> str:
        return f"<Run {self.id}, driven by this process>" if self._buffer.driving else super().__repr__()


def _agree(yes: bool, plan: RestorePlan) -> bool:
    """Refuse to overwrite files that were changed since they were recorded, unless the program says ``yes``."""
    if plan.changed and not yes:
        names = ", ".join(entry.path for entry in plan.changed)
        raise NeedsPerson(
            f"Changed since they were last recorded: {names}.",
            hint="Nothing was touched. yes=True restores them; what is there now is saved first.",
        )
    return True
