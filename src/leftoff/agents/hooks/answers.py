"""What a hook may print: context for the agent, as the one JSON document that its event allows."""

from __future__ import annotations

from leftoff.engine.read.brief import fit, parts, short
from leftoff.engine.read.show import document
from leftoff.model.codec import text
from leftoff.model.versions import counts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.operations import Project
    from leftoff.store.rows import RunRow

LIMITS = {"claude": 8000, "codex": 6000, "gemini": 8000}  # characters; Codex has room for 2,500 tokens


def context(event: str, told: str) -> bytes:
    """The answer that adds a text to what the agent knows."""
    about = {"hookEventName": event, "additionalContext": told}
    return text({"hookSpecificOutput": about}).encode("utf-8", "replace") + b"\n"


class Findings:
    """What was found before a run is gone on with, as facts; whether it cannot be."""

    __slots__ = ("refused", "text")

    def __init__(self, text: str, *, refused: bool) -> None:
        self.text = text
        self.refused = refused


def findings(project: Project, row: RunRow, session: str) -> Findings:
    """The world, checked against a run as `leftoff resume` does it."""
    from leftoff.dialects.verdict import verify_run
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.finding import REFUSE, RESUME

    report = verify_run(
        project.store, Target(row, None), project.at, project.folder, project.settings, session=session
    )
    lines = [f"- {one.message}" for one in report.findings if one.level != RESUME]
    if report.verdict == REFUSE:
        lines = [f"- {one.message} {one.hint}".rstrip() for one in report.findings if one.level == REFUSE]
        head = f"The unfinished run {row.run_id} cannot be gone on with as things are:"
        return Findings("\n".join([head, *lines[:20]]), refused=True)
    said = "\n".join(["Found before it went on:", *lines[:20], "", ""]) if lines else ""
    return Findings(said, refused=False)


def whole_brief(project: Project, row: RunRow, agent: str, said: str = "") -> str:
    """Everything that a session must know of its run. ``said``: what was found when it was taken."""
    from leftoff.engine.read.find import Target

    found = document(project.store, Target(row, None), project.at, project.limits)
    head = f"leftoff keeps the progress of this session as run {row.run_id}.\n\n{said[:2000]}"
    return head + fit(parts(found, project.at, project.folder), LIMITS[agent] - len(head))


def offer(row: RunRow) -> str:
    """One line about a run that nobody works on."""
    counts = counts_of(row.counts)
    done, total = counts["completed"] + counts["skipped"], sum(counts.values())
    name = f" ({short(row.title, 100)})" if row.title else ""
    steps = f", {done} of {total} steps done" if total else ""
    return (
        f"An unfinished run is in this folder, and no session works on it: {row.run_id}{name}, {row.status}{steps}. "
        f"`leftoff resume {row.run_id}` takes it up and prints what is known of it."
    )
