"""What a command prints of what it is given: everything, to be safe; less where the command is known."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.workflow.template.shell_commands import Word

_SILENT = frozenset(
    ": true false test [ [[ read cd mkdir rm rmdir mv cp touch chmod chown ln sleep shift unset set export readonly"
    " local declare typeset return exit kill wait mapfile readarray getopts trap case for select".split()
)
_READERS = frozenset(
    "cat head tail tac sort uniq cut nl rev fold".split()
)  # their arguments are files and options
_PROGRAMS = frozenset("awk gawk mawk sed jq grep egrep fgrep yq".split())  # then files
_COUNTS_ONLY = re.compile(r"\s*(.*\|\s*)?(length|count)\s*")
_COUNTS_LINES = re.compile(r"\s*END\s*\{\s*print\s+NR;?\s*\}\s*")
_WHOLE_NUMBERS = re.compile(r"(%[-+ 0]*[0-9]*[diux]|[\s\\n:,])+")


def prints_numbers(name: str, arguments: Sequence[Word], *, ksh: bool = False) -> bool:
    """Whether a command prints nothing but numbers, whatever it is given."""
    words = [word.text for word in arguments]
    options = [word for word in words if word.startswith("-")]
    operands = [word for word in words if not word.startswith("-")]
    if name == "wc":
        return not operands
    if name == "grep":
        counting = any(re.fullmatch(r"-\w*c\w*|--count", word) for word in options)
        return counting and (len(operands) < 3 or any("h" in word for word in options))
    if name == "seq":
        return not options
    if name == "tr":
        return bool(re.fullmatch(r"-(cd|dc) (\[:digit:\]|0-9)(\\n)?", " ".join(words)))
    if name == "stat":
        return "%s" in operands or "%Y" in operands or "-c%s" in options
    if name == "printf":
        return not ksh and bool(words) and bool(_WHOLE_NUMBERS.fullmatch(words[0]))
    return _counts(name, operands, options)


def _counts(name: str, operands: list[str], options: list[str]) -> bool:
    if name == "jq":
        return bool(operands) and bool(_COUNTS_ONLY.fullmatch(operands[0])) and "--arg" not in options
    if name == "awk":
        return bool(operands) and bool(_COUNTS_LINES.fullmatch(operands[0]))
    if name == "git":
        return "--count" in options
    return name == "nproc" or (name == "expr" and operands[:1] == ["length"])


def passes_on(name: str, arguments: Sequence[Word], *, ksh: bool = False) -> tuple[list[Word], bool]:
    """The arguments that a command may print, and whether it may print what it reads."""
    if name in _SILENT or prints_numbers(name, arguments, ksh=ksh):
        return [], False
    if name in ("echo", "printf", "print", "basename", "dirname", "date", "realpath", "seq"):
        return list(arguments), False
    if name in _READERS:
        return [], True
    if name in _PROGRAMS:
        return _but_files(arguments), True
    return list(arguments), True


def _but_files(arguments: Sequence[Word]) -> list[Word]:
    """Options with what follows them, and the program."""
    out: list[Word] = []
    program = False
    for index, word in enumerate(arguments):
        after_option = index > 0 and arguments[index - 1].text.startswith("-")
        if word.text.startswith("-") or after_option or not program:
            out.append(word)
        program = program or not word.text.startswith("-")
    return out
