"""Show what `run` and `resume` do while they work: the driver passes each event to an observer.

An event is a dict whose ``event`` names its kind (docs/events.md lists them). ``sentence`` words it for people. The
observers: JSON lines for a program (``JsonLines``), a live display on a terminal (``LiveDisplay``), else one line per
event (``PlainLines``).

Observers are called from one thread, never from a signal handler. They start no threads and handle no signals. If their
output cannot be written they fall silent, and the run continues.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import deque

from leftoff.cli.context import Context
from leftoff.cli.screen import (
    ELLIPSIS,
    Column,
    Region,
    columns_of,
    cropped,
    line_width,
    rows_of,
    table,
    wrapped,
)  # fmt: skip
from leftoff.cli.tally import Event, Info, Running, StepGroup, Tally, roughly, took, whole
from leftoff.cli.text import Line, clean, clean_lines, discard, pad, printable, say, step_name, tidy, width
from leftoff.clock import Clock, iso
from leftoff.engine.approvals import ask_again, how
from leftoff.hints import Any, Callable, TextIO
from leftoff.log import debugging
from leftoff.model.words import in_words

LOG = "detached.log"  # in the store's folder: the events of detached runs
_MOST_LOG = 1 << 20  # bytes; a longer log is emptied when another run begins
_NOBODY_READS = (errno.EPIPE, errno.EIO)  # the pipe was closed, or the terminal is gone
_TAIL = 20  # lines of a failed step's output
_MOST_NAMED = 8  # steps or files in one sentence
_MOST_ASKED = 6  # commands after the end
MOST_ROWS = 30  # of the table of times

GAP_S = 0.1  # between two drawings of the live display
TICK_S = 0.25
MOST_RUNNING = 12
MOST_WAITING = 3
MOST_LINES = 80  # printed by steps, in one drawing
MOST_NEWS = 400  # lines above, in one drawing
LONGEST = 2000  # characters of one such line
FEW = 20  # items of a `foreach`: with more, an item that ends gets no line
LIVE_TAIL = 10
MOST_TAILS = 3  # items of one `foreach` whose last lines are shown


def observer_for(ctx: Context, info: Info) -> Observer:
    """Return the observer that fits the call and its output."""
    clock = ctx.project.clock
    if ctx.away is not None:
        return Detached(ctx, PlainLines(info, sys.stdout, clock, output=False))
    if ctx.args.json:
        return JsonLines(ctx)
    if ctx.screen().fancy:
        return LiveDisplay(info, sys.stdout, clock)
    return PlainLines(info, sys.stdout, clock, output=getattr(ctx.args, "verbose", False) or None)


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

    def __init__(self, info: Info, stream: TextIO, clock: Clock, *, output: bool | None = None) -> None:
        super().__init__()
        self.wants_output = stream.isatty() if output is None else output
        self._stream = stream
        self._clock = clock
        self._tally = Tally(info)

    def handle(self, event: Event) -> None:
        now, kind = self._clock.monotonic(), event["event"]
        self._tally.feed(event, now)
        if kind == "output":
            text = _output_lines(event, "text")
        else:
            at = str(event.get("at") or iso(self._clock.now()))[
                :19
            ]  # without its fraction, so that lines align
            text = f"{at}Z  {clean_lines(sentence(event, self._tally, now))}\n"
        self._stream.write(printable(text))
        self._stream.flush()
        if (
            kind == "step_failed"
            and event.get("will_retry_in") is None
            and (event.get("tail") or "").strip("\n")
        ):
            say(_output_lines(event, "tail", _TAIL))
        if kind == "end":
            for do, why in advice(event, self._tally):
                say(f"{do}  # {why}\n")


def _output_lines(event: Event, key: str, most: int = 0) -> str:
    """Return what a step printed, each line after its name; ``most``: only the last lines."""
    name, lines = step_name(event["step"]), (event.get(key) or "").rstrip("\n").split("\n")
    return "".join(f"{name} │ {tidy(line)}\n" for line in lines[-most:])


class Detached(Observer):
    """Leave the terminal when the run begins, report its id to the waiting command, and pass the events on."""

    def __init__(self, ctx: Context, inner: Observer) -> None:
        super().__init__()
        self._ctx = ctx
        self._inner = inner

    def handle(self, event: Event) -> None:
        if event["event"] == "start" and self._ctx.away is not None:
            _leave_terminal(os.path.join(self._ctx.project.store_folder, LOG))
            os.write(self._ctx.away, str(event["run_id"]).encode())
            os.close(self._ctx.away)
            self._ctx.away = None
        self._inner(event)


def _leave_terminal(log: str) -> None:
    """Start a session without a terminal: no input, all output to the log."""
    os.setsid()
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(file).st_size > _MOST_LOG:
        os.ftruncate(file, 0)
    for fd, place in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(fd, place)
    os.close(nothing)
    os.close(file)


# -- an event in words


def sentence(event: Event, tally: Tally, now: float) -> str:
    """Return an event as one line of text."""
    kind = event["event"]
    if kind == "end":
        return run_verdict(event, tally, now)
    said = _words(kind, event, tally)
    name = event.get("step")
    return f"{step_name(name)}: {said}" if isinstance(name, str) and kind != "checkpoint" else said


def _words(kind: str, event: Event, tally: Tally) -> str:
    """Return what happened, without the name of the step."""
    why = f": {clean(str(event['why']))}" if event.get("why") else ""
    match kind:
        case "start":
            name, number = clean(event.get("run_id") or ""), (event.get("steps") or {}).get("total", 0)
            if event.get("resumed"):  # the plan has the rest
                return f"{name} resumed"
            return f"{name} started: {number} step{'' if number == 1 else 's'}"
        case "plan":
            return _plan(event)
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
            takes = f", estimated {whole(event['estimate'])}" if event.get("estimate") else ""
            return f"started{of}{again}{takes}"
        case "step_done":
            said = "done" if event.get("seconds") is None else f"done in {took(event['seconds'])}"
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
            said = f"{said.rstrip('.')}; again in {took(pause)}" if pause is not None else said
            return f"failed{number}: {said}"
        case "step_stopped":
            return f"stopped, will run again{why}"
        case "adopted":
            return f"adopted{why}"
        case "reattached":
            return f"still runs, reattached{why}"
        case "waiting":
            options = ", ".join(clean(str(option)) for option in event.get("options") or ())
            until = f" (until {clean(str(event['deadline']))})" if event.get("deadline") else ""
            asked, do = clean(_first_line(event)), clean(_command(tally.run_id, event["step"], event))
            if event.get("kind") == "manual":
                return f"waiting for somebody to do it{until}: {asked} `{do}`"
            return f"waiting for a decision{until}: {asked} [{options}] `{do}`"
        case "foreach":
            return f"{event.get('items')} items"
        case "checkpoint":
            of = f" {step_name(event['step'])}" if event.get("step") else ""
            return f"checkpoint {clean(str(event.get('checkpoint_id')))} ({clean(str(event.get('trigger')))}{of})"
        case "warning":
            return f"warning: {clean(str(event.get('message')))}"
        case "interrupt":
            name = str(event.get("signal") or "interrupted")
            more = "; again to end them at once" if name.endswith("INT") else ""
            return f"{clean(name)}: ending what is running, within {whole(event.get('grace') or 0)}{more}"
    return kind


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _plan(event: Event) -> str:
    """Return how many steps each action has; steps that are neither run nor skipped are named, with the reason."""
    counts: dict[str, int] = {}
    special = []
    for entry in event.get("plan", ()):
        action = str(entry.get("action"))
        counts[action] = counts.get(action, 0) + 1
        if action not in ("run", "skip"):
            special.append(clean(f"{action} {step_name(str(entry.get('step')))} ({entry.get('why')})"))
    said = ", ".join(f"{number} to {action}" for action, number in counts.items()) or "nothing is left"
    more = [f"and {len(special) - _MOST_NAMED} more"] if len(special) > _MOST_NAMED else []
    return f"plan: {'; '.join([said, *special[:_MOST_NAMED], *more])}"


def _first_line(event: Event) -> str:
    """Return the first line of what a waiting step asks."""
    return str(event.get("ask") or "").strip().partition("\n")[0]


def _command(run_id: str, path: str, asked: Event) -> str:
    """Return the command that answers a waiting step."""
    if asked.get("how"):
        return str(asked["how"])
    return how(run_id, path) if asked.get("kind") == "approval" else how(run_id, path, "step done --run")


# -- the end of a run


def run_verdict(event: Event, tally: Tally, now: float) -> str:
    """Return how the run ended, in one line."""
    run = event.get("run") or {}
    status = run.get("status") or "over"
    steps = run.get("steps") or {}
    total = steps.get("total", tally.total)
    done = steps.get("completed", 0) + steps.get("skipped", 0) if steps else tally.done
    if done != total or status == "failed":
        said = f"{done} of {total} steps done"
    elif total > 1:
        said = f"all {total} steps are done"
    else:
        said = "its step is done" if total else "nothing to do"
    said += "".join(f", {steps[word]} {word}" for word in ("failed", "blocked", "waiting") if steps.get(word))
    run_id = clean(run.get("run_id") or tally.run_id)
    return f"{run_id} {in_words(clean(status))}: {said}, in {took(tally.elapsed(now))}"


def advice(event: Event, tally: Tally) -> list[tuple[str, str]]:
    """Return the commands that lead on, and what each is for; the most important first."""
    run = event.get("run") or {}
    run_id = run.get("run_id") or tally.run_id
    if run.get("status") == "completed":
        return []
    out, failed = [], (run.get("steps") or {}).get("failed", 0)
    rejected = event.get("rejected") or ()
    if (failed or run.get("status") == "failed") and event.get("logged", True):
        out.append((f"leftoff logs {run_id} --failed", "what the failed steps printed"))
    out += [(clean(ask_again(run_id, path)), "asks again") for path in rejected[:_MOST_ASKED]]
    for path, asked in list(tally.waiting.items())[:_MOST_ASKED]:
        what = "this decision" if asked.get("kind") == "approval" else "this"
        out.append((clean(_command(run_id, path, asked)), f"the run is waiting for {what}"))
    if not rejected or failed > len(rejected) or tally.waiting:
        out.append((f"leftoff resume {run_id}", "continues from here"))
    return out


def time_table(tally: Tally, columns: int) -> list[Line]:
    """Return the time of each step next to its estimate; nothing for a single step without an estimate."""
    groups = [group for group in tally.groups.values() if group.timed]
    estimated = [group for group in groups if group.leaf.estimate is not None]
    if not groups or (len(groups) < 2 and not estimated):
        return []
    heads = [
        Column("STEP", least=12),
        Column("ITEMS", rank=1, right=True),
        Column("ESTIMATED", right=True),
        Column("ACTUAL" if estimated else "TIME", right=True),
        Column("OFF BY", rank=2, right=True),
    ]

    def row(
        name: str, items: str, style: str, wanted: float | None, seconds: float, compared: float
    ) -> list[Line]:
        off: Line = []
        if wanted:
            by = (compared - wanted) / wanted
            look = "good" if by <= 0 else "warn" if by <= 0.5 else "bad"
            off = [(f"{by:+.0%}" if by < 10 else f"×{compared / wanted:.0f}", look)]
        expected = ("–", "dim") if wanted is None else (whole(wanted), style)
        return [[(name, style)], [(items, "dim")], [expected], [(took(seconds), style)], off]

    def expected(group: StepGroup) -> float | None:
        return group.leaf.estimate * group.timed if group.leaf.estimate is not None else None

    longest = sorted(groups, key=lambda group: -group.seconds)[:MOST_ROWS]
    rows = []
    for group in groups:
        if group in longest:
            items = f"{group.timed} × {took(group.seconds / group.timed)}" if group.timed > 1 else ""
            rows.append(
                row(step_name(group.leaf.path), items, "", expected(group), group.seconds, group.seconds)
            )
    if len(groups) > 1:
        wanted = sum(expected(group) or 0 for group in estimated) if estimated else None
        compared = sum(group.seconds for group in estimated)
        rows.append(
            row("all together", "", "title", wanted, sum(group.seconds for group in groups), compared)
        )
    if not estimated:  # nothing to compare with
        heads, rows = heads[:2] + heads[3:4], [each[:2] + each[3:4] for each in rows]
    lines = table(heads, rows, columns)
    if len(longest) < len(groups):
        lines.append([(f"… and {len(groups) - len(longest)} more that took less", "dim")])
    return lines


# -- live

# The symbol and style of an event that gets a line above the display; the others are only counted.
_LOOKS = {
    "start": ("▸", "dim"), "plan": ("▸", "dim"), "foreach": ("▸", "dim"), "step_done": ("✓", "good"),
    "step_skipped": ("–", "dim"), "step_failed": ("✗", "bad"), "step_stopped": ("◌", "warn"),
    "adopted": ("✓", "good"), "reattached": ("●", "dim"), "waiting": ("◔", "warn"), "warning": ("!", "warn"),
    "interrupt": ("!", "warn"),
}  # fmt: skip
_ENDED = {
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "blocked": ("■", "warn"),
    "paused": ("◌", "warn"),
}


class LiveDisplay(Observer):
    """Draw a line for each running step and a bar for the whole run at the bottom of a terminal, repeatedly.

    Above them scrolls what the steps print and what happened. Events only update the counts; the display is drawn at
    most every tenth of a second. Output that comes faster than one can read is counted, not shown.
    """

    wants_output = True
    every = TICK_S

    def __init__(self, info: Info, stream: TextIO, clock: Clock) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._tally = Tally(info)
        self._region = Region(stream)
        self._news: list[Line] = []  # since the last drawing
        self._printed: deque[tuple[str, str]] = deque(maxlen=MOST_LINES)
        self._hidden = 0  # lines that are not shown
        self._shown: list[Line] = []
        self._at = -GAP_S
        self._over = False

    def handle(self, event: Event) -> None:
        now, kind = self._clock.monotonic(), event["event"]
        self._tally.feed(event, now)
        if kind == "output":
            lines = (event.get("text") or "").removesuffix("\n").split("\n")
            self._hidden += max(0, len(self._printed) + len(lines) - MOST_LINES)
            self._printed.extend((event["step"], line) for line in lines)
        elif kind == "end":
            self._over = True
            columns = columns_of(self._stream)
            times = time_table(self._tally, columns - 1)
            last = [*([[], *times, []] if times else []), *_ending(event, self._tally, now, columns - 1)]
            self._region.draw([*self._taken(), *last], [], columns)
        elif news := _news(event, self._tally, now):
            self._flush()  # in the order in which it happened
            self._add(news)
        self.draw()

    def draw(self) -> None:
        """Show what is known by now, unless that was done a moment ago."""
        now = self._clock.monotonic()
        if self._over or now - self._at < GAP_S:
            return
        self._at = now
        columns = columns_of(self._stream)
        below = live_page(self._tally, now, columns - 1, rows_of(self._stream))
        if self._printed or self._news or below != self._shown:
            self._region.draw(self._taken(), below, columns)
            self._shown = below

    def finish(self) -> None:
        """Erase the lines at the bottom; what scrolled stays."""
        if not self._over:
            self._over = True
            self._region.draw(self._taken(), [], columns_of(self._stream))

    def _add(self, lines: list[Line]) -> None:
        room = MOST_NEWS - len(self._news)
        self._news += lines[:room]
        self._hidden += max(0, len(lines) - room)

    def _flush(self) -> None:
        self._add(
            [[(f"{clean(name)} │ ", "dim"), (tidy(line[:LONGEST]), "")] for name, line in self._printed]
        )
        self._printed.clear()

    def _taken(self) -> list[Line]:
        """Return what is to be printed now."""
        self._flush()
        news, self._news = self._news, []
        if self._hidden:
            news.insert(0, [(f"… {self._hidden:,} lines not shown, see `leftoff logs`", "dim")])
            self._hidden = 0
        return news


def _news(event: Event, tally: Tally, now: float) -> list[Line]:
    """Return the lines that an event adds above the display."""
    kind, path = event["event"], event.get("step") or ""
    if kind not in _LOOKS:
        return []
    group = tally.group(path)
    items = group.items if group is not None and kind in ("step_done", "step_skipped") else None
    if items is not None and (items > FEW or path in tally.groups):
        return []  # one of many items, or the `foreach` itself, whose items had a line each
    symbol, style = _LOOKS[kind]
    if kind == "step_failed" and event.get("will_retry_in") is not None:
        symbol, style = "↻", "warn"
    said = sentence(event, tally, now)
    lines: list[Line] = [[(f"{symbol} ", style), (said, "" if kind in ("step_done", "waiting") else style)]]
    if kind == "waiting":  # the question or the instructions in full
        more = str(event.get("ask") or "").strip().split("\n")[1:]
        lines += [[("  ", ""), (clean(line), "")] for line in more]
    elif symbol == "✗" and (group is None or group.failed <= MOST_TAILS):
        tail = (event.get("tail") or "").rstrip("\n").split("\n")[-LIVE_TAIL:]
        lines += [[("  │ ", "bad"), (tidy(line[:LONGEST]), "dim")] for line in tail if tail != [""]]
    return lines


def _ending(event: Event, tally: Tally, now: float, columns: int) -> list[Line]:
    """Return how the run ended; then one command per line, whole, so that it can be copied."""
    symbol, style = _ENDED.get((event.get("run") or {}).get("status", ""), ("–", "dim"))
    lines = wrapped([(f"{symbol} {run_verdict(event, tally, now)}", style)], columns)
    for do, why in advice(event, tally):
        line: Line = [("  ", ""), (do, "id"), (f"  {why}", "dim")]
        lines.append(line if line_width(line) <= columns else line[:2])
    return lines


def live_page(tally: Tally, now: float, columns: int, rows: int) -> list[Line]:
    """Return the lines at the bottom: running steps, waiting steps, the whole run.

    There are none before the first step begins, so that a question until then has the terminal to itself.
    """
    if not tally.moving:
        return []
    room = max(1, min(MOST_RUNNING, rows - MOST_WAITING - 4))
    running = list(tally.running.values())
    shown = running if len(running) <= room else running[: room - 1]
    names = min(max((width(step_name(each.path)) for each in shown), default=0), max(columns * 2 // 5, 8))
    lines = [_running_line(each, now, names) for each in shown]
    if len(shown) < len(running):
        lines.append([(f"  … and {len(running) - len(shown)} more", "dim")])
    for path, asked in list(tally.waiting.items())[:MOST_WAITING]:
        what = clean(_first_line(asked) or "waiting for a person")
        lines.append([("◔ ", "warn"), (step_name(path), ""), (f"  {what}", "dim")])
    if len(tally.waiting) > MOST_WAITING:
        lines.append([(f"  … and {len(tally.waiting) - MOST_WAITING} more wait", "dim")])
    return [cropped(line, columns) for line in [*lines, _whole_line(tally, now, columns)]]


def _running_line(each: Running, now: float, names: int) -> Line:
    name = step_name(each.path)
    while width(name) > names:  # the end of a path distinguishes it from others
        name = ELLIPSIS + name.removeprefix(ELLIPSIS)[1:]
    last = tidy(each.last) if each.last else clean(each.title)
    return [
        ("● ", "busy"),
        (f"{pad(name, names)} {whole(now - each.since):>7}", ""),
        (f"  attempt {each.attempt}" if each.attempt > 1 else "", "warn"),
        (f"  {last}" if last else "", "dim"),
    ]


def _whole_line(tally: Tally, now: float, columns: int) -> Line:
    """Return the bar, how many steps are done, and how long the rest will take."""
    total = max(tally.total, tally.done + tally.failed)
    counted: Line = [(f" {tally.done}/{total}", ""), (f"  {tally.done * 100 // max(total, 1)}%", "title")]
    if tally.failed:
        counted.append((f"  {tally.failed} failed", "bad"))
    if tally.retrying:
        counted.append((f"  {len(tally.retrying)} to be retried", "warn"))
    times, left = f"  {whole(tally.elapsed(now))}", tally.left(now)
    if tally.interrupted:
        times = "  ending…"
    elif left is not None and (tally.running or tally.retrying):
        seconds, sure = left
        if seconds >= 10:
            times += f", {'about' if sure else 'over'} {roughly(seconds)} left"
        elif sure:
            times += ", a few seconds left"
    wide = columns - line_width(counted) - width(times)
    if wide < 10:
        wide = max(0, min(10, columns - line_width(counted)))
    wide = min(wide, 40)
    good, bad = (part * wide // max(total, 1) for part in (tally.done, tally.failed))
    bad = min(max(bad, 1 if tally.failed else 0), wide - good)
    bar: Line = [("━" * good, "good"), ("━" * bad, "bad"), ("━" * (wide - good - bad), "rest")]
    return [*bar, *counted, (times, "dim")]
