"""Show one run: its page (show), and what its steps printed (logs)."""

from __future__ import annotations

import sys
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.list_verbs import HEALTH_LOOK, bar, status_line
from leftoff.cli.options import Args, number
from leftoff.cli.screen import Screen, crop, facts, wrapped
from leftoff.cli.text import Line, clean, columns, pad, printable, size, step_name, tidy, value, width
from leftoff.clock import lasted, millis
from leftoff.engine.approvals import how
from leftoff.engine.attempt_logs import AttemptLog, Choice
from leftoff.engine.brief import is_ours, touched_files
from leftoff.engine.run_info import wait_words
from leftoff.engine.turn_story import other_errors, turn_lines
from leftoff.errors import usage_errors
from leftoff.model.ids import ancestors, as_word, given_step, parent_of, shown_step
from leftoff.operations.checkpoints import show
from leftoff.operations.runs import run_and_step
from leftoff.operations.watching import LogFile, RunLogs, log_document, log_text, logs_of, redacted_log
from leftoff.workflow.durations import duration_text

# -- show

PARTS = ("steps", "variables", "artifacts", "files")
NARROW = 40  # columns: a narrower page shows only the symbol of a step's status
# Records that the page leaves out: it shows them elsewhere, or a file has them.
_CALM = ("pending", "completed", "skipped")  # items that need no look
_MOST_ITEMS = 10  # items of a step that are shown one by one
_MOST_FAILURES = 10  # failures that are shown in full
_MOST_TRACE = 12  # lines of a traceback: its end says most
_MOST_RESULT = 300  # characters of a result that could not be stored

STEP_LOOK = {
    "pending": ("○", "dim"), "running": ("●", "busy"), "waiting": ("◔", "warn"), "completed": ("✓", "good"),
    "failed": ("✗", "bad"), "blocked": ("■", "warn"), "skipped": ("–", "dim"),
}  # fmt: skip


def run_show(args: Args, ctx: Context) -> int:
    parts = [part for part in PARTS if getattr(args, part)]
    if len(parts) > 1:
        raise args.spec.wrong(f"--{parts[0]} and --{parts[1]} cannot be combined.")
    # A run may have a million records: for one part, only approvals are read.
    whole = None if args.json or not parts or args.variables else ("approval",)
    found = show(ctx.project, ctx.caller, ctx.word, whole)
    if args.json:
        return ctx.answer(found)
    screen = ctx.screen()
    lines = show_page(found, screen) if not parts else _part_lines(parts[0], found, screen)
    if lines:
        screen.page(lines)
    else:
        ctx.say(f"Run {found['run_id']} has no {parts[0]}.")
    return 0


def show_page(found: dict[str, Any], screen: Screen) -> list[Line]:
    """Return the whole page: what the run is, then each part that has anything in it."""
    lines = wrapped([(clean(found["title"] or found["workflow"]), "title")], screen.columns)
    lines += facts(_about(found, screen), screen.columns)
    touched = set(
        touched_files(found)
    )  # not what was uncommitted before the run, such as leftoff's own hooks
    brief = _folded(found) | {"files": [about for about in found["files"] if about["path"] in touched]}
    for part in PARTS:
        shown = _part_lines(part, brief, screen)
        lines += _section(part.capitalize(), shown)
    titles = ("Asked, newest first", "Where it stopped", "Left to do")
    for title, told in zip(titles, turn_lines(found), strict=True):  # of an agent's session
        texts = [line.removeprefix("- ") for entry in told for line in entry.split("\n")]
        lines += _section(title, [[(line, "")] for line in texts])
    for name, records in found["records"].items():
        if name == "error":
            lines += _section("Errors", _failure_lines(other_errors(found["records"]), found["run_id"]))
        elif name not in ("run", "turn"):
            tell = _approval if name == "approval" else _record
            own = {
                key: record
                for key, record in records.items()
                if not is_ours(name, key) and (name, key) != ("context", "graph")
            }
            named = [(_record_name(key, record, screen), tell(record)) for key, record in own.items()]
            lines += _section(name.capitalize(), _pairs(named, screen))
    return lines


def _section(title: str, lines: list[Line]) -> list[Line]:
    return [[], [(title, "head")], *([("  ", ""), *line] for line in lines)] if lines else []


def _part_lines(part: str, found: dict[str, Any], screen: Screen) -> list[Line]:
    if part == "steps":
        return _step_lines(found, screen)
    if part == "variables":
        return _pairs([(key, value(thing)) for key, thing in found["variables"].items()], screen, " = ")
    name = "name" if part == "artifacts" else "path"
    return _pairs([(about[name], _file(about, name)) for about in found[part]], screen)


def _about(found: dict[str, Any], screen: Screen) -> list[tuple[str, Line]]:
    steps, version, own = found["steps"], found["version"], found["records"].get("run", {})
    state, health = clean(found["state"]), found["health"]
    done = f"{steps['completed'] + steps['skipped']} of {steps['total']} steps"
    words = ("running", "waiting", "failed", "blocked", "pending")
    done += "".join(f", {steps[word]} {word}" for word in words if steps[word])
    git = f" (git: {clean(found['git_branch'])})" if found["git_branch"] else ""
    bare = f"{state}, {health}" if health in HEALTH_LOOK else state
    drawn = [*bar(found["percent"], found["status"]), (" ", "")] if screen.fancy else []
    out: list[tuple[str, Line]] = [
        ("run", [(found["run_id"], "id")]),
        ("workflow", [(clean(found["workflow"]), "")]),
        ("branch", [(clean(found["branch"]), ""), (git, "dim")]),
        ("state", status_line(state, health) if screen.fancy else [(bare, "")]),
        ("progress", [*drawn, (f"{found['percent']}%", ""), (f"  {done}", "dim")]),
    ]
    optional = {
        "step": shown_step(found["current_step"] or ""),
        "next": shown_step(found["next_step"] or ""),
        "issue": f"#{found['issue']}" if found["issue"] else None,
        "task": own.get("task"),
        "agent": own.get("agent"),
        "session": found["session_id"],
        "parent": found["parent"],
        "why": found["why"],
        "summary": own.get("summary"),
    }
    out += [(name, [(clean(str(thing)), "")]) for name, thing in optional.items() if thing]
    for name in ("created", "updated", "completed"):
        if text := found[f"{name}_at"]:
            ms = millis(text)
            if screen.fancy and ms is not None:
                text = f"{text[:19].replace('T', ' ')} ({screen.when(ms)})"
            out.append((name, [(clean(text), "")]))
    line: Line = [(f"@{version['seq']}", "id")]
    if version["checkpoint_id"]:
        why = version["trigger"] + (f" of {step_name(version['step'])}" if version["step"] else "")
        note = f": {clean(version['note'])}" if version["note"] else ""
        line.append((f", checkpoint {version['checkpoint_id']}, {why}{note}", "dim"))
    return [*out, ("version", line)]


def _folded(found: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the items of a step that has many, except those that need a look.

    The step gets a summary of them: "200/200, 2 failed".
    """
    items: dict[str, list[dict[str, Any]]] = {}
    for record in found["step_records"]:
        if record["item"] is not None:
            items.setdefault(parent_of(record["step"]), []).append(record)
    steps = {record["step"] for record in found["step_records"]}
    many = {path: each for path, each in items.items() if path in steps and len(each) > _MOST_ITEMS}
    hidden, told = set(), {}
    for path, each in many.items():
        status = [record["status"] for record in each]
        odd = [record["step"] for record in each if record["status"] not in _CALM][:_MOST_ITEMS]
        hidden |= {record["step"] for record in each} - set(odd)
        done = f"{status.count('completed') + status.count('skipped')}/{len(each)}"
        rest = [f"{status.count(word)} {word}" for word in STEP_LOOK if word not in _CALM and word in status]
        told[path] = ", ".join([done, *rest])
    shown = [
        {**record, "folded": told.get(record["step"])}
        for record in found["step_records"]
        if hidden.isdisjoint((record["step"], *ancestors(record["step"])))
    ]
    return {**found, "step_records": shown}


def _step_lines(found: dict[str, Any], screen: Screen) -> list[Line]:
    """Return a line for each step, indented by its depth; below it, why it failed, or what it wants of a person."""
    records, wants = _with_phases(found["step_records"]), _wanted(found)
    if not screen.fancy:
        rows = []
        for record in records:
            error = [_error_in_words(record["error"])] if record["error"] else []
            about = [*_step_facts(record), *error, *wants.get(record["step"], ())]
            rows.append((step_name(record["step"]), record["status"], ", ".join(about)))
        return [[(line, "")] for line in columns(rows)]
    room = screen.columns - 4
    names = []
    for record in records:
        parts = record["step"].split("/")
        title = f": {clean(str(record['title']))}" if record["title"] else ""
        names.append(f"{'  ' * (len(parts) - 1)}{step_name(parts[-1])}{title}")
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
            indent, why = "  " + " " * name.count("  "), _error_in_words(record["error"])
            lines.append([(indent, ""), (crop(why, room - 2), "bad")])
        lines += [[("  ", ""), (text, "warn")] for text in wants.get(record["step"], ())]
    return lines


def _wanted(found: dict[str, Any]) -> dict[str, list[str]]:
    """Return what the waiting steps want of a person, and the command for it."""
    asked, run_id = found["records"].get("approval", {}), found["run_id"]
    out = {}
    for record in found["step_records"]:
        path, about = record["step"], asked.get(record["step"])
        if record["status"] != "waiting":
            continue
        if isinstance(about, dict):
            question = f"{about.get('ask') or 'a decision'}{_options(about)}"
            out[path] = [clean(question), clean(how(run_id, path, options=about.get("options")))]
        elif record.get("kind") == "manual":
            told = str(record.get("instructions") or "").strip().partition("\n")[0]
            command = clean(f"leftoff step done {as_word(path)} --run {run_id}")
            out[path] = [clean(told), command] if told else [command]
    return out


def _options(about: dict[str, Any]) -> str:
    options = about.get("options")
    until = f", until {about['deadline']}" if about.get("deadline") else ""
    return f" ({', '.join(map(str, options))}{until})" if isinstance(options, list) and options else until


def _approval(about: Any) -> str:
    """Return a question to a person, and the answer."""
    if not isinstance(about, dict):
        return value(about)
    if about.get("status") == "waiting":
        return clean(f"waiting: {about.get('ask') or ''}{_options(about)}")
    said = str(about.get("choice") or about.get("status"))
    for key, before in (("by", " by "), ("at", ", "), ("note", ": ")):
        said += f"{before}{about[key]}" if about.get(key) else ""
    return clean(f"{said} ({about['ask']})" if about.get("ask") else said)


def _with_phases(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Derive the status of a pending step from the steps below it."""
    below: dict[str, set[str]] = {}
    for record in records:
        path = record["step"]
        while "/" in path:
            path = path.rpartition("/")[0]
            below.setdefault(path, set()).add(record["status"])
    out = []
    for record in records:
        words = below.get(record["step"])
        if words and record["status"] == "pending":
            ended = words <= {"completed", "skipped"}
            status = "completed" if ended else "pending" if words == {"pending"} else "running"
            record = {**record, "status": status}
        out.append(record)
    return out


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
    if record.get("folded"):
        out.append(record["folded"])
    if record["why"]:
        out.append(clean(str(record["why"])))
    if record.get("allowed"):
        out.append("its failure is allowed")
    about = record.get("session")
    if isinstance(about, dict) and record["status"] == "running":
        out += [
            clean(f"{one['agent']} could not continue: {one['why']}") for one in about.get("before") or ()
        ]
        if about.get("waits_until"):
            out.append(clean(f"{wait_words({**about, 'until': about['waits_until']})}: {about['waits_for']}"))
    return out


def _error_in_words(error: Any) -> str:
    """Return an error on one line: its type and its message."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        kind = error.get("type")
        named = isinstance(kind, str) and kind not in ("", "exit")  # of an exit code the message says enough
        return clean(f"{kind}: {error['message']}" if named else error["message"])
    return clean(error) if isinstance(error, str) else value(error)


def _failure_lines(errors: dict[str, Any], run_id: str) -> list[Line]:
    """Return each failure by its step, with its traceback, or the last lines that it printed, below."""
    lines: list[Line] = []
    for step, error in list(errors.items())[:_MOST_FAILURES]:
        lines.append([(step_name(step), "id"), ("  ", ""), (_error_in_words(error), "bad")])
        if isinstance(error, dict):
            trace = str(error.get("traceback") or error.get("tail") or "").rstrip("\n").split("\n")
            told = ["  …", *trace[-_MOST_TRACE:]] if len(trace) > _MOST_TRACE else trace
            if "result" in error:
                told.append(f"it returned {crop(str(error['result']), _MOST_RESULT)}")
            lines += [[("  ", ""), (clean(line), "dim")] for line in told if line]
    if len(errors) > _MOST_FAILURES:
        lines.append([(f"and {len(errors) - _MOST_FAILURES} more: leftoff logs {run_id} --failed", "dim")])
    return lines


def _file(about: dict[str, Any], name: str) -> str:
    link = isinstance(about.get("target"), str)
    parts = [str(about.get("status") or ""), f"-> {about['target']}" if link else size(about.get("size"))]
    if name != "path" and about.get("path") not in (None, about[name]):
        parts.append(str(about["path"]))
    if about.get("step"):
        parts.append(f"by {step_name(str(about['step']))}")
    if about.get("captured") is False:
        parts.append("not copied")
    if isinstance(about.get("hash"), str) and not link:
        parts.append(about["hash"][:19])
    return "  ".join(clean(part) for part in parts if part)


def _record_name(key: str, record: Any, screen: Screen) -> str:
    """Return the name of a record. A note has a random key, so its time is shown."""
    at = millis(record.get("at")) if isinstance(record, dict) and "text" in record else None
    own = isinstance(record, dict) and record.get("step") == key
    return screen.when(at) if at is not None else shown_step(key) if own else key


def _record(record: Any) -> str:
    """Return a note or message by its text, a definition by its file, anything else as JSON."""
    if isinstance(record, dict) and {"path", "digest", "text"} <= set(record):
        return clean(f"{record['path']}  {str(record['digest'])[:19]}")
    if isinstance(record, dict) and isinstance(record.get("text"), str):
        by = f" ({step_name(str(record['step']))})" if record.get("step") else ""
        return clean(record["text"]) + by
    return value(record)


def _pairs(texts: list[tuple[str, str]], screen: Screen, between: str = "  ") -> list[Line]:
    """Return names and values, each on a line; on a terminal aligned, and cut at the end of the line."""
    if not screen.fancy:
        return [[(f"{clean(name)}{between}{text}", "")] for name, text in texts]
    room = screen.columns - 2
    wide = min(max((width(clean(name)) for name, _ in texts), default=0), max(room // 2, 8))
    left = max(room - wide - len(between), 1)
    return [
        [(pad(crop(clean(name), wide), wide), "id"), (between, "dim"), (crop(text, left), "")]
        for name, text in texts
    ]


# -- logs


def run_logs(args: Args, ctx: Context) -> int:
    if args.f and args.json:
        raise args.spec.wrong("-f and --json cannot be combined.")
    ref, named = run_and_step(ctx.project, ctx.caller, args.rest)
    step = usage_errors(lambda: given_step(named.removeprefix("/"))) if named is not None else None
    logs = logs_of(ctx.project, ctx.caller, ref, Choice(step, number(args.attempt, "--attempt"), args.failed))
    if args.f:
        return _follow(logs, ctx)
    found = logs.find()
    if args.json:
        about = {"run_id": logs.run_id, **({"archived": True} if logs.archived else {})}
        return ctx.answer({**about, "logs": [log_document(ctx.project, log) for log in found.logs]})
    if not found.logs:
        ctx.say(_no_logs(logs))
    page = LogPage(ctx, headed=len(found.logs) > 1)
    for log in found.logs:
        page.show(log, LogFile(log.path or ""), ended=True)
    page.end()
    if len(found.logs) == 1 and not (log := found.logs[0]).there and not log.raised:
        told = f" {clean(str(log.error['message']))}" if log.error and log.error.get("message") else ""
        ctx.say(f"leftoff: {step_name(log.step)}: {', '.join(_attempt_facts(log, ctx.project.now))}.{told}")
    return 0


def _follow(logs: RunLogs, ctx: Context) -> int:
    """Print logs until the run is finished or paused, or its driver is gone."""
    page = LogPage(ctx, headed=True)
    files: dict[str, LogFile] = {}
    done: set[str] = set()
    for found, more in logs.follow():
        for log in found.logs:
            token, ended = log.attempt.token, log.ended or not more
            if token not in done:
                page.show(log, files.setdefault(token, LogFile(log.path or "")), ended=ended)
            if ended:
                done.add(token)
                files.pop(token, None)
    page.end()
    if not done:
        ctx.say(_no_logs(logs))
    return 0


def _no_logs(logs: RunLogs) -> str:
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
    """Print logs, under headings if there are several, or on a terminal."""

    def __init__(self, ctx: Context, *, headed: bool) -> None:
        self._screen = ctx.screen()
        self._terminal = sys.stdout.isatty()
        self._headed = headed or self._terminal
        self._redactor = ctx.project.redactor
        self._now = ctx.project.clock.now
        self._last: str | None = None  # the attempt whose lines came last
        self._seen: set[str] = set()  # attempts that had a heading
        self._open = False  # whether the last line has no end yet

    def show(self, log: AttemptLog, file: LogFile, *, ended: bool) -> None:
        """Print what is new in a log."""
        token = log.attempt.token
        blocks = file.read(ended=ended)
        for block in blocks:
            self._head(log)
            self._write(redacted_log(block, self._redactor))
        if ended and log.raised:
            self._head(log)
            self._write(redacted_log(log.raised.encode("utf-8", "backslashreplace"), self._redactor))
        if ended and token not in self._seen:  # it printed nothing, or its log is gone: also worth knowing
            self._head(log)

    def end(self) -> None:
        if self._open and self._terminal:
            self._write(b"\n")
        sys.stdout.flush()

    def _head(self, log: AttemptLog) -> None:
        """Print a heading if the last lines were of another attempt."""
        token = log.attempt.token
        if self._headed and self._last != token:
            if self._open:
                self._write(b"\n")
            if self._last is not None:
                self._write(b"\n")
            style, about = "bad" if log.failed else "dim", ", ".join(_attempt_facts(log, self._now()))
            name = (step_name(log.step), "title")
            self._screen.show([[("==> ", "dim"), name, (f" ({about})", style), (" <==", "dim")]])
        self._seen.add(token)
        self._last = token

    def _write(self, block: bytes) -> None:
        self._open = not block.endswith(b"\n")
        if self._terminal:
            sys.stdout.write(printable("\n".join(map(tidy, log_text(block).split("\n")))))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
        sys.stdout.flush()


def _attempt_facts(log: AttemptLog, now: int) -> list[str]:
    """Return which attempt it is, how it ended, and how long it took."""
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
        out.append(duration_text((end - about.started_at) / 1000))
    if log.silent:
        out.append("printed nothing")
    elif not log.there and not log.of_python and not log.elsewhere:
        gone = "its log is gone" if about.log else "its log was removed: it was old"
        out.append("has printed nothing yet" if log.is_written else gone)
    return out
