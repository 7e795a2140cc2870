"""What can be completed: read off the verbs' own specs, so that a new option needs no second line anywhere.

A usage names its words: ``RUN`` and ``REF`` are completed from the store, ``STEP`` from the current run, ``PATH`` and
``FILE`` from the folder, ``a|b|c`` are the words themselves. The value of an option goes by its choices, or its name.
"""

from __future__ import annotations

from leftoff.cli.dispatch import load
from leftoff.cli.options import COMMON
from leftoff.cli.verbs import SAME, VERBS
from leftoff.model.words import COLLECTIONS, RUN_STATUS, TRIGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.options import Opt, Spec

SHELLS = ("bash", "zsh", "fish")
FREE, WORDS, RUNS, STEPS, FILES, FOLDERS = "free", "words", "runs", "steps", "files", "folders"

_KINDS = {
    "RUN": RUNS,
    "REF": RUNS,
    "STEP": STEPS,
    "PATH": FILES,
    "FILE": FILES,
    "DIR": FOLDERS,
}
_VALUES = {"--status": RUN_STATUS, "--trigger": TRIGGERS}
_KNOWN = {"COLLECTION": COLLECTIONS, "SHELL": SHELLS}


class Slot:
    """A place for a word: what kind of word, and which ones where they are known."""

    __slots__ = ("kind", "words")

    def __init__(self, name: str, choices: tuple[str, ...] = ()) -> None:
        name = name.strip("[]…")
        if "|" in name:
            choices = tuple(name.split("|"))
        elif name == "VERB":
            choices = tuple(sorted(VERBS))
        self.words = choices or _KNOWN.get(name, ())
        self.kind = WORDS if self.words else _KINDS.get(name, FREE)


class Choice:
    """One option of a verb; ``value`` None: a flag."""

    __slots__ = ("about", "name", "value")

    def __init__(self, name: str, value: Slot | None, about: str) -> None:
        self.name = name
        self.value = value
        self.about = about


class Completable:
    """One verb."""

    __slots__ = ("about", "choices", "name", "repeats", "slots")

    def __init__(self, name: str, about: str, spec: Spec) -> None:
        self.name = name
        self.about = about
        words = [word for word in spec.usage.replace(" | ", "|").split() if word.strip("[]|…")]
        self.slots = [Slot(word) for word in words]
        self.repeats = spec.most is None
        self.choices = [_choice(opt) for opt in spec.options] + common()


def _choice(opt: Opt) -> Choice:
    choices = opt.choices or _VALUES.get(opt.name, ())
    value = Slot(opt.metavar, choices) if opt.metavar is not None else None
    return Choice(opt.name, value, opt.help)


def common() -> list[Choice]:
    """The options that every verb has."""
    known = [Choice(name, Slot(var) if var else None, about) for name, (var, about) in COMMON.items()]
    return [*known, Choice("--help", None, "explain this verb")]


def verbs() -> list[Completable]:
    """Every verb, and every other word for one."""
    found = [Completable(name, about, load(name).SPEC) for name, (_, about) in VERBS.items()]
    also = [
        Completable(word, VERBS[name][1], load(name).SPEC) for word, name in SAME.items() if name in VERBS
    ]
    return found + also
