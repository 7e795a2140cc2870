"""``leftoff trust``: what a project would run or lead outside is shown, and trusted by a person."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.cli.prompts.ask import confirm, said_no
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.settings.trust import Trust

SPEC = Spec(
    "trust",
    "Show what this project would run, and what would lead outside its folder: settings in leftoff.toml, "
    "and workflows of runs that came from elsewhere. Then ask whether you trust that. The answer is kept "
    "in your own folder, by content: whatever changes is asked about again. What you do not trust is not "
    "used.",
    options=(
        Opt("--list", None, "only show what you have trusted, in every project"),
        Opt("--revoke", None, "stop trusting anything of this project"),
        Opt("--yes", None, "trust it without asking"),
    ),
    examples="""  leftoff trust
  leftoff trust --yes
  leftoff trust --revoke""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.errors import Usage

    if args.list + args.revoke + args.yes > 1:
        raise Usage("--list, --revoke and --yes cannot be combined.", hint=f"usage: {SPEC.line()}")
    if args.list:
        return _list(ctx)
    return _revoke(ctx) if args.revoke else _give(ctx)


def _give(ctx: Context) -> int:
    from leftoff.operations.settings.trust import give, look

    found = look(ctx.project)
    if not ctx.args.json:
        _show(ctx, found)
    if found.asked or found.runs:
        if ctx.args.json and not ctx.args.yes:
            ctx.say("leftoff: this is not trusted yet. `leftoff trust --yes` trusts it.")
            ctx.emit(found.to_json())
            return 7
        if not confirm(ctx, "This is not trusted yet.", hint="`leftoff trust --yes` trusts it."):
            return said_no(ctx)
        give(ctx.project, found)
        found = look(ctx.project)
        ctx.say(f"leftoff: {found.project} is trusted, as it is now.")
    return ctx.answer(found)


def _show(ctx: Context, found: Trust) -> None:
    if not (found.given or found.asked or found.runs):
        ctx.out("Nothing here needs trust: no setting runs a command or leads outside of the project.")
    for word, items in (("trusted", found.given), ("not trusted", found.asked)):
        for item in items:
            where = f" (to {clean(item.target)})" if item.target and item.target != item.value else ""
            ctx.out(f"{word}: {clean(item.key)} {item.does}{where}:")
            _lines(ctx, item.value.splitlines() or [""])
    for run in found.runs:
        ctx.out(f"not trusted: run {run.row.run_id} was not started here by you ({clean(run.path)}):")
        _lines(ctx, run.commands)


def _lines(ctx: Context, lines: list[str]) -> None:
    for line in lines:
        ctx.out(f"    {clean(line)}")


def _list(ctx: Context) -> int:
    from leftoff.operations.settings.trust import given

    found = given()
    if ctx.args.json:
        ctx.emit({"trusted": [known.to_json() for known in found]})
        return 0
    for known in found:
        if known.item is None:
            ctx.say(f"leftoff: {known.path} is damaged, or not yours alone: it is ignored.")
        else:
            ctx.out(f"{clean(known.project)}  {clean(known.item.key)} = {clean(known.item.value)}")
    if not found:
        ctx.say("leftoff: you have trusted nothing so far.")
    return 0


def _revoke(ctx: Context) -> int:
    from leftoff.operations.settings.trust import take_back

    found, runs = take_back(ctx.project)
    if ctx.args.json:
        ctx.emit({"revoked": [known.to_json() for known in found], "runs": runs})
    else:
        ctx.say(f"leftoff: {len(found) + len(runs)} revoked; nothing of {ctx.project.folder} is trusted now.")
    return 0
