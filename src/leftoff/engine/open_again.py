"""Going on with a run: which one, and what becomes of what was in flight."""

from __future__ import annotations

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Head, Terms, commit_in, save_blobs
from leftoff.engine.find import OPEN_TURN
from leftoff.engine.lease import need_free, take
from leftoff.engine.opening import Opening, opening_changes, start_in, status_changes
from leftoff.engine.run_reader import Reader
from leftoff.hints import Any
from leftoff.model.changes import ChangeSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.commit import Guard
    from leftoff.host import Process
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx


def run_or_start(
    store: Store,
    opening: Opening,
    at: int,
    driver: tuple[Process, str],
    *,
    scrubber: Scrubber | None,
    take_over: bool = False,
) -> tuple[Head, int, bool] | None:
    """The latest unfinished run that fits, or a new one, and its lease: one transaction, so never two by accident.

    Return ``None`` if that run is not as it was checked (``opening.seen``): another process has changed it since then.
    """
    changes = opening_changes(opening, at, scrubber)
    changes, blobs = save_blobs(store, changes)

    def work(tx: Tx) -> tuple[Head, int, bool] | None:
        row, seen = opening.twin(tx), opening.seen
        if (row and (row.run, row.seq)) != (seen and (seen.run, seen.seq)):
            if row is not None:
                need_free(tx, row.run, row.run_id, driver[0], at, take_over=take_over)
            return None
        if row is not None:
            epoch = take(tx, row.run, row.run_id, driver, at, take_over=take_over)
            return Head.of(row), epoch, True
        head, new_epoch, _ = start_in(tx, opening, changes, blobs, at, driver)
        assert new_epoch is not None
        return head, new_epoch, False

    return store.write(work)


def go_on(
    store: Store,
    head: Head,
    at: int,
    *,
    guard: Guard,
    scrubber: Scrubber | None,
    opening: Opening | None = None,
) -> None:
    """Make a run that was found ready to be driven: nothing is in flight any more."""

    def work(tx: Tx) -> Any:
        """Looking and writing in one transaction: a step that is reported done meanwhile stays done."""
        changes = ChangeSet(scrubber)
        reader = Reader(store, tx, head.run, head.run_id)
        put_back(reader, changes, at)
        if opening is not None:
            lifecycle.Steps(reader, changes, at).declare(opening.steps)
        # Hardly ever any: a step that was read here may be that large.
        ready, blobs = save_blobs(store, changes)
        return commit_in(tx, head, ready, Terms(at, guard, blobs=blobs))

    done = store.write(work)
    if done is not None:
        head.adopt(done[1], done[0].seq, done[2].digest, done[2])


def put_back(reader: Reader, changes: ChangeSet, at: int) -> None:
    """Put into a change set that the run is running, and that what was in flight or failed is to be done.

    A turn that an agent's session had not ended was cut off.
    """
    status = reader.value("run", "status")
    if status is None or status.plain != "running":
        status_changes(changes, "running", at)
    steps = lifecycle.Steps(reader, changes, at)
    for path in reader.view.open_steps(reader.run):
        record = steps.get_or_new(path)
        # How an attempt ended is for a runner to find out.
        cut_off = record["status"] == "running" and "kind" in record
        steps.move(path, lifecycle.put_back(record, steps.now if cut_off else None))
    cut_turn(reader, changes, at)


def cut_turn(reader: Reader, changes: ChangeSet, at: int) -> None:
    """Whoever was at work on a turn is not any more: it was cut off."""
    row = reader.view.run_row(reader.run)
    if row is not None and row.card.get(OPEN_TURN):
        from leftoff.engine.agent_turns import INTERRUPTED, AgentTurn

        AgentTurn(reader, row, changes, at).end(INTERRUPTED)
