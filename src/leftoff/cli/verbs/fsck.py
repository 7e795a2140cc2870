"""``leftoff fsck``: is everything that was written still what was written?"""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        ctx.out(page(report, ctx.project.store.name))
    return 0 if report.ok else 4


def page(report: FsckReport, location: str) -> str:
    looked = ", ".join(
        f"{number} {what.replace('_', ' ')}" for what, number in report.checked.items() if number
    )
    lines = [f"{location}: checked {looked or 'nothing: there is no store here yet'}."]
    lines += [f"  repaired: {p['where']}: {p['message']}" for p in report.repaired]
    lines += [f"  set aside: {path}" for path in report.quarantined]
    lines += [f"  salvaged: run {loss['run_id']}: {loss['message']}" for loss in report.salvaged]
    lines += [f"  {p['code']}: {p['where']}: {p['message']}" for p in report.problems]
    if report.ok and report.checked:
        lines.append("Clean.")
    elif report.problems:
        lines.append(f"{len(report.problems)} problem(s). `leftoff fsck --repair` keeps what is whole.")
    return "\n".join(lines)
