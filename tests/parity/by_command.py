"""The command, in this process: every other face is compared with it, for it has every operation."""

from __future__ import annotations

import io
import json
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

from tests.parity.playing import Face, Op, refused


class Command(Face):
    name = "command"
    lacks = {"request": "a person who types commands decides, and asks nobody"}

    def call(self, *words: str | None) -> tuple[int, Any]:
        """`leftoff --json WORDS`: the exit code, and the last document that was printed."""
        from leftoff.cli import main

        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        said = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(), "utf-8")))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(said))
            code = main(["--json", *(word for word in words if word is not None)])
            out.flush()
        lines = out.buffer.getvalue().decode().splitlines()
        return code, json.loads(lines[-1]) if lines else None

    def succeed(self, *words: str | None) -> Any:
        code, document = self.call(*words)
        if code == 0:
            return None
        return refused(document["error"]["code"] if document and "error" in document else code)

    # -- operations

    def start(self, workflow: str, **options: Any) -> Any:
        steps, variables = options.pop("steps", None), options.pop("variables", {})
        more = [
            word for name, value in variables.items() for word in ("--var", f"{name}:={json.dumps(value)}")
        ]
        if steps:
            more += ["--steps", ",".join(steps)]
        name = [] if options.get("resume") and self.started else ["--run-id", self.run_id]
        self.started = True
        return self.succeed("start", workflow, *name, *more, *_options(options))

    def step(self, action: str, step: str, **options: Any) -> Any:
        result = ["--result", json.dumps(options.pop("result"))] if "result" in options else []
        outputs = [word for path in options.pop("outputs", ()) for word in ("--output", path)]
        return self.succeed("step", action, step, *result, *outputs, *_options(options))

    def next(self, start: bool = False) -> Any:
        return self.call("next", "--start" if start else None)[1]

    def set(self, variables: dict[str, Any]) -> Any:
        return self.succeed("set", *(f"{name}:={json.dumps(value)}" for name, value in variables.items()))

    def put(self, collection: str, key: str, value: Any, new: bool = False) -> Any:
        return self.succeed("put", collection, key, json.dumps(value), "--new" if new else None)

    def note(self, text: str, **options: Any) -> Any:
        return self.succeed("note", text, *_options(options))

    def artifact(self, path: str, **options: Any) -> Any:
        return self.succeed("artifact", path, *_options(options))

    def track(self, path: str) -> Any:
        return self.succeed("track", path)

    def save(self, **options: Any) -> Any:
        return self.succeed("save", *_options(options))

    def beat(self) -> Any:
        return self.succeed("beat")

    def approve(self, step: str, **options: Any) -> Any:
        return self.succeed("approve", self.run_id, step, *_options(options))

    def reject(self, step: str, **options: Any) -> Any:
        return self.succeed("reject", self.run_id, step, *_options(options))

    def unblock(self) -> Any:
        return self.succeed("unblock", self.run_id)

    def pause(self, **options: Any) -> Any:
        return self.succeed("pause", *_options(options))

    def finish(self, **options: Any) -> Any:
        return self.succeed("finish", *_options(options))

    def resume(self, **options: Any) -> Any:
        accept = [word for code in options.pop("accept", ()) for word in ("--accept", code)]
        return self.succeed("resume", self.run_id, *accept, *_options(options))

    def rollback(self, ref: str) -> Any:
        return self.succeed("rollback", f"{self.run_id}{ref}")

    def fork(self, branch: str, **options: Any) -> Any:
        out = self.succeed("fork", self.run_id, "--branch", branch, "--run-id", "forked", *_options(options))
        self.run_id = "forked"
        return out

    # -- questions

    def verify(self) -> Any:
        return self.call("verify", self.run_id)[1]

    def ls(self) -> Any:
        return self.call("ls")[1]["runs"]

    def diff(self) -> Any:
        return self.call("diff", f"{self.run_id}~2", self.run_id)[1]

    def brief(self) -> Any:
        return self.call("brief", self.run_id)[1]["text"]

    def show(self) -> Any:
        return self.call("show", self.run_id)[1]


def _options(options: dict[str, Any]) -> list[str]:
    """`--resume-with TEXT`, `--yes`."""
    out: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        out += [option] if value is True else [option, str(value)]
    return out


def by_command(face: Face, op: Op) -> Any:
    """The command does something in another face's project."""
    command = Command(face.folder)
    command.run_id = face.run_id
    return command.play(op)
