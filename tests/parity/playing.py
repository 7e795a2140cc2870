"""What is played, and who plays it: operations as plain values, and what all faces' players share."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from leftoff.errors import LeftoffError

RUN = "the-run"


class Op(NamedTuple):
    """One operation with its options; ``anyhow``: where a face has none, the command does it."""

    verb: str
    options: dict[str, Any]
    anyhow: bool = False

    def needs(self) -> set[str]:
        """What a face must have to play it: the verb, the kind of report, each option."""
        kind = self.options.get("action")
        verb = f"{self.verb} {kind}" if kind else self.verb
        options = [name for name in self.options if name not in PLACES]
        return {self.verb, verb, *(f"{word} --{name}" for name in options for word in (self.verb, verb))}


#: what every face that has the verb can be told
PLACES = ("action", "workflow", "collection", "key", "value", "text", "path", "ref")


class Face:
    """One face in a project folder of its own."""

    name = "?"
    takes_operations = True  # one by one; else it plays a script
    #: it plays cases with one of these, if it says any
    worth: frozenset[str] = frozenset()
    #: what it lacks of the operations, and why
    lacks: dict[str, str] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = RUN
        self.started = False

    @classmethod
    def can(cls, op: Op) -> bool:
        return op.verb in WORLD or op.needs().isdisjoint(cls.lacks)

    def play(self, op: Op) -> Any:
        """What came of it: an answer, where the operation is a question; or why it was refused."""
        try:
            return getattr(self, op.verb)(**op.options)
        except LeftoffError as error:
            return refused(error.code)

    def script(self, script: Any) -> None:
        """Play what only this face understands."""
        raise NotImplementedError(self.name)

    def end(self) -> None:
        """Let go of what is open."""

    # -- the world around the run, the same whoever plays

    def write(self, path: str, text: str) -> None:
        next_tick()
        (self.folder / path).write_text(text)
        next_tick()

    def remove(self, path: str) -> None:
        (self.folder / path).unlink()

    def git(self, command: str) -> None:
        git(self.folder, command)


def git(folder: Path, command: str) -> None:
    """git, by somebody and at a time of which commits have the same hash everywhere."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    env = {**os.environ, **when}
    subprocess.run(["git", *who, *command.split()], cwd=folder, env=env, check=True, capture_output=True)


def next_tick() -> None:
    """Wait until files get a later time than now: whether one is older than its run must be no matter of luck."""
    clock, now = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME), time.time()
    while time.clock_gettime(clock) < now + 0.001:
        time.sleep(0.001)


def refused(code: str | int) -> dict[str, Any]:
    """Why something was not done, in the words of all faces: what was typed wrongly is an argument that is wrong."""
    return {"refused": {"usage": "invalid", 7: "needs_person"}.get(code, code)}


WORLD = ("write", "remove", "git")
