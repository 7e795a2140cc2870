"""``leftoff diff``: what differs between two versions, as a diff reads: ``+`` came, ``-`` went, ``~`` changed."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean, step_name, value, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line
    from leftoff.engine.read.diff import Section
    from leftoff.engine.read.find import Target
    from leftoff.operations.checkpoints import Compared

SPEC = Spec(
    "diff",
    "Compare two versions of a run: steps, variables, artifacts, records and the content of files. One "
    "REF is compared with now; without a REF, the last checkpoint is.",
    usage="[REF [REF]] [-- PATH…]",
    most=2,
    paths=True,
    options=(Opt("--stat", None, "only how much changed, and where"), *CURRENT),
    examples="""  leftoff diff                what happened since the last checkpoint
  leftoff diff @~1            since the checkpoint before the last
  leftoff diff @~1 -- src     in the files below src
  leftoff diff RUN@3 RUN@7    between two versions
  leftoff diff 3f9a 77c0      between two checkpoints, also of different runs""",
)

DEEPEST = 6  # levels into a value before it is compared whole
NARROW = 50  # columns
MOST = 40  # places inside one entry that a terminal shows
_BY_STEP = ("steps", "approval", "error")  # sections whose keys are steps


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import compare

    old, new = [*args.rest, None, None][:2]
    found = compare(ctx.project, ctx.caller, old, new, args.paths)
    if args.json:
        return ctx.answer(found)
    screen = ctx.screen()
    screen.show(page(found, screen, stat=args.stat))
    return 0


def page(both: Compared, screen: Screen, *, stat: bool = False) -> list[Line]:
    found = both.found
    lines = _fit([("--- ", "removed"), *_named(both.old, screen)], screen)
    lines += _fit([("+++ ", "added"), *_named(both.new, screen)], screen)
    named = {name: getattr(found, name) for name in ("steps", "variables", "artifacts", "files")}
    for name, entries in {**named, **found.records}.items():
        lines += counted(name, entries) if stat else section(name, _without(entries, both.contents), screen)
    lines += stats(both) if stat else contents(both, screen)
    return lines if found or both.contents else [*lines, [("Nothing differs.", "dim")]]


def _without(entries: Section, paths: Container[str]) -> Section:
    """Without the files whose content is shown."""
    from leftoff.engine.read.diff import Section

    out = Section({}, {}, set())
    for name in ("added", "removed", "changed"):
        there = getattr(entries, name)
        setattr(out, name, {key: each for key, each in there.items() if _path(key, each) not in paths})
    return out


def _path(key: str, entry: Any) -> str:
    about = getattr(entry, "new", entry)
    path = about.get("path") if isinstance(about, dict) else None
    return path if isinstance(path, str) else key


def contents(both: Compared, screen: Screen) -> list[Line]:
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


def counted(name: str, entries: Section) -> list[Line]:
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


def stats(both: Compared) -> list[Line]:
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


def section(name: str, entries: Section, screen: Screen) -> list[Line]:
    if not entries:
        return []
    lines: list[Line] = [[], [(name, "head")]]
    label = step_name if name in _BY_STEP else clean
    marked = {**{key: "+" for key in entries.added}, **{key: "-" for key in entries.removed}}
    marked.update({key: "~" for key in entries.changed})
    for key in sorted(marked):
        if marked[key] == "+":
            lines += one("+", label(key), entries.added[key], screen)
        elif marked[key] == "-":
            lines += one("-", label(key), entries.removed[key], screen)
        else:
            lines += changed(label(key), entries.changed[key].old, entries.changed[key].new, screen)
    return lines


def one(mark: str, name: str, thing: Any, screen: Screen) -> list[Line]:
    """An entry that is on one side only."""
    style = "added" if mark == "+" else "removed"
    if isinstance(thing, dict) and isinstance(thing.get("status"), str):  # a step: how far it is says enough
        return _fit([(f"  {mark} {name}", style), (": ", "dim"), (clean(thing["status"]), style)], screen)
    return _fit([(f"  {mark} {name}", style), (" = ", "dim"), (value(thing), style)], screen)


def changed(name: str, old: Any, new: Any, screen: Screen) -> list[Line]:
    """An entry that is on both: only the places inside it that differ."""
    parts = differences((), old, new)
    label = f"  ~ {name}"
    if len(parts) == 1 and parts[0][0] == ():
        return _fit(_change(label, value(old), value(new)), screen)
    lines = _fit([(label, "changed")], screen)
    status = next((part for part in parts if part[0] == ("status",)), None)
    if status is not None and _NOTHING not in status and isinstance(old["status"], str):
        lines = _fit(_change(label, clean(old["status"]), clean(str(new["status"]))), screen)
        parts.remove(status)
    for path, before, after in parts[:MOST] if screen.fancy else parts:
        place = _place(path)
        if before is _NOTHING:
            lines += _fit([(f"      + {place}", "added"), (" = ", "dim"), (value(after), "added")], screen)
        elif after is _NOTHING:
            lines += _fit(
                [(f"      - {place}", "removed"), (" = ", "dim"), (value(before), "removed")], screen
            )
        else:
            lines += _fit(_change(f"      ~ {place}", value(before), value(after)), screen)
    if screen.fancy and len(parts) > MOST:
        lines.append([(f"      … and {len(parts) - MOST} more places", "dim")])
    return lines


def _change(label: str, old: str, new: str) -> Line:
    return [(label, "changed"), (": ", "dim"), (old, "removed"), (" → ", "dim"), (new, "added")]


class _Nothing:
    pass


_NOTHING: Any = _Nothing()


def differences(
    path: tuple[str | int, ...], old: Any, new: Any
) -> list[tuple[tuple[str | int, ...], Any, Any]]:
    """The places where two values differ, from the outside in."""
    from leftoff.engine.read.diff import same

    if same(old, new):
        return []
    keys: list[Any]
    if len(path) >= DEEPEST or not old or not new:
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
            out += differences(inside, left[key], right[key])
    return out


def _place(path: tuple[str | int, ...]) -> str:
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return clean(out)


def _fit(line: Line, screen: Screen) -> list[Line]:
    """On a terminal, within its width: each of two values gets its share of the line; if narrow, all goes on below."""
    from leftoff.cli.render.layout import line_width, shared, wrapped

    if not screen.fancy or line_width(line) <= screen.columns:
        return [line]
    return [shared(line, screen.columns)] if screen.columns >= NARROW else wrapped(line, screen.columns, 4)
