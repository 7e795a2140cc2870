"""``leftoff track``: files that the work depends on, as they are now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "track",
    "Record files as they are now, so that later changes are reported when the run resumes, and `leftoff "
    "rollback --files` can bring them back. Their content is kept too, up to [capture] max_file of "
    "leftoff.toml, unless they hold secrets. A tracked file that no longer exists is recorded as deleted. "
    "All files go into one commit, or none.",
    usage="[PATH…]",
    most=None,
    options=(Opt("--git", None, "every file that git reports as changed or untracked"), *CURRENT),
    examples="""  leftoff track config.toml
  leftoff track src/*.py
  leftoff track --git""",
)


def run(args: Args, ctx: Context) -> int:
    if bool(args.rest) == args.git:
        raise Usage("`leftoff track` needs PATH… or --git.", hint=f"usage: {SPEC.line()}")
    from leftoff.operations.files import track

    return ctx.answer(track(ctx.project, ctx.caller, args.rest, git=args.git))
