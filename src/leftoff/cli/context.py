"""What a verb works with: what was typed, the project and the caller that are meant, and where answers go."""

from __future__ import annotations

import sys

from leftoff.engine.config import project as places
from leftoff.engine.config.caller import Caller
from leftoff.operations import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from leftoff.cli.options import Args, Spec
    from leftoff.cli.render.screen import Screen
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet

    class Answer(Protocol):
        """What an operation gives back, as the document that every face shows."""

        def to_json(self) -> dict[str, Any]: ...


class Context:
    """One call of the command: what was typed, the project and the caller it means, and where the answer goes."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self._project: Project | None = None
        # Of a process that is to leave the terminal: where it says which run it has.
        self.away: int | None = None
        self.caller = Caller(named=getattr(args, "run", None), branch=getattr(args, "branch", None))
        self.caller.pick = self.pick

    @property
    def project(self) -> Project:
        if self._project is None:
            folder = places.find_project(given=self.args.project)
            if self.args.trust:
                self.caller.trust(folder)
            self._project = Project(folder, self.args.store, self.say)
        return self._project

    def name_run(self) -> None:
        """A verb whose only word is a run: it is named so, or with --run."""
        if self.args.rest:
            from leftoff.operations.runs import run_id_of

            self.caller.named = run_id_of(self.project, self.caller, self.args.rest[0])

    def need_name(self, spec: Spec) -> None:
        """For a verb that takes no run by itself: one is named, here or by the environment."""
        if not (self.args.rest or self.caller.named or self.caller.run or self.caller.session):
            from leftoff.errors import Usage

            raise Usage(
                f"`leftoff {spec.verb}` needs {spec.usage.strip('[]')}.", hint=f"usage: {spec.line()}"
            )

    def pick(self, question: str, listed: Sequence[tuple[str, str, str, int]]) -> str | None:
        """One of several, where a person sits there."""
        from leftoff.cli.prompts.ask import can_ask, pick

        return pick(question, listed, self.project.now) if can_ask(self) else None

    def close(self) -> None:
        if self._project is not None:
            self._project.close()

    def close_project(self) -> None:
        """It is opened again when it is asked for."""
        self.close()
        self._project = None

    def screen(self) -> Screen:
        """Stdout, as a page sees it."""
        from leftoff.cli.render.screen import stdout

        return stdout(self.project.now)

    def answer(self, found: Answer) -> int:
        """The end of a verb: with --json, what came of it."""
        if self.args.json:
            self.emit(found.to_json())
        return 0

    # -- saying

    def out(self, text: str) -> None:
        """A result, on stdout."""
        from leftoff.cli.render.text import out

        out(text)

    def say(self, text: str) -> None:
        """Talk, on stderr."""
        from leftoff.cli.render.text import say

        say(f"{text}\n")

    def say_redacted(self, done: Reported | ChangeSet) -> None:
        """A secret is not stored, and whoever gave it should know."""
        for key in done.redacted:
            self.say(
                f"leftoff: {key} holds what looks like a secret, which is not stored (see docs/redaction.md)."
            )

    def emit(self, document: Any) -> None:
        """One JSON document on stdout."""
        from leftoff.cli.render.text import out, safe_json
        from leftoff.model.codec import text

        out(safe_json(text(document), sys.stdout.encoding))
