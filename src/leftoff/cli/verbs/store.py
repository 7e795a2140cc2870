"""``leftoff store``: what the store is, its schema, a backup, and a copy of everything in another one."""

from __future__ import annotations

import sys

from leftoff.cli.options import Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.upkeep.stores import StoreInfo

SPEC = Spec(
    "store",
    "Show what the project's store is (info), bring its schema up to date (migrate), back it up into a new folder "
    "while others write (backup), or copy everything from one store into another that is empty (copy): a folder, or "
    "postgresql://USER@HOST/DATABASE?project=NAME. Ids and history are kept, a copy that was cut short continues, and "
    "in the end the new store is checked. Nobody may drive a run while a store is copied.",
    usage="info | migrate | backup FOLDER | copy FROM TO",
    least=1,
    most=3,
    examples="""  leftoff store info
  leftoff store migrate
  leftoff store backup /other/disk/2026-01-31
  leftoff store copy .leftoff 'postgresql://me@db.example.org/work?project=site'""",
)
_WORDS = {"info": 1, "migrate": 1, "backup": 2, "copy": 3}


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep import stores

    what, *places = args.rest
    if _WORDS.get(what) != len(args.rest):
        raise Usage(f"`leftoff store` does not take {' '.join(args.rest)!r}.", hint=f"usage: {SPEC.line()}")
    if what == "copy":
        with _Progress(ctx) as progress:
            done = stores.copy(ctx.project, places[0], places[1], progress.tell)
        if not args.json:
            rows = sum(done.copied.values())
            ctx.out(
                f"{done.source}: {done.copied['run']} run(s), {rows} rows copied to {done.target}; checked."
            )
        return ctx.answer(done)
    if what == "backup":
        saved = stores.backup(ctx.project, places[0])
        if not args.json:
            ctx.out(f"{saved.store}: {saved.runs} run(s) backed up to {saved.folder}.")
        return ctx.answer(saved)
    found = stores.migrate(ctx.project) if what == "migrate" else stores.info(ctx.project)
    if not args.json:
        ctx.out(_page(found))
    return ctx.answer(found)


def _page(found: StoreInfo) -> str:
    shown = {"store": found.store, **found.about, "folder": found.folder}
    if not found.exists:
        shown["note"] = "there is nothing yet: the first write makes it"
    width = max(map(len, shown))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items() if value is not None)


class _Progress:
    """On a terminal a bar; else nothing, until it is done."""

    def __init__(self, ctx: Context) -> None:
        self._bar: Any = None
        if not ctx.args.json and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            shown = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*shown, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("copying", total=None)

    def __enter__(self) -> _Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, table: str, rows: int, total: int) -> None:
        if self._bar is not None:
            described = f"copying {table}: {rows:,} of {total:,} rows"
            self._bar.update(self._task, description=described, completed=rows, total=total)
