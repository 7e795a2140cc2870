"""Housekeeping and exchange: archive, rm, undelete, prune, fsck, store, trust, export, import, protocols, compat."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args, json_or_file, read_text
from leftoff.cli.screen import Region, terminal_columns
from leftoff.cli.text import clean, columns
from leftoff.clock import ago
from leftoff.engine.run_states import FsckReport
from leftoff.engine.settings import remembered
from leftoff.errors import NotFound, Usage
from leftoff.model.typed import json_value
from leftoff.operations.project_trust import Trust, give_trust, look_at_trust, take_back_trust
from leftoff.operations.run_transfer import export_to, import_runs, list_protocols
from leftoff.operations.store_upkeep import (
    archive_run,
    back_up_store,
    check_store,
    copy_all,
    list_trash,
    migrate_store,
    remove_runs,
    store_info,
    undelete_run,
    withdraw_files,
)
from leftoff.protocols.claude_checkpoints import (
    MAX_AGE_DAYS,
    Checkpoints,
    phases,
    project_of,
    status_word,
    why_ask,
)
from leftoff.protocols.document_text import dump_json
from leftoff.protocols.project_retention import prune_project

_NAMED = 5  # runs that a question names

# -- archive, trash


def run_archive(args: Args, ctx: Context) -> int:
    run, was_archived = archive_run(ctx.project, ctx.caller, ctx.word)
    how = "was archived already" if was_archived else "is archived"
    return ctx.answer(run, run.run_id, f"leftoff: run {run.run_id} {how}.")


def run_rm(args: Args, ctx: Context) -> int:
    if args.older_than is not None and (args.rest or ctx.caller.named):
        raise args.spec.wrong("RUN and --older-than cannot be combined.")

    def agree(rows: list[Any]) -> bool:
        named = [f'{row.run_id} ("{clean(row.title or row.workflow)}", {row.status})' for row in rows]
        more = f", and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        what = f"Run {named[0]}" if len(named) == 1 else f"{len(named)} runs"
        listed = f": {', '.join(named[:_NAMED])}{more}" if len(named) > 1 else ""
        return ctx.confirm(f"{what} would be moved to the trash{listed}.", hint="--yes removes it.")

    done = remove_runs(
        ctx.project, ctx.caller, args.rest, agree, older_than=args.older_than, dry=args.dry_run
    )
    return ctx.said_no() if done is None else tell_removed(ctx, done)


def tell_removed(ctx: Context, done: dict[str, Any]) -> int:
    runs: list[str] = done["removed"]
    if done["dry_run"]:
        lines = [f"run {run_id}: would be put into the trash" for run_id in runs]
        return ctx.answer(
            done, "\n".join(lines) or None, f"leftoff: {len(runs)} would be put into the trash."
        )
    lines = [f"leftoff: run {run} is in the trash. `leftoff undelete {run}` brings it back." for run in runs]
    return ctx.answer(done, said="\n".join(lines) or "leftoff: no finished run is that old.")


def run_undelete(args: Args, ctx: Context) -> int:
    name = args.rest[0] if args.rest else ctx.caller.named
    if name is not None:
        found = undelete_run(ctx.project, name)
        return ctx.answer(found, said=f"leftoff: run {found.run_id} is back ({found.status}).")
    there = list_trash(ctx.project)
    lines = []
    for each in there:
        title = clean(each["title"] or each["workflow"])
        lines.append(f"{each['run_id']}  {clean(each['status'])}, removed {each['removed_at']}  {title}")
    return ctx.answer({"trash": there}, "\n".join(lines) or None, None if there else "The trash is empty.")


# -- prune


def run_prune(args: Args, ctx: Context) -> int:
    if args.protocol_files and args.empty_trash:
        raise args.spec.wrong("--protocol-files and --empty-trash cannot be combined.")
    if args.protocol_files:
        done = withdraw_files(ctx.project, dry=args.dry_run)
    else:
        done = prune_project(ctx.project, dry=args.dry_run, empty=args.empty_trash)
    if args.json:
        return ctx.answer(done)
    for about in done.removed:
        verb = _prune_verb(about, done.dry)
        if about["kind"] == "file":
            ctx.out(f"{clean(about['path'])}: {verb}")
        else:
            name = f"{about['run_id']}@{about['seq']}" if "seq" in about else about["run_id"]
            ctx.out(f"{about['kind']} {name}: {verb} ({about['why']})")
    # All of it: what went where, and which space is free now or later.
    verbs = [_prune_verb(about, done.dry) for about in done.removed]
    went = ", ".join(f"{verbs.count(verb)} {verb}" for verb in dict.fromkeys(verbs)) or "nothing to remove"
    freed = f"about {done.freed:,} bytes would be freed" if done.dry else f"{done.freed:,} bytes freed"
    if not args.protocol_files and ctx.project.store.shared:
        freed += " for new rows (PostgreSQL keeps the disk space)"
    later = f", {done.waiting:,} more within the hour, as the store is in use" if done.waiting else ""
    ctx.say(f"leftoff: {went}; {done.kept} checkpoints stay; {freed}{later}.")
    if done.in_trash:
        ctx.say(
            f"leftoff: the trash {'would take' if done.dry else 'takes'} about {done.in_trash:,} bytes. "
            "`leftoff prune --empty-trash` deletes what is in it and frees them now."
        )
    if any(about["action"] == "archive" for about in done.removed):
        ctx.say("leftoff: archived runs keep their space in the store. `leftoff rm RUN` removes one.")
    for line in done.warnings:
        ctx.say(f"leftoff: {line}")
    return 0


def _prune_verb(about: dict[str, Any], dry: bool) -> str:
    verb = "archived" if about["action"] == "archive" else "put into the trash"
    if about["kind"] in ("trash", "checkpoint", "file"):
        verb = "removed for good" if about["kind"] == "trash" else "removed"
    return f"would be {verb}" if dry else verb


# -- fsck


def run_fsck(args: Args, ctx: Context) -> int:
    report = check_store(ctx.project, repair=args.repair)
    ctx.answer(report, _fsck_page(report, ctx.project.store.name, repair=args.repair))
    return 0 if report.ok else 4


def _fsck_page(report: FsckReport, location: str, *, repair: bool) -> str:
    looked = ", ".join(
        f"{number} {what.replace('_', ' ')}" for what, number in report.checked.items() if number
    )
    lines = [f"{location}: checked {looked or 'nothing: there is no store here yet'}."]
    lines += [f"  repaired: {p['where']}: {p['message']}" for p in report.repaired]
    lines += [f"  set aside: {path}" for path in report.quarantined]
    for loss in report.salvaged:
        rest = f" What could be read of it is in {loss['aside']}." if loss["aside"] is not None else ""
        word = "lost" if loss["kept"] is None else "salvaged"
        lines.append(f"  {word}: run {loss['run_id']}: {loss['message']}{rest}")
    lines += [f"  {p['code']}: {p['where']}: {p['message']}" for p in report.problems]
    if report.ok and report.checked:
        gone = [loss["run_id"] for loss in report.salvaged if loss["kept"] is None]
        others = [loss["run_id"] for loss in report.salvaged if loss["kept"] is not None]
        told = [f"lost: {', '.join(gone)}"] if gone else []
        told += [f"not as it was: {', '.join(others)}"] if others else []
        lines.append(f"What is left is clean. Runs {'; '.join(told)}." if told else "Clean.")
    elif report.problems:
        cure = "`leftoff fsck --repair` keeps what is whole."
        if repair:
            cure = "Restore a backup of these files, or save the same content again."
        lines.append(f"{len(report.problems)} problem(s). {cure}")
    return "\n".join(lines)


# -- store

_STORE_WORDS = {"info": 1, "migrate": 1, "backup": 2, "copy": 3}


def run_store(args: Args, ctx: Context) -> int:
    what, *places = args.rest
    if _STORE_WORDS.get(what) != len(args.rest):
        if what in _STORE_WORDS:
            raise args.spec.wrong(f"`leftoff store {what}` takes {_STORE_WORDS[what] - 1} more word(s).")
        raise args.spec.wrong(f"`leftoff store` does not take {' '.join(args.rest)!r}.")
    if what == "copy":
        region = Region(sys.stderr) if not args.json and sys.stderr.isatty() else None

        def tell(table: str, rows: int, total: int) -> None:
            if region is not None:
                line = f"copying {table}: {rows:,} of {total:,} rows"
                region.draw([], [[(line, "")]], terminal_columns(sys.stderr))

        done = copy_all(ctx.project, places[0], places[1], tell)
        runs, rows = done["copied"]["run"], sum(done["copied"].values())
        said = f"{done['from']}: {runs} run(s), {rows} rows copied to {done['to']}; checked."
        return ctx.answer(done, said)
    if what == "backup":
        saved = back_up_store(ctx.project, places[0])
        return ctx.answer(saved, f"{saved['store']}: {saved['runs']} run(s) backed up to {saved['backup']}.")
    found = migrate_store(ctx.project) if what == "migrate" else store_info(ctx.project)
    about = {name: value for name, value in found.items() if name != "exists"}
    if not found["exists"]:
        about["note"] = "there is nothing yet: the first write makes it"
    wide = max(map(len, about))
    lines = [f"{name:<{wide}}  {value}" for name, value in about.items() if value is not None]
    return ctx.answer(found, "\n".join(lines))


# -- trust


def run_trust(args: Args, ctx: Context) -> int:
    if args.list + args.revoke + args.yes > 1:
        raise args.spec.wrong("--list, --revoke and --yes cannot be combined.")
    if args.list:
        known = remembered()
        lines = [f"{clean(e.project)}  {clean(e.item.key)} = {clean(e.item.value)}" for e in known if e.item]
        damaged = [
            f"leftoff: {e.path} is damaged, or not yours alone: it is ignored." for e in known if not e.item
        ]
        said = "\n".join(damaged) if known else "leftoff: you have trusted nothing so far."
        return ctx.answer({"trusted": [e.to_json() for e in known]}, "\n".join(lines) or None, said or None)
    if args.revoke:
        known, runs = take_back_trust(ctx.project)
        about = {"revoked": [each.to_json() for each in known], "runs": runs}
        number, folder = len(known) + len(runs), ctx.project.folder
        return ctx.answer(about, said=f"leftoff: {number} revoked; nothing of {folder} is trusted now.")
    found = look_at_trust(ctx.project)
    if not args.json:
        _show_trust(ctx, found)
    if found.asked or found.runs:
        if args.json and not args.yes:
            ctx.say("leftoff: this is not trusted yet. `leftoff trust --yes` trusts it.")
            ctx.emit(found.to_json())
            return 7
        if not ctx.confirm("This is not trusted yet.", hint="`leftoff trust --yes` trusts it."):
            return ctx.said_no()
        give_trust(ctx.project, found)
        found = look_at_trust(ctx.project)
        ctx.say(f"leftoff: {found.project} is trusted, as it is now.")
    return ctx.answer(found)


def _show_trust(ctx: Context, found: Trust) -> None:
    lines = []
    if not (found.given or found.asked or found.runs):
        lines.append("Nothing here needs trust: no setting runs a command or leads outside of the project.")
    for word, items in (("trusted", found.given), ("not trusted", found.asked)):
        for item in items:
            where = f" (to {clean(item.target)})" if item.target and item.target != item.value else ""
            lines.append(f"{word}: {clean(item.key)} {item.does}{where}:")
            lines += [f"    {clean(line)}" for line in item.value.splitlines() or [""]]
    for run in found.runs:
        lines.append(f"not trusted: run {run.row.run_id} was not started here by you ({clean(run.path)}):")
        lines += [f"    {clean(line)}" for line in run.commands]
    for line in lines:
        ctx.out(line)


# -- export, import, protocols


def run_export(args: Args, ctx: Context) -> int:
    if args.o == "-":
        raise args.spec.wrong("A bundle is written to a file, not to stdout.")
    done = export_to(ctx.project, ctx.caller, ctx.word, args.o)
    files = f", {done.blobs} file(s)" if done.blobs else ""
    what = f"run {done.run_id}, {done.checkpoints} checkpoint(s){files}, {done.bytes:,} bytes"
    return ctx.answer(done, f"{done.path}: {what}")


def run_import(args: Args, ctx: Context) -> int:
    if any("\0" in path or not path for path in args.rest):
        raise args.spec.wrong("An empty name is not a file.")
    outcome = import_runs(ctx.project, args.rest, args.protocol, strict=args.strict, dry=args.dry_run)
    if args.json:
        ctx.emit({"imported": outcome.imported, "rejected": outcome.rejected, "dry_run": args.dry_run})
    for entry in outcome.imported if not args.json else ():
        if entry["new"]:
            became = "would be imported" if args.dry_run else "imported"
        elif entry.get("changed"):
            became = "would be brought up to date" if args.dry_run else "brought up to date"
        else:
            became = "already here, unchanged"
        ctx.out(f"{entry['run_id']}: {became} ({entry['path']})")
        for line in entry["repairs"]:
            ctx.say(f"  {line}")
    for entry in outcome.rejected:
        ctx.say(f"leftoff: {entry['message']}\n{entry['hint']}")
    return outcome.exit_code(args.strict)


def run_protocols(args: Args, ctx: Context) -> int:
    found = list_protocols(ctx.project)
    rows, examples = [("PROTOCOL", "HERE", "FILES")], [""]
    for each in found:
        number, name, example = len(each["files"]), each["name"], each["example"]
        here = f"{number} file{'' if number == 1 else 's'}" if number else "-"
        rows.append((name, f"{here}, kept in sync" if each["synced"] else here, each["about"]))
        examples += [
            f"{name}, for example {example['path']}:",
            f"    {clean(json.dumps(example['document'], ensure_ascii=False))}",
            f"    Begun by: {each['starts']}",
            "",
        ]
    page = "\n".join([*columns(rows), *examples]).rstrip()
    return ctx.answer({"protocols": found, "dialects": found}, page)


# -- compat: the protocols' own commands


def run_compat(args: Args, ctx: Context) -> int:
    utilities: dict[str, tuple[int, int, Callable[[Context, list[str]], int]]] = {
        "save-checkpoint": (2, 2, _save_checkpoint),
        "load-checkpoint": (1, 2, _load_checkpoint),
        "list-checkpoints": (0, 1, _list_checkpoints),
        "cleanup-checkpoints": (0, 1, _clean_up),
    }
    name, rest = args.rest[0], args.rest[1:]
    if name not in utilities:
        raise Usage(f"There is no utility {name!r}.", hint=f"Utilities: {', '.join(utilities)}.")
    least, most, work = utilities[name]
    if not least <= len(rest) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise args.spec.wrong(f"`leftoff compat {name}` takes {many} argument{'s' * (most != 1)}.")
    return work(ctx, rest)


def _save_checkpoint(ctx: Context, rest: list[str]) -> int:
    """`save-checkpoint <workflow-type> <state-json>`: print the path of the checkpoint."""
    kind, word = rest
    state = json_value(read_text("-"), "The state") if word == "-" else json_or_file(word, "The state")
    if not isinstance(state, dict):
        raise Usage(
            "The state must be an object.", hint='For example: \'{"project_name": "x", "current_phase": 2}\''
        )
    run_id, path = Checkpoints(ctx.project).save(kind, state)
    if path is None:
        ctx.say(f"leftoff: {run_id} is completed: its checkpoint is deleted, the run stays in the store.")
    return ctx.answer({"run_id": run_id, "path": path}, path)


def _load_checkpoint(ctx: Context, rest: list[str]) -> int:
    """`load-checkpoint <workflow-type> [project-name]`: print the newest one; say why a person should look at it."""
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
    return ctx.answer(document, dump_json(document).rstrip("\n"))


def _list_checkpoints(ctx: Context, rest: list[str]) -> int:
    """`list-checkpoints [workflow-type]`: one row for each."""
    checkpoints = Checkpoints(ctx.project)
    found = checkpoints.unfinished(rest[0] if rest else None)
    if ctx.args.json:
        return ctx.answer({"checkpoints": [checkpoints.document(row) for row in found]})
    rows = []
    for row in found:
        state = checkpoints.state(row)
        words = (row.run_id, row.workflow, project_of(state), status_word(state))
        done, total = phases(state)
        rows.append((*map(clean, words), f"{len(done)}/{total}", ago(row.updated_at, ctx.project.now)))
    return ctx.answer({}, "\n".join(columns(rows)) or None)


def _clean_up(ctx: Context, rest: list[str]) -> int:
    """`cleanup-checkpoints [max-age-days]`: remove those that are over; one in progress stays."""
    word = rest[0] if rest else str(MAX_AGE_DAYS)
    if not (word.isascii() and word.isdigit() and len(word) < 6):
        raise Usage(f"The age must be a number of days, not {word[:40]!r}.", hint="For example: 7")
    removed = [*Checkpoints(ctx.project).clean_up(int(word))]
    return ctx.answer({"removed": removed}, "\n".join(removed) or None)
