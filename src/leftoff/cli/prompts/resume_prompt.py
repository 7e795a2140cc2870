"""The resume prompt, in the form that the claude protocol shows: what was found, how far it is, and four choices."""

from __future__ import annotations

from leftoff.cli.prompts.ask import answer, choose
from leftoff.cli.render.text import clean
from leftoff.model.times import ago, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.engine.read.find import Target

RESUME, FRESH, VIEW, DELETE = "resume", "start", "view", "delete"
_TO_DO = ("running", "waiting", "failed", "pending")
HINT = "--yes resumes without asking."


def ask(ctx: Context, target: Target, found: dict[str, Any]) -> str:
    """What to do with a run that was found: ``resume``, ``start`` or ``delete``. Its page is shown on the way.

    ``found`` is its `show` document at the version in question.
    """
    from leftoff.dialects.core.project import mirrored

    dialect = mirrored(ctx.project.folder, ctx.settings)
    counted = dialect.counted if dialect is not None else None
    while True:
        ctx.say(text(found, ctx.now, counted))
        choice = choose("Choice [r/s/v/d]: ", (RESUME, FRESH, VIEW, DELETE), HINT)
        if choice == VIEW:
            _view(found, ctx)
        elif choice != DELETE or sure(target):
            return choice


def text(found: dict[str, Any], now: int, counted: str | None) -> str:
    """``counted``: what the project's protocol calls a step, where it counts them."""
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
  (r)esume - {continuing(found, counted)}
  (s)tart fresh - Mark it abandoned and start over
  (v)iew details - Show everything it holds
  (d)elete - Remove it without starting
"""


def continuing(found: dict[str, Any], counted: str | None) -> str:
    """What resuming does: the first step that is to be done, which a failed one is again."""
    from leftoff.engine.read.show import inner_steps

    records = found["step_records"]
    inner = inner_steps(record["step"] for record in records)
    leaves = [record for record in records if record["step"] not in inner]
    for number, record in enumerate(leaves, 1):
        if record["status"] in _TO_DO:
            return f"Continue from {f'{counted} {number}' if counted else clean(record['step'])}"
    return "Continue"


def sure(target: Target) -> bool:
    """The second question before a run is removed."""
    run_id = target.row.run_id
    given = answer(f"Remove run {run_id} and all its checkpoints for good? [y/N]: ", HINT)
    return given.lower() in ("y", "yes")


def _view(found: dict[str, Any], ctx: Context) -> None:
    from leftoff.cli.render.screen import stderr
    from leftoff.cli.verbs.show import page

    screen = stderr(ctx.now)
    screen.show([*page(found, screen), []])
