"""``leftoff get``: one value, bare, for scripts."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "get",
    "Print a variable of the current run: text as it is, anything else as JSON. Without K, print all of "
    "them as one object. COLLECTION/KEY is any other record; REF is the run or version to read it from.",
    usage="[K | COLLECTION/KEY [REF]]",
    most=2,
    options=CURRENT,
    examples="""  leftoff get title
  leftoff get step/convert
  leftoff get knowledge/KE-1 @~2
  leftoff get --json pages""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations import records

    if not args.rest:
        ctx.emit(records.variables(ctx.project, ctx.caller))
        return 0
    name, *ref = args.rest
    value = records.get(ctx.project, ctx.caller, name, *ref, redacted=args.json)
    if args.json or not isinstance(value, str):
        ctx.emit(value)
    else:
        ctx.out(value)
    return 0
