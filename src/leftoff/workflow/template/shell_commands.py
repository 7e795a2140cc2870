"""Which words of a shell command are read a second time: as commands, as the name of a variable, as a number.

No quoting helps a value that stands there. ``eval`` and ``sh -c`` take it for a script; ``unset``, ``read`` and
``declare`` look for a subscript in it, and execute what that says; so does bash wherever it reads a number. So such a
value is refused, whatever it is, and the author is told what to write instead.
"""

from __future__ import annotations

import os.path
import re
from itertools import pairwise

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SHELLS = frozenset("sh bash rbash dash ash ksh ksh93 mksh yash zsh busybox fish csh tcsh".split())
UNKNOWN = "\0"  # what is not known before the script runs

AS_COMMANDS = (
    'Give it to the step in `env:` and write "$NAME" in single quotes there, as in: trap \'rm "$NAME"\' EXIT.'
)
AS_ARGUMENT = (
    "Hand it over as an argument, as in: sh -c 'echo \"$1\"' sh {{ x }}; or give it to the step in `env:`."
)
AS_FILE = 'Give it to the step in `env:` and write "$NAME" there.'
AS_NAME = "Write the name of the variable into the script; a value goes into a variable, as in: name={{ x }}."
AS_NUMBER = "Write {{ n | int }}: a whole number, or an error."
AS_PRINTED = (
    "The command may print the value itself. Put its output into a variable, and check that it is a number."
)
AS_COUNTED = (
    "Give a number, or write {{ n | int }}: a whole number, or an error. Text goes under another name."
)
AS_DIGITS = "Write {{ n | int }}: a whole number, or an error; or keep its digits alone: ${n//[!0-9]/}."
AS_WORD = 'Put the variable in quotes, as in: "$name".'
AS_INPUT = "Put the commands into the script itself, or the value into a file or `env:`."

_KEYWORDS = frozenset("if then else elif do while until ! { time coproc always".split())
_SKIP_ONE = frozenset(("function", "repeat"))  # and the word after them
_PREFIXES = frozenset("command builtin exec noglob nocorrect -".split())
# They execute the rest of their line, maybe as somebody or somewhere else.
_RUNNERS = frozenset(
    "env nice ionice sudo doas timeout nohup setsid stdbuf docker podman kubectl nsenter chroot time xargs exec".split()
)
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=", re.ASCII)
# Expanded when they are used, or numbers to bash.
_SPECIAL = re.compile(
    r"(PS[0-4]|PROMPT\d?|PROMPT_COMMAND|BASH_ENV|RANDOM|SRANDOM|SECONDS|OPTIND|HISTCMD|LINENO)\+?=",
    re.ASCII,
)
_PIECE = re.compile(
    r"""(?P<escaped>\\(?:.|\n))|(?P<opens>\$?[(`]|\$\{|[<>]\()|(?P<name>\$[A-Za-z_]\w*|\$[0-9@*#?$!-])"""
    r"""|(?P<quote>\$?['"])|.|\n""",
    re.ASCII,
)
_OWN_SHELL = re.compile(r"\$(?:\{(?:SHELL|BASH)\}|(?:SHELL|BASH)\b)")
_INSIDE = re.compile(r"[^$`]*\$\(([^();&`\n]*)\)[^$`]*")
_PRINTS_NO_ARGUMENT = re.compile(r"(wc|cat|jq|awk|sed|date|nproc|grep\s+-\w*c\w*)\b")
_NUMBER_TESTS = frozenset("-eq -ne -lt -le -gt -ge -t".split())
_COUNTING = frozenset("break bye continue exit logout return shift".split())
_COUNTING_FORMAT = re.compile(r"%[^%sbqc]*[^%sbqc0-9.+ -]|\*")
# Options whose next word is no name: `read -p PROMPT`.
_SETTINGS = {"read": re.compile(r"-[a-zA-Z]*[dinNptu]"), "mapfile": re.compile(r"-[a-zA-Z]*[dnOsu]")}
_NAME_TESTS = frozenset(("-v", "-R"))
_SSH_TAKES = frozenset("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w".split())
# As they are called, with what they have a shell read.
_HANDED_ON = {
    "env": "-S", "npx": "-c", "npm": "-c", "vagrant": "-c", "nix-shell": "--run", "entr": "-s", "gcloud": "--command",
}  # fmt: skip
_TAKE_SCRIPT = {"su": "-c", "runuser": "-c", "script": "-c", "flock": "-c", "sg": "-c", "sbatch": "--wrap"}


# Before a value in a place whose commands are not read one by one.
_ANYWHERE = "eval|trap|source|unset|read|printf|declare|typeset|local|export|let|alias|ssh|su|watch|parallel"
READS_AGAIN = re.compile(rf"\b({_ANYWHERE}|{'|'.join(sorted(SHELLS))})\b|(^|[\s;|&(])\.\s", re.ASCII)


class Word(Fields):
    """A word as far as it is known, and the values in it: which, and whether only a command inside it has them."""

    text: str
    shape: str  # the same with UNKNOWN for each value
    values: Sequence[tuple[int, bool]] = ()
    redirect: str = ""  # the operator, where it names a file or is the text of <<<
    # The command inside it prints a number, or what is in a file, whatever its arguments are.
    counts: bool = False
    start: int = -1  # where it stands in the script
    end: int = -1
    descriptor: str = ""  # the number before the operator
    expands: bool = True  # the body of a here-document in which variables are put in

    def place(self, start: int, end: int, descriptor: str) -> None:
        self.start, self.end, self.descriptor = start, end, descriptor


class Evaluated(Fields):
    """A value that is read a second time."""

    value: int
    message: str
    hint: str
    number: bool = False  # it may be one that is surely a number
    counted: bool = False  # it may be one that looks like a number
    path: bool = False  # it names a file, which a variable may do


def counts(source: str) -> bool:
    """Whether the only command inside a word is one of those that do not print their arguments."""
    found = _INSIDE.fullmatch(source)
    return found is not None and _PRINTS_NO_ARGUMENT.match(found[1].rpartition("|")[2].lstrip()) is not None


def literal(source: str, mark: str, values: Sequence[str]) -> str:
    """A word without its quotes, as far as it is known: what is not is UNKNOWN, and nothing follows a ``$(…)``."""
    out: list[str] = []
    left = iter(values)
    for found in _PIECE.finditer(_OWN_SHELL.sub("sh", source)):
        piece = found.group()
        if piece == mark:
            out.append(next(left))
        elif found["escaped"]:
            out.append("" if piece == "\\\n" else piece[1:])
        elif found["name"]:
            out.append(UNKNOWN)
        elif found["opens"]:
            out.append(UNKNOWN)
            break
        elif not found["quote"]:
            out.append(piece)
    return "".join(out)


def evaluated(
    words: Sequence[Word], *, ksh: bool, typed: frozenset[str] | None, counted: frozenset[str]
) -> Iterator[Evaluated]:
    """The values of a simple command that are read a second time.

    ``ksh``: in a shell where every command that takes a number counts with it. ``typed``: variables that are numbers or
    references. ``counted``: those that are counted with somewhere.
    """
    for word in words:
        name = word.text.partition("=")[0].rstrip("+")
        if ASSIGNMENT.match(word.text) and not ASSIGNMENT.match(word.shape) and _is_prefix(words, word):
            yield from _found([word], "a value in the name of a variable", AS_NAME)
        elif _SPECIAL.match(word.text):
            yield from _found([word], f"a value for ${name}, which the shell expands or counts with", AS_FILE)
        elif ASSIGNMENT.match(word.text):
            yield from kept({name}, [word], typed, counted)
    for names, given in _set_by(words):
        yield from kept(names, given, typed, counted)
    name, arguments = command_of([word for word in words if not word.redirect])
    if ksh:
        yield from _counted(name, arguments, words)
    if name in ("[[", "[", "test"):
        yield from _tested(name, arguments, numbers=name == "[[" or ksh)
    elif name in _RULES:
        yield from _RULES[name](name, arguments)
    yield from _scripts([word for word in words if not word.redirect])
    if reads_commands(words):
        fed = [word for word in words if word.redirect == "<<<" or (word.redirect == "<" and _inside(word))]
        yield from _found(fed, "a value that a shell reads as commands", AS_INPUT)


def kept(
    names: set[str], given: Sequence[Word], typed: frozenset[str] | None, counted: frozenset[str]
) -> Iterator[Evaluated]:
    """Values that go into variables."""
    name = ", $".join(sorted(names))
    if any(_SPECIAL.match(f"{each}=") for each in names):
        yield from _found(given, f"a value for ${name}, which the shell expands or counts with", AS_FILE)
    elif typed is None or names & typed:
        yield from _numbers(given, f"a value for ${name}, which is declared as a number or a reference")
    elif names & counted:
        message = f"a value for ${name}, which the script counts with"
        for word in given:
            for value, nested in word.values:
                if not nested:
                    yield Evaluated(value, message, AS_COUNTED, counted=True)


def _set_by(words: Sequence[Word]) -> Iterator[tuple[set[str], list[Word]]]:
    """Variables that a command other than an assignment puts values into."""
    name, arguments = command_of([word for word in words if not word.redirect])
    if name in ("for", "select"):
        yield {word.text for word in arguments[:1]}, arguments[2:]
    elif name in ("read", "readarray", "mapfile"):
        yield set(names_read(arguments)), [word for word in words if word.redirect == "<<<"]
    elif name == "printf" and len(arguments) > 2 and arguments[0].text == "-v":
        yield {arguments[1].text}, arguments[2:]


def names_read(arguments: Sequence[Word]) -> list[str]:
    """The variables that `read` or `mapfile` fills."""
    return [word.text for word in arguments if not word.text.startswith("-")]


def _is_prefix(words: Sequence[Word], word: Word) -> bool:
    """Whether a word stands before the name of a command."""
    name, arguments = command_of(words)
    return word not in arguments and word.text != name


def reads_commands(words: Sequence[Word]) -> bool:
    """Whether a command is a shell that takes its commands from its input."""
    plain = [word for word in words if not word.redirect]
    name, arguments = command_of(plain)
    if name in ("source", "."):
        return bool(arguments) and _is_open_file(arguments[0])
    if name in ("at", "batch"):
        return not any(word.text.startswith("-f") for word in arguments)
    if name in ("readarray", "mapfile"):
        return any(word.text.startswith("-C") for word in arguments)
    if name == "ssh":
        rest = _remote(arguments)
        return not rest or reads_commands(rest)
    if _base(name) in _RUNNERS:
        at = next((i for i, word in enumerate(arguments) if _base(word.text) in SHELLS), None)
        if at is None:
            return name in ("su", "sudo") and "-s" in (word.text for word in arguments)
        replaced = name == "xargs" and any(
            word.text.startswith(("-I", "-i", "--replace")) for word in arguments
        )
        return replaced or reads_commands(arguments[at:])
    if _base(name) == "su":
        return not any(word.text.startswith(("-c", "--command")) for word in arguments)
    if _base(name) not in SHELLS:
        return False
    script, file = of_shell(arguments)
    return script is None and (
        file is None or "-s" in (word.text for word in arguments) or _is_open_file(file)
    )


def _is_open_file(word: Word) -> bool:
    """Whether a file is none of its own, but what a command was given as input."""
    return word.text in ("-", "/dev/stdin") or word.text.startswith(("/dev/fd/", "/proc/self/fd/"))


def command_of(words: Sequence[Word]) -> tuple[str, list[Word]]:
    """The name of what a simple command executes, and its arguments."""
    rest = list(words)
    while rest:
        word = rest[0].text.lstrip("{") or rest[0].text
        if word in _SKIP_ONE:
            del rest[:2]
        elif word in _KEYWORDS or ASSIGNMENT.match(word):
            del rest[0]
        elif word in _PREFIXES:
            del rest[0]
            while rest and rest[0].text.startswith("-") and len(rest[0].text) > 1:
                del rest[: 2 if rest[0].text == "-a" else 1]
        else:
            return word, rest[1:]
    return "", []


def _base(text: str) -> str:
    return os.path.basename(text)


def _inside(word: Word) -> bool:
    return any(nested for _, nested in word.values)


def _found(words: Iterable[Word], message: str, hint: str) -> Iterator[Evaluated]:
    for word in words:
        for value, _ in word.values:
            yield Evaluated(value, message, hint)


def _numbers(words: Iterable[Word], message: str) -> Iterator[Evaluated]:
    """What a command inside prints may be the value itself, as with ``echo``."""
    for word in words:
        for value, nested in word.values:
            if not (nested and word.counts):
                yield Evaluated(value, message, AS_PRINTED if nested else AS_NUMBER, number=True)


# -- rules of single commands


def _as_commands(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    return _found(arguments, f"a value after `{name}`, which reads it as commands", AS_COMMANDS)


def _as_names(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    return _found(arguments, f"a value after `{name}`, which takes it for the name of a variable", AS_NAME)


def _filled(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    setting = _SETTINGS["read" if name == "read" else "mapfile"]
    pairs = zip([None, *arguments], arguments, strict=False)
    return _as_names(
        name, [word for before, word in pairs if not (before and setting.fullmatch(before.text))]
    )


def _option_read(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    return _as_names(name, arguments[1:2])


def _let(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    return _numbers(arguments, f"a value after `{name}`, which counts with it")


def _sourced(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    for word in arguments[:1]:
        for value, nested in word.values:
            message = f"a value after `{name}`, which reads commands from there"
            yield Evaluated(value, message, AS_FILE, path=not nested)


def _printed(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    """``printf -v NAME``, and ``%n``, which puts a number into a variable."""
    for index, word in enumerate(arguments):
        if word.text.startswith("-v"):
            yield from _as_names(f"{name} -v", arguments[index : index + 2])
        if name == "print" and re.match(r"-\w*P", word.text):
            yield from _as_commands("print -P", arguments)
        if not re.match(r"-\w", word.text):
            break
    if any(re.search(r"%[^%a-zA-Z]*n", word.text) for word in arguments):
        yield from _as_names(f"{name} %n", arguments)


def _option_name(option: str) -> Callable[[str, list[Word]], Iterator[Evaluated]]:
    def rule(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
        if any(word.text.startswith(option) for word in arguments):
            yield from _as_names(f"{name} {option}", arguments)

    return rule


def _declared(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    """``export NAME={{ x }}`` is well; a name, a list, a number or a reference is not."""
    flags = "".join(word.text for word in arguments if re.match(r"[-+][A-Za-z]", word.text))
    named = name == "nameref" or any(letter in flags for letter in "aAn")
    number = name in ("integer", "float") or any(letter in flags for letter in "iEF")
    called = f"{name} -{flags.strip('-+')}" if (named or number) and flags else name
    for word in arguments:
        left, _, right = word.text.partition("=")
        if named or not ASSIGNMENT.match(word.shape) or "[" in left or right.lstrip().startswith("("):
            yield from _as_names(called, [word])
        elif number:
            yield from _numbers([word], f"a value after `{called}`, which counts with it")


def _counted(name: str, arguments: list[Word], words: Sequence[Word]) -> Iterator[Evaluated]:
    """ksh and zsh count wherever a command of theirs takes a number."""
    for before, word in pairwise(words):
        if before.text == "repeat":
            yield from _numbers([word], "a value after `repeat`, which counts with it")
    if name == "read":  # its -p takes nothing
        yield from _as_names(name, arguments)
    formatted = name in ("printf", "print") and any(_COUNTING_FORMAT.search(word.shape) for word in arguments)
    if formatted or name in _COUNTING:
        yield from _numbers(arguments, f"a value after `{name}`, which counts with it")


def _tested(name: str, arguments: list[Word], *, numbers: bool) -> Iterator[Evaluated]:
    operators = {word.text for word in arguments}
    if operators & _NAME_TESTS:
        yield from _as_names(f"{name} -v", arguments)
    if numbers and operators & _NUMBER_TESTS:
        yield from _numbers(arguments, f"a value in `{name} … -eq`, which counts with it")


def _handed_on(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    """``env -S LINE``, ``npx -c LINE``: a line of words that is taken apart again."""
    option = _HANDED_ON[name]
    written = (option, "--split-string") if name == "env" else (option,)
    for index, word in enumerate(arguments):
        if word.text.startswith(written) or re.fullmatch(rf"-\w+{option[1:]}.*", word.text):
            message = f"a value in what `{name} {option}` takes apart"
            yield from _found(arguments[index : index + 2], message, AS_ARGUMENT)


def _on_a_device(name: str, arguments: list[Word]) -> Iterator[Evaluated]:
    if any(word.text == "shell" for word in arguments):
        yield from _as_commands(f"{name} shell", arguments)


_RULES: dict[str, Callable[[str, list[Word]], Iterator[Evaluated]]] = {
    **dict.fromkeys(
        "eval trap alias emulate fc watch parallel tmux sched zle bindkey zstyle functions".split(),
        _as_commands,
    ),
    **dict.fromkeys("bind complete compgen compopt compadd enable vared".split(), _as_commands),
    **dict.fromkeys("unset getln zformat".split(), _as_names),
    **dict.fromkeys("read readarray mapfile".split(), _filled),
    "getopts": _option_read,
    **dict.fromkeys("declare typeset local private export readonly integer float nameref".split(), _declared),
    **dict.fromkeys(("source", "."), _sourced),
    **dict.fromkeys(("printf", "print"), _printed),
    **dict.fromkeys(_HANDED_ON, _handed_on),
    **dict.fromkeys(("hyperfine", "concurrently"), _as_commands),
    "adb": _on_a_device,
    "let": _let,
    "wait": _option_name("-p"),
    "set": _option_name("-A"),
}


# -- programs that are given a script


def _scripts(words: list[Word]) -> Iterator[Evaluated]:
    """``bash -c SCRIPT`` wherever it stands in a command, ``su -c SCRIPT``, ``ssh HOST SCRIPT``."""
    for index, word in enumerate(words):
        name = _base(word.text)
        if name in SHELLS:
            script, file = of_shell(words[index + 1 :])
            if script is not None:
                yield from _found([script], f"a value in the script of `{name} -c`", AS_ARGUMENT)
            if file is not None and _inside(file):
                yield from _found([file], f"a value that `{name}` reads as commands", AS_INPUT)
        elif name in _TAKE_SCRIPT:
            yield from _after_option(name, _TAKE_SCRIPT[name], words[index + 1 :])
        elif name == "ssh":
            message = "a value after `ssh HOST`, where another shell reads it"
            yield from _found(_remote(words[index + 1 :]), message, AS_INPUT)


def of_shell(words: Sequence[Word]) -> tuple[Word | None, Word | None]:
    """The script that a shell is given with ``-c``, or else the file that it reads."""
    takes, at = False, 0
    while at < len(words):
        text = words[at].text
        if _base(text) in SHELLS and not at:  # busybox sh
            at += 1
        elif text[:1] in ("-", "+") and len(text) > 1 and text != "--":
            takes = takes or (not text.startswith("--") and "c" in text)
            at += 2 if re.fullmatch(r"[-+]\w*[oO]|--(rcfile|init-file)", text) else 1
        elif text == "--":
            at += 1
        else:
            return (words[at], None) if takes else (None, words[at])
    return None, None


def _after_option(name: str, option: str, words: list[Word]) -> Iterator[Evaluated]:
    for index, word in enumerate(words):
        if word.text.startswith(option) or (option == "-c" and re.match(r"-\w*c|--command", word.text)):
            yield from _found(
                words[index : index + 2], f"a value in the script of `{name} {option}`", AS_FILE
            )
        elif name == "sg" and index:
            yield from _found([word], f"a value in the script of `{name}`", AS_FILE)


def _remote(words: Sequence[Word]) -> list[Word]:
    """What ``ssh`` has the other side read: all after the host."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in _SSH_TAKES else 1
    return list(words[at + 1 :])
