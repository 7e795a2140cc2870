"""Show what `run` and `resume` do while they work: the driver passes each event to an observer.

An event is a dict whose ``event`` names its kind (docs/reference/events.md lists them). ``sentence`` words it for
people. The observers: JSON lines for a program (``JsonLines``), a live display on a terminal (``LiveDisplay``), else
one line per event (``PlainLines``).

Observers are called from one thread, never from a signal handler. They start no threads and handle no signals. If their
output cannot be written they fall silent, and the run continues.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from leftoff.cli.context import Context
from leftoff.cli.list_verbs import RUN_LOOK
from leftoff.cli.screen import Region, cropped, rows_of, terminal_columns
from leftoff.cli.text import Line, clean, clean_lines, discard, printable, say, step_name, tidy
from leftoff.clock import Clock, iso
from leftoff.engine.approvals import ask_again
from leftoff.engine.run_info import wait_words
from leftoff.host import debugging
from leftoff.model.words import in_words
from leftoff.workflow.durations import duration_text

Event = dict[str, Any]

LOG = "detached.log"  # in the store's folder: the events of detached runs
_MOST_LOG = 1 << 20  # bytes; a longer log is emptied when another run begins
_NOBODY_READS = (errno.EPIPE, errno.EIO)  # the pipe was closed, or the terminal is gone
_TAIL = 20  # lines of a failed step's output
_MOST_NAMED = 8  # steps or files in one sentence
_MOST_ASKED = 6  # commands after the end

GAP_S = 0.1  # between two drawings of the live display
TICK_S = 0.25
MOST_LINES = 400  # above the live display, in one drawing
MOST_RUNNING = 12
BAR = 20  # columns
LONGEST = 2000  # characters of one line that a step printed


class Progress:
    """What is known of a run from its events. ``running``: when each running step began, and what it printed last.
    ``waiting``: the event of each step that waits for a person."""

    def __init__(self) -> None:
        self.run_id = ""
        self.began: float | None = None
        self.total = 0
        self.ended: dict[str, bool] = {}  # step: whether it failed
        self.running: dict[str, tuple[float, str]] = {}
        self.waiting: dict[str, Event] = {}
        self._shown: set[str] = set()  # steps whose output was shown as they printed it
        self._before = 0  # steps that an earlier driver completed

    @property
    def failed(self) -> int:
        return sum(self.ended.values())

    @property
    def done(self) -> int:
        return self._before + len(self.ended) - self.failed

    def elapsed(self, now: float) -> float:
        return now - self.began if self.began is not None else 0.0

    def feed(self, event: Event, now: float) -> None:
        """Take in an event. ``now`` is the display's own clock, in seconds."""
        if self.began is None:
            self.began = now
        kind, path = event["event"], event.get("step") or ""
        if kind == "output":
            self._shown.add(path)
            line = (event.get("text") or "").removesuffix("\n").rpartition("\n")[2]
            if path in self.running and line:
                self.running[path] = (self.running[path][0], line[:LONGEST])
        elif kind == "start":
            self.run_id = event.get("run_id") or self.run_id
            steps = event.get("steps") or {}
            self.total = steps.get("total", 0)
            self._before = steps.get("completed", 0) + steps.get("skipped", 0)
        elif kind == "foreach":  # it counted as one step until its items were known
            self.total += max(0, (event.get("items") or 0) - 1)
        elif kind in ("step_start", "reattached"):
            self.total = max(self.total, event.get("total") or 0)
            self.ended.pop(path, None)
            self._shown.discard(path)
            self.waiting.pop(path, None)
            self.running[path] = (now, str(event.get("title") or ""))
        elif kind == "step_done" and "status" in event:  # the sum of a `foreach`, whose items were counted
            return
        elif kind in ("step_done", "step_skipped", "step_failed", "step_stopped", "waiting"):
            self.running.pop(path, None)
            self.waiting.pop(path, None)
            if kind == "waiting":
                self.waiting[path] = event
            elif kind != "step_stopped" and event.get("will_retry_in") is None:
                self.ended[path] = kind == "step_failed"

    def tail(self, event: Event) -> list[str]:
        """Return the last lines that a failed step printed, if they were not shown yet."""
        text = (event.get("tail") or "").strip("\n")
        is_end = event["event"] == "step_failed" and event.get("will_retry_in") is None
        return text.split("\n")[-_TAIL:] if text and is_end and event["step"] not in self._shown else []


def observer_for(ctx: Context) -> Observer:
    """Return the observer that fits the call and its output."""
    clock = ctx.project.clock
    if ctx.away is not None:
        return Detached(ctx, PlainLines(sys.stdout, clock, output=False))
    if ctx.args.json:
        return JsonLines(ctx)
    if ctx.screen().fancy:
        return LiveDisplay(sys.stdout, clock)
    return PlainLines(sys.stdout, clock, output=getattr(ctx.args, "verbose", False) or None)


class Observer:
    """Receive events. A subclass has ``handle``, and ``draw`` and ``finish`` if it needs them.

    ``wants_output``: whether it takes ``output`` events, the text that steps print. ``every``: call ``tick`` after at
    most so many seconds, or never (``None``). ``lost``: why some output could not be written, if anyone reads it.
    """

    wants_output = False
    every: float | None = None

    def __init__(self) -> None:
        self._silent = False
        self._closed = False
        self.lost = ""

    def __call__(self, event: Event) -> None:
        self._try(self.handle, event)

    def tick(self) -> None:
        """Update what is shown, because time has passed."""
        if not self._closed:
            self._try(self.draw)

    def close(self) -> None:
        """Leave the terminal as it was. A second call does nothing."""
        if not self._closed:
            self._try(self.finish)
        self._closed = True

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def handle(self, event: Event) -> None:
        raise NotImplementedError

    def draw(self) -> None:
        """Bring what is shown up to date."""

    def finish(self) -> None:
        """End the display, however the run ended."""

    def _try(self, call: Callable[..., None], *args: Any) -> None:
        """Call; an error ends the display and not the run."""
        if self._silent:
            return
        try:
            call(*args)
        except OSError as error:
            if error.errno not in _NOBODY_READS:
                self.lost = error.strerror or str(error)
            if error.errno != errno.ENOSPC:  # there may be room again for the next line
                self._silent = True
                discard(1)
        except Exception as error:
            if debugging():
                raise
            self._silent = True
            try:
                what = f"{type(error).__name__}: {error}"
                say(f"leftoff: progress can no longer be shown ({what}); the run continues.\n")
            except OSError:
                pass


class JsonLines(Observer):
    """Write each event as a line of JSON at once."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._emit = ctx.emit

    def handle(self, event: Event) -> None:
        self._emit(event)


class PlainLines(Observer):
    """Write one line per event, with its time, to a pipe, a file or a plain terminal.

    The last output of a failed step goes to stderr. All output of the steps is shown on a terminal and with --verbose.
    """

    def __init__(self, stream: TextIO, clock: Clock, *, output: bool | None = None) -> None:
        super().__init__()
        self.wants_output = stream.isatty() if output is None else output
        self._stream = stream
        self._clock = clock
        self._known = Progress()

    def handle(self, event: Event) -> None:
        now, kind = self._clock.monotonic(), event["event"]
        self._known.feed(event, now)
        if kind == "checkpoint":  # `leftoff history` lists them
            return
        if kind == "output":
            text = _output_lines(event["step"], (event.get("text") or "").rstrip("\n").split("\n"))
        else:
            at = str(event.get("at") or iso(self._clock.now()))[:19]  # no fraction, so that lines align
            text = f"{at}Z  {clean_lines(sentence(event, self._known, now))}\n"
        self._stream.write(printable(text))
        self._stream.flush()
        if last := self._known.tail(event):
            say(_output_lines(event["step"], last))
        if kind == "end":
            for do, why in advice(event, self._known):
                say(f"{do}  # {why}\n")


def _output_lines(step: str, lines: list[str]) -> str:
    """Return what a step printed, each line after its name."""
    return "".join(f"{step_name(step)} │ {tidy(line)}\n" for line in lines)


class Detached(Observer):
    """Leave the terminal when the run begins, report its id to the waiting command, and pass the events on."""

    def __init__(self, ctx: Context, inner: Observer) -> None:
        super().__init__()
        self._ctx = ctx
        self._inner = inner

    def handle(self, event: Event) -> None:
        away = self._ctx.away
        if event["event"] == "start" and away is not None:
            os.setsid()  # a session without a terminal: no input, all output to the log
            sys.stdout.flush()
            sys.stderr.flush()
            log = os.path.join(self._ctx.project.store_folder, LOG)
            nothing = os.open(os.devnull, os.O_RDONLY)
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if os.fstat(file).st_size > _MOST_LOG:
                os.ftruncate(file, 0)
            for fd, place in ((nothing, 0), (file, 1), (file, 2)):
                os.dup2(fd, place)
            os.close(nothing)
            os.close(file)
            os.write(away, str(event["run_id"]).encode())
            os.close(away)
            self._ctx.away = None
        self._inner(event)


# -- an event in words


def sentence(event: Event, known: Progress, now: float) -> str:
    """Return an event as one line of text."""
    kind = event["event"]
    if kind == "end":
        return run_verdict(event, known, now)
    said = _words(kind, event, known)
    name = event.get("step")
    return f"{step_name(name)}: {said}" if isinstance(name, str) else said


def _words(kind: str, event: Event, known: Progress) -> str:
    """Return what happened, without the name of the step."""
    why = f": {clean(str(event['why']))}" if event.get("why") else ""
    match kind:
        case "start":
            name, number = clean(event.get("run_id") or ""), (event.get("steps") or {}).get("total", 0)
            if event.get("resumed"):  # the plan has the rest
                return f"{name} resumed"
            return f"{name} started: {number} step{'' if number == 1 else 's'}"
        case "plan":  # steps that are neither run nor skipped are named, with the reason
            counts: dict[str, int] = {}
            special = []
            for entry in event.get("plan", ()):
                action = str(entry.get("action"))
                counts[action] = counts.get(action, 0) + 1
                if action not in ("run", "skip"):
                    special.append(
                        clean(f"{action} {step_name(str(entry.get('step')))} ({entry.get('why')})")
                    )
            said = (
                ", ".join(f"{number} to {action}" for action, number in counts.items()) or "nothing is left"
            )
            others = [f"and {len(special) - _MOST_NAMED} more"] if len(special) > _MOST_NAMED else []
            return f"plan: {'; '.join([said, *special[:_MOST_NAMED], *others])}"
        case "batch_start" | "batch_complete":
            word = "begins" if kind == "batch_start" else "is complete"
            said = f"batch {event.get('batch')} of {event.get('of')} {word}"
            paths = [step_name(path) for path in event.get("steps", ())]
            return f"{said}: {_listed(paths)}" if paths else said
        case "phase":
            come = f"phase {clean(str(event['to']))} begins" if event.get("to") else "the last phase is over"
            return come + (f" after {clean(str(event['from']))}" if event.get("from") else "")
        case "step_start":
            both = event.get("number") and event.get("total")
            of = f" ({event['number']} of {event['total']})" if both else ""
            again = f", attempt {event['attempt']}" if (event.get("attempt") or 1) > 1 else ""
            takes = f", estimated {duration_text(event['estimate'])}" if event.get("estimate") else ""
            return f"started{of}{again}{takes}"
        case "step_done":
            said = "done" if event.get("seconds") is None else f"done in {duration_text(event['seconds'])}"
            if event.get("status") == "failed":  # of a `foreach`: the sum of its items
                said = "all items ended, some failed"
            elif event.get("status") == "skipped":
                said = "all items were skipped"
            outputs = [clean(str(path)) for path in event.get("outputs") or ()]
            return said + (f" → {_listed(outputs)}" if outputs else "") + why
        case "step_skipped":
            return f"skipped{why}"
        case "step_failed":
            error, pause = event.get("error") or {}, event.get("will_retry_in")
            number = f", attempt {event['attempt']}" if event.get("attempt") else ""
            said = clean(str(error.get("message") or error.get("type") or "no reason is known"))
            said = f"{said.rstrip('.')}; again in {duration_text(pause)}" if pause is not None else said
            allowed = ", which is allowed" if event.get("allowed") else ""
            return f"failed{number}{allowed}: {said}"
        case "step_stopped":
            return f"stopped, will run again{why}"
        case "adopted":
            return f"adopted{why}"
        case "reattached":
            return f"still runs, reattached{why}"
        case "waiting":
            options = ", ".join(clean(str(option)) for option in event.get("options") or ())
            until = f" (until {clean(str(event['deadline']))})" if event.get("deadline") else ""
            asked = clean(str(event.get("ask") or "").strip().partition("\n")[0])
            do = clean(str(event.get("how")))
            if event.get("kind") == "manual":
                return f"waiting for a person to do it{until}: {asked} `{do}`"
            return f"waiting for a decision{until}: {asked} [{options}] `{do}`"
        case "agent_waits":
            return clean(f"{wait_words(event)}: {event.get('why')}")
        case "agent_changed":
            return clean(f"{event.get('agent')} takes over from {event.get('from')}: {event.get('why')}")
        case "foreach":
            return f"{event.get('items')} items"
        case "warning":
            return f"warning: {clean(str(event.get('message')))}"
        case "interrupt":
            name = str(event.get("signal") or "interrupted")
            more = "; again to end them at once" if name.endswith("INT") else ""
            return f"{clean(name)}: ending what is running, within {duration_text(event.get('grace') or 0)}{more}"
    return kind


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


# -- the end of a run


def run_verdict(event: Event, known: Progress, now: float) -> str:
    """Return how the run ended, in one line."""
    run = event.get("run") or {}
    status = run.get("status") or "over"
    steps = run.get("steps") or {}
    total = steps.get("total", known.total)
    done = steps.get("completed", 0) + steps.get("skipped", 0) if steps else known.done
    if done != total or status == "failed":
        said = f"{done} of {total} steps done"
    elif total > 1:
        said = f"all {total} steps are done"
    else:
        said = "its step is done" if total else "nothing to do"
    said += "".join(f", {steps[word]} {word}" for word in ("failed", "blocked", "waiting") if steps.get(word))
    said += " (allowed)" if steps.get("failed") and status == "completed" else ""
    run_id = clean(run.get("run_id") or known.run_id)
    return f"{run_id} {in_words(clean(run.get('state') or status))}: {said}, in {duration_text(known.elapsed(now))}"


def advice(event: Event, known: Progress) -> list[tuple[str, str]]:
    """Return the commands that lead on, and what each is for; the most important first."""
    run = event.get("run") or {}
    run_id = run.get("run_id") or known.run_id
    if run.get("status") == "completed":
        return []
    out, failed = [], (run.get("steps") or {}).get("failed", 0)
    rejected = event.get("rejected") or ()
    if (failed or run.get("status") == "failed") and event.get("logged", True):
        out.append((f"leftoff logs {run_id} --failed", "what the failed steps printed"))
    out += [(clean(ask_again(run_id, path)), "asks again") for path in rejected[:_MOST_ASKED]]
    for asked in list(known.waiting.values())[:_MOST_ASKED]:
        what = "this decision" if asked.get("kind") == "approval" else "this"
        out.append((clean(str(asked.get("how"))), f"the run is waiting for {what}"))
    if not rejected or failed > len(rejected) or known.waiting:
        out.append((f"leftoff resume {run_id}", "continues from here"))
    return out


# -- live

# The symbol and style of an event that gets a line above the display; the others are only counted.
_LOOKS = {
    "start": ("▸", "dim"), "plan": ("▸", "dim"), "foreach": ("▸", "dim"), "step_done": ("✓", "good"),
    "step_skipped": ("–", "dim"), "step_failed": ("✗", "bad"), "step_stopped": ("◌", "warn"),
    "adopted": ("✓", "good"), "reattached": ("●", "dim"), "waiting": ("◔", "warn"), "warning": ("!", "warn"),
    "interrupt": ("!", "warn"),
}  # fmt: skip


class LiveDisplay(Observer):
    """Show the running steps at the bottom of a terminal, and how far the whole run is.

    Above them scrolls what the steps print and what happened. It is drawn at most every tenth of a second. Output that
    comes faster than one can read is counted, not shown.
    """

    wants_output = True
    every = TICK_S

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._known = Progress()
        self._region = Region(stream)
        self._above: list[Line] = []  # since the last drawing
        self._hidden = 0  # lines that are not shown
        self._at = -GAP_S
        self._over = False

    def handle(self, event: Event) -> None:
        now, kind = self._clock.monotonic(), event["event"]
        self._known.feed(event, now)
        if kind == "output":
            name = f"{step_name(event['step'])} │ "
            lines = (event.get("text") or "").removesuffix("\n").split("\n")
            self._add([[(name, "dim"), (tidy(line[:LONGEST]), "")] for line in lines[-MOST_LINES:]])
            self._hidden += len(lines[:-MOST_LINES])
        elif kind == "end":  # one command per line, whole, so that it can be copied
            symbol, style = RUN_LOOK.get((event.get("run") or {}).get("state", ""), ("–", "dim"))
            then = advice(event, self._known)
            self._add([[(f"{symbol} {run_verdict(event, self._known, now)}", style)]])
            self._add([[("  ", ""), (do, "id"), (f"  {why}", "dim")] for do, why in then])
            self.finish()
        elif kind in _LOOKS:
            symbol, style = _LOOKS[kind] if event.get("will_retry_in") is None else ("↻", "warn")
            self._add([[(f"{symbol} ", style), (sentence(event, self._known, now), "")]])
            if kind == "waiting":  # the question or the instructions in full
                rest = str(event.get("ask") or "").strip().split("\n")[1:]
                self._add([[("  ", ""), (line, "")] for line in rest])
            last = self._known.tail(event)
            self._add([[("  │ ", "bad"), (tidy(line[:LONGEST]), "dim")] for line in last])
        self.draw()

    def draw(self) -> None:
        """Show what is known by now, unless that was done a moment ago."""
        now = self._clock.monotonic()
        if not self._over and now - self._at >= GAP_S:
            self._at = now
            columns = terminal_columns(self._stream)
            below = live_page(self._known, now, columns - 1, rows_of(self._stream))
            self._region.draw(self._taken(), below, columns)

    def finish(self) -> None:
        """Erase the lines at the bottom; what scrolled stays."""
        if not self._over:
            self._over = True
            self._region.draw(self._taken(), [], terminal_columns(self._stream))

    def _add(self, lines: list[Line]) -> None:
        self._above += lines
        self._hidden += max(0, len(self._above) - MOST_LINES)
        del self._above[:-MOST_LINES]

    def _taken(self) -> list[Line]:
        """Return what is to be printed now."""
        lines, hidden = self._above, self._hidden
        self._above, self._hidden = [], 0
        return [[(f"… {hidden:,} lines not shown, see `leftoff logs`", "dim")], *lines] if hidden else lines


def live_page(known: Progress, now: float, columns: int, rows: int) -> list[Line]:
    """Return the lines at the bottom: running steps, and how far the whole run is.

    There are none before the first step begins, so that a question until then has the terminal to itself.
    """
    if not known.running and not known.ended:
        return []
    room = max(1, min(MOST_RUNNING, rows - 4))
    lines: list[Line] = [
        [("● ", "busy"), (f"{step_name(path)}  {duration_text(now - since)}", ""), (f"  {tidy(last)}", "dim")]
        for path, (since, last) in list(known.running.items())[:room]
    ]
    if len(known.running) > room:
        lines.append([(f"  … and {len(known.running) - room} more", "dim")])
    total = max(known.total, known.done + known.failed, 1)
    full = known.done * BAR // total
    whole: Line = [
        ("━" * full, "good"),
        ("━" * (BAR - full), "rest"),
        (f" {known.done}/{total}  {known.done * 100 // total}%", "title"),
        (f"  {known.failed} failed" if known.failed else "", "bad"),
        (f"  {duration_text(known.elapsed(now))}", "dim"),
    ]
    return [cropped(line, columns) for line in [*lines, whole]]
