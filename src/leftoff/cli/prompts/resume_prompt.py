"""Asking what becomes of an unfinished run, in the words of the claude protocol."""

from __future__ import annotations

from leftoff.cli.prompts.ask import YES, answer, choose
from leftoff.cli.render.text import clean
from leftoff.dialects.claude.prompt import CHOICES, DELETE, QUESTION, VIEW, removing, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.engine.read.find import Target

HINT = "--yes resumes without asking."


def ask(ctx: Context, target: Target, found: dict[str, Any]) -> str:
    """What to do with a run that was found: ``resume``, ``start`` or ``delete``. Its page is shown on the way.

    ``found`` is its `show` document at the version in question.
    """
    from leftoff.dialects.core.registry import mirrored

    dialect = mirrored(ctx.project.folder, ctx.project.settings)
    counted = dialect.counted if dialect is not None else None
    while True:
        ctx.say(text(found, ctx.project.now, counted, clean))
        choice = choose(QUESTION, CHOICES, HINT)
        if choice == VIEW:
            _view(found, ctx)
        elif choice != DELETE or answer(removing(target.row.run_id), HINT).lower() in YES:
            return choice


def _view(found: dict[str, Any], ctx: Context) -> None:
    from leftoff.cli.render.screen import stderr
    from leftoff.cli.verbs.show_verbs import show_page

    screen = stderr(ctx.project.now)
    screen.show([*show_page(found, screen), []])
