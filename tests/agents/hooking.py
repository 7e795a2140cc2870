"""Agents that call their hooks: in this process, or as a process of their own that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Called, environment, inside, spawn, succeed

AGENT = """
import io, json, os, sys
from leftoff.agents import hook_process
from leftoff.cli import main
hook_process.HOOK_S = hook_process.LAST_S = 60
for line in sys.stdin:
    asked = json.loads(line)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.environ.update(asked.get("env", {}))
        sys.stdin = io.TextIOWrapper(io.BytesIO(asked["event"].encode()))
        sys.stdout = io.TextIOWrapper(os.fdopen(writing, "wb"))
        sys.argv = ["leftoff", *asked["words"]]
        code = main(asked["words"])
        sys.stdout.flush()
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said, ""]), flush=True)
"""

SECONDS = 60.0  # that a hook in this process may take, on a busy machine


def event_of(session: str, cwd: Path, name: str, **more: Any) -> dict[str, Any]:
    """An event as agents send it."""
    about = {"session_id": session, "transcript_path": None, "cwd": str(cwd), "hook_event_name": name}
    return {**about, **more}


class Session:
    """A session whose hooks are called in this very process, and take the time they need."""

    def __init__(self, cwd: Path, name: str = "s1", agent: str = "claude", *options: str) -> None:
        self.cwd = cwd
        self.name = name
        self.agent = agent
        self.options = options
        self.env: dict[str, str] = {}

    def fire(self, event: str, **more: Any) -> Called:
        """Call the hook; it must end well, and complain of nothing."""
        done = self._call(json.dumps(event_of(self.name, self.cwd, event, **more)))
        assert (0, "") == (done.code, done.err), str(done)
        return done

    def _call(self, data: str) -> Called:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("leftoff.agents.hook_process.HOOK_S", SECONDS)
            patch.setattr("leftoff.agents.hook_process.LAST_S", SECONDS + 1)
            return inside("hook", self.agent, *self.options, cwd=self.cwd, input=data, **self.env)

    def context(self, event: str, **more: Any) -> str | None:
        """The context that the hook gives the agent; None where it prints nothing."""
        done = self.fire(event, **more)
        if done.out == "":
            return None
        about = done.json["hookSpecificOutput"]
        assert {"hookEventName", "additionalContext"} == set(about)
        assert event == about["hookEventName"]
        return str(about["additionalContext"])

    def todos(self, **todos: str) -> None:
        """A todo list: text=status."""
        given = [{"content": text.replace("_", " "), "status": status} for text, status in todos.items()]
        assert "" == self.fire("PostToolUse", tool_name="TodoWrite", tool_input={"todos": given}).out

    def writes(self, path: str, text: str, tool: str = "Write") -> None:
        """Write a file as the agent does: told before and after."""
        full = self.cwd / path
        given = {"file_path": str(full)}
        assert "" == self.fire("PreToolUse", tool_name=tool, tool_input=given).out
        full.write_text(text)
        assert "" == self.fire("PostToolUse", tool_name=tool, tool_input=given, tool_response={}).out


class Spawned(Session):
    """A session whose hooks are processes, and have only the time that an agent gives them."""

    def _call(self, data: str) -> Called:
        return spawn("hook", self.agent, *self.options, cwd=self.cwd, input=data, timeout=60, **self.env)


class Living(Session):
    """A session in a process of its own, which can be killed; its hooks are children of that, and take their time."""

    def __init__(self, cwd: Path, name: str = "s1", agent: str = "claude", *words: str) -> None:
        super().__init__(cwd, name, agent)
        self.process = subprocess.Popen(
            [agent, "-c", AGENT, *words],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(PYTHONPATH=os.pathsep.join(sys.path)),  # its name is not that of a Python
        )

    def fire(self, event: str, **more: Any) -> Called:
        return self.calls("hook", self.agent, input=json.dumps(event_of(self.name, self.cwd, event, **more)))

    def calls(self, *words: str, input: str = "", **env: str) -> Called:
        """A command of leftoff's that the agent's process starts."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"words": words, "event": input, "env": env}) + "\n")
        self.process.stdin.flush()
        code, out, err = json.loads(self.process.stdout.readline())
        done = Called(words, code, out, err)
        assert (0, "") == (done.code, done.err), str(done)
        return done

    def kill(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait()


def runs(cwd: Path) -> list[dict[str, Any]]:
    return list(succeed("ls", "--all", "--json", cwd=cwd).json["runs"])


def turns(cwd: Path) -> list[dict[str, Any]]:
    return list(succeed("show", "latest", "--json", cwd=cwd).json["records"]["turn"].values())
