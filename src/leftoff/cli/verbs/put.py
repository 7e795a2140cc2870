"""``leftoff put``: any record."""

from __future__ import annotations

from leftoff.cli.arguments import json_or_file, step_path
from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "put",
    "Store a record in the current run: message, conflict, knowledge, member, criterion, score, error, "
    "context, …\n\n"
    "An existing record with the same key is replaced; with --new that is a conflict instead (exit 5). A "
    "step keeps its status and position unless the record sets them.",
    usage="COLLECTION KEY JSON",
    least=3,
    most=3,
    options=(Opt("--new", None, "never replace an existing record"), *CURRENT),
    examples="""  leftoff put knowledge KE-1 '{"fact": "the API is rate limited", "source": "docs"}'
  leftoff put message m-17 '{"to": "reviewer", "text": "done"}' --new
  leftoff put step convert '{"title": "Convert", "instructions": "one page per PDF"}'
  leftoff put context plan @plan.json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.records import Record, put_record

    collection, key, word = args.rest
    if collection == "step":
        key = step_path(key)
    value = json_or_file(word, "The value")
    done = put_record(ctx.project, ctx.caller, Record(collection, key, value, args.new))
    ctx.say_redacted(done)
    return ctx.answer(done)
