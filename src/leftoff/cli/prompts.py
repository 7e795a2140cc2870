"""Ask a person: questions go to stderr, answers come from stdin. ``NeedsPerson`` if the input ends."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence

from leftoff.cli.text import clean, columns, say
from leftoff.clock import ago
from leftoff.errors import NeedsPerson

YES = ("y", "yes")
HEED_S = 0.2


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
