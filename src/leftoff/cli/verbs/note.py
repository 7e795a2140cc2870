"""``leftoff note``: a word for whoever goes on."""

from __future__ import annotations

from leftoff.cli.arguments import own_step, step_path
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.engine.write.notes import put_note
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "note",
    "Leave a note in the current run. `leftoff brief` shows the newest.",
    usage="TEXT",
    least=1,
    most=None,
    options=(
        Opt("--step", "STEP", "the step it is about (default: LEFTOFF_STEP)"),
        Opt("--resume", None, "whoever goes on must read this first"),
        *CURRENT,
    ),
    examples="""  leftoff note "the API allows 10 requests per second"
  leftoff note --resume "drop the table tmp_users before anything else\"""",
)


def run(args: Args, ctx: Context) -> int:
    text = " ".join(args.rest)
    if not text.strip():
        raise Usage("A note cannot be empty.", hint='For example: leftoff note "the second server is slow"')
    at = ctx.now
    step = step_path(args.step) if args.step else own_step()
    text = ctx.redactor.mask(text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_note(tx, row, changes, text, at, step=step, resume=args.resume)

    return ctx.told(ctx.report(make, at=at))
