"""Explain the command: its verbs, one verb, and a word that is not a verb."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from leftoff.cli.options import wrapped
from leftoff.cli.text import out
from leftoff.cli.verbs import DAILY, GROUPS, SAME, VERBS, read_data, spec_of
from leftoff.errors import Usage
from leftoff.model.codec import text

LIKE = 0.75  # how similar a mistyped word must be: one wrong letter of four


def synonyms() -> dict[str, list[str]]:
    """Return words that mean nearly the same as a verb, and the commands that they may mean, the likeliest first.

    They are for users who come from git, gh, make, Prefect or Snakemake.
    """
    lines = [line.partition(": ") for line in read_data("synonyms.txt").splitlines() if line[0] != "#"]
    return {word: commands.split(", ") for word, _, commands in lines}


def no_verb(word: str) -> Usage:
    """Return the error for a word that is not a verb, with the commands that may be meant."""
    known = synonyms()
    begun = [verb for verb in VERBS if len(word) > 2 and verb.startswith(word)]
    near = [word] if word in known else begun or get_close_matches(word, [*VERBS, *SAME, *known], 1, LIKE)
    meant = [command for name in near for command in known.get(name, [SAME.get(name, name)])]
    if word.endswith((".yaml", ".yml")):
        meant = [f"run {word}"]
    hint = f"Did you mean {' or '.join(f'`leftoff {command}`' for command in meant)}? " if meant else ""
    return Usage(f"leftoff has no verb {word!r}.", hint=f"{hint}`leftoff help --all` lists them.")


def explain(verb: str | None, *, as_json: bool, every: bool = False) -> int:
    """Print the help of one verb, of the everyday verbs, or of ``every`` verb."""
    if verb is None:
        listed = [{"verb": name, "group": group, "about": about} for name, (group, about) in VERBS.items()]
        out(text({"verbs": listed}) if as_json else _overview(every))
        return 0
    spec = spec_of(verb)
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


def _overview(every: bool) -> str:
    wide = max(map(len, VERBS))

    def rows(names: Iterable[str]) -> list[str]:
        return [f"  {name:<{wide}}  {VERBS[name][1]}" for name in names]

    lines = [
        "leftoff keeps the progress of long-running work, so that it resumes where it left off.",
        "",
        "usage: leftoff [--project DIR] [--store URL] [--json] VERB …",
    ]
    if every:
        for group, title in GROUPS.items():
            lines += ["", f"{title}:", *rows(name for name, (of, _) in VERBS.items() if of == group)]
        return "\n".join([*lines, "", "`leftoff help VERB` explains one, with examples."])
    others = ", ".join(name for name in VERBS if name not in DAILY)
    lines += ["", "Every day:", *rows(DAILY), "", "All others:", wrapped("  ", others), ""]
    lines += [
        "`leftoff help VERB` explains one verb, with examples; `help --all` lists all.",
        "New here? `leftoff demo` shows in ten seconds what it does.",
    ]
    return "\n".join(lines)
