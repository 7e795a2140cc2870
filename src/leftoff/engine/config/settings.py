"""A project's settings, from ``leftoff.toml``.

Every verb asks for them, so a project without the file pays one ``stat`` and no import, and one with it parses the
file once for each version of it. A wrong word is an error that names the file, the line, and the nearest right
word: a setting that is silently ignored is worse than none.

Sections that a later layer interprets (retention, mirror, verify, agents, status) are kept as they are written. What
would run a command or lead outside of the project is only there once a person trusted it (`engine.config.trust`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from leftoff.engine.config.trust import Item
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.errors import BadSettings

    T = TypeVar("T")

FILE = "leftoff.toml"
OPAQUE = ("agents", "issues", "mirror", "retention", "status", "supervise", "verify")

LOCK_TIMEOUT = 30.0  # seconds that a write waits for other processes

_SECOND_UNITS = {
    "": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800,
}  # fmt: skip
_BYTE_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip


class _Values:
    """Named values that do not change; a subclass lists them in ``__slots__``."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, values: Mapping[str, object]) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, values[name])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change; edit {FILE} instead")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name[0] != "_")
        return f"{type(self).__name__}({shown})"


class Heartbeat(_Values):
    """Seconds: how often a driver beats, and after how long without a beat it is quiet, then stalled."""

    __slots__ = ("interval", "quiet", "stalled")
    interval: float
    quiet: float
    stalled: float


class Capture(_Values):
    """Whether each checkpoint captures what git calls dirty. Bytes: the largest file whose content is kept, and the
    most that one checkpoint keeps."""

    __slots__ = ("git", "max_file", "max_total")
    git: bool
    max_file: int
    max_total: int


class Redaction(_Values):
    """Whether secrets are redacted, what never is, and what is secret besides the built-in names and shapes."""

    __slots__ = ("allow", "enabled", "names", "patterns")
    enabled: bool
    allow: tuple[str, ...]
    names: tuple[str, ...]
    patterns: tuple[str, ...]


class Running(_Values):
    """Seconds: how long a step that is told to end may take, before it is killed."""

    __slots__ = ("grace",)
    grace: float


class Settings(_Values):
    """What a project has set, and the defaults for the rest. ``untrusted``: what the file says besides, and nobody
    trusted."""

    __slots__ = (
        "_made",
        "_sections",
        "_source",
        "_tables",
        "blobs",
        "capture",
        "heartbeat",
        "lock_timeout",
        "redaction",
        "run",
        "store",
        "untrusted",
    )
    store: str | None
    blobs: str | None
    lock_timeout: float
    heartbeat: Heartbeat
    capture: Capture
    redaction: Redaction
    run: Running
    untrusted: tuple[Item, ...]
    _sections: dict[str, dict[str, Any]]
    _source: _Source | None
    _tables: Mapping[str, Any]
    _made: dict[tuple[str, ...], Redactor]

    def __init__(
        self,
        tables: Mapping[str, Any] | None = None,
        source: _Source | None = None,
        untrusted: tuple[Item, ...] = (),
    ) -> None:
        given = tables or {}
        super().__init__(
            {
                "store": given.get("store"),
                "blobs": given.get("blobs"),
                "lock_timeout": given.get("lock_timeout", LOCK_TIMEOUT),
                "heartbeat": Heartbeat({**_DEFAULTS["heartbeat"], **given.get("heartbeat", {})}),
                "capture": Capture({**_DEFAULTS["capture"], **given.get("capture", {})}),
                "redaction": Redaction({**_DEFAULTS["redaction"], **given.get("redaction", {})}),
                "run": Running({**_DEFAULTS["run"], **given.get("run", {})}),
                "_sections": {name: given[name] for name in OPAQUE if name in given},
                "_source": source,
                "_tables": given,
                "_made": {},
                "untrusted": untrusted,
            }
        )

    def redactor(self, exact: tuple[str, ...] = ()) -> Redactor:
        """The project's redactor: it knows the secrets of the workflow that the caller is a step of, and ``exact``."""
        from leftoff.engine.config.caller import CALLER

        exact = (*CALLER.secrets, *exact)
        made = self._made.get(exact)
        if made is None:
            from leftoff.engine.redaction.redactor import Redactor

            of = self.redaction
            made = self._made[exact] = Redactor(
                enabled=of.enabled, allow=of.allow, names=of.names, patterns=of.patterns, exact=exact
            )
        return made

    def section(self, name: str) -> dict[str, Any]:
        """A section that another layer interprets, as it is written; empty where the file has none."""
        if name not in OPAQUE:
            raise KeyError(name)
        return dict(self._sections.get(name, {}))

    def source_of(self, *keys: str) -> str:
        """Where a setting comes from: the file and the line, or ``default``."""
        said: Any = self._tables
        for key in keys:
            said = said.get(key) if isinstance(said, dict) else None
        if said is None or self._source is None:
            return "default"
        return f"{FILE}:{self._source.place(keys).partition(':')[0]}"

    def parsed(self, name: str, read: Callable[[dict[str, Any]], T]) -> T:
        """What another layer makes of a section. `Invalid` is told with its place: ``path`` is the key, with dots."""
        from leftoff.errors import Invalid

        try:
            return read(self.section(name))
        except Invalid as error:
            keys = tuple(error.path.split(".")) if error.path else ()
            raise (self._source or _Source("", FILE)).wrong(
                (name, *keys), error.message, error.hint
            ) from None


_DEFAULTS: dict[str, dict[str, Any]] = {
    "heartbeat": {"interval": 30, "quiet": 600, "stalled": 1800},
    "capture": {"git": False, "max_file": 2**20, "max_total": 256 * 2**20},
    "redaction": {"enabled": True, "allow": (), "names": (), "patterns": ()},
    "run": {"grace": 10},
}
_NO_FILE = Settings()
_MAY_LEAD_OUT = ("agents", "blobs", "issues", "status", "store", "supervise")
_Loaded = tuple[tuple[int, int, int], "dict[str, Any]", "_Source", Settings]
_loaded: dict[str, _Loaded] = {}


def load(project: str) -> Settings:
    """The settings of a project folder that may be used; read again only when the file has changed."""
    folder = os.path.abspath(project)
    path = os.path.join(folder, FILE)
    try:
        info = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _NO_FILE
    if info.st_mode & 0o170000 != 0o100000:  # a pipe would be waited for without end
        raise _bad(f"{path} cannot be read: it is not a regular file.", "Put a file there, or remove it.")
    version = (info.st_mtime_ns, info.st_size, info.st_ino)
    known = _loaded.get(path)
    if known is None or known[0] != version:
        tables, source = _checked_tables(_read(path), path)
        known = _loaded[path] = (version, tables, source, Settings(tables, source))
    _, tables, source, settings = known
    if not any(name in tables for name in _MAY_LEAD_OUT):
        return settings
    from leftoff.engine.config import trust

    asked = trust.not_trusted(folder, trust.items_of(folder, tables))
    return Settings(trust.without(tables, asked), source, tuple(asked)) if asked else settings


def tables_of(project: str) -> dict[str, Any]:
    """What the file says, trusted or not."""
    path = os.path.join(os.path.abspath(project), FILE)
    return _checked_tables(_read(path), path)[0] if os.path.exists(path) else {}


def parse(text: str, path: str = FILE) -> Settings:
    """The settings that a text in TOML gives; ``path`` is named in errors."""
    return Settings(*_checked_tables(text, path))


def _checked_tables(text: str, path: str) -> tuple[dict[str, Any], _Source]:
    import tomllib

    source = _Source(text, path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise source.bad_toml(str(error)) from None
    except RecursionError:
        raise _bad(f"{path}:1:1: its lists or tables are nested too deeply.", "No setting is.") from None
    checked: dict[str, Any] = {}
    for name, value in tables.items():
        if name in ("store", "blobs"):
            checked[name] = _text(source, (name,), value)
        elif name == "lock_timeout":
            checked[name] = _duration(source, (name,), value)
        elif name in OPAQUE:
            checked[name] = source.table(name, value)
        elif name in _CHECKS:
            checked[name] = _checked(source, name, source.table(name, value))
        else:
            raise source.unknown((name,), ["store", "blobs", "lock_timeout", *OPAQUE, *_CHECKS])
    _check_order(source, checked.get("heartbeat", {}))
    return checked, source


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise _bad(f"{path}:{line}:{column}: this is not UTF-8 text.", "Save the file as UTF-8.") from None
    except OSError as error:
        raise _bad(
            f"{path} cannot be read: {error.strerror}.", "Check what it is, and its permissions."
        ) from None


def _bad(message: str, hint: str) -> BadSettings:
    from leftoff.errors import BadSettings

    return BadSettings(message, hint=hint)


class _Source:
    """The text of the file, to say where in it something is wrong."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.path = path

    def place(self, keys: tuple[str, ...]) -> str:
        """Line and column that a key is written at: the best guess, as TOML has many ways to write one."""
        section: tuple[str, ...] = ()
        depth, found = 0, "1:1"
        for number, written in enumerate(self.text.split("\n"), 1):
            line = written.strip()
            here = section
            if line.startswith("["):
                here = section = _dotted(line.strip("[").partition("]")[0])
            elif "=" in line:
                here = section + _dotted(line.partition("=")[0])
            if len(here) > depth and here == keys[: len(here)]:
                depth, found = len(here), f"{number}:{len(written) - len(written.lstrip()) + 1}"
        return found

    def wrong(self, keys: tuple[str, ...], what: str, hint: str) -> BadSettings:
        return _bad(f"{self.path}:{self.place(keys)}: {what}", hint)

    def unknown(self, keys: tuple[str, ...], known: list[str]) -> BadSettings:
        """A word that is none of the known ones."""
        from difflib import get_close_matches

        word = keys[-1]
        near = get_close_matches(word.lower(), known, 1)
        hint = f'Did you mean "{near[0]}"? ' if near else ""
        place = f"[{'.'.join(keys[:-1])}] has" if keys[:-1] else "there is"
        what = "key" if keys[:-1] else "section or setting"
        return self.wrong(keys, f'{place} no {what} "{word}".', f"{hint}Known: {', '.join(sorted(known))}.")

    def table(self, name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(
                (name,), f"{name} is a section, not a value.", f"Write [{name}] on a line of its own."
            )
        return value

    def bad_toml(self, message: str) -> BadSettings:
        """The parser's message, which ends in where it stopped."""
        what, _, place = message.rpartition(" (at ")
        numbers = [word for word in place.rstrip(")").replace(",", "").split() if word.isdigit()]
        if len(numbers) != 2:  # "at end of document"
            *before, last = self.text.rstrip("\n").split("\n")
            numbers = [str(len(before) + 1), str(len(last) + 1)]
        where = ":".join((self.path, *numbers))
        return _bad(
            f"{where}: this is not TOML: {what or message}.", 'Text is written in quotes: store = "…"'
        )


def _dotted(text: str) -> tuple[str, ...]:
    return tuple(part.strip(" \"'") for part in text.split("."))


# -------------------------------------------------------------------------------------- kinds of values


def _text(source: _Source, keys: tuple[str, ...], value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise source.wrong(keys, f"{'.'.join(keys)} must be text, not {value!r}.", 'For example: ".leftoff"')
    return value


def _flag(source: _Source, keys: tuple[str, ...], value: object) -> bool:
    if not isinstance(value, bool):
        raise source.wrong(
            keys, f"{'.'.join(keys)} must be true or false, not {value!r}.", "Without quotes: true"
        )
    return value


def _texts(source: _Source, keys: tuple[str, ...], value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise source.wrong(
            keys, f"{'.'.join(keys)} must be a list of texts, not {value!r}.", 'For example: ["a", "b"]'
        )
    return tuple(value)


def _patterns(source: _Source, keys: tuple[str, ...], value: object) -> tuple[str, ...]:
    """Regular expressions; one that matches the empty text would call everything a secret."""
    found = _texts(source, keys, value)
    if found:
        import re
    for pattern in found:
        try:
            empty = re.compile(pattern).search("")
        except re.error as error:
            what = f"{pattern!r} is not a regular expression: {error}."
            raise source.wrong(
                keys, what, "Put patterns in 'single quotes', where \\ needs no second one."
            ) from None
        if empty:
            raise source.wrong(
                keys, f"{pattern!r} matches every text.", "Say what must be there: + instead of *."
            )
    return found


def _duration(source: _Source, keys: tuple[str, ...], value: object) -> float:
    return _amount(source, keys, value, _SECOND_UNITS, 'Seconds, or "30s", "10m", "12h", "7d".')


def _size(source: _Source, keys: tuple[str, ...], value: object) -> int:
    return int(_amount(source, keys, value, _BYTE_UNITS, 'Bytes, or "500 KB", "1 MiB", "2 GiB".'))


def _amount(source: _Source, keys: tuple[str, ...], value: object, units: dict[str, int], hint: str) -> float:
    """A number, or a number and a unit; nothing at all only where it is a size."""
    found: float = -1
    if isinstance(value, str):
        number = value.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        factor = units.get(value.strip()[len(number) :].lower())
        if factor and number.strip().replace(".", "", 1).isdecimal():
            found = float(number) * factor
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = value
    if not 0 <= found < float("inf") or (found == 0 and units is _SECOND_UNITS):
        raise source.wrong(keys, f"{'.'.join(keys)} must be an amount, not {value!r}.", hint)
    return found


_CHECKS: dict[str, dict[str, Callable[[_Source, tuple[str, ...], object], object]]] = {
    "capture": {"git": _flag, "max_file": _size, "max_total": _size},
    "heartbeat": {"interval": _duration, "quiet": _duration, "stalled": _duration},
    "redaction": {"enabled": _flag, "allow": _texts, "names": _texts, "patterns": _patterns},
    "run": {"grace": _duration},
}


def _checked(source: _Source, name: str, table: dict[str, Any]) -> dict[str, Any]:
    checks = _CHECKS[name]
    for key in table:
        if key not in checks:
            raise source.unknown((name, key), list(checks))
    return {key: checks[key](source, (name, key), value) for key, value in table.items()}


def _check_order(source: _Source, given: dict[str, float]) -> None:
    """A driver beats before it can be called quiet, and is quiet before it is stalled."""
    times = {**_DEFAULTS["heartbeat"], **given}
    for sooner, later in (("interval", "quiet"), ("quiet", "stalled")):
        if times[sooner] >= times[later]:
            key = later if later in given else sooner
            what = f"heartbeat.{sooner} ({times[sooner]:g} s) must be less than heartbeat.{later} ({times[later]:g} s)."
            raise source.wrong(("heartbeat", key), what, "Set both, or leave both as they are.")
