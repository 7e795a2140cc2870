"""DBOS's recovery as a program sees it: `seed` finishes N steps and is killed, `resume` is started again.

A script, not a worker: time is counted from before the import, and recovery starts by itself at launch.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402

from dbos import DBOS  # noqa: E402

IMPORTED = time.perf_counter()

from bench.sides import durable  # noqa: E402

MODE, FOLDER, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])


def _fresh() -> None:
    """The first step that has not run before: report when it was reached, and end."""
    now = time.perf_counter()
    print(
        json.dumps({"total": now - BEGAN, "without_import": now - IMPORTED, "replay": now - entered[0]}),
        flush=True,
    )
    os._exit(0)


fresh: Callable[[], None] = DBOS.step()(_fresh)
entered: list[float] = []


def _long_flow(count: int) -> None:
    """`count` finished steps, then a death or a new step."""
    entered.append(time.perf_counter())
    for number in range(count):
        durable.trivial(number)
    if MODE == "seed":
        os.kill(os.getpid(), signal.SIGKILL)
    fresh()


long_flow: Callable[[int], None] = DBOS.workflow()(_long_flow)
durable.launch(FOLDER)
if MODE == "seed":
    long_flow(COUNT)
time.sleep(60)
raise SystemExit("DBOS recovered nothing within a minute")
