"""Look into a run's history: log, diff, fork."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.layout import line_width, shared, wrapped
from leftoff.cli.options import Args, assignments, count
from leftoff.cli.screen import Screen
from leftoff.cli.text import Line, clean, columns, crop, pad, step_name, value, visible, width
from leftoff.engine.read.diff import Section, same
from leftoff.engine.read.find import Target
from leftoff.model.versions import Version
from leftoff.operations import Caller
from leftoff.operations.checkpoints import Compared, Fork, History, compare, fork, history
from leftoff.operations.reports import usage_errors

# -- log


_NARROW_LOG = 64  # columns: below, a checkpoint takes two lines
_LOOKS = {"error": "bad", "rollback": "graph", "step_complete": "good"}


def run_log(args: Args, ctx: Context) -> int:
    most = count("-n", args.n) if args.n is not None else None
    return show_log(history(ctx.project, ctx.caller, ctx.word, most), ctx)


def show_logs(found: list[History], ctx: Context) -> int:
    """What `resume --list` shows: of several runs, each below its name."""
    if len(found) == 1:
        return show_log(found[0], ctx)
    if ctx.args.json:
        ctx.emit({"checkpoints": [each for run in found for each in run.to_json()["checkpoints"]]})
        return 0
    screen, lines = ctx.screen(), []
    for run in found:
        number = len(run.versions)
        lines.append([(f"{run.target.row.run_id}: {number} checkpoint{'' if number == 1 else 's'}", "")])
        lines += (
            (_graph(run, screen) if screen.fancy else _bare_log(run.versions, screen)) if run.versions else []
        )
    screen.page(lines)
    return 0


def show_log(found: History, ctx: Context) -> int:
    if ctx.args.json:
        return ctx.answer(found)
    if not found.versions:
        ctx.say(f"Run {found.target.row.run_id} has no checkpoints yet. `leftoff save` saves one.")
        return 0
    screen = ctx.screen()
    screen.page(_graph(found, screen) if screen.fancy else _bare_log(found.versions, screen))
    return 0


def _bare_log(versions: list[Version], screen: Screen) -> list[Line]:
    rows = [
        (
            str(version.id),
            f"@{version.seq}",
            clean(str(version.trigger)),
            step_name(version.step or "-"),
            screen.when(version.at),
            _version_note(version),
        )
        for version in versions
    ]
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
        lines += lanes.lines(version, lambda mark, v=version: _version_lines(v, mark, screen, wide, triggers))
    if row.card.get("parent"):
        lines.append([("╰ ", "graph"), (f"forked from {clean(str(row.card['parent']))}", "dim")])
    return lines


class Lanes:
    """The lines of a graph, drawn from the newest checkpoint down: each lane waits for the checkpoint it goes on to."""

    def __init__(self, found: History) -> None:
        self._parents = found.parents()
        self._forks = found.forks()
        self._waiting: list[int | None] = []

    def lines(self, version: Version, told: Any) -> list[Line]:
        """What is drawn for one checkpoint; ``told`` gives its text, line by line, for a graph of some width."""
        out: list[Line] = []
        here = [i for i, seq in enumerate(self._waiting) if seq == version.seq]
        if len(here) > 1:
            out.append([(self._joined(here), "graph")])
        lane = here[0] if here else self._open(version.seq)
        symbol = "↺" if version.trigger == "rollback" else "●"
        mark = self._row({lane: symbol})
        self._waiting[lane] = self._parents[version.seq]
        self._trim()
        for number, text in enumerate(told(width(mark))):
            out.append([(mark if number == 0 else pad(self._row({}), width(mark)), "graph"), *text])
        for each in self._forks.get(version.seq, []):
            branch = self._row({lane: "├"}).rstrip() + "─▸ "
            out.append(
                [
                    (branch, "graph"),
                    (each.run_id, "id"),
                    (f"  fork on {clean(each.branch)}, {each.status}", "dim"),
                ]
            )
        return out

    def _open(self, seq: int) -> int:
        """A lane for a checkpoint that nothing shown so far follows."""
        if None in self._waiting:
            lane = self._waiting.index(None)
            self._waiting[lane] = seq
            return lane
        self._waiting.append(seq)
        return len(self._waiting) - 1

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
    """What was noted, behind the other names that the checkpoint can be given by."""
    return " ".join(clean(part) for part in (*version.aliases, version.note or "") if part)


def _version_lines(version: Version, drawn: int, screen: Screen, wide: int, triggers: int) -> list[Line]:
    """One checkpoint: on one line, or on two where the terminal is narrow."""
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


def run_diff(args: Args, ctx: Context) -> int:
    old, new = [*args.rest, None, None][:2]
    found = compare(ctx.project, ctx.caller, old, new, args.paths)
    if args.json:
        return ctx.answer(found)
    screen = ctx.screen()
    screen.show(diff_page(found, screen, stat=args.stat))
    return 0


def diff_page(both: Compared, screen: Screen, *, stat: bool = False) -> list[Line]:
    found = both.found
    lines = _fit([("--- ", "removed"), *_named(both.old, screen)], screen)
    lines += _fit([("+++ ", "added"), *_named(both.new, screen)], screen)
    named = {name: getattr(found, name) for name in ("steps", "variables", "artifacts", "files")}
    for name, entries in {**named, **found.records}.items():
        lines += _counted(name, entries) if stat else _section(name, _without(entries, both.contents), screen)
    lines += _stats(both) if stat else _contents(both, screen)
    return lines if found or both.contents else [*lines, [("Nothing differs.", "dim")]]


def _without(entries: Section, paths: Container[str]) -> Section:
    """Without the files whose content is shown."""
    out = Section({}, {}, set())
    for name in ("added", "removed", "changed"):
        there = getattr(entries, name)
        setattr(out, name, {key: each for key, each in there.items() if _path(key, each) not in paths})
    return out


def _path(key: str, entry: Any) -> str:
    about = getattr(entry, "new", entry)
    path = about.get("path") if isinstance(about, dict) else None
    return path if isinstance(path, str) else key


def _contents(both: Compared, screen: Screen) -> list[Line]:
    """What changed in each file, as a unified diff; on a terminal, tabs are as wide as they are there."""
    lines: list[Line] = []
    styles = {"+": "added", "-": "removed", "@": "graph"}
    for change in both.contents.values():
        lines.append([])
        for text in (change.text.expandtabs() if screen.fancy else change.text).splitlines():
            lines.append(
                [(visible(text), "head" if text[:4] in ("+++ ", "--- ") else styles.get(text[:1], ""))]
            )
    return lines


def _counted(name: str, entries: Section) -> list[Line]:
    """How many entries came, went and changed."""
    if not entries or name == "files":
        return []
    marks = (
        (entries.added, "+", "added"),
        (entries.removed, "-", "removed"),
        (entries.changed, "~", "changed"),
    )
    return [
        [(f"  {clean(name)} ", ""), *((f" {mark}{len(each)}", style) for each, mark, style in marks if each)]
    ]


def _stats(both: Compared) -> list[Line]:
    return [
        [(f"  {clean(path)} ", ""), (f" +{change.added}", "added"), (f" -{change.removed}", "removed")]
        for path, change in both.contents.items()
    ]


def _named(target: Target, screen: Screen) -> Line:
    version = target.version
    at = version.at if version is not None else target.row.updated_at
    known = version.id if version is not None else (target.row.checkpoint or "")[:12]
    return [
        (f"{target.row.run_id}@{target.seq}", "id"),
        (f"  {known}" if known else "", "dim"),
        (f"  {screen.when(at)}", "dim"),
    ]


def _section(name: str, entries: Section, screen: Screen) -> list[Line]:
    if not entries:
        return []
    lines: list[Line] = [[], [(name, "head")]]
    label = step_name if name in _BY_STEP else clean
    marked = {**{key: "+" for key in entries.added}, **{key: "-" for key in entries.removed}}
    marked.update({key: "~" for key in entries.changed})
    for key in sorted(marked):
        if marked[key] == "+":
            lines += _one_sided("+", label(key), entries.added[key], screen)
        elif marked[key] == "-":
            lines += _one_sided("-", label(key), entries.removed[key], screen)
        else:
            lines += _changed_entry(label(key), entries.changed[key].old, entries.changed[key].new, screen)
    return lines


def _one_sided(mark: str, name: str, thing: Any, screen: Screen) -> list[Line]:
    """An entry that is on one side only."""
    style = "added" if mark == "+" else "removed"
    if isinstance(thing, dict) and isinstance(thing.get("status"), str):  # a step: how far it is says enough
        return _fit([(f"  {mark} {name}", style), (": ", "dim"), (clean(thing["status"]), style)], screen)
    return _fit([(f"  {mark} {name}", style), (" = ", "dim"), (value(thing), style)], screen)


def _changed_entry(name: str, old: Any, new: Any, screen: Screen) -> list[Line]:
    """An entry that is on both: only the places inside it that differ."""
    parts = _differences((), old, new)
    label = f"  ~ {name}"
    if len(parts) == 1 and parts[0][0] == ():
        return _fit(_change(label, value(old), value(new)), screen)
    lines = _fit([(label, "changed")], screen)
    status = next((part for part in parts if part[0] == ("status",)), None)
    if status is not None and _NOTHING not in status and isinstance(old["status"], str):
        lines = _fit(_change(label, clean(old["status"]), clean(str(new["status"]))), screen)
        parts.remove(status)
    for path, before, after in parts[:_MOST_PLACES] if screen.fancy else parts:
        place = _place(path)
        if before is _NOTHING:
            lines += _fit([(f"      + {place}", "added"), (" = ", "dim"), (value(after), "added")], screen)
        elif after is _NOTHING:
            lines += _fit(
                [(f"      - {place}", "removed"), (" = ", "dim"), (value(before), "removed")], screen
            )
        else:
            lines += _fit(_change(f"      ~ {place}", value(before), value(after)), screen)
    if screen.fancy and len(parts) > _MOST_PLACES:
        lines.append([(f"      … and {len(parts) - _MOST_PLACES} more places", "dim")])
    return lines


def _change(label: str, old: str, new: str) -> Line:
    return [(label, "changed"), (": ", "dim"), (old, "removed"), (" → ", "dim"), (new, "added")]


class _Nothing:
    pass


_NOTHING: Any = _Nothing()


def _differences(
    path: tuple[str | int, ...], old: Any, new: Any
) -> list[tuple[tuple[str | int, ...], Any, Any]]:
    """The places where two values differ, from the outside in."""
    if same(old, new):
        return []
    keys: list[Any]
    if len(path) >= _DEEPEST or not old or not new:
        return [(path, old, new)]
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        left, right = dict(old), dict(new)
    elif isinstance(old, list) and isinstance(new, list):
        keys = list(range(max(len(old), len(new))))
        left, right = dict(enumerate(old)), dict(enumerate(new))
    else:
        return [(path, old, new)]
    out = []
    for key in keys:
        inside = (*path, key)
        if key not in left:
            out.append((inside, _NOTHING, right[key]))
        elif key not in right:
            out.append((inside, left[key], _NOTHING))
        else:
            out += _differences(inside, left[key], right[key])
    return out


def _place(path: tuple[str | int, ...]) -> str:
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return clean(out)


def _fit(line: Line, screen: Screen) -> list[Line]:
    """On a terminal, within its width: each of two values gets its share of the line; if narrow, all goes on below."""
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
    wanted = Fork(ctx.word, args.branch, args.run_id, variables)
    made = fork(ctx.project, caller, wanted)
    if not args.json:
        ctx.out(made.info.run_id)
        came = f"{made.source.row.run_id}@{made.source.seq}"
        ctx.say(f"leftoff: forked from {came}; `leftoff resume {made.info.run_id}` continues it.")
    return ctx.answer(made)
