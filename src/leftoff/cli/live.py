"""Draw a run's progress on a terminal: a line for each running step and a bar for the whole run, drawn repeatedly.

Above them scrolls what the steps print, with their names, and what ended. Events only update the counts; the display is
drawn at most every tenth of a second. Output that comes faster than one can read is counted, not shown.
"""

from __future__ import annotations

from collections import deque
from typing import TextIO

from leftoff.cli.layout import cropped
from leftoff.cli.progress import Observer, command, ending, failure, first_line, sentence, time_table
from leftoff.cli.screen import NARROWEST, columns_of, rows_of
from leftoff.cli.tally import Event, Info, Running, Tally, roughly, took, whole
from leftoff.cli.term import Region
from leftoff.cli.text import ELLIPSIS, Line, clean, crop, pad, step_name, tidy, width
from leftoff.clock import Clock

GAP_S = 0.1  # between two drawings
TICK_S = 0.25
MOST_RUNNING = 12
MOST_WAITING = 3
MOST_LINES = 80  # printed by steps, in one drawing
MOST_NEWS = 400  # lines above, in one drawing
LONGEST = 2000  # characters of one such line
FEW = 20  # items of a `foreach` up to which each that ends is worth a line
TAIL = 10
MOST_TAILS = 3  # items of one `foreach` whose last lines are shown


class LiveDisplay(Observer):
    wants_output = True
    every = TICK_S

    def __init__(self, info: Info, stream: TextIO, clock: Clock) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._tally = Tally(info)
        self._region = Region(stream)
        self._news: list[Line] = []  # what happened, since the last drawing
        self._printed: deque[tuple[str, str]] = deque(maxlen=MOST_LINES)
        self._unseen = 0
        self._untold = 0
        self._shown: list[Line] = []
        self._at = -GAP_S
        self._over = False

    def handle(self, event: Event) -> None:
        now = self._clock.monotonic()
        self._tally.feed(event, now)
        kind = event["event"]
        if kind == "output":
            self._output(event)
        elif kind == "end":
            self._end(event, now)
            return
        else:
            news = _news(event, self._tally)
            if news:
                self._flush()  # in the order in which it happened
                self._tell(news)
        if now - self._at >= GAP_S:
            self.draw()

    def draw(self) -> None:
        """Show what is known by now, unless that was done a moment ago."""
        now = self._clock.monotonic()
        if self._over or now - self._at < GAP_S:
            return
        self._at = now
        columns = max(NARROWEST, columns_of(self._stream))
        below = live_page(self._tally, now, columns - 1, rows_of(self._stream))
        if self._printed or self._news or below != self._shown:
            self._region.draw(self._taken(), below, columns)
            self._shown = below

    def finish(self) -> None:
        """What was drawn goes; what happened stays."""
        if not self._over:
            self._over = True
            self._region.draw(self._taken(), [], max(NARROWEST, columns_of(self._stream)))

    def _end(self, event: Event, now: float) -> None:
        self._over = True
        columns = max(NARROWEST, columns_of(self._stream))
        times = time_table(self._tally, columns - 1)
        last = [*([[], *times, []] if times else []), *ending(event, self._tally, now, columns - 1)]
        self._region.draw([*self._taken(), *last], [], columns)

    # -- what scrolls

    def _tell(self, lines: list[Line]) -> None:
        if len(self._news) < MOST_NEWS:
            self._news += lines
        else:
            self._untold += len(lines)

    def _taken(self) -> list[Line]:
        """What is to be printed now."""
        self._flush()
        news, self._news = self._news, []
        if self._untold:
            news.append([(f"… and {self._untold:,} more lines like these", "dim")])
            self._untold = 0
        return news

    def _output(self, event: Event) -> None:
        text, name = event.get("text") or "", event["step"]
        lines = text.removesuffix("\n").rsplit("\n", MOST_LINES)
        if len(lines) > MOST_LINES:
            self._unseen += lines[0].count("\n") + 1
            del lines[0]
        self._unseen += max(0, len(self._printed) + len(lines) - MOST_LINES)
        self._printed.extend((name, line) for line in lines)

    def _flush(self) -> None:
        """What was printed since the last drawing becomes news; no more of it than one can see."""
        if not self._printed:
            return
        lines: list[Line] = []
        if self._unseen:
            lines.append([(f"… {self._unseen:,} lines not shown, see `leftoff logs`", "dim")])
        lines += [[(f"{clean(name)} │ ", "dim"), (tidy(line[:LONGEST]), "")] for name, line in self._printed]
        self._tell(lines)
        self._printed.clear()
        self._unseen = 0


# -- the lines at the bottom


def live_page(tally: Tally, now: float, columns: int, rows: int) -> list[Line]:
    """What stands at the bottom: steps that run, steps that wait, the whole. Nothing before the first of them begins,
    so that whatever is asked until then has the terminal to itself."""
    if not tally.moving:
        return []
    room = max(1, min(MOST_RUNNING, rows - MOST_WAITING - 4))
    running = list(tally.running.values())
    shown = running if len(running) <= room else running[: room - 1]
    names = min(max((width(step_name(each.path)) for each in shown), default=0), max(columns * 2 // 5, 8))
    lines = [_running(each, now, names, columns) for each in shown]
    if len(shown) < len(running):
        lines.append([(crop(f"  … and {len(running) - len(shown)} more", columns), "dim")])
    return [*lines, *_waiting(tally, columns), _whole(tally, now, columns)]


def _running(each: Running, now: float, names: int, columns: int) -> Line:
    name = pad(_end_of(step_name(each.path), names), names)
    since = f"{whole(now - each.since):>7}"
    again = f"  attempt {each.attempt}" if each.attempt > 1 else ""
    last = tidy(each.last) if each.last else clean(each.title)
    line: Line = [
        ("● ", "busy"),
        (name, ""),
        (f" {since}", ""),
        (again, "warn"),
        (f"  {last}" if last else "", "dim"),
    ]
    return _cut(line, columns)


def _end_of(path: str, columns: int) -> str:
    """A path within so many columns; its end tells it from the others."""
    at = 0
    while width(path[at:]) > columns - (1 if at else 0):
        at += 1
    return ELLIPSIS + path[at:] if at else path


def _waiting(tally: Tally, columns: int) -> list[Line]:
    lines: list[Line] = []
    for path, asked in list(tally.waiting.items())[:MOST_WAITING]:
        what = first_line(asked) or "waiting for a person"
        lines.append(_cut([("◔ ", "warn"), (step_name(path), ""), (f"  {clean(what)}", "dim")], columns))
    more = len(tally.waiting) - MOST_WAITING
    return [*lines, [(crop(f"  … and {more} more wait", columns), "dim")]] if more > 0 else lines


def _whole(tally: Tally, now: float, columns: int) -> Line:
    """The bar, how many, and how long it still takes."""
    total = max(tally.total, tally.done + tally.failed)
    percent = tally.done * 100 // total if total else 0
    counted: Line = [(f" {tally.done}/{total}", ""), (f"  {percent}%", "title")]
    if tally.failed:
        counted.append((f"  {tally.failed} failed", "bad"))
    if tally.retrying:
        counted.append((f"  {len(tally.retrying)} to be retried", "warn"))
    times = "  ending…" if tally.interrupted else f"  {whole(tally.elapsed(now))}{_left(tally, now)}"
    wide = columns - sum(width(text) for text, _ in counted) - width(times)
    if wide < 10:
        wide = max(0, min(10, columns - sum(width(text) for text, _ in counted)))
    wide = min(wide, 40)
    good, bad = _share(tally.done, total, wide), 0
    if tally.failed:
        bad = min(max(1, _share(tally.failed, total, wide)), wide - good)
    bar: Line = [("━" * good, "good"), ("━" * bad, "bad"), ("━" * (wide - good - bad), "rest")]
    return _cut([*bar, *counted, (times, "dim")], columns)


def _left(tally: Tally, now: float) -> str:
    if not tally.running and not tally.retrying:
        return ""
    left = tally.left(now)
    if left is None:
        return ""
    seconds, sure = left
    if seconds < 10:
        return ", a few seconds left" if sure else ""
    return f", about {roughly(seconds)} left" if sure else f", over {roughly(seconds)} left"


def _share(part: int, total: int, wide: int) -> int:
    return part * wide // total if total else 0


def _cut(line: Line, columns: int) -> Line:
    return [(text, style) for text, style in cropped(line, columns) if text]


# -- what scrolls above

# The symbol and the style of an event that is told by its sentence.
_SYMBOLS = {
    "start": ("▸", "dim"),
    "plan": ("▸", "dim"),
    "foreach": ("▸", "dim"),
    "step_skipped": ("–", "dim"),
    "step_stopped": ("◌", "warn"),
    "adopted": ("✓", "good"),
    "reattached": ("●", "dim"),
    "warning": ("!", "warn"),
    "interrupt": ("!", "warn"),
}


def _news(event: Event, tally: Tally) -> list[Line]:
    """Return the lines that an event adds above the display."""
    kind = event["event"]
    if kind in ("step_done", "step_skipped"):
        group = tally.group(event["step"])
        items = group.items if group is not None else None
        if items is not None and (items > FEW or event["step"] in tally.groups):
            return []  # one of many items, or the `foreach` itself, whose items had a line each
    if kind in _SYMBOLS:
        symbol, style = _SYMBOLS[kind]
        return [[(f"{symbol} ", style), (sentence(event, tally, 0.0), style)]]
    if kind == "step_done":
        seconds = event.get("seconds")
        why = f"  {clean(event['why'])}" if event.get("why") else ""
        time = f"  {took(seconds)}" if seconds is not None else ""
        return [[("✓ ", "good"), (step_name(event["step"]), ""), (f"{time}{why}", "dim")]]
    if kind == "step_failed":
        return _failed(event, tally)
    if kind == "waiting":  # the question or the instructions in full, then the command
        first, *more = str(event.get("ask") or "waiting for a person").strip().split("\n")
        options = ", ".join(clean(str(option)) for option in event.get("options") or ())
        asked: Line = [("◔ ", "warn"), (step_name(event["step"]), "title"), (f"  {clean(first)}", "")]
        asked.append((f"  [{options}]" if options else "", "dim"))
        below: list[Line] = [[("  ", ""), (clean(line), "")] for line in more]
        return [asked, *below, [("  ", ""), (clean(command(tally.run_id, event["step"], event)), "id")]]
    return []


def _failed(event: Event, tally: Tally) -> list[Line]:
    name, why = step_name(event["step"]), f" failed{failure(event)}"
    if event.get("will_retry_in") is not None:
        return [[("↻ ", "warn"), (name, ""), (why, "warn")]]
    lines: list[Line] = [[("✗ ", "bad"), (name, "title"), (why, "bad")]]
    group = tally.group(event["step"])
    if group is not None and group.failed > MOST_TAILS:
        return lines
    tail = (event.get("tail") or "").rstrip("\n").split("\n")[-TAIL:]
    return [*lines, *([("  │ ", "bad"), (tidy(line[:LONGEST]), "dim")] for line in tail if tail != [""])]
