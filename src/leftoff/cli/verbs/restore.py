"""``leftoff restore``: single files as they were at a version."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean
from leftoff.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "restore",
    "Bring single files back to what they were at a version of a run: content, permissions, symbolic links. One that\n"
    "was deleted then is deleted. What is there now is saved as a checkpoint first; no other record changes.",
    usage="REF PATH…",
    least=2,
    most=None,
    options=(
        Opt("--yes", None, "restore files that were changed since they were last recorded, without asking"),
        *CURRENT,
    ),
    examples="""  leftoff restore @~1 config.toml
  leftoff restore 3f9a src/a.py src/b.py --yes""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.file_plan import agree, said_no
    from leftoff.engine.workspace.paths import given_path
    from leftoff.engine.workspace.plan import NOT_KEPT, WHY_NOT_KEPT
    from leftoff.operations.files import restorer

    ref, *given = args.rest
    target = ctx.target(ref)
    paths = list(dict.fromkeys(given_path(ctx.project.folder, path) for path in given))
    ctx.project.at_home(target.row)
    done = restorer(ctx.project, ctx.caller, target).restore(
        target, ref, paths, lambda plan: agree(ctx, plan)
    )
    if not done.done:
        return said_no(ctx)
    if done.before:
        ctx.say(f"leftoff: {done.before}")
    lost = (
        [entry.path for entry in done.plan.of("keep") if entry.why == NOT_KEPT]
        if done.plan is not None
        else []
    )
    if lost:
        raise NotFound(
            f"The content of {', '.join(map(clean, lost))} was not kept at {ref}: it cannot be restored.",
            hint=f"{WHY_NOT_KEPT} Whatever else was named is restored.",
        )
    now = ctx.info(target.row)
    if args.json:
        ctx.emit({"run_id": now.run_id, "seq": now.row.seq, "files": done.to_json()})
    elif done.plan is None:
        ctx.say("leftoff: a restore that had been cut short is complete now.")
    else:
        ctx.say(f"leftoff: {len(done.plan.touched)} of {len(paths)} files restored.")
    return 0
