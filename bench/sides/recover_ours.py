"""leftoff's resuming as a program sees it: `seed` finishes N steps and is killed, `resume` runs it again."""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import leftoff  # noqa: E402

IMPORTED = time.perf_counter()

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

MODE, FOLDER, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])


def fresh() -> None:
    """The first step that has not run before: report when it was reached, and end."""
    now = time.perf_counter()
    print(
        json.dumps({"total": now - BEGAN, "without_import": now - IMPORTED, "replay": now - ENTERED}),
        flush=True,
    )
    os._exit(0)


def trivial() -> int:
    """A step of the seeding; when resumed, none of them may run again."""
    if MODE != "seed":
        raise SystemExit("a finished step ran again")
    return 1


with leftoff.open(f"{FOLDER}/.leftoff").run("bench") as run:
    ENTERED = time.perf_counter()
    for number in range(COUNT):
        run.do(f"step-{number}", trivial)
    if MODE == "seed":
        os.kill(os.getpid(), signal.SIGKILL)
    run.do("fresh", fresh)
