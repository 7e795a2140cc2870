"""The words that are stored: collections, triggers and status words. One word for one thing, everywhere."""

from __future__ import annotations

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
AT_WORK = ("running", "blocked")  # somebody may commit to it at any moment
STANDS = ("paused", "failed")  # still: what failed is done again when it goes on
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

# Records of `context` by which leftoff knows what to execute, bring back or ask: its own, and nobody else's to put.
_OWN_FACTS = ("definition", "function", "returned", "workspace", "git_dirty", REPAIRED)


def is_own(collection: str, key: str) -> bool:
    """Whether a record decides what leftoff does, or tells who decided: no report, document or program puts it."""
    own = key in _OWN_FACTS or key.startswith("before ")
    return collection == "audit" or (collection == "context" and own)


def in_words(status: str) -> str:
    """What is said of a run or a step after its name."""
    return "has failed" if status == "failed" else f"is {status}"
