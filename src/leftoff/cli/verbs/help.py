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
    from leftoff.cli.dispatch import no_verb

    word = args.rest[0] if args.rest else None
    verb = SAME.get(word, word) if word is not None else None
    if word is not None and verb not in VERBS:
        raise no_verb(word)
    return explain(verb, as_json=args.json)


def explain(verb: str | None, *, as_json: bool) -> int:
    """One verb, or all of them."""
    from leftoff.cli.dispatch import load
    from leftoff.cli.render.text import out
    from leftoff.model.codec import text

    if verb is None:
        listed = [{"verb": name, "group": group, "about": about} for name, (group, about) in VERBS.items()]
        out(text({"verbs": listed}) if as_json else overview())
        return 0
    spec = load(verb).SPEC
    options = [
        {"option": o.name, "value": o.metavar, "help": o.help, "repeats": o.many} for o in spec.options
    ]
    known = {
        "verb": verb,
        "usage": spec.line(),
        "about": spec.about,
        "options": options,
        "examples": spec.examples,
    }
    out(text(known) if as_json else spec.help())
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
