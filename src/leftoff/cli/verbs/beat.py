"""``leftoff beat``: somebody is at work."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "beat",
    "Signal that somebody is working on the current run. Only its health changes, nothing in the run itself.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff beat
  while sleep 60; do leftoff beat; done &""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.records import beat

    ctx.name_run()
    return ctx.answer(beat(ctx.project, ctx.caller))
