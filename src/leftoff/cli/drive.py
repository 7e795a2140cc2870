"""Driving a run from the command: who watches, and which signals end it. For `run` and `resume`."""

from __future__ import annotations

import signal
from contextlib import contextmanager

from leftoff.operations.runs import info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.cli.context import Context
    from leftoff.cli.progress import Observer
    from leftoff.workflow.run.runner import Runner

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded() -> list[signal.Signals]:
    """The signals that end a run; not those that whoever started us wants ignored, as `nohup` does."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def interruptible() -> Iterator[None]:
    """Until a run is driven there is nothing to settle: what asks for the end ends the command, as Ctrl-C does."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(ctx: Context, runner: Runner, observer: Observer) -> int:
    """To the end; signals stop it in order. The last event has the run as it is then."""

    def heed(number: int, frame: object) -> None:
        runner.driver.interrupt(number)

    for number in heeded():
        signal.signal(number, heed)
    code = runner.drive()
    observer({"event": "end", "run": info(ctx.project, runner.ledger).to_json(), "exit": code})
    return code
