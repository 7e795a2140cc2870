"""What a step's command started ends when the command says so, whether or not it minds being told."""

from __future__ import annotations

import subprocess
import sys

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
COMMAND = f"""
import os, subprocess, sys
from leftoff.workflow.process_groups import Rest
pid = os.fork()
if pid:  # the leader of the session, as the shim is
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], stdout=subprocess.PIPE)
child.stdout.readline()
rest = Rest(child.pid, 0.1)
print(rest.end())
rest.wait()
print(child.wait(), rest.end())
"""


def test_who_does_not_mind_is_killed() -> None:
    """SIGTERM first; after the grace SIGKILL. The leader of the session, and who asks, are left alone."""
    words = [sys.executable, "-c", COMMAND]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (0, ["False", "-9 True"]) == (done.returncode, done.stdout.splitlines()), done.stderr
