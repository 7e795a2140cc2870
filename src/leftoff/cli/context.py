"""The context of one call of the command: its words, its project and caller, and where its answer goes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from leftoff.cli.options import Args
from leftoff.cli.screen import Screen
from leftoff.cli.text import out, safe_json, say
from leftoff.engine.config import project as places
from leftoff.engine.config.caller import Caller
from leftoff.engine.config.project import Project
from leftoff.errors import NeedsPerson
from leftoff.model import codec


class Context:
    """What a verb works with."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self._project: Project | None = None
        # In a process that is about to leave the terminal: the pipe on which it reports the id of its run.
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

    @property
    def word(self) -> str | None:
        """The first positional, if there is one."""
        return self.args.rest[0] if self.args.rest else None

    def name_run(self) -> None:
        """Take the only positional as the run, as --run does."""
        if self.args.rest:
            from leftoff.operations.runs import run_id_of

            self.caller.named = run_id_of(self.project, self.caller, self.args.rest[0])

    def need_name(self) -> None:
        """Raise ``Usage`` if no run is named, neither by the words nor by the environment."""
        if not (self.args.rest or self.caller.named or self.caller.run or self.caller.session):
            spec = self.args.spec
            raise spec.wrong(f"`leftoff {spec.verb}` needs {spec.usage.strip('[]')}.")

    def close(self) -> None:
        if self._project is not None:
            self._project.close()

    def close_project(self) -> None:
        """Close the project; the next use opens it again."""
        self.close()
        self._project = None

    # -- asking

    def can_ask(self) -> bool:
        """Return whether a person is at the terminal, and the answer is not for a program."""
        return not self.args.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def pick(self, question: str, listed: Sequence[tuple[str, str, str, int]]) -> str | None:
        """Ask which of several is meant; ``None`` if the command cannot ask."""
        from leftoff.cli.prompts import pick

        return pick(question, listed, self.project.now) if self.can_ask() else None

    def confirm(self, what: str, *, hint: str) -> bool:
        """Return whether to do it: by --yes or by asking. Raise ``NeedsPerson`` if the command cannot ask."""
        if self.args.yes:
            return True
        if not self.can_ask():
            raise NeedsPerson(what, hint=hint)
        from leftoff.cli.prompts import YES, answer

        return answer(f"{what} Go on? [y/N]: ", hint).lower() in YES

    def said_no(self) -> int:
        """Report that nothing was changed because the answer was no; return the exit code."""
        self.say("leftoff: nothing was changed.")
        return NeedsPerson.exit_code

    # -- answering

    def screen(self) -> Screen:
        """Return stdout, as a page sees it."""
        return Screen(sys.stdout, self.project.now)

    def answer(self, found: Any, text: str | None = None, said: str | None = None) -> int:
        """End a verb: print the result as JSON with --json, else ``text`` on stdout and ``said`` on stderr."""
        if self.args.json:
            self.emit(found if isinstance(found, dict) else found.to_json())
            return 0
        if text is not None:
            self.out(text)
        if said is not None:
            self.say(said)
        return 0

    def emit(self, document: Any) -> None:
        """Print one JSON document on stdout."""
        out(safe_json(codec.text(document), sys.stdout.encoding))

    def out(self, text: str) -> None:
        """Print a result on stdout."""
        out(text)

    def say(self, text: str) -> None:
        """Print a message for people on stderr."""
        say(f"{text}\n")

    def say_redacted(self, keys: Sequence[str]) -> None:
        """Report the variables whose values were not stored, because they look like secrets."""
        for key in keys:
            self.say(
                f"leftoff: {key} holds what looks like a secret, which is not stored (see docs/redaction.md)."
            )
