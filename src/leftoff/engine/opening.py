"""Begin a run, open one that is there, or import one with its history; and set the status of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from leftoff.clock import compact, iso
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Head, Seal, Terms, commit_in, save_blobs
from leftoff.engine.find import SESSION, twins
from leftoff.engine.lease import take
from leftoff.errors import Conflict, Invalid, NotFound
from leftoff.host import Process
from leftoff.model.changes import APPEND, NOTHING, Change, ChangeSet, Scrubber, Version
from leftoff.model.ids import check_key, check_run_id, check_step, slug
from leftoff.model.words import ISSUE, UNFINISHED, WHY_AGAIN, in_words, was
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.follower import Follower
from leftoff.store.rows import BlobRow, RunRow


class Opening:
    """What is known of a run before it starts. ``context``: what the world around it is like."""

    def __init__(
        self,
        workflow: str,
        *,
        title: str | None = None,
        branch: str = "main",
        run_id: str | None = None,
        steps: Sequence[Any] = (),
        variables: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        self.workflow = check_key(workflow, "workflow")
        self.title = title
        self.branch = check_key(branch, "branch")
        self.run_id = check_run_id(run_id) if run_id else None
        if isinstance(steps, str):
            raise Invalid(
                f"steps must be a list of steps, not the text {steps!r}.", hint=f"steps=[{steps!r}]"
            )
        self.steps = [_step_entry(step) for step in steps]
        if variables is not None and not isinstance(variables, dict):
            raise Invalid(f"variables must be a dict, not a {type(variables).__name__}.")
        self.variables = variables or {}
        self.facts = facts or {}
        self.context = context or {}
        self.seen: RunRow | None = None  # the unfinished run of the same work, as it was checked
        names = [name for name, _ in self.steps]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Invalid(f"The step {twice} is declared twice.")

    def twins(self, view: View, limit: int | None = None) -> list[RunRow]:
        """Return the unfinished runs of the same work, latest first."""
        return twins(view, self.workflow, self.branch, self.title, self.facts.get("issue"), limit)

    def twin(self, view: View) -> RunRow | None:
        return next(iter(self.twins(view, 1)), None)

    def own_run(self, view: View) -> RunRow | None:
        """Return the run that a program continues: that of its id, finished or not, else the unfinished one of its
        work."""
        if self.run_id is None:
            return self.twin(view)
        row = view.find_run(self.run_id)
        if row is None and is_taken(view, self.run_id):
            raise Conflict(
                f"Run {self.run_id} is in the trash: what it did is not done again.",
                hint=f"`leftoff undelete {self.run_id}` brings it back, with its result; or choose another run_id.",
            )
        if row is not None and row.workflow != self.workflow:
            raise Conflict(
                f"Run {row.run_id} is a run of {row.workflow}, not of {self.workflow}.",
                hint="Choose another run_id.",
            )
        return row


def _step_entry(step: Any) -> tuple[str, dict[str, Any]]:
    """Read a step that is declared by its path, or by a dict with ``id`` and what is known of it."""
    if isinstance(step, str):
        return check_step(step), {}
    if isinstance(step, dict) and isinstance(step.get("id"), str):
        return check_step(step["id"]), {k: v for k, v in step.items() if k != "id"}
    raise Invalid(
        f"{step!r} declares no step.", hint='Give a path, or a dict like {"id": "collect", "title": "…"}.'
    )


def opening_changes(opening: Opening, at: int, scrubber: Scrubber | None) -> ChangeSet:
    """Return the records of version 1."""
    changes = ChangeSet(scrubber)
    facts = {
        "workflow": opening.workflow,
        "title": opening.title or opening.context.get(ISSUE, {}).get("title") or None,
        "branch": opening.branch,
        "status": "running",
        "created_at": iso(at),
        **opening.facts,
    }
    for key, value in facts.items():
        if value is not None:
            changes.put("run", key, value)
    for order, (name, known) in enumerate(opening.steps):
        lifecycle.put(changes, name, lifecycle.declare(order, known))
    for key, value in opening.variables.items():
        changes.put("variable", key, value)
    for key, value in opening.context.items():
        changes.put("context", key, value)
    return changes


def start_new_run(
    store: SqlStore,
    opening: Opening,
    at: int,
    *,
    driver: tuple[Process, str] | None = None,
    scrubber: Scrubber | None = None,
) -> tuple[Head, int | None, Version]:
    """Start a new run, durable when this returns. ``driver``: the process that takes its lease, and its name."""
    changes, blobs = save_blobs(store, opening_changes(opening, at, scrubber))
    return store.write(lambda tx: start_in(tx, opening, changes, blobs, at, driver))


def start_in(
    tx: Tx,
    opening: Opening,
    changes: ChangeSet,
    blobs: list[BlobRow],
    at: int,
    driver: tuple[Process, str] | None,
) -> tuple[Head, int | None, Version]:
    """Start a new run inside a transaction."""
    run_id = free_id(tx, opening, at)
    if tx.follower is not None and not opening.steps and opening.facts.get("total") is None:
        for order, name in enumerate(tx.follower.steps(opening, at)):
            lifecycle.put(changes, name, lifecycle.declare(order))
    workflow, branch = opening.workflow, opening.branch
    if "why" not in opening.facts:
        last = next(iter(tx.list_runs({"workflow": workflow, "branch": branch}, 1)), None)
        why = f"a new run: {last.run_id} {was(last.status)}" if last else "first run"
        if workflow == SESSION:
            why = f"a session of {opening.facts.get('agent') or 'an agent'}"
        changes.put("run", "why", why)
    run = tx.add_run(run_id, at, workflow=workflow, branch=branch, status="running")
    epoch = take(tx, run, run_id, driver, at) if driver else None
    head = Head(run, run_id, 0, 0)
    done = commit_in(tx, head, changes, Terms(at, blobs=blobs))
    assert done is not None
    version, since, apply = done
    head.adopt(since, version.seq, apply.digest, apply)
    return head, epoch, version


# -- ids


def free_id(tx: Tx, opening: Opening, at: int) -> str:
    """Return the id that was asked for, or one from the workflow's name and the time. Add a suffix if it is taken;
    raise ``Conflict`` if the run that has the wanted id is unfinished."""
    asked = asked_id(tx.follower, opening, at)
    wanted = asked or (tx.follower.run_id(opening, at) if tx.follower is not None else None)
    wanted = wanted or f"{slug(opening.workflow)}-{compact(at)}"
    there = newest_of(tx, wanted) if asked else None
    if there is not None and there.status in UNFINISHED:
        raise Conflict(
            f"Run {there.run_id} already exists, and {in_words(there.status)}.",
            hint="Resume it (`start --resume`, leftoff.resume), or choose another id.",
        )
    name, number = wanted, 2
    while is_taken(tx, name):
        name, number = f"{wanted}-{number}", number + 1
    return name


def is_taken(view: View, run_id: str) -> bool:
    """Return whether a run has that id, in any state: an archived or trashed run keeps its id."""
    return view.find_run(run_id, hidden=True) is not None


def asked_id(follower: Follower | None, opening: Opening, at: int) -> str | None:
    """Return the id that was asked for, or that the protocol of the project always gives to this work."""
    if opening.run_id is not None or follower is None:
        return opening.run_id
    return follower.run_id(opening, at, again=True)


def newest_of(view: View, run_id: str) -> RunRow | None:
    """Return the active run of a fixed id with the highest suffix. An archived or trashed one counts as finished."""
    newest, name, number = None, run_id, 2
    while (row := view.find_run(name, hidden=True)) is not None:
        newest = newest if row.hidden else row
        name, number = f"{run_id}-{number}", number + 1
    return newest


# -- runs that are there


def run_by_id(view: View, run_id: str) -> RunRow:
    row = view.find_run(run_id)
    if row is None:
        raise NotFound(f"There is no run {run_id}.")
    return row


def open_run(
    store: SqlStore,
    run_id: str,
    at: int,
    *,
    driver: tuple[Process, str] | None = None,
    take_over: bool = False,
) -> tuple[Head, int | None]:
    """Return the head of a run; with ``driver``, take its lease and return the new epoch."""
    if driver is None:
        return Head.of(store.read(lambda view: run_by_id(view, run_id))), None

    def drive(tx: Tx) -> tuple[Head, int]:
        head = Head.of(run_by_id(tx, run_id))
        return head, take(tx, head.run, run_id, driver, at, take_over=take_over)

    return store.write(drive)


def status_changes(changes: ChangeSet, status: str, at: int, *, summary: str | None = None) -> None:
    """Put a run's new status, and when it ended, into a change set."""
    changes.put("run", "status", status)
    if status in UNFINISHED:
        changes.delete("run", "completed_at")
    else:
        changes.put("run", "completed_at", iso(at))
    if summary is not None:
        changes.put("run", "summary", summary)


def run_again(changes: ChangeSet, status: str, at: int, why: str | None) -> None:
    """Put into a change set that a run continues, and why: by default what its ``status`` was."""
    if status != "running":
        status_changes(changes, "running", at)
    said = "it was interrupted" if status == "running" else f"it {was(status)}"
    changes.put("run", WHY_AGAIN, f"continued: {why or said}")


# -- runs with the history that another program recorded

Records = dict[tuple[str, str], Any]


class ImportedVersion(NamedTuple):
    """One version to import: what differs from the one before, when it was made, and how it is sealed."""

    changes: ChangeSet
    at: int
    seal: Seal


def redacted_records(changes: ChangeSet) -> list[str]:
    """Return the records in which secrets were left out."""
    found = changes.changes.items()
    return [f"{name}/{key}" for (name, key), change in found if change.secret is not NOTHING]


def imported_versions(
    versions: list[tuple[Records, int, Seal]], scrubber: Scrubber | None
) -> list[ImportedVersion]:
    """Return versions, each given with all its records, as what each changes."""
    out: list[ImportedVersion] = []
    before: Records = {}
    for records, at, seal in versions:
        changes = ChangeSet(scrubber)
        for address, value in records.items():
            if address not in before or before[address] != value:
                changes.put(*address, value)
        for address in before.keys() - records.keys():
            changes.delete(*address)
        out.append(ImportedVersion(changes, at, seal))
        before = records
    return out


def weight(history: list[ImportedVersion]) -> int:
    """Return how much there is to write, in records."""

    def rows(change: Change) -> int:
        if change.kind == APPEND:
            return len(change.items)
        return 1 if change.spread is None else 1 + len(change.spread.encoded)

    return sum(1 + sum(map(rows, version.changes.changes.values())) for version in history)


def create_runs(store: SqlStore, runs: list[tuple[str, list[ImportedVersion]]]) -> None:
    """Write new runs in one transaction. Raise ``Conflict`` if an id is taken."""
    ready = [[save_blobs(store, version.changes) for version in history] for _, history in runs]

    def work(tx: Tx) -> None:
        for (run_id, history), saved in zip(runs, ready, strict=True):
            if tx.find_run(run_id, hidden=True) is not None:
                raise Conflict(f"Run {run_id} is already here.")
            run = tx.add_run(run_id, history[0].at, workflow="", branch="", status="running")
            head = Head(run, run_id, 0, 0)
            for version, (changes, blobs) in zip(history, saved, strict=True):
                done = commit_in(tx, head, changes, Terms(version.at, seal=version.seal, blobs=blobs))
                assert done is not None
                head = Head(run, run_id, done[0].seq, int.from_bytes(done[0].digest, "big"))

    store.write(work)
