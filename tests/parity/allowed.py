"""What a face may leave otherwise than the command does, and why; and what is known to differ and shall not.

A pattern names a place as the test prints it: a record's field (also in the records of a checkpoint), or a checkpoint.
"""

from __future__ import annotations

Reasons = dict[str, str]

NOT_SEALED = "a program's end is no checkpoint (docs/reference/python-api.md): its last step was one"
LAST_STEP = "the end of a run is in the commit of its last step"
DECLARED = "what a workflow file says of it"
PROGRAM = "who goes on with it: the program, when it is started again"
NO_OPTION = "a program goes back and is started again; it has no --from-step"
RAISED = "an exception has one"
ITS_CALL = "what a call is known by when the function runs again"

OF_A_FACE: dict[str, Reasons] = {
    "python": {
        "checkpoint session_end #?": NOT_SEALED,
        "error/*.traceback": RAISED,
        "step/*.error.traceback": RAISED,
        "checkpoint *.traceback": RAISED,
        "run/program": PROGRAM,
        "checkpoint *:run/program": PROGRAM,
    },
    "page": {
        "audit/*": "who decided it through the page",
        "checkpoint *:audit/*": "who decided it through the page",
    },
    "runner": {
        "context/definition": DECLARED,
        "context/graph": DECLARED,
        "step/*.kind": DECLARED,
        "step/*.cache": "what a later run goes by that may take it over",
        "checkpoint *.cache": "what a later run goes by that may take it over",
        "step/*.batch": DECLARED,
        "error/*.exit_code": "a process has one",
        "step/*.error.exit_code": "a process has one",
        "checkpoint session_end #?": LAST_STEP,
        "checkpoint *:run/status": LAST_STEP,
        "checkpoint *:run/completed_at": LAST_STEP,
    },
    "functions": {
        "error/*.traceback": RAISED,
        "step/*.error.traceback": RAISED,
        "checkpoint *.traceback": RAISED,
        "run/program": PROGRAM,
        "checkpoint *:run/program": PROGRAM,
        "context/function": ITS_CALL,
        "run/inputs": ITS_CALL,
        "context/returned": ITS_CALL,
        "step/*.digest": ITS_CALL,
        "step/*.code": ITS_CALL,
        "checkpoint *.code": ITS_CALL,
        "step/*.raised": ITS_CALL,
        "step/*.order": "calls are counted from one",
        "checkpoint session_end #?": NOT_SEALED,
    },
    "hooks": {
        "checkpoint step_complete of a #?": "a list tells of steps; the end of the turn is the checkpoint",
        "step/*.listed_by": "on whose list it is",
    },
}

CHEAP = "docs/explanation/files.md: a program's steps look at no files, no git and no tracker"
NO_PERSON = "a program has nobody to ask: the error has the findings"
TAKEN = "the run is the session's from now on"
TURN = "a word is a prompt, which opens a turn"
BY_A_WORD = {"run/session_id": TAKEN, "run/agent": TAKEN, "run/open_turn": TURN, "turn/000001": TURN}
FILE = {"file/f.*": CHEAP}
ISSUE = {"context/issue_snapshot.*": CHEAP, "context/current_state_label": CHEAP}

ALLOWED: dict[tuple[str, str], Reasons] = {
    ("step done, a tracked file changed", "python"): FILE,
    ("step done, a tracked file is gone", "python"): FILE,
    ("step done, the issue changed", "python"): ISSUE,
    ("step done, dirty files captured", "python"): {"file/*": CHEAP, "context/workspace": CHEAP},
    ("step done in git", "python"): {"run/git_head": CHEAP},
    ("step fail, a tracked file changed", "python"): FILE,
    ("workflow, a tracked file changes", "python"): FILE,
    ("finish in git", "python"): {"run/git_head": NOT_SEALED},
    ("put a run", "python"): {
        "run/status": "put() sets any record, the run's own too",
        "answer 1 to put refused": "put() sets any record, the run's own too",
    },
    ("put a question", "mcp"): {
        "approval/a": "only a person decides, which an agent is not",
        "answer 1 to put refused": "only a person decides, which an agent is not",
    },
    ("note in a step", "python"): {"note/#1.step": "a program is inside of its step; a command names it"},
    ("resume what is completed", "mcp"): {
        "answer 4 to resume refused": "the command says that nothing is left, and exits 0"
    },
    ("resume what is completed", "page"): {
        "answer 4 to resume refused": "the command says that nothing is left, and exits 0"
    },
    ("resume what is completed", "python"): {
        "answer 4 to resume refused": "the command says that nothing is left, and exits 0"
    },
    ("resume from a step, done again", "python"): {
        "run/why_again": NO_OPTION,
        "checkpoint *:run/why_again": NO_OPTION,
        "checkpoint rollback of ? #1:run/status": PROGRAM,
        "checkpoint manual #1": "the present is sealed before it goes back: its pause was not",
    },
    ("resume from a step, failed then", "python"): {
        "run/why_again": NO_OPTION,
        "checkpoint *:run/why_again": NO_OPTION,
        "checkpoint rollback of ? #1:run/status": PROGRAM,
        "checkpoint manual #1": "the present is sealed before it goes back: its pause was not",
    },
    ("resume, an output is gone", "python"): {"answer 5 to resume refused": NO_PERSON},
    ("fork", "python"): {"checkpoint manual #1:run/status": "a program drives its fork from the start"},
    ("verify, an output changed", "mcp"): {
        "answer 4 to verify findings ? hint": "a hint names tools instead of options"
    },
    ("verify, a tracked file is gone", "mcp"): {
        "answer 4 to verify findings ? hint": "a hint names tools instead of options"
    },
    ("workflow, skips", "runner"): {
        "step/a.why": "the condition that did not hold",
        "checkpoint step_complete of a #1.note": "the condition that did not hold",
    },
    ("session, the end of a session, nothing open", "hooks"): {
        "run/summary": "a session's end has a reason, which is no summary"
    },
    ("resume by start, with more", "python"): {
        "variable/n": "docs/reference/python-api.md: variables= is what a new run starts with"
    },
    ("resume by a word", "hooks"): BY_A_WORD,
    ("resume by a word, after a failure", "hooks"): BY_A_WORD,
    ("session, a task", "hooks"): {
        "step/b.by": "a step of the agent's list, which a later list may drop",
        "checkpoint step_complete of b #1.note": "what the agent calls it",
    },
    ("session, a file", "hooks"): {"context/before f": "what it was before the session first changed it"},
}

# What differs and shall not: each of these fails until somebody mends it, and then until it is taken out of here.
WAITING: dict[tuple[str, str], str] = {}
