"""Which run a workflow goes on with: that of a ``run_id``, the one cut off with the same arguments, or a new one.

Looking for it and taking its lease are one transaction, so that a program that is started twice never has two runs by
accident. The arguments are a record of the run; their digest is in its listing, so that looking reads no records.
"""

from __future__ import annotations

from _thread import allocate_lock

from leftoff.api.module import project_store
from leftoff.api.run import Run
from leftoff.engine.lifecycle.opening import open_run as open_existing
from leftoff.engine.lifecycle.opening import opening_changes, start_in
from leftoff.engine.read import find
from leftoff.engine.read.state import Reader
from leftoff.engine.write.commit import save_blobs
from leftoff.engine.write.head import Head
from leftoff.engine.write.lease import take
from leftoff.errors import CannotResume, Conflict, LeaseHeld, NotFound, Redacted, Usage
from leftoff.model.codec import decode as parse
from leftoff.model.frozen import marks
from leftoff.model.words import UNFINISHED
from leftoff.workflow.functions.arguments import Digest, encoded
from leftoff.workflow.functions.flow import FUNCTION, RETURNED, Flow
from leftoff.workflow.functions.scope import flows
from leftoff.workflow.functions.values import canonical, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.api.store import Store
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.read.find import Target
    from leftoff.model.versions import Version
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.functions.callables import Runs

WORDS = ("run_id", "title", "branch", "issue", "store", "take_over", "again")
_RESUMING = ("branch", "store", "take_over", "again")
_claimed: set[tuple[str, str]] = set()  # runs that this process executes
_claims = allocate_lock()


class Request:
    """A call of ``run`` or ``resume``: the function, the arguments it was given, and the options."""

    def __init__(
        self, function: Runs, args: tuple[Any, ...], named: dict[str, Any], options: dict[str, Any]
    ) -> None:
        self.function = function
        self.ref: str | None = None
        self.resumes = False
        unknown = [word for word in options if word not in WORDS]
        if unknown:
            raise Usage(
                f"{function.name}.run has no option {unknown[0]!r}.", hint=f"Options: {', '.join(WORDS)}."
            )
        self.options = options
        self.again = frozenset(options.get("again", ()))
        self.given = bool(args or named)  # without any argument, an existing run is gone on with by its own
        self.inputs = encoded(function.signature.bind(args, named), function.name) if self.given else {}

    def resuming(self, ref: str | None) -> Request:
        wrong = [word for word in self.options if word not in _RESUMING]
        if wrong and not self.function.preset:
            raise Usage(f"resume has no option {wrong[0]!r}.", hint=f"Options: {', '.join(_RESUMING)}.")
        self.ref, self.resumes, self.given = ref, True, False
        return self

    @property
    def store(self) -> Store:
        return self.options.get("store") or project_store()

    @property
    def run_id(self) -> str | None:
        return self.options.get("run_id")

    def check_complete(self) -> None:
        """Whether a new run may be started."""
        if not self.given and self.function.signature.required:
            names = ", ".join(self.function.signature.required)
            raise TypeError(f"{self.function.name}.run() is missing {names}")


class Finished:
    """A run that has nothing left to do, and what it returned."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Opened:
    """A run that this process drives, ready to be executed; within ``with`` it is known to all threads."""

    def __init__(self, request: Request, run: Run, about: dict[str, Any], key: tuple[str, str]) -> None:
        function = request.function
        self.function = function
        self._key = key
        self.flow = Flow(run, about, function.max_parallel, request.again)
        if run.resumed and about.get("version") != function.settings.version:
            self.flow.revise(self.flow.revision)
            self.flow.note(version=function.settings.version)
        # As they are read back, the first time too: the order of a dict is not kept, for one.
        inputs = parse(canonical(request.inputs, "inputs")) if request.given else about["inputs"]
        self.args, self.named = function.signature.spread(decode(inputs, f"An argument of run {run.id}"))

    def __enter__(self) -> Opened:
        flows[self._key] = self.flow
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Whatever became of it, this process executes it no more."""
        self.flow.closed = True
        flows.pop(self._key, None)
        if self.flow.run._buffer.driving:  # its end could not be recorded
            self.flow.run._let_go()
        _claimed.discard(self._key)


def open_run(request: Request) -> Opened | Finished:
    """Find or start the run, and take its lease."""
    store = request.store
    store._look()
    return _resume(request, store) if request.resumes else _run(request, store)


# -- run


def _run(request: Request, store: Store) -> Opened | Finished:
    if request.run_id is None or not store._store.exists():
        request.check_complete()
    head, epoch, about, row = _find_or_start(request, store, _opening(request, store))
    if head is None:
        assert row is not None
        return Finished(_result(store, row))
    return _drive(request, store, head, epoch, about, row is not None, None)


def _opening(request: Request, store: Store) -> Opening:
    given = request.options.get
    opening = store._opening(
        request.function.name, given("title"), (), given("branch"), given("issue"), request.run_id, None
    )
    opening.facts["inputs"] = Digest(request.inputs, store._redactor).text
    return opening


def _find_or_start(
    request: Request, store: Store, opening: Opening
) -> tuple[Head | None, int, dict[str, Any], RunRow | None]:
    """The run's head, epoch and what it knows of its function; its row if it was there. No head: it is finished."""
    now, driver, about = store._clock.now(), store._driver(), _about_new(request)
    changes = opening_changes(opening, now, store._redactor)
    changes.put("context", FUNCTION, about)
    changes, blobs = save_blobs(store._store, changes)

    def work(tx: Tx) -> tuple[Head | None, int, dict[str, Any], RunRow | None]:
        row = _there(tx, request, opening)
        if row is None:
            request.check_complete()
            head, epoch, _ = start_in(tx, opening, changes, blobs, now, driver)
            return head, epoch or 0, about, None
        if row.status not in UNFINISHED:
            return None, 0, about, row
        known, over = _about(store, tx, request, row), bool(request.options.get("take_over"))
        taken = take(tx, row.run, row.run_id, driver[0], now, who=driver[1], take_over=over)
        return Head.of(row), taken, known, row

    return store._store.write(work)


def _about_new(request: Request) -> dict[str, Any]:
    function = request.function
    about = {
        "name": function.name,
        "module": getattr(function.plain, "__module__", None),
        "version": function.settings.version,
        "inputs": request.inputs,
    }
    return {word: fact for word, fact in about.items() if fact is not None}


def _there(view: View, request: Request, opening: Opening) -> RunRow | None:
    """The run that is asked for, if it is there."""
    digest = opening.facts["inputs"]
    if opening.run_id is not None:
        row = view.find_run(opening.run_id)
        if row is not None:
            _check_ours(request, row)
            if request.given and row.card.get("inputs") != digest:
                raise Conflict(
                    f"Run {row.run_id} was started with other arguments.",
                    hint=f"{request.function.name}.resume({row.run_id!r}) goes on with its own; other arguments need "
                    "another run_id.",
                )
        return row
    return next((row for row in opening.twins(view) if row.card.get("inputs") == digest), None)


def _check_ours(request: Request, row: RunRow) -> None:
    if row.workflow != request.function.name:
        raise Conflict(
            f"Run {row.run_id} is a run of {row.workflow}, not of {request.function.name}.",
            hint="Choose another run_id.",
        )


# -- resume


def _resume(request: Request, store: Store) -> Opened | Finished:
    target = _target(request, store)
    row = target.row
    _check_ours(request, row)
    if row.status not in UNFINISHED and target.version is None:
        return Finished(_result(store, row))
    about = store._store.read(lambda view: _about(store, view, request, row))
    take_over = bool(request.options.get("take_over"))
    head, epoch = open_existing(
        store._store, row.run_id, store._clock.now(), driver=store._driver(), take_over=take_over
    )
    assert epoch is not None
    return _drive(request, store, head, epoch, about, True, target.version)


def _target(request: Request, store: Store) -> Target:
    if request.ref is not None:
        return find.resolve(store._store, request.ref)
    branch = request.options.get("branch") or store._branch()
    name = request.function.name
    rows = store._store.read(lambda view: find.twins(view, name, branch)) if store._store.exists() else []
    if not rows:
        raise NotFound(
            f"There is nothing to resume: no run of {name} on branch {branch} is unfinished.",
            hint=f"{name}.run(…) starts one; {name}.resume(REF) goes back to a checkpoint.",
        )
    return find.Target(rows[0], None)


def _check_known(request: Request, row: RunRow, about: dict[str, Any]) -> None:
    for path in [] if request.given else marks(about["inputs"]):
        name = str(path[0]) if path else "inputs"
        raise Redacted(
            f"The argument {name} of run {row.run_id}",
            hint="Secrets are not stored. Give the arguments again: "
            f"{request.function.name}.run(…, run_id={row.run_id!r}).",
        )


# -- both


def _value(store: Store, view: View, row: RunRow, key: str) -> Any:
    return Reader(store._store, view, row.run, row.run_id).value("context", key)


def _about(store: Store, view: View, request: Request, row: RunRow) -> dict[str, Any]:
    """What the run knows of its function. Whether it can be executed at all is told before its lease is taken."""
    found = _value(store, view, row, FUNCTION)
    if found is None:
        raise CannotResume(
            f"Run {row.run_id} was not started by a durable function.", hint=f"leftoff.resume({row.run_id!r})"
        )
    about = dict(found.plain)
    _check_known(request, row, about)
    return about


def _result(store: Store, row: RunRow) -> Any:
    """What a finished run returned."""
    found = store._store.read(lambda view: _value(store, view, row, RETURNED))
    if row.status != "completed" or found is None:
        how = row.status if row.status != "completed" else "completed by somebody, and has no result"
        raise CannotResume(
            f"Run {row.run_id} is {how}.", hint=f"leftoff.get({row.run_id!r}) reads it; start a new one."
        )
    return decode(found.plain["value"], f"The result of run {row.run_id}")


def _drive(
    request: Request,
    store: Store,
    head: Head,
    epoch: int,
    about: dict[str, Any],
    resumed: bool,
    back_to: Version | None,
) -> Opened:
    """A run whose lease this process has: once at a time, though the lease would not tell its threads apart."""
    key = (store.location, head.run_id)
    with _claims:
        if key in _claimed:
            raise LeaseHeld(
                f"Run {head.run_id} is executed by this very process already.",
                hint="Wait for it, or give another run_id.",
            )
        _claimed.add(key)
    try:
        run = Run(store, head, epoch, resumed=resumed)
        if resumed:
            store._go_on(run, back_to, None)
        return _opened(request, run, about, key)
    except BaseException:
        _claimed.discard(key)
        raise


def _opened(request: Request, run: Run, about: dict[str, Any], key: tuple[str, str]) -> Opened:
    try:
        return Opened(request, run, about, key)
    except BaseException:
        run._release()
        raise
