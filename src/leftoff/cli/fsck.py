"""``leftoff fsck``: is everything that was written still what was written?"""

from __future__ import annotations

from leftoff.cli.common import guarded, parser, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.fsck import FsckReport

EXAMPLES = """  leftoff fsck            check the project's store
  leftoff fsck --json     the same, for a program
  leftoff fsck --repair   set damaged data aside and keep what is whole"""


def main(argv: list[str]) -> int:
    options = parser("fsck", "Check every page, record, version and blob of the store.", EXAMPLES)
    options.add_argument("--repair", action="store_true", help="set damage aside in .leftoff/quarantine")
    args = options.parse_args(argv)

    def work() -> int:
        from leftoff.engine import project, settings
        from leftoff.engine.fsck import fsck

        home = project.find_project(given=args.project)
        location = project.store_location(home, args.store, settings.load(home).store)
        store = project.open_store(location)
        try:
            report = fsck(store, repair=args.repair)
        finally:
            store.close()
        if args.json:
            print_json(report.to_json())
        else:
            show(report, location)
        return 0 if report.ok else 4

    return guarded(work, as_json=args.json)


def show(report: FsckReport, location: str) -> None:
    looked = ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in report.checked.items() if number)
    print(f"{location}: checked {looked or 'nothing: there is no store here yet'}.")
    for problem in report.repaired:
        print(f"  repaired: {problem['where']}: {problem['message']}")
    for path in report.quarantined:
        print(f"  set aside: {path}")
    for problem in report.problems:
        print(f"  {problem['code']}: {problem['where']}: {problem['message']}")
    if report.ok:
        print("Clean.")
    else:
        print(f"{len(report.problems)} problem(s). `leftoff fsck --repair` sets damaged data aside and keeps the rest.")
