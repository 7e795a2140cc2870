"""``leftoff save``: a checkpoint, now."""

from __future__ import annotations

from leftoff.cli.arguments import own_step
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.engine.config.project import git_head
from leftoff.engine.workspace.surroundings import dirty_paths, remember_git
from leftoff.engine.write.commit import Seal
from leftoff.model.words import TRIGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "save",
    "Seal a checkpoint of the current run, and print its id. It is always a new one, whether anything changed or not.",
    options=(
        Opt("--trigger", "T", f"why (default: manual): {', '.join(TRIGGERS)}", choices=TRIGGERS),
        Opt("--note", "N", "what to remember of it"),
        *CURRENT,
    ),
    examples="""  leftoff save
  leftoff save --note "before the risky part"
  id=$(leftoff save --trigger phase_transition)""",
)


def run(args: Args, ctx: Context) -> int:
    note = ctx.redactor.mask(args.note) if args.note else None

    found = ctx.files()
    head, dirty = git_head(ctx.project.folder), dirty_paths(ctx.project.folder)
    seen = ctx.issue_now() if args.trigger == "phase_transition" else {}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if found is not None:
            found.put(changes, row.seq + 1)
        remember_git(head, row, changes, dirty)
        for key, value in seen.items():
            changes.put("context", key, value)
        return Seal(args.trigger or "manual", own_step() or tx.leaf(row.run, "running"), note, asked=True)

    version = ctx.report(make, blobs=found.blobs if found is not None else None).version
    assert version is not None
    if args.json:
        ctx.emit(version.to_json())
    else:
        ctx.out(version.id or "")
    return 0
