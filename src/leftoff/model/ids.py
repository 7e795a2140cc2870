"""Names: run ids, record keys, step paths, and the grammar of a REF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leftoff.errors import Invalid, Usage
from leftoff.model.words import EACH

MAX_KEY = 4096
MAX_RUN_ID = 200
FAR_BACK = 10**9  # further than any run goes
NEVER = 10**18  # a seq that no run reaches
LEAST, SHOWN = 4, 12  # digits of a checkpoint's id: as few as may stand for it, as many as are shown
_ID_MARK = "id:"
_READINGS = 64  # of a name with many brackets, as many as are tried
_KEYS = f"A name is Unicode text of 1 to {MAX_KEY:,} characters, without NUL."

_ID_TEXT = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_ID_CHARS = frozenset(_ID_TEXT)
_HEX = frozenset("0123456789abcdef")
_UNQUOTED = _ID_CHARS | frozenset("@%+=:,/")


def is_run_id(run_id: str) -> bool:
    """Whether this may be a run's id: folders, files and commands contain it."""
    return not run_id.strip(_ID_TEXT) and run_id[:1] not in ("", ".", "-") and len(run_id) <= MAX_RUN_ID


def check_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        bad = sorted({c for c in run_id if c not in _ID_CHARS})
        what = (
            f"it has {', '.join(map(repr, bad))}" if bad else "it is empty, too long, or starts with . or -"
        )
        raise Invalid(
            f"{run_id!r} cannot be a run id: {what}.",
            hint="A run id is letters, digits and . _ - (at most 200), starting with a letter, digit or _.",
        )
    return run_id


def issue_id(issue: str | int | None) -> str | None:
    """An issue as runs know it: ``#42`` and ``42`` are the same; empty text means no issue."""
    return str(issue).lstrip("#") or None if issue is not None else None


def slug(text: str) -> str:
    """A name made fit for an id: every run of other characters becomes one ``-``."""
    out = "".join(c if c in _ID_CHARS else " " for c in text)
    return "-".join(out.split()).lstrip(".-")[:120] or "run"


def check_key(key: str, what: str = "key") -> str:
    """A record's key: text without NUL, not empty, of bounded length."""
    if type(key) is str and key and len(key) <= MAX_KEY and "\0" not in key and key.isascii():
        return key
    if not isinstance(key, str):
        raise Invalid(f"A {what} must be text, not {type(key).__name__}.", hint=_KEYS)
    if not key or "\0" in key or len(key) > MAX_KEY:
        why = "empty" if not key else "too long" if len(key) > MAX_KEY else "text with a NUL in it"
        raise Invalid(f"A {what} cannot be {why}: {key[:60]!r}.", hint=_KEYS)
    try:
        key.encode()
    except UnicodeEncodeError:
        raise Invalid(f"A {what} cannot have a lone surrogate in it: {key[:60]!r}.", hint=_KEYS) from None
    return str.__str__(key)


def check_step(path: str) -> str:
    """A slash path without empty parts."""
    check_key(path, "step")
    if path.startswith("/") or path.endswith("/") or "//" in path:
        raise Invalid(
            f"{path!r} is not a step path: it has an empty part.",
            hint="Parts are joined by single slashes, like implementation/task-001.",
        )
    return path


def quote_part(text: str) -> str:
    """One part of a step path: ``/`` and ``%`` percent-encoded (and NUL, which no key may hold)."""
    return text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")


def unquote_part(text: str) -> str:
    return text.replace("%00", "\0").replace("%2F", "/").replace("%25", "%")


def shown_step(path: str) -> str:
    """A step as people read it: an item as it is, in brackets after its step."""
    if "%" not in path:
        return path
    out = ""
    for part in path.split("/"):
        name, key = _called_with(part)
        if unquote_part(part) == part:
            out = f"{out}/{part}" if out else part
        elif key:
            out = f"{out}{'/' if out else ''}{name} [{unquote_part(key)}]"
        else:
            out = f"{out}{' ' if out else ''}[{unquote_part(part)}]"
    return out


def _called_with(part: str) -> tuple[str, str]:
    """The name and the key of a call, if a part is one: ``fetch[a%2Fb]``. An item may have brackets as well."""
    name, bracket, key = part[:-1].partition("[") if part.endswith("]") else (part, "", "")
    plain = bracket and not name.endswith(" ") and unquote_part(name) == name
    return (name, key) if plain else (part, "")


def item_of(path: str) -> str | None:
    """The plain text of the item that a step is for, where its name is not that already."""
    last = path.rpartition("/")[2]
    key = _called_with(last)[1]
    plain = unquote_part(key or last)
    return plain if plain != (key or last) else None


def ancestors(path: str) -> list[str]:
    """Return the paths of the steps that contain this one, from the outside in."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def with_item(
    document: dict[str, Any],
    path: str | None,
    record: Mapping[str, Any] | None = None,
    above: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a document about a step with the plain text of its item, if it has one.

    An encoded name is always that of an item. Of a plain name, only the step's ``record`` can tell, or that of the
    step ``above`` it.
    """
    item = item_of(path) if path else None
    if item is None and record is not None and isinstance(record.get("item"), str | int | float):
        item = record["item"]
    if item is None and path and above is not None and above.get(EACH) is True:
        item = path.rpartition("/")[2]
    return document if item is None else {**document, "item": item}


def step_readings(text: str) -> list[str]:
    """Return the paths that a step's name may mean, the plainest first: the name itself, and the paths that are shown
    as that name (on a terminal, control characters are escaped)."""
    out = [text, *_bracketed("", text)]
    if "\\" in text:
        plain = text  # as it was before a terminal would have obeyed it
        for char, shown in (("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
            plain = plain.replace(shown, char)
        out += [plain, *_bracketed("", plain)]
    return [*dict.fromkeys(out)]


def _bracketed(before: str, text: str) -> list[str]:
    """The paths with an item in brackets, or several one below the other; ``before``: what is read already."""
    at = 0 if text.startswith("[") and not before else text.find(" [")
    out: list[str] = []
    end = text.rfind("]")
    while 0 <= at < end and len(out) < _READINGS:
        base, tail = before + text[:at], text[end + 1 :]
        key = quote_part(text[at + (2 if text[at] == " " else 1) : end])
        if tail[:1] in ("", "/") or tail.startswith(" ["):
            for path in (f"{base}/{key}" if base else key, f"{base}[{key}]"):
                out += [path + tail] if " [" not in tail else _bracketed(path, tail)
        end = text.rfind("]", 0, end)
    return out


def given_step(text: str) -> str:
    """A step as the user names it: a path, or an item as it is shown. Which of both is for the run to say."""
    first, *others = step_readings(text)
    try:
        return check_step(first)
    except Invalid:
        if not others:
            raise
        return check_step(others[0])


def parent_of(path: str) -> str:
    """The step that contains this one, or an empty string."""
    return path.rpartition("/")[0]


class Ref:
    """A REF taken apart: what is before the version, and which version is meant.

    ``RUN`` · ``RUN@SEQ`` · ``RUN@ID-PREFIX`` · ``RUN@id:PREFIX`` · ``RUN~N``; ``@`` alone is the current run.
    """

    __slots__ = ("at", "back", "base", "text")

    def __init__(self, text: str, base: str, at: str | None, back: int | None) -> None:
        self.text = text
        self.base = base
        self.at = at
        self.back = back

    @property
    def has_version(self) -> bool:
        """Whether one version is meant, and not a run."""
        return self.at is not None or self.back is not None

    @property
    def seq(self) -> int | None:
        """Digits after ``@`` are a seq, and nothing else."""
        if self.at is None or not (self.at.isascii() and self.at.isdigit()):
            return None
        return int(self.at) if len(self.at) < 16 else NEVER

    @property
    def id_prefix(self) -> str | None:
        """The start of a checkpoint's id after ``@``."""
        if self.at is None:
            return None
        if self.at.startswith(_ID_MARK):
            return self.at.removeprefix(_ID_MARK)
        return self.at if is_id_prefix(self.at) else None


def parse_ref(text: str) -> Ref:
    """Only the grammar; what it names is for the engine to find."""
    if not text or "\0" in text:
        raise Usage("An empty REF names nothing.", hint="Give a run id, a checkpoint id, or `latest`.")
    base, mark, back = text.rpartition("~")
    if mark and back.isascii() and back.isdigit():
        return Ref(text, base or "@", None, int(back) if len(back) < 10 else FAR_BACK)
    base, mark, at = text.rpartition("@")
    if mark and at:
        return Ref(text, base or "@", at, None)
    return Ref(text, text, None, None)


def split_path(text: str) -> tuple[str | None, str]:
    """``REF:PATH`` taken apart; without a REF, the path alone."""
    ref, mark, path = text.partition(":")
    if mark and ref.endswith("@id"):  # RUN@id:1234:PATH
        digits, mark, path = path.partition(":")
        ref = f"{ref}:{digits}"
    return (ref or None, path) if mark else (None, text)


def is_hex(text: str) -> bool:
    """Whether this may be the start of a checkpoint's id if the user can mean nothing else."""
    return LEAST <= len(text) <= 64 and _HEX.issuperset(text)


def is_id_prefix(text: str) -> bool:
    """Whether this is the start of a checkpoint's id: hex digits with a letter among them, or as many as are shown."""
    return is_hex(text) and (len(text) >= SHOWN or not text.isdigit())


def of_run(run_id: str, checkpoint: str) -> str:
    """The REF of a checkpoint of a run, by its id, a seq or a name; a whole id is one even if it is all digits."""
    return f"{run_id}@{_ID_MARK if is_id_prefix(checkpoint) else ''}{checkpoint}"


def step_word(path: str) -> str:
    """A step as one word of a shell, as people write it."""
    return as_word(shown_step(path))


def as_word(text: str) -> str:
    """A name as one word of a shell. It ends neither its line nor the marks around its command."""
    if text and _UNQUOTED.issuperset(text):
        return text
    if text.isprintable() and "`" not in text:
        quoted = text.replace("'", "'\"'\"'")
        return f"'{quoted}'"
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(char: str) -> str:
    """A character between `$'` and `'`."""
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() and char != "`" else f"\\U{ord(char):08x}"
