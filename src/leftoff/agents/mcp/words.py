"""What leftoff says to people at a command line, said to a model that has tools.

A command that is a tool here is called by the tool's name; one that is none is left to a person, or to whoever has a
shell; an option becomes the argument of the same meaning.
"""

from __future__ import annotations

import re

from leftoff.engine.read.quoting import tame
from leftoff.errors import Ambiguous, LeftoffError, NotFound, Usage

_TOOLS = {
    "start": "start_run",
    "ls": "list_runs",
    "status": "list_runs",
    "show": "show_run",
    "diff": "diff_checkpoints",
    "verify": "verify_resume",
    "resume": "resume_run",
    "note": "add_note",
    "finish": "finish_run",
    "set": "set_variables",
    "put": "put_record",
    "save": "save_checkpoint",
    "next": "next_step",
}
_STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}
_PHRASES = (
    (r"\(`start --resume`, leftoff\.resume\)", "(resume_run, or start_run with resume: true)"),
    (r"Use `leftoff start`, `pause` and `finish`", "Use start_run and finish_run"),
    (r"`leftoff run --fresh` or `start` begins a new run", "start_run begins a new run"),
    (r"Use --branch (?:'[^']*'|\S+), or --run (\S+)\.$", r"Pass run_id: \1."),
    (r"`leftoff approve RUN STEP` decides one that is waiting\.", "request_approval asks for one."),
    (r"; take_over=True follows", ""),
    (r" \(or --yes\)", ""),
    (
        r"--yes runs (.+?) again; --accept outputs\.missing continues without it\.",
        r'accept: ["outputs.missing"] continues without it; '
        r"report_step (step: \1, status: running) then runs it again.",
    ),
    (
        r"--from-step ('[^']*'|\S+) runs the step again",
        r"report_step (step: \1, status: running) then runs it again",
    ),
    (r"Give it again: --var \S+=…", "Give it again: set_variables"),
    (r"--accept ([a-z_]+(?:\.[a-z_]+)+)", r'accept: ["\1"]'),
)
_COMMAND = re.compile(r"`leftoff ([a-z]+)((?: [^`]*)?)`(?! in a shell)")
_STEP = re.compile(r" (\w+) ('[^']*'|\S+)(?: --run (\S+))?$")


def for_a_model(text: str) -> str:
    """A hint or a message, in tools. Said twice it is the same."""
    for phrase, said in _PHRASES:
        text = re.sub(phrase, said, text)
    return _COMMAND.sub(_tool, text)


def _tool(found: re.Match[str]) -> str:
    verb, rest = found.groups()
    step = _STEP.fullmatch(rest) if verb == "step" else None
    if step is not None and step.group(1) in _STATUS:
        named = f", run_id: {step.group(3)}" if step.group(3) else ""
        return f"report_step (step: {step.group(2)}, status: {_STATUS[step.group(1)]}{named})"
    if verb in ("approve", "reject"):
        return found.group()  # it stands beside the word that only a person does it
    plain = " --" not in rest or verb in ("ls", "show", "start")
    return _TOOLS[verb] if verb in _TOOLS and plain else f"{found.group()} in a shell"


def told(error: LeftoffError) -> str:
    """What is wrong, and what to do about it. Names of things that others made stand in there."""
    return tame(_told(error))


def _told(error: LeftoffError) -> str:
    if isinstance(error, Ambiguous):
        return f"{error.whole} Say which one is meant: pass its run_id."
    hint = error.hint
    if hint == Usage.default_hint:
        hint = "Nothing was changed."
    elif hint == LeftoffError.default_hint:
        hint = ""
    elif hint == NotFound.default_hint:
        hint = "list_runs lists the runs there are."
    return f"{for_a_model(error.whole)}{'' if hint[:1] == chr(10) else ' '}{for_a_model(hint)}".strip()
