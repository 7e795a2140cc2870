"""``leftoff prune``: let go what the project's rules no longer keep."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "prune",
    "Remove what the rules of [retention], or those of the project's dialect, no longer keep: checkpoints "
    "by trigger and number, finished runs by age, archives by number. Unfinished runs stay, and so does "
    "the newest checkpoint of every run.\n\n"
    "A removed run stays in the trash for 7 days, where `leftoff undelete` can bring it back; then it is "
    "deleted. Disk space is returned to the file system; others can keep working meanwhile.",
    options=(
        Opt("--dry-run", None, "say what would be removed and why, but change nothing"),
        Opt("--empty-trash", None, "also delete everything in the trash now"),
    ),
    examples="""  leftoff prune --dry-run
  leftoff prune --empty-trash
  leftoff prune --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep import prune

    done = prune(ctx.project, dry=args.dry_run, empty=args.empty_trash)
    if args.json:
        ctx.emit(done.to_json())
        return 0
    for about in done.removed:
        ctx.out(_line(about, args.dry_run))
    would, given = ("would be removed", "would be freed") if args.dry_run else ("removed", "freed")
    ctx.say(
        f"leftoff: {len(done.removed)} {would}, {done.kept} checkpoints stay; {done.freed:,} bytes {given}."
    )
    for line in done.warnings:
        ctx.say(f"leftoff: {line}")
    return 0


def _line(about: dict[str, Any], dry: bool) -> str:
    verb = "archived" if about["action"] == "archive" else "put into the trash"
    if about["kind"] in ("trash", "checkpoint"):
        verb = "removed for good" if about["kind"] == "trash" else "removed"
    verb = f"would be {verb}" if dry else verb
    name = f"{about['run_id']}@{about['seq']}" if "seq" in about else about["run_id"]
    return f"{about['kind']} {name}: {verb} ({about['why']})"
