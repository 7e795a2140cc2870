"""An event of any agent, in one set of words: those of Claude Code, whose hooks the others follow."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from leftoff.clock import SYSTEM, iso
from leftoff.engine.agent_turns import ListItem
from leftoff.engine.transcript import gemini_end
from leftoff.errors import Invalid
from leftoff.model.codec import decode

# Gemini CLI has other words for some of its events.
_SAME = {
    "PreCompress": "PreCompact",
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
}
_WRITES = frozenset(
    "Write Edit MultiEdit NotebookEdit write_file replace edit notebook_edit apply_patch".split()
)
# What is read of an event. The rest, and the bulk of a writing tool's input, does not go to the spool.
_READ = (
    "hook_event_name session_id cwd transcript_path source reason trigger turn_id prompt last_assistant_message "
    "prompt_response compact_summary background_tasks tool_name error error_details is_interrupt task_subject task_id "
    "agent_id agent_type"
).split()
_LONGEST_PATH = 4096  # of a folder; the system has none that is longer
_CONTINUE = ("resume", "continue", "reprendre", "/leftoff-resume", "$leftoff-resume")
# Gemini CLI reports this for an agent that said nothing, and sends this prompt itself after such an answer.
_NO_TEXT = "[no response text]"
_NUDGE = "[System: "
_MARKS = ("<untrusted_context>", "</untrusted_context>")
_ADDED = ("<hook_context>", "</hook_context>")
_PATHS = ("file_path", "notebook_path", "absolute_path", "path")
_PATCHES = ("input", "patch", "command")
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
# tool: the key of its list, the key of an entry's text
_LISTS = {
    "TodoWrite": ("todos", "content"),
    "update_plan": ("plan", "step"),
    "write_todos": ("todos", "description"),
    "todo_write": ("todos", "content"),
}
_TASKS = ("TaskCreate", "TaskUpdate")
_STATUS = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "cancelled": "skipped",
    "deleted": "skipped",
}
_MOST = 2000  # entries of a list
_HELPERS = ("subagent", "workflow", "local_workflow")  # background tasks
_BULLETS = ("- ", "* ", "+ ")


class HookEvent:
    """One hook event. ``raw``: the agent's own name of it; ``name``: Claude Code's.

    ``data``: the event as the agent sent it, or as ``stored`` returned it.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.raw = self.text("hook_event_name")
        self.name = _SAME.get(self.raw, self.raw)
        self.session = self.text("session_id")
        self.cwd = self.text("cwd")
        if len(self.cwd) > _LONGEST_PATH:
            self.cwd = ""
        self.tool = self.text("tool_name")
        given = data.get("tool_input")
        self.given: dict[str, Any] = given if isinstance(given, dict) else {}

    def stored(self) -> dict[str, Any]:
        """Return what the spool stores of the event: what is read of it, with what only its hook can know."""
        data = {key: self.data[key] for key in _READ if key in self.data}
        if self.tool in _WRITES:
            data["paths"] = self.paths()
        elif self.tool:
            data.update({key: self.data[key] for key in ("tool_input", "tool_response") if key in self.data})
        if self.raw == "AfterAgent":
            data["gemini_end"] = gemini_end(self.text("transcript_path"))
        return data

    def text(self, key: str) -> str:
        """Return a text of the event; empty if it has none."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    # -- prompts and answers

    @property
    def prompt(self) -> str:
        """What the user said, without what hooks added to it."""
        text = self.text("prompt")
        while (start := text.find(_ADDED[0])) >= 0:
            end = text.find(_ADDED[1], start)
            text = text[:start] + (text[end + len(_ADDED[1]) :] if end >= 0 else "")
        return text.strip()

    @property
    def asks_to_continue(self) -> bool:
        """Whether the prompt is "resume" or a word like it, and nothing else."""
        return self.name == "UserPromptSubmit" and self.prompt.rstrip(".!").lower() in _CONTINUE

    @property
    def is_nudge(self) -> bool:
        """Whether the agent's program wrote the prompt, not the user."""
        return self.prompt.startswith(_NUDGE)

    @property
    def last_words(self) -> str:
        """What the agent said last in its turn, if the event has that."""
        said = self.text("last_assistant_message") or self.text("prompt_response")
        return "" if said == _NO_TEXT else said

    @property
    def has_helpers(self) -> bool:
        """Whether sub-agents or a workflow run of the agent's own are running, with whose results it will continue."""
        tasks = self.data.get("background_tasks")
        return isinstance(tasks, list) and any(
            isinstance(task, dict) and task.get("type") in _HELPERS and task.get("status") == "running"
            for task in tasks
        )

    # -- tools

    @property
    def failure(self) -> tuple[str, str] | None:
        """The command that failed, and its error; ``None`` if none did, or the event does not say."""
        command = self.given.get("command")
        if not isinstance(command, str) or self.tool in _WRITES or self.data.get("is_interrupt") is True:
            return None
        error = self.text("error")
        if not error:
            answer = self.data.get("tool_response")
            told = answer.get("llmContent") if isinstance(answer, dict) else None
            is_failure = isinstance(told, str) and "\nExit Code: " in told and "\nExit Code: 0\n" not in told
            error = str(told) if is_failure else ""
        for mark in _MARKS:
            error = error.replace(mark, "")
        return (command, error.strip()) if error else None

    def paths(self) -> list[str]:
        """Return the files that a writing tool writes, as full paths."""
        if self.tool not in _WRITES:
            return []
        if "paths" in self.data:
            return list(self.data["paths"])
        named = [self.given[key] for key in _PATHS if isinstance(self.given.get(key), str)][:1]
        if not named:  # a patch, in the form of Codex
            for key in _PATCHES:
                value = self.given.get(key)
                text = "\n".join(map(str, value)) if isinstance(value, list) else value
                for line in text.splitlines() if isinstance(text, str) else ():
                    named += [line[len(mark) :].strip() for mark in _PATCHED if line.startswith(mark)]
        full = (os.path.normpath(os.path.join(self.cwd or os.getcwd(), path)) for path in named if path)
        return list(dict.fromkeys(full))

    def todo_list(self) -> list[ListItem] | None:
        """Return the todo list or plan in a tool call; ``None`` if it has none."""
        if self.tool == "ExitPlanMode":
            plan = self.given.get("plan")
            return _planned(plan) if isinstance(plan, str) else None
        key, word = _LISTS.get(self.tool, ("", ""))
        entries = self.given.get(key)
        if not isinstance(entries, list):
            return None
        found = [
            ListItem(str(entry.get(word) or entry.get("content") or ""), _status(entry))
            for entry in entries[:_MOST]
            if isinstance(entry, dict)
        ]
        return [item for item in found if item.text]

    def task(self) -> ListItem | None:
        """Return the one entry of the todo list that the event is about; ``None`` if it changes no entry."""
        if self.name in ("TaskCreated", "TaskCompleted"):
            status = "pending" if self.name == "TaskCreated" else "completed"
            item = ListItem(self.text("task_subject").strip()[:2000], status, self.text("task_id") or None)
            return item if item.text or (item.task and status == "completed") else None
        if self.tool not in _TASKS or (self.tool == "TaskUpdate" and "status" not in self.given):
            return None
        answer = self.data.get("tool_response")
        made = answer.get("task", answer) if isinstance(answer, dict) else None
        task = self.given.get("taskId") or (made.get("id") if isinstance(made, dict) else None)
        return ListItem(
            str(self.given.get("subject") or ""), _status(self.given), str(task) if task else None
        )

    @property
    def is_work(self) -> bool:
        """Whether the event may start a run: a prompt, an edit or a todo list."""
        return self.name == "UserPromptSubmit" or bool(self.paths() or self.todo_list() or self.task())


def _status(entry: dict[str, Any]) -> str:
    """Return the status of a step, from the agent's word for it."""
    return _STATUS.get(str(entry.get("status")), "pending")


def _planned(plan: str) -> list[ListItem] | None:
    """Return the outermost entries of a plan's lists, if it has any."""
    out = []
    for line in plan.splitlines():
        number, dot, rest = line.partition(". ")
        if dot and number.isdigit():
            out.append(ListItem(rest))
        elif line.startswith(_BULLETS):
            out.append(ListItem(line[2:]))
    return [item for item in out[:_MOST] if item.text] or None


def read_event(data: bytes) -> HookEvent:
    """Return the event that came on stdin. Raise ``Invalid`` if there is none."""
    try:
        found = decode(data.decode("utf-8", "replace").removeprefix("\ufeff").strip())
    except (ValueError, StopIteration, RecursionError) as error:
        raise Invalid(f"The input on stdin is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Invalid("The input on stdin is not an event: it is not a JSON object.")
    event = HookEvent(found)
    if not event.name or not event.session:
        raise Invalid("The input on stdin is not an event: it has no hook_event_name or no session_id.")
    return event


# -- what hooks leave in the store's folder: the log of their errors, and a small file for each event that has come
#
# `leftoff install --check` reads the files of the events: an agent that does not trust the hooks skips them silently.
# Errors of writing are ignored, because a hook never fails.

LARGEST = 1 << 20  # bytes; then the file becomes hook.log.1, and a new one begins
FILE = "hook.log"
SEEN = "hooks"  # the folder of the events that have come
# Follow no link, and do not wait for the reader of a pipe.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST = 40  # characters of a version


def log_error(folder: str, *words: str) -> None:
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
