"""What a verb works with: what was typed, the project and the caller that are meant, and where answers go."""

from __future__ import annotations

import sys

from leftoff.engine.config import project as places
from leftoff.engine.config.caller import Caller
from leftoff.operations import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from leftoff.cli.options import Args
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
        self.caller = Caller(named=getattr(args, "run", None), branch=getattr(args, "branch", None))

    @property
    def project(self) -> Project:
        if self._project is None:
            folder = places.find_project(given=self.args.project)
            if self.args.trust:
                self.caller.trust(folder)
            self._project = Project(folder, self.args.store, self.say)
        return self._project

    def close(self) -> None:
        if self._project is not None:
            self._project.close()

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
