"""``leftoff show``: one run at one version, as a page."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.failures import failure_lines, in_words
from leftoff.cli.render.layout import facts
from leftoff.cli.render.text import clean, crop, pad, size, step_name, value, width
from leftoff.errors import Usage
from leftoff.model.ids import as_word, shown_step
from leftoff.model.times import lasted, millis
from leftoff.model.words import AS_WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line

PARTS = ("steps", "variables", "artifacts", "files")
_FOR_A_PART = ("approval",)  # of the other records: a run may have a million of them

_GRAPH = ("context", "graph")  # which step needs which: the file says it better
SPEC = Spec(
    "show",
    "Show a run as it is now, or as it was at a checkpoint: steps, variables, artifacts, files and "
    "records.\n\n"
    "REF is a run, RUN@SEQ, RUN~N, a checkpoint id, #ISSUE, a workflow or title, or `latest`; @ is the "
    "current run.",
    usage="[REF]",
    most=1,
    options=(
        Opt("--steps", None, "only its steps"),
        Opt("--variables", None, "only its variables"),
        Opt("--artifacts", None, "only its artifacts"),
        Opt("--files", None, "only the files it tracks"),
        *CURRENT,
    ),
    examples="""  leftoff show                  the current run
  leftoff show latest --steps   how far the latest run got
  leftoff show @~1              the current run, one checkpoint back
  leftoff show 3f9a --json      a checkpoint, for a program""",
)

NARROW = 40  # columns: below, a step's symbol must do

STEP_LOOK = {
    "pending": ("○", "dim"),
    "running": ("●", "busy"),
    "waiting": ("◔", "warn"),
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "blocked": ("■", "warn"),
    "skipped": ("–", "dim"),
}


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import show

    parts = [part for part in PARTS if getattr(args, part)]
    if len(parts) > 1:
        raise Usage(f"--{parts[0]} and --{parts[1]} cannot be combined.", hint=f"usage: {SPEC.line()}")
    whole = None if args.json or not parts or args.variables else _FOR_A_PART
    found = show(ctx.project, ctx.caller, args.rest[0] if args.rest else None, whole)
    if args.json:
        ctx.emit(found)
        return 0
    screen = ctx.screen()
    lines = page(found, screen) if not parts else part_lines(parts[0], found, screen)
    if lines:
        screen.show(lines)
    else:
        ctx.say(f"Run {found['run_id']} has no {parts[0]}.")
    return 0


def page(found: dict[str, Any], screen: Screen) -> list[Line]:
    """The whole page: what it is, then each part that has anything in it."""
    lines = [*_title(found, screen), *facts(_about(found, screen), screen.columns)]
    for part in PARTS:
        lines += section(part.capitalize(), part_lines(part, found, screen))
    lines += _turns(found)
    for name, records in found["records"].items():
        if name in ("run", "turn"):
            continue
        if name == "error":
            from leftoff.engine.read.turns import other_errors

            lines += section("Errors", failure_lines(other_errors(found["records"]), found["run_id"]))
            continue
        tell = approval if name == "approval" else _record
        said = {
            key: record
            for key, record in records.items()
            if (name, key) not in (("extra", AS_WRITTEN), _GRAPH)
        }
        shown = [(_record_name(key, record, screen), tell(record)) for key, record in said.items()]
        lines += section(name.capitalize(), pairs(shown, screen))
    return lines


def _turns(found: dict[str, Any]) -> list[Line]:
    """What an agent's session was asked, where it stopped, what is left."""
    from leftoff.engine.read import turns

    known, health = turns.turns_of(found), found["health"]
    if not known:
        return []

    parts = {
        "Asked, newest first": turns.asked(known, health),
        "Where it stopped": turns.stopped(known, health),
        "Left to do": turns.left(known, found["records"]),
    }
    out: list[Line] = []
    for title, told in parts.items():
        shown = [line.removeprefix("- ") for entry in told for line in entry.split("\n")]
        out += section(title, [[(line, "")] for line in shown])
    return out


def section(title: str, lines: list[Line]) -> list[Line]:
    return [[], [(title, "head")], *([("  ", ""), *line] for line in lines)] if lines else []


def part_lines(part: str, found: dict[str, Any], screen: Screen) -> list[Line]:
    if part == "steps":
        return step_lines(found["step_records"], screen, wanted(found))
    if part == "variables":
        return pairs([(key, value(thing)) for key, thing in found["variables"].items()], screen, " = ")
    name = "name" if part == "artifacts" else "path"
    return pairs([(about[name], _file(about, name)) for about in found[part]], screen)


def _with_health(status: str, found: dict[str, Any]) -> str:
    """A run that is over is so in one word."""
    return status if found["health"] == "finished" else f"{status}, {found['health']}"


def _title(found: dict[str, Any], screen: Screen) -> list[Line]:
    from leftoff.cli.render.layout import wrapped

    title = clean(found["title"] or found["workflow"])
    return wrapped([(title, "title")], screen.columns)


def _about(found: dict[str, Any], screen: Screen) -> list[tuple[str, Line]]:
    from leftoff.cli.render.run_list import bar, status_line

    steps = found["steps"]
    status = clean(found["status"])
    done = f"{steps['completed'] + steps['skipped']} of {steps['total']} steps"
    git = f" (git: {clean(found['git_branch'])})" if found["git_branch"] else ""
    drawn = [*bar(found["percent"], found["status"]), (" ", "")] if screen.fancy else []
    out: list[tuple[str, Line]] = [
        ("run", [(found["run_id"], "id")]),
        ("workflow", [(clean(found["workflow"]), "")]),
        ("branch", [(clean(found["branch"]), ""), (git, "dim")]),
        (
            "status",
            status_line(status, found["health"]) if screen.fancy else [(_with_health(status, found), "")],
        ),
        ("progress", [*drawn, (f"{found['percent']}%", ""), (f"  {done}{_rest(steps)}", "dim")]),
    ]
    out += [(name, [(text, "")]) for name, text in _optional(found)]
    out += [(name, [(_time(found[key], screen), "")]) for name, key in _TIMES if found[key]]
    return [*out, ("version", _version(found["version"]))]


_TIMES = (("created", "created_at"), ("updated", "updated_at"), ("completed", "completed_at"))


def _rest(steps: dict[str, int]) -> str:
    words = ("running", "waiting", "failed", "blocked", "pending")
    return "".join(f", {steps[word]} {word}" for word in words if steps[word])


def _optional(found: dict[str, Any]) -> list[tuple[str, str]]:
    own = found["records"].get("run", {})
    out = []
    for name, thing in (
        ("step", shown_step(found["current_step"] or "") or None),
        ("next", shown_step(found["next_step"] or "") or None),
        ("issue", f"#{found['issue']}" if found["issue"] else None),
        ("task", own.get("task")),
        ("agent", own.get("agent")),
        ("session", found["session_id"]),
        ("parent", found["parent"]),
        ("summary", own.get("summary")),
    ):
        if thing:
            out.append((name, clean(str(thing))))
    return out


def _time(text: str, screen: Screen) -> str:
    ms = millis(text)
    if not screen.fancy or ms is None:
        return clean(text)
    return f"{clean(text[:19].replace('T', ' '))} ({screen.when(ms)})"


def _version(version: dict[str, Any]) -> Line:
    line: Line = [(f"@{version['seq']}", "id")]
    if version["checkpoint_id"]:
        why = version["trigger"] + (f" of {step_name(version['step'])}" if version["step"] else "")
        line.append((f", checkpoint {version['checkpoint_id']}, {why}", "dim"))
        if version["note"]:
            line.append((f": {clean(version['note'])}", "dim"))
    return line


# -- the parts


def step_lines(records: list[dict[str, Any]], screen: Screen, wants: dict[str, list[str]]) -> list[Line]:
    """A line for each step, indented by its depth; below it, why it failed, or what it wants of a person."""
    records = _with_phases(records)
    if not screen.fancy:
        return _bare_steps(records, wants)
    room = screen.columns - 4
    names = [_step_name(record) for record in records]
    wide = min(max((width(name) for name in names), default=0), room - 26 if room >= NARROW else room)
    lines: list[Line] = []
    for record, name in zip(records, names, strict=True):
        symbol, style = STEP_LOOK.get(record["status"], ("?", ""))
        line: Line = [(f"{symbol} ", style), (pad(crop(name, wide), wide), "")]
        if room >= NARROW:
            line.append((f"  {record['status']:<9}", style if style != "good" else "dim"))
            line.append(("".join(f"  {word}" for word in _step_facts(record)), "dim"))
        lines.append(line)
        if record["error"]:
            lines.append(
                [("  " + " " * name.count("  "), ""), (crop(in_words(record["error"]), room - 2), "bad")]
            )
        lines += [[("  ", ""), (text, "warn")] for text in wants.get(record["step"], ())]
    return lines


def wanted(found: dict[str, Any]) -> dict[str, list[str]]:
    """What the steps that wait want of a person, and the command for it."""
    asked, run_id = found["records"].get("approval", {}), found["run_id"]
    out = {}
    for record in found["step_records"]:
        path, about = record["step"], asked.get(record["step"])
        if record["status"] != "waiting":
            continue
        if isinstance(about, dict):
            from leftoff.engine.steps.approvals import how

            out[path] = [
                clean(f"{about.get('ask') or 'a decision'}{_options(about)}"),
                clean(how(run_id, path)),
            ]
        elif record.get("kind") == "manual":
            told = str(record.get("instructions") or "").strip().partition("\n")[0]
            out[path] = [
                *([clean(told)] if told else []),
                clean(f"leftoff step done {as_word(path)} --run {run_id}"),
            ]
    return out


def _options(about: dict[str, Any]) -> str:
    options = about.get("options")
    until = f", until {about['deadline']}" if about.get("deadline") else ""
    return f" ({', '.join(map(str, options))}{until})" if isinstance(options, list) and options else until


def approval(about: Any) -> str:
    """A question to a person and what came of it."""
    if not isinstance(about, dict):
        return value(about)
    if about.get("status") == "waiting":
        return clean(f"waiting: {about.get('ask') or ''}{_options(about)}")
    said = str(about.get("choice") or about.get("status"))
    said += f" by {about['by']}" if about.get("by") else ""
    said += f", {about['at']}" if about.get("at") else ""
    said += f": {about['note']}" if about.get("note") else ""
    return clean(f"{said} ({about['ask']})" if about.get("ask") else said)


def _with_phases(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A step with others below it is as far as they are, whatever was recorded of itself before they began."""
    below: dict[str, list[str]] = {}
    for record in records:
        path = record["step"]
        while "/" in path:
            path = path.rpartition("/")[0]
            below.setdefault(path, []).append(record["status"])
    out = []
    for record in records:
        words = set(below.get(record["step"], ()))
        if words and record["status"] == "pending":
            ended = words <= {"completed", "skipped"}
            status = "completed" if ended else "pending" if words == {"pending"} else "running"
            record = {**record, "status": status}
        out.append(record)
    return out


def _bare_steps(records: list[dict[str, Any]], wants: dict[str, list[str]]) -> list[Line]:
    from leftoff.cli.render.text import columns

    rows = [
        (
            step_name(record["step"]),
            record["status"],
            ", ".join(
                [
                    *_step_facts(record),
                    *([in_words(record["error"])] if record["error"] else []),
                    *wants.get(record["step"], ()),
                ]
            ),
        )
        for record in records
    ]
    return [[(line, "")] for line in columns(rows)]


def _step_name(record: dict[str, Any]) -> str:
    parts = record["step"].split("/")
    name = "  " * (len(parts) - 1) + step_name(parts[-1])
    return f"{name}: {clean(str(record['title']))}" if record["title"] else name


def _step_facts(record: dict[str, Any]) -> list[str]:
    out = []
    began, ended = millis(record["started_at"]), millis(record["completed_at"])
    if began is not None and ended is not None and ended >= began:
        out.append(lasted(ended - began))
    if isinstance(record["attempt"], int) and record["attempt"] > 1 and record["status"] != "pending":
        out.append(f"attempt {record['attempt']}")
    if record["outputs"]:
        outputs = record["outputs"] if isinstance(record["outputs"], list) else [record["outputs"]]
        out.append("→ " + ", ".join(clean(str(path)) for path in outputs))
    return out


def _file(about: dict[str, Any], name: str) -> str:
    link = isinstance(about.get("target"), str)
    parts = [clean(str(about.get("status") or "")), "" if link else size(about.get("size"))]
    if link:
        parts.append(f"-> {clean(about['target'])}")
    if name != "path" and about.get("path") not in (None, about[name]):
        parts.append(clean(str(about["path"])))
    if about.get("step"):
        parts.append(f"by {step_name(str(about['step']))}")
    if about.get("captured") is False:
        parts.append("not copied")
    if isinstance(about.get("hash"), str) and not link:
        parts.append(clean(about["hash"])[:19])
    return "  ".join(part for part in parts if part)


def _record_name(key: str, record: Any, screen: Screen) -> str:
    """The key of a note is made up; when it was left says more."""
    at = millis(record.get("at")) if isinstance(record, dict) and "text" in record else None
    own = isinstance(record, dict) and record.get("step") == key
    return screen.when(at) if at is not None else shown_step(key) if own else key


def _record(record: Any) -> str:
    """A note or message by its text, a definition by its file, anything else as JSON."""
    if isinstance(record, dict) and {"path", "digest", "text"} <= set(record):
        return clean(f"{record['path']}  {str(record['digest'])[:19]}")
    if isinstance(record, dict) and isinstance(record.get("text"), str):
        by = f" ({step_name(str(record['step']))})" if record.get("step") else ""
        return clean(record["text"]) + by
    return value(record)


def pairs(shown: list[tuple[str, str]], screen: Screen, between: str = "  ") -> list[Line]:
    """Names and values, each on a line; on a terminal aligned, and cut where the line ends."""
    if not screen.fancy:
        return [[(f"{clean(name)}{between}{text}", "")] for name, text in shown]
    room = screen.columns - 2
    wide = min(max((width(clean(name)) for name, _ in shown), default=0), max(room // 2, 8))
    lines: list[Line] = []
    for name, text in shown:
        label = crop(clean(name), wide)
        lines.append(
            [
                (pad(label, wide), "id"),
                (between, "dim"),
                (crop(text, max(room - wide - len(between), 1)), "value"),
            ]
        )
    return lines
