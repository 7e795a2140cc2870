"""Look into a run's history and go back in it: history, diff, fork, rollback, restore, track, cat."""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import TYPE_CHECKING

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, positive
from leftoff.cli.screen import Screen, crop
from leftoff.cli.text import Line, clean, columns, pad, step_name, value, visible, width
from leftoff.engine.history import Section, differences, place_name
from leftoff.engine.settings import Caller
from leftoff.errors import usage_errors
from leftoff.host import Process
from leftoff.model.changes import NOTHING, Version
from leftoff.model.ids import split_path
from leftoff.model.words import FINISHED
from leftoff.operations.checkpoints import Compared, History, compare_versions, fork_run, history
from leftoff.operations.run_reports import which_run
from leftoff.operations.runs import target

if TYPE_CHECKING:
    from leftoff.engine.restoring import RestorePlan
    from leftoff.operations.run_files import Rollback, RolledBack

# -- history

_LOOKS = {"error": "bad", "rollback": "graph", "step_complete": "good"}


def run_history(args: Args, ctx: Context) -> int:
    return show_logs([history(ctx.project, ctx.caller, ctx.word, positive(args.n, "-n"))], ctx)


def show_logs(found: list[History], ctx: Context) -> int:
    """Print checkpoints; of several runs, as `resume --list` may find them, each below its name."""
    if ctx.args.json:
        ctx.emit({"checkpoints": [each for run in found for each in run.to_json()["checkpoints"]]})
        return 0
    if len(found) == 1 and not found[0].versions:
        ctx.say(f"Run {found[0].target.row.run_id} has no checkpoints yet. `leftoff save` saves one.")
        return 0
    screen = ctx.screen()
    lines: list[Line] = []
    for run in found:
        if len(found) > 1:
            number = len(run.versions)
            lines.append([(f"{run.target.row.run_id}: {number} checkpoint{'' if number == 1 else 's'}", "")])
        if run.versions:
            lines += _history(run, screen)
    screen.page(lines)
    return 0


def _history(found: History, screen: Screen) -> list[Line]:
    """Return a line for each checkpoint. On a terminal, the runs that were forked from it are below."""
    row, versions = found.target.row, found.versions
    if not screen.fancy:
        rows = [
            (
                str(v.id),
                f"@{v.seq}",
                clean(v.trigger or ""),
                step_name(v.step or "-"),
                screen.when(v.at),
                _note(v),
            )
            for v in versions
        ]
        return [[(line, "")] for line in columns(rows)]
    lines, forks = list[Line](), found.forks()
    if found.target.version is None and row.seq > versions[0].seq:
        lines.append([("○ ", "dim"), (f"@{row.seq}", "dim"), ("  not saved yet", "dim")])
    whys = [
        clean(str(version.trigger)) + (f" {step_name(version.step)}" if version.step else "")
        for version in versions
    ]
    wide = len(str(versions[0].seq)) + 1
    whys_wide = min(max(map(width, whys)), screen.columns // 3)
    for version, why in zip(versions, whys, strict=True):
        lines.append(
            [
                ("↺ " if version.trigger == "rollback" else "● ", "graph"),
                (pad(f"@{version.seq}", wide), "id"),
                (f"  {version.id}  ", "dim"),
                (pad(crop(why, whys_wide), whys_wide), _LOOKS.get(str(version.trigger), "")),
                (f"  {screen.when(version.at)}", "dim"),
                (f"  {_note(version)}", ""),
            ]
        )
        for each in forks.get(version.seq, []):
            about = f"  fork on {clean(each.branch)}, {each.status}"
            lines.append([("├─▸ ", "graph"), (each.run_id, "id"), (about, "dim")])
    if row.card.get("parent"):
        lines.append([("╰ ", "graph"), (f"forked from {clean(str(row.card['parent']))}", "dim")])
    return lines


def _note(version: Version) -> str:
    """Return the note, after the other names of the checkpoint."""
    return " ".join(clean(part) for part in (*version.aliases, version.note or "") if part)


# -- diff


_MOST_PLACES = 40  # places inside one entry that a terminal shows
_BY_STEP = ("steps", "approval", "error")  # sections whose keys are steps
_MARKS = {"added": "+", "removed": "-", "changed": "~"}
# What differs between any two runs, and says nothing about their work: entries of each section and their fields.
_TIMES = {
    "run": ("created_at", "completed_at", "updated_at", "why", "why_again"),
    "steps": ("started_at", "completed_at"),
    "artifacts": ("captured_at",),
    "files": ("captured_at",),
}


def run_diff(args: Args, ctx: Context) -> int:
    old, new = [*args.rest, None, None][:2]
    found = compare_versions(ctx.project, ctx.caller, old, new, args.paths)
    if args.json:
        return ctx.answer(found)
    screen = ctx.screen()
    screen.page(_diff_page(found, screen, stat=args.stat))
    return 0


def _diff_page(both: Compared, screen: Screen, *, stat: bool) -> list[Line]:
    found = both.found
    lines: list[Line] = []
    for mark, style, side in (("--- ", "removed", both.old), ("+++ ", "added", both.new)):
        version = side.version
        at = version.at if version is not None else side.row.updated_at
        known = version.id if version is not None else (side.row.checkpoint or "")[:12]
        about = f"  {known}  {screen.when(at)}" if known else f"  {screen.when(at)}"
        lines.append([(mark, style), (f"{side.row.run_id}@{side.seq}", "id"), (about, "dim")])
    named = {name: getattr(found, name) for name in ("steps", "variables", "artifacts", "files")}
    for name, entries in {**named, **found.records}.items():
        if not stat:
            lines += _section(name, entries, both.contents, screen)
        elif entries and name != "files":
            counts = [
                (f" {mark}{len(each)}", kind)
                for kind, mark in _MARKS.items()
                if (each := getattr(entries, kind))
            ]
            lines.append([(f"  {clean(name)} ", ""), *counts])
    styles = {"+": "added", "-": "removed", "@": "graph"}
    for path, change in both.contents.items():
        if stat:
            counts = [(f" +{change.added}", "added"), (f" -{change.removed}", "removed")]
            lines.append([(f"  {clean(path)} ", ""), *counts])
            continue
        lines.append([])  # a unified diff; on a terminal, tabs become spaces
        for text in (change.text.expandtabs() if screen.fancy else change.text).splitlines():
            style = "head" if text[:4] in ("+++ ", "--- ") else styles.get(text[:1], "")
            lines.append([(visible(text), style)])
    return lines if len(lines) > 2 else [*lines, [("Nothing differs.", "dim")]]


def _section(name: str, entries: Section, contents: Container[str], screen: Screen) -> list[Line]:
    """Return the entries that differ, without the files whose ``contents`` are shown, and without times."""
    marked, times = [], _TIMES.get(name, ())
    for kind in _MARKS:
        for key, each in getattr(entries, kind).items():
            about = getattr(each, "new", each)
            path = about.get("path") if isinstance(about, dict) else None
            parts = differences(each.old, each.new) if kind == "changed" else []
            if kind == "changed":
                own = (key,) if name == "run" else ()
                parts = [part for part in parts if (*own, *part[0]) not in [(time,) for time in times]]
                if not parts:
                    continue
            if (path if isinstance(path, str) else key) not in contents:
                marked.append((key, kind, each, parts))
    lines: list[Line] = [[], [(name, "head")]] if marked else []
    label = step_name if name in _BY_STEP else clean
    for key, kind, each, parts in sorted(marked, key=lambda entry: entry[0]):
        named = f"  {_MARKS[kind]} {label(key)}"
        if kind != "changed":
            is_step = isinstance(each, dict) and isinstance(each.get("status"), str)  # its status says enough
            text = (": ", clean(each["status"])) if is_step else (" = ", value(each))
            lines.append([(named, kind), (text[0], "dim"), (text[1], kind)])
            continue
        if len(parts) == 1 and parts[0][0] == ():
            lines.append(_change(named, value(each.old), value(each.new)))
            continue
        status = next((part for part in parts if part[0] == ("status",)), None)
        if status is not None and isinstance(status[1], str):
            lines.append(_change(named, clean(status[1]), clean(str(status[2]))))
            parts.remove(status)
        else:
            lines.append([(named, "changed")])
        for path, before, after in parts[:_MOST_PLACES] if screen.fancy else parts:
            place = clean(place_name(path))
            if before is not NOTHING and after is not NOTHING:
                lines.append(_change(f"      ~ {place}", value(before), value(after)))
                continue
            style, only = ("added", after) if before is NOTHING else ("removed", before)
            lines.append([(f"      {_MARKS[style]} {place}", style), (" = ", "dim"), (value(only), style)])
        if screen.fancy and len(parts) > _MOST_PLACES:
            lines.append([(f"      … and {len(parts) - _MOST_PLACES} more places", "dim")])
    return lines


def _change(label: str, old: str, new: str) -> Line:
    return [(label, "changed"), (": ", "dim"), (old, "removed"), (" → ", "dim"), (new, "added")]


# -- fork


def run_fork(args: Args, ctx: Context) -> int:
    ctx.need_name()
    caller = Caller(named=args.run)  # --branch is where the fork goes, not where `@` is looked for
    variables = usage_errors(lambda: assignments(args.var))
    made, source = fork_run(ctx.project, caller, ctx.word, args.branch, args.run_id, variables)
    came = f"{source.row.run_id}@{source.seq}"
    said = f"leftoff: forked from {came}; `leftoff resume {made.run_id}` continues it."
    return ctx.answer(made, made.run_id, said)


# -- rollback

_MOST_STEPS = 6  # steps that still run


def run_rollback(args: Args, ctx: Context) -> int:
    if not args.rest and not args.good and args.run is None:
        raise args.spec.wrong("`leftoff rollback` needs REF, or --good.")
    from leftoff.operations.run_files import Rollback, plan_rollback

    wanted = Rollback(ctx.word, good=args.good, files=args.files)
    paths = args.rest[1:]
    if paths:
        if args.dry_run or args.good:
            raise args.spec.wrong("PATH cannot be combined with --dry-run or --good.")
        return _roll_back_paths(args, ctx, paths)
    if args.dry_run:
        found = plan_rollback(ctx.project, ctx.caller, wanted)
        run_id, seq, files = found.target.row.run_id, found.target.seq, found.files
        if args.json:
            about: dict[str, object] = {"run_id": run_id, "seq": seq}
            if files is not None:
                diffs = {entry.path: files.difference(entry) for entry in files.changed}
                about["files"] = {**files.to_json(), "diffs": diffs}
            return ctx.answer(about)
        ctx.say(f"leftoff: run {run_id} would go back to version {seq}.")
        if found.running:
            ctx.say(f"{_running_steps(run_id, found.running)} They are ended first.")
        if files is not None:
            _show_plan(ctx, files)
        return 0

    return _roll_back(ctx, wanted)


def _roll_back(ctx: Context, wanted: Rollback) -> int:
    from leftoff.operations.run_files import rollback_run

    def end_steps(run_id: str, running: dict[str, list[Process]]) -> bool:
        hint = f"--yes ends them. `leftoff resume {run_id}` would wait for them instead."
        return ctx.confirm(_running_steps(run_id, running), hint=hint)

    done = rollback_run(ctx.project, ctx.caller, wanted, end_steps, lambda plan: _agree(ctx, plan))
    if not done.done:
        return ctx.said_no()
    if ctx.args.json:
        ctx.answer(done)
    else:
        _tell_rollback(ctx, done)
    if done.lost is None:
        return 0
    ctx.say(f"leftoff: {done.lost.message}\n{done.lost.hint}")
    return done.lost.exit_code


def _roll_back_paths(args: Args, ctx: Context, paths: list[str]) -> int:
    """Restore single files; with --files the run goes back too, but no other file."""
    from leftoff.operations.run_files import Rollback, restore_files

    found = target(ctx.project, ctx.caller, ctx.word, which_run(ctx.project, ctx.caller))
    ref = f"{found.row.run_id}@{found.seq}"  # `@~1` would mean another version after the present is saved
    run, named, done = restore_files(ctx.project, ctx.caller, ref, paths, lambda plan: _agree(ctx, plan))
    if not done.done:
        return ctx.said_no()
    if not args.json:
        ctx.say(f"leftoff: {len(done.plan.touched)} of {named} files restored from {ref}.")
    if args.files:
        return _roll_back(ctx, Rollback(ref))
    return ctx.answer({**run.to_json(), "files": done.to_json()})


def _running_steps(run_id: str, running: dict[str, list[Process]]) -> str:
    """Name the steps that run without a driver, in a sentence."""
    names = [f"{step_name(step)} (process {processes[-1].pid})" for step, processes in running.items()]
    more = f" and {len(names) - _MOST_STEPS} more" if len(names) > _MOST_STEPS else ""
    return f"Steps of {run_id} are still running, although its driver has died: {', '.join(names[:_MOST_STEPS])}{more}."


def _tell_rollback(ctx: Context, done: RolledBack) -> None:
    now, target, outcome = done.run, done.target, done.outcome
    if not done.changed:
        ctx.out(f"Run {now.run_id} is at version {target.seq}; nothing was changed.")
        ctx.say(f"leftoff: it was already there. `leftoff history {now.run_id}` lists what to go back to.")
        return
    own = target.version is not None and target.version.id
    ctx.out(f"Run {now.run_id} is back at {own or f'version {target.seq}'}, as version {now.row.seq}.")
    if outcome is not None:
        if outcome.completed:
            ctx.say("leftoff: a rollback that had been interrupted is now complete.")
        restored, deleted = len(outcome.plan.of("restore")), len(outcome.plan.of("delete"))
        whole = outcome.saved is not None and not outcome.completed
        undo = f" `leftoff rollback {now.run_id}@{outcome.saved} --files` undoes that." if whole else ""
        ctx.say(f"leftoff: {restored} files restored, {deleted} deleted.{undo}")
    if target.seq == target.row.seq:
        ctx.say("leftoff: it was already there.")
    else:
        over = done.run.status in FINISHED
        more = "" if over else f"; `leftoff resume {now.run_id}` continues from here"
        ctx.say(f"leftoff: `leftoff history {now.run_id}` lists the earlier checkpoints{more}.")
        if over:
            again = f"`leftoff resume {now.run_id} --from-step STEP` runs steps again"
            ctx.say(f"leftoff: the run is {now.status} at that version; {again}.")


_MOST_LINES = 200  # lines of a plan, before it is carried out
_RESTORE_HINT = "--yes restores them; the current content is saved first, as a checkpoint."


def _agree(ctx: Context, plan: RestorePlan) -> bool:
    """Show the plan; return whether to do it. Files that were changed are shown, and need a yes."""
    _show_plan(ctx, plan, _MOST_LINES)
    if not plan.changed:
        return True
    for entry in plan.changed[:_MOST_LINES]:
        ctx.say(plan.difference(entry).expandtabs())
    names = ", ".join(entry.path for entry in plan.changed[:5])
    more = len(plan.changed) - 5
    what = f"Changed since they were last recorded: {clean(names)}{f' and {more} more' if more > 0 else ''}."
    return ctx.confirm(what, hint=_RESTORE_HINT)


def _show_plan(ctx: Context, plan: RestorePlan, most: int | None = None) -> None:
    """Show one line for each file: what is done with it, and why."""
    for entry in plan.entries[:most]:
        mark = ", and has changed since it was last recorded" if entry.changed else ""
        ctx.say(f"{entry.action:<7} {clean(entry.path)}  ({clean(entry.why)}{mark})")
    if most is not None and len(plan.entries) > most:
        ctx.say(f"… and {len(plan.entries) - most} more; --dry-run shows all.")
    if not plan.entries:
        ctx.say("leftoff: every tracked file is already as it was.")
    if plan.unseen:
        ctx.say(f"leftoff: {plan.unseen}")


# -- restore


def run_restore(args: Args, ctx: Context) -> int:
    from leftoff.operations.run_files import restore_files, restore_words

    ref, paths = restore_words(ctx.project, ctx.caller, args.rest)
    run, named, done = restore_files(ctx.project, ctx.caller, ref, paths, lambda plan: _agree(ctx, plan))
    if not done.done:
        return ctx.said_no()
    if done.completed and not args.json:
        ctx.say("leftoff: a restore that had been interrupted is now complete.")
    elif not args.json:
        number = len(done.plan.touched)
        ctx.say(f"leftoff: {f'{number} of {named} files' if number else 'nothing was'} restored.")
    return ctx.answer({"run_id": run.run_id, "seq": run.row.seq, "files": done.to_json()})


# -- track


def run_track(args: Args, ctx: Context) -> int:
    from leftoff.operations.run_files import track_files

    if bool(args.rest) == args.git:
        raise args.spec.wrong("`leftoff track` needs PATH… or --git.")
    return ctx.answer(track_files(ctx.project, ctx.caller, args.rest, git=args.git))


# -- cat


def run_cat(args: Args, ctx: Context) -> int:
    from leftoff.operations.run_files import file_at

    ref, path = split_path(args.rest[0])
    if not path or args.rest[0].startswith(":"):
        raise args.spec.wrong("`leftoff cat` needs REF:PATH, or a PATH.")
    found = file_at(ctx.project, ctx.caller, ref, path)
    if args.json:
        return ctx.answer(found)
    if sys.stdout.isatty():
        sys.stdout.write(visible(b"".join(found.chunks()).decode("utf-8", "backslashreplace")))
    else:
        for chunk in found.chunks():
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    return 0
