"""``leftoff put``: any record."""

from __future__ import annotations

from leftoff.cli.arguments import asked, json_or_file, step_path
from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "put",
    "Keep a record of the current run: message, conflict, knowledge, member, criterion, score, error, context, …\n"
    "A record that is there under the same key is replaced, unless --new: then it is a conflict (exit 5).\n"
    "A step keeps its status and its place where the record does not say them.",
    usage="COLLECTION KEY JSON",
    least=3,
    most=3,
    options=(Opt("--new", None, "never replace a record that is there"), *CURRENT),
    examples="""  leftoff put knowledge KE-1 '{"fact": "the API is rate limited", "source": "docs"}'
  leftoff put message m-17 '{"to": "reviewer", "text": "done"}' --new
  leftoff put step convert '{"title": "Convert", "instructions": "one page per PDF"}'
  leftoff put context plan @plan.json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.write.records import check_collection, put_record, put_step

    collection, key, word = args.rest
    check_collection(collection)
    value = json_or_file(word, "The value")
    changes = ctx.changes()
    if collection != "step":
        asked(lambda: put_record(changes, collection, key, value, new=args.new))
        done = ctx.report(changes=changes)
        ctx.say_redacted(changes)
        return ctx.told(done)
    path = step_path(key)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        asked(lambda: put_step(ctx.store, tx, row, changes, path, value, new=args.new))

    return ctx.told(ctx.report(make))
