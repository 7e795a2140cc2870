"""Completion scripts for bash, zsh and fish, made from the specs of the verbs and a frame for each shell.

A usage names its words: ``RUN`` and ``REF`` are completed from the store, ``STEP`` from the current run, ``PATH`` and
``FILE`` from the folder, ``a|b|c`` are the words themselves. The value of an option is completed by its choices, or by
its metavar. The scripts call ``leftoff completion runs|steps`` for names that only the store knows.
"""

from __future__ import annotations

from typing import NamedTuple

from leftoff.cli.options import COMMON
from leftoff.cli.verbs import SAME, VERBS, read_data, spec_of
from leftoff.model.words import COLLECTIONS, RUN_STATUS, TRIGGERS

SHELLS = ("bash", "zsh", "fish")
_KINDS = {"RUN": "runs", "REF": "runs", "STEP": "steps", "PATH": "files", "FILE": "files", "DIR": "folders"}
_WORDS = {"COLLECTION": COLLECTIONS, "SHELL": SHELLS, "VERB": tuple(sorted(VERBS))}
_VALUES = {"--status": RUN_STATUS, "--trigger": TRIGGERS}
_ZSH = {
    "runs": "_leftoff_runs",
    "steps": "_leftoff_steps",
    "files": "_files",
    "folders": "_files -/",
    "free": " ",
}
# every verb, and every other word for one: its summary
_NAMES = {name: about for name, (_, about) in VERBS.items()} | {
    word: VERBS[verb][1] for word, verb in SAME.items()
}


class Entry(NamedTuple):
    """An option of a verb, or the place of a word after it.

    ``verb``: empty for an option before the verb. ``place``: the option's name, a number from 0, or ``*`` for every
    place that is left. ``kind``: what is completed there (None: nothing, the option is a flag), ``words`` for one of
    the ``words``.
    """

    verb: str
    place: str
    about: str
    kind: str | None = None
    words: tuple[str, ...] = ()

    @property
    def is_option(self) -> bool:
        return self.place.startswith("-")


def _entry(verb: str, place: str, name: str | None, about: str = "", choices: tuple[str, ...] = ()) -> Entry:
    """Return an entry for a word that the usage calls ``name``; None: a flag."""
    if name is None:
        return Entry(verb, place, about)
    name = name.strip("[]…")
    words = tuple(name.split("|")) if "|" in name else choices or _WORDS.get(name, ())
    return Entry(verb, place, about, "words" if words else _KINDS.get(name, "free"), words)


def _table() -> dict[str, list[Entry]]:
    """Return all entries by verb; those before any verb are under the empty name."""
    common = [
        *((name, var, about) for name, (var, about) in COMMON.items()),
        ("--help", None, "explain this verb"),
    ]
    out = {"": [_entry("", *each) for each in common]}
    for verb in _NAMES:
        spec = spec_of(SAME.get(verb, verb))
        entries = [
            _entry(verb, opt.name, opt.metavar, opt.help, opt.choices or _VALUES.get(opt.name, ()))
            for opt in spec.options
        ]
        entries += [_entry(verb, *each) for each in common]
        words = [word for word in spec.usage.replace(" | ", "|").split() if word.strip("[]|…")]
        places = [str(number) for number in range(len(words))]
        if spec.most is None:
            places[-1:] = ["*"]
        out[verb] = entries + [_entry(verb, place, word) for place, word in zip(places, words, strict=True)]
    return out


def completion_script(shell: str) -> str:
    """Return the script for a shell: its frame from the folder ``data``, with the table filled in."""
    table = _table()
    every = [entry for entries in table.values() for entry in entries]
    parts = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](table, every)
    text = read_data(f"leftoff.{shell}")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def _bash(table: dict[str, list[Entry]], every: list[Entry]) -> dict[str, str]:
    def cases(options: bool) -> str:
        found = [each for each in every if each.is_option == options and each.kind is not None]
        return "\n".join(
            f"    {each.verb}:{each.place}) echo {' '.join((str(each.kind), *each.words))} ;;"
            for each in found
        )

    options = {verb: " ".join(each.place for each in table[verb] if each.is_option) for verb in table}
    return {
        "VALUES": cases(True),
        "SLOTS": cases(False),
        "COMMON": options.pop(""),
        "OPTIONS": "\n".join(f'    {verb}) echo "{known}" ;;' for verb, known in options.items()),
        "VERBS": " ".join(_NAMES),
    }


def _zsh(table: dict[str, list[Entry]], every: list[Entry]) -> dict[str, str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "'\\''") + "'"

    def word(each: Entry) -> str:
        what = ""
        if each.kind is not None:
            words = " ".join(each.words)
            what = f"{each.kind}:{f'({words})' if words else _ZSH[each.kind]}"
        if not each.is_option:
            return quoted(f"{each.place if each.place == '*' else int(each.place) + 1}::{what}")
        about = each.about.replace("[", "(").replace("]", ")").replace(":", r"\:")
        return quoted(f"*{each.place}[{about}]{':' if what else ''}{what}")

    cases = {verb: " ".join(map(word, table[verb])) for verb in _NAMES}
    return {
        "VERBS": "\n".join(f"        {quoted(f'{verb}:{about}')}" for verb, about in _NAMES.items()),
        "COMMON": "\n".join(f"        {word(each)} \\" for each in table[""]),
        "CASES": "\n".join(f"        {verb}) _arguments {words} ;;" for verb, words in cases.items()),
    }


def _fish(table: dict[str, list[Entry]], every: list[Entry]) -> dict[str, str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def line(each: Entry) -> str:
        where = f"__leftoff_at {each.verb}" if each.verb else "__leftoff_first"
        what = {None: "", "free": "-f", "files": "-F", "folders": "-F"}.get(
            each.kind, f"-f -a '(leftoff completion {each.kind} 2>/dev/null)'"
        )
        if each.words:
            what = f"-f -a {quoted(' '.join(each.words))}"
        if not each.is_option:
            place = "'*'" if each.place == "*" else each.place
            return f'complete -c leftoff -n "{where} {place}" {what}' if what != "-f" else ""
        name = f"-l {each.place[2:]}" if each.place.startswith("--") else f"-s {each.place[1:]}"
        return (
            f'complete -c leftoff -n "{where}" {name}{" -r " if what else ""}{what} -d {quoted(each.about)}'
        )

    lines = [*map(line, table[""])]
    lines.append("complete -c leftoff -n __leftoff_first -l version -d 'the version of leftoff'")
    for verb, about in _NAMES.items():
        lines.append(f"complete -c leftoff -n __leftoff_first -a {verb} -d {quoted(about)}")
        lines += filter(None, map(line, table[verb]))
    valued = sorted({each.place for each in every if each.is_option and each.kind is not None})
    return {"VALUED": " ".join(valued), "LINES": "\n".join(lines)}
