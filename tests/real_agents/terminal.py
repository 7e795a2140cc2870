"""A terminal for what an agent does only there: a tmux of its own, which is read and typed into."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable

from tests.real_agents.bed import Project
from tests.real_agents.life import below, end

PATIENCE = 300.0  # seconds, on a busy machine
MARKS = ("❯", "›")  # before the answer that Enter chooses


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

    def sent(self, hint: str) -> bool:
        """Whether what was typed is gone, with what the program says of it meanwhile: else Enter, once more, for the
        first may have come before the program minded it."""
        if hint in self.screen:
            self._tmux("send-keys", "Enter")
            return False
        return True

    def kill(self) -> None:
        """SIGKILL for the program and all that it has started, but for what has left it."""
        pid = int(self._tmux("list-panes", "-F", "#{pane_pid}"))
        end([pid, *below(pid)])

    def until(self, holds: Callable[[], bool], what: str, questions: dict[str, str] | None = None) -> None:
        """Wait. ``questions``: what may be asked meanwhile, and which of the answers to choose."""
        limit = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"waited {PATIENCE:.0f} s for {what}; the screen: {self.screen.strip()[-400:]}"
                )
            screen = self.screen
            asked = [answer for question, answer in (questions or {}).items() if question in screen]
            if asked:
                self._choose(asked[0], screen)
            time.sleep(0.3)

    def _choose(self, answer: str, screen: str) -> None:
        """One key towards an answer: it may be pressed again, as a program that just started does not see every key."""
        marked = [line for line in screen.splitlines() if line.strip(" │")[:1] in MARKS]
        self._tmux("send-keys", "Enter" if any(answer in line for line in marked) else "Down")
