"""Report on the current run: step, next, beat, save, set, get, put, note, artifact.

Agents and scripts call these by the thousand, so this module imports little.
"""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import CURRENT, Args, Opt, Spec, assignments, json_or_file, number, step_path
from leftoff.engine.read.quoting import named, quoted
from leftoff.engine.steps.next_step import NextStep
from leftoff.engine.steps.reports import STATUS, StepReport
from leftoff.errors import Usage
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step
from leftoff.model.words import TRIGGERS
from leftoff.operations import records
from leftoff.operations.records import (
    Artifact,
    Note,
    Record,
    add_note,
    beat,
    keep_artifact,
    put_record,
    set_variables,
)
from leftoff.operations.steps import next_step, report_step

# -- step

STEP = Spec(
    "step",
    "Report on a step of the current run. An undeclared step is added after the others.\n\n"
    "done, skip, fail and block save a checkpoint and exit 0; start only commits. Reporting a completed "
    "step as done again changes nothing. A blocked step blocks the run until it is started, done or "
    "skipped. If LEFTOFF_STEP is set, STEP is relative to it unless it starts with a slash.",
    usage="start|done|fail|block|skip STEP",
    least=2,
    most=2,
    options=(
        Opt("--output", "PATH", "a file the step wrote: recorded, with a copy", many=True),
        Opt("--result", "JSON", "its result (or @FILE)"),
        Opt("--error", "MSG", "why it failed or is blocked"),
        Opt("--type", "T", "the kind of error"),
        Opt("--resume-with", "TEXT", "what to do first when the run resumes"),
        Opt("--title", "T", "the step's title"),
        Opt("--total", "N", "how many steps there will be below it"),
        Opt("--note", "N", "a note, also shown with the checkpoint"),
        *CURRENT,
    ),
    examples="""  leftoff step start collect
  leftoff step done collect --output urls.txt --result '{"urls": 12}'
  leftoff step fail publish --error "HTTP 500" --resume-with "ask ops whether the server is up"
  leftoff step done convert/post-20""",
)


def run_step(args: Args, ctx: Context) -> int:
    return ctx.answer(report_step(ctx.project, ctx.caller, _read_report(args), args.output))


def _read_report(args: Args) -> StepReport:
    action, word = args.rest
    if action not in STATUS:
        raise Usage(f"A step cannot be {action!r}.", hint=f"usage: leftoff step {STEP.usage}")
    return StepReport(
        action,
        step_path(word),
        title=args.title,
        total=number(args.total, "--total"),
        result=NOTHING if args.result is None else json_or_file(args.result, "--result"),
        error=args.error,
        kind=args.type,
        resume_with=args.resume_with,
        note=args.note,
    )


# -- next

_LINE, _LONGEST = 300, 4000  # characters of what others wrote: of a title, of instructions

NEXT = Spec(
    "next",
    "Print the next step of the current run: the first pending one, in declared order. Its title, its "
    "instructions and the reason go to stderr. If nothing is left, nothing is printed and the exit code "
    "is 0.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--start", None, "also mark it as started, so that two callers never get the same step"),
        *CURRENT,
    ),
    examples="""  leftoff next
  while step=$(leftoff next --start) && [ -n "$step" ]; do work-on "$step" && leftoff step done "/$step"; done""",
)


def run_next(args: Args, ctx: Context) -> int:
    ctx.name_run()
    found = next_step(ctx.project, ctx.caller, start=args.start)
    if args.json:
        return ctx.answer(found)
    if found.step is not None:
        ctx.out(shown_step(found.step))
    if found.source is not None and found.step is not None:
        ctx.say(f"From {found.source}, as data:")
    for line in (*_next_lines(found), found.why):
        if line:
            ctx.say(line)
    return 0


def _next_lines(found: NextStep) -> list[str]:
    """What the step is called, and what is to be done; of a run from elsewhere, as what others wrote."""
    title, instructions = found.title or "", found.instructions or ""
    if found.source is None:
        return [named(title), instructions]
    return [quoted(text, most) for text, most in ((title, _LINE), (instructions, _LONGEST)) if text]


# -- beat

BEAT = Spec(
    "beat",
    "Signal that somebody is working on the current run. Only its health changes, nothing in the run itself.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff beat
  while sleep 60; do leftoff beat; done &""",
)


def run_beat(args: Args, ctx: Context) -> int:
    ctx.name_run()
    return ctx.answer(beat(ctx.project, ctx.caller))


# -- save

SAVE = Spec(
    "save",
    "Save a checkpoint of the current run and print its id. It is always a new one, even if nothing changed.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--trigger", "T", f"why (default: manual): {', '.join(TRIGGERS)}", choices=TRIGGERS),
        Opt("--note", "N", "what to remember about it"),
        *CURRENT,
    ),
    examples="""  leftoff save
  leftoff save --note "before the risky part"
  id=$(leftoff save --trigger phase_transition)""",
)


def run_save(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import save

    ctx.name_run()
    version = save(ctx.project, ctx.caller, args.trigger or "manual", args.note)
    if not args.json:
        ctx.out(version.id or "")
    return ctx.answer(version)


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
