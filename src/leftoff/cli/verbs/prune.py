"""``leftoff prune``: let go what the project's rules no longer keep."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.cli.render.text import clean
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.dialects.retention import Pruned

SPEC = Spec(
    "prune",
    "Remove what the rules of [retention], or those of the project's dialect, no longer keep: checkpoints "
    "by trigger and number, finished runs by age, archived runs by number. Unfinished runs stay, and so does "
    "the newest checkpoint of every run.\n\n"
    "A removed run stays in the trash for 30 days, where `leftoff undelete` can bring it back; then it is "
    "deleted, and its disk space is freed. --empty-trash does that now. Others can keep working meanwhile.\n\n"
    "--protocol-files does something else: it takes the files of the project's dialect out of the project, "
    "before you share it for example. The store keeps everything, and the next commit of a run writes its "
    "files again.",
    options=(
        Opt("--dry-run", None, "say what would be removed and why, but change nothing"),
        Opt("--empty-trash", None, "also delete everything in the trash now"),
        Opt("--protocol-files", None, "only remove the files of the project's dialect"),
    ),
    examples="""  leftoff prune --dry-run
  leftoff prune --empty-trash
  leftoff prune --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.retention import prune, withdraw_files

    if args.protocol_files and args.empty_trash:
        raise Usage("--protocol-files and --empty-trash cannot be combined.", hint=f"usage: {SPEC.line()}")
    if args.protocol_files:
        done = withdraw_files(ctx.project, dry=args.dry_run)
    else:
        done = prune(ctx.project, dry=args.dry_run, empty=args.empty_trash)
    if args.json:
        ctx.emit(done.to_json())
        return 0
    for about in done.removed:
        ctx.out(_line(about, args.dry_run))
    for line in _told(done, in_database=not args.protocol_files and ctx.project.store.shared):
        ctx.say(f"leftoff: {line}")
    return 0


def _told(done: Pruned, *, in_database: bool) -> list[str]:
    """Return what to say of all of it: what went where, and which space is free now or later."""
    verbs = [_verb(about, done.dry) for about in done.removed]
    went = ", ".join(f"{verbs.count(verb)} {verb}" for verb in dict.fromkeys(verbs)) or "nothing to remove"
    freed = f"about {done.freed:,} bytes would be freed" if done.dry else f"{done.freed:,} bytes freed"
    freed += " for new rows (PostgreSQL keeps the disk space)" if in_database else ""
    later = f", {done.waiting:,} more within the hour, as the store is in use" if done.waiting else ""
    lines = [f"{went}; {done.kept} checkpoints stay; {freed}{later}."]
    if done.in_trash:
        lines.append(
            f"the trash {'would take' if done.dry else 'takes'} about {done.in_trash:,} bytes. "
            "`leftoff prune --empty-trash` deletes what is in it and frees them now."
        )
    if any(about["action"] == "archive" for about in done.removed):
        lines.append("archived runs keep their space in the store. `leftoff rm RUN` removes one.")
    return [*lines, *done.warnings]


def _verb(about: dict[str, Any], dry: bool) -> str:
    verb = "archived" if about["action"] == "archive" else "put into the trash"
    if about["kind"] in ("trash", "checkpoint", "file"):
        verb = "removed for good" if about["kind"] == "trash" else "removed"
    return f"would be {verb}" if dry else verb


def _line(about: dict[str, Any], dry: bool) -> str:
    verb = _verb(about, dry)
    if about["kind"] == "file":
        return f"{clean(about['path'])}: {verb}"
    name = f"{about['run_id']}@{about['seq']}" if "seq" in about else about["run_id"]
    return f"{about['kind']} {name}: {verb} ({about['why']})"
