"""``leftoff fsck``: is everything that was written still what was written?"""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.retention.fsck import FsckReport

SPEC = Spec(
    "fsck",
    "Check every page, record, version and blob of the store.",
    options=(Opt("--repair", None, "move damaged data to .leftoff/quarantine and keep the rest"),),
    examples="""  leftoff fsck            check the project's store
  leftoff fsck --json     the same, for a program
  leftoff fsck --repair   set damaged data aside""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.stores import fsck

    report = fsck(ctx.project, repair=args.repair)
    if args.json:
        ctx.emit(report.to_json())
    else:
        ctx.out(page(report, ctx.project.store.name, repair=args.repair))
    return 0 if report.ok else 4


def page(report: FsckReport, location: str, *, repair: bool) -> str:
    looked = ", ".join(
        f"{number} {what.replace('_', ' ')}" for what, number in report.checked.items() if number
    )
    lines = [f"{location}: checked {looked or 'nothing: there is no store here yet'}."]
    lines += [f"  repaired: {p['where']}: {p['message']}" for p in report.repaired]
    lines += [f"  set aside: {path}" for path in report.quarantined]
    lines += [_lost(loss) for loss in report.salvaged]
    lines += [f"  {p['code']}: {p['where']}: {p['message']}" for p in report.problems]
    if report.ok and report.checked:
        lines.append(_now_clean(report) if report.salvaged else "Clean.")
    elif report.problems:
        cure = "`leftoff fsck --repair` keeps what is whole."
        if repair:
            cure = "Restore a backup of these files, or save the same content again."
        lines.append(f"{len(report.problems)} problem(s). {cure}")
    return "\n".join(lines)


def _lost(loss: dict[str, Any]) -> str:
    """What could not be proved of a run, and where the rest of it lies."""
    rest = f" What could be read of it is in {loss['aside']}." if loss["aside"] is not None else ""
    word = "lost" if loss["kept"] is None else "salvaged"
    return f"  {word}: run {loss['run_id']}: {loss['message']}{rest}"


def _now_clean(report: FsckReport) -> str:
    """What is there is sound; it is not all that was there."""
    gone = [loss["run_id"] for loss in report.salvaged if loss["kept"] is None]
    others = [loss["run_id"] for loss in report.salvaged if loss["kept"] is not None]
    told = [f"lost: {', '.join(gone)}"] if gone else []
    told += [f"not as it was: {', '.join(others)}"] if others else []
    return f"What is left is clean. Runs {'; '.join(told)}."
