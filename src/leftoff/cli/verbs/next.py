"""``leftoff next``: what to do now. With --start, whoever asks has it."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.steps.next_step import UpNext
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "next",
    "Print the next step of the current run: the first that is pending, in declared order. Its title, instructions\n"
    "and why it is this one go to stderr. Where nothing is left, nothing is printed and the exit code is 0.",
    options=(
        Opt("--start", None, "mark it started in the same breath: of two who ask at once, each gets another"),
        *CURRENT,
    ),
    examples="""  leftoff next
  while step=$(leftoff next --start) && [ -n "$step" ]; do work-on "$step" && leftoff step done "/$step"; done""",
)


def run(args: Args, ctx: Context) -> int:
    found, run_id = _take(ctx) if args.start else _look(ctx)
    if args.json:
        ctx.emit({**found.to_json(), "run_id": run_id})
        return 0
    if found.step is not None:
        ctx.out(found.step)
    from leftoff.cli.render.text import clean_lines

    for line in (found.title, found.instructions, found.why):
        if line:
            ctx.say(clean_lines(line))
    return 0


def _look(ctx: Context) -> tuple[UpNext, str]:
    from leftoff.engine.steps.next_step import up_next
    from leftoff.engine.write.report import need_store

    def look(view: View) -> tuple[UpNext, str]:
        row = ctx.current_in(view)
        return up_next(ctx.store, view, row), row.run_id

    need_store(ctx.store)
    return ctx.store.read(look)


def _take(ctx: Context) -> tuple[UpNext, str]:
    from leftoff.engine.steps.next_step import up_next
    from leftoff.engine.steps.reports import StepReport, step_changes

    at = ctx.now
    found: list[UpNext] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        found[:] = [up_next(ctx.store, tx, row)]
        if found[0].step is not None:
            step_changes(ctx.store, tx, row, changes, StepReport("start", found[0].step), at)

    done = ctx.report(make, at=at)
    return found[0], done.row.run_id
