"""``leftoff import``: take in runs that were exported elsewhere."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.errors import LeftoffError, StoreUnavailable, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

DIALECTS = ("leftoff",)

SPEC = Spec(
    "import",
    "Take in runs that `leftoff export` wrote, with the same ids and digests. A file is taken in whole or not at all;\n"
    "one that was imported before changes nothing; a run that is here with other content is never overwritten.",
    usage="PATH…",
    least=1,
    most=None,
    options=(
        Opt("--dialect", "D", "what the files are: leftoff (bundles), the only one so far", choices=DIALECTS),
        Opt("--dry-run", None, "check the files and say what would happen; write nothing"),
        Opt("--strict", None, "exit 4 where anything had to be repaired or was rejected"),
    ),
    examples="""  leftoff import site.leftoff
  leftoff import bundles/*.leftoff
  leftoff import site.leftoff --dry-run --json""",
)


class Outcome:
    """What became of the files."""

    def __init__(self) -> None:
        self.imported: list[dict[str, Any]] = []
        self.rejected: list[dict[str, Any]] = []
        self.codes: list[int] = []

    def accept(self, path: str, run_id: str, new: bool) -> None:
        self.imported.append(
            {"run_id": run_id, "path": path, "dialect": "leftoff", "repairs": [], "new": new}
        )

    def reject(self, path: str, error: LeftoffError) -> None:
        self.rejected.append({"path": path, "code": error.code, "message": error.message, "hint": error.hint})
        self.codes.append(error.exit_code)

    def exit_code(self, strict: bool) -> int:
        """A conflict wants somebody to decide; other rejections count where nothing else came in."""
        if 5 in self.codes:
            return 4 if 4 in self.codes and not self.imported else 5
        if self.codes and not self.imported:
            return self.codes[0] if len(set(self.codes)) == 1 else 4
        return 4 if strict and self.rejected else 0


def run(args: Args, ctx: Context) -> int:
    outcome = Outcome()
    for path in _bundles(args.rest, outcome):
        try:
            outcome.accept(path, *_take_in(ctx, path, dry=args.dry_run))
        except StoreUnavailable:
            raise  # it is not the file's fault
        except LeftoffError as error:
            outcome.reject(path, error)
    _tell(args, ctx, outcome)
    return outcome.exit_code(args.strict)


def _bundles(paths: list[str], outcome: Outcome) -> list[str]:
    """The files that look like bundles. All are looked at before the store is opened: one of them may be the store."""
    from leftoff.engine.bundle_check import sniff

    good = []
    for path in paths:
        if "\0" in path or not path:
            raise Usage("An empty name is no file.", hint=f"usage: {SPEC.line()}")
        try:
            sniff(path)
            good.append(path)
        except LeftoffError as error:
            outcome.reject(path, error)
    return good


def _take_in(ctx: Context, path: str, *, dry: bool) -> tuple[str, bool]:
    """The run's id, and whether it is (or would be) new here."""
    from leftoff.engine.bundle import import_bundle, would_import
    from leftoff.engine.bundle_check import open_bundle
    from leftoff.host import this_process

    bundle = open_bundle(path)
    try:
        if dry:
            return bundle.run_id, would_import(ctx.store, bundle)
        return bundle.run_id, import_bundle(ctx.store, bundle, ctx.now, (this_process(), "leftoff import"))
    finally:
        bundle.close()


def _tell(args: Args, ctx: Context, outcome: Outcome) -> None:
    if args.json:
        ctx.emit({"imported": outcome.imported, "rejected": outcome.rejected, "dry_run": args.dry_run})
    for entry in outcome.imported if not args.json else ():
        new = "would be imported" if args.dry_run else "imported"
        ctx.out(f"{entry['run_id']}: {new if entry['new'] else 'here already, unchanged'} ({entry['path']})")
    for entry in outcome.rejected:
        ctx.say(f"leftoff: {entry['message']}\n{entry['hint']}")
