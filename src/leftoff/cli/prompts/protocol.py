"""A run that follows a protocol goes on: what its protocol settles, says and asks."""

from __future__ import annotations

from leftoff.cli.prompts.ask import YES, answer, can_ask
from leftoff.cli.render.verdict import report_of
from leftoff.dialects.core.versions import state_at
from leftoff.dialects.verdict import state_of
from leftoff.engine.lifecycle.opening import find
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.write.report import report
from leftoff.errors import CannotResume, NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import State
    from leftoff.engine.read.find import Target
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

HINT = "--yes goes on with it as it is."


def begin(dialect: Dialect, target: Target, ctx: Context) -> bool:
    """Whether to go on, now that nothing stands in the way."""
    return _wanted(dialect, _greet(dialect, target, ctx), target, ctx)


def begin_unasked(dialect: Dialect, target: Target, ctx: Context) -> None:
    """For `start --resume`, which asks nothing: an error where something refuses, or needs a person."""
    found = report_of(ctx, target)
    found.findings = [
        f for f in found.findings if not f.code.startswith("lease.")
    ]  # start looks at that itself
    try:
        found.insist("")
    except CannotResume as error:
        if found.verdict == REFUSE:
            raise
        codes = " ".join(
            f"--accept {code}" for code in sorted({f.code for f in found.findings if f.level == ASK})
        )
        hint = f"`leftoff resume {target.row.run_id}` asks; with {codes} it goes on."
        asked = f"{dialect.corrupted} " if dialect.corrupted is not None else ""
        raise NeedsPerson(f"{asked}{error.message}", hint=hint) from None
    _greet(dialect, target, ctx)


def _greet(dialect: Dialect, target: Target, ctx: Context) -> State:
    """Settle what an output settles, and say in the protocol's words what goes on."""
    last = state_of(ctx.store, target, dialect).at
    if target.version is None:
        _settle(target.row, dialect, ctx)
    state = state_of(ctx.store, target, dialect)
    state.at = last  # what was settled just now is no activity of the run
    for line in dialect.greeting(state, ctx.project.folder, ctx.now):
        ctx.say(line)
    return state


def start_fresh(dialect: Dialect, target: Target, ctx: Context) -> bool:
    """Where something needs a person: whether they would rather begin anew. Then the run is abandoned."""
    if answer(f"{dialect.corrupted} ", HINT).lower() not in YES:
        return False
    _give_up(target.row, ctx)
    return True


def _settle(row: RunRow, dialect: Dialect, ctx: Context) -> None:
    """What was in flight and left an output that says how it ended, ended so; unless somebody reported on it since."""
    state = ctx.store.read(lambda view: state_at(ctx.store, view, row, dialect))
    ended = dialect.settled(state, ctx.project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        steps = state_at(ctx.store, tx, row, dialect).of("step")
        for path, record in ended.items():
            if steps.get(path) == state.of("step")[path]:
                changes.put("step", path, record)
                ctx.say(f"leftoff: {path} is {record['status']}: its output says so.")
        return None

    report(ctx.store, lambda view: find(view, row.run_id), make, ctx.now, scrubber=ctx.redactor)


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
    from leftoff.engine.lifecycle.finish import settle

    settle(
        ctx.store,
        lambda view: find(view, row.run_id),
        "abandoned",
        ctx.now,
        project=ctx.project.folder,
        scrubber=ctx.redactor,
    )
    ctx.say(f"leftoff: {row.run_id} is abandoned. `leftoff start {row.workflow}` starts anew.")
