"""``leftoff completion``: what a shell needs to complete verbs, options, runs and steps."""

from __future__ import annotations

from leftoff.cli.options import Spec
from leftoff.errors import NotFound, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "completion",
    "Print a script that makes the shell complete verbs, options, runs and steps. SHELL is bash, zsh or "
    "fish.",
    usage="SHELL",
    least=1,
    most=1,
    examples="""  eval "$(leftoff completion bash)"            in ~/.bashrc
  source <(leftoff completion zsh)             in ~/.zshrc, after compinit
  leftoff completion fish | source             in ~/.config/fish/config.fish""",
)
MOST = 100


def run(args: Args, ctx: Context) -> int:
    wanted = args.rest[0]
    if wanted in ("runs", "steps"):  # asked by the scripts themselves, whenever Tab is pressed
        found = runs(ctx) if wanted == "runs" else steps(ctx)
        if found:
            ctx.out("\n".join(found))
        return 0
    from leftoff.cli.completion.scripts import SCRIPTS

    if wanted not in SCRIPTS:
        raise Usage(f"There is no completion for {wanted!r}.", hint="It is for bash, zsh or fish.")
    script = SCRIPTS[wanted]()
    if args.json:
        ctx.emit({"shell": wanted, "script": script})
    else:
        ctx.out(script.rstrip("\n"))
    return 0


def runs(ctx: Context) -> list[str]:
    """The newest runs by id, and the words that name one."""
    from leftoff.operations.run_list import Wanted, list_runs

    found = list_runs(ctx.project, Wanted(limit=MOST)).runs
    return [*(run.run_id for run in found), "latest"] if ctx.project.store.exists() else []


def steps(ctx: Context) -> list[str]:
    """The steps of the current run, those left out that a shell might take for more than a word."""
    from leftoff.operations.steps import step_names

    try:
        found = step_names(ctx.project, ctx.caller)
    except (NotFound, Usage):
        return []
    return [step for step in found if all(c.isalnum() or c in "._-/%+@" for c in step)][:MOST]
