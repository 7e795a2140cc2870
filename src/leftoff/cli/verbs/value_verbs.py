"""Read and write a run's records: set, get, put, note, artifact."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import CURRENT, Args, Opt, Spec, assignments, json_or_file, step_path
from leftoff.errors import Usage
from leftoff.operations import records
from leftoff.operations.records import (
    Artifact,
    Note,
    Record,
    add_note,
    keep_artifact,
    put_record,
    set_variables,
)

# -- set

SET = Spec(
    "set",
    "Set variables of the current run, all in one commit.\n\n"
    "V is JSON if it is true, false, null, a list or an object; a number if it prints back exactly as "
    "typed; text otherwise. So tag=1.10, sha=1e5 and zip=007 stay text. K:=JSON forces JSON; K=@FILE "
    "reads a file (@- is stdin).",
    usage="K=V…",
    least=1,
    most=None,
    options=CURRENT,
    examples="""  leftoff set count=3 done=true name="Ada Lovelace"
  leftoff set 'pages=["a","b"]' version:='"2"'
  leftoff set plan=@plan.md""",
)


def run_set(args: Args, ctx: Context) -> int:
    done = set_variables(ctx.project, ctx.caller, assignments(args.rest))
    ctx.say_redacted(done)
    return ctx.answer(done)


# -- get

GET = Spec(
    "get",
    "Print a variable of the current run: text as it is, anything else as JSON. Without K, print all of "
    "them as one object. COLLECTION/KEY is any other record; REF is the run or version to read it from.",
    usage="[K | COLLECTION/KEY [REF]]",
    most=2,
    options=CURRENT,
    examples="""  leftoff get title
  leftoff get step/convert
  leftoff get knowledge/KE-1 @~2
  leftoff get --json pages""",
)


def run_get(args: Args, ctx: Context) -> int:
    if not args.rest:
        ctx.emit(records.variables(ctx.project, ctx.caller))
        return 0
    name, *ref = args.rest
    value = records.get(ctx.project, ctx.caller, name, *ref, redacted=args.json)
    if args.json or not isinstance(value, str):
        ctx.emit(value)
    else:
        ctx.out(value)
    return 0


# -- put

PUT = Spec(
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


def run_put(args: Args, ctx: Context) -> int:
    collection, key, word = args.rest
    if collection == "step":
        key = step_path(key)
    value = json_or_file(word, "The value")
    done = put_record(ctx.project, ctx.caller, Record(collection, key, value, args.new))
    ctx.say_redacted(done)
    return ctx.answer(done)


# -- note

NOTE = Spec(
    "note",
    "Leave a note in the current run. `leftoff brief` shows the newest notes.",
    usage="TEXT",
    least=1,
    most=None,
    options=(
        Opt("--step", "STEP", "the step it is about (default: LEFTOFF_STEP)"),
        Opt("--resume", None, "show it first when the run resumes"),
        *CURRENT,
    ),
    examples="""  leftoff note "the API allows 10 requests per second"
  leftoff note --resume "drop the table tmp_users before anything else\"""",
)


def run_note(args: Args, ctx: Context) -> int:
    text = " ".join(args.rest)
    if not text.strip():
        raise Usage("A note cannot be empty.", hint='For example: leftoff note "the second server is slow"')
    step = step_path(args.step) if args.step else None
    return ctx.answer(add_note(ctx.project, ctx.caller, Note(text, step, args.resume)))


# -- artifact

ARTIFACT = Spec(
    "artifact",
    "Record a file in the current run: its path, hash and size, and a copy of its content. A file that "
    "holds secrets (.env, *.pem, …) is hashed but not copied.",
    usage="PATH",
    least=1,
    most=1,
    options=(
        Opt("--name", "N", "its name (default: its path)"),
        Opt("--step", "STEP", "the step that made it (default: LEFTOFF_STEP)"),
        *CURRENT,
    ),
    examples="""  leftoff artifact report.pdf --step publish
  leftoff artifact out/site.zip --name site""",
)


def run_artifact(args: Args, ctx: Context) -> int:
    step = step_path(args.step) if args.step else None
    return ctx.answer(keep_artifact(ctx.project, ctx.caller, Artifact(args.rest[0], args.name, step)))
