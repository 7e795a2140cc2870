"""``leftoff cat``: a file as it was at a version."""

from __future__ import annotations

import sys

from leftoff.cli.options import CURRENT, Spec
from leftoff.errors import Usage
from leftoff.model.ids import split_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "cat",
    "Print a file as it was at a version of a run, byte for byte; on a terminal, control characters are "
    "escaped. PATH is relative to the project, or to the current folder if it starts with ./; an artifact "
    "can be given by name. For a symbolic link, its target is printed.",
    usage="[REF:]PATH",
    least=1,
    most=1,
    options=CURRENT,
    examples="""  leftoff cat config.toml
  leftoff cat @~1:config.toml
  leftoff cat RUN@7:src/a.py""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.files import file_at

    ref, path = split_path(args.rest[0])
    if not path or args.rest[0].startswith(":"):
        raise Usage("`leftoff cat` needs REF:PATH, or a PATH.", hint=f"usage: {SPEC.line()}")
    found = file_at(ctx.project, ctx.caller, ref, path)
    if args.json:
        ctx.emit(found.to_json())
        return 0
    if sys.stdout.isatty():
        from leftoff.cli.render.text import visible

        sys.stdout.write(visible(b"".join(found.chunks()).decode("utf-8", "backslashreplace")))
        return 0
    for chunk in found.chunks():
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return 0
