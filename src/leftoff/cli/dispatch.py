"""From words to a verb, and from an error to what a person reads. No traceback reaches a user."""

from __future__ import annotations

import os
import sys

from leftoff import host
from leftoff.cli.context import Context
from leftoff.cli.options import COMMON, SAME, VERBS, load_verb, parse_words, spec_of
from leftoff.cli.text import clean, columns, discard, out, printable, safe_json
from leftoff.clock import SYSTEM, ago
from leftoff.errors import MOST_LISTED, BadDefinition, LeftoffError, NotFound, StoreUnavailable, Usage
from leftoff.model.codec import text

LONGEST = 1000  # characters of one line of an error
_MORE_FILES = "Raise the limit (`ulimit -n`), or close what keeps so many open; then try again."


def dispatch(words: list[str]) -> int:
    """Run the command; return its exit code."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:  # it is closed: nothing that is opened later may take its place
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - it stays open
    if sys.stdout.encoding != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _run(words)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:  # the reader had enough, as with `| head -1`
        discard(1)
        return 0
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # how Python wraps Ctrl-C while a class is made
            return 130
        if host.debugging():
            raise
        known = error if isinstance(error, LeftoffError) else _unforeseen(error)
        _report(known, as_json="--json" in _before_dashes(words))
        return known.exit_code


def _run(words: list[str]) -> int:
    at = 0  # the verb is the first word that is neither an option nor the value of a common one
    while at < len(words) and words[at].startswith("-"):
        name, given, _ = words[at].partition("=")
        at += 2 if COMMON.get(name, (None,))[0] is not None and not given else 1
    if at >= len(words):
        return _without_verb(words)
    verb = SAME.get(words[at], words[at])
    if verb not in VERBS:
        from leftoff.cli.help_verbs import no_verb

        raise no_verb(words[at], words[:at])
    rest = words[:at] + words[at + 1 :]
    options = _before_dashes(rest)
    if "--help" in options or "-h" in options:
        from leftoff.cli.help_verbs import explain

        return explain(verb, as_json="--json" in options)
    args = parse_words(spec_of(verb), rest)
    ctx = Context(args)
    try:
        return load_verb(verb)(args, ctx)
    finally:
        ctx.close()


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _without_verb(words: list[str]) -> int:
    """Print the version, or which verbs there are."""
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
    from leftoff.cli.help_verbs import explain

    explain(None, as_json=as_json)
    return 0 if words else 2


# -- errors


def _unforeseen(error: Exception) -> LeftoffError:
    """Return the error to report for one that no verb expects: a folder that is gone, a full disk, a bug."""
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


def _report(error: LeftoffError, *, as_json: bool) -> None:
    """Print what is wrong, then what to do; with --json also as a document on stdout."""
    parts = [f"leftoff: {error.message}"]
    now = SYSTEM.now()
    rows = [
        (f"  {clean(name)}", clean(what), clean(status), ago(at, now))
        for name, what, status, at in error.listed[:MOST_LISTED]
    ]
    more = len(error.listed) - len(rows)
    parts += (
        columns(rows) + ([f"  and {more} more"] if more > 0 else []) + ([error.hint] if error.hint else [])
    )
    if isinstance(error, BadDefinition):  # one line per problem
        parts = [line for part in parts for line in part.split("\n")]
    lines = [clean(part) for part in (*parts, *error.paste.splitlines())]
    half = LONGEST // 2
    lines = [line if len(line) <= LONGEST else f"{line[:half]} … {line[-half:]}" for line in lines]
    try:
        sys.stderr.write(printable("".join(f"{line}\n" for line in lines)))
    except OSError:
        discard(2)
    if as_json:
        hint = f"{error.hint}\n{error.paste}" if error.paste else error.hint
        about = {"code": error.code, "message": printable(error.whole), "hint": printable(hint)}
        try:
            out(safe_json(text({"error": about})))
        except OSError:
            pass
    try:
        sys.stdout.flush()
    except OSError:
        discard(1)
