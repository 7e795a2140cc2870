"""What `rollback --files` and `restore` have in common: the plan, shown, and the question, asked."""

from __future__ import annotations

from leftoff.cli.prompts.ask import confirm
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.engine.workspace.restore_plan import PlanEntry, RestorePlan

MOST = 200  # lines of a plan, before it is carried out
HINT = "--yes restores them; the current content is saved first, as a checkpoint."


def agree(ctx: Context, plan: RestorePlan) -> bool:
    """Show the plan; whether to do it. What somebody changed is shown, and needs a yes."""
    show(ctx, plan, MOST)
    if not plan.changed:
        return True
    _show_changes(ctx, plan)
    names = ", ".join(entry.path for entry in plan.changed[:5])
    more = len(plan.changed) - 5
    what = f"Changed since they were last recorded: {clean(names)}{f' and {more} more' if more > 0 else ''}."
    return confirm(ctx, what, hint=HINT)


def show(ctx: Context, plan: RestorePlan, most: int | None = None) -> None:
    """One line for each file: what is done with it, and why."""
    for entry in plan.entries[:most]:
        mark = ", and has changed since it was last recorded" if entry.changed else ""
        ctx.say(f"{entry.action:<7} {clean(entry.path)}  ({clean(entry.why)}{mark})")
    if most is not None and len(plan.entries) > most:
        ctx.say(f"… and {len(plan.entries) - most} more; --dry-run shows all.")
    if not plan.entries:
        ctx.say("leftoff: every tracked file is already as it was.")
    if plan.unseen:
        ctx.say(f"leftoff: {plan.unseen}")


def _show_changes(ctx: Context, plan: RestorePlan) -> None:
    for text in _differences(ctx, plan.changed[:MOST], plan).values():
        ctx.say(text.expandtabs())


def _differences(ctx: Context, entries: list[PlanEntry], plan: RestorePlan) -> dict[str, str]:
    from leftoff.operations.files import difference

    return {entry.path: difference(ctx.project, plan, entry) for entry in entries}


def document(ctx: Context, plan: RestorePlan) -> dict[str, object]:
    """A plan as JSON, with what somebody changed as diffs."""
    out: dict[str, object] = plan.to_json()
    out["diffs"] = _differences(ctx, plan.changed, plan)
    return out
