"""Which run a workflow function continues: that of a ``run_id``, one of the same arguments, or a new one.

A run that is there is continued as `leftoff.resume` does it: it is checked first. The transaction that starts a new one
looks once more, so that a program that is started twice never has two runs by accident. The arguments are a record of
the run. Their digest is in its listing, so that finding it reads no records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine import find
from leftoff.engine.commit import Head, save_blobs
from leftoff.engine.find import RESUMES, twins
from leftoff.engine.opening import Opening, opening_changes, start_in
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import CALLER
from leftoff.errors import CannotResume, Conflict, LeaseHeld, NotFound, Redacted, Usage
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

RUN_OPTIONS = ("run_id", "title", "branch", "issue", "store", "take_over", "again", "accept")
_RESUMING = ("branch", "store", "take_over", "again", "accept")


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


class Finished(NamedTuple):
    """The result of a run that has nothing left to do."""

    value: Any


def open_durable_run(request: Request) -> Flow | Finished:
    """Find the run, check it and take its lease, or start a new one."""
    store, flow = request.store, None
    store._look()
    if request.resumes:
        return _continue(request, _to_resume(request))
    opening = _opening(request)
    while flow is None:  # or another process has started it meanwhile
        exists = store._store.exists()
        row = store._store.read(lambda view: _there(view, request, opening)) if exists else None
        if row is not None:
            return _continue(request, find.Target(row, None))
        flow = _start(request, opening)
    return flow


def _opening(request: Request) -> Opening:
    """Return what a new run would be."""
    options = request.options
    opening = Opening(
        request.function.name,
        title=options.get("title"),
        branch=request.branch,
        run_id=options.get("run_id"),
    )
    opening.facts = {
        **request.store._facts(options.get("issue")),
        "inputs": call_facts(request.inputs, request.store._redactor).record["digest"],
    }
    return opening


def _start(request: Request, opening: Opening) -> Flow | None:
    """Start a new run. Return ``None`` if another process was faster."""
    store, function = request.store, request.function
    if not request.given and function.signature.required:
        raise TypeError(f"{function.name}.run() is missing {', '.join(function.signature.required)}")
    now, driver = store._clock.now(), store._driver()
    issue = opening.facts["issue"]  # a program may start very many runs: nothing else is looked up
    opening.context = store._project.issue_snapshot(issue, opening.facts["git_branch"]) if issue else {}
    about = {"name": function.name, "inputs": request.inputs}
    for word, fact in (("module", function.plain.__module__), ("version", function.settings.version)):
        if fact is not None:
            about[word] = fact
    changes = opening_changes(opening, now, store._redactor)
    changes.put("context", FUNCTION, about)
    changes, blobs = save_blobs(store._store, changes)

    def work(tx: Tx) -> tuple[Head, int] | None:
        if _there(tx, request, opening) is not None:
            return None
        head, epoch, _ = start_in(tx, opening, changes, blobs, now, driver)
        return head, epoch or 0

    started = store._store.write(work)
    if started is None:
        return None
    with _claim(request, started[0].run_id) as key:
        return _flow(request, Run(store, *started, resumed=False), about, key)


def _there(view: View, request: Request, opening: Opening) -> RunRow | None:
    """Return the run that is asked for, if it exists."""
    digest = opening.facts["inputs"]
    if opening.run_id is not None:
        row = opening.own_run(view)
        if row is not None and request.given and row.card.get("inputs") != digest:
            raise Conflict(
                f"Run {row.run_id} was started with other arguments.",
                hint=f"{request.function.name}.resume({row.run_id!r}) continues with its own; other arguments need "
                "another run_id.",
            )
        return row
    return next((row for row in opening.twins(view) if row.card.get("inputs") == digest), None)


# -- runs that are there


def _to_resume(request: Request) -> find.Target:
    """Return the run that ``resume`` continues, and the version that it goes back to, if one is named."""
    store, name, branch = request.store, request.function.name, request.branch
    if request.ref is not None:
        return store._resolved(request.ref, RESUMES)
    rows = store._store.read(lambda view: twins(view, name, branch)) if store._store.exists() else []
    if not rows:
        raise NotFound(
            f"There is nothing to resume: no run of {name} on branch {branch} is unfinished.",
            hint=f"{name}.run(…) starts one; {name}.resume(REF) goes back to a checkpoint.",
        )
    return find.Target(rows[0], None)


def _continue(request: Request, target: find.Target) -> Flow | Finished:
    """Continue a run as ``leftoff.resume`` does, or return the result of one that has nothing left to do."""
    store, row = request.store, target.row
    if row.workflow != request.function.name:
        raise Conflict(
            f"Run {row.run_id} is a run of {row.workflow}, not of {request.function.name}.",
            hint="Choose another run_id.",
        )
    if row.status not in UNFINISHED and target.version is None:
        return Finished(_result(request, row))
    about = store._store.read(lambda view: _about(view, request, row))
    call, accept = f"{request.function.name}.resume({row.run_id!r}, ", request.options.get("accept", ())
    with _claim(request, row.run_id) as key:
        run = store._continue(target, call, take_over=request.take_over, accept=accept)
        return _flow(request, run, about, key)


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


@contextmanager
def _claim(request: Request, run_id: str) -> Iterator[tuple[str, str]]:
    """Let this process execute a run once at a time: the lease does not tell its threads apart."""
    key = (request.store.location, run_id)
    if flows.setdefault(key, request) is not request:
        raise LeaseHeld(
            f"Run {run_id} is already being run by this process.",
            hint="Wait for it, or use another run_id.",
        )
    try:
        yield key
    except BaseException:
        flows.pop(key, None)
        raise


def _flow(request: Request, run: Run, about: dict[str, Any], key: tuple[str, str]) -> Flow:
    """Make a run ready to be executed."""
    function = request.function
    with run._or_release():
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
