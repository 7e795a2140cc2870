"""``leftoff install``: set up an agent, or remove everything again."""

from __future__ import annotations

import os
import shutil
import sys

from leftoff.agents.install.install_check import check_install
from leftoff.agents.install.install_plan import FileChange, InstallPlan
from leftoff.agents.install.recipes import Recipe
from leftoff.cli.context import Context
from leftoff.cli.options import Args, Opt, Spec
from leftoff.cli.render.text import clean, clean_lines
from leftoff.errors import Usage

AGENTS = ("claude", "codex", "gemini")

SPEC = Spec(
    "install",
    "Set up an agent for this project: hooks that record the progress of its sessions, the MCP server, a "
    "skill, the commands leftoff-checkpoint and leftoff-resume, and its todo list if that is off. The "
    "changes are shown and applied. Existing settings stay. A JSON file with comments is left alone: "
    "leftoff prints what to paste into it. Installing twice changes nothing, and --uninstall restores the "
    "files.\n\n"
    "--check reports whether the hooks fire: exit 0 if they do, 3 if they are not installed, 7 if none "
    "has been seen yet.",
    usage="claude|codex|gemini",
    least=1,
    most=1,
    options=(
        Opt("--user", None, "in your own settings, for all projects, instead of this project's"),
        Opt("--uninstall", None, "remove everything again"),
        Opt("--check", None, "only report whether the hooks are installed, and which have fired"),
        Opt("--dry-run", None, "only show what would change"),
    ),
    examples="""  leftoff install claude
  leftoff install codex --user --dry-run
  leftoff install codex --check
  leftoff install gemini --uninstall""",
)


def run(args: Args, ctx: Context) -> int:
    agent = args.rest[0]
    if agent not in AGENTS:
        raise Usage(f"leftoff cannot set up {agent!r}.", hint=f"One of {', '.join(AGENTS)}.")
    if args.check and (args.uninstall or args.dry_run):
        raise Usage("--check cannot be combined with --uninstall or --dry-run.")
    base = os.path.expanduser("~") if args.user else ctx.project.folder
    recipe = Recipe(agent, base, _command(), user=args.user)
    if args.check:
        return _check(recipe, ctx)
    plan = InstallPlan(recipe, uninstall=args.uninstall)
    changes = plan.changes
    if not args.dry_run:
        plan.apply()  # before it is shown: a pager or `head` may end the output early
    if args.json:
        shown = [{"path": c.path, "action": c.action, "diff": c.diff(), "note": c.note} for c in changes]
        ctx.emit({"agent": agent, "user": args.user, "dry_run": args.dry_run, "files": shown})
    else:
        _show(changes, ctx)
        _tell(recipe, changes, args, ctx)
    return 0


def _check(recipe: Recipe, ctx: Context) -> int:
    found = check_install(recipe, ctx.project.store_folder)
    if ctx.args.json:
        ctx.emit(found.to_json())
    else:
        for line in found.lines():
            ctx.out(clean_lines(line))
    return found.code


def _command() -> str:
    """The absolute path of this command: an agent's environment may not have it on its PATH."""
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == "leftoff" and os.access(own, os.X_OK):
        return own
    beside = os.path.join(os.path.dirname(sys.executable), "leftoff")
    found = beside if os.access(beside, os.X_OK) else shutil.which("leftoff")
    if found is None:
        raise Usage("The command `leftoff` is not installed.", hint="pip install leftoff, then try again.")
    return os.path.abspath(found)


def _show(changes: list[FileChange], ctx: Context) -> None:
    for change in changes:
        if change.action != "keep":
            ctx.out(clean_lines(change.diff().rstrip("\n")))
        if change.note:
            ctx.say(f"leftoff: {clean(change.path)}: {change.note}.")


def _tell(recipe: Recipe, changes: list[FileChange], args: Args, ctx: Context) -> None:
    number = sum(change.action != "keep" for change in changes)
    if not number:
        ctx.say("leftoff: nothing to change.")
    elif args.dry_run:
        ctx.say(f"leftoff: {number} files would change; nothing was.")
    else:
        ctx.say(f"leftoff: {number} files changed.")
        if not args.uninstall:
            ctx.say(recipe.conditions)
            ctx.say(f"`leftoff install {recipe.agent} --check` tells whether its hooks fire.")
