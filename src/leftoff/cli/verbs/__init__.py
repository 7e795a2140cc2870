"""The table of all verbs, as ``leftoff help --all`` prints it, and the modules that hold them.

Verbs are grouped by subject, one module for each group, and only the module of the called verb is imported. For the
verb ``set`` such a module has ``SET``, its ``Spec`` (see ``leftoff.cli.options``), and ``run_set(args, ctx)``, which
calls operations and prints the result. To add a verb, add both to a module and a line to each table here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from leftoff.cli.context import Context
from leftoff.cli.options import Args, Spec

# name: (group in the help, summary)
VERBS: dict[str, tuple[str, str]] = {
    "status": ("look", "the project, the current run, and every unfinished run"),
    "ls": ("look", "list runs, most recent first"),
    "show": ("look", "show a run, now or at any checkpoint"),
    "log": ("look", "list a run's checkpoints, newest first"),
    "logs": ("look", "show what a run's steps printed"),
    "diff": ("look", "compare two versions of a run"),
    "serve": ("look", "show all runs in a browser, live, and decide there"),
    "run": ("go", "run a workflow file, with a checkpoint after each step"),
    "verify": ("look", "check whether a run can be resumed"),
    "resume": ("go", "continue a run, from where it left off or from further back"),
    "stop": ("go", "stop a run from another shell"),
    "start": ("go", "start a run to report on; --resume continues an unfinished one"),
    "approve": ("go", "approve a step that is waiting for a decision"),
    "reject": ("go", "reject a step that is waiting for a decision"),
    "unblock": ("go", "mark what blocks a run as resolved"),
    "supervise": ("go", "watch all runs, report changes, restart what died"),
    "next": ("report", "print the next step and its instructions; --start begins it"),
    "step": ("report", "report on a step: start, done, fail, block, skip"),
    "set": ("report", "set variables: K=V, K:=JSON, K=@FILE"),
    "get": ("report", "read a variable, or any record"),
    "put": ("report", "store any record: message, knowledge, criterion, …"),
    "note": ("report", "leave a note for the next one at work"),
    "artifact": ("report", "record a file that a step produced, with a copy"),
    "track": ("report", "record files as they are now"),
    "save": ("report", "save a checkpoint"),
    "beat": ("report", "signal that somebody is working"),
    "brief": ("report", "print what an agent needs to know to continue"),
    "pause": ("report", "pause the run; it stays unfinished"),
    "finish": ("report", "end the run, and list what is left"),
    "install": ("agent", "set up Claude Code, Codex or Gemini CLI; --uninstall undoes it"),
    "handover": ("agent", "continue a run in another agent"),
    "mcp": ("agent", "serve this project's runs to an agent (MCP, on stdin and stdout)"),
    "hook": ("agent", "record an agent's hook event (called by agents)"),
    "export": ("keep", "write a run with its history to one portable file"),
    "import": ("keep", "import runs from bundles or from a protocol's files"),
    "dialects": ("keep", "list the supported protocols, and their files in this project"),
    "rollback": ("time", "return a run to an earlier version; --files restores its files"),
    "restore": ("time", "restore single files from a checkpoint"),
    "cat": ("look", "print a file as it was at a checkpoint"),
    "fork": ("time", "start a new run from any version of another"),
    "prune": ("keep", "remove what the retention rules no longer keep"),
    "archive": ("keep", "archive a finished run; its name still opens it"),
    "rm": ("keep", "move a run to the trash"),
    "undelete": ("keep", "bring back a run that retention removed"),
    "trust": ("keep", "allow what this project's settings and imported runs would execute"),
    "fsck": ("keep", "check every byte of the store; --repair sets damage aside"),
    "store": ("keep", "show what the store is, migrate it, back it up, or copy it"),
    "compat": ("more", "the protocols' own commands: save-checkpoint, bmad-event, …"),
    "init": ("more", "create the store here, and suggest what else to do"),
    "demo": ("more", "watch a workflow being killed half way and resumed"),
    "completion": ("more", "print completions for bash, zsh or fish"),
    "help": ("more", "explain leftoff, or one verb"),
}

# The ten of every day: `leftoff help` explains them first.
DAILY = ("run", "resume", "status", "ls", "show", "logs", "log", "diff", "approve", "stop")

# Other words for exactly the same; what means nearly the same is suggested (leftoff.cli.synonyms).
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
    "history_verbs": "log diff fork",
    "drive_verbs": "run resume verify",
    "lifecycle_verbs": "start pause finish stop approve reject unblock",
    "report_verbs": "step next beat save set get put note artifact",
    "file_verbs": "track cat restore rollback",
    "keep_verbs": "archive rm undelete prune fsck store trust",
    "transfer_verbs": "export import dialects compat",
    "agent_verbs": "install hook mcp brief handover",
    "project_verbs": "init demo help completion",
    "serve_verbs": "serve supervise",
}


def load_verb(verb: str) -> tuple[Spec, Callable[[Args, Context], int]]:
    """Import the module of a verb; return its spec and the function that runs it."""
    name = next(f"leftoff.cli.verbs.{module}" for module, verbs in MODULES.items() if verb in verbs.split())
    __import__(name)
    module = sys.modules[name]
    return getattr(module, verb.upper()), getattr(module, f"run_{verb}")
