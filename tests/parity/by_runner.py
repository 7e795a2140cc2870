"""The runner: a workflow file, executed by `leftoff run` in this process; its steps are processes of their own."""

from __future__ import annotations

from collections.abc import Iterable

from tests.parity.by_command import Command


class Runner(Command):
    """Plays the workflow of a case: its text, then further calls of the command."""

    name = "runner"
    takes_operations = False

    def script(self, calls: Iterable[str | tuple[str, ...]]) -> None:
        flow, *more = calls
        (self.folder / "flow.yaml").write_text(str(flow))
        options = [word for word in more if isinstance(word, str)]
        self.call("run", "flow.yaml", "--run-id", self.run_id, *options)
        for words in more:
            if isinstance(words, tuple):
                self.call(*words)
