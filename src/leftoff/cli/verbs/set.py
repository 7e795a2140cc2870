"""``leftoff set``: variables of the current run, all in one commit."""

from __future__ import annotations

from leftoff.cli.arguments import assignments
from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "set",
    "Set variables of the current run, all in one commit.\n\n"
    "V is JSON if it is true, false, null, a list or an object; a number if it prints back exactly as "
    "typed; text otherwise. So tag=1.10, sha=1e5 and zip=007 stay text. K:=JSON forces JSON; K=@FILE "
    "reads a file (@- is stdin).",
    usage="K=V…",
    least=1,
    most=None,
    options=CURRENT,
    examples="""  leftoff set count=3 done=true name="Ada Lovelace"
  leftoff set 'pages=["a","b"]' version:='"2"'
  leftoff set plan=@plan.md""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.records import set_variables

    done = set_variables(ctx.project, ctx.caller, assignments(args.rest))
    ctx.say_redacted(done)
    return ctx.answer(done)
