"""List runs: status, ls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.layout import facts, wrapped
from leftoff.cli.options import Args, count
from leftoff.cli.run_parts import run_list, waits
from leftoff.cli.screen import Screen, rows_of
from leftoff.cli.text import Line, clean, clean_lines, size, step_name
from leftoff.clock import ago, lasted, millis
from leftoff.operations.run_list import Wanted, check_statuses, list_runs
from leftoff.operations.status import Status, board, status

# -- status


EVERY_S = 1.0  # between two drawings of a page whose times go on


def run_status(args: Args, ctx: Context) -> int:
    if args.markdown and (args.watch or args.json):
        other = "--watch" if args.watch else "--json"
        raise args.spec.wrong(f"--markdown and {other} cannot be combined.")
    ctx.project.update_page()
    if args.markdown:
        ctx.out(clean_lines(board(ctx.project)))
        return 0
    if args.watch:
        return _watch_status(args, ctx)
    found = status(ctx.project, ctx.caller)
    if not args.json:
        screen = ctx.screen()
        screen.show(status_page(found, screen))
    return ctx.answer(found)


def status_page(found: Status, screen: Screen) -> list[Line]:
    lines = _status_facts(found, screen)
    for short in found.half_restored.values():
        complete = "" if short.busy else f" `{short.command}` completes it."
        lines += [[], *wrapped([(clean(short.told()) + clean(complete), "warn")], screen.columns)]
    for problem in found.problems:
        told = f"Files out of sync: {clean(problem)}"
        lines += [[], *wrapped([(told, "warn")], screen.columns)]
    if found.runs:
        return [*lines, [], *run_list(found.runs, screen)]
    return [*lines, [], [("No run is unfinished.", "dim")]]


def _status_facts(found: Status, screen: Screen) -> list[Line]:
    """Where this is, and what is current."""
    git = f" (git: {clean(found.git_branch)})" if found.git_branch else ""
    here = "" if found.exists else " (not created yet: the first `leftoff start` does)"
    return facts(
        [
            ("project", [(clean(found.project), "")]),
            ("store", [(clean(found.store), ""), (here, "dim")]),
            ("branch", [(clean(found.branch), ""), (git, "dim")]),
            ("current", _current(found)),
            *(
                ("saved", _checkpoint(run_id, found, screen.now))
                for run_id, about in found.checkpoints.items()
                if about["aliases"]
            ),
            *_trash_facts(found),
            *_spool_facts(found),
            *(
                ("time", [(_time_used(known), ""), (f"  {run_id}" if found.current is None else "", "dim")])
                for run_id, known in found.times.items()
                if known["used"] or known["estimated"] is not None
            ),
        ],
        screen.columns,
    )


def _checkpoint(run_id: str, found: Status, now: int) -> Line:
    """The newest checkpoint of a run, by the name that its protocol gives it."""
    about = found.checkpoints[run_id]
    when = ago(millis(about["created_at"]) or now, now)
    told = f" {about['trigger']}, {when}" + ("" if about["can_resume"] else ", cannot be resumed")
    whose = f"  {run_id}" if found.current is None else ""
    return [(clean(about["aliases"][0]), "id"), (told, ""), (whose, "dim")]


def _trash_facts(found: Status) -> list[tuple[str, Line]]:
    """What can still be brought back, if anything."""
    runs, taken = found.trash
    told = f"{runs} {'run' if runs == 1 else 'runs'}, {size(taken)}; `leftoff undelete` lists what can be brought back"
    return [("trash", [(told, "dim")])] if runs else []


def _spool_facts(found: Status) -> list[tuple[str, Line]]:
    """What agents told while the store was out of reach, if anything."""
    told = f"{found.waiting} events of agents; the next one in this folder brings them along"
    return [("waiting", [(told, "warn")])] if found.waiting else []


def _current(found: Status) -> Line:
    if found.current is None:
        return [(clean(found.why_none) if found.exists else "none", "dim")]
    step = found.current.current_step or found.current.next_step
    where = "waiting at" if waits(found.current) else "at" if found.current.current_step else "next:"
    return [
        (found.current.run_id, "id"),
        (f", {clean(found.current.status)}, {found.current.percent}%", ""),
        (f", {where} {step_name(step)}" if step else "", "warn" if where == "waiting at" else "dim"),
    ]


def _time_used(known: dict[str, float | None]) -> str:
    """Used, against what was estimated."""
    used, total, left = (lasted(int((known[key] or 0) * 1000)) for key in ("used", "estimated", "left"))
    return f"{used} used" + (
        f" of an estimated {total}, about {left} left" if known["estimated"] is not None else ""
    )


# -- watching


def _watch_status(args: Args, ctx: Context) -> int:
    """Until it is interrupted: redrawn on a terminal; elsewhere one page, with --json one event, for each change."""
    try:
        if args.json:
            _watch_events(ctx)
        elif ctx.screen().fancy:
            _redraw(ctx)
        else:
            for found in _moments(ctx):
                screen = ctx.screen()
                screen.show([*status_page(found, screen), []])
    except KeyboardInterrupt:
        if args.json:
            found = status(ctx.project, ctx.caller)
            ctx.emit({"event": "end", "run": found.current.to_json() if found.current is not None else None})
        return 130
    return 0


def _watch_events(ctx: Context) -> None:
    for found in _moments(ctx):
        ctx.emit({"event": "status", **found.to_json()})


def _moments(ctx: Context) -> Iterator[Status]:
    """The state of things whenever it is another one."""
    from leftoff.operations.watching.changes import watch

    last: Any = None
    with watch(ctx.project) as changes:
        for _ in changes.follow():
            found = status(ctx.project, ctx.caller)
            known = {**found.to_json(), "time": None, "times": None}  # that goes on is no news
            if known != last:
                last = known
                yield found


def _redraw(ctx: Context) -> None:
    """Drawn each second, as its times go on; the store is asked when something happened."""
    from leftoff.cli.term import Redrawn
    from leftoff.operations.watching.changes import News, watch

    with Redrawn(sys.stdout, ctx.screen().columns) as shown, watch(ctx.project) as changes:
        news = News(others=True)
        while True:
            if news:
                found = status(ctx.project, ctx.caller)
            screen = ctx.screen()
            lines = status_page(found, screen)
            room = rows_of(sys.stdout) - 2
            if len(lines) > room:
                lines = [*lines[: room - 1], [(f"… {len(lines) - room + 1} more lines", "dim")]]
            shown.draw([*lines, [("Ctrl-C ends this.", "dim")]], screen.columns)
            news = changes.wait(EVERY_S)


# -- ls

NEWEST = 50


def run_ls(args: Args, ctx: Context) -> int:
    status = statuses(args.status)
    limit = count("--limit", args.limit) if args.limit is not None else None if args.all else NEWEST
    every = args.all and limit is None
    found = list_runs(
        ctx.project, Wanted(status, args.workflow, args.branch, limit, archived=every, sizes=args.long)
    )
    if args.json:
        return ctx.answer(found)
    if found.aside:
        ctx.say(f"{found.aside} archived; --all lists them, too.")
    if not found.runs and not found.archived:
        narrowed = any((status, args.workflow, args.branch))
        if not found.aside:
            ctx.say("No run matches." if narrowed else "No runs yet. `leftoff start WORKFLOW` starts one.")
        return 0
    screen = ctx.screen()
    screen.show(run_list([*found.runs, *found.archived], screen, found.sizes))
    if found.more:
        ctx.say(f"These are the newest {len(found.runs)}; --all lists every one.")
    return 0


def statuses(given: str | None) -> list[str] | None:
    """The words of --status, checked."""
    if given is None:
        return None
    words = [word.strip() for word in given.split(",")]
    check_statuses(words)
    return words
