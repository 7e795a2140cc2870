"""What people type who come from git, gh, make, Prefect or Snakemake, and the command that does it here.

A word that means exactly the same is accepted (``SAME`` in ``leftoff.cli.verbs``); one of these means nearly the same,
so it is answered with what to type. Loaded only after a verb was not found.
"""

from __future__ import annotations

from leftoff.cli.verbs import SAME, VERBS

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
    """What somebody who typed ``word`` may have meant, as words after ``leftoff``."""
    from difflib import get_close_matches

    if word.endswith((".yaml", ".yml")):
        return (f"run {word}",)
    begun = [verb for verb in VERBS if len(word) > 2 and verb.startswith(word)]
    near = [word] if word in MEANT else begun or get_close_matches(word, [*VERBS, *SAME, *MEANT], 1, LIKE)
    return tuple(command for name in near for command in MEANT.get(name, (SAME.get(name, name),)))
