"""What is open at a place of a shell script: quotes, parentheses, commands; and the error of a value there."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.template.shell_commands import Word

USE_ENV = (
    'Give it to the step in `env:` and write "$NAME" in the script; or insert it as it is, with `| raw`.'
)

# Kinds of frames: what is open at a place.
TOP, GROUP, SUBST, DOUBLE, SINGLE, ANSI, BRACE, ARITH, COUNT, TICK, COMMENT = (
    "the script", "(…)", "$(…)", '"…"', "'…'", "$'…'", "${…}", "$((…))", "((…))", "`…`", "a comment",
)  # fmt: skip
COMMANDS = (TOP, GROUP, SUBST)


class QuoteError(Exception):
    """A value cannot be put where the script has it."""

    def __init__(self, message: str, line: int, hint: str = USE_ENV, value: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint
        self.value = value  # which one, where it is not the one that is being inserted


class Frame:
    """Something that is open, since which line; where commands are read, also what was read of the current one."""

    __slots__ = (
        "array", "cases", "command", "depth", "descriptor", "duplicates", "events", "feeds", "heres", "inner", "kind",
        "line", "members", "opened", "redirect", "seen", "start", "test", "values", "word", "words",
    )  # fmt: skip

    def __init__(self, kind: str, line: int, opened: int = 0) -> None:
        self.kind = kind
        self.line = line
        self.opened = opened  # where its inside begins
        self.inner = False  # <(…): part of a word
        self.word = ""
        self.command = True  # the next word would be a command
        self.cases = 0
        self.depth = 0
        self.test = False  # in [[ … ]]
        self.array = ""  # in name=(…): the name, and what is behind it
        self.duplicates = False  # after >&
        self.heres: list[tuple[str, bool, bool, Word]] = []
        self.start = -1  # of the word that is read
        self.values: list[tuple[int, bool]] = []  # in that word
        self.seen: list[int] = []  # all values so far
        self.redirect = ""  # what the next word is for
        self.descriptor = ""  # the number before that
        self.feeds = False  # a shell in >(…) reads what it prints
        self.words: list[Word] = []  # of the simple command that is read
        self.members: list[list[Word]] = []  # of its pipeline, before it
        self.events: list[Event] = []  # what was read in it


class Event(Fields):
    """A pipeline that was read, or a piece of one: up to a group, ``f()`` or ``((…))``, whose inside has a span."""

    members: list[list[Word]]
    opened: int = -1  # of the group or count that follows
    defines: bool = False  # the last word is the name of a function
    pattern: bool = False  # of a `case`
    list_of: str = ""  # the words are entries of this list, name=(…)


class Span(Fields):
    """Something that was opened and closed: which kind, where its inside ends, what was read there."""

    kind: str
    end: int
    events: list[Event]
