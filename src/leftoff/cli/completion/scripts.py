"""Completion: one table, read off the verbs' own specs, so that a new option needs no second line anywhere; and a
script per shell, whose frame lies beside this file.

A usage names its words: ``RUN`` and ``REF`` are completed from the store, ``STEP`` from the current run, ``PATH`` and
``FILE`` from the folder, ``a|b|c`` are the words themselves. The value of an option goes by its choices, or its name.
What only the store knows (runs, steps) is asked of ``leftoff completion runs|steps`` when Tab is pressed.
"""

from __future__ import annotations

import os

from leftoff.cli.options import COMMON
from leftoff.cli.verbs import SAME, VERBS, load_verb
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
        spec, _ = load_verb(SAME.get(verb, verb))
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


# -- bash


def bash() -> str:
    rows = table()

    def written(options: bool) -> str:
        found = [row for row in rows if row.is_option == options and row.slot is not None]
        return "\n".join(f"    {row.verb}:{row.place}) echo {_bash_slot(row.slot)} ;;" for row in found)

    options = {
        verb: " ".join(row.place for row in of(rows, verb) if row.is_option) for verb in ("", *names())
    }
    parts = {
        "VALUES": written(True),
        "SLOTS": written(False),
        "COMMON": options.pop(""),
        "OPTIONS": "\n".join(f'    {verb}) echo "{known}" ;;' for verb, known in options.items()),
        "VERBS": " ".join(names()),
    }
    return _filled("bash", parts)


def _bash_slot(slot: Slot | None) -> str:
    return f"{slot.kind} {' '.join(slot.words)}".rstrip() if slot is not None else ""


def of(rows: list[Entry], verb: str) -> list[Entry]:
    return [row for row in rows if row.verb == verb]


def _filled(shell: str, parts: dict[str, str]) -> str:
    """The shell's script, which lies beside this file, with these parts in it."""
    with open(os.path.join(os.path.dirname(__file__), f"leftoff.{shell}"), encoding="utf-8") as file:
        text = file.read()
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


# -- zsh

_ZSH = {RUNS: "_leftoff_runs", STEPS: "_leftoff_steps", FILES: "_files", FOLDERS: "_files -/", FREE: " "}


def zsh() -> str:
    rows = table()
    cases = {verb: " ".join(map(_zsh_word, of(rows, verb))) for verb in names()}
    parts = {
        "VERBS": "\n".join(f"        {_quoted(f'{verb}:{about}')}" for verb, about in names().items()),
        "COMMON": "\n".join(f"        {_zsh_word(row)} \\" for row in of(rows, "")),
        "CASES": "\n".join(f"        {verb}) _arguments {words} ;;" for verb, words in cases.items()),
    }
    return _filled("zsh", parts)


def _zsh_word(row: Entry) -> str:
    what = f"{row.slot.kind}:{_zsh_slot(row.slot)}" if row.slot is not None else ""
    if not row.is_option:
        return _quoted(f"{row.place if row.place == '*' else int(row.place) + 1}::{what}")
    about = row.about.replace("[", "(").replace("]", ")").replace(":", r"\:")
    return _quoted(f"*{row.place}[{about}]{':' if what else ''}{what}")


def _zsh_slot(slot: Slot) -> str:
    return f"({' '.join(slot.words)})" if slot.kind == WORDS else _ZSH[slot.kind]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish


def fish() -> str:
    rows = table()
    lines = [*map(_fish_line, of(rows, ""))]
    lines.append("complete -c leftoff -n __leftoff_first -l version -d 'the version of leftoff'")
    for verb, about in names().items():
        lines.append(f"complete -c leftoff -n __leftoff_first -a {verb} -d {_fish(about)}")
        lines += filter(None, map(_fish_line, of(rows, verb)))
    valued = sorted({row.place for row in rows if row.is_option and row.slot is not None})
    return _filled("fish", {"VALUED": " ".join(valued), "LINES": "\n".join(lines)})


def _fish_line(row: Entry) -> str:
    where = f"__leftoff_at {row.verb}" if row.verb else "__leftoff_first"
    what = _fish_slot(row.slot) if row.slot is not None else ""
    if not row.is_option:
        place = "'*'" if row.place == "*" else row.place
        return f'complete -c leftoff -n "{where} {place}" {what}' if what != "-f" else ""
    name = f"-l {row.place[2:]}" if row.place.startswith("--") else f"-s {row.place[1:]}"
    return f'complete -c leftoff -n "{where}" {name}{" -r " if what else ""}{what} -d {_fish(row.about)}'


def _fish_slot(slot: Slot) -> str:
    if slot.kind in (FILES, FOLDERS):
        return "-F"
    if slot.kind == WORDS:
        return f"-f -a {_fish(' '.join(slot.words))}"
    return f"-f -a '(leftoff completion {slot.kind} 2>/dev/null)'" if slot.kind != FREE else "-f"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
