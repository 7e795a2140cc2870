"""What every screen of a run shows at its top: the run, which version of it, how it is, how far it is."""

from __future__ import annotations

from typing import Any

from leftoff.operations import Project
from leftoff.operations.pages.one_run import at_a_glance
from leftoff.web.asking import Asked


def heading(project: Project, asked: Asked) -> dict[str, Any]:
    """``seen``: the run at a glance; ``at``: the version that is looked at, or ``None``."""
    target, seen = at_a_glance(project, asked.caller, ref_of(asked))
    version = target.version
    return {
        "run": seen.info.to_json(),
        "seen": seen,
        "at": version.seq if version is not None else None,
        "then": version.to_json() if version is not None else None,
        "card": seen.info.row.card,
    }


def ref_of(asked: Asked) -> str:
    """The run, or the version of it that ``?at=`` names."""
    at = asked.query.get("at", "")
    return f"{asked.run}@{at}" if at.isascii() and at.isdigit() and len(at) < 16 else asked.run


def number(text: str | None) -> int | None:
    """A number of a URL, where it is one."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None
