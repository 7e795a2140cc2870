"""Every verb: where it lives, what it is for, in one line. ``leftoff help`` is this table."""

from __future__ import annotations

# name: (group, summary). The module is leftoff.cli.verb_NAME.
VERBS: dict[str, tuple[str, str]] = {
    "status": ("look", "where this is, and every run that is not finished"),
    "ls": ("look", "the runs, latest first"),
    "show": ("look", "one run, now or at any checkpoint"),
    "log": ("look", "a run's checkpoints, newest first"),
    "logs": ("look", "what the steps of a run printed"),
    "diff": ("look", "what differs between two versions"),
    "run": ("go", "execute a workflow file, with a checkpoint after each step"),
    "verify": ("look", "whether a run can be resumed, finding by finding"),
    "resume": ("go", "go on with a run, from where it is or from further back"),
    "stop": ("go", "stop the work on a run from another shell"),
    "start": ("go", "start a run; --resume goes on with an unfinished one"),
    "approve": ("go", "decide a step that waits for an approval"),
    "reject": ("go", "reject a step that waits for an approval"),
    "unblock": ("go", "say that what blocks a run is resolved"),
    "supervise": ("go", "watch all runs, tell what changes, restart what died"),
    "next": ("report", "the next step and its instructions; --start takes it"),
    "step": ("report", "report on a step: start, done, fail, block, skip"),
    "set": ("report", "set variables: K=V, K:=JSON, K=@FILE"),
    "get": ("report", "read a variable, or any record"),
    "put": ("report", "keep any record: message, knowledge, criterion, …"),
    "note": ("report", "leave a note for whoever goes on"),
    "artifact": ("report", "keep a file that a step produced"),
    "track": ("report", "remember files as they are now"),
    "save": ("report", "seal a checkpoint"),
    "beat": ("report", "say that somebody is at work"),
    "brief": ("report", "what an agent must know to go on"),
    "pause": ("report", "stop for now; the run stays unfinished"),
    "finish": ("report", "end the run, and say what is left"),
    "install": ("agent", "set up Claude Code, Codex or Gemini CLI; --uninstall undoes it"),
    "handover": ("agent", "go on with a run in another agent"),
    "mcp": ("agent", "serve this project's runs to an agent (MCP, on stdin and stdout)"),
    "hook": ("agent", "keep what an agent's hook event tells (called by agents)"),
    "export": ("keep", "write a run with its history to one portable file"),
    "import": ("keep", "take in runs from bundles, and from the files of a protocol"),
    "dialects": ("keep", "the protocols whose files are understood, and what is here of each"),
    "rollback": ("time", "a run as it was, as a new checkpoint; --files brings back its files"),
    "restore": ("time", "single files as they were at a checkpoint"),
    "cat": ("look", "print a file as it was at a checkpoint"),
    "fork": ("time", "a new run that starts from a version of another"),
    "prune": ("keep", "let go what the rules of retention no longer keep"),
    "archive": ("keep", "move a run that is over into one file, to be opened again by name"),
    "rm": ("keep", "remove a run for good"),
    "trust": ("keep", "allow what this project's settings and runs from elsewhere would run or lead outside"),
    "fsck": ("keep", "check every byte of the store; --repair sets damage aside"),
    "compat": ("more", "the commands of the protocols: save-checkpoint, bmad-event and others"),
    "init": ("more", "make the store here, and say what else is worth doing"),
    "demo": ("more", "a workflow, killed half way and resumed, explained as it goes"),
    "completion": ("more", "completions for bash, zsh or fish"),
    "help": ("more", "explain leftoff, or one verb"),
}

# Other words for a verb.
SAME = {"reprendre": "resume", "continue": "resume"}

GROUPS = {
    "look": "See what there is",
    "go": "Start and go on",
    "report": "Report progress (agents and scripts)",
    "agent": "Agents",
    "time": "Go back and sideways",
    "keep": "Keep it in order",
    "more": "More",
}
