"""Housekeeping: archive, rm, undelete, prune, fsck, store, trust."""

from __future__ import annotations

import sys
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.screen import Region, columns_of
from leftoff.cli.text import clean
from leftoff.dialects.project_retention import PruneReport, prune_project
from leftoff.engine.config.trust import remembered
from leftoff.engine.retention.fsck import FsckReport
from leftoff.operations.project_trust import Trust, give_trust, look_at_trust, take_back_trust
from leftoff.operations.store_upkeep import (
    StoreInfo,
    archive_run,
    back_up_store,
    check_store,
    copy_all,
    list_trash,
    migrate_store,
    remove_run,
    store_info,
    undelete_run,
    withdraw_files,
)

# -- archive


def run_archive(args: Args, ctx: Context) -> int:
    run, was_archived = archive_run(ctx.project, ctx.caller, ctx.word)
    if args.json:
        ctx.emit(run.to_json())
    else:
        ctx.out(run.run_id)
        ctx.say(f"leftoff: run {run.run_id} {'was archived already' if was_archived else 'is archived'}.")
    return 0


# -- rm


def run_rm(args: Args, ctx: Context) -> int:
    what = 'Run {0.run_id} ("{1}", {0.status}) would be moved to the trash.'
    done = remove_run(
        ctx.project,
        ctx.caller,
        ctx.word,
        lambda row: ctx.confirm(what.format(row, clean(row.title or row.workflow)), hint="--yes removes it."),
    )
    if done is None:
        return ctx.said_no()
    return tell_removed(ctx, done)


def tell_removed(ctx: Context, done: dict[str, Any]) -> int:
    if ctx.args.json:
        ctx.emit(done)
    else:
        for run_id in done["removed"]:
            ctx.say(f"leftoff: run {run_id} is in the trash. `leftoff undelete {run_id}` brings it back.")
    return 0


# -- undelete


def run_undelete(args: Args, ctx: Context) -> int:
    name = args.rest[0] if args.rest else ctx.caller.named
    if name is not None:
        found = undelete_run(ctx.project, name)
        if args.json:
            ctx.emit(found.to_json())
        else:
            ctx.say(f"leftoff: run {found.run_id} is back ({found.status}).")
        return 0
    there = list_trash(ctx.project)
    if args.json:
        ctx.emit({"trash": there})
        return 0
    for each in there:
        title = clean(each["title"] or each["workflow"])
        ctx.out(f"{each['run_id']}  {clean(each['status'])}, removed {each['removed_at']}  {title}")
    if not there:
        ctx.say("The trash is empty.")
    return 0


# -- prune


def run_prune(args: Args, ctx: Context) -> int:
    if args.protocol_files and args.empty_trash:
        raise args.spec.wrong("--protocol-files and --empty-trash cannot be combined.")
    if args.protocol_files:
        done = withdraw_files(ctx.project, dry=args.dry_run)
    else:
        done = prune_project(ctx.project, dry=args.dry_run, empty=args.empty_trash)
    if args.json:
        ctx.emit(done.to_json())
        return 0
    for about in done.removed:
        ctx.out(_prune_line(about, args.dry_run))
    for line in _prune_summary(done, in_database=not args.protocol_files and ctx.project.store.shared):
        ctx.say(f"leftoff: {line}")
    return 0


def _prune_summary(done: PruneReport, *, in_database: bool) -> list[str]:
    """Return what to say of all of it: what went where, and which space is free now or later."""
    verbs = [_prune_verb(about, done.dry) for about in done.removed]
    went = ", ".join(f"{verbs.count(verb)} {verb}" for verb in dict.fromkeys(verbs)) or "nothing to remove"
    freed = f"about {done.freed:,} bytes would be freed" if done.dry else f"{done.freed:,} bytes freed"
    freed += " for new rows (PostgreSQL keeps the disk space)" if in_database else ""
    later = f", {done.waiting:,} more within the hour, as the store is in use" if done.waiting else ""
    lines = [f"{went}; {done.kept} checkpoints stay; {freed}{later}."]
    if done.in_trash:
        lines.append(
            f"the trash {'would take' if done.dry else 'takes'} about {done.in_trash:,} bytes. "
            "`leftoff prune --empty-trash` deletes what is in it and frees them now."
        )
    if any(about["action"] == "archive" for about in done.removed):
        lines.append("archived runs keep their space in the store. `leftoff rm RUN` removes one.")
    return [*lines, *done.warnings]


def _prune_verb(about: dict[str, Any], dry: bool) -> str:
    verb = "archived" if about["action"] == "archive" else "put into the trash"
    if about["kind"] in ("trash", "checkpoint", "file"):
        verb = "removed for good" if about["kind"] == "trash" else "removed"
    return f"would be {verb}" if dry else verb


def _prune_line(about: dict[str, Any], dry: bool) -> str:
    verb = _prune_verb(about, dry)
    if about["kind"] == "file":
        return f"{clean(about['path'])}: {verb}"
    name = f"{about['run_id']}@{about['seq']}" if "seq" in about else about["run_id"]
    return f"{about['kind']} {name}: {verb} ({about['why']})"


# -- fsck


def run_fsck(args: Args, ctx: Context) -> int:
    report = check_store(ctx.project, repair=args.repair)
    if args.json:
        ctx.emit(report.to_json())
    else:
        ctx.out(_fsck_page(report, ctx.project.store.name, repair=args.repair))
    return 0 if report.ok else 4


def _fsck_page(report: FsckReport, location: str, *, repair: bool) -> str:
    looked = ", ".join(
        f"{number} {what.replace('_', ' ')}" for what, number in report.checked.items() if number
    )
    lines = [f"{location}: checked {looked or 'nothing: there is no store here yet'}."]
    lines += [f"  repaired: {p['where']}: {p['message']}" for p in report.repaired]
    lines += [f"  set aside: {path}" for path in report.quarantined]
    lines += [_lost(loss) for loss in report.salvaged]
    lines += [f"  {p['code']}: {p['where']}: {p['message']}" for p in report.problems]
    if report.ok and report.checked:
        lines.append(_now_clean(report) if report.salvaged else "Clean.")
    elif report.problems:
        cure = "`leftoff fsck --repair` keeps what is whole."
        if repair:
            cure = "Restore a backup of these files, or save the same content again."
        lines.append(f"{len(report.problems)} problem(s). {cure}")
    return "\n".join(lines)


def _lost(loss: dict[str, Any]) -> str:
    """What could not be proved of a run, and where the rest of it lies."""
    rest = f" What could be read of it is in {loss['aside']}." if loss["aside"] is not None else ""
    word = "lost" if loss["kept"] is None else "salvaged"
    return f"  {word}: run {loss['run_id']}: {loss['message']}{rest}"


def _now_clean(report: FsckReport) -> str:
    """What is there is sound; it is not all that was there."""
    gone = [loss["run_id"] for loss in report.salvaged if loss["kept"] is None]
    others = [loss["run_id"] for loss in report.salvaged if loss["kept"] is not None]
    told = [f"lost: {', '.join(gone)}"] if gone else []
    told += [f"not as it was: {', '.join(others)}"] if others else []
    return f"What is left is clean. Runs {'; '.join(told)}."


# -- store

_STORE_WORDS = {"info": 1, "migrate": 1, "backup": 2, "copy": 3}


def run_store(args: Args, ctx: Context) -> int:
    what, *places = args.rest
    if _STORE_WORDS.get(what) != len(args.rest):
        raise args.spec.wrong(f"`leftoff store` does not take {' '.join(args.rest)!r}.")
    if what == "copy":
        region = Region(sys.stderr) if not args.json and sys.stderr.isatty() else None

        def tell(table: str, rows: int, total: int) -> None:
            if region is not None:
                line = f"copying {table}: {rows:,} of {total:,} rows"
                region.draw([], [[(line, "")]], columns_of(sys.stderr))

        done = copy_all(ctx.project, places[0], places[1], tell)
        if not args.json:
            copied, rows = done["copied"], sum(done["copied"].values())
            ctx.out(f"{done['from']}: {copied['run']} run(s), {rows} rows copied to {done['to']}; checked.")
        return ctx.answer(done)
    if what == "backup":
        saved = back_up_store(ctx.project, places[0])
        if not args.json:
            ctx.out(f"{saved['store']}: {saved['runs']} run(s) backed up to {saved['backup']}.")
        return ctx.answer(saved)
    found = migrate_store(ctx.project) if what == "migrate" else store_info(ctx.project)
    if not args.json:
        ctx.out(_store_page(found))
    return ctx.answer(found)


def _store_page(found: StoreInfo) -> str:
    shown = {"store": found.store, **found.about, "folder": found.folder}
    if not found.exists:
        shown["note"] = "there is nothing yet: the first write makes it"
    width = max(map(len, shown))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items() if value is not None)


# -- trust


def run_trust(args: Args, ctx: Context) -> int:
    if args.list + args.revoke + args.yes > 1:
        raise args.spec.wrong("--list, --revoke and --yes cannot be combined.")
    if args.list:
        return _list_trust(ctx)
    return _revoke_trust(ctx) if args.revoke else _give_trust(ctx)


def _give_trust(ctx: Context) -> int:
    found = look_at_trust(ctx.project)
    if not ctx.args.json:
        _show_trust(ctx, found)
    if found.asked or found.runs:
        if ctx.args.json and not ctx.args.yes:
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
    if not (found.given or found.asked or found.runs):
        ctx.out("Nothing here needs trust: no setting runs a command or leads outside of the project.")
    for word, items in (("trusted", found.given), ("not trusted", found.asked)):
        for item in items:
            where = f" (to {clean(item.target)})" if item.target and item.target != item.value else ""
            ctx.out(f"{word}: {clean(item.key)} {item.does}{where}:")
            _indent(ctx, item.value.splitlines() or [""])
    for run in found.runs:
        ctx.out(f"not trusted: run {run.row.run_id} was not started here by you ({clean(run.path)}):")
        _indent(ctx, run.commands)


def _indent(ctx: Context, lines: list[str]) -> None:
    for line in lines:
        ctx.out(f"    {clean(line)}")


def _list_trust(ctx: Context) -> int:
    found = remembered()
    if ctx.args.json:
        ctx.emit({"trusted": [known.to_json() for known in found]})
        return 0
    for known in found:
        if known.item is None:
            ctx.say(f"leftoff: {known.path} is damaged, or not yours alone: it is ignored.")
        else:
            ctx.out(f"{clean(known.project)}  {clean(known.item.key)} = {clean(known.item.value)}")
    if not found:
        ctx.say("leftoff: you have trusted nothing so far.")
    return 0


def _revoke_trust(ctx: Context) -> int:
    found, runs = take_back_trust(ctx.project)
    if ctx.args.json:
        ctx.emit({"revoked": [known.to_json() for known in found], "runs": runs})
    else:
        ctx.say(f"leftoff: {len(found) + len(runs)} revoked; nothing of {ctx.project.folder} is trusted now.")
    return 0
