"""Look into a run's history: log, diff, fork."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, count
from leftoff.cli.screen import Screen, crop, line_width, shared, wrapped
from leftoff.cli.text import Line, clean, columns, pad, step_name, value, visible, width
from leftoff.engine.config.caller import Caller
from leftoff.engine.read.history import Section, same
from leftoff.errors import usage_errors
from leftoff.model.versions import Version
from leftoff.operations.checkpoints import Compared, History, compare_versions, fork_run, history

# -- log

_NARROW_LOG = 64  # columns: on a narrower terminal, a checkpoint takes three lines
_LOOKS = {"error": "bad", "rollback": "graph", "step_complete": "good"}


def run_log(args: Args, ctx: Context) -> int:
    most = count("-n", args.n) if args.n is not None else None
    return show_logs([history(ctx.project, ctx.caller, ctx.word, most)], ctx)


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
            lines += _graph(run, screen) if screen.fancy else _bare_log(run.versions, screen)
    screen.page(lines)
    return 0


def _bare_log(versions: list[Version], screen: Screen) -> list[Line]:
    rows = []
    for version in versions:
        trigger, step = clean(str(version.trigger)), step_name(version.step or "-")
        when, note = screen.when(version.at), _version_note(version)
        rows.append((str(version.id), f"@{version.seq}", trigger, step, when, note))
    return [[(line, "")] for line in columns(rows)]


def _graph(found: History, screen: Screen) -> list[Line]:
    row, versions = found.target.row, found.versions
    lines: list[Line] = []
    if found.target.version is None and row.seq > versions[0].seq:
        lines.append([("○ ", "dim"), (f"@{row.seq}", "dim"), ("  not saved yet", "dim")])
    lanes = Lanes(found)
    wide = max(len(str(version.seq)) for version in versions) + 1
    triggers = max(width(_why(version)) for version in versions)
    for version in versions:
        lines += lanes.lines(version, screen, wide, triggers)
    if row.card.get("parent"):
        lines.append([("╰ ", "graph"), (f"forked from {clean(str(row.card['parent']))}", "dim")])
    return lines


class Lanes:
    """The graph of checkpoints, drawn from the newest down: each lane waits for the checkpoint before its last one."""

    def __init__(self, found: History) -> None:
        self._parents = found.parents()
        self._forks = found.forks()
        self._waiting: list[int | None] = []

    def lines(self, version: Version, screen: Screen, wide: int, triggers: int) -> list[Line]:
        """Return what is drawn for one checkpoint."""
        out: list[Line] = []
        here = [i for i, seq in enumerate(self._waiting) if seq == version.seq]
        if len(here) > 1:
            out.append([(self._joined(here), "graph")])
        if here:
            lane = here[0]
        else:  # nothing shown so far follows it
            lane = self._waiting.index(None) if None in self._waiting else len(self._waiting)
            self._waiting[lane : lane + 1] = [version.seq]
        mark = self._row({lane: "↺" if version.trigger == "rollback" else "●"})
        self._waiting[lane] = self._parents[version.seq]
        self._trim()
        for number, text in enumerate(_version_lines(version, width(mark), screen, wide, triggers)):
            out.append([(mark if number == 0 else pad(self._row({}), width(mark)), "graph"), *text])
        for each in self._forks.get(version.seq, []):
            branch = self._row({lane: "├"}).rstrip() + "─▸ "
            about = f"  fork on {clean(each.branch)}, {each.status}"
            out.append([(branch, "graph"), (each.run_id, "id"), (about, "dim")])
        return out

    def _row(self, marks: dict[int, str]) -> str:
        lanes = max(len(self._waiting), max(marks, default=-1) + 1)
        waiting = [*self._waiting, *[None] * (lanes - len(self._waiting))]
        return "".join(
            f"{marks.get(i) or ('│' if seq is not None else ' ')} " for i, seq in enumerate(waiting)
        )

    def _joined(self, here: list[int]) -> str:
        """Several lanes come together in the first of them."""
        first, last = here[0], here[-1]
        out = ""
        for i, seq in enumerate(self._waiting):
            if i == first:
                out += "├─"
            elif i in here:
                out += "╯ " if i == last else "┴─"
            elif first < i < last:
                out += "┼─" if seq is not None else "──"
            else:
                out += "│ " if seq is not None else "  "
        for i in here[1:]:
            self._waiting[i] = None
        self._trim()
        return out

    def _trim(self) -> None:
        while self._waiting and self._waiting[-1] is None:
            self._waiting.pop()


def _why(version: Version) -> str:
    return clean(str(version.trigger)) + (f" {step_name(version.step)}" if version.step else "")


def _version_note(version: Version) -> str:
    """Return the note, after the other names of the checkpoint."""
    return " ".join(clean(part) for part in (*version.aliases, version.note or "") if part)


def _version_lines(version: Version, drawn: int, screen: Screen, wide: int, triggers: int) -> list[Line]:
    """Return one checkpoint: on one line, or on three if the terminal is narrow."""
    room = screen.columns - drawn
    when, note = screen.when(version.at), _version_note(version)
    seq = (pad(f"@{version.seq}", wide), "id")
    if screen.columns < _NARROW_LOG:
        below = f"{_why(version)}{f': {note}' if note else ''}"
        return [
            [seq, (f" {version.id}", "dim")],
            [(crop(below, room), "")],
            [(crop(when, room), "dim")],
        ]
    why = pad(crop(_why(version), min(triggers, room // 3)), min(triggers, room // 3))
    left = room - wide - width(why) - width(when) - 20
    text = pad(crop(note, left), left) if left > 3 else ""
    return [
        [
            seq,
            (f"  {version.id}  ", "dim"),
            (why, _LOOKS.get(str(version.trigger), "")),
            (f"  {text}  ", ""),
            (when, "dim"),
        ]
    ]


# -- diff

_DEEPEST = 6  # levels into a value before it is compared whole
_NARROW_DIFF = 50  # columns
_MOST_PLACES = 40  # places inside one entry that a terminal shows
_BY_STEP = ("steps", "approval", "error")  # sections whose keys are steps
_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_NOTHING: Any = object()


def run_diff(args: Args, ctx: Context) -> int:
    old, new = [*args.rest, None, None][:2]
    found = compare_versions(ctx.project, ctx.caller, old, new, args.paths)
    if args.json:
        return ctx.answer(found)
    screen = ctx.screen()
    screen.show(_diff_page(found, screen, stat=args.stat))
    return 0


def _diff_page(both: Compared, screen: Screen, *, stat: bool) -> list[Line]:
    found = both.found
    lines: list[Line] = []
    for mark, style, target in (("--- ", "removed", both.old), ("+++ ", "added", both.new)):
        version = target.version
        at = version.at if version is not None else target.row.updated_at
        known = version.id if version is not None else (target.row.checkpoint or "")[:12]
        about = f"  {known}  {screen.when(at)}" if known else f"  {screen.when(at)}"
        lines += _fit([(mark, style), (f"{target.row.run_id}@{target.seq}", "id"), (about, "dim")], screen)
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
    return lines if found or both.contents else [*lines, [("Nothing differs.", "dim")]]


def _section(name: str, entries: Section, contents: Container[str], screen: Screen) -> list[Line]:
    """Return the entries that differ, without the files whose ``contents`` are shown."""
    marked = []
    for kind in _MARKS:
        for key, each in getattr(entries, kind).items():
            about = getattr(each, "new", each)
            path = about.get("path") if isinstance(about, dict) else None
            if (path if isinstance(path, str) else key) not in contents:
                marked.append((key, kind, each))
    lines: list[Line] = [[], [(name, "head")]] if marked else []
    label = step_name if name in _BY_STEP else clean
    for key, kind, each in sorted(marked, key=lambda entry: entry[0]):
        if kind == "changed":
            lines += _changed_entry(f"  ~ {label(key)}", each.old, each.new, screen)
        elif isinstance(each, dict) and isinstance(each.get("status"), str):  # a step: its status says enough
            lines += _one_sided(f"  {_MARKS[kind]} {label(key)}", ": ", clean(each["status"]), kind, screen)
        else:
            lines += _one_sided(f"  {_MARKS[kind]} {label(key)}", " = ", value(each), kind, screen)
    return lines


def _one_sided(label: str, between: str, text: str, style: str, screen: Screen) -> list[Line]:
    return _fit([(label, style), (between, "dim"), (text, style)], screen)


def _changed_entry(label: str, old: Any, new: Any, screen: Screen) -> list[Line]:
    """Return an entry that both sides have: only the places inside it that differ."""

    def change(label: str, old: str, new: str) -> list[Line]:
        arrow: Line = [(": ", "dim"), (old, "removed"), (" → ", "dim"), (new, "added")]
        return _fit([(label, "changed"), *arrow], screen)

    parts = _differences((), old, new)
    if len(parts) == 1 and parts[0][0] == ():
        return change(label, value(old), value(new))
    lines = _fit([(label, "changed")], screen)
    status = next((part for part in parts if part[0] == ("status",)), None)
    if status is not None and _NOTHING not in status and isinstance(old["status"], str):
        lines = change(label, clean(old["status"]), clean(str(new["status"])))
        parts.remove(status)
    for path, before, after in parts[:_MOST_PLACES] if screen.fancy else parts:
        place = clean("".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path))
        place = place.removeprefix(".")
        if before is _NOTHING:
            lines += _one_sided(f"      + {place}", " = ", value(after), "added", screen)
        elif after is _NOTHING:
            lines += _one_sided(f"      - {place}", " = ", value(before), "removed", screen)
        else:
            lines += change(f"      ~ {place}", value(before), value(after))
    if screen.fancy and len(parts) > _MOST_PLACES:
        lines.append([(f"      … and {len(parts) - _MOST_PLACES} more places", "dim")])
    return lines


def _differences(
    path: tuple[str | int, ...], old: Any, new: Any
) -> list[tuple[tuple[str | int, ...], Any, Any]]:
    """Return the places where two values differ, from the outside in."""
    if same(old, new):
        return []
    left: dict[Any, Any]
    right: dict[Any, Any]
    if len(path) >= _DEEPEST or not old or not new:
        return [(path, old, new)]
    if isinstance(old, dict) and isinstance(new, dict):
        left, right = old, new
    elif isinstance(old, list) and isinstance(new, list):
        left, right = dict(enumerate(old)), dict(enumerate(new))
    else:
        return [(path, old, new)]
    out = []
    for key in sorted({*left, *right}):
        before, after = left.get(key, _NOTHING), right.get(key, _NOTHING)
        if before is _NOTHING or after is _NOTHING:
            out.append(((*path, key), before, after))
        else:
            out += _differences((*path, key), before, after)
    return out


def _fit(line: Line, screen: Screen) -> list[Line]:
    """Fit a line into a terminal: each of two values gets its share; on a narrow one, the rest continues below."""
    if not screen.fancy or line_width(line) <= screen.columns:
        return [line]
    return (
        [shared(line, screen.columns)] if screen.columns >= _NARROW_DIFF else wrapped(line, screen.columns, 4)
    )


# -- fork


def run_fork(args: Args, ctx: Context) -> int:
    ctx.need_name()
    caller = Caller(named=args.run)  # --branch is where the fork goes, not where `@` is looked for
    variables = usage_errors(lambda: assignments(args.var))
    made, source = fork_run(ctx.project, caller, ctx.word, args.branch, args.run_id, variables)
    if not args.json:
        ctx.out(made.run_id)
        came = f"{source.row.run_id}@{source.seq}"
        ctx.say(f"leftoff: forked from {came}; `leftoff resume {made.run_id}` continues it.")
    return ctx.answer(made)
