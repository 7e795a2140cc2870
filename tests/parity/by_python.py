"""The Python API: a run that this process drives."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

import leftoff
from tests.parity.playing import Face

LEFT_OUT = "a program has no such verb"
WITH_WITH = "a step is a `with` block, which ends well or by an exception"


class Python(Face):
    name = "python"
    lacks = {
        "step block": WITH_WITH,
        "step skip": WITH_WITH,
        "step --resume_with": WITH_WITH,
        "step --total": "`each` counts the items itself",
        "step --note": "`note` inside of the step",
        "next": "a program knows its next step",
        "note --resume": LEFT_OUT,
        "note --step": "a note is of the step that it is left in",
        "step start --outputs": "`artifact` keeps what is there",
        "request": LEFT_OUT,
        "approve": LEFT_OUT,
        "reject": LEFT_OUT,
        "unblock": LEFT_OUT,
        "put --new": "`compare_and_set` is for variables",
        "verify": LEFT_OUT,
        "brief": LEFT_OUT,
        "show": LEFT_OUT,
        "start --task": LEFT_OUT,
        "start --agent": LEFT_OUT,
        "start --total": LEFT_OUT,
        "resume --from_step": LEFT_OUT,
        "resume --yes": LEFT_OUT,
    }

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.store = leftoff.open(folder / ".leftoff")
        self.run: leftoff.Run | None = None
        self.entered: dict[str, tuple[ExitStack, leftoff.Step]] = {}

    def end(self) -> None:
        self.store.close()

    def driven(self) -> leftoff.Run:
        """The run; where somebody else had it in the meantime, it is taken up again."""
        if self.run is None:
            self.run = self.store.resume(self.run_id)
        return self.run

    def start(self, workflow: str, *, resume: bool = False, **options: Any) -> None:
        if resume:
            self.run = self.store.run(workflow, **options)
            self.run_id = self.run.id
        else:
            self.run = self.store.start(workflow, run_id=self.run_id, **options)

    def ls(self) -> Any:
        return [info.to_json() for info in self.store.list()]

    def diff(self) -> Any:
        return self.driven().diff("~2").to_json()

    def step(self, action: str, step: str, **options: Any) -> None:
        if action == "done" and step not in self.entered and self.driven().done(step):
            return  # as `do` has it
        if step not in self.entered:
            entered = self.driven().step(step, again=True, title=options.get("title"))
            self.entered[step] = ExitStack(), entered
            self.entered[step][0].enter_context(entered)
        if action != "start":
            self.leave(action, step, **options)

    def leave(self, action: str, step: str, **options: Any) -> None:
        """The end of a step's `with` block."""
        failure = type(options.get("type", "failed"), (Exception,), {})
        stack, entered = self.entered.pop(step)
        entered.result = options.get("result", entered.result)
        with suppress(failure), stack:
            for path in options.get("outputs", ()):
                self.driven().artifact(self.folder / path)
            if action == "fail":
                raise failure(options.get("error", ""))

    def set(self, variables: dict[str, Any]) -> None:
        for name, value in variables.items():
            self.driven().variables[name] = value
        self.driven().commit()

    def put(self, collection: str, key: str, value: Any) -> None:
        self.driven().put(collection, key, value)
        self.driven().commit()

    def note(self, text: str) -> None:
        self.driven().note(text)
        self.driven().commit()

    def artifact(self, path: str, **options: Any) -> None:
        self.driven().artifact(self.folder / path, **options)
        self.driven().commit()

    def track(self, path: str) -> None:
        self.driven().track(self.folder / path)
        self.driven().commit()

    def save(self, **options: Any) -> None:
        self.driven().checkpoint(**options)

    def beat(self) -> None:
        self.driven().beat()

    def pause(self, **options: Any) -> None:
        self.driven().pause(**options)
        self.run = None

    def finish(self, status: str = "completed", **options: Any) -> None:
        self.driven().finish(status, **options)
        self.run = None

    def resume(self, **options: Any) -> None:
        self.run = self.store.resume(self.run_id, **options)

    def rollback(self, ref: str) -> None:
        self.driven().rollback(ref)

    def fork(self, branch: str, **options: Any) -> None:
        run = self.driven().fork(branch=branch, run_id="forked", **options)
        self.run_id = "forked"
        run.pause()
