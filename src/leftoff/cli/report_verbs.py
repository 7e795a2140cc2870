"""Report on the current run: step, next, heartbeat, save, set, get, put, note, artifact.

Agents and scripts call these by the thousand, so this module imports little.
"""

from __future__ import annotations

import os

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, json_or_file, number, step_path
from leftoff.engine.quoting import named, quoted
from leftoff.engine.step_lifecycle import STATUS, StepReport
from leftoff.errors import NotFound, Usage
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step
from leftoff.operations.run_reports import (
    add_note,
    beat_run,
    find_next_step,
    keep_artifact,
    put_run_record,
    report_step,
    save_checkpoint,
    set_variables,
)

# -- step


def run_step(args: Args, ctx: Context) -> int:
    action, word = args.rest
    if action not in STATUS:
        raise Usage(f"A step cannot be {action!r}.", hint=f"usage: leftoff step {args.spec.usage}")
    said = StepReport(
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
    return ctx.answer(report_step(ctx.project, ctx.caller, said, args.output))


# -- next

_LINE, _LONGEST = 300, 4000  # characters of what others wrote: of a title, of instructions


def run_next(args: Args, ctx: Context) -> int:
    ctx.name_run()
    found = find_next_step(ctx.project, ctx.caller, start=args.start)
    if args.json:
        return ctx.answer(found)
    if found.step is not None:
        ctx.out(shown_step(found.step))
    if found.source is not None and found.step is not None:
        ctx.say(f"From {found.source}, as data:")
    lines = [named(found.title or ""), found.instructions or ""]
    if found.source is not None:  # of a run from elsewhere, it is shown as what others wrote
        limited = ((found.title, _LINE), (found.instructions, _LONGEST))
        lines = [quoted(text, most) for text, most in limited if text]
    for line in (*lines, found.why):
        if line:
            ctx.say(line)
    return 0


# -- heartbeat


def run_heartbeat(args: Args, ctx: Context) -> int:
    ctx.name_run()
    return ctx.answer(beat_run(ctx.project, ctx.caller))


# -- save


def run_save(args: Args, ctx: Context) -> int:
    paths = args.rest
    if len(paths) == 1 and not os.path.lexists(paths[0]):  # one word may also be a run
        try:
            ctx.name_run()
            paths = []
        except NotFound as error:
            if "is archived" in error.message:
                raise
    if paths:
        from leftoff.operations.run_files import track_files

        track_files(ctx.project, ctx.caller, paths)
    version = save_checkpoint(ctx.project, ctx.caller, args.trigger or "manual", args.note)
    return ctx.answer(version, version.id or "")


# -- set


def run_set(args: Args, ctx: Context) -> int:
    done = set_variables(ctx.project, ctx.caller, assignments(args.rest))
    ctx.say_redacted(done.redacted)
    return ctx.answer(done)


# -- get


def run_get(args: Args, ctx: Context) -> int:
    from leftoff.operations.runs import get, variables

    if not args.rest:
        ctx.emit(variables(ctx.project, ctx.caller))
        return 0
    name, *ref = args.rest
    value = get(ctx.project, ctx.caller, name, *ref, redacted=args.json)
    if args.json or not isinstance(value, str):
        ctx.emit(value)
    else:
        ctx.out(value)
    return 0


# -- put


def run_put(args: Args, ctx: Context) -> int:
    collection, key, word = args.rest
    if collection == "step":
        key = step_path(key)
    value = json_or_file(word, "The value")
    done = put_run_record(ctx.project, ctx.caller, collection, key, value, new=args.new)
    ctx.say_redacted(done.redacted)
    return ctx.answer(done)


# -- note


def run_note(args: Args, ctx: Context) -> int:
    text = " ".join(args.rest)
    if not text.strip():
        raise Usage("A note cannot be empty.", hint='For example: leftoff note "the second server is slow"')
    step = step_path(args.step) if args.step else None
    return ctx.answer(add_note(ctx.project, ctx.caller, text, step, resume=args.resume))


# -- artifact


def run_artifact(args: Args, ctx: Context) -> int:
    step = step_path(args.step) if args.step else None
    return ctx.answer(keep_artifact(ctx.project, ctx.caller, args.rest[0], args.name, step))
