"""An event of any agent, in one set of words: those of Claude Code, whose hooks the others follow."""

from __future__ import annotations

import os

from leftoff.errors import Invalid
from leftoff.model.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENTS = ("claude", "codex", "gemini")

# Gemini CLI has other words for some of its events.
_SAME = {
    "PreCompress": "PreCompact",
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
}
_MARKS = ("<untrusted_context>", "</untrusted_context>")
_ADDED = ("<hook_context>", "</hook_context>")
# Gemini CLI says this for the agent that said nothing, and asks this itself after such an answer.
_NO_TEXT = "[no response text]"
_NUDGE = "[System: You successfully executed a tool but returned an empty response."
WRITES = frozenset(("Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "apply_patch"))
_GO_ON = ("resume", "continue", "reprendre", "/leftoff-resume", "$leftoff-resume")
_PATHS = ("file_path", "notebook_path", "absolute_path", "path")
_PATCHES = ("input", "patch", "command")
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def started_in() -> str | None:
    """The folder that the agent was started in, where it says so."""
    return os.environ.get("CLAUDE_PROJECT_DIR")


def shell_file() -> str | None:
    """The file that the agent's shell reads before each command, where it has one."""
    return os.environ.get("CLAUDE_ENV_FILE")


LONGEST_PATH = 4096  # of a folder; the system has none that is longer


class Event:
    """What the agent says: which event of which session, where, and the rest as it came."""

    def __init__(self, data: dict[str, Any], source: bytes = b"") -> None:
        self.data = data
        self.source = source  # as it came
        self.raw = self.text("hook_event_name")
        self.name = _SAME.get(self.raw, self.raw)
        self.session = self.text("session_id")
        cwd = self.text("cwd")
        self.cwd = cwd if len(cwd) <= LONGEST_PATH else ""

    def text(self, key: str) -> str:
        """A text of the event; empty where there is none."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    @property
    def tool(self) -> str:
        return self.text("tool_name")

    @property
    def given(self) -> dict[str, Any]:
        """What the tool was called with."""
        value = self.data.get("tool_input")
        return value if isinstance(value, dict) else {}

    @property
    def prompt(self) -> str:
        """What the user said, without what hooks put before or after it."""
        text = self.text("prompt")
        while (start := text.find(_ADDED[0])) >= 0:
            end = text.find(_ADDED[1], start)
            text = text[:start] + (text[end + len(_ADDED[1]) :] if end >= 0 else "")
        return text.strip()

    @property
    def asks_to_go_on(self) -> bool:
        """Whether the user says that and nothing else."""
        return self.name == "UserPromptSubmit" and self.prompt.rstrip(".!").lower() in _GO_ON

    @property
    def is_nudge(self) -> bool:
        """Whether the agent's own program asks for an answer, not the user."""
        return self.prompt.startswith(_NUDGE)

    @property
    def last_words(self) -> str:
        """What the agent said last in its turn, where the event has that."""
        said = self.text("last_assistant_message") or self.text("prompt_response")
        return "" if said == _NO_TEXT else said

    @property
    def has_helpers(self) -> bool:
        """Whether helpers of the agent are at work, whose results it will go on with."""
        tasks = self.data.get("background_tasks")
        return isinstance(tasks, list) and any(
            isinstance(task, dict) and task.get("type") == "subagent" and task.get("status") == "running"
            for task in tasks
        )

    @property
    def failure(self) -> tuple[str, str] | None:
        """The command that failed, and what was said of that; ``None`` where none did, or nobody tells."""
        command = self.given.get("command")
        if not isinstance(command, str) or self.tool in WRITES or self.data.get("is_interrupt") is True:
            return None
        error = self.text("error")
        if not error:
            answer = self.data.get("tool_response")
            told = answer.get("llmContent") if isinstance(answer, dict) else None
            error = told if isinstance(told, str) and "\nExit Code: " in told else ""
        for mark in _MARKS:
            error = error.replace(mark, "")
        return (command, error.strip()) if error else None

    def paths(self) -> list[str]:
        """The files that a writing tool writes, as full paths."""
        if self.tool not in WRITES:
            return []
        named = [self.given[key] for key in _PATHS if isinstance(self.given.get(key), str)][:1]
        if not named:
            named = _patched(self.given)
        return [os.path.normpath(os.path.join(self.cwd or os.getcwd(), path)) for path in named if path]


def _patched(given: dict[str, Any]) -> list[str]:
    """The files that a patch names, in the form that Codex writes patches in."""
    out: list[str] = []
    for key in _PATCHES:
        value = given.get(key)
        text = "\n".join(map(str, value)) if isinstance(value, list) else value
        for line in text.splitlines() if isinstance(text, str) else ():
            start = next((mark for mark in _PATCHED if line.startswith(mark)), None)
            if start is not None:
                out.append(line[len(start) :].strip())
    return list(dict.fromkeys(out))


def read_event(data: bytes) -> Event:
    """The event in what came on stdin; ``Invalid`` says why there is none."""
    try:
        found = decode(data.decode("utf-8", "replace").removeprefix("\ufeff").strip())
    except (ValueError, StopIteration, RecursionError) as error:
        raise Invalid(f"The input on stdin is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Invalid("The input on stdin is not an event: it is not a JSON object.")
    event = Event(found, data)
    if not event.name or not event.session:
        raise Invalid("The input on stdin is not an event: it has no hook_event_name or no session_id.")
    return event
