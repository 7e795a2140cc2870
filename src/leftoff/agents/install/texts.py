"""What is written for agents to read: the skill, and the two commands. Short, as facts and exact command lines."""

from __future__ import annotations

SKILL = """---
name: leftoff
description: Keeps the progress of long work so that it survives a crash, a compaction or a new session. Use it for \
work of many steps, when asked to resume, continue, checkpoint or hand over, and when work was interrupted.
---

# leftoff

`leftoff` is a command that keeps the progress of a run: its steps, variables, notes, files and checkpoints.
In this session a run is kept by itself: the todo list becomes its steps, and edited files are captured.

- Where work stands: `leftoff brief`. All unfinished runs: `leftoff status`.
- Go on with an unfinished run: `leftoff resume RUN`. It prints what is known; finished steps are not done again.
- Work of many steps: `leftoff start NAME --steps a,b,c`, then per step `leftoff step start a`,
  `leftoff step done a --output FILE`, or `leftoff step fail a --error "why" --resume-with "what to do first"`.
- What comes next: `leftoff next`.
- Facts that later steps need: `leftoff set key=value`; for whoever goes on: `leftoff note "text"`.
- Before something risky: `leftoff save --note "before the migration"`. Back to it: ask the person first.
- The end: `leftoff finish --summary "what was done"`.

Every verb explains itself: `leftoff help VERB`. Secrets are not stored.
"""

COMMANDS = {
    "checkpoint": (
        "Save a checkpoint of this session's progress",
        "Save the progress of this session with leftoff.\n\n"
        "1. Bring the todo list up to date, so that it says what is done and what is not.\n"
        '2. Note what whoever goes on must know: `leftoff note "…"`.\n'
        '3. Run `leftoff save --note "…"` and tell its id.\n',
    ),
    "resume": (
        "Go on with unfinished work",
        "Go on with unfinished work that leftoff has kept.\n\n"
        "1. Run `leftoff status` to see which runs are unfinished; if there are several, ask which one is meant.\n"
        "2. Run `leftoff resume RUN` and read what it prints: what is done, what is next, what changed since.\n"
        "3. Go on with the next step. Do not do finished steps again.\n",
    ),
}


def markdown_command(name: str) -> str:
    about, text = COMMANDS[name]
    return f"---\ndescription: {about}\n---\n\n{text}"


def toml_command(name: str) -> str:
    about, text = COMMANDS[name]
    return f'description = "{about}"\nprompt = """\n{text.replace(chr(92), chr(92) * 2)}"""\n'
