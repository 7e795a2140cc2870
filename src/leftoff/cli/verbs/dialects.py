"""``leftoff dialects``: which foreign formats are understood, and what is here of each."""

from __future__ import annotations

from leftoff.cli.options import Spec
from leftoff.cli.render.text import clean, columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.transfer import DialectHere

SPEC = Spec(
    "dialects",
    "List the protocols whose checkpoint files leftoff reads and writes, and their files in this project. "
    "`leftoff import .` imports them; `leftoff init --dialect NAME` keeps them in sync from then on.",
    examples="""  leftoff dialects
  leftoff dialects --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.transfer import dialects

    found = dialects(ctx.project)
    if args.json:
        ctx.emit({"dialects": [each.to_json() for each in found]})
        return 0
    rows = [("DIALECT", "HERE", "FILES")]
    rows += [(each.name, _here(each), each.about) for each in found]
    ctx.out("\n".join([*columns(rows), "", *(line for each in found for line in _example(each))]).rstrip())
    return 0


def _example(each: DialectHere) -> list[str]:
    """What one of its files says, and how leftoff begins such a run."""
    if each.example is None:
        return []
    import json

    path, document = each.example
    begins = (
        f"Begun by: {each.starts}" if each.starts else f"Read by: leftoff import {path} --dialect {each.name}"
    )
    return [
        f"{each.name}, for example {path}:",
        f"    {clean(json.dumps(document, ensure_ascii=False))}",
        f"    {begins}",
        "",
    ]


def _here(each: DialectHere) -> str:
    number = len(each.files)
    here = f"{number} file{'' if number == 1 else 's'}" if number else "-"
    return f"{here}, mirrored" if each.mirrored else here
