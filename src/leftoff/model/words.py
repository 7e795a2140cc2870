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
)

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
)

RUN_STATUS = ("running", "paused", "blocked", "failed", "completed", "abandoned")
UNFINISHED = ("running", "paused", "blocked", "failed")
FINISHED = ("completed", "abandoned")

# The order of the counters that every version carries.
STEP_STATUS = ("pending", "running", "waiting", "completed", "failed", "blocked", "skipped")
STEP_ENDED = ("completed", "skipped")

# In a step's record: it was done, and is to be done again, so that what needs it may be done already.
ONCE_MORE = "once_more"

# Keys of `extra` that start so hold how a foreign document was written; they say nothing to people.
AS_WRITTEN = ("as-written:", "order:")
