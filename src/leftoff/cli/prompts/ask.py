"""Questions to a person: asked on stderr, answered on stdin. With nobody there, exit 7 says how to answer before."""

from __future__ import annotations

import sys

from leftoff.cli.render.text import say
from leftoff.errors import NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.cli.context import Context

YES = ("y", "yes")
HEED_S = 0.2


def can_ask(ctx: Context) -> bool:
    """Whether a person sits there; a program that wants JSON is none."""
    return not ctx.args.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(ctx: Context, what: str, *, hint: str) -> bool:
    """Whether to do it: --yes, or an answer. Nobody there to answer is exit 7."""
    if ctx.args.yes:
        return True
    if not can_ask(ctx):
        raise NeedsPerson(what, hint=hint)
    return answer(f"{what} Go on? [y/N]: ", hint).lower() in YES


def said_no(ctx: Context) -> int:
    """The answer was no: what was asked for is not done, which is no success."""
    ctx.say("leftoff: nothing was changed.")
    return NeedsPerson.exit_code


def choose(question: str, choices: Sequence[str], hint: str) -> str:
    """One of the choices, by its first letter or in full; asked again until it is one."""
    while True:
        given = answer(question, hint).lower()
        for choice in choices:
            if given and given in (choice[0], choice):
                return choice
        letters = ", ".join(choice[0] for choice in choices[:-1])
        say(f"Please answer {letters} or {choices[-1][0]}.\n")


def pick(question: str, listed: Sequence[tuple[str, str, str, int]], now: int) -> str:
    """One of what is listed, by its number or its name; asked again until it is one."""
    from leftoff.cli.render.text import clean, columns
    from leftoff.model.times import ago

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
    import select

    say(question)
    while not select.select([sys.stdin], [], [], HEED_S)[0]:
        pass  # a Ctrl-C that came just before the wait is heeded now
    line = sys.stdin.readline()
    if not line:
        say("\n")
        raise NeedsPerson("There was no answer.", hint=hint)
    return line.strip()
