"""Exchange runs with other stores and protocols: export, import, dialects, compat."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args, json_or_file, read_text
from leftoff.cli.prompts import YES, answer
from leftoff.cli.text import clean, columns
from leftoff.clock import ago
from leftoff.dialects.claude import phases, project_of, status_word, why_ask
from leftoff.dialects.claude_compat import MAX_AGE_DAYS, Checkpoints
from leftoff.dialects.document_text import dump_json as dump
from leftoff.dialects.loose_values import shown
from leftoff.errors import NotFound, Usage
from leftoff.model.typed import json_value
from leftoff.operations.protocols.bmad_events import parse, take_event
from leftoff.operations.run_transfer import Import, Imported, export_to, import_runs, list_dialects

# -- export


def run_export(args: Args, ctx: Context) -> int:
    if args.o == "-":
        raise args.spec.wrong("A bundle is written to a file, not to stdout.")
    done = export_to(ctx.project, ctx.caller, ctx.word, args.o)
    if args.json:
        ctx.emit(done.to_json())
    else:
        files = f", {done.blobs} file(s)" if done.blobs else ""
        ctx.out(
            f"{done.path}: run {done.run_id}, {done.checkpoints} checkpoint(s){files}, {done.bytes:,} bytes"
        )
    return 0


# -- import


def run_import(args: Args, ctx: Context) -> int:
    if any("\0" in path or not path for path in args.rest):
        raise args.spec.wrong("An empty name is not a file.")
    agree = _agrees if args.dialect is None and ctx.can_ask() else None
    wanted = Import(args.rest, args.dialect, strict=args.strict, dry=args.dry_run, agree=agree)
    outcome = import_runs(ctx.project, wanted)
    _tell_imported(args, ctx, outcome)
    return outcome.exit_code(args.strict)


def _agrees(path: str, way: str) -> bool:
    """Whether a file of no protocol is read, as far as it can be understood."""
    question = (
        f"{clean(path)} follows no known protocol; {clean(way)} could be read. Read it that way? [y/N]: "
    )
    return answer(question, "Nothing of it was imported.").lower() in YES


def _tell_imported(args: Args, ctx: Context, outcome: Imported) -> None:
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
    return "already here, unchanged"


# -- dialects


def run_dialects(args: Args, ctx: Context) -> int:
    found = list_dialects(ctx.project)
    if args.json:
        ctx.emit({"dialects": found})
        return 0
    rows = [("DIALECT", "HERE", "FILES")]
    rows += [(each["name"], _dialect_files(each), each["about"]) for each in found]
    ctx.out(
        "\n".join([*columns(rows), "", *(line for each in found for line in _dialect_example(each))]).rstrip()
    )
    return 0


def _dialect_example(each: dict[str, Any]) -> list[str]:
    """What one of its files says, and how leftoff begins such a run."""
    name, path, document = each["name"], each["example"]["path"], each["example"]["document"]
    if path is None:
        return []
    begins = (
        f"Begun by: {each['starts']}"
        if each["starts"]
        else f"Read by: leftoff import {path} --dialect {name}"
    )
    return [
        f"{name}, for example {path}:",
        f"    {clean(json.dumps(document, ensure_ascii=False))}",
        f"    {begins}",
        "",
    ]


def _dialect_files(each: dict[str, Any]) -> str:
    number = len(each["files"])
    here = f"{number} file{'' if number == 1 else 's'}" if number else "-"
    return f"{here}, mirrored" if each["mirrored"] else here


# -- compat


def run_compat(args: Args, ctx: Context) -> int:
    utilities: dict[str, tuple[int, int, Callable[[Context, list[str]], int]]] = {
        "save-checkpoint": (2, 2, _save_checkpoint),
        "load-checkpoint": (1, 2, _load_checkpoint),
        "list-checkpoints": (0, 1, _list_checkpoints),
        "cleanup-checkpoints": (0, 1, _clean_up),
        "bmad-event": (0, 0, _bmad_event),
    }
    name, rest = args.rest[0], args.rest[1:]
    if name not in utilities:
        raise Usage(f"There is no utility {name!r}.", hint=f"Utilities: {', '.join(utilities)}.")
    least, most, work = utilities[name]
    if not least <= len(rest) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise args.spec.wrong(f"`leftoff compat {name}` takes {many} argument{'s' * (most != 1)}.")
    return work(ctx, rest)


def _bmad_event(ctx: Context, rest: list[str]) -> int:
    """All the events on stdin, in order; nothing is done where one of them cannot be read."""
    found = parse(read_text("-"))
    if not found:
        raise Usage(
            "There is no event on stdin.", hint="For example: <checkpoint-close><status>completed</status>…"
        )
    for each in found:
        if each.aliases:
            ctx.say(f"leftoff: the id {shown(each.aliases[0])} is kept as {each.run_id}.")
    for each in found:
        last = take_event(ctx.project, ctx.caller, each)
    return ctx.answer(last)


def _save_checkpoint(ctx: Context, rest: list[str]) -> int:
    """`save-checkpoint <workflow-type> <state-json>`: prints the path of the checkpoint."""
    kind, word = rest
    state = json_value(read_text("-"), "The state") if word == "-" else json_or_file(word, "The state")
    if not isinstance(state, dict):
        raise Usage(
            "The state must be an object.", hint='For example: \'{"project_name": "x", "current_phase": 2}\''
        )
    run_id, path = Checkpoints(ctx.project).save(kind, state)
    if path is None:
        ctx.say(f"leftoff: {run_id} is completed: its checkpoint is deleted, the run stays in the store.")
    if ctx.args.json:
        ctx.emit({"run_id": run_id, "path": path})
    elif path is not None:
        ctx.out(path)
    return 0


def _load_checkpoint(ctx: Context, rest: list[str]) -> int:
    """`load-checkpoint <workflow-type> [project-name]`: prints the newest one; why a person should look is said."""
    checkpoints = Checkpoints(ctx.project)
    found = checkpoints.unfinished(rest[0], rest[1] if len(rest) > 1 else None)
    if not found:
        raise NotFound(
            f"There is no checkpoint of {' '.join(rest)}.",
            hint="`leftoff compat list-checkpoints` lists them.",
        )
    document = checkpoints.document(found[0])
    why = why_ask(document, ctx.project.folder, ctx.project.now)
    if why is not None:
        ctx.say(f"leftoff: look before you resume it: {why}.")
    if ctx.args.json:
        ctx.emit(document)
    else:
        ctx.out(dump(document).rstrip("\n"))
    return 0


def _list_checkpoints(ctx: Context, rest: list[str]) -> int:
    """`list-checkpoints [workflow-type]`: one row each."""
    checkpoints = Checkpoints(ctx.project)
    found = checkpoints.unfinished(rest[0] if rest else None)
    if ctx.args.json:
        ctx.emit({"checkpoints": [checkpoints.document(row) for row in found]})
        return 0
    rows = []
    for row in found:
        state = checkpoints.state(row)
        words = (row.run_id, row.workflow, project_of(state), status_word(state))
        done, total = phases(state)
        rows.append((*map(clean, words), f"{len(done)}/{total}", ago(row.updated_at, ctx.project.now)))
    if rows:
        ctx.out("\n".join(columns(rows)))
    return 0


def _clean_up(ctx: Context, rest: list[str]) -> int:
    """`cleanup-checkpoints [max-age-days]`: those that are over go; one in progress stays."""
    word = rest[0] if rest else str(MAX_AGE_DAYS)
    if not (word.isascii() and word.isdigit() and len(word) < 6):
        raise Usage(f"The age must be a number of days, not {word[:40]!r}.", hint="For example: 7")
    removed = Checkpoints(ctx.project).clean_up(int(word))
    if ctx.args.json:
        ctx.emit({"removed": [*removed]})
        return 0
    for run_id in removed:
        ctx.out(run_id)
    return 0
