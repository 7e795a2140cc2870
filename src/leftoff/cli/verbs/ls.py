"""``leftoff ls``: the runs, latest first."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

NEWEST = 50

SPEC = Spec(
    "ls",
    f"List runs, most recently updated first: the newest {NEWEST} that are not archived.",
    options=(
        Opt(
            "--status",
            "S",
            "only these, separated by commas: running, paused, blocked, failed, completed, abandoned",
        ),
        Opt("--workflow", "W", "only runs of this workflow"),
        Opt("--branch", "B", "only runs of this branch", filled=True),
        Opt("--all", None, "every run"),
        Opt("--long", None, "show how much disk space each run takes"),
        Opt("--limit", "N", f"at most N runs (default: {NEWEST})"),
    ),
    examples="""  leftoff ls                           the newest runs
  leftoff ls --status running,failed   those that are running or failed
  leftoff ls --long                    with what each takes on disk
  leftoff ls --all --json              every run, for a program""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.run_list import Wanted, list_runs

    status = statuses(args.status)
    limit = whole("--limit", args.limit) if args.limit is not None else None if args.all else NEWEST
    every = args.all and limit is None
    found = list_runs(
        ctx.project, Wanted(status, args.workflow, args.branch, limit, archived=every, sizes=args.long)
    )
    if args.json:
        return ctx.answer(found)
    if found.aside:
        ctx.say(f"{found.aside} archived; --all lists them, too.")
    if not found.runs and not found.archived:
        narrowed = any((status, args.workflow, args.branch))
        if not found.aside:
            ctx.say("No run matches." if narrowed else "No runs yet. `leftoff start WORKFLOW` starts one.")
        return 0
    from leftoff.cli.render.run_list import run_list

    screen = ctx.screen()
    screen.show(run_list([*found.runs, *found.archived], screen, found.sizes))
    if found.more:
        ctx.say(f"These are the newest {len(found.runs)}; --all lists every one.")
    return 0


def statuses(given: str | None) -> list[str] | None:
    """The words of --status, checked."""
    if given is None:
        return None
    from leftoff.operations.run_list import check_statuses

    words = [word.strip() for word in given.split(",")]
    check_statuses(words)
    return words


def whole(name: str, given: str) -> int:
    """A number of things, 1 or more."""
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if number < 1:
        raise Usage(
            f"{name} is a whole number from 1 to 999999999, not {given!r}.", hint=f"For example: {name} 20"
        )
    return number
