"""``leftoff status``: where this is, and every run that is not finished."""

from __future__ import annotations

import sys

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean, clean_lines, step_name
from leftoff.errors import Usage
from leftoff.operations.status import board, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line
    from leftoff.operations.status import Status

SPEC = Spec(
    "status",
    "Show the project, its store, the branch, the current run and every unfinished run.",
    options=(
        Opt("--watch", None, "keep showing it, until Ctrl-C"),
        Opt("--markdown", None, 'print the table "Active Checkpoints" of the sitebuilder protocol'),
        *CURRENT,
    ),
    examples="""  leftoff status
  leftoff status --watch
  leftoff status --markdown""",
)

EVERY_S = 1.0  # between two drawings of a page whose times go on


def run(args: Args, ctx: Context) -> int:
    if args.markdown and (args.watch or args.json):
        other = "--watch" if args.watch else "--json"
        raise Usage(f"--markdown and {other} cannot be combined.", hint=f"usage: {SPEC.line()}")
    ctx.project.update_page()
    if args.markdown:
        ctx.out(clean_lines(board(ctx.project)))
        return 0
    if args.watch:
        return watch(args, ctx)
    found = status(ctx.project, ctx.caller)
    if not args.json:
        screen = ctx.screen()
        screen.show(page(found, screen))
    return ctx.answer(found)


def page(found: Status, screen: Screen) -> list[Line]:
    from leftoff.cli.render.layout import wrapped
    from leftoff.cli.render.run_list import run_list

    lines = _facts(found, screen)
    for short in found.half_restored.values():
        complete = "" if short.busy else f" `{short.command}` completes it."
        lines += [[], *wrapped([(clean(short.told()) + clean(complete), "warn")], screen.columns)]
    for problem in found.problems:
        told = f"Files out of sync: {clean(problem)}"
        lines += [[], *wrapped([(told, "warn")], screen.columns)]
    if found.runs:
        return [*lines, [], *run_list(found.runs, screen)]
    return [*lines, [], [("No run is unfinished.", "dim")]]


def _facts(found: Status, screen: Screen) -> list[Line]:
    """Where this is, and what is current."""
    from leftoff.cli.render.layout import facts

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
            *_trash(found),
            *_waiting(found),
            *(
                ("time", [(_time(known), ""), (f"  {run_id}" if found.current is None else "", "dim")])
                for run_id, known in found.times.items()
                if known["used"] or known["estimated"] is not None
            ),
        ],
        screen.columns,
    )


def _checkpoint(run_id: str, found: Status, now: int) -> Line:
    """The newest checkpoint of a run, by the name that its protocol gives it."""
    from leftoff.model.times import ago, millis

    about = found.checkpoints[run_id]
    when = ago(millis(about["created_at"]) or now, now)
    told = f" {about['trigger']}, {when}" + ("" if about["can_resume"] else ", cannot be resumed")
    whose = f"  {run_id}" if found.current is None else ""
    return [(clean(about["aliases"][0]), "id"), (told, ""), (whose, "dim")]


def _trash(found: Status) -> list[tuple[str, Line]]:
    """What can still be brought back, if anything."""
    from leftoff.cli.render.text import size

    runs, taken = found.trash
    told = f"{runs} {'run' if runs == 1 else 'runs'}, {size(taken)}; `leftoff undelete` lists what can be brought back"
    return [("trash", [(told, "dim")])] if runs else []


def _waiting(found: Status) -> list[tuple[str, Line]]:
    """What agents told while the store was out of reach, if anything."""
    told = f"{found.waiting} events of agents; the next one in this folder brings them along"
    return [("waiting", [(told, "warn")])] if found.waiting else []


def _current(found: Status) -> Line:
    from leftoff.cli.render.run_list import waits

    if found.current is None:
        return [(clean(found.why_none) if found.exists else "none", "dim")]
    step = found.current.current_step or found.current.next_step
    where = "waiting at" if waits(found.current) else "at" if found.current.current_step else "next:"
    return [
        (found.current.run_id, "id"),
        (f", {clean(found.current.status)}, {found.current.percent}%", ""),
        (f", {where} {step_name(step)}" if step else "", "warn" if where == "waiting at" else "dim"),
    ]


def _time(known: dict[str, float | None]) -> str:
    """Used, against what was estimated."""
    from leftoff.model.times import lasted

    used, total, left = (lasted(int((known[key] or 0) * 1000)) for key in ("used", "estimated", "left"))
    return f"{used} used" + (
        f" of an estimated {total}, about {left} left" if known["estimated"] is not None else ""
    )


# -- watching


def watch(args: Args, ctx: Context) -> int:
    """Until it is interrupted: redrawn on a terminal; elsewhere one page, with --json one event, for each change."""
    try:
        if args.json:
            _events(ctx)
        elif ctx.screen().fancy:
            _redraw(ctx)
        else:
            for found in _moments(ctx):
                screen = ctx.screen()
                screen.show([*page(found, screen), []])
    except KeyboardInterrupt:
        if args.json:
            found = status(ctx.project, ctx.caller)
            ctx.emit({"event": "end", "run": found.current.to_json() if found.current is not None else None})
        return 130
    return 0


def _events(ctx: Context) -> None:
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
    from leftoff.cli.render.screen import rows_of
    from leftoff.cli.render.term import Redrawn
    from leftoff.operations.watching.changes import News, watch

    with Redrawn(sys.stdout, ctx.screen().columns) as shown, watch(ctx.project) as changes:
        news = News(others=True)
        while True:
            if news:
                found = status(ctx.project, ctx.caller)
            screen = ctx.screen()
            lines = page(found, screen)
            room = rows_of(sys.stdout) - 2
            if len(lines) > room:
                lines = [*lines[: room - 1], [(f"… {len(lines) - room + 1} more lines", "dim")]]
            shown.draw([*lines, [("Ctrl-C ends this.", "dim")]], screen.columns)
            news = changes.wait(EVERY_S)
