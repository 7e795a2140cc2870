"""``leftoff save``: a checkpoint, now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.model.words import TRIGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "save",
    "Save a checkpoint of the current run and print its id. It is always a new one, even if nothing changed.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--trigger", "T", f"why (default: manual): {', '.join(TRIGGERS)}", choices=TRIGGERS),
        Opt("--note", "N", "what to remember about it"),
        *CURRENT,
    ),
    examples="""  leftoff save
  leftoff save --note "before the risky part"
  id=$(leftoff save --trigger phase_transition)""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import save

    ctx.name_run()
    version = save(ctx.project, ctx.caller, args.trigger or "manual", args.note)
    if not args.json:
        ctx.out(version.id or "")
    return ctx.answer(version)
