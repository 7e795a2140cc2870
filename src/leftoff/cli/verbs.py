"""Every verb: where it lives, what it is for, in one line. ``leftoff help`` is this table."""

from __future__ import annotations

# name: (group, summary). The module is leftoff.cli.verb_NAME.
VERBS: dict[str, tuple[str, str]] = {
    "fsck": ("keep", "check every byte of the store; --repair sets damage aside"),
    "help": ("more", "explain leftoff, or one verb"),
}

# Other words for a verb.
SAME = {"reprendre": "resume", "continue": "resume"}

GROUPS = {
    "look": "See what there is",
    "go": "Start and go on",
    "report": "Report progress (agents and scripts)",
    "time": "Go back and sideways",
    "keep": "Keep it in order",
    "more": "More",
}
