"""For pipes, files and terminals that can do nothing: one line per event, with its time.

What a failed step printed last goes to stderr, so that a job's log shows why and stdout keeps to a line per event. On
a terminal, where somebody reads along, and with ``--verbose`` what the steps print is shown as well.
"""

from __future__ import annotations

from leftoff.cli.progress.base import Observer
from leftoff.cli.progress.ending import advice, command, verdict
from leftoff.cli.progress.tally import Tally
from leftoff.cli.progress.times import took, whole
from leftoff.cli.render.step_output import tidy
from leftoff.cli.render.text import clean, clean_lines, printable, say, step_name
from leftoff.clock import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from leftoff.cli.progress.base import Event
    from leftoff.cli.progress.info import Info
    from leftoff.clock import Clock

_SHOWN = 8
TAIL = 20


class Plain(Observer):
    def __init__(self, info: Info, stream: TextIO, clock: Clock, *, output: bool | None = None) -> None:
        super().__init__()
        self.wants_output = stream.isatty() if output is None else output
        self._stream = stream
        self._clock = clock
        self._tally = Tally(info)

    def handle(self, event: Event) -> None:
        now = self._clock.monotonic()
        self._tally.feed(event, now)
        if event["event"] == "output":
            self._printed(event)
            return
        said = sentence(event, self._tally, now)
        line = f"{_seconds(event.get('at') or iso(self._clock.now()))}{clean_lines(said)}\n"
        self._stream.write(printable(line))
        self._stream.flush()
        if event["event"] == "step_failed" and event.get("will_retry_in") is None:
            tail(event)
        if event["event"] == "end":
            for do, why in advice(event, self._tally):
                say(f"{do}  # {why}\n")

    def _printed(self, event: Event) -> None:
        name = step_name(event["step"])
        lines = (event.get("text") or "").rstrip("\n").split("\n")
        self._stream.write(printable("".join(f"{name} │ {tidy(line)}\n" for line in lines)))
        self._stream.flush()


def _seconds(at: object) -> str:
    """The time of an event, without its fraction, so that lines stand below each other."""
    return f"{str(at)[:19]}Z  "


def tail(event: Event) -> None:
    """What a step printed last, for whoever reads stderr."""
    lines = (event.get("tail") or "").rstrip("\n").split("\n")[-TAIL:]
    if lines != [""]:
        say("".join(f"{step_name(event['step'])} │ {tidy(line)}\n" for line in lines))


def sentence(event: Event, tally: Tally, now: float) -> str:
    """An event, as one says it on one line."""
    kind = event["event"]
    if kind == "end":
        return verdict(event, tally, now)
    tell = _SENTENCES.get(kind)
    said = tell(event, tally) if tell is not None else kind
    name = event.get("step")
    return f"{step_name(name)}: {said}" if isinstance(name, str) and kind != "checkpoint" else said


def _start(event: Event, tally: Tally) -> str:
    name = clean(event.get("run_id") or "")
    if event.get("resumed"):  # the plan tells the rest
        return f"{name} resumed"
    number = (event.get("steps") or {}).get("total", 0)
    return f"{name} started: {number} step{'' if number == 1 else 's'}"


def _plan(event: Event, tally: Tally) -> str:
    """How many of each; and of those that are not simply run or skipped, which and why."""
    counts: dict[str, int] = {}
    special = []
    for entry in event.get("plan", ()):
        action = str(entry.get("action"))
        counts[action] = counts.get(action, 0) + 1
        if action not in ("run", "skip"):
            special.append(f"{action} {step_name(str(entry.get('step')))} ({entry.get('why')})")
    said = ", ".join(f"{number} to {action}" for action, number in counts.items())
    more = f"; and {len(special) - _SHOWN} more" if len(special) > _SHOWN else ""
    return (
        f"plan: {said or 'nothing is left'}" + "".join(f"; {clean(line)}" for line in special[:_SHOWN]) + more
    )


def _batch(event: Event, tally: Tally) -> str:
    paths = [step_name(path) for path in event.get("steps", ())]
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    word = "begins" if event["event"] == "batch_start" else "is complete"
    said = f"batch {event.get('batch')} of {event.get('of')} {word}"
    return f"{said}: {', '.join(paths[:_SHOWN])}{more}" if paths else said


def _phase(event: Event, tally: Tally) -> str:
    come = f"phase {clean(str(event.get('to')))} begins" if event.get("to") else "the last phase is over"
    return come + (f" after {clean(str(event['from']))}" if event.get("from") else "")


def _step_start(event: Event, tally: Tally) -> str:
    of = f" ({event['number']} of {event['total']})" if event.get("number") and event.get("total") else ""
    again = f", attempt {event['attempt']}" if (event.get("attempt") or 1) > 1 else ""
    takes = f", estimated {whole(event['estimate'])}" if event.get("estimate") else ""
    return f"started{of}{again}{takes}"


def _step_done(event: Event, tally: Tally) -> str:
    said = "done" if event.get("seconds") is None else f"done in {took(event['seconds'])}"
    if event.get("status") in ("failed", "skipped"):  # of a `foreach`: what its items amount to
        said = "all items ended, some failed" if event["status"] == "failed" else "all items were skipped"
    outputs = [clean(str(path)) for path in event.get("outputs") or ()]
    more = f" and {len(outputs) - _SHOWN} more" if len(outputs) > _SHOWN else ""
    return said + (f" → {', '.join(outputs[:_SHOWN])}{more}" if outputs else "") + _why(event)


def failure(event: Event) -> str:
    """Which attempt, why, and whether it is tried again."""
    error = event.get("error") or {}
    number = f", attempt {event['attempt']}" if event.get("attempt") else ""
    again = event.get("will_retry_in")
    said = clean(str(error.get("message") or error.get("type") or "no reason is known"))
    return f"{number}: " + (f"{said.rstrip('.')}; again in {took(again)}" if again is not None else said)


def _waiting(event: Event, tally: Tally) -> str:
    do = clean(command(tally.run_id, event["step"], event))
    until = f" (until {clean(str(event['deadline']))})" if event.get("deadline") else ""
    if event.get("kind") == "manual":
        return f"waiting for somebody to do it{until}: {clean(first_line(event))} `{do}`"
    options = ", ".join(clean(str(option)) for option in event.get("options") or ())
    return f"waiting for a decision{until}: {clean(first_line(event))} [{options}] `{do}`"


def first_line(event: Event) -> str:
    """What a step wants of a person, in a line."""
    return str(event.get("ask") or "").strip().partition("\n")[0]


def _interrupt(event: Event, tally: Tally) -> str:
    name = str(event.get("signal") or "interrupted")
    more = "; again to end them at once" if name.endswith("INT") else ""
    return f"{clean(name)}: ending what is running, within {whole(event.get('grace') or 0)}{more}"


def _checkpoint(event: Event, tally: Tally) -> str:
    of = f" {step_name(event['step'])}" if event.get("step") else ""
    return f"checkpoint {clean(str(event.get('checkpoint_id')))} ({clean(str(event.get('trigger')))}{of})"


def _why(event: Event) -> str:
    return f": {clean(str(event['why']))}" if event.get("why") else ""


_SENTENCES: dict[str, Callable[[Event, Tally], str]] = {
    "start": _start,
    "plan": _plan,
    "batch_start": _batch,
    "batch_complete": _batch,
    "phase": _phase,
    "step_start": _step_start,
    "step_done": _step_done,
    "step_skipped": lambda event, tally: f"skipped{_why(event)}",
    "step_failed": lambda event, tally: f"failed{failure(event)}",
    "step_stopped": lambda event, tally: f"stopped, will run again{_why(event)}",
    "adopted": lambda event, tally: f"adopted{_why(event)}",
    "reattached": lambda event, tally: f"still runs, reattached{_why(event)}",
    "waiting": _waiting,
    "foreach": lambda event, tally: f"{event.get('items')} items",
    "checkpoint": _checkpoint,
    "warning": lambda event, tally: f"warning: {clean(str(event.get('message')))}",
    "interrupt": _interrupt,
}
