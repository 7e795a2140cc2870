"""The verbs: ``data/verbs.txt`` has an entry for each (options, usage, help), the modules here have the functions.

Verbs are grouped by subject, one module for each group, and only the module of the called verb is imported. For the
verb ``set`` such a module has ``run_set(args, ctx)``, which calls operations and prints the result. To add a verb,
add such a function, an entry to ``data/verbs.txt`` and the name to ``MODULES``.
"""

from __future__ import annotations

import os
import sys

from leftoff.cli.context import Context
from leftoff.cli.options import Args, Spec, read_spec
from leftoff.hints import Callable


def read_data(name: str) -> str:
    """Return the text of a file in the folder ``data``."""
    folder = os.path.dirname(__file__)
    with open(os.path.join(folder, "data", name), encoding="utf-8") as file:
        return file.read()


_ENTRIES = dict(entry.split("\n", 1) for entry in read_data("verbs.txt").split("\n=== ")[1:])
# name: (group in the help, summary), from the first line of each entry
VERBS = {
    name: (text[: text.index(":")], text[text.index(":") + 2 : text.index("\n")])
    for name, text in _ENTRIES.items()
}

# The ten of every day: `leftoff help` explains them first.
DAILY = ("run", "resume", "status", "ls", "show", "logs", "log", "diff", "approve", "stop")

# Other words for exactly the same; words that mean nearly the same are suggested (data/synonyms.txt).
SAME = {
    "reprendre": "resume",
    "continue": "resume",
    "list": "ls",
    "view": "show",
    "checkpoint": "save",
    "delete": "rm",
    "remove": "rm",
    "handoff": "handover",
}

GROUPS = {
    "look": "See what there is",
    "go": "Run and resume",
    "report": "Report progress (agents and scripts)",
    "agent": "Agents",
    "time": "Go back in time",
    "keep": "Housekeeping",
    "more": "More",
}

# The modules of this package, and the verbs in each.
MODULES = {
    "list_verbs": "status ls",
    "show_verbs": "show logs",
    "history_verbs": "log diff fork rollback restore track cat",
    "drive_verbs": "run",
    "resume_verbs": "resume verify",
    "lifecycle_verbs": "start pause finish stop approve reject unblock",
    "report_verbs": "step next beat save set get put note artifact",
    "keep_verbs": "archive rm undelete prune fsck store trust export import dialects compat",
    "agent_verbs": "install hook mcp brief handover",
    "help_verbs": "help completion init",
    "demo_verbs": "demo",
    "serve_verbs": "serve supervise",
}


def spec_of(verb: str) -> Spec:
    """Return the options, usage and help of a verb."""
    return read_spec(verb, _ENTRIES[verb])


def load_verb(verb: str) -> Callable[[Args, Context], int]:
    """Import the module of a verb; return the function that runs it."""
    name = next(f"leftoff.cli.{module}" for module, verbs in MODULES.items() if verb in verbs.split())
    __import__(name)
    function: Callable[[Args, Context], int] = getattr(sys.modules[name], f"run_{verb}")
    return function
