"""``leftoff import``: take in runs that were kept elsewhere, by leftoff or by hand."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.cli.prompts.ask import YES, answer, can_ask
from leftoff.cli.render.text import clean
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.transfer import Imported

SPEC = Spec(
    "import",
    "Import runs: bundles written by `leftoff export`, with the same ids and digests, and the checkpoint "
    "files of a known protocol (`leftoff dialects` lists them). A folder is searched for both.\n\n"
    "Repairs are reported, unreadable files are rejected with a reason, and no run is imported half. A "
    "file that changed since it was last imported adds a checkpoint to its run, never a second run.",
    usage="PATH…",
    least=1,
    most=None,
    options=(
        Opt(
            "--dialect",
            "D",
            "what the files are: leftoff (bundles), bmad, crunch, dotagent, sitebuilder, claude, generic",
        ),
        Opt("--dry-run", None, "check the files and say what would happen, but write nothing"),
        Opt("--strict", None, "reject files that need repairs; exit 4 if anything was rejected"),
    ),
    examples="""  leftoff import site.leftoff
  leftoff import .
  leftoff import _bmad-output --dialect bmad --dry-run
  leftoff import .claude/checkpoints --strict --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.transfer import Import, import_runs

    if any("\0" in path or not path for path in args.rest):
        raise Usage("An empty name is not a file.", hint=f"usage: {SPEC.line()}")
    agree = _agrees if args.dialect is None and can_ask(ctx) else None
    wanted = Import(args.rest, args.dialect, strict=args.strict, dry=args.dry_run, agree=agree)
    outcome = import_runs(ctx.project, wanted)
    _tell(args, ctx, outcome)
    return outcome.exit_code(args.strict)


def _agrees(path: str, way: str) -> bool:
    """Whether a file of no protocol is read, as far as it can be understood."""
    question = (
        f"{clean(path)} follows no known protocol; {clean(way)} could be read. Read it that way? [y/N]: "
    )
    return answer(question, "Nothing of it was imported.").lower() in YES


def _tell(args: Args, ctx: Context, outcome: Imported) -> None:
    if args.json:
        ctx.emit({"imported": outcome.imported, "rejected": outcome.rejected, "dry_run": args.dry_run})
    for entry in outcome.imported if not args.json else ():
        ctx.out(f"{entry['run_id']}: {_became(entry, args.dry_run)} ({entry['path']})")
        for line in entry["repairs"]:
            ctx.say(f"  {line}")
    for entry in outcome.rejected:
        ctx.say(f"leftoff: {entry['message']}\n{entry['hint']}")


def _became(entry: dict[str, Any], dry: bool) -> str:
    if entry["new"]:
        return "would be imported" if dry else "imported"
    if entry.get("changed"):
        return "would be brought up to date" if dry else "brought up to date"
    return "already here, unchanged"
