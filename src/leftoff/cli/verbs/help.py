"""``leftoff help``: the ten verbs of every day, all of them by what they are for, or one."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec, wrapped
from leftoff.cli.verbs import DAILY, GROUPS, SAME, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "help",
    "Explain leftoff, or one verb.",
    usage="[VERB]",
    most=1,
    options=(Opt("--all", None, "every verb, grouped by what it is for"),),
    examples="""  leftoff help
  leftoff help --all
  leftoff help fsck""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.dispatch import no_verb

    word = args.rest[0] if args.rest else None
    verb = SAME.get(word, word) if word is not None else None
    if word is not None and verb not in VERBS:
        raise no_verb(word)
    return explain(verb, as_json=args.json, every=args.all)


def explain(verb: str | None, *, as_json: bool, every: bool = False) -> int:
    """One verb, those of every day, or ``every`` one."""
    from leftoff.cli.dispatch import load
    from leftoff.cli.render.text import out
    from leftoff.model.codec import text

    if verb is None:
        listed = [{"verb": name, "group": group, "about": about} for name, (group, about) in VERBS.items()]
        out(text({"verbs": listed}) if as_json else overview(every))
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


def overview(every: bool) -> str:
    lines = [
        "leftoff keeps the progress of long-running work, so that it resumes where it left off.",
        "",
        "usage: leftoff [--project DIR] [--store URL] [--json] VERB …",
    ]
    if every:
        for group, title in GROUPS.items():
            lines += ["", f"{title}:", *_rows(name for name, (of, _) in VERBS.items() if of == group)]
        return "\n".join([*lines, "", "`leftoff help VERB` explains one, with examples."])
    others = ", ".join(name for name in VERBS if name not in DAILY)
    lines += ["", "Every day:", *_rows(DAILY), "", "All others:", wrapped("  ", others), ""]
    lines += [
        "`leftoff help VERB` explains one verb, with examples; `help --all` lists all.",
        "New here? `leftoff demo` shows in ten seconds what it does.",
    ]
    return "\n".join(lines)


def _rows(names: Iterable[str]) -> list[str]:
    wide = max(len(name) for name in VERBS)
    return [f"  {name:<{wide}}  {VERBS[name][1]}" for name in names]
