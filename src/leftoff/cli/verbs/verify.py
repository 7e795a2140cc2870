"""``leftoff verify``: check the world against a run, and say whether it can be resumed."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "verify",
    "Check whether a run can be resumed: its stored data, outputs, tracked files, git, workflow file, "
    "requirements and driver. Nothing is changed.\n\n"
    "Exit code 0: it can be resumed; 7: a person must decide; 6: it cannot be resumed; 4: its data is "
    "damaged; 5: another process is driving it.",
    usage="[REF]",
    most=1,
    options=(Opt("--deep", None, "hash every file, even those that look unchanged"), *CURRENT),
    examples="""  leftoff verify                          the current run
  leftoff verify release-1~1 --deep       one checkpoint back, every byte""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.render.verdict import show
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.operations.resume.verdict import verify
    from leftoff.operations.runs import target

    request = ResumeRequest(
        target(ctx.project, ctx.caller, args.rest[0] if args.rest else None),
        deep=bool(args.deep),
        resumes=False,
    )
    return show(ctx, verify(ctx.project, ctx.caller, request), plan=False)
