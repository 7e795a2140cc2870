"""Before a run goes on: what its protocol checks, settles, asks and says. For `resume`."""

from __future__ import annotations

from leftoff.cli.ask import YES, answer, can_ask
from leftoff.dialects.take import state_at
from leftoff.engine.report import report
from leftoff.engine.runs import find
from leftoff.errors import CannotResume, NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.dialects.base import Dialect
    from leftoff.dialects.draft import State
    from leftoff.engine.commit import Seal
    from leftoff.engine.find import Target
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

HINT = "--yes goes on with it as it is."


def begin(target: Target, ctx: Context) -> bool:
    """Whether to go on. A run of no protocol just does."""
    dialect = _dialect(target.row, ctx)
    if dialect is None:
        return True
    if target.version is None:
        _settle(target.row, dialect, ctx)
    seq = target.version.seq if target.version is not None else None
    run_id = target.row.run_id
    state = ctx.store.read(lambda view: state_at(ctx.store, view, find(view, run_id), dialect, seq))
    refused = dialect.refuses(state)
    if refused is not None:
        raise CannotResume(f"Run {state.run_id} cannot be resumed: {refused}.", hint="Start a new one.")
    doubts = dialect.doubts(state, ctx.project, ctx.now)
    for line in doubts:
        ctx.say(f"leftoff: {line}.")
    if doubts and not _trusted(dialect, target, ctx):
        return False
    for line in dialect.greeting(state, ctx.project, ctx.now):
        ctx.say(line)
    return _wanted(dialect, state, target, ctx)


def _dialect(row: RunRow, ctx: Context) -> Dialect | None:
    """The protocol that the project follows, or that the run was imported from."""
    if ctx.dialect is not None:
        return ctx.dialect
    origin = row.card.get("imported")
    name = origin.get("dialect") if isinstance(origin, dict) else None
    if not isinstance(name, str):
        return None
    from leftoff.dialects.registry import BUILT_IN, dialect

    return dialect(name) if name in BUILT_IN else None


def _settle(row: RunRow, dialect: Dialect, ctx: Context) -> None:
    """What was in flight and left an output that says how it ended, ended so."""

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        for path, record in dialect.settled(state_at(ctx.store, tx, row, dialect), ctx.project).items():
            changes.put("step", path, record)
            ctx.say(f"leftoff: {path} is {record['status']}: its output says so.")
        return None

    report(ctx.store, lambda view: find(view, row.run_id), make, ctx.now, scrubber=ctx.redactor)


def _trusted(dialect: Dialect, target: Target, ctx: Context) -> bool:
    """Whether to go on with a state that looks wrong."""
    if ctx.args.yes or dialect.corrupted is None:
        return True
    if not can_ask(ctx):
        raise NeedsPerson(dialect.corrupted, hint=HINT)
    if answer(f"{dialect.corrupted} ", HINT).lower() in YES:
        _give_up(target.row, ctx)
        return False
    return True


def _wanted(dialect: Dialect, state: State, target: Target, ctx: Context) -> bool:
    question = dialect.question(state)
    if question is None or ctx.args.yes or not can_ask(ctx):
        return True
    if answer(f"{question} ", HINT).lower() in ("", *YES):
        return True
    _give_up(target.row, ctx)
    return False


def _give_up(row: RunRow, ctx: Context) -> None:
    """Start fresh: the run is abandoned, and its files are archived."""
    from leftoff.engine.settle import settle

    settle(
        ctx.store,
        lambda view: find(view, row.run_id),
        "abandoned",
        ctx.now,
        project=ctx.project,
        scrubber=ctx.redactor,
    )
    ctx.say(f"leftoff: {row.run_id} is abandoned. `leftoff start {row.workflow}` starts anew.")
