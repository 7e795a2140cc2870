"""``leftoff run --detach``: the command goes on in the background once its run has begun, and says which run that is.

Until then it is the command that the person called: whatever is wrong is told where it was typed, and what must be
asked is asked. The moment the run begins its process leaves the terminal (a session of its own, no input, its events in
a file), and whoever waits for it gets the run's id. It drives the run like any other: `logs -f`, `status` and `stop`
find it.
"""

from __future__ import annotations

import os
import sys

from leftoff.cli.progress.base import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.progress.base import Event

LOG = "detached.log"  # in the store's folder
MOST = 1 << 20  # bytes of it that are kept when another run begins


def detach(ctx: Context) -> int | None:
    """In the process that goes on: None. In the one that was called: the exit code, once the other has begun a run."""
    ctx.close_project()  # a store that is open is not taken along
    sys.stdout.flush()
    sys.stderr.flush()
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hear)
        ctx.away = say
        return None
    os.close(say)
    with os.fdopen(hear, "rb") as channel:
        run_id = channel.read().decode()
    if not run_id:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ctx.args.json:
        ctx.emit({"run_id": run_id, "detached": True, "log": os.path.join(ctx.project.store_folder, LOG)})
        return 0
    ctx.out(run_id)
    ctx.say(
        f"leftoff: it runs in the background. `leftoff logs -f {run_id}` shows it, `leftoff stop {run_id}` ends it."
    )
    return 0


class Away(Observer):
    """Shows nothing before the run begins; then leaves, and lets another observer write to the file."""

    def __init__(self, ctx: Context, inner: Observer) -> None:
        super().__init__()
        self._ctx = ctx
        self._inner = inner

    def handle(self, event: Event) -> None:
        if event["event"] == "start" and self._ctx.away is not None:
            leave(os.path.join(self._ctx.project.store_folder, LOG))
            os.write(self._ctx.away, str(event["run_id"]).encode())
            os.close(self._ctx.away)
            self._ctx.away = None
        self._inner(event)


def leave(log: str) -> None:
    """A session of its own, without the terminal."""
    os.setsid()
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(file).st_size > MOST:
        os.ftruncate(file, 0)
    for fd, place in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(fd, place)
    os.close(nothing)
    os.close(file)
