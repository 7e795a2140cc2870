"""``leftoff handover``: go on with a run in another agent."""

from __future__ import annotations

import os
import shlex

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.errors import NotFound
from leftoff.operations.reports import usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.agents.handover import Handover
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.find import Target

SPEC = Spec(
    "handover",
    "Print the command that continues a run in another agent: with the brief as its prompt, or in that "
    "agent's own earlier session if it had one. With --go, save a checkpoint and run that command.",
    usage="[RUN]",
    most=1,
    options=(
        Opt(
            "--to",
            "AGENT",
            "claude, codex, gemini, opencode, or an agent of leftoff.toml",
            needed=True,
            filled=True,
        ),
        Opt("--go", None, "run the command now"),
        *CURRENT,
    ),
    examples="""  leftoff handover latest --to codex
  leftoff handover release-1 --to claude --go""",
)


def run(args: Args, ctx: Context) -> int:
    ctx.need_name(SPEC)
    from leftoff.agents.handover import hand_over
    from leftoff.agents.headless.commands import check_agent, custom_agents
    from leftoff.operations.reports import check_free, current
    from leftoff.operations.runs import whole_run

    usage_errors(lambda: check_agent(args.to, ctx.project.settings.parsed("agents", custom_agents)))
    named = args.rest[0] if args.rest else None
    target = whole_run(ctx.project, ctx.caller, named, current(ctx.project, ctx.caller))
    check_free(ctx.project, ctx.caller, target)
    found = hand_over(ctx.project, target, args.to)
    if args.go:
        return _go(found, target, ctx)
    if args.json:
        ctx.emit(found.to_json())
    else:
        ctx.out(shlex.join(["env", *(f"{key}={value}" for key, value in found.env.items()), *found.words]))
    return 0


def _go(found: Handover, target: Target, ctx: Context) -> int:
    """A checkpoint, then the agent in our place."""
    import shutil

    from leftoff.operations.handover import hand_over
    from leftoff.operations.runs import say_active_again

    if shutil.which(found.words[0]) is None:
        raise NotFound(f"{found.words[0]} is not installed.", hint="Nothing was changed.")
    hand_over(ctx.project, ctx.caller, target.row, found.agent, found.session)
    say_active_again(ctx.project, target.row)
    ctx.close()
    os.chdir(ctx.project.folder)
    os.execvpe(found.words[0], found.words, ctx.caller.environment(found.env))
