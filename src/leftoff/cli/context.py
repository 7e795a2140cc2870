"""The context of one call of the command: its words, its project and caller, its questions, and where its answer goes.

Questions go to stderr, answers come from stdin. ``NeedsPerson`` is raised if the input ends.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leftoff.cli.options import Args
from leftoff.cli.text import clean, columns, out, safe_json, say
from leftoff.clock import ago
from leftoff.engine import project as places
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.errors import NeedsPerson
from leftoff.model import codec

if TYPE_CHECKING:
    from leftoff.cli.screen import Screen

YES = ("y", "yes")
HEED_S = 0.2


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
        """Close the project; the next use opens it again."""
        if self._project is not None:
            self._project.close()
        self._project = None

    # -- asking

    def can_ask(self) -> bool:
        """Return whether a person is at the terminal, and the answer is not for a program."""
        return not self.args.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def pick(self, question: str, listed: Sequence[tuple[str, str, str, int]]) -> str | None:
        """Ask which of several is meant; ``None`` if the command cannot ask."""
        return pick(question, listed, self.project.now) if self.can_ask() else None

    def confirm(self, what: str, *, hint: str) -> bool:
        """Return whether to do it: by --yes or by asking. Raise ``NeedsPerson`` if the command cannot ask."""
        if self.args.yes:
            return True
        if not self.can_ask():
            raise NeedsPerson(what, hint=hint)
        return answer(f"{what} Go on? [y/N]: ", hint).lower() in YES

    def said_no(self) -> int:
        """Report that nothing was changed because the answer was no; return the exit code."""
        self.say("leftoff: nothing was changed.")
        return NeedsPerson.exit_code

    # -- answering

    def screen(self) -> Screen:
        """Return stdout, as a page sees it."""
        from leftoff.cli.screen import Screen

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
                f"leftoff: {key} holds what looks like a secret, which is not stored (see docs/reference/settings.md)."
            )


def choose(question: str, choices: Sequence[str], hint: str) -> str:
    """Ask for one of the choices, by its first letter or in full, until the answer is one."""
    while True:
        given = answer(question, hint).lower()
        for choice in choices:
            if given and given in (choice[0], choice):
                return choice
        letters = ", ".join(choice[0] for choice in choices[:-1])
        say(f"Please answer {letters} or {choices[-1][0]}.\n")


def pick(question: str, listed: Sequence[tuple[str, str, str, int]], now: int) -> str:
    """List names (with what, status, time) and ask for one, by number or name, until the answer is one."""
    rows = [
        (f"  {number}", clean(name), clean(what), clean(status), ago(at, now) if at else "")
        for number, (name, what, status, at) in enumerate(listed, 1)
    ]
    say("\n".join([clean(question), *columns(rows), ""]))
    names = {str(n): name for n, (name, *_) in enumerate(listed, 1)} | {name: name for name, *_ in listed}
    while True:
        given = answer(f"Which one? [1-{len(listed)}]: ", "Nothing was changed. Name it on the command line.")
        if given in names:
            return names[given]
        say(f"Please answer a number from 1 to {len(listed)}, or a name.\n")


def answer(question: str, hint: str) -> str:
    """Ask, and return the line that was typed."""
    say(question)
    while not select.select([sys.stdin], [], [], HEED_S)[0]:
        pass  # a Ctrl-C that came just before the wait is handled now
    line = sys.stdin.readline()
    if not line:
        say("\n")
        raise NeedsPerson("There was no answer.", hint=hint)
    return line.strip()
