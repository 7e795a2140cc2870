"""Codex's daemon: one process that runs the hooks of all interactive sessions, and outlives them.

What the session is bound to is the terminal's own process, which is found by its folder. What that was started with
(`LEFTOFF_RUN` of a hand-over, say) is in its environment; that of the daemon is of whoever started it first.
"""

from __future__ import annotations

import os

from leftoff.host import Process, scope, started, words_of

_WORDS = ("app-server", "--managed-daemon")


def is_one(process: Process) -> bool:
    """Whether a process is such a daemon."""
    words = words_of(process.pid)
    return all(word in words for word in _WORDS)


def terminals(folder: str) -> list[Process]:
    """The processes of Codex that were started in a folder, the youngest first; none where they cannot be seen."""
    real, found = os.path.realpath(folder), []
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        words = words_of(pid)
        if os.path.basename(words[0]) == "codex" and _WORDS[0] not in words and real in _folders(pid, words):
            found.append(Process(scope(), pid, started(pid)))
    return sorted((one for one in found if one.started), key=lambda one: int(one.started), reverse=True)


def _folders(pid: int, words: list[str]) -> list[str]:
    """Where a terminal works: in the folder that it was told, or is in."""
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-C", "--cd")]
    try:
        here = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return []
    return [os.path.realpath(os.path.join(here, path)) for path in given] or [here]


def become(terminal: Process | None) -> None:
    """From now on the variables of leftoff's are those of the terminal."""
    for name in [name for name in os.environ if name.startswith("LEFTOFF_")]:
        del os.environ[name]
    try:
        with open(f"/proc/{terminal.pid}/environ" if terminal is not None else os.devnull, "rb") as file:
            given = os.fsdecode(file.read()).split("\0")
    except OSError:
        return
    for line in given:
        name, _, value = line.partition("=")
        if name.startswith("LEFTOFF_"):
            os.environ[name] = value
