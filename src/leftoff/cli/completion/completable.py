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
    from leftoff.cli.options import Opt

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

    def __init__(self, name: str, choices: tuple[str, ...] = ()) -> None:
        name = name.strip("[]…")
        if "|" in name:
            choices = tuple(name.split("|"))
        elif name == "VERB":
            choices = tuple(sorted(VERBS))
        self.words = choices or _KNOWN.get(name, ())
        self.kind = WORDS if self.words else _KINDS.get(name, FREE)


class Entry:
    """One line of the table: an option of a verb, or the place of a word behind it.

    ``verb`` is empty for what may stand before any; ``place`` is the option's name, a number from 0, or ``*`` for every
    place that is left; ``slot`` is what stands there, or what an option takes (None: a flag).
    """

    def __init__(self, verb: str, place: str, slot: Slot | None, about: str = "") -> None:
        self.verb = verb
        self.place = place
        self.slot = slot
        self.about = about
        self.is_option = place.startswith("-")


def names() -> dict[str, str]:
    """Every verb, and every other word for one, with what it is for."""
    also = {word: VERBS[name][1] for word, name in SAME.items() if name in VERBS}
    return {**{name: about for name, (_, about) in VERBS.items()}, **also}


def table() -> list[Entry]:
    """All that can be completed, verb by verb; what every verb has comes first, and again with each."""
    out = _common("")
    for verb in names():
        spec = load(SAME.get(verb, verb)).SPEC
        out += [_option(verb, opt) for opt in spec.options] + _common(verb)
        words = [word for word in spec.usage.replace(" | ", "|").split() if word.strip("[]|…")]
        places = [str(number) for number in range(len(words))]
        if spec.most is None:
            places[-1:] = ["*"]
        out += [Entry(verb, place, Slot(word)) for place, word in zip(places, words, strict=True)]
    return out


def _option(verb: str, opt: Opt) -> Entry:
    choices = opt.choices or _VALUES.get(opt.name, ())
    return Entry(verb, opt.name, Slot(opt.metavar, choices) if opt.metavar is not None else None, opt.help)


def _common(verb: str) -> list[Entry]:
    known = [Entry(verb, name, Slot(var) if var else None, about) for name, (var, about) in COMMON.items()]
    return [*known, Entry(verb, "--help", None, "explain this verb")]
