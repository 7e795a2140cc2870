"""Going on with a run that nobody drives: from its head, from an older version, from a step, or afresh.

Going back never erases: the present is sealed if it was not, and a `rollback` checkpoint follows it. Everything is one
transaction, in which it is also looked at once more whether somebody else drives the run by now.
"""

from __future__ import annotations

from leftoff.engine.lifecycle.opening import Opening, opening_changes, start_in, status_changes
from leftoff.engine.lifecycle.rollback import rollback_in, save_present
from leftoff.engine.read.show import in_order, inner_steps
from leftoff.engine.read.state import Reader
from leftoff.engine.resume.open_again import put_back
from leftoff.engine.write.commit import NO_GUARD, Seal, commit_in, new_token, save_blobs
from leftoff.engine.write.head import Head, need_run
from leftoff.engine.write.lease import let_go, refuse_driven, release
from leftoff.engine.write.report import report_in
from leftoff.errors import NotFound
from leftoff.model.changes import ChangeSet
from leftoff.model.words import ONCE_MORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.engine.write.commit import Guard
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import Lease, RunRow

# What a try at a step leaves in its record; the rest is how it was declared.
_OF_A_TRY = ("started_at", "completed_at", "interrupted_at", "result", "error")
_OF_ITS_LIFE = (*_OF_A_TRY, ONCE_MORE, "status", "attempt", "outputs", "note", "resume_with", "missing")
_KEPT_FACTS = ("git_branch", "issue", "task", "agent", "total")


class Way:
    """How to go on: the version to go back to (``None``: stay), the step to begin with, variables to set.

    ``repeat``: single steps to be done once more, whatever comes after them.
    """

    __slots__ = ("repeat", "seq", "step", "variables")

    def __init__(
        self,
        seq: int | None = None,
        step: str | None = None,
        variables: dict[str, Any] | None = None,
        repeat: frozenset[str] = frozenset(),
    ) -> None:
        self.seq = seq
        self.step = step
        self.variables = variables or {}
        self.repeat = repeat


def from_step(steps: Mapping[str, Any], step: str, run_id: str) -> list[str]:
    """The step, what is below it, every later one in declared order, and the steps that contain it."""
    ordered = in_order(steps)
    first = next((i for i, path in enumerate(ordered) if path == step or path.startswith(step + "/")), None)
    if first is None:
        raise NotFound(
            f"Run {run_id} has no step {step}.", hint=f"Its steps: {', '.join(ordered[:20]) or 'none yet'}."
        )
    return [path for i, path in enumerate(ordered) if i >= first or step.startswith(path + "/")]


def with_outer(steps: Mapping[str, Any], some: Collection[str]) -> set[str]:
    """These steps, what is below them, and the steps that contain them."""
    wanted = set(some)
    outer = inner_steps(wanted)
    return {path for path in steps if path in outer or not wanted.isdisjoint((path, *_above(path)))}


def _above(path: str) -> list[str]:
    """The paths that contain a path."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def driver_of(store: Store, target: Target, now: int, session: str | None) -> Lease | None:
    """Raise where somebody else drives the run; the lease of one who cannot be seen is returned."""
    return store.read(lambda view: refuse_driven(view, target.row.run, target.row.run_id, now, session))


def pick_up(
    store: Store,
    target: Target,
    way: Way,
    at: int,
    *,
    scrubber: Scrubber | None,
    session: str | None = None,
    guard: Guard = NO_GUARD,
) -> ChangeSet:
    """The run is running again, and what was in flight or failed is to be done. The changes that were given."""
    given = ChangeSet(scrubber)
    for key, value in way.variables.items():
        given.put("variable", key, value)
    ready, blobs = save_blobs(store, given)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        put_back(Reader(store, tx, row.run, row.run_id), changes, at)
        if session is not None and session != row.session:
            changes.put("run", "session_id", session)
        return _again_from(Reader(store, tx, row.run, row.run_id), way, row.run_id, changes)

    def work(tx: Tx) -> None:
        row = _row(tx, target)
        lease = refuse_driven(tx, row.run, row.run_id, at, session)
        if way.seq is not None:
            rollback_in(store, tx, Head.of(row), way.seq, at, guard)
        elif way.step is not None or way.repeat:
            save_present(tx, Head.of(row), at, guard)
        changes = ChangeSet(scrubber)
        changes.changes.update(ready.changes)
        report_in(store, tx, _row(tx, target), make, at, changes, guard, blobs)
        let_go(tx, row.run, lease, session)

    store.write(work)
    return given


def _again_from(reader: Reader, way: Way, run_id: str, changes: ChangeSet) -> Seal | None:
    """Put a step and the later ones, or single ones, back to be done; that is a rollback, too."""
    if way.step is None and not way.repeat:
        return None
    steps = reader.plain("step")
    again = set(from_step(steps, way.step, run_id)) if way.step is not None else set()
    for path in again | with_outer(steps, way.repeat):
        kept = {key: value for key, value in steps[path].items() if key not in _OF_A_TRY}
        changes.put("step", path, {**kept, "status": "pending", ONCE_MORE: True})
    if way.step is not None:
        return Seal("rollback", way.step, f"again from {way.step}")
    return Seal("rollback", min(way.repeat), f"once more: {', '.join(sorted(way.repeat)[:5])}")


def go_back(
    store: Store, target: Target, at: int, *, session: str | None = None, guard: Guard = NO_GUARD
) -> None:
    """`rollback`: the run's records are what they were, and nobody drives it."""

    def nothing(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        return None

    def work(tx: Tx) -> None:
        row = _row(tx, target)
        ours = guard.epoch is not None
        lease = None if ours else refuse_driven(tx, row.run, row.run_id, at, session)
        rollback_in(store, tx, Head.of(row), target.seq, at, guard)
        report_in(store, tx, _row(tx, target), nothing, at, ChangeSet(), guard, [])  # into the current schema
        let_go(tx, row.run, lease, session)

    store.write(work)


def start_fresh(
    store: Store, target: Target, at: int, *, scrubber: Scrubber | None, session: str | None = None
) -> int:
    """Abandon a run and start its like: the same workflow, title, steps and first variables, nothing done."""
    opening = store.read(lambda view: _opening(store, view, target))
    opening.facts["session_id"] = session
    changes = opening_changes(opening, at, scrubber)
    changes, blobs = save_blobs(store, changes)

    def work(tx: Tx) -> int:
        row = _row(tx, target)
        lease = refuse_driven(tx, row.run, row.run_id, at, session)
        head, _, _ = start_in(tx, opening, changes, blobs, at, None)
        ended = ChangeSet(scrubber)
        status_changes(ended, "abandoned", at)
        seal = Seal("session_end", note=f"abandoned: {head.run_id} starts afresh")
        commit_in(tx, Head.of(row), ended, at, NO_GUARD, seal, new_token(), [])
        release(tx, row.run, lease)
        return head.run

    return store.write(work)


def _opening(store: Store, view: View, target: Target) -> Opening:
    row = _row(view, target)
    steps = Reader(store, view, row.run, row.run_id).plain("step")
    declared = [
        {"id": path, **{key: value for key, value in steps[path].items() if key not in _OF_ITS_LIFE}}
        for path in in_order(steps)
    ]
    variables: dict[str, Any] = {}
    if view.version(row.run, 1) is not None:  # what it was started with, unless that was pruned
        variables = Reader(store, view, row.run, row.run_id, 1).plain("variable")
    facts = {"issue": row.issue, **{key: row.card[key] for key in _KEPT_FACTS if key in row.card}}
    return Opening(
        row.workflow, title=row.title, branch=row.branch, steps=declared, variables=variables, facts=facts
    )


def _row(view: View, target: Target) -> RunRow:
    return need_run(view, target.row.run, target.row.run_id)
