"""The words that are stored: collections, triggers and status words. One word for one thing, everywhere.

And which records a user, an agent or a document may put: not those by which leftoff knows what to do.
"""

from __future__ import annotations

from typing import Any

from leftoff.errors import NeedsPerson, Usage

COLLECTIONS = (
    "run",
    "variable",
    "item",
    "step",
    "artifact",
    "file",
    "approval",
    "message",
    "conflict",
    "knowledge",
    "member",
    "criterion",
    "score",
    "error",
    "note",
    "turn",
    "context",
    "extra",
    "audit",
)

ROLLBACK_BEGIN = "rollback_begin"  # a trigger: files are about to be restored; `~N` does not count it
WAITS = "waits"  # a key of `run`: which agent step waits for its service, why, and until when
QUESTION = "question"  # a key of `run`: what the agent asked the user at the end of its last turn
WHY_AGAIN = "why_again"  # a key of `run`: why it last continued
RESTORING = "restoring"  # a key of `run`: the restore of files that was begun, until it is complete

TRIGGERS = (
    "step_complete",
    "phase_transition",
    "batch_start",
    "batch_complete",
    "agent_start",
    "agent_complete",
    "conflict_start",
    "conflict_resolved",
    "approval",
    "review",
    "user_interrupt",
    "session_end",
    "error",
    "manual",
    "external",
    "rollback",
    ROLLBACK_BEGIN,
)

RUN_STATUS = ("running", "paused", "blocked", "failed", "completed", "abandoned")
UNFINISHED = ("running", "paused", "blocked", "failed")
AT_WORK = ("running", "blocked")  # a process may commit to it at any moment
STANDS = ("paused", "failed")  # still: failed steps run again when it resumes
FINISHED = ("completed", "abandoned")

# The order of the counters that every version carries.
STEP_STATUS = ("pending", "running", "waiting", "completed", "failed", "blocked", "skipped")
EXPECTED = (
    "expected"  # in a run's own record: how many steps were announced below which, and are not there yet
)
EACH = "each"  # in the record of a step that a Python loop goes through: what is below it are the items, by their names
STEP_ENDED = ("completed", "skipped")

# In a step's record: it was done, and is to be done again, so that what needs it may be done already.
ONCE_MORE = "once_more"

# The record of `context` that marks a run that lost versions in a repair, or may have: resuming it asks.
REPAIRED = "repaired"

# The record of `context` that holds the issue that a run works on, as it was read last.
ISSUE = "issue_snapshot"

# The record of `extra` with the values that a foreign document writes in another form than its protocol.
AS_WRITTEN = "as-written"

# Records of `context` by which leftoff knows what to execute, bring back or ask: no user or agent can put them.
_OWN_FACTS = ("definition", "function", "returned", "workspace", "git_dirty", REPAIRED)


def is_own(collection: str, key: str) -> bool:
    """Whether a record decides what leftoff does, or tells who decided: no report, document or program puts it."""
    own = key in _OWN_FACTS or key.startswith("before ")
    return collection == "audit" or (collection == "context" and own)


def in_words(status: str) -> str:
    """The words after the name of a run or a step."""
    return "has failed" if status == "failed" else f"is {status}"


def was(status: str) -> str:
    """Return what a run was before it continued, or before another one was started."""
    return "had failed" if status == "failed" else f"was {status}"


# -- which records may be put

_REFUSED = {
    "run": "Use `leftoff start`, `pause` and `finish`; what you want to remember of a run goes to context or extra.",
    "turn": "An agent's hooks keep them (`leftoff install`). What you want to remember goes to note or context.",
    "audit": "It says who decided what through the page. What you want to remember goes to note or context.",
    "item": "Entries of long variables are kept here. Set the variable itself: `leftoff set K:=JSON`.",
}


_DECIDES = ("choice", "by", "decided_at")  # the fields of a decided approval
_OPEN = ("pending", "waiting")  # a step that is not decided yet


def check_record(collection: str, key: str, value: Any, *, person: bool = True) -> None:
    """Whether this record may be put: not one that decides what is executed, approved or brought back.

    ``person``: whether one may be behind it. One may ask for a decision so, and never take it.
    """
    if collection in _REFUSED:
        raise Usage(f"Records of the collection {collection} are leftoff's own.", hint=_REFUSED[collection])
    if collection not in COLLECTIONS:
        from difflib import get_close_matches

        known = [name for name in COLLECTIONS if name not in _REFUSED]
        near = get_close_matches(collection, known, 1, 0.5)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise Usage(f"There is no collection {collection!r}.", hint=f"{hint}Collections: {', '.join(known)}.")
    refuse_decision(collection, key, value, person=person)
    if collection in ("file", "artifact") and not person:
        raise Usage(
            f"Records of the collection {collection} are leftoff's own.",
            hint="A file that is named as an output is kept: report_step(output=…), `leftoff artifact PATH`.",
        )


def refuse_decision(collection: str, key: str, value: Any, *, person: bool = True) -> None:
    """Return the error for a record that decides what is executed or approved."""
    about = value if isinstance(value, dict) else {}
    is_decided = about.get("status", "waiting") not in _OPEN or any(key in about for key in _DECIDES)
    if collection == "approval" and (not person or is_decided):
        raise NeedsPerson(
            "Only a person decides an approval.",
            hint="Nothing was changed. `leftoff approve RUN STEP` decides one that is waiting.",
        )
    if is_own(collection, key) or (collection, key) == ("context", "graph"):
        raise Usage(
            f"The record {collection}/{key} is leftoff's own.",
            hint="Nothing was changed. It says what is executed, restored or was decided; choose another one.",
        )


def decides_step(value: Any) -> bool:
    """Whether this record of a step that is an approval says how it was decided."""
    status = value.get("status") if isinstance(value, dict) else None
    return status in STEP_STATUS and status not in _OPEN


#: Names that protocols had before.
OLD_PROTOCOLS = {"claude": "claude-checkpoints"}


def imported_from(origin: object) -> str | None:
    """Return the protocol that an imported run came from. ``origin``: what the import recorded in the run."""
    if not isinstance(origin, dict):
        return None
    name = origin.get("protocol", origin.get("dialect"))
    return OLD_PROTOCOLS.get(name, name) if isinstance(name, str) else None
