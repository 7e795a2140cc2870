"""``leftoff logs``: what the steps of a run printed, now or as they print it."""

from __future__ import annotations

import sys

from leftoff.cli.arguments import number
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.step_output import tidy
from leftoff.cli.render.text import clean, step_name
from leftoff.errors import Usage
from leftoff.operations.reports import usage_errors
from leftoff.operations.watching.log_files import LogFile, shown, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.logs import Log
    from leftoff.operations.watching.logs import RunLogs

SPEC = Spec(
    "logs",
    "Show what the steps of a run printed: the latest attempt at each, in order. With STEP, only that "
    "step and the ones below it. Piped, the output is passed on byte for byte; on a terminal, control "
    "characters are escaped.",
    usage="[RUN] [STEP]",
    most=2,
    options=(
        Opt("--failed", None, "only steps that failed"),
        Opt("--attempt", "N", "the Nth attempt instead of the newest"),
        Opt("-f", None, "keep following while the run is being driven; Ctrl-C ends it"),
        *CURRENT,
    ),
    examples="""  leftoff logs                     of the current run
  leftoff logs latest --failed     why it failed
  leftoff logs @ convert/post-20   of one step
  leftoff logs -f                  as it is printed""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.watching.logs import document

    if args.f and args.json:
        raise Usage("-f and --json cannot be combined.", hint=f"usage: {SPEC.line()}")
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
    page = Page(ctx, headed=len(found.logs) > 1)
    for log in found.logs:
        page.show(log, LogFile(log.path or ""), ended=True)
    page.end()
    if len(found.logs) == 1 and not found.logs[0].there and not found.logs[0].raised:
        ctx.say(silent(found.logs[0], ctx.project.now))
    return 0


def silent(log: Log, now: int) -> str:
    """Of a step without a log: how it ended, and why."""
    why = f" {clean(str(log.error['message']))}" if log.error and log.error.get("message") else ""
    return f"leftoff: {step_name(log.step)}: {', '.join(facts(log, now))}.{why}"


def which(args: Args, ctx: Context) -> RunLogs:
    """The logs of the run and the step that are meant."""
    from leftoff.model.ids import given_step
    from leftoff.operations.runs import run_and_step
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


class Page:
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
        about = ", ".join(facts(log, self._now()))
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
        from leftoff.cli.render.text import printable

        lines = shown(block).split("\n")
        sys.stdout.write(printable("\n".join(map(tidy, lines))))
        sys.stdout.flush()


def facts(log: Log, now: int) -> list[str]:
    """Which attempt, how it ended, how long it took."""
    from leftoff.cli.progress.times import took

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
    page = Page(ctx, headed=True)
    files: dict[str, LogFile] = {}
    done: set[str] = set()
    for found, more in logs.follow():
        for log in found.logs:
            _add(log, files, done, page, over=not more)
    page.end()
    if not done:
        ctx.say(nothing(logs))
    return 0


def _add(log: Log, files: dict[str, LogFile], done: set[str], page: Page, *, over: bool) -> None:
    token = log.attempt.token
    if token in done:
        return
    file = files.setdefault(token, LogFile(log.path or ""))
    page.show(log, file, ended=log.ended or over)
    if log.ended or over:
        done.add(token)
        del files[token]
