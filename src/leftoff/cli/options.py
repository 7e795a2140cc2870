"""The verbs and their options: declared in ``data/verbs.txt``, parsed in microseconds, rendered as help.

Verbs are grouped by subject, one module for each group, and only the module of the called verb is imported. For the
verb ``set`` such a module has ``run_set(args, ctx)``, which calls operations and prints the result. To add a verb,
add such a function, an entry to ``data/verbs.txt`` and the name to ``MODULES``.

argparse costs more than starting Python does, and agents call these verbs by the thousand; so parsing is done here.
Accepted: ``--name value``, ``--name=value``, flags, repeated options, ``--`` before positionals that start with a dash.
The common options are accepted before or after the verb.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from leftoff.engine.settings import CALLER
from leftoff.errors import Invalid, NotFound, StoreUnavailable, Usage, usage_errors
from leftoff.model import typed
from leftoff.model.ids import given_step

COMMON = {
    "--project": ("DIR", "the project's folder (default: found upward from here)"),
    "--store": ("URL", "the store: a folder or URL (default: .leftoff in the project)"),
    "--json": (None, "print one JSON document on stdout and nothing else"),
    "--trust": (None, "trust this project's settings and workflows, for this call only"),
}

WIDTH = 80  # of a page of help


class Opt(NamedTuple):
    """One option. ``metavar`` None: a flag. ``many``: may be repeated, gives a list. ``needed``: must be given.
    ``filled``: may not be empty, because an empty text is most often a shell variable that is not set.
    ``greedy``: takes every word up to the next option."""

    name: str
    metavar: str | None = None
    help: str = ""
    many: bool = False
    choices: tuple[str, ...] = ()
    needed: bool = False
    filled: bool = False
    greedy: bool = False


# For every verb that means the current run.
CURRENT = (
    Opt(
        "--run",
        "RUN",
        "which run (default: LEFTOFF_RUN, the session's, or the only unfinished one)",
        filled=True,
    ),
    Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)", filled=True),
)


# Names that options had before.
OLD_OPTIONS = {"--dialect": "--protocol"}


class Spec(NamedTuple):
    """A verb: its positionals (``usage``, how many), its options, its help. ``paths``: words after ``--`` are paths."""

    verb: str
    about: str
    usage: str = ""
    least: int = 0
    most: int | None = 0
    options: tuple[Opt, ...] = ()
    examples: str = ""
    paths: bool = False

    def line(self, space: str = " ") -> str:
        """Return how the verb is called. ``space`` separates an option from its value."""
        parts = [f"leftoff {self.verb}", self.usage]
        for opt in self.options:
            word = opt.name + (f"{space}{opt.metavar}{'…' * opt.greedy}" if opt.metavar is not None else "")
            parts.append((word if opt.needed else f"[{word}]") + ("…" if opt.many and not opt.greedy else ""))
        return " ".join(part for part in parts if part)

    def wrong(self, message: str, hint: str = "") -> Usage:
        """Return the error for a wrong call, with the usage as its hint."""
        return Usage(message, hint=f"{hint}usage: {self.line()}")

    def help(self) -> str:
        rows = [(o.name + (f" {o.metavar}" if o.metavar else ""), o.help) for o in self.options]
        rows += [(name + (f" {var}" if var else ""), text) for name, (var, text) in COMMON.items()]
        wide = max(len(left) for left, _ in rows)
        listed = "\n".join(labelled_text(f"  {left:<{wide}}  ", right) for left, right in rows)
        about = "\n\n".join(labelled_text("", part) for part in self.about.split("\n\n"))
        shown = f"\n\nexamples:\n{self.examples}" if self.examples else ""
        # There is no line break between an option and its value.
        usage = labelled_text("usage: ", self.line(space="\xa0")).replace("\xa0", " ")
        return f"{usage}\n\n{about}\n\noptions:\n{listed}{shown}"


def read_spec(verb: str, text: str) -> Spec:
    """Parse one entry of ``data/verbs.txt``. The comment at the top of that file explains its form."""
    head, *blocks = text.rstrip("\n").split("\n\n")
    counts, _, usage = head.rpartition("\nusage (")[2].partition("):")
    words, _, paths = counts.partition(", ")
    least, _, most = words.partition("-")
    about: list[str] = []
    options: list[Opt] = []
    examples = ""
    for block in blocks:
        if block.startswith("  "):
            examples = block
        elif not block.startswith("options:\n"):
            about.append(block.replace("\n", " "))
        else:
            for line in block.split("\n")[1:]:
                options += CURRENT if line == "-current" else [_read_option(line)]
    most_words = None if most == "*" else int(most)
    described = "\n\n".join(about)
    return Spec(verb, described, usage.strip(), int(least), most_words, tuple(options), examples, bool(paths))


def _read_option(line: str) -> Opt:
    left, _, help = line.partition(": ")
    left, _, flags = left.rstrip(")").partition(" (")
    name, _, metavar = left.partition(" ")
    marks = flags.split()
    choices = next((tuple(word.split("|")) for word in marks if "|" in word), ())
    many, needed, filled, greedy = (word in marks for word in ("many", "needed", "filled", "greedy"))
    return Opt(name, metavar or None, help, many, choices, needed, filled, greedy)


def labelled_text(left: str, right: str) -> str:
    """Return text next to its label, on as many lines as it takes."""
    from textwrap import wrap

    lines = wrap(right, WIDTH - len(left), break_long_words=False, break_on_hyphens=False) or [""]
    return left + f"\n{' ' * len(left)}".join(lines)


class Args:
    """What was given: one attribute per option (dashes become underscores) and ``rest``, the positionals."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rest: list[str] = []
        self.paths: list[str] = []
        self.project: str | None = None
        self.store: str | None = None
        self.json = self.trust = False
        for opt in spec.options:
            setattr(self, attribute(opt.name), [] if opt.many else None if opt.metavar else False)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def attribute(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def parse_words(spec: Spec, words: list[str]) -> Args:
    """The options and positionals of a verb; ``Usage`` says what is wrong and what would be right."""
    args = Args(spec)
    known: dict[str, Any] = {opt.name: opt for opt in spec.options}
    for word in words:  # words may be stored, named or compared, so they must be text
        try:
            word.encode()
        except UnicodeEncodeError as error:
            shown = word.encode("utf-8", "backslashreplace").decode()[:80]
            raise Usage(
                f"An argument of `leftoff {spec.verb}` is not UTF-8, at character {error.start + 1}: {shown}",
                hint="Nothing was changed. Give text in UTF-8, or put it in a file.",
            ) from None
    index, end = 0, len(words)
    while index < end:
        word = words[index]
        index += 1
        if word == "--":
            (args.paths if spec.paths else args.rest).extend(words[index:])
            break
        if not word.startswith("-") or word == "-" or word[1].isdigit():  # -1 is a value, and no option
            args.rest.append(word)
            continue
        name, given, value = word.partition("=")
        opt = known.get(name)
        if opt is None and OLD_OPTIONS.get(name) in known:
            name = OLD_OPTIONS[name]
            opt = known[name]
        if opt is None and name not in COMMON:
            raise _unknown(spec, name, known)
        metavar = opt.metavar if opt is not None else COMMON[name][0]
        if metavar is None:
            if given:
                raise spec.wrong(f"{name} takes no value.")
            setattr(args, attribute(name), True)
            continue
        if not given:
            if index >= end:
                raise spec.wrong(f"{name} needs a value: {name} {metavar}.")
            value = words[index]
            index += 1
        _store(spec, args, opt, name, value)
        while opt is not None and opt.greedy and index < end and not words[index].startswith("-"):
            _store(spec, args, opt, name, words[index])
            index += 1
    if len(args.rest) < spec.least:
        raise spec.wrong(f"`leftoff {spec.verb}` needs {spec.usage}.")
    if spec.most is not None and len(args.rest) > spec.most:
        raise spec.wrong(f"`leftoff {spec.verb}` does not take {args.rest[spec.most]!r}.")
    for opt in spec.options:
        if opt.needed and not getattr(args, attribute(opt.name)):
            raise spec.wrong(f"`leftoff {spec.verb}` needs {opt.name} {opt.metavar}.")
    return args


def _store(spec: Spec, args: Args, opt: Opt | None, name: str, value: str) -> None:
    if opt is not None and opt.filled and not value:
        raise spec.wrong(f"{name} is empty; leave it out, or give it a value: {name} {opt.metavar}.")
    if opt is not None and opt.choices and value not in opt.choices:
        raise spec.wrong(f"{name} cannot be {value!r}; choose one of {', '.join(opt.choices)}.")
    if opt is not None and opt.many:
        getattr(args, attribute(name)).append(value)
    else:
        setattr(args, attribute(name), value)


def _unknown(spec: Spec, name: str, known: dict[str, Any]) -> Usage:
    from difflib import get_close_matches

    near = get_close_matches(name, [*known, *COMMON, "--help"], 1, 0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    return spec.wrong(f"`leftoff {spec.verb}` has no option {name}.", hint)


# -- the verbs


def read_data(name: str) -> str:
    """Return the text of a file in the folder ``data``."""
    folder = os.path.dirname(__file__)
    with open(os.path.join(folder, "data", name), encoding="utf-8") as file:
        return file.read()


_ENTRIES = dict(entry.split("\n", 1) for entry in read_data("verbs.txt").split("\n=== ")[1:])
# name: (group in the help, summary), from the first line of each entry
VERBS: dict[str, tuple[str, str]] = {
    name: (text[: text.index(":")], text[text.index(":") + 2 : text.index("\n")])
    for name, text in _ENTRIES.items()
}
HIDDEN = [name for name, (group, _) in VERBS.items() if group == "hidden"]  # they work, but are not listed
LISTED = {name: about for name, about in VERBS.items() if name not in HIDDEN}

# The ten of every day: `leftoff help` explains them first.
DAILY = ("run", "resume", "status", "show", "history", "logs", "diff", "approve", "rollback", "stop")

# Other words for exactly the same; words that mean nearly the same are suggested (data/synonyms.txt).
SAME = {
    "reprendre": "resume",
    "continue": "resume",
    "list": "ls",
    "view": "show",
    "checkpoint": "save",
    "delete": "rm",
    "remove": "rm",
    "handoff": "handover",
    "log": "history",
    "beat": "heartbeat",
    "dialects": "protocols",
}

GROUPS = {
    "see": "See",
    "run": "Run",
    "report": "Report progress (agents and scripts)",
    "agent": "Agents",
    "undo": "Undo",
    "keep": "Keep",
}

# The modules of this package, and the verbs in each.
MODULES = {
    "list_verbs": "status ls",
    "show_verbs": "show logs",
    "history_verbs": "history diff fork rollback restore track cat",
    "drive_verbs": "run resume",
    "verdict_verbs": "verify",
    "lifecycle_verbs": "start pause finish stop approve reject unblock",
    "report_verbs": "step next heartbeat save set get put note artifact",
    "keep_verbs": "archive rm undelete prune fsck store trust export import protocols compat",
    "agent_verbs": "install uninstall hook mcp brief handover",
    "help_verbs": "help completion init",
    "demo_verbs": "demo",
    "serve_verbs": "serve supervise",
}


def spec_of(verb: str) -> Spec:
    """Return the options, usage and help of a verb."""
    return read_spec(verb, _ENTRIES[verb])


def load_verb(verb: str) -> Callable[[Args, Any], int]:
    """Import the module of a verb; return the function that runs it."""
    name = next(f"leftoff.cli.{module}" for module, verbs in MODULES.items() if verb in verbs.split())
    __import__(name)
    function: Callable[[Args, Any], int] = getattr(sys.modules[name], f"run_{verb}")
    return function


# -- values

_AT = "@FILE reads the value from a file. Text that begins with @ is given as JSON: K:='\"@…\"'"


def assignments(words: list[str]) -> dict[str, Any]:
    """The variables of ``K=V…``; a later one wins."""
    return dict(map(assignment, words))


def assignment(word: str) -> tuple[str, Any]:
    key, kind, value = typed.split(word)
    what = f"The value of {key}"
    if kind == typed.JSON:
        return key, _unambiguous(typed.json_value(value, what), value, what)
    if kind == typed.FILE:
        content = read_text(value)
        return key, _unambiguous(typed.from_file(content), content, what)
    return key, _unambiguous(typed.typed(value), value, what)


def _unambiguous(value: Any, source: str, what: str) -> Any:
    """A value, if its JSON says no more than it: of a key that is there twice, only one would be kept."""
    if isinstance(value, dict | list) and "{" in source:
        from leftoff.model.codec import key_twice

        twice = key_twice(source)
        if twice is not None:
            raise Usage(
                f"{what} has the key {twice!r} twice.", hint="Nothing was changed. Leave one of them out."
            )
    return value


def read_text(path: str) -> str:
    """The text of a file, or of stdin (``-``); at most ``typed.MOST_BYTES``."""
    if not path:
        raise Usage("No file is named after the @.", hint=_AT)
    try:
        if path == "-":
            data = _read(sys.stdin.buffer, "stdin", 0)
        else:
            with open(path, "rb") as file:
                data = _read(file, path, os.fstat(file.fileno()).st_size)
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{path} is not UTF-8 text: it has the byte {data[error.start]:#04x} at {error.start}.",
            hint="`leftoff artifact PATH` keeps a file of any kind.",
        ) from None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        raise NotFound(f"The file {path} {what}.", hint=_AT) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}.", hint="Nothing was changed. Check its permissions."
        ) from None


def _read(file: BinaryIO, name: str, size: int) -> bytes:
    """``size``: what it says that it has; a device or a pipe says nothing."""
    data = b"" if size > typed.MOST_BYTES else file.read(typed.MOST_BYTES + 1)
    if max(size, len(data)) > typed.MOST_BYTES:
        raise Usage(
            f"{name} is too large for a value: it has more than {typed.MOST_BYTES >> 20} MiB.",
            hint="Nothing was changed. `leftoff artifact PATH` keeps a file of any size.",
        )
    return data


def json_or_file(word: str, what: str) -> Any:
    """JSON, or ``@FILE`` with JSON in it."""
    source = read_text(word[1:]) if word.startswith("@") else word
    return _unambiguous(typed.json_value(source, what), source, what)


def number(word: str | None, name: str) -> int | None:
    """A whole number from 0 on, or nothing."""
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise Usage(f"{name} must be a whole number, not {word[:40]!r}.", hint=f"For example: {name} 12")
    return int(word)


def positive(word: str | None, name: str) -> int | None:
    """A whole number from 1 on, or nothing."""
    found = number(word, name)
    if found == 0:
        raise Usage(f"{name} must be at least 1.", hint=f"For example: {name} 4")
    return found


def step_path(word: str) -> str:
    """A step as it is given: relative to LEFTOFF_STEP where that is set, unless it starts with a slash."""
    above = CALLER.step
    path = word[1:] if word.startswith("/") else f"{above}/{word}" if above else word
    return usage_errors(lambda: given_step(path))
