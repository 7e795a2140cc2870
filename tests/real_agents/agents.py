"""The agents: how each is called without a terminal, and what its tools are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.real_agents.bed import Project
from tests.real_agents.life import Life
from tests.real_agents.model.answers import Answer, Call

STATES = ("pending", "in_progress", "completed")


class Agent:
    """What all of them have in common. ``kinds``: of errors which it can be told."""

    name: str
    title: str
    todo_model: str | None = None  # the model that has a todo list, where the usual one has none

    def ask(self, project: Project, prompt: str, *, resume: str | None = None, todo: bool = False) -> Life:
        """A session is asked something, and may do everything."""
        return project.start(self.words(prompt, resume, todo))

    def tell(self, project: Project, prompt: str, *, resume: str | None = None, todo: bool = False) -> Life:
        """The same, until it has answered."""
        life = self.ask(project, prompt, resume=resume, todo=todo)
        life.wait()
        return life

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        raise NotImplementedError

    def session(self, life: Life) -> str:
        """The id of a session, as it says itself."""
        for line in life.lines:
            found = line.get("session_id") or line.get("thread_id")
            if isinstance(found, str):
                return found
        raise ValueError(f"{self.name} told no session: {(life.out + life.err)[-300:]}")

    # -- what the model says

    def write(self, path: str, text: str) -> Call:
        raise NotImplementedError

    def shell(self, command: str) -> Call:
        raise NotImplementedError

    def mcp(self, tool: str, **given: Any) -> Call:
        raise NotImplementedError

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        """The todo list is now: text and state; it was, in this session: ``before``."""
        raise NotImplementedError


class Claude(Agent):
    name, title = "claude", "Claude Code"
    allowed = "Bash Write Edit Read Agent TaskCreate TaskUpdate mcp__leftoff"

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        again = ["--resume", resume] if resume else []
        form = ["--output-format", "stream-json", "--verbose"]
        may = ["--permission-mode", "acceptEdits", "--allowedTools", self.allowed]
        return ["claude", "-p", prompt, *again, *form, *may]

    def write(self, path: str, text: str) -> Call:
        return Call("Write", {"file_path": path, "content": text})

    def shell(self, command: str) -> Call:
        return Call("Bash", {"command": command, "description": "a command"})

    def mcp(self, tool: str, **given: Any) -> Call:
        return Call(f"mcp__leftoff__{tool}", given)

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        known = list(before or {})
        new = [text for text in items if text not in known]
        made = [Call("TaskCreate", {"subject": text, "description": f"to do: {text}"}) for text in new]
        numbers = {text: str(number) for number, text in enumerate([*known, *new], 1)}
        changed = [
            Call("TaskUpdate", {"taskId": numbers[text], "status": state})
            for text, state in items.items()
            if state != (before or {}).get(text, "pending")
        ]
        return [Answer(calls=tuple(calls)) for calls in (made, changed) if calls]


class Codex(Agent):
    name, title = "codex", "Codex"

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        again = ["resume", resume] if resume else []
        free = ["-c", 'sandbox_mode="danger-full-access"', "-c", 'approval_policy="never"']
        return ["codex", "exec", *again, "--json", "--dangerously-bypass-hook-trust", *free, prompt]

    def write(self, path: str, text: str) -> Call:
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        return Call("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def mcp(self, tool: str, **given: Any) -> Call:
        return Call(f"mcp__leftoff.{tool}", given)

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        plan = [{"step": text, "status": state} for text, state in items.items()]
        return [Answer(calls=(Call("update_plan", {"plan": plan}),))]


class Gemini(Agent):
    name, title = "gemini", "Gemini CLI"
    todo_model = "gemini-2.5-pro"

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        again = ["--resume", resume] if resume else []
        model = ["-m", self.todo_model] if todo and self.todo_model else []
        return [
            "gemini",
            "-p",
            prompt,
            *again,
            *model,
            "--approval-mode",
            "yolo",
            "--output-format",
            "stream-json",
        ]

    def write(self, path: str, text: str) -> Call:
        return Call("write_file", {"file_path": path, "content": text})

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command})

    def mcp(self, tool: str, **given: Any) -> Call:
        return Call(f"mcp_leftoff_{tool}", given)

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        todos = [{"description": text, "status": state} for text, state in items.items()]
        return [Answer(calls=(Call("write_todos", {"todos": todos}),))]


class Opencode(Agent):
    name, title = "opencode", "OpenCode"

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        again = ["-s", resume] if resume else []
        return ["opencode", "run", "--format", "json", "--auto", *again, prompt]

    def session(self, life: Life) -> str:
        for line in life.lines:
            found = line.get("sessionID")
            if isinstance(found, str):
                return found
        return super().session(life)

    def write(self, path: str, text: str) -> Call:
        return Call("write", {"filePath": path, "content": text})

    def shell(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "a command"})

    def mcp(self, tool: str, **given: Any) -> Call:
        return Call(f"leftoff_{tool}", given)

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        todos = [{"content": text, "status": state, "priority": "medium"} for text, state in items.items()]
        return [Answer(calls=(Call("todowrite", {"todos": todos}),))]


class Qwen(Agent):
    name, title = "qwen", "Qwen Code"

    def words(self, prompt: str, resume: str | None, todo: bool) -> list[str]:
        again = ["--resume", resume] if resume else []
        return ["qwen", "-p", prompt, *again, "--approval-mode", "yolo", "--output-format", "stream-json"]

    def write(self, path: str, text: str) -> Call:
        return Call("write_file", {"file_path": path, "content": text})

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "is_background": False})

    def mcp(self, tool: str, **given: Any) -> Call:
        return Call(f"mcp__leftoff__{tool}", given)

    def lists(self, items: dict[str, str], before: dict[str, str] | None = None) -> list[Answer]:
        todos = [
            {"id": str(number), "content": text, "status": state}
            for number, (text, state) in enumerate(items.items(), 1)
        ]
        return [Answer(calls=(Call("todo_write", {"todos": todos}),))]


AGENTS: dict[str, Agent] = {one.name: one for one in (Claude(), Codex(), Gemini(), Opencode(), Qwen())}


def calls(*made: Call) -> list[Answer]:
    """One answer for each call."""
    return [Answer(calls=(call,)) for call in made]


def flat(*parts: Answer | Iterable[Answer]) -> list[Answer]:
    out: list[Answer] = []
    for part in parts:
        out += [part] if isinstance(part, Answer) else list(part)
    return out
