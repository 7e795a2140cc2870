"""What failed under `on_failure: ask`: whoever sits at the terminal says what becomes of it."""

from __future__ import annotations

from leftoff.cli.prompts.ask import can_ask, choose
from leftoff.cli.render.text import clean
from leftoff.engine.steps.reports import StepReport, step_changes
from leftoff.engine.write.report import report
from leftoff.errors import NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.run.runner import Runner

RETRY, SKIP, QUIT = "retry", "skip", "quit"
SHOWN = 5
FAILED = 1


def decided(ctx: Context, runner: Runner, code: int) -> int:
    """The exit code of a run that was driven to its end; it goes on where somebody says so."""
    there = code == FAILED and can_ask(ctx) and not ctx.args.yes
    failed = _failed(runner) if there else []
    if not failed:
        return code
    for path, why in failed[:SHOWN]:
        ctx.say(f"{clean(path)} failed: {clean(why)}")
    if len(failed) > SHOWN:
        ctx.say(f"and {len(failed) - SHOWN} more")
    hint = f"`leftoff resume {runner.run_id}` tries again what failed."
    try:
        choice = choose("(r)etry, (s)kip and go on, (q)uit: ", (RETRY, SKIP, QUIT), hint)
    except NeedsPerson:
        return code
    if choice == QUIT:
        return code
    from leftoff.cli.execute import go_on
    from leftoff.engine.read.find import Target
    from leftoff.workflow.recovery.resume import Onward

    if choice == SKIP:
        for path, why in failed:
            _skip(ctx, runner.ledger.run, path, f"skipped after it failed: {why}")
    row = ctx.store.read(lambda view: _row(view, runner.ledger.run))
    return go_on(ctx, Target(row, None), Onward())


def _failed(runner: Runner) -> list[tuple[str, str]]:
    """The steps and items that wait for a decision, and why each failed."""
    asking = {path for path, step in runner.stage.scheduler.steps.items() if step.on_failure == "ask"}
    found = []
    for path, record in runner.state.steps.items():
        own = path in asking and "items" not in record
        item = "item" in record and any(path.startswith(f"{leaf}/") for leaf in asking)
        if record["status"] == "failed" and (own or item):
            found.append((path, str((record.get("error") or {}).get("message", "no reason is on record"))))
    return found


def _skip(ctx: Context, run: int, path: str, note: str) -> None:
    at = ctx.now
    said = StepReport("skip", path, note=note)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        return step_changes(ctx.store, tx, row, changes, said, at, decided=True)

    said.masked(ctx.redactor)
    report(ctx.store, lambda view: _row(view, run), make, at)


def _row(view: View, run: int) -> RunRow:
    from leftoff.cli.execute import row_now

    return row_now(view, run)
