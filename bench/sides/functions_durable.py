"""DBOS's workflow killed on the way and recovered: `seed` is killed in step KILL of COUNT, `resume` is started again.

Recovery starts by itself at launch; the first new step says when it began.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from dbos import DBOS

from bench.sides import durable

MODE, FOLDER, COUNT, KILL = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def _numbered(number: int) -> int:
    """Finished ones never run again."""
    if MODE == "resume":
        print(time.perf_counter() if number == KILL else "nan", flush=True)
        os._exit(0)
    if number == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


numbered: Callable[[int], int] = DBOS.step()(_numbered)


def _long_flow(count: int) -> None:
    """`count` steps."""
    for number in range(count):
        numbered(number)


long_flow: Callable[[int], None] = DBOS.workflow()(_long_flow)
durable.launch(FOLDER)
if MODE == "seed":
    long_flow(COUNT)
time.sleep(60)
raise SystemExit("DBOS recovered nothing within a minute")
