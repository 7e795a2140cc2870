"""Explain the command and get started: help, completion, init.

Also what `dispatch` needs for ``--help`` and for a word that is not a verb.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from textwrap import indent

from leftoff.cli.context import Context
from leftoff.cli.options import (
    COMMON,
    DAILY,
    GROUPS,
    LISTED,
    SAME,
    VERBS,
    Args,
    labelled_text,
    parse_words,
    read_data,
    spec_of,
)
from leftoff.cli.text import out
from leftoff.engine.project import Project, find_project
from leftoff.engine.settings import Caller
from leftoff.errors import LeftoffError, NotFound, Usage
from leftoff.model.codec import text
from leftoff.model.words import COLLECTIONS, RUN_STATUS, TRIGGERS
from leftoff.operations.checkpoints import history
from leftoff.operations.runs import list_project_runs, step_names
from leftoff.operations.store_upkeep import init_project

# -- help

_MORE = "`leftoff help VERB` explains a verb with examples. Topics: `help refs` and `exit-codes`."
LIKE = 0.75  # how similar a mistyped word must be: one wrong letter of four


def run_help(args: Args, ctx: Context) -> int:
    word = ctx.word
    topics = dict(topic.split("\n", 1) for topic in read_data("topics.txt").split("=== ")[1:])
    if word is not None and f"{word.rstrip('s')}s" in topics:  # ref, refs
        topic = topics[f"{word.rstrip('s')}s"].strip()
        return ctx.answer({"topic": word, "text": topic}, topic)
    verb = SAME.get(word, word) if word is not None else None
    if word is not None and verb not in VERBS:
        raise no_verb(word)
    return explain(verb, as_json=args.json, every=args.all)


def synonyms() -> dict[str, list[str]]:
    """Return words that mean nearly the same as a verb, and the commands that they may mean, the likeliest first.

    They are for users who come from git, gh, make, Prefect or Snakemake.
    """
    lines = [line.partition(": ") for line in read_data("synonyms.txt").splitlines() if line[0] != "#"]
    return {word: commands.split(", ") for word, _, commands in lines}


def no_verb(word: str, before: Sequence[str] = ()) -> Usage:
    """Return the error for a word that is not a verb, with the commands that may be meant.

    ``before``: the options before it, which say in which project the commands get the names of real runs.
    """
    known = synonyms()
    begun = [verb for verb in LISTED if len(word) > 2 and verb.startswith(word)]
    near = [word] if word in known else begun or get_close_matches(word, [*VERBS, *SAME, *known], 1, LIKE)
    near = near or [verb for verb in LISTED if sorted(verb) == sorted(word)]  # rnu
    meant = [command for name in near for command in known.get(name, [SAME.get(name, name)])]
    if word.endswith((".yaml", ".yml")):
        meant = [f"run {word}"]
    if any(name in command for command in meant for name in ("RUN", "REF")):
        run, ref = _real_names(before)
        meant = [command.replace("RUN", run).replace("REF", ref) for command in meant]
    hint = f"Did you mean {' or '.join(f'`leftoff {command}`' for command in meant)}? " if meant else ""
    return Usage(f"leftoff has no verb {word!r}.", hint=f"{hint}`leftoff help --all` lists them.")


def _real_names(before: Sequence[str]) -> tuple[str, str]:
    """Return the latest run, and its checkpoint before the last; if it has only one, that one."""
    args = parse_words(spec_of("help"), [*before])
    try:
        project = Project(find_project(given=args.project), args.store, lambda _: None)
        found = history(project, Caller(), None, 2)
        project.close()
    except LeftoffError:
        return "RUN", "REF"
    run = found.target.row.run_id
    return run, f"{run}@{found.versions[-1].seq}" if found.versions else "REF"


def explain(verb: str | None, *, as_json: bool, every: bool = False) -> int:
    """Print the help of one verb, of the everyday verbs, or of ``every`` verb."""
    if verb is None:
        listed = [{"verb": name, "group": group, "about": about} for name, (group, about) in LISTED.items()]
        out(text({"verbs": listed}) if as_json else _overview(every))
        return 0
    spec = spec_of(verb)
    options = [
        {"option": o.name, "value": o.metavar, "help": o.help, "repeats": o.many} for o in spec.options
    ]
    known = {"verb": verb, "usage": spec.line(), "about": spec.about}
    out(text({**known, "options": options, "examples": spec.examples}) if as_json else spec.help())
    return 0


def _overview(every: bool) -> str:
    wide = max(map(len, LISTED))

    def rows(names: Iterable[str]) -> list[str]:
        return [f"  {name:<{wide}}  {VERBS[name][1]}" for name in names]

    lines = [
        "leftoff keeps the progress of long-running work, so that it resumes where it left off.",
        "",
        "usage: leftoff [--project DIR] [--store URL] [--json] VERB …",
    ]
    if every:
        for group, title in GROUPS.items():
            lines += ["", f"{title}:", *rows(name for name, (of, _) in LISTED.items() if of == group)]
        return "\n".join([*lines, "", _MORE])
    others = ", ".join(name for name in LISTED if name not in DAILY)
    lines += ["", "Every day:", *rows(DAILY), "", "All others:", labelled_text("  ", others), ""]
    lines += [
        "`leftoff help --all` lists all verbs with what they do.",
        _MORE,
        "New here? `leftoff demo` shows in ten seconds what it does.",
    ]
    return "\n".join(lines)


# -- completion

SHELLS = ("bash", "zsh", "fish")
_MOST_WORDS = 100
# How a usage names a word: what completes it.
_WORDS = {"COLLECTION": COLLECTIONS, "SHELL": SHELLS, "VERB": (*sorted(LISTED), "exit-codes", "refs")}
_PATHS = {"PATH": ":files", "FILE": ":files", "DIR": ":folders"}
_VALUES = {"--status": RUN_STATUS, "--trigger": TRIGGERS}


def run_completion(args: Args, ctx: Context) -> int:
    wanted, *words = args.rest
    if wanted in ("runs", "steps", "words"):  # the scripts ask this whenever Tab is pressed
        found = completions(words or [""], ctx) if wanted == "words" else _named(wanted[:-1].upper(), ctx)
        if found:
            ctx.out("\n".join(found))
        return 0
    if words:
        raise args.spec.wrong(f"`leftoff completion` does not take {words[0]!r}.")
    if wanted not in SHELLS:
        raise Usage(f"There is no completion for {wanted!r}.", hint="It is for bash, zsh or fish.")
    script = read_data(f"leftoff.{wanted}")
    return ctx.answer({"shell": wanted, "script": script}, script.rstrip("\n"))


def completions(words: list[str], ctx: Context) -> list[str]:
    """Return what may replace the last word, each with a tab and what it is; or ``:files``, ``:folders``.

    bash makes the equals sign of an option a separate word.
    """
    *before, current = words
    verb, number, option = "", 0, ""
    options: dict[str, tuple[str | None, str, tuple[str, ...]]] = {
        name: (metavar, about, ()) for name, (metavar, about) in COMMON.items()
    }
    names: list[str] = []
    for word in before:
        if option and word == "=":
            continue
        if option:
            option = ""
        elif word.startswith("-"):
            option = word if options.get(word, (None,))[0] is not None else ""
        elif verb:
            number += 1
        else:
            verb = SAME.get(word, word)
            if verb not in VERBS:
                return []
            spec = spec_of(verb)
            options |= {
                o.name: (o.metavar, o.help, o.choices or _VALUES.get(o.name, ())) for o in spec.options
            }
            names = [word for word in spec.usage.replace(" | ", "|").split() if word.strip("[]|…")]
            if spec.most is None:
                names += names[-1:] * len(words)
    prefix, head = "", current
    if option:
        head = "" if current == "=" else current
    elif current.startswith("--") and "=" in current:
        option, _, head = current.partition("=")
        prefix = f"{option}="
    if option:
        metavar, _, choices = options.get(option, (None, "", ()))
        found = [*choices] or _named(metavar or "", ctx)
    elif current.startswith("-"):
        found = [f"{name}\t{about}" for name, (_, about, _) in options.items()]
        found += ["--help\texplain this verb" if verb else "--version\tthe version of leftoff"]
    elif not verb:
        found = [f"{name}\t{about}" for name, (_, about) in LISTED.items()]
    else:
        found = _named(names[number], ctx) if number < len(names) else []
    return [prefix + each for each in found if each.startswith((head, ":"))]


def _named(name: str, ctx: Context) -> list[str]:
    """Return the words that a usage means by a name, without steps that a shell would take for more than a word."""
    name = name.strip("[]…")
    if name in ("RUN", "REF"):
        runs = list_project_runs(ctx.project, limit=_MOST_WORDS).runs
        return [*(run.run_id for run in runs), "latest"] if ctx.project.store.exists() else []
    if name == "STEP":
        try:
            steps = step_names(ctx.project, ctx.caller)
        except (NotFound, Usage):
            return []
        return [step for step in steps if all(c.isalnum() or c in "._-/%+@" for c in step)][:_MOST_WORDS]
    if name in _PATHS:
        return [_PATHS[name]]
    return name.split("|") if "|" in name else [*_WORDS.get(name, ())]


# -- init

_TOML = """\
# leftoff.toml: what differs from the defaults (docs/reference/settings.md)
[redaction]
names = []                    # more names whose values are secret

[heartbeat]
stalled = "30m"               # without a sign of life for so long, a run is shown as stalled
"""
_FOR_AGENTS = """\
Report your progress with `leftoff` (`leftoff help`): `{starts}` first, then
`leftoff step start` and `leftoff step done` for each step, and `leftoff note` for the next one at work.
After an interruption, `leftoff brief` says where you were.
"""


def run_init(args: Args, ctx: Context) -> int:
    done = init_project(ctx.project, args.protocol, utilities=bool(args.utils))
    ignore = "\n".join([*([f"{done['inside']}/"] if done["inside"] else []), *done["ignored"]])
    agents = _FOR_AGENTS.format(starts=done["starts"])
    suggestions = {"leftoff.toml": _TOML, ".gitignore": ignore, "agents": agents}
    about = {"project": ctx.project.folder, "store": done["store"], "created": done["created"]}
    about |= {
        "suggestions": suggestions,
        "protocol": done["protocol"],
        "dialect": done["protocol"],
        "written": [*done["written"]],
    }
    lines = [f"{done['store']}: {'created' if done['created'] else 'already there, unchanged'}."]
    lines += [f"{path}: written." for path in done["written"]]
    if not os.path.exists(os.path.join(ctx.project.folder, "leftoff.toml")):
        lines += ["", "Settings, if you want any, go into leftoff.toml:", "", indent(_TOML, "    ").rstrip()]
    if ignore:
        itself = "The store ignores itself in git; to say so in " if done["inside"] else ""
        lines += ["", f"{itself or 'For '}your own .gitignore:", "", indent(ignore, "    ")]
    lines += ["", "For your agents (CLAUDE.md, AGENTS.md):", "", indent(agents, "    ").rstrip()]
    if not done["shows_all"]:
        lines += ["", f"Its files show the runs of {args.protocol}; other runs are in the store alone."]
    lines += ["", f"Then: `{done['starts']}` begins a run, `leftoff status` shows what there is."]
    return ctx.answer(about, "\n".join(lines))
