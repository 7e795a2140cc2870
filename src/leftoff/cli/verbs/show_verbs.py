"""Show one run: its page (show), and what its steps printed (logs)."""

from __future__ import annotations

import sys
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.layout import facts, wrapped
from leftoff.cli.options import Args, number
from leftoff.cli.run_parts import bar, error_in_words, failure_lines, status_line
from leftoff.cli.screen import Screen
from leftoff.cli.tally import took
from leftoff.cli.text import Line, clean, columns, crop, pad, printable, size, step_name, tidy, value, width
from leftoff.clock import lasted, millis
from leftoff.engine.read import turns
from leftoff.engine.read.logs import Log
from leftoff.engine.read.turns import other_errors
from leftoff.engine.steps.approvals import how
from leftoff.model.ids import as_word, given_step, shown_step
from leftoff.model.words import AS_WRITTEN
from leftoff.operations.checkpoints import show
from leftoff.operations.reports import usage_errors
from leftoff.operations.runs import run_and_step
from leftoff.operations.watching.log_files import LogFile, shown, without_secrets
from leftoff.operations.watching.logs import RunLogs

# -- show

PARTS = ("steps", "variables", "artifacts", "files")
_FOR_A_PART = ("approval",)  # of the other records: a run may have a million of them

_GRAPH = ("context", "graph")  # which step needs which: the file says it better

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


def run_show(args: Args, ctx: Context) -> int:
    parts = [part for part in PARTS if getattr(args, part)]
    if len(parts) > 1:
        raise args.spec.wrong(f"--{parts[0]} and --{parts[1]} cannot be combined.")
    whole = None if args.json or not parts or args.variables else _FOR_A_PART
    found = show(ctx.project, ctx.caller, ctx.word, whole)
    if args.json:
        ctx.emit(found)
        return 0
    screen = ctx.screen()
    lines = show_page(found, screen) if not parts else part_lines(parts[0], found, screen)
    if lines:
        screen.show(lines)
    else:
        ctx.say(f"Run {found['run_id']} has no {parts[0]}.")
    return 0


def show_page(found: dict[str, Any], screen: Screen) -> list[Line]:
    """The whole page: what it is, then each part that has anything in it."""
    lines = [*_title(found, screen), *facts(_about(found, screen), screen.columns)]
    for part in PARTS:
        lines += section(part.capitalize(), part_lines(part, found, screen))
    lines += _turns(found)
    for name, records in found["records"].items():
        if name in ("run", "turn"):
            continue
        if name == "error":
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
    title = clean(found["title"] or found["workflow"])
    return wrapped([(title, "title")], screen.columns)


def _about(found: dict[str, Any], screen: Screen) -> list[tuple[str, Line]]:
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
                [
                    ("  " + " " * name.count("  "), ""),
                    (crop(error_in_words(record["error"]), room - 2), "bad"),
                ]
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
    rows = [
        (
            step_name(record["step"]),
            record["status"],
            ", ".join(
                [
                    *_step_facts(record),
                    *([error_in_words(record["error"])] if record["error"] else []),
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


# -- logs


def run_logs(args: Args, ctx: Context) -> int:
    from leftoff.operations.watching.logs import document

    if args.f and args.json:
        raise args.spec.wrong("-f and --json cannot be combined.")
    logs = which(args, ctx)
    if args.f:
        return follow(logs, ctx)
    found = logs.find()
    if args.json:
        about = {"run_id": logs.run_id, **({"archived": True} if logs.archived else {})}
        ctx.emit({**about, "logs": [document(ctx.project, log) for log in found.logs]})
        return 0
    if not found.logs:
        ctx.say(nothing(logs))
    for step, why in found.unstarted.items():
        ctx.say(f"{step_name(step)} failed without having run: {clean(why)}")
    page = LogPage(ctx, headed=len(found.logs) > 1)
    for log in found.logs:
        page.show(log, LogFile(log.path or ""), ended=True)
    page.end()
    if len(found.logs) == 1 and not found.logs[0].there and not found.logs[0].raised:
        ctx.say(silent(found.logs[0], ctx.project.now))
    return 0


def silent(log: Log, now: int) -> str:
    """Of a step without a log: how it ended, and why."""
    why = f" {clean(str(log.error['message']))}" if log.error and log.error.get("message") else ""
    return f"leftoff: {step_name(log.step)}: {', '.join(_attempt_facts(log, now))}.{why}"


def which(args: Args, ctx: Context) -> RunLogs:
    """The logs of the run and the step that are meant."""
    from leftoff.operations.watching.logs import Choice, logs_of

    ref, named = run_and_step(ctx.project, ctx.caller, args.rest)
    step = usage_errors(lambda: given_step(named.removeprefix("/"))) if named is not None else None
    choice = Choice(step, number(args.attempt, "--attempt"), args.failed)
    return logs_of(ctx.project, ctx.caller, ref, choice)


def nothing(logs: RunLogs) -> str:
    choice = logs.choice
    of = f"Step {step_name(choice.step)} of run {logs.run_id}" if choice.step else f"Run {logs.run_id}"
    if choice.failed:
        return f"{of} has no log of a failed attempt."
    if choice.number is not None:
        return f"{of} has no log of an attempt {choice.number}."
    if logs.shared:
        return (
            f"{of} has no logs here: only steps that leftoff runs have one that every machine reads; "
            "what Python code logs stays on the machine that it ran on."
        )
    return f"{of} has no logs: only steps that leftoff runs, or that log in Python, have one."


class LogPage:
    """Where logs are shown: under headings where there are several, or on a terminal."""

    def __init__(self, ctx: Context, *, headed: bool) -> None:
        self.screen = ctx.screen()
        self.terminal = sys.stdout.isatty()
        self.headed = headed or self.terminal
        self._redactor = ctx.project.redactor
        self._now = ctx.project.clock.now
        self._last: str | None = None  # whose lines came last
        self._seen: set[str] = set()  # who had a heading
        self._open = False  # whether the last line has no end yet

    def show(self, log: Log, file: LogFile, *, ended: bool) -> bool:
        """What is new in a log; whether there was anything."""
        wrote = False
        for block in file.read(ended=ended):
            if self._last != log.attempt.token and self.headed:
                self._heading(log)
            self._last = log.attempt.token
            self._write(without_secrets(block, self._redactor))
            wrote = True
        if ended and log.raised:
            if self._last != log.attempt.token and self.headed:
                self._heading(log)
            self._last = log.attempt.token
            self._write(without_secrets(log.raised.encode("utf-8", "backslashreplace"), self._redactor))
        if ended and self.headed and log.attempt.token not in self._seen:
            self._heading(log)  # it printed nothing, or what it printed is gone: also worth knowing
            self._last = log.attempt.token
        return wrote

    def end(self) -> None:
        if self._open and self.terminal:
            self._write(b"\n")
        sys.stdout.flush()

    def _heading(self, log: Log) -> None:
        self._seen.add(log.attempt.token)
        if self._open:
            self._write(b"\n")
        if self._last is not None:
            self._write(b"\n")
        about = ", ".join(_attempt_facts(log, self._now()))
        style = "bad" if log.failed else "dim"
        self.screen.show(
            [[("==> ", "dim"), (step_name(log.step), "title"), (f" ({about})", style), (" <==", "dim")]]
        )

    def _write(self, block: bytes) -> None:
        self._open = not block.endswith(b"\n")
        if not self.terminal:
            sys.stdout.flush()
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
            return
        lines = shown(block).split("\n")
        sys.stdout.write(printable("\n".join(map(tidy, lines))))
        sys.stdout.flush()


def _attempt_facts(log: Log, now: int) -> list[str]:
    """Which attempt, how it ended, how long it took."""
    about = log.attempt
    out = [f"attempt {about.number}"]
    if log.elsewhere:
        out.append(f"not ended; its log is on {clean(log.elsewhere)} until then")
    elif not log.ended:
        out.append("running" if log.is_written else "not ended")
    elif log.of_python:
        out.append("failed" if log.failed else "ended")
    elif about.exit_code is None:
        out.append("no exit code")
    else:
        out.append(f"exit {about.exit_code}" if about.exit_code >= 0 else f"signal {-about.exit_code}")
    end = now if about.ended_at is None else about.ended_at
    if about.started_at is not None and (log.ended or log.is_written):
        out.append(took((end - about.started_at) / 1000))
    if log.silent:
        out.append("printed nothing")
    elif not log.there and not log.of_python and not log.elsewhere:
        gone = "its log is gone" if about.log else "no log"
        out.append("has printed nothing yet" if log.is_written else gone)
    return out


# -- following


def follow(logs: RunLogs, ctx: Context) -> int:
    """Until the run is finished or paused, or nobody is there who could add anything."""
    page = LogPage(ctx, headed=True)
    files: dict[str, LogFile] = {}
    done: set[str] = set()
    for found, more in logs.follow():
        for log in found.logs:
            _add(log, files, done, page, over=not more)
    page.end()
    if not done:
        ctx.say(nothing(logs))
    return 0


def _add(log: Log, files: dict[str, LogFile], done: set[str], page: LogPage, *, over: bool) -> None:
    token = log.attempt.token
    if token in done:
        return
    file = files.setdefault(token, LogFile(log.path or ""))
    page.show(log, file, ended=log.ended or over)
    if log.ended or over:
        done.add(token)
        del files[token]
