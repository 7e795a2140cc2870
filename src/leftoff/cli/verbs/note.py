"""``leftoff note``: a word for whoever goes on."""

from __future__ import annotations

from leftoff.cli.arguments import step_path
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "note",
    "Leave a note in the current run. `leftoff brief` shows the newest notes.",
    usage="TEXT",
    least=1,
    most=None,
    options=(
        Opt("--step", "STEP", "the step it is about (default: LEFTOFF_STEP)"),
        Opt("--resume", None, "show it first when the run resumes"),
        *CURRENT,
    ),
    examples="""  leftoff note "the API allows 10 requests per second"
  leftoff note --resume "drop the table tmp_users before anything else\"""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.records import Note, add_note

    text = " ".join(args.rest)
    if not text.strip():
        raise Usage("A note cannot be empty.", hint='For example: leftoff note "the second server is slow"')
    step = step_path(args.step) if args.step else None
    return ctx.answer(add_note(ctx.project, ctx.caller, Note(text, step, args.resume)))
