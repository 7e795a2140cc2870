"""``leftoff export``: a run with its whole history as one file, to be carried elsewhere."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "export",
    "Write a run to one portable file: every checkpoint, record and captured file. Others can keep "
    "writing meanwhile.",
    usage="[RUN]",
    most=1,
    options=(Opt("-o", "FILE", "the file to write; an existing one is replaced", needed=True), *CURRENT),
    examples="""  leftoff export site-20260131-090500 -o site.leftoff
  leftoff export @ -o run.leftoff            the current run
  leftoff export latest -o /backup/run.leftoff --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.transfer import export

    if args.o == "-":
        raise Usage("A bundle is written to a file, not to stdout.", hint=f"usage: {SPEC.line()}")
    done = export(ctx.project, ctx.caller, args.rest[0] if args.rest else None, args.o)
    if args.json:
        ctx.emit(done.to_json())
    else:
        files = f", {done.blobs} file(s)" if done.blobs else ""
        ctx.out(
            f"{done.path}: run {done.run_id}, {done.checkpoints} checkpoint(s){files}, {done.bytes:,} bytes"
        )
    return 0
