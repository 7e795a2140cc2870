"""``leftoff restore``: single files as they were at a version."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "restore",
    "Restore single files to what they were at a version of a run: content, permissions and symbolic "
    "links. A file that was deleted then is deleted now. Without a REF, the latest checkpoint that has "
    "the file is used. The current content is saved as a checkpoint first; no other record changes.",
    usage="[REF] PATH…",
    least=1,
    most=None,
    options=(
        Opt("--yes", None, "do not ask before overwriting files changed since they were last recorded"),
        *CURRENT,
    ),
    examples="""  leftoff restore config.toml
  leftoff restore @~1 config.toml
  leftoff restore 3f9a src/a.py src/b.py --yes""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.file_plan import agree
    from leftoff.cli.prompts.ask import said_no
    from leftoff.operations.files import restore, restore_request

    request = restore_request(ctx.project, ctx.caller, args.rest)
    done = restore(ctx.project, ctx.caller, request, lambda plan: agree(ctx, plan))
    if not done.outcome.done:
        return said_no(ctx)
    plan = done.outcome.plan
    if done.outcome.completed and not args.json:
        ctx.say("leftoff: a restore that had been cut short is now complete.")
    elif not args.json:
        number = len(plan.touched)
        ctx.say(f"leftoff: {f'{number} of {done.named} files' if number else 'nothing was'} restored.")
    return ctx.answer(done)
