"""Show what `run` and `resume` do while they work: the driver passes each event to an observer.

An event is a dict whose ``event`` names its kind (docs/events.md lists them). The observers:
JSON lines for a program (``JsonLines``), a live display on a terminal (``leftoff.cli.live``), else one line per event
(``PlainLines``). ``sentence`` words an event for both displays.

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
from leftoff.cli.layout import Column, line_width, table, wrapped
from leftoff.cli.tally import Event, Group, Info, Tally, took, whole
from leftoff.cli.text import Line, clean, clean_lines, printable, say, step_name, tidy
from leftoff.clock import Clock, iso
from leftoff.engine.steps.approvals import ask_again, how
from leftoff.log import debugging
from leftoff.model.words import in_words

LOG = "detached.log"  # in the store's folder: the events of detached runs
_MOST_LOG = 1 << 20  # bytes; a longer log is emptied when another run begins
_NOBODY_READS = (errno.EPIPE, errno.EIO)  # the pipe was closed, or the terminal is gone
_TAIL = 20  # lines of a failed step's output
_MOST_NAMED = 8  # steps or files in one sentence
_MOST_ASKED = 6  # commands after the end
MOST_ROWS = 30  # of the table of times


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
        if not self._silent:
            self._try(self.handle, event)

    def tick(self) -> None:
        """Update what is shown, because time has passed."""
        if not self._silent and not self._closed:
            self._try(self.draw)

    def close(self) -> None:
        """Leave the terminal as it was. A second call does nothing."""
        if not self._silent and not self._closed:
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
        try:
            call(*args)
        except OSError as error:
            if error.errno not in _NOBODY_READS:
                self.lost = error.strerror or str(error)
            if error.errno != errno.ENOSPC:  # there may be room again for the next line
                self._silent = True
                _discard_stdout()
        except Exception as error:
            if debugging():
                raise
            self._silent = True
            try:
                what = f"{type(error).__name__}: {error}"
                say(f"leftoff: progress can no longer be shown ({what}); the run continues.\n")
            except OSError:
                pass


def _discard_stdout() -> None:
    """Discard what Python has buffered for stdout, so that it does not complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
    except OSError:
        pass
    finally:
        os.close(nowhere)


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
            self._write(_output_lines(event, "text"))
            return
        at = str(event.get("at") or iso(self._clock.now()))[:19]  # without its fraction, so that lines align
        self._write(f"{at}Z  {clean_lines(sentence(event, self._tally, now))}\n")
        if (
            kind == "step_failed"
            and event.get("will_retry_in") is None
            and (event.get("tail") or "").strip("\n")
        ):
            say(_output_lines(event, "tail", _TAIL))
        if kind == "end":
            for do, why in advice(event, self._tally):
                say(f"{do}  # {why}\n")

    def _write(self, text: str) -> None:
        self._stream.write(printable(text))
        self._stream.flush()


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
            return f"failed{failure(event)}"
        case "step_stopped":
            return f"stopped, will run again{why}"
        case "adopted":
            return f"adopted{why}"
        case "reattached":
            return f"still runs, reattached{why}"
        case "waiting":
            options = ", ".join(clean(str(option)) for option in event.get("options") or ())
            until = f" (until {clean(str(event['deadline']))})" if event.get("deadline") else ""
            asked, do = clean(first_line(event)), clean(command(tally.run_id, event["step"], event))
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


def failure(event: Event) -> str:
    """Return which attempt failed, why, and whether there will be another."""
    error = event.get("error") or {}
    number = f", attempt {event['attempt']}" if event.get("attempt") else ""
    again = event.get("will_retry_in")
    said = clean(str(error.get("message") or error.get("type") or "no reason is known"))
    return f"{number}: " + (f"{said.rstrip('.')}; again in {took(again)}" if again is not None else said)


def first_line(event: Event) -> str:
    """Return the first line of what a waiting step asks."""
    return str(event.get("ask") or "").strip().partition("\n")[0]


def command(run_id: str, path: str, asked: Event) -> str:
    """Return the command that answers a waiting step."""
    if asked.get("how"):
        return str(asked["how"])
    return how(run_id, path) if asked.get("kind") == "approval" else how(run_id, path, "step done --run")


# -- the end of a run

_ENDED_LOOK = {
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "blocked": ("■", "warn"),
    "paused": ("◌", "warn"),
}


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
        out.append((clean(command(run_id, path, asked)), f"the run is waiting for {what}"))
    if not rejected or failed > len(rejected) or tally.waiting:
        out.append((f"leftoff resume {run_id}", "continues from here"))
    return out


def ending(event: Event, tally: Tally, now: float, columns: int) -> list[Line]:
    """Return how the run ended, for a terminal; then one command per line, whole, so that it can be copied."""
    symbol, style = _ENDED_LOOK.get((event.get("run") or {}).get("status", ""), ("–", "dim"))
    lines = wrapped([(f"{symbol} {run_verdict(event, tally, now)}", style)], columns)
    for do, why in advice(event, tally):
        line: Line = [("  ", ""), (do, "id"), (f"  {why}", "dim")]
        lines.append(line if line_width(line) <= columns else line[:2])
    return lines


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
    longest = sorted(groups, key=lambda group: -group.seconds)[:MOST_ROWS]
    shown = [group for group in groups if group in longest]
    rows = [_time_row(group) for group in shown]
    if len(groups) > 1:
        wanted = sum((group.leaf.estimate or 0) * group.timed for group in estimated)
        rows.append(
            [
                [("all together", "title")],
                [],
                [(whole(wanted) if estimated else "–", "title" if estimated else "dim")],
                [(took(sum(group.seconds for group in groups)), "title")],
                _off_by(wanted, sum(group.seconds for group in estimated)),
            ]
        )
    if not estimated:  # nothing to compare with
        heads, rows = heads[:2] + heads[3:4], [row[:2] + row[3:4] for row in rows]
    lines = table(heads, rows, columns)
    if len(shown) < len(groups):
        lines.append([(f"… and {len(groups) - len(shown)} more that took less", "dim")])
    return lines


def _time_row(group: Group) -> list[Line]:
    each = group.leaf.estimate
    wanted = each * group.timed if each is not None else None
    items = f"{group.timed} × {took(group.seconds / group.timed)}" if group.timed > 1 else ""
    return [
        [(step_name(group.leaf.path), "")],
        [(items, "dim")],
        [(whole(wanted) if wanted is not None else "–", "dim" if wanted is None else "")],
        [(took(group.seconds), "")],
        _off_by(wanted, group.seconds),
    ]


def _off_by(wanted: float | None, seconds: float) -> Line:
    if not wanted:
        return []
    off = (seconds - wanted) / wanted
    style = "good" if off <= 0 else "warn" if off <= 0.5 else "bad"
    return [(f"{off:+.0%}" if off < 10 else f"×{seconds / wanted:.0f}", style)]
