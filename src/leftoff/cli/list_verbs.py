"""List runs: status, ls."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args, positive
from leftoff.cli.screen import Column, Region, Screen, facts, lay_out_table, rows_of, wrapped
from leftoff.cli.text import Line, clean, clean_lines, columns, size, step_name
from leftoff.clock import ago, lasted, millis
from leftoff.engine.project import FOLDER
from leftoff.engine.run_info import RunInfo, wait_words
from leftoff.operations.runs import Status, list_project_runs, status

EVERY_S = 1.0  # between two drawings of a page that shows relative times
NEWEST = 50  # runs that `ls` lists
BAR = 10  # columns of a progress bar

# state: symbol, style
RUN_LOOK = {
    "running": ("●", "busy"), "paused": ("◌", "dim"), "blocked": ("■", "warn"), "failed": ("✗", "bad"),
    "completed": ("✓", "good"), "abandoned": ("–", "dim"), "waiting": ("◔", "warn"), "interrupted": ("◌", "bad"),
}  # fmt: skip
# health that is shown next to the state: style
HEALTH_LOOK = {"quiet": "warn", "stalled": "bad", "archived": "dim"}


# -- status


def run_status(args: Args, ctx: Context) -> int:
    if args.markdown and (args.watch or args.json):
        other = "--watch" if args.watch else "--json"
        raise args.spec.wrong(f"--markdown and {other} cannot be combined.")
    if args.markdown:
        from leftoff.protocols.sitebuilder import status_table as table_of

        ctx.out(clean_lines(table_of(ctx.project.store, ctx.project.now, ctx.project.limits)))
        return 0
    if args.all or args.long or any(each is not None for each in (args.status, args.workflow, args.limit)):
        if args.watch or args.markdown or args.run:
            raise args.spec.wrong("A list of runs cannot be combined with --watch or --run.")
        return run_ls(args, ctx)
    if args.watch:
        return _watch_status(args, ctx)
    found = status(ctx.project, ctx.caller)
    if not args.json:
        screen = ctx.screen()
        screen.show(status_page(found, screen))
    return ctx.answer(found)


def status_page(found: Status, screen: Screen) -> list[Line]:
    lines = _needs_you(found, screen)
    lines += facts(_status_facts(found, screen), screen.columns)
    warnings = []
    for short in found.half_restored.values():
        warnings.append(short.message + ("" if short.busy else f" `{short.command}` completes it."))
    warnings += [f"Files out of sync: {problem}" for problem in found.problems]
    for warning in warnings:
        lines += [[], *wrapped([(clean(warning), "warn")], screen.columns)]
    if found.runs:
        return [*lines, [], *run_list(found.runs, screen)]
    return [*lines, [], [("No run is unfinished.", "dim")]]


def _needs_you(found: Status, screen: Screen) -> list[Line]:
    """Return a line for each run that needs a person, and below it the command, or what to do."""
    from leftoff.engine.attention import wanted

    lines: list[Line] = []
    for seen in found.needs:
        symbol, style = RUN_LOOK[seen.info.state]
        state = seen.info.state
        for what, command in wanted(seen):
            lines += wrapped(
                [
                    (f"  {symbol} " if screen.fancy else "  ", style),
                    (seen.info.run_id, "id"),
                    (f" {state}", style),
                    (f"  {clean(what)}", ""),
                ],
                screen.columns,
                4,
            )
            lines.append([("    ", ""), (clean(command), "title")])
    return [[("Needs you", "head")], *lines, []] if lines else []


def _status_facts(found: Status, screen: Screen) -> list[tuple[str, Line]]:
    """Return the project, the branch, the current run, and what else is worth a line."""
    current = found.current
    git = f" (git: {clean(found.git_branch)})" if found.git_branch else ""
    out: list[tuple[str, Line]] = [("project", [(clean(found.project), "")])]
    if not found.exists or found.store != os.path.join(found.project, FOLDER):
        new = "" if found.exists else " (not created yet: the first `leftoff run` or `start` does)"
        out.append(("store", [(clean(found.store), ""), (new, "dim")]))
    out.append(("branch", [(clean(found.branch), ""), (git, "dim")]))
    if current is None:
        out.append(("current", [(clean(found.why_none) if found.exists else "none", "dim")]))
    else:
        step = current.current_step or current.next_step
        at = f", {'at' if current.current_step else 'next:'} {step_name(step)}" if step else ""
        about = f", {current.state}, {current.percent}%"
        waits = f", {clean(wait_words(current.waits))}" if current.waits else ""
        out.append(("current", [(current.run_id, "id"), (about, ""), (at, "dim"), (waits, "warn")]))
    for run_id, saved in found.checkpoints.items():
        if saved["aliases"]:  # the name that its protocol gives it
            when = ago(millis(saved["created_at"]) or screen.now, screen.now)
            told = f" {saved['trigger']}, {when}" + ("" if saved["can_resume"] else ", cannot be resumed")
            whose = f"  {run_id}" if current is None else ""
            out.append(("saved", [(clean(saved["aliases"][0]), "id"), (told, ""), (whose, "dim")]))
    runs, taken = found.trash
    if runs:
        many = f"{runs} {'run' if runs == 1 else 'runs'}, {size(taken)}"
        out.append(("trash", [(f"{many}; `leftoff undelete` lists what can be brought back", "dim")]))
    if found.waiting:
        told = f"{found.waiting} events of agents; the next one in this folder brings them along"
        out.append(("waiting", [(told, "warn")]))
    known = found.times.get(current.run_id) if current is not None and current.state == "running" else None
    if known and (known["used"] or known["estimated"] is not None):
        used, total, left = (lasted(int((known[key] or 0) * 1000)) for key in ("used", "estimated", "left"))
        estimated = f" of an estimated {total}, about {left} left" if known["estimated"] is not None else ""
        out.append(("time", [(f"{used} used{estimated}", "")]))
    return out


def _watch_status(args: Args, ctx: Context) -> int:
    """Watch until Ctrl-C: redrawn on a terminal; elsewhere one page, with --json one event, for each change.

    A terminal is drawn each second, because of its relative times. The store is asked only if something happened.
    """
    from leftoff.operations.watching import Changes, News

    region = Region(sys.stdout) if not args.json and ctx.screen().fancy else None
    last: Any = None
    try:
        with Changes(ctx.project) as changes:
            news = News(others=True)
            while True:
                screen = ctx.screen()
                if news:
                    found = status(ctx.project, ctx.caller)
                if region is not None:
                    lines, room = status_page(found, screen), rows_of(sys.stdout) - 2
                    if len(lines) > room:
                        lines = [*lines[: room - 1], [(f"… {len(lines) - room + 1} more lines", "dim")]]
                    region.draw([], [*lines, [("Ctrl-C ends this.", "dim")]], screen.columns)
                    news = changes.wait(EVERY_S)
                    continue
                known = {**found.to_json(), "time": None, "times": None}  # time that passes is not a change
                if known != last and args.json:
                    ctx.emit({"event": "status", **found.to_json()})
                elif known != last:
                    screen.show([*status_page(found, screen), []])
                last, news = known, changes.wait()
    except KeyboardInterrupt:
        if args.json:
            current = status(ctx.project, ctx.caller).current
            ctx.emit({"event": "end", "run": current.to_json() if current is not None else None})
    return 130


# -- ls


def run_ls(args: Args, ctx: Context) -> int:
    wanted = [word.strip() for word in args.status.split(",")] if args.status is not None else None
    limit = positive(args.limit, "--limit") or (None if args.all else NEWEST)
    every = args.all and limit is None
    found = list_project_runs(
        ctx.project, wanted, args.workflow, args.branch, limit, archived=every, sizes=args.long
    )
    if args.json:
        return ctx.answer(found)
    if found.aside:
        ctx.say(f"{found.aside} archived; --all lists them, too.")
    if found.runs or found.archived:
        screen = ctx.screen()
        screen.show(run_list([*found.runs, *found.archived], screen, found.sizes))
        if found.more:
            ctx.say(f"These are the newest {len(found.runs)}; --all lists every one.")
    elif not found.aside:
        narrowed = any((wanted, args.workflow, args.branch))
        ctx.say(
            "No run matches."
            if narrowed
            else "No runs yet. `leftoff run FILE` or `leftoff start WORKFLOW` starts one."
        )
    return 0


# -- a list of runs


def run_list(runs: Sequence[RunInfo], screen: Screen, sizes: dict[str, int] | None = None) -> list[Line]:
    """Return a table of runs. ``sizes``: the bytes that each takes, by id, if that is to be shown."""
    size_head, known = ["SIZE"] if sizes else [], sizes or {}
    bare = [("RUN", "STATE", "HEALTH", "STEPS", "PERCENT", "STEP", "UPDATED", "BRANCH", *size_head, "TITLE")]
    cells: list[list[Line]] = []
    on_main = all(run.branch == "main" for run in runs)
    for run in runs:
        archived = run.row.is_archived
        health = "archived" if archived else run.health
        title, branch = clean(run.title or run.workflow), clean(run.branch)
        updated = screen.when(run.updated_at) if run.updated_at else "-"
        taken = [size(known.get(run.run_id, 0))] if known else []
        if not screen.fancy:
            step = "-" if archived else step_name(run.current_step or run.next_step or "-")
            done = f"{run.steps['completed'] + run.steps['skipped']}/{run.steps['total']}"
            how_far = (run.state, health, done, f"{run.percent}%", step, updated)
            bare.append((run.run_id, *how_far, branch, *taken, title))
            continue
        step_cell: Line = []
        if run.current_step and not archived:
            name = step_name(run.current_step)
            name += f" ({clean(wait_words(run.waits))})" if run.waits else ""
            step_cell = [(f"◔ {name}", "warn") if _waits(run) else (name, "busy")]
        elif run.next_step and not archived:
            step_cell = [(f"→ {step_name(run.next_step)}", "dim")]
        cells.append(
            [
                [(run.run_id, "id")],
                [(title, "")],
                [] if on_main else [(branch, "")],
                status_line(run.state, health),
                [*bar(run.percent, run.status), (f" {run.percent:3d}%", "")],
                step_cell,
                *([[(text, "")] for text in taken]),
                [(updated, "dim")],
            ]
        )
    if not screen.fancy:
        return [[(line, "")] for line in columns(bare)]
    elastic = [Column("RUN", least=30), Column("TITLE", rank=2, least=12), Column("BRANCH", rank=3, least=6)]
    heads = [*elastic, Column("STATE"), Column("PROGRESS"), Column("STEP", rank=4, least=10)]
    heads += [Column(name, right=True) for name in (*size_head, "UPDATED")]
    return lay_out_table(heads, cells, screen.columns)


def _waits(run: RunInfo) -> bool:
    """Return whether the current step waits for a person: nothing runs, and something waits."""
    return run.steps["waiting"] > 0 and run.steps["running"] == 0


def status_line(state: str, health: str) -> Line:
    symbol, style = RUN_LOOK.get(state, ("?", ""))
    own: Line = [(f" {health}", HEALTH_LOOK[health])] if health in HEALTH_LOOK else []
    return [(f"{symbol} {clean(state)}", style), *own]


def bar(percent: int, status: str) -> Line:
    """Return a progress bar."""
    style = {"completed": "good", "failed": "bad", "blocked": "warn", "abandoned": "dim"}.get(status, "busy")
    full = percent * BAR // 100
    return [("━" * full, style), ("━" * (BAR - full), "rest")]
