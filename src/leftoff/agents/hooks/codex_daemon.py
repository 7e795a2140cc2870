"""Codex's daemon: one process that runs the hooks of all interactive sessions, and outlives them.

A session belongs to the terminal's own process, which is found by its folder. Variables such as `LEFTOFF_RUN` of a
hand-over are in the terminal's environment. The daemon has those of the process that first started it.
"""

from __future__ import annotations

import os

from leftoff.host import Process, scope, started, words_of
from leftoff.operations.sessions.drain import HookCaller

_WORDS = ("app-server", "--managed-daemon")


def is_one(process: Process) -> bool:
    """Return whether a process is such a daemon."""
    words = words_of(process.pid)
    return all(word in words for word in _WORDS)


def terminals(folder: str) -> list[HookCaller]:
    """Return the processes of Codex that work in a folder, the youngest first; none if they cannot be seen."""
    real, found = os.path.realpath(folder), []
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        words = words_of(pid)
        if os.path.basename(words[0]) == "codex" and _WORDS[0] not in words and real in _folders(pid, words):
            found.append(Process(scope(), pid, started(pid)))
    young = sorted((one for one in found if one.started), key=lambda one: int(one.started), reverse=True)
    return [_caller(process) for process in young]


def _folders(pid: int, words: list[str]) -> list[str]:
    """Return where a terminal works: in the folder that it was given, or that it was started in."""
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-C", "--cd")]
    try:
        here = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return []
    return [os.path.realpath(os.path.join(here, path)) for path in given] or [here]


def _caller(terminal: Process) -> HookCaller:
    try:
        with open(f"/proc/{terminal.pid}/environ", "rb") as file:
            lines = os.fsdecode(file.read()).split("\0")
    except OSError:
        lines = []
    given = {name: value for name, _, value in (line.partition("=") for line in lines) if value}
    return HookCaller(
        terminal,
        given.get("LEFTOFF_RUN"),
        given.get("LEFTOFF_BRANCH", "main"),
        "LEFTOFF_ATTEMPT" in given,
    )
