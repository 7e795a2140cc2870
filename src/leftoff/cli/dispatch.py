"""From words to a verb, and from an error to what a person reads. No traceback reaches a user."""

from __future__ import annotations

import os
import sys

from leftoff import log
from leftoff.cli.context import Context
from leftoff.cli.options import COMMON, parse
from leftoff.cli.verbs import SAME, VERBS, load_verb, spec_of
from leftoff.errors import MOST_LISTED, BadDefinition, LeftoffError, NotFound, StoreUnavailable, Usage

LONGEST = 1000  # characters of a line that tells an error
FILES = 32  # that may be open besides those that were when we began: what cannot be opened would look as if not there
_MORE_FILES = "Raise the limit (`ulimit -n`), or close what keeps so many open; then try again."


def dispatch(words: list[str]) -> int:
    if sys.stdout is None or sys.stderr is None or sys.stdin is None:
        _open_closed()
    if sys.stdout.encoding != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    log.begin()
    as_json = "--json" in _before_dashes(words)
    try:
        _check_limit()
        return _run(words)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:  # the reader had enough, as with `| head -1`
        give_up(1)
        return 0
    except Exception as error:
        if isinstance(
            error.__cause__, KeyboardInterrupt
        ):  # Ctrl-C while a class was made, as Python wraps it
            return 130
        if log.debugging():
            raise
        known = error if isinstance(error, LeftoffError) else _unforeseen(error)
        tell(known, as_json=as_json)
        return known.exit_code


def _check_limit() -> None:
    """``StoreUnavailable`` where hardly a file can be opened. One question: whoever leaves files open for us to inherit
    leaves the first numbers."""
    try:
        os.close(first := os.dup(2))
    except OSError:
        first = FILES
    limit = os.sysconf("SC_OPEN_MAX")
    if 0 <= limit < first + FILES:
        told = f"At most {limit} files may be open at once, and {first} are: {FILES} more are needed."
        raise StoreUnavailable(told, hint=f"Nothing was changed. {_MORE_FILES}")


def _open_closed() -> None:
    """Called with a standard stream closed: nothing that is opened later may take its place."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - it stays open


def give_up(fd: int) -> None:
    """A stream that takes nothing any more: what Python still has for it goes nowhere, without a word at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def _unforeseen(error: Exception) -> LeftoffError:
    """What no verb expects: a folder that is gone, an output that cannot be written, an error of ours."""
    import errno

    if isinstance(error, FileNotFoundError) and error.filename is None:
        return NotFound("The current folder is gone.", hint="Change to an existing folder: cd FOLDER")
    if isinstance(error, (IsADirectoryError, NotADirectoryError, FileExistsError)) and error.filename:
        from leftoff.files import failure

        return failure(error, "")
    if isinstance(error, OSError):
        what = error.filename if isinstance(error.filename, str) else "The output"
        hint = "Check the disk, and where the output goes; then try again."
        if isinstance(error, PermissionError):
            hint = "Check its permissions."
        elif error.errno in (errno.EMFILE, errno.ENFILE):
            hint = _MORE_FILES
        return StoreUnavailable(f"{what}: {error.strerror or error}.", hint=hint)
    told = f"Internal error: {type(error).__name__}: {error}"
    return LeftoffError(
        told, hint="This is a bug in leftoff. Please report it, with what LEFTOFF_DEBUG=1 shows."
    )


def _run(words: list[str]) -> int:
    at = _verb_at(words)
    if at is None:
        return _help(words)
    verb = SAME.get(words[at], words[at])
    if verb not in VERBS:
        from leftoff.cli.explain import no_verb

        raise no_verb(words[at])
    log.doing = f"leftoff {verb}"
    rest = words[:at] + words[at + 1 :]
    if "--help" in _before_dashes(rest) or "-h" in _before_dashes(rest):
        from leftoff.cli.explain import explain

        return explain(verb, as_json="--json" in _before_dashes(rest))
    args = parse(spec_of(verb), rest)
    ctx = Context(args)
    try:
        return load_verb(verb)(args, ctx)
    finally:
        ctx.close()


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


def _help(words: list[str]) -> int:
    """What is said without a verb: the version, or which verbs there are."""
    as_json = "--json" in words
    if "--version" in words or "-V" in words:
        from leftoff._version import __version__

        print(f'{{"version":"{__version__}"}}' if as_json else f"leftoff {__version__}", flush=True)
        return 0
    known = (*COMMON, "--help", "-h")
    unknown = [w for w in words if w.startswith("-") and w.partition("=")[0] not in known]
    if unknown:
        raise Usage(f"leftoff has no option {unknown[0]}.", hint="`leftoff help --all` lists the verbs.")
    if words and not {"--help", "-h"} & set(words):
        raise Usage("There is no verb.", hint="`leftoff help --all` lists the verbs.")
    from leftoff.cli.explain import explain

    explain(None, as_json=as_json)
    return 0 if words else 2


def _short(line: str) -> str:
    """What somebody gave may be endless; what is wrong with it is not."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"


def _listed(error: LeftoffError) -> list[str]:
    """What it could have been, as a table."""
    if not error.listed:
        return []
    from leftoff.cli.text import clean, columns
    from leftoff.clock import SYSTEM, ago

    now, some = SYSTEM.now(), error.listed[:MOST_LISTED]
    rows = [(f"  {clean(name)}", clean(what), clean(status), ago(at, now)) for name, what, status, at in some]
    more = len(error.listed) - len(rows)
    return columns(rows) + ([f"  and {more} more"] if more > 0 else [])


def tell(error: LeftoffError, *, as_json: bool) -> None:
    """What is wrong, then what to do; with --json also as a document on stdout."""
    from leftoff.cli.text import clean, out, printable, safe_json

    parts = [f"leftoff: {error.message}", *_listed(error), *([error.hint] if error.hint else [])]
    if isinstance(error, BadDefinition):  # one line per problem
        parts = [line for part in parts for line in part.split("\n")]
    parts += error.paste.splitlines()
    try:
        sys.stderr.write(printable("".join(f"{_short(clean(part))}\n" for part in parts)))
    except OSError:
        give_up(2)
    if as_json:
        from leftoff.model.codec import text

        hint = f"{error.hint}\n{error.paste}" if error.paste else error.hint
        about = {"code": error.code, "message": printable(error.whole), "hint": printable(hint)}
        try:
            out(safe_json(text({"error": about})))
        except OSError:
            pass
    try:
        sys.stdout.flush()
    except OSError:
        give_up(1)
