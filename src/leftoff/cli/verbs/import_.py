"""``leftoff import``: take in runs that were kept elsewhere, by leftoff or by hand."""

from __future__ import annotations

import os

from leftoff.cli.options import Opt, Spec
from leftoff.errors import LeftoffError, StoreUnavailable, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

BUNDLES = "leftoff"  # the dialect of what `leftoff export` writes

SPEC = Spec(
    "import",
    "Take in runs: those that `leftoff export` wrote, with the same ids and digests, and the checkpoints of projects\n"
    "that follow a written protocol (`leftoff dialects` lists them); of a folder, all that is found. What had to be\n"
    "repaired to be read is told, what cannot be read is rejected with a reason, and no run is taken in by half.\n"
    "Files that were imported before and have changed since add a checkpoint to their run, never a second run.",
    usage="PATH…",
    least=1,
    most=None,
    options=(
        Opt(
            "--dialect",
            "D",
            "what the files are: leftoff (bundles), bmad, crunch, dotagent, sitebuilder, claude",
        ),
        Opt("--dry-run", None, "check the files and say what would happen; write nothing"),
        Opt("--strict", None, "refuse what needs repairs; exit 4 where anything was rejected"),
    ),
    examples="""  leftoff import site.leftoff
  leftoff import .
  leftoff import _bmad-output --dialect bmad --dry-run
  leftoff import .claude/checkpoints --strict --json""",
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
    ctx.project.looks = False  # files are taken in as they are asked for here, and told of
    bundles, others = _sorted(args, outcome)
    for path in bundles:
        try:
            outcome.accept(path, *_take_in(ctx, path, dry=args.dry_run))
        except StoreUnavailable:
            raise  # it is not the file's fault
        except LeftoffError as error:
            outcome.reject(path, error)
    if others:
        _dialects(args, ctx, others, outcome)
    _tell(args, ctx, outcome)
    return outcome.exit_code(args.strict)


def _sorted(args: Args, outcome: Outcome) -> tuple[list[str], list[str]]:
    """Bundles, and whatever else is named. All are looked at before the store is opened: one may be the store."""
    from leftoff.engine.retention.bundle_check import sniff

    bundles, others = [], []
    for path in args.rest:
        if "\0" in path or not path:
            raise Usage("An empty name is no file.", hint=f"usage: {SPEC.line()}")
        if args.dialect not in (None, BUNDLES) or not (args.dialect or _looks_like_one(path)):
            others.append(path)
            continue
        try:
            sniff(path)
            bundles.append(path)
        except LeftoffError as error:
            outcome.reject(path, error)
    return bundles, others


def _looks_like_one(path: str) -> bool:
    """Whether a file is a database, as bundles are."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _dialects(args: Args, ctx: Context, paths: list[str], outcome: Outcome) -> None:
    from leftoff.dialects.core.registry import dialect
    from leftoff.dialects.importing.documents import Importer

    try:
        wanted = dialect(args.dialect) if args.dialect is not None else None
    except Usage as error:
        raise Usage(f"--dialect cannot be {args.dialect!r}.", hint=error.hint) from None
    importer = Importer(ctx.store, ctx.project.folder, ctx.redactor, ctx.now, outcome.reject)
    found = importer.read(paths, wanted, strict=args.strict)
    if args.dry_run:
        importer.plan(found)
    else:
        found = importer.write(found)
    outcome.imported += [each.to_json() for each in found]


def _take_in(ctx: Context, path: str, *, dry: bool) -> tuple[str, bool]:
    """The run's id, and whether it is (or would be) new here."""
    from leftoff.engine.retention.bundle_check import open_bundle
    from leftoff.engine.retention.export import import_bundle, would_import
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
        ctx.out(f"{entry['run_id']}: {_became(entry, args.dry_run)} ({entry['path']})")
        for line in entry["repairs"]:
            ctx.say(f"  {line}")
    for entry in outcome.rejected:
        ctx.say(f"leftoff: {entry['message']}\n{entry['hint']}")


def _became(entry: dict[str, Any], dry: bool) -> str:
    if entry["new"]:
        return "would be imported" if dry else "imported"
    if entry.get("changed"):
        return "would be brought up to date" if dry else "brought up to date"
    return "here already, unchanged"
