"""Runs as the driver would tell them: lists of events, and a way to watch one of them live.

``python -m tests.cli.events story`` (or ``crowd``, ``flood``, ``stop``) plays it on the terminal, in real time;
with ``--fast`` at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from leftoff.clock import iso

Event = dict[str, Any]
AT = 1_770_000_000_000
RUN = "dev-story-20260202-024000"
STEPS = {
    "total": 0,
    "completed": 0,
    "failed": 0,
    "running": 0,
    "waiting": 0,
    "blocked": 0,
    "pending": 0,
    "skipped": 0,
}


class Teller:
    """Writes events, each at its second."""

    def __init__(self, run_id: str = RUN) -> None:
        self.run_id = run_id
        self.now = 0.0
        self.events: list[Event] = []

    def tell(self, event: str, *, after: float = 0.0, **more: Any) -> None:
        self.now += after
        at = iso(AT + int(self.now * 1000))
        self.events.append({"event": event, "at": at, "run_id": self.run_id, "_second": self.now, **more})


def run_document(status: str, **steps: int) -> Event:
    """What the `end` event says of the run."""
    return {"run_id": RUN, "workflow": "dev-story", "status": status, "steps": {**STEPS, **steps}}


def story() -> list[Event]:
    """Two steps at once, a `foreach`, a failure that is tried again, one that is not, an approval that waits."""
    t = Teller()
    t.tell(
        "start",
        workflow="dev-story",
        resumed=False,
        steps={**STEPS, "total": 6, "pending": 6},
        log="attempts/x",
    )
    t.tell("batch_start", batch=1, of=5, steps=["research", "index"])
    t.tell("step_start", step="research", title="Look around", attempt=1, number=1, total=6, estimate=4.0)
    t.tell("step_start", step="index", title="Build the index", attempt=1, number=2, total=6, estimate=3.0)
    for number in range(6):
        t.tell("output", after=0.4, step="research", text=f"reading page {number + 1} of 6\n")
        t.tell("output", step="index", text=f"{number * 150} words\r{number * 150 + 75} words\n")
    t.tell("step_done", after=0.1, step="index", seconds=2.5, outputs=["index.json"])
    t.tell("step_done", after=0.7, step="research", seconds=3.2, outputs=["reports/research.json"])
    t.tell("batch_complete", batch=1, of=5, steps=["research", "index"])
    t.tell("checkpoint", checkpoint_id="3f9a41c0de12", trigger="batch_complete", step=None)
    t.tell("phase", to="implementation")
    t.tell("foreach", step="implementation/convert", items=7)
    for number in range(3):
        _item(t, number)
    for number in range(7):
        path = f"implementation/convert/page-{number}.pdf"
        if number == 2:
            t.tell("step_failed", after=0.3, step=path, attempt=1, error={"type": "exit", "message": "exit 1"},
                   tail="cannot read the xref table\n", will_retry_in=0.5)  # fmt: skip
            t.tell("step_start", after=0.5, step=path, attempt=2, number=5, total=12, estimate=1.0)
            t.tell("step_failed", after=0.5, step=path, attempt=2, error={"type": "exit", "message": "exit 1"},
                   tail="opening page-2.pdf\ncannot read the xref table\n", will_retry_in=None)  # fmt: skip
        else:
            t.tell(
                "step_done",
                after=0.6,
                step=path,
                seconds=0.9 + number / 10,
                outputs=[f"out/page-{number}.md"],
            )
        if number + 3 < 7:
            _item(t, number + 3)
    t.tell("step_done", step="implementation/convert", status="completed")
    t.tell("step_skipped", step="implementation/check", why="its condition does not hold")
    t.tell("waiting", step="sign-off", kind="approval", ask="Approve docs/architecture.md?",
           options=["approve", "roundtable", "reject"], deadline=iso(AT + 7 * 86_400_000),
           how=f"leftoff approve {RUN} sign-off")  # fmt: skip
    t.tell("end", after=1.5, exit=1,
           run=run_document("failed", total=12, completed=8, skipped=1, failed=1, waiting=1, pending=1))  # fmt: skip
    return t.events


def _item(t: Teller, number: int) -> None:
    path = f"implementation/convert/page-{number}.pdf"
    t.tell(
        "step_start",
        step=path,
        title=f"page-{number}.pdf",
        attempt=1,
        number=3 + number,
        total=12,
        estimate=1.0,
    )
    t.tell("output", step=path, text=f"opening page-{number}.pdf\n")


def crowd(items: int = 400, places: int = 8, seconds: float = 0.1) -> list[Event]:
    """A `foreach` of many items, so many at once."""
    t = Teller()
    t.tell("start", workflow="crowd", resumed=False, steps={**STEPS, "total": 1, "pending": 1})
    t.tell("foreach", step="work", items=items)
    for number in range(items + places):
        if number >= places:
            path = f"work/item-{number - places:05d}"
            t.tell("step_done", after=seconds / places, step=path, seconds=seconds, outputs=[])
        if number < items:
            path = f"work/item-{number:05d}"
            t.tell("step_start", step=path, attempt=1, number=number + 1, total=items)
            t.tell("output", step=path, text=f"looking at {number}\n")
    t.tell("end", exit=0, run=run_document("completed", total=items, completed=items))
    return t.events


def flood(lines: int = 200_000) -> list[Event]:
    """A step that prints faster than anyone reads."""
    t = Teller()
    t.tell("start", workflow="flood", resumed=False, steps={**STEPS, "total": 1, "pending": 1})
    t.tell("step_start", step="work", attempt=1, number=1, total=1)
    for first in range(0, lines, 1000):
        text = "".join(f"line {number} of {lines}\n" for number in range(first, first + 1000))
        t.tell("output", after=0.01, step="work", text=text)
    t.tell("step_done", step="work", seconds=2.0, outputs=[])
    t.tell("end", exit=0, run=run_document("completed", total=1, completed=1))
    return t.events


def stop() -> list[Event]:
    """Ctrl-C while many steps run, one of them with a hostile name and hostile output."""
    t = Teller()
    t.tell(
        "start", workflow="stop", resumed=True, steps={**STEPS, "total": 40, "completed": 10, "pending": 30}
    )
    before = [{"step": f"done-{number}", "action": "skip", "why": "it is completed"} for number in range(10)]
    t.tell("plan", plan=[*before, {"step": "a", "action": "adopt", "why": "exit 0, its outputs are there"}])
    t.tell("adopted", step="a", why="exit 0, its outputs are there")
    t.tell("step_done", step="a", seconds=9.0, why="adopted")
    for number in range(20):
        path = f"step-{number}" if number else "step\x1b[31m\n日本語日本語"
        t.tell("step_start", step=path, attempt=1 + number % 2, number=number, total=40)
        t.tell("output", step=path, text="\x1b[2J\x1b]0;owned\x07half\ttabbed\x9b2J\n")
    t.tell("warning", after=2.0, message="the disk is nearly full")
    t.tell("interrupt", after=1.0, signal="SIGINT", grace=10.0)
    for number in range(20):
        path = f"step-{number}" if number else "step\x1b[31m\n日本語日本語"
        t.tell("step_stopped", after=0.1, step=path, why="SIGINT")
    t.tell("end", exit=130, run=run_document("paused", total=40, completed=11, pending=29))
    return t.events


PLAYS = {"story": story, "crowd": crowd, "flood": flood, "stop": stop}


def play(name: str) -> Iterator[tuple[float, Event]]:
    """The events of a play, and the second of each."""
    for event in PLAYS[name]():
        yield event.pop("_second"), event


def main(name: str) -> None:
    from leftoff.cli.context import Context
    from leftoff.cli.events import observer_for
    from leftoff.cli.options import Args, Spec

    args = Args(Spec("run", "play"))
    args.json = "--json" in sys.argv
    speed = 1e6 if "--fast" in sys.argv else 5 if "--brisk" in sys.argv else 1
    began = time.monotonic()
    with observer_for(Context(args)) as watcher:
        for second, event in play(name):
            while (rest := second / speed - (time.monotonic() - began)) > 0:
                time.sleep(min(rest, watcher.every or rest))
                watcher.tick()
            if event["event"] != "output" or watcher.wants_output:
                watcher(event)


if __name__ == "__main__":
    main(sys.argv[1])
