"""A process that is killed while it writes a protocol's files leaves no edit that somebody would have made."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import call, environment, succeed

KILLED = """
import os, signal, sys
from leftoff.protocols import sync_base
from leftoff.cli.dispatch import dispatch
left = int(sys.argv[1])
replace = sync_base.SyncBase.replace
def once(self, path, data):
    global left
    done = replace(self, path, data)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
sync_base.SyncBase.replace = once
dispatch(["set", "x=1"])
dispatch(["save"])  # crunch writes a file for each checkpoint
"""
WRITES = {"dotagent": (1, 2), "bmad": (1,), "crunch": (1,), "claude-checkpoints": (1,), "sitebuilder": (1,)}
START = {
    "dotagent": ["start", "dotagent"],
    "bmad": ["start", "plan", "--steps", "a,b"],
    "crunch": ["start", "crunch", "--issue", "42"],
    "claude-checkpoints": ["start", "plan", "--title", "A plan"],
    "sitebuilder": ["start", "builder", "--task", "T060"],
}


@pytest.mark.parametrize(("protocol", "write"), [(name, n) for name, many in WRITES.items() for n in many])
def test_killed_while_it_writes(project: Path, protocol: str, write: int) -> None:
    """The next command finds its own files, half written or not, and asks nothing."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = succeed(*START[protocol], cwd=project).out.strip()
    done = subprocess.run([sys.executable, "-c", KILLED, str(write)], cwd=project, env=environment())
    assert -signal.SIGKILL == done.returncode
    assert 1 == succeed("get", "x", "--json", "--run", run, cwd=project).json
    assert 0 == call("verify", run, cwd=project).code
    sealed = succeed("log", run, "--json", cwd=project).json["checkpoints"]
    assert "external" not in [one["trigger"] for one in sealed]
    succeed("set", "x=2", "--run", run, cwd=project)
    states = [json.loads(path.read_text()) for path in project.rglob("phase.json")]
    assert all(state["interruption_safe"] for state in states)
