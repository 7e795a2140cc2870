"""Work with coding agents: install, uninstall, hook, mcp, brief, handover."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from leftoff.agents import AGENTS
from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.text import clean, clean_lines
from leftoff.errors import NotFound, Unsupported, Usage, extra_hint, usage_errors

# -- install


def run_install(args: Args, ctx: Context) -> int:
    import shutil

    from leftoff.agents.install_plan import InstallPlan, check_install
    from leftoff.agents.install_recipes import RECIPES

    agent = args.rest[0]
    if agent not in AGENTS:
        raise Usage(
            f"leftoff cannot set up {agent!r}.",
            hint=f"One of {', '.join(AGENTS)}. Other MCP clients start `leftoff mcp`.",
        )
    if args.check and (args.uninstall or args.dry_run):
        raise Usage("--check cannot be combined with --uninstall or --dry-run.")
    base = os.path.expanduser("~") if args.user else ctx.project.folder
    recipe = RECIPES[agent](base, _own_command(), user=args.user)
    if args.check:
        found = check_install(recipe, ctx.project.store_folder)
        ctx.answer(found, clean_lines("\n".join(found.lines())))
        return found.code
    plan = InstallPlan(recipe, uninstall=args.uninstall)
    changes = plan.changes
    if not args.dry_run:
        plan.apply()  # before it is shown: a pager or `head` may end the output early
    if args.json:
        shown = [{"path": c.path, "action": c.action, "diff": c.diff(), "note": c.note} for c in changes]
        return ctx.answer({"agent": agent, "user": args.user, "dry_run": args.dry_run, "files": shown})
    for change in changes:
        if change.action != "keep":
            ctx.out(clean_lines(change.diff().rstrip("\n")))
        if change.note:
            ctx.say(f"leftoff: {clean(change.path)}: {change.note}.")
    number = sum(change.action != "keep" for change in changes)
    if not number:
        ctx.say("leftoff: nothing to change.")
    elif args.dry_run:
        ctx.say(f"leftoff: {number} files would change; nothing was.")
    else:
        ctx.say(f"leftoff: {number} files changed.")
        if not args.uninstall:
            ctx.say(recipe.conditions)
            if shutil.which(recipe.command) is None:
                ctx.say(
                    f"`leftoff` is not on your PATH, so {agent} will not find it. "
                    f"Add {os.path.dirname(_own_command())} to your PATH."
                )
            if find_spec("mcp") is None:
                ctx.say(f"Its MCP server cannot start. {extra_hint('mcp')}")
            ctx.say(f"`leftoff install {recipe.agent} --check` tells whether its hooks fire.")
    return 0


def run_uninstall(args: Args, ctx: Context) -> int:
    vars(args).update(uninstall=True, check=False)
    return run_install(args, ctx)


def _own_command() -> str:
    """Return the absolute path of this command."""
    import shutil

    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == "leftoff" and os.access(own, os.X_OK):
        return own
    beside = os.path.join(os.path.dirname(sys.executable), "leftoff")
    found = beside if os.access(beside, os.X_OK) else shutil.which("leftoff")
    if found is None:
        raise Usage("The command `leftoff` is not installed.", hint="pip install leftoff, then try again.")
    return os.path.abspath(found)


# -- hook


def run_hook(args: Args, ctx: Context) -> int:
    if args.rest[0] not in AGENTS:
        raise Usage(f"There are no hooks for {args.rest[0]!r}.", hint=f"One of {', '.join(AGENTS)}.")
    if sys.stdin.isatty():
        raise Usage("`leftoff hook` reads an event on stdin.", hint="`leftoff install claude` sets it up.")
    from leftoff.agents.hook_process import HookCall, process_hook

    call = HookCall(args.rest[0], anywhere=args.user, project=args.project, store=args.store)
    answer = process_hook(call, sys.stdin.buffer.read())
    try:
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except OSError:  # the agent does not listen any more
        pass
    return 0


# -- mcp


def run_mcp(args: Args, ctx: Context) -> int:
    try:
        from leftoff.agents.mcp_server import Server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise Unsupported(
            "The MCP server needs packages that are not installed.", hint=extra_hint("mcp")
        ) from None
    import signal

    server = Server(ctx.project.folder, args.store)
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # a call that is cut off was never committed
    server.run()
    return 0


# -- brief


def run_brief(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import brief_run

    found = brief_run(ctx.project, ctx.caller, ctx.word, args.all)
    return ctx.answer(found, clean_lines(found["text"]))


# -- handover


def run_handover(args: Args, ctx: Context) -> int:
    ctx.need_name()
    import shlex
    import shutil

    from leftoff.agents.adapters import adapter, custom_agents
    from leftoff.agents.handover import hand_over
    from leftoff.operations.run_lifecycle import hand_over_run
    from leftoff.operations.run_reports import check_free, which_run
    from leftoff.operations.runs import say_active_again, whole_run

    usage_errors(lambda: adapter(args.to, ctx.project.settings.parsed("agents", custom_agents)))
    named = ctx.word
    target = whole_run(ctx.project, ctx.caller, named, which_run(ctx.project, ctx.caller))
    check_free(ctx.project, ctx.caller, target)
    found = hand_over(ctx.project, target, args.to)
    if not args.go:
        shown = ["env", *(f"{key}={value}" for key, value in found.env.items()), *found.words]
        return ctx.answer(found, shlex.join(shown))
    if shutil.which(found.words[0]) is None:
        raise NotFound(f"{found.words[0]} is not installed.", hint="Nothing was changed.")
    # A checkpoint, then the agent in our place.
    hand_over_run(ctx.project, ctx.caller, target.row, found.agent, found.session)
    say_active_again(ctx.project, target.row)
    ctx.close()
    os.chdir(ctx.project.folder)
    os.execvpe(found.words[0], found.words, ctx.caller.environment(found.env))
