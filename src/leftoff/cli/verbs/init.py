"""``leftoff init``: make the store, and say what else is worth doing. No verb needs it; it asks nothing."""

from __future__ import annotations

import os

from leftoff.cli.options import Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.upkeep.init import Initialized

SPEC = Spec(
    "init",
    "Create the store of this project and print what else is worth doing. Nothing is asked, and nothing "
    "else is written; an existing store stays as it is. No verb needs this: the first write creates the "
    "store.\n\n"
    "With --dialect, leftoff.toml records that the project follows a protocol, and its files are kept in "
    "sync from then on.",
    options=(
        Opt(
            "--dialect",
            "D",
            "keep the files of this protocol in sync: bmad, crunch, dotagent, sitebuilder or claude",
        ),
        Opt("--utils", None, "also write the scripts that the protocol names (claude: .claude/utils/*.sh)"),
    ),
    examples="""  leftoff init
  leftoff init --dialect claude --utils
  leftoff init --dialect bmad
  leftoff init --project ~/site
  leftoff init --json""",
)

TOML = """\
# leftoff.toml: what differs from the defaults (docs/settings.md)
[redaction]
names = []                    # more names whose values are secret

[heartbeat]
stalled = "30m"               # without a sign of life for so long, a run is shown as stalled
"""
AGENTS = """\
Report your progress with `leftoff` (`leftoff help`): `{starts}` first, then
`leftoff step start` and `leftoff step done` for each step, and `leftoff note` for the next one at work.
After an interruption, `leftoff brief` says where you were.
"""


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.init import init

    done = init(ctx.project, args.dialect, utilities=bool(args.utils))
    ignore = "\n".join([*([f"{done.inside}/"] if done.inside else []), *done.ignored])
    if args.json:
        suggestions = {
            "leftoff.toml": TOML,
            ".gitignore": ignore,
            "agents": AGENTS.format(starts=done.starts),
        }
        where = {"project": ctx.project.folder, "store": done.store, "created": done.created}
        ctx.emit({**where, "suggestions": suggestions, "dialect": args.dialect, "written": [*done.written]})
    else:
        ctx.out(page(ctx, done, ignore))
    return 0


def page(ctx: Context, done: Initialized, ignore: str) -> str:
    lines = [f"{done.store}: {'created' if done.created else 'already there, unchanged'}."]
    lines += [f"{path}: written." for path in done.written]
    if not os.path.exists(os.path.join(ctx.project.folder, "leftoff.toml")):
        lines += ["", "Settings, if you want any, go into leftoff.toml:", "", *_indented(TOML)]
    if ignore:
        itself = "The store ignores itself in git; to say so in " if done.inside else ""
        lines += ["", f"{itself or 'For '}your own .gitignore:", "", *_indented(ignore)]
    lines += [
        "",
        "For your agents (CLAUDE.md, AGENTS.md):",
        "",
        *_indented(AGENTS.format(starts=done.starts)),
    ]
    if not done.shows_all:
        lines += ["", f"Its files show the runs of {done.dialect}; other runs are in the store alone."]
    lines += ["", f"Then: `{done.starts}` begins a run, `leftoff status` shows what there is."]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.rstrip("\n").split("\n")]
