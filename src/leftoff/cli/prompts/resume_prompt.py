"""Asking what becomes of an unfinished run, in the words of the claude protocol."""

from __future__ import annotations

from leftoff.cli.prompts.ask import YES, answer, choose
from leftoff.cli.render.text import clean
from leftoff.engine.read.show import inner_steps
from leftoff.model.times import ago, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.engine.read.find import Target

RESUME, FRESH, VIEW, DELETE = "resume", "start", "view", "delete"
CHOICES = (RESUME, FRESH, VIEW, DELETE)
QUESTION = "Choice [r/s/v/d]: "
_TO_DO = ("running", "waiting", "failed", "pending")
HINT = "--yes resumes without asking."


def ask(ctx: Context, target: Target, found: dict[str, Any]) -> str:
    """What to do with a run that was found: ``resume``, ``start`` or ``delete``. Its page is shown on the way.

    ``found`` is its `show` document at the version in question.
    """
    from leftoff.dialects.registry import mirrored

    dialect = mirrored(ctx.project.folder, ctx.project.settings)
    counted = dialect.counted if dialect is not None else None
    while True:
        ctx.say(_question(found, ctx.project.now, counted))
        choice = choose(QUESTION, CHOICES, HINT)
        if choice == VIEW:
            _view(found, ctx)
        elif choice != DELETE:
            return choice
        else:
            sure = f"Remove run {target.row.run_id} and all its checkpoints for good? [y/N]: "
            if answer(sure, HINT).lower() in YES:
                return choice


def _view(found: dict[str, Any], ctx: Context) -> None:
    from leftoff.cli.render.screen import stderr
    from leftoff.cli.verbs.show import page

    screen = stderr(ctx.project.now)
    screen.show([*page(found, screen), []])


def _question(found: dict[str, Any], now: int, counted: str | None) -> str:
    """Return what is shown of a run. ``counted``: the word for a step, if the project's protocol counts them."""
    steps = found["steps"]
    created = millis(found["created_at"])
    age = f" ({ago(created, now, words=True)})" if created is not None else ""
    done = steps["completed"] + steps["skipped"]
    how_far = (
        f"{counted or 'Step'} {done} of {steps['total']} completed"
        if steps["total"]
        else "no steps are declared"
    )
    return f"""Found existing checkpoint for "{clean(found["title"] or found["workflow"])}"
Created: {clean(found["created_at"][:19].replace("T", " "))}{age}
Progress: {how_far}
Run: {found["run_id"]}@{found["version"]["seq"]} ({clean(found["status"])}, {found["health"]})

Options:
  (r)esume - {clean(_continuing(found, counted))}
  (s)tart fresh - Mark it abandoned and start over
  (v)iew details - Show everything it holds
  (d)elete - Remove it without starting
"""


def _continuing(found: dict[str, Any], counted: str | None) -> str:
    """Return what resuming does: the first step that is left, which may have failed."""
    records = found["step_records"]
    inner = inner_steps(record["step"] for record in records)
    leaves = [record for record in records if record["step"] not in inner]
    for number, record in enumerate(leaves, 1):
        if record["status"] in _TO_DO:
            return f"Continue from {f'{counted} {number}' if counted else record['step']}"
    return "Continue"
