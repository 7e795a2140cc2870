"""leftoff's durable functions: a workflow of trivial steps, and the same killed on the way and resumed.

As a script, `seed` is killed in step KILL of COUNT; `resume` runs it again and says when the first new step began.
"""

from __future__ import annotations

import time

import leftoff


@leftoff.step
def trivial(number: int) -> int:
    """A step that costs nothing but its durability."""
    return number


@leftoff.workflow
def flow(size: int) -> float:
    """Seconds from the first step's call to the last one's return."""
    began = time.perf_counter()
    for number in range(size):
        trivial(number)
    return time.perf_counter() - began


class Steps:
    """One run per round."""

    def __init__(self, folder: str) -> None:
        self._store = leftoff.open(f"{folder}/.leftoff")
        self._runs = 0

    def round(self, size: int) -> float:
        """Seconds for a workflow's `size` steps; its start and end are not counted, as with DBOS."""
        self._runs += 1
        return flow.run(size, store=self._store, run_id=f"steps-{self._runs}")


def main() -> None:
    """The program that dies, and the one that goes on."""
    import os
    import signal
    import sys

    mode, folder, count, kill = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

    @leftoff.step
    def numbered(number: int) -> int:
        """Finished ones never run again."""
        if mode == "resume":
            print(time.perf_counter() if number == kill else "nan", flush=True)
            os._exit(0)
        if number == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    @leftoff.workflow
    def long_flow(count: int) -> None:
        """`count` steps."""
        for number in range(count):
            numbered(number)

    long_flow.run(count, store=leftoff.open(f"{folder}/.leftoff"))


if __name__ == "__main__":
    main()
