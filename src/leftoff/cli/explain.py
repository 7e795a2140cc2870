"""Explain the command: its verbs, one verb, and a word that is not a verb.

``SAME`` in ``leftoff.cli.verbs`` has the words that mean exactly the same as a verb. ``MEANT`` has those that mean
nearly the same, for users who come from git, gh, make, Prefect or Snakemake: the error suggests what to type.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from leftoff.cli.options import wrapped
from leftoff.cli.text import out
from leftoff.cli.verbs import DAILY, GROUPS, SAME, VERBS, load_verb
from leftoff.errors import Usage
from leftoff.model.codec import text

# word: the commands it may mean here, the likeliest first
MEANT: dict[str, tuple[str, ...]] = {
    # git
    "add": ("track PATH", "artifact PATH"),
    "blame": ("log",),
    "branch": ("fork REF --branch NAME",),
    "checkout": ("rollback REF --files", "restore PATH", "fork REF"),
    "clone": ("fork REF", "import PATH"),
    "commit": ("save",),
    "gc": ("prune",),
    "pull": ("import PATH",),
    "push": ("export RUN -o FILE",),
    "reflog": ("log",),
    "reset": ("rollback REF",),
    "revert": ("rollback REF", "restore PATH"),
    "stash": ("save", "pause"),
    "switch": ("resume REF", "fork REF --branch NAME"),
    "tag": ("save --note TEXT",),
    "undo": ("rollback @~1",),
    # gh, Prefect and other runners
    "abandon": ("finish --status abandoned",),
    "abort": ("stop", "finish --status abandoned"),
    "attach": ("logs -f", "resume"),
    "cancel": ("stop", "finish --status abandoned"),
    "deploy": ("run FILE", "supervise"),
    "follow": ("logs -f",),
    "inspect": ("show", "verify"),
    "kill": ("stop",),
    "monitor": ("status --watch", "supervise"),
    "quit": ("stop", "pause"),
    "rerun": ("resume --failed", "run FILE --fresh"),
    "restart": ("resume", "run FILE --fresh"),
    "retry": ("resume --failed",),
    "tail": ("logs -f",),
    "unlock": ("resume", "stop"),
    "wait": ("status --watch",),
    "watch": ("status --watch", "supervise"),
    # make, Snakemake, doit
    "build": ("run FILE",),
    "check": ("run FILE --check", "verify"),
    "clean": ("prune", "rm RUN"),
    "cleanup": ("prune",),
    "dag": ("run FILE --graph",),
    "dry-run": ("resume --dry-run", "run FILE --dry-run"),
    "exec": ("run FILE",),
    "execute": ("run FILE",),
    "force": ("run FILE --fresh",),
    "forget": ("resume --from-step STEP", "rm RUN"),
    "graph": ("run FILE --graph",),
    "lint": ("run FILE --check",),
    "make": ("run FILE",),
    "plan": ("resume --dry-run", "run FILE --dry-run"),
    "touch": ("step done STEP",),
    "validate": ("run FILE --check", "verify"),
    # what a report is about
    "block": ("step block STEP",),
    "complete": ("step done STEP", "finish"),
    "done": ("step done STEP", "finish"),
    "end": ("finish",),
    "fail": ("step fail STEP",),
    "skip": ("step skip STEP",),
    "todo": ("next",),
    # other words for what there is to see and do
    "artifacts": ("show --artifacts",),
    "begin": ("start WORKFLOW", "run FILE"),
    "create": ("start WORKFLOW", "init"),
    "decide": ("approve", "reject"),
    "deny": ("reject",),
    "doctor": ("fsck", "status"),
    "env": ("get",),
    "files": ("show --files",),
    "health": ("status",),
    "heartbeat": ("beat",),
    "history": ("log", "ls --all"),
    "info": ("status", "show"),
    "jobs": ("status", "ls"),
    "load": ("import PATH", "resume"),
    "new": ("start WORKFLOW", "run FILE --fresh"),
    "output": ("logs",),
    "ping": ("beat",),
    "progress": ("status",),
    "ps": ("status",),
    "recover": ("resume", "undelete RUN", "fsck --repair"),
    "repair": ("fsck --repair",),
    "runs": ("ls",),
    "server": ("serve", "mcp", "supervise"),
    "setup": ("install AGENT", "init"),
    "steps": ("show --steps",),
    "summary": ("status", "brief"),
    "top": ("status --watch",),
    "unarchive": ("resume RUN",),
    "uninstall": ("install AGENT --uninstall",),
    "unpause": ("resume",),
    "var": ("get", "set K=V"),
    "variables": ("show --variables", "get"),
    "vars": ("show --variables", "get"),
    "version": ("--version",),
}

LIKE = 0.75  # how like two words are of which one was meant: one wrong letter of four


def commands(word: str) -> tuple[str, ...]:
    """Return what a user who typed ``word`` may have meant, as words after ``leftoff``."""
    if word.endswith((".yaml", ".yml")):
        return (f"run {word}",)
    begun = [verb for verb in VERBS if len(word) > 2 and verb.startswith(word)]
    near = [word] if word in MEANT else begun or get_close_matches(word, [*VERBS, *SAME, *MEANT], 1, LIKE)
    return tuple(command for name in near for command in MEANT.get(name, (SAME.get(name, name),)))


def no_verb(word: str) -> Usage:
    """Return the error for a word that is not a verb."""
    meant = " or ".join(f"`leftoff {command}`" for command in commands(word))
    hint = f"Did you mean {meant}? " if meant else ""
    return Usage(f"leftoff has no verb {word!r}.", hint=f"{hint}`leftoff help --all` lists them.")


def explain(verb: str | None, *, as_json: bool, every: bool = False) -> int:
    """One verb, those of every day, or ``every`` one."""

    if verb is None:
        listed = [{"verb": name, "group": group, "about": about} for name, (group, about) in VERBS.items()]
        out(text({"verbs": listed}) if as_json else _overview(every))
        return 0
    spec, _ = load_verb(verb)
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
    lines = [
        "leftoff keeps the progress of long-running work, so that it resumes where it left off.",
        "",
        "usage: leftoff [--project DIR] [--store URL] [--json] VERB …",
    ]
    if every:
        for group, title in GROUPS.items():
            lines += ["", f"{title}:", *_verb_rows(name for name, (of, _) in VERBS.items() if of == group)]
        return "\n".join([*lines, "", "`leftoff help VERB` explains one, with examples."])
    others = ", ".join(name for name in VERBS if name not in DAILY)
    lines += ["", "Every day:", *_verb_rows(DAILY), "", "All others:", wrapped("  ", others), ""]
    lines += [
        "`leftoff help VERB` explains one verb, with examples; `help --all` lists all.",
        "New here? `leftoff demo` shows in ten seconds what it does.",
    ]
    return "\n".join(lines)


def _verb_rows(names: Iterable[str]) -> list[str]:
    wide = max(len(name) for name in VERBS)
    return [f"  {name:<{wide}}  {VERBS[name][1]}" for name in names]
