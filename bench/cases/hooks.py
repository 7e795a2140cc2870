"""What a hook costs an agent, against a bare Python that does nothing."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.registry import Context, Row, case

LEFTOFF = str(Path(sys.executable).parent / "leftoff")
MOST = 5.0
DIRTY = 20  # files that are not committed
LINE = "a line of a file that an agent edits, number {}\n"
# place: committed files (None: it is no repository), and how many of them are changed
PLACES: dict[str, tuple[int | None, int]] = {
    "no git": (None, 0),
    "clean": (50, 0),
    "dirty": (50, DIRTY),
    "large": (5000, DIRTY),
}


def made(folder: Path, committed: int | None, dirty: int) -> None:
    """A project."""
    (folder / "edited.txt").write_text("".join(LINE.format(n) for n in range(100)))
    if committed is None:
        return
    for number in range(committed):
        path = folder / f"d{number % 50}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(LINE.format(number))
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    for number in range(dirty):
        (folder / f"d{number % 50}" / f"f{number}.txt").write_text("changed\n")


def edited(folder: Path, number: int) -> dict[str, Any]:
    """A file was written, with something new in it."""
    (folder / "edited.txt").write_text(f"{number}\n" + "".join(LINE.format(n) for n in range(100)))
    return {"tool_name": "Edit", "tool_input": {"file_path": str(folder / "edited.txt")}}


def todos(folder: Path, number: int) -> dict[str, Any]:
    entries = [{"content": f"todo {number}", "status": "in_progress"}]
    return {"tool_name": "TodoWrite", "tool_input": {"todos": entries}}


# what it is called: the event, and what else it says. In this order: the list starts the session's run.
Say = Callable[[Path, int], dict[str, Any]]
EVENTS: dict[str, tuple[str, Say]] = {
    "a prompt before there is a run": ("UserPromptSubmit", lambda f, n: {"prompt": "x"}),
    "a todo list": ("PostToolUse", todos),
    "before an edit": (
        "PreToolUse",
        lambda f, n: {"tool_name": "Edit", "tool_input": {"file_path": str(f / "edited.txt")}},
    ),
    "after an edit": ("PostToolUse", edited),
    "a prompt": ("UserPromptSubmit", lambda f, n: {"prompt": "x"}),
    "the end of a turn": ("Stop", lambda f, n: {}),
    "a session's start": ("SessionStart", lambda f, n: {"source": "resume"}),
    "a compaction": ("PreCompact", lambda f, n: {"trigger": "auto"}),
}


def spent(words: tuple[str, ...], stdin: Path, folder: Path) -> tuple[float, float]:
    """Seconds of a process and all that it started: of processor time, and on the clock."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
    began = time.perf_counter()
    pid = os.posix_spawn(
        words[0],
        words,
        {**env, "LEFTOFF_PROJECT": str(folder)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, str(stdin), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
    )
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError(f"{words} failed")
    return used.ru_utime + used.ru_stime, time.perf_counter() - began


def compared(folder: Path, stdin: Path, event: str, say: Say, rounds: int) -> tuple[float, dict[str, object]]:
    """How many times a bare start, in processor time; the figures."""
    bare, ours = [], []
    for number in range(rounds + 1):
        about = {"session_id": "s", "cwd": str(folder), "hook_event_name": event, **say(folder, number)}
        stdin.write_text(json.dumps(about))
        taken = (
            spent((sys.executable, "-c", "pass"), stdin, folder),
            spent((LEFTOFF, "hook", "claude"), stdin, folder),
        )
        if number:  # the first one only warms up
            bare.append(taken[0])
            ours.append(taken[1])
    cpu, wall = (statistics.median(b[i] / a[i] for a, b in zip(bare, ours, strict=True)) for i in (0, 1))
    figures = {
        "bare_ms": round(statistics.median(one[0] for one in bare) * 1e3, 1),
        "hook_ms": round(statistics.median(one[0] for one in ours) * 1e3, 1),
        "on_the_clock": round(wall, 2),
    }
    return cpu, dict(figures)


@case("hooks", "a hook of an agent's session / a bare Python's start")
def hooks(context: Context) -> Iterator[Row]:
    """In processor time of all its processes, git among them; which on the clock is beside it."""
    rounds = context.rounds(21, 5)
    for place, (committed, dirty) in PLACES.items():
        with context.folder("disk") as top:
            folder, stdin = top / "project", top / "stdin"
            folder.mkdir()
            made(folder, committed, dirty)
            for name, (event, say) in EVENTS.items():
                ratio, figures = compared(folder, stdin, event, say, rounds)
                yield Row(f"{name} ({place})", ratio, at_most=MOST, raw=figures)
