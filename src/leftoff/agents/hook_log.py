"""What hooks leave in the store's folder: the log of their errors, and a small file for each event that has come.

`leftoff install --check` reads the files of the events: an agent that does not trust the hooks skips them silently.
Errors of writing are ignored, because a hook never fails.
"""

from __future__ import annotations

import os

from leftoff.agents.hook_events import HookEvent
from leftoff.clock import SYSTEM, iso
from leftoff.hints import NamedTuple

LARGEST = 1 << 20  # bytes; then the file becomes hook.log.1, and a new one begins
FILE = "hook.log"
SEEN = "hooks"  # the folder of the events that have come
# Follow no link, and do not wait for the reader of a pipe.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST = 40  # characters of a version


def note(folder: str, *words: str) -> None:
    """Add a line to the log in a store's folder, if there is such a folder."""
    line = " ".join(" ".join(word.split()) for word in (iso(SYSTEM.now()), *words))
    path = os.path.join(folder, FILE)
    try:
        # Nobody may have trusted a folder that is a link or another user's.
        if not os.path.isdir(folder) or (
            folder == ".leftoff" and (os.path.islink(folder) or os.stat(folder).st_uid != os.geteuid())
        ):
            return
        if os.path.exists(path) and os.path.getsize(path) > LARGEST:
            os.replace(path, f"{path}.1")
        fd = os.open(path, _FLAGS, 0o600)
        try:
            os.write(fd, f"{line[:2000]}\n".encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)
    except OSError:
        pass


class SeenEvent(NamedTuple):
    """An event that came: its name, when it last came (seconds), and the version of the agent, if known."""

    event: str
    at: float
    version: str


def note_event(folder: str, agent: str, event: HookEvent) -> None:
    """Note that an event has come, if the store's folder exists."""
    path = os.path.join(folder, SEEN, f"{agent}.{event.raw}")
    try:
        if event.name != "UserPromptSubmit":
            os.utime(path)
            return
    except OSError:
        pass
    try:
        if event.raw.isalnum() and os.path.isdir(folder):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(fd, "w", encoding="utf-8") as file:
                file.write(_version(agent, event.text("transcript_path")))
    except OSError:
        pass


def _version(agent: str, transcript: str) -> str:
    """Return the version of the agent's program; empty if it does not say."""
    if agent == "claude":  # claude-code_2-1-325_harness
        words = os.environ.get("AI_AGENT", "").split("_")
        return words[1].replace("-", ".")[:_LONGEST] if len(words) > 1 and words[0] == "claude-code" else ""
    if agent == "codex" and transcript:
        with open(transcript, encoding="utf-8", errors="replace") as file:
            return file.read(4096).partition('"cli_version":"')[2].partition('"')[0][:_LONGEST]
    return ""


def events_seen(folder: str, agent: str) -> list[SeenEvent]:
    """Return the events of an agent that have come, by name."""
    out = []
    top = os.path.join(folder, SEEN)
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        who, _, event = name.partition(".")
        if who == agent:
            path = os.path.join(top, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                out.append(SeenEvent(event, os.path.getmtime(path), file.read(_LONGEST)))
    return out
