"""``leftoff dialects``: which foreign formats are understood, and what is here of each."""

from __future__ import annotations

import os

from leftoff.cli.options import Spec
from leftoff.cli.render.text import columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "dialects",
    "List the protocols whose checkpoint files leftoff reads and writes, and the files of each in this project.\n"
    "`leftoff import .` takes them in; `leftoff init --dialect NAME` keeps them in step from then on.",
    examples="""  leftoff dialects
  leftoff dialects --json""",
)


def run(args: Args, ctx: Context) -> int:
    found = [_about(each, ctx) for each in _all(ctx)]
    if args.json:
        ctx.emit({"dialects": found})
        return 0
    rows = [("DIALECT", "HERE", "FILES")]
    rows += [(each["name"], _here(each), each["about"]) for each in found]
    ctx.out("\n".join(columns(rows)))
    return 0


def _all(ctx: Context) -> list[tuple[Any, list[str]]]:
    """Each dialect with the files that are its own."""
    from leftoff.dialects.core.registry import dialects
    from leftoff.dialects.importing.places import documents_under

    files = documents_under(ctx.project.folder)
    return [(each, [path for path in files if each.owns(path)]) for each in dialects()]


def _about(found: tuple[Any, list[str]], ctx: Context) -> dict[str, Any]:
    each, files = found
    return {
        "name": each.name,
        "about": each.about,
        "mirrored": ctx.settings.section("mirror").get("dialect") == each.name,
        "files": [os.path.relpath(path, ctx.project.folder) for path in files],
    }


def _here(each: dict[str, Any]) -> str:
    number = len(each["files"])
    here = f"{number} file{'' if number == 1 else 's'}" if number else "-"
    return f"{here}, mirrored" if each["mirrored"] else here
