"""Which process a session is: the agent's own, whatever stands between it and the hook."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.hooking import Living, Session
from tests.cli.command import environment, succeed

ASK = "import sys; sys.argv = ['leftoff', 'hook', 'claude']; from leftoff.host import agent_above; \
print(agent_above('claude').pid)"
WRAPPERS = {
    "a script": "#!/bin/sh\n{python} -c {code}\nexit 0\n",
    "a program with our words": "#!{python}\nimport subprocess\nsubprocess.run([{python!r}, '-c', {plain!r}])\n",
    "any program": "#!{python}\nimport subprocess, sys\nsys.argv = []\nsubprocess.run([{python!r}, '-c', {plain!r}])\n",
}
AGENT = "import subprocess; subprocess.run({!r})"


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_is_not_the_agent(wrapper: str, tmp_path: Path) -> None:
    """It ends with the hook: who took it for the session would call the session dead at once."""
    path = tmp_path / "leftoff-spy"
    code = WRAPPERS[wrapper].format(python=sys.executable, code=f'"{ASK}"', plain=ASK)
    path.write_text(code)
    path.chmod(0o755)
    words = [] if wrapper == "any program" else ["hook", "claude"]
    agent = subprocess.Popen(
        ["claude", "-c", AGENT.format([str(path), *words])],
        executable=sys.executable,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert f"{agent.pid}\n" == agent.communicate(timeout=60)[0]


@pytest.fixture
def daemon(project: Path) -> Iterator[Living]:
    found = Living(project, "s1", "codex", "app-server", "--listen", "unix://", "--managed-daemon")
    yield found
    found.kill()


@pytest.fixture
def terminals() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        process.kill()
        process.wait()


def terminal(cwd: Path, **env: str) -> subprocess.Popen[bytes]:
    """Codex in a terminal, in that folder."""
    words = ["codex", "-c", "import time; time.sleep(600)", "write the guide"]
    return subprocess.Popen(words, executable=sys.executable, cwd=cwd, env=environment(**env))


def lease_pid(cwd: Path) -> int:
    import leftoff

    store = leftoff.open(cwd / ".leftoff")
    try:
        ((_, lease),) = store._store.read(lambda view: view.leases())
        assert lease.process is not None
        return lease.process.pid
    finally:
        store.close()


def test_a_session_of_codex_is_its_terminals(daemon: Living, terminals: list[Any], project: Path) -> None:
    """Its hooks run in a daemon that outlives it: once the terminal is gone, the next session is told."""
    other = project.parent / f"{project.name}-other"
    other.mkdir()
    terminals += [terminal(project), terminal(other)]
    daemon.fire("SessionStart", source="startup")
    daemon.fire("UserPromptSubmit", prompt="Write the guide")
    assert terminals[0].pid == lease_pid(project)
    assert None is Session(project, "s2", "codex").context("SessionStart", source="startup")
    terminals[0].kill()
    terminals[0].wait()
    told = Session(project, "s3", "codex").context("SessionStart", source="startup")
    assert told is not None and "Write the guide" in told
    os.rmdir(other)


def test_two_terminals_in_one_folder(daemon: Living, terminals: list[Any], project: Path) -> None:
    """Each session has one of them, and keeps it."""
    terminals.append(terminal(project))
    daemon.fire("UserPromptSubmit", prompt="The first")
    terminals.append(terminal(project))
    daemon.name = "s2"
    daemon.fire("UserPromptSubmit", prompt="The second")
    daemon.name = "s1"
    daemon.fire("Stop", last_assistant_message="Done.")
    terminals[1].kill()
    terminals[1].wait()
    health = {run["title"]: run["health"] for run in succeed("ls", "--json", cwd=project).json["runs"]}
    assert {"The first": "alive", "The second": "dead"} == health


def test_a_run_that_is_handed_over_is_bound(daemon: Living, terminals: list[Any], project: Path) -> None:
    """The terminal was started for it; the daemon knows nothing of that, and was once started for something else."""
    succeed("start", "release", "--steps", "a,b", "--run-id", "release-1", cwd=project)
    terminals.append(terminal(project, LEFTOFF_RUN="release-1"))
    daemon.fire("SessionStart", source="startup")
    daemon.fire("UserPromptSubmit", prompt="Go on with it")
    (run,) = succeed("ls", "--json", cwd=project).json["runs"]
    assert ("release-1", "s1", "alive") == (run["run_id"], run["session_id"], run["health"])
