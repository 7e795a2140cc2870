"""``leftoff compat``: the commands of the protocols, with the arguments that their scripts know."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "compat",
    "The scripts of the protocols, on top of the store. From the claude protocol: save-checkpoint TYPE "
    "JSON (or - for stdin) prints the path, load-checkpoint TYPE [PROJECT] prints the JSON, "
    "list-checkpoints [TYPE] prints one row each, cleanup-checkpoints [DAYS] removes older ones. "
    "bmad-event reads the elements checkpoint-save, checkpoint-update and checkpoint-close of "
    "workflow.xml on stdin and carries them out.",
    usage="save-checkpoint|load-checkpoint|list-checkpoints|cleanup-checkpoints|bmad-event [ARG…]",
    least=1,
    most=3,
    options=CURRENT,
    examples="""  leftoff compat save-checkpoint implement '{"project_name": "dark_mode", "current_phase": 2}'
  leftoff compat load-checkpoint implement dark_mode
  leftoff compat list-checkpoints
  leftoff compat cleanup-checkpoints 7
  leftoff compat bmad-event""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.verbs import compat_bmad, compat_claude

    utilities: dict[str, tuple[int, int, Callable[[Context, list[str]], int]]] = {
        "save-checkpoint": (2, 2, compat_claude.save),
        "load-checkpoint": (1, 2, compat_claude.load),
        "list-checkpoints": (0, 1, compat_claude.show),
        "cleanup-checkpoints": (0, 1, compat_claude.clean_up),
        "bmad-event": (0, 0, compat_bmad.event),
    }
    name, rest = args.rest[0], args.rest[1:]
    if name not in utilities:
        raise Usage(f"There is no utility {name!r}.", hint=f"Utilities: {', '.join(utilities)}.")
    least, most, work = utilities[name]
    if not least <= len(rest) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise Usage(
            f"`leftoff compat {name}` takes {many} argument{'s' * (most != 1)}.", hint=f"usage: {SPEC.line()}"
        )
    return work(ctx, rest)
