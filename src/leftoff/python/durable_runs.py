"""Which run a workflow function continues: that of a ``run_id``, one of the same arguments, or a new one.

Finding it and taking its lease are one transaction, so that a program that is started twice never has two runs by
accident. The arguments are a record of the run. Their digest is in its listing, so that finding it reads no records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine import find
from leftoff.engine.commit import Head, save_blobs
from leftoff.engine.find import RESUMES, twins
from leftoff.engine.lease import take
from leftoff.engine.opening import Opening, is_taken, opening_changes, start_in
from leftoff.engine.opening import open_run as open_existing
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import CALLER
from leftoff.errors import CannotResume, Conflict, LeaseHeld, NotFound, Redacted, Usage
from leftoff.model.changes import Version
from leftoff.model.codec import decode, marks, text
from leftoff.model.words import UNFINISHED
from leftoff.python.arguments import call_facts, encode_arguments
from leftoff.python.replay import FUNCTION, RETURNED, Flow, flows
from leftoff.python.run_api import Run
from leftoff.python.store_api import Store, project_store
from leftoff.python.values import decode_value
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.python.durable import Runs

RUN_OPTIONS = ("run_id", "title", "branch", "issue", "store", "take_over", "again")
_RESUMING = ("branch", "store", "take_over", "again")


class Request:
    """A call of ``run`` or ``resume``: the function, the arguments it was given, and the options."""

    def __init__(
        self,
        function: Runs[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any],
        options: dict[str, Any],
        *,
        resumes: bool = False,
        ref: str | None = None,
    ) -> None:
        allowed = _RESUMING if resumes and not function.preset else RUN_OPTIONS
        unknown = [word for word in options if word not in allowed]
        if unknown:
            raise Usage(
                f"{function.name}.{'resume' if resumes else 'run'} has no option {unknown[0]!r}.",
                hint=f"Options: {', '.join(allowed)}.",
            )
        self.function = function
        self.resumes, self.ref = resumes, ref
        self.options = options
        self.store: Store = options.get("store") or project_store()
        self.branch: str = options.get("branch") or CALLER.branch
        self.take_over = bool(options.get("take_over"))
        self.given = bool(args or named)  # without arguments, an existing run continues with its own
        self.inputs = (
            encode_arguments(function.signature.bind(args, named), function.name) if self.given else {}
        )

    def value_of(self, view: View, row: RunRow, key: str) -> Any:
        """Return a record of the run's context."""
        return Reader(self.store._store, view, row.run, row.run_id).value("context", key)

    def check_complete(self) -> None:
        """Raise ``TypeError`` if arguments for a new run are missing."""
        if not self.given and self.function.signature.required:
            names = ", ".join(self.function.signature.required)
            raise TypeError(f"{self.function.name}.run() is missing {names}")


class DrivenRun(NamedTuple):
    """A run whose lease this process has, and what it knows of its function. ``back_to``: a version to go back to."""

    head: Head
    epoch: int
    about: dict[str, Any]
    resumed: bool = True
    back_to: Version | None = None


class Finished(NamedTuple):
    """The result of a run that has nothing left to do."""

    value: Any


def open_durable_run(request: Request) -> Flow | Finished:
    """Find or start the run, and take its lease."""
    request.store._look()
    found = _resume(request) if request.resumes else _run(request)
    return _drive(request, found) if isinstance(found, DrivenRun) else Finished(_result(request, found))


# -- run


def _run(request: Request) -> DrivenRun | RunRow:
    """Return the interrupted run or a new one, or the row of a run that is finished."""
    store = request.store
    if request.options.get("run_id") is None or not store._store.exists():
        request.check_complete()
    opening, now, driver, function = _opening(request), store._clock.now(), store._driver(), request.function
    about = {"name": function.name, "inputs": request.inputs}
    for word, fact in (("module", function.plain.__module__), ("version", function.settings.version)):
        if fact is not None:
            about[word] = fact
    changes = opening_changes(opening, now, store._redactor)
    changes.put("context", FUNCTION, about)
    changes, blobs = save_blobs(store._store, changes)

    def work(tx: Tx) -> DrivenRun | RunRow:
        row = _there(tx, request, opening)
        if row is None:
            request.check_complete()
            head, epoch, _ = start_in(tx, opening, changes, blobs, now, driver)
            return DrivenRun(head, epoch or 0, about, resumed=False)
        if row.status not in UNFINISHED:
            return row
        known = _about(tx, request, row)
        taken = take(tx, row.run, row.run_id, driver, now, take_over=request.take_over)
        return DrivenRun(Head.of(row), taken, known)

    return store._store.write(work)


def _opening(request: Request) -> Opening:
    """Return what a new run would be. Only its issue is looked up: a program may start very many runs."""
    store, options = request.store, request.options
    opening = Opening(
        request.function.name,
        title=options.get("title"),
        branch=request.branch,
        run_id=options.get("run_id"),
    )
    opening.facts = {
        **store._facts(options.get("issue")),
        "inputs": call_facts(request.inputs, store._redactor).record["digest"],
    }
    issue = opening.facts["issue"]
    if issue and not (
        store._store.exists() and store._store.read(lambda view: _there(view, request, opening))
    ):
        opening.context = store._project.issue_snapshot(issue, opening.facts["git_branch"])
    return opening


def _there(view: View, request: Request, opening: Opening) -> RunRow | None:
    """Return the run that is asked for, if it exists."""
    digest = opening.facts["inputs"]
    if opening.run_id is not None:
        row = view.find_run(opening.run_id)
        if row is None and is_taken(view, opening.run_id):
            raise Conflict(
                f"Run {opening.run_id} is in the trash: what it did is not done again.",
                hint=f"`leftoff undelete {opening.run_id}` brings it back, with its result; or choose another run_id.",
            )
        if row is not None:
            _check_ours(request, row)
            if request.given and row.card.get("inputs") != digest:
                raise Conflict(
                    f"Run {row.run_id} was started with other arguments.",
                    hint=f"{request.function.name}.resume({row.run_id!r}) continues with its own; other arguments need "
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


def _resume(request: Request) -> DrivenRun | RunRow:
    store, name, branch = request.store, request.function.name, request.branch
    if request.ref is not None:
        target = store._resolved(request.ref, RESUMES)
    else:
        rows = store._store.read(lambda view: twins(view, name, branch)) if store._store.exists() else []
        if not rows:
            raise NotFound(
                f"There is nothing to resume: no run of {name} on branch {branch} is unfinished.",
                hint=f"{name}.run(…) starts one; {name}.resume(REF) goes back to a checkpoint.",
            )
        target = find.Target(rows[0], None)
    row = target.row
    _check_ours(request, row)
    if row.status not in UNFINISHED and target.version is None:
        return row
    about = store._store.read(lambda view: _about(view, request, row))
    head, epoch = open_existing(
        store._store, row.run_id, store._clock.now(), driver=store._driver(), take_over=request.take_over
    )
    assert epoch is not None
    return DrivenRun(head, epoch, about, back_to=target.version)


# -- both


def _about(view: View, request: Request, row: RunRow) -> dict[str, Any]:
    """Return what the run knows of its function. Raise an error if it cannot be executed, before its lease is taken."""
    found = request.value_of(view, row, FUNCTION)
    if found is None:
        raise CannotResume(
            f"Run {row.run_id} was not started by a durable function.", hint=f"leftoff.resume({row.run_id!r})"
        )
    about = dict(found.plain)
    redacted = [] if request.given else marks(about["inputs"])
    if redacted:
        raise Redacted(
            f"The argument {redacted[0][0] if redacted[0] else 'inputs'} of run {row.run_id}",
            hint="Secrets are not stored. Give the arguments again: "
            f"{request.function.name}.run(…, run_id={row.run_id!r}).",
        )
    return about


def _result(request: Request, row: RunRow) -> Any:
    """Return what a finished run returned."""
    found = request.store._store.read(lambda view: request.value_of(view, row, RETURNED))
    if row.status != "completed" or found is None:
        how = row.status if row.status != "completed" else "completed by somebody, and has no result"
        raise CannotResume(
            f"Run {row.run_id} is {how}.", hint=f"leftoff.get({row.run_id!r}) reads it; start a new one."
        )
    return decode_value(found.plain["value"], f"The result of run {row.run_id}")


def _drive(request: Request, held: DrivenRun) -> Flow:
    """Make a run ready to be executed, once at a time: the lease does not tell the threads of a process apart."""
    store, head, about, function = request.store, held.head, held.about, request.function
    key = (store.location, head.run_id)
    if flows.setdefault(key, request) is not request:
        raise LeaseHeld(
            f"Run {head.run_id} is already being run by this process.",
            hint="Wait for it, or use another run_id.",
        )
    try:
        run = Run(store, head, held.epoch, resumed=held.resumed)
        with run._or_release():
            if held.resumed:
                store._go_on(run, held.back_to)
            flow = Flow(run, about, key, function.max_parallel, request.options.get("again", ()))
            if run.resumed and about.get("version") != function.settings.version:
                flow.revise(flow.revision)
                flow.note(version=function.settings.version)
            # As they are read back, the first time too: the order of a dict, for example, is not stored.
            inputs = decode(text(request.inputs, "inputs")) if request.given else about["inputs"]
            flow.args, flow.named = function.signature.spread(
                decode_value(inputs, f"An argument of run {run.id}")
            )
            return flow
    except BaseException:
        flows.pop(key, None)
        raise
