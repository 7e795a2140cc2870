"""A terminal for what an agent does only there: a tmux of its own, which is read and typed into."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable

from tests.real_agents.bed import Project

PATIENCE = 120.0  # seconds


class Terminal:
    """A program in a terminal, until the block is left."""

    def __init__(self, project: Project, words: list[str]) -> None:
        self.socket = f"bed-{project.folder.parent.name}-{project.folder.name}"
        self.env = project.bed.env
        line = shlex.join(words)
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50", "-c", str(project.folder), line
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.socket, *words], env=self.env, capture_output=True, text=True
        )
        return done.stdout

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def types(self, text: str) -> None:
        """A line, and Enter: apart, for a terminal takes what comes at once for something pasted."""
        self._tmux("send-keys", "-l", text)
        self.until(lambda: text in self.screen, f"{text!r} on the screen")
        self._tmux("send-keys", "Enter")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(
                    f"waited {PATIENCE:.0f} s for {what}; the screen: {self.screen.strip()[-400:]}"
                )
            time.sleep(0.3)
