"""From words to a verb, and from an error to what a person reads. No traceback reaches a user."""

from __future__ import annotations

import os
import sys

from leftoff.cli.options import COMMON, parse
from leftoff.cli.verbs import SAME, VERBS
from leftoff.errors import LeftoffError, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dispatch(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        return _run(words)
    except LeftoffError as error:
        if os.environ.get("LEFTOFF_DEBUG") == "1":
            raise
        tell(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:  # the reader had enough, as with `| head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _run(words: list[str]) -> int:
    at = _verb_at(words)
    if at is None:
        return _help("help", words)
    verb = SAME.get(words[at], words[at])
    if verb not in VERBS:
        raise no_verb(words[at])
    rest = words[:at] + words[at + 1 :]
    module = load(verb)
    if "--help" in _before_dashes(rest) or "-h" in _before_dashes(rest):
        out(module.SPEC.help())
        return 0
    from leftoff.cli.context import Context

    args = parse(module.SPEC, rest)
    ctx = Context(args)
    try:
        return int(module.run(args, ctx))
    finally:
        ctx.close()


def load(verb: str) -> Any:
    """The module of a verb."""
    name = f"leftoff.cli.verb_{verb}"
    __import__(name)
    return sys.modules[name]


def _verb_at(words: list[str]) -> int | None:
    """Where the verb is: the first word that is no option, nor the value of a common one."""
    index = 0
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            return index
        name, given, _ = word.partition("=")
        index += 2 if COMMON.get(name, (None,))[0] is not None and not given else 1
    return None


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _help(verb: str, words: list[str]) -> int:
    module = load(verb)
    unknown = [w for w in words if w.startswith("-") and w.partition("=")[0] not in (*COMMON, "--help", "-h")]
    if unknown:
        raise Usage(f"leftoff has no option {unknown[0]}.", hint="`leftoff help` lists the verbs.")
    out(module.overview())
    return 0 if words else 2


def no_verb(word: str) -> Usage:
    from difflib import get_close_matches

    near = get_close_matches(word, [*VERBS, *SAME], 1, 0.5)
    hint = f"Did you mean `leftoff {near[0]}`? " if near else ""
    return Usage(f"leftoff has no verb {word!r}.", hint=f"{hint}`leftoff help` lists them.")


def printable(text: str) -> str:
    """Text as it can be written: what came in as invalid UTF-8 is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def out(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def tell(error: LeftoffError, *, as_json: bool) -> None:
    """What is wrong, then what to do; with --json also as a document on stdout."""
    from leftoff.cli.text import clean_lines, safe_json

    lines = f"leftoff: {error.message}\n"
    if error.hint:
        lines += f"{error.hint}\n"
    sys.stderr.write(printable(clean_lines(lines)))
    if as_json:
        from leftoff.model.codec import text

        about = {"code": error.code, "message": printable(error.message), "hint": printable(error.hint)}
        out(safe_json(text({"error": about})))
