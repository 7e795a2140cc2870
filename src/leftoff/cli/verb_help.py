"""``leftoff help``: the verbs, grouped by what they are for."""

from __future__ import annotations

from leftoff.cli.options import Spec
from leftoff.cli.verbs import GROUPS, SAME, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "help",
    "Explain leftoff, or one verb.",
    usage="[VERB]",
    most=1,
    examples="""  leftoff help
  leftoff help fsck""",
)


def run(args: Args, ctx: Context) -> int:
    if not args.rest:
        ctx.out(overview())
        return 0
    from leftoff.cli.dispatch import load, no_verb

    verb = SAME.get(args.rest[0], args.rest[0])
    if verb not in VERBS:
        raise no_verb(args.rest[0])
    ctx.out(load(verb).SPEC.help())
    return 0


def overview() -> str:
    lines = [
        "leftoff keeps the progress of long-running work, so that it resumes exactly where it left off.",
        "",
    ]
    lines.append("usage: leftoff [--project DIR] [--store URL] [--json] VERB …")
    wide = max(len(name) for name in VERBS)
    for group, title in GROUPS.items():
        members = [(name, about) for name, (of, about) in VERBS.items() if of == group]
        if members:
            lines += ["", f"{title}:"]
            lines += [f"  {name:<{wide}}  {about}" for name, about in members]
    lines += ["", "`leftoff help VERB` explains one, with examples."]
    return "\n".join(lines)
