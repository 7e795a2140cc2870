"""The environment of a process: its caller, from `LEFTOFF_*` variables; a project's settings; and what the user trusts.

A step's process, an agent's shell and a program started by either get the session, the run, the step and the secrets as
variables. Every face reads them here (``Caller``), so that all mean the same. The settings are those of
``leftoff.toml``.

Every verb reads the settings, so a project without the file costs one ``stat``, and one with it is parsed once for each
version of the file. A wrong word is an error that names the file, the line and the nearest right word. Sections that a
higher layer interprets (retention, protocol, verify, agents) are kept as they are written.

A setting that would run a command or lead outside of the project is left out until the user has seen it and said yes.
That is stored in the user's own folder, one file per setting, named by the hash of the project's folder and of what the
setting says. A setting that changed is asked about again.

A store counts as known if a user created it here or trusted it. The mark is a file named after the store's id. It is
in the git common folder (`.git/leftoff/ID`): no clone brings that along, and every container that shares the checkout
sees it. Without git it is in the user's own folder. A store that is named explicitly needs no mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from leftoff.engine.git import common_folder
from leftoff.errors import BadSettings, Invalid, StoreUnavailable, Usage
from leftoff.files import ID_FILE, STORE_FILE, failure, links_in, open_plain, write_private
from leftoff.host import Process, agent_above
from leftoff.model.codec import sha256
from leftoff.store import folder_of
from leftoff.store import shown_location as shown_location

if TYPE_CHECKING:
    from leftoff.engine.redactor import Redactor
    from leftoff.store.base import View

    T = TypeVar("T")
    #: of what is listed (name, what it is, its status, when it was touched), the name that a person picks, if any
    Pick = Callable[[str, Sequence[tuple[str, str, str, int]]], str | None]
    Keys = tuple[str, ...]

# -- who calls


class _Variable:
    """A variable of the environment, read when it is asked for. An empty one counts as unset."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, caller: Caller, kind: type) -> str | None:
        return caller.variable(self._name)


class Caller:
    """Who calls an operation: what its environment says, and what it named itself.

    ``named``: the run that it names. ``branch``: the branch of runs that it means. ``session``: the agent's session,
    if that is known without a variable. ``agent``: the agent's process, if the session is known by that. ``person``:
    whether the caller may be a person; a model with tools is not. ``pick``: how a person at a terminal chooses one of
    several. ``via``: the face, which is recorded with decisions.
    """

    __slots__ = ("_agent", "_branch", "_session", "named", "person", "pick", "via")

    project = _Variable("LEFTOFF_PROJECT")  # the folder of the project that this process works in
    store = _Variable("LEFTOFF_STORE")  # where its store is
    run = _Variable("LEFTOFF_RUN")  # the run that was exported to this process
    attempt = _Variable("LEFTOFF_ATTEMPT")  # the token of the attempt that this process is part of
    arguments = _Variable("LEFTOFF_ARGS")  # what a step's process is to do: JSON, or @ and a file
    result_file = _Variable("LEFTOFF_RESULT")  # where a step's process leaves its result
    variables_file = _Variable("LEFTOFF_VARS")  # where a step's process leaves variables of its run

    def __init__(
        self,
        *,
        named: str | None = None,
        branch: str | None = None,
        session: str | None = None,
        agent: Process | None = None,
        person: bool = True,
    ) -> None:
        self.named = named if named and named != "@" else None
        self.pick: Pick | None = None
        self.via = "shell"
        self._agent = agent
        self.person = person
        self._branch = branch
        self._session = session

    def variable(self, name: str) -> str | None:
        value = os.environ.get(name) or None
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Usage(
                    f"The variable {name} is not UTF-8.", hint=f"Set {name} again, or unset it."
                ) from None
        return value

    def has(self, name: str) -> bool:
        """Return whether a variable has a value."""
        return bool(os.environ.get(name))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return all variables, for a process that it starts."""
        return {**os.environ, **(more or {})}

    @property
    def session(self) -> str | None:
        """The agent's session that this belongs to: as our hooks said, or as the agent says in its shell."""
        names = ("LEFTOFF_SESSION", "CODEX_THREAD_ID", "QWEN_CODE_SESSION_ID")
        return self._session or next(filter(None, map(self.variable, names)), None)

    @property
    def agent(self) -> Process | None:
        """The agent's process that this belongs to. Gemini CLI tells its shell that it is one, but no session."""
        if self._agent is None and self.has("GEMINI_CLI") and not self.session:
            self._agent = agent_above("gemini")
        return self._agent

    def session_in(self, view: View) -> str | None:
        """Return the session: as the environment says, or that which the agent's process was last seen with."""
        if self.session or self.agent is None:
            return self.session
        leases = [lease for _, lease in view.leases() if lease.kind == "session"]
        driven = [lease.session for lease in leases if lease.process == self.agent]
        return (driven[-1] if driven else None) or self.first_session

    @property
    def first_session(self) -> str | None:
        """The session that an agent's program had when it started a server of leftoff. It may have another by now."""
        return self.variable("CLAUDE_CODE_SESSION_ID") if self.agent is not None else None

    @property
    def step(self) -> str | None:
        """The step that this process is part of."""
        return (self.variable("LEFTOFF_STEP") or "").strip("/") or None

    @property
    def persisted(self) -> list[str] | None:
        """The variables that a step's process may set, if its definition names them."""
        said = self.variable("LEFTOFF_PERSIST")
        return [name for name in said.split("\n") if name] if said is not None else None

    def pass_on_store(self, location: str) -> None:
        """Tell processes that this one starts the same store, without the password that we were given."""
        os.environ["LEFTOFF_STORE"] = location

    @property
    def branch(self) -> str:
        """The branch of runs that is meant if none is named."""
        return self._branch or self.variable("LEFTOFF_BRANCH") or "main"

    def take_web_token(self) -> str | None:
        """Return the page's token, if it must be the same at each start, and hide it from processes started later."""
        found = self.variable("LEFTOFF_WEB_TOKEN")
        os.environ.pop("LEFTOFF_WEB_TOKEN", None)
        return found

    @property
    def lock_timeout(self) -> float | None:
        """Seconds to wait for other processes that write."""
        said = self.variable("LEFTOFF_LOCK_TIMEOUT")
        if said is None:
            return None
        try:
            seconds = float(said)
        except ValueError:
            seconds = -1
        if not seconds >= 0:
            raise Usage(
                f"LEFTOFF_LOCK_TIMEOUT is {said!r}.",
                hint="It is a number of seconds: LEFTOFF_LOCK_TIMEOUT=30",
            )
        return seconds

    @property
    def user_folder(self) -> str:
        """The folder for what a user, rather than a project, has said."""
        state = self.variable("XDG_STATE_HOME") or ""
        if not os.path.isabs(state):
            # Without a home, `~` stays as it is: it must not become a folder of the current one.
            state = os.path.join(os.sep, os.path.expanduser("~"), ".local", "state")
        return os.path.join(state, "leftoff")

    def trusts(self, project: str) -> bool:
        """Return whether the caller trusts all of a project this time: LEFTOFF_TRUST is 1, or its folder."""
        said = self.variable("LEFTOFF_TRUST")
        return said == "1" or (said is not None and os.path.realpath(said) == os.path.realpath(project))

    def trust(self, project: str) -> None:
        """Trust a project from now on, in this process and those that it starts."""
        if not self.trusts(project):
            os.environ["LEFTOFF_TRUST"] = os.path.abspath(project)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that the workflow around this process calls secret."""
        names = (os.environ.get("LEFTOFF_SECRETS") or "").split(",")
        values = (os.environ.get(name, "") for name in names)
        return tuple(value for value in values if value)


#: that of this process
CALLER = Caller()


# -- what a project has set

FILE = "leftoff.toml"
OPAQUE = ("agents", "protocol", "retention", "verify")
#: Names of sections and keys that leftoff.toml may still use: what each is called now.
OLD_NAMES: dict[Keys, Keys] = {
    ("mirror",): ("protocol",),
    ("capture",): ("files",),
    ("protocol", "dialect"): ("protocol", "name"),
    ("run", "grace"): ("run", "stop_timeout"),
    ("supervise", "every"): ("supervise", "interval"),
    ("supervise", "limit"): ("supervise", "max_restarts"),
}

LOCK_TIMEOUT = 30.0  # seconds that a write waits for other processes

SECOND_UNITS = {
    "": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800,
}  # fmt: skip
BYTE_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip


class BeatTimes(NamedTuple):
    """Seconds: how often a driver beats, and after how long without a beat it is quiet, then stalled."""

    interval: float = 30
    quiet: float = 600
    stalled: float = 1800


class FileSettings(NamedTuple):
    """Whether each checkpoint captures what git calls dirty; bytes of the largest file whose content is kept, and of
    all that one checkpoint keeps."""

    git: bool = False
    max_file: int = 2**20
    max_total: int = 256 * 2**20


class Redaction(NamedTuple):
    """Whether secrets are redacted, what never is, and what is secret besides the built-in names and shapes."""

    enabled: bool = True
    allow: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


class RunTimes(NamedTuple):
    """Seconds: how long a step that is asked to end may take, before it is killed."""

    stop_timeout: float = 10


class IssueSettings(NamedTuple):
    """Where the issue of a run is looked up, by a command or in a file, in how many seconds; and the command that
    changes its labels."""

    command: str | None = None
    file: str | None = None
    timeout: float = 15
    update: str | None = None


class SuperviseSettings(NamedTuple):
    """A supervisor: what is notified of changes (a command, a URL), how many seconds it waits between two looks,
    and whether, how often and after how many seconds it resumes a dead run."""

    command: str | None = None
    url: str | None = None
    interval: float = 5
    restart: bool = False
    max_restarts: int = 5
    backoff: float = 30


class TrustItem(NamedTuple):
    """Something that needs trust: its key, what it says, and what that does. ``target``: where it leads."""

    key: str
    value: str
    does: str
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "does": self.does, "target": self.target or None}


class Settings:
    """The settings of a project, with defaults. ``untrusted``: settings of the file that are not trusted."""

    def __init__(
        self,
        tables: Mapping[str, Any] | None = None,
        source: _Source | None = None,
        untrusted: tuple[TrustItem, ...] = (),
    ) -> None:
        self._tables = tables or {}
        self._source = source
        self._redactors: dict[tuple[str, ...], Redactor] = {}
        self.untrusted = untrusted
        given = self._tables.get
        self.store: str | None = given("store")
        self.lock_timeout: float = given("lock_timeout", LOCK_TIMEOUT)
        self.heartbeat = BeatTimes(**given("heartbeat", {}))
        self.files = FileSettings(**given("files", {}))
        self.redaction = Redaction(**given("redaction", {}))
        self.run = RunTimes(**given("run", {}))
        self.issues = IssueSettings(**given("issues", {}))
        self.supervise = SuperviseSettings(**given("supervise", {}))

    def redactor(self, exact: tuple[str, ...] = ()) -> Redactor:
        """Return the project's redactor, which knows the secrets of the caller's workflow, and ``exact``."""
        exact = (*CALLER.secrets, *exact)
        made = self._redactors.get(exact)
        if made is None:
            from leftoff.engine.redactor import Redactor

            made = self._redactors[exact] = Redactor(**self.redaction._asdict(), exact=exact)
        return made

    def section(self, name: str) -> dict[str, Any]:
        """Return a section that another layer interprets, as it is written; empty if the file has none."""
        if name not in OPAQUE:
            raise KeyError(name)
        return dict(self._tables.get(name, {}))

    def parsed(self, name: str, read: Callable[[dict[str, Any]], T]) -> T:
        """Let another layer read a section. Its ``Invalid`` gets the place of its ``path``, a key with dots."""
        try:
            return read(self.section(name))
        except Invalid as error:
            keys = (name, *(error.path.split(".") if error.path else ()))
            raise (self._source or _Source("", FILE)).wrong(keys, error.message, error.hint) from None


# -- reading the file

_NO_FILE = Settings()
_MAY_LEAD_OUT = ("agents", "issues", "store", "supervise")
_loaded: dict[str, tuple[tuple[int, int, int], dict[str, Any], _Source, Settings]] = {}


def load(project: str) -> Settings:
    """Return the settings of a project folder that may be used. The file is read again only if it has changed."""
    folder = os.path.abspath(project)
    path = os.path.join(folder, FILE)
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _NO_FILE
    if facts.st_mode & 0o170000 != 0o100000:  # reading a pipe would never end
        what = f"{path} cannot be read: it is not a regular file."
        raise BadSettings(what, hint="Put a file there, or remove it.")
    version = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    known = _loaded.get(path)
    if known is None or known[0] != version:
        tables, source = _checked_tables(_read(path), path)
        known = _loaded[path] = (version, tables, source, Settings(tables, source))
    _, tables, source, settings = known
    if not any(name in tables for name in _MAY_LEAD_OUT):
        return settings
    asked = not_trusted(folder, items_of(folder, tables))
    return Settings(_without(tables, asked), source, tuple(asked)) if asked else settings


def tables_of(project: str) -> dict[str, Any]:
    """Return what the file says, trusted or not."""
    path = os.path.join(os.path.abspath(project), FILE)
    return _checked_tables(_read(path), path)[0] if os.path.exists(path) else {}


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        what, hint = f"{path}:{line}:{column}: this is not UTF-8 text.", "Save the file as UTF-8."
    except OSError as error:
        what, hint = f"{path} cannot be read: {error.strerror}.", "Check what it is, and its permissions."
    raise BadSettings(what, hint=hint)


def _checked_tables(text: str, path: str) -> tuple[dict[str, Any], _Source]:
    import tomllib  # slow, and only for projects that have the file

    source = _Source(text, path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise source.bad_toml(str(error)) from None
    except RecursionError:
        what = f"{path}:1:1: its lists or tables are nested too deeply."
        raise BadSettings(what, hint="No setting is.") from None
    checked: dict[str, Any] = {}
    for name, value in _with_new_names(source, tables).items():
        if name == "store":
            checked[name] = _text(source, (name,), value)
        elif name == "lock_timeout":
            checked[name] = _duration(source, (name,), value)
        elif name in OPAQUE:
            checked[name] = source.table(name, value)
        elif name in _CHECKS:
            checks, table = _CHECKS[name], source.table(name, value)
            for key in table:
                if key not in checks:
                    raise source.unknown((name, key), list(checks))
            checked[name] = {key: checks[key](source, (name, key), each) for key, each in table.items()}
        else:
            raise source.unknown((name,), ["store", "lock_timeout", *OPAQUE, *_CHECKS])
    given = checked.get("heartbeat", {})
    times = BeatTimes(**given)._asdict()
    for sooner, later in (("interval", "quiet"), ("quiet", "stalled")):
        if times[sooner] >= times[later]:
            key = later if later in given else sooner
            what = f"heartbeat.{sooner} ({times[sooner]:g} s) must be less than heartbeat.{later} ({times[later]:g} s)."
            raise source.wrong(("heartbeat", key), what, "Set both, or leave both as they are.")
    return checked, source


def _with_new_names(source: _Source, tables: dict[str, Any], section: Keys = ()) -> dict[str, Any]:
    """Return what the file says, with the old names of sections and keys replaced."""
    renamed: dict[str, Any] = {}
    for name, value in tables.items():
        keys = OLD_NAMES.get((*section, name), (*section, name))
        if keys[-1] in renamed or (keys[-1] != name and keys[-1] in tables):
            what = f"{name} and {keys[-1]} are the same setting."
            raise source.wrong(keys, what, f"Keep only {keys[-1]}, its name today.")
        deeper = not section and isinstance(value, dict)
        renamed[keys[-1]] = _with_new_names(source, value, keys) if deeper else value
    return renamed


class _Source:
    """The text of the file, to say where in it something is wrong."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.path = path

    def place(self, keys: Keys) -> str:
        """Return line and column of a key: the best guess, as TOML has many ways to write one."""
        section: Keys = ()
        depth, found = 0, "1:1"
        for number, written in enumerate(self.text.split("\n"), 1):
            line = written.strip()
            here = section
            if line.startswith("["):
                here = section = _dotted(line.strip("[").partition("]")[0])
            elif "=" in line:
                here = section + _dotted(line.partition("=")[0])
            here = OLD_NAMES.get(here[:1], here[:1]) + here[1:]
            here = OLD_NAMES.get(here, here)
            if len(here) > depth and here == keys[: len(here)]:
                depth, found = len(here), f"{number}:{len(written) - len(written.lstrip()) + 1}"
        return found

    def wrong(self, keys: Keys, what: str, hint: str) -> BadSettings:
        return BadSettings(f"{self.path}:{self.place(keys)}: {what}", hint=hint)

    def unknown(self, keys: Keys, known: list[str]) -> BadSettings:
        from difflib import get_close_matches

        word = keys[-1]
        near = get_close_matches(word.lower(), known, 1)
        hint = f'Did you mean "{near[0]}"? ' if near else ""
        place = f"[{'.'.join(keys[:-1])}] has" if keys[:-1] else "there is"
        what = "key" if keys[:-1] else "section or setting"
        return self.wrong(keys, f'{place} no {what} "{word}".', f"{hint}Known: {', '.join(sorted(known))}.")

    def table(self, name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            what = f"{name} is a section, not a value."
            raise self.wrong((name,), what, f"Write [{name}] on a separate line.")
        return value

    def bad_toml(self, message: str) -> BadSettings:
        """Return the error for the parser's message, which ends in where it stopped."""
        what, _, place = message.rpartition(" (at ")
        numbers = [word for word in place.rstrip(")").replace(",", "").split() if word.isdigit()]
        if len(numbers) != 2:  # "at end of document"
            *before, last = self.text.rstrip("\n").split("\n")
            numbers = [str(len(before) + 1), str(len(last) + 1)]
        where = ":".join((self.path, *numbers))
        hint = 'Text is written in quotes: store = "…"'
        return BadSettings(f"{where}: this is not TOML: {what or message}.", hint=hint)


def _dotted(text: str) -> Keys:
    return tuple(part.strip(" \"'") for part in text.split("."))


class _Kind(NamedTuple):
    """What the value of a key must be: a test, what it is called, and an example."""

    fits: Callable[[Any], bool]
    what: str
    hint: str

    def __call__(self, source: _Source, keys: Keys, value: object) -> Any:
        """Return the value, a list as a tuple. Raise ``BadSettings`` if it is of another kind."""
        if not self.fits(value):
            raise source.wrong(keys, f"{'.'.join(keys)} must be {self.what}, not {value!r}.", self.hint)
        return tuple(value) if isinstance(value, list) else value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_text = _Kind(_is_text, "text", 'For example: ".leftoff"')
_url = _Kind(lambda v: str(v).startswith(("http://", "https://")), "a URL", "http://… or https://…")
_count = _Kind(lambda v: type(v) is int and v > 0, "a number above 0", "For example: 5")
_flag = _Kind(lambda v: isinstance(v, bool), "true or false", "Without quotes: true")
_texts = _Kind(
    lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of texts", 'For example: ["a", "b"]'
)


def _patterns(source: _Source, keys: Keys, value: object) -> tuple[str, ...]:
    """Check regular expressions. One that matches the empty text would call everything a secret."""
    import re

    found: tuple[str, ...] = _texts(source, keys, value)
    for pattern in found:
        try:
            empty = re.compile(pattern).search("")
        except re.error as error:
            what = f"{pattern!r} is not a regular expression: {error}."
            hint = "Put patterns in 'single quotes', where \\ needs no second one."
            raise source.wrong(keys, what, hint) from None
        if empty:
            what = f"{pattern!r} matches every text."
            raise source.wrong(keys, what, "Say what must be there: + instead of *.")
    return found


def _duration(source: _Source, keys: Keys, value: object) -> float:
    return _amount(source, keys, value, SECOND_UNITS, 'Seconds, or "30s", "10m", "12h", "7d".')


def _size(source: _Source, keys: Keys, value: object) -> int:
    return int(_amount(source, keys, value, BYTE_UNITS, 'Bytes, or "500 KB", "1 MiB", "2 GiB".'))


def amount(value: object, units: dict[str, int]) -> float:
    """Return the amount that a number, or a number with a unit, says; -1 for anything else."""
    if isinstance(value, str):
        number = value.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        factor = units.get(value.strip()[len(number) :].lower())
        return float(number) * factor if factor and number.strip().replace(".", "", 1).isdecimal() else -1
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"):
        return value
    return -1


def _amount(source: _Source, keys: Keys, value: object, units: dict[str, int], hint: str) -> float:
    """Return an amount. Only a size may be zero."""
    found = amount(value, units)
    if found < 0 or (found == 0 and units is SECOND_UNITS):
        raise source.wrong(keys, f"{'.'.join(keys)} must be an amount, not {value!r}.", hint)
    return found


_CHECKS: dict[str, dict[str, Any]] = {  # of each key, a kind or a function that is called like one
    "files": {"git": _flag, "max_file": _size, "max_total": _size},
    "heartbeat": {"interval": _duration, "quiet": _duration, "stalled": _duration},
    "issues": {"command": _text, "file": _text, "timeout": _duration, "update": _text},
    "redaction": {"enabled": _flag, "allow": _texts, "names": _texts, "patterns": _patterns},
    "run": {"stop_timeout": _duration},
    "supervise": {
        "command": _text,
        "url": _url,
        "interval": _duration,
        "restart": _flag,
        "max_restarts": _count,
        "backoff": _duration,
    },
}


# -- settings that need trust

RUNS, LEADS, SENDS = "runs a command", "leads outside of the project", "sends what happens elsewhere"
UNKNOWN = "was not created here"
HOW = "`leftoff trust` shows it and asks. Where nobody can be asked: --trust, or LEFTOFF_TRUST=1."
_OTHERS = (".git", ".leftoff")  # folders below a project that its settings must not write to


def items_of(folder: str, tables: Mapping[str, Any]) -> list[TrustItem]:
    """Return the settings of a project that would run something or lead outside."""
    issues, supervise = tables.get("issues", {}), tables.get("supervise", {})
    commands = {
        "issues.command": issues.get("command"),
        "issues.update": issues.get("update"),
        "supervise.command": supervise.get("command"),
    }
    found = [TrustItem(key, value, RUNS) for key, value in commands.items() if isinstance(value, str)]
    for name, about in tables.get("agents", {}).items():
        for key, value in about.items() if isinstance(about, dict) else ():
            said = value if isinstance(value, str) else repr(value)
            found.append(TrustItem(f"agents.{name}.{key}", said, RUNS))
    paths = {
        "store": tables.get("store"),
        "issues.file": issues.get("file"),
    }
    for key, value in paths.items():
        if isinstance(value, str) and "\0" not in value:
            path = folder_of(value)
            said = shown_location(value) if path is None else value
            target = said if path is None else outside(folder, path, own=key == "store")
            found += [TrustItem(key, said, LEADS, target)] if target else []
    url = supervise.get("url")
    return [*found, TrustItem("supervise.url", url, SENDS)] if isinstance(url, str) else found


def _without(tables: Mapping[str, Any], items: Sequence[TrustItem]) -> dict[str, Any]:
    left = dict(tables)
    for item in items:
        section, _, key = item.key.partition(".")
        if not key:
            left.pop(section, None)
            continue
        name = key.rpartition(".")[0] if section == "agents" else key  # an agent goes as a whole
        left[section] = {own: value for own, value in left[section].items() if own != name}
    return left


def outside(folder: str, path: str, *, own: bool = False) -> str:
    """Return where a path leads, links followed, if that is not a place of the project. ``own``: it is the store's."""
    base, real = os.path.realpath(folder), os.path.realpath(os.path.join(folder, path))
    below = os.path.relpath(real, base).split(os.sep)
    taboo = _OTHERS[:1] if own else _OTHERS
    named = {part.lower() for part in below}  # a file system may ignore case
    return real if below[0] == ".." or not named.isdisjoint(taboo) else ""


def say_untrusted(items: Sequence[TrustItem]) -> str:
    """Return the message that says which settings are left out, and what to do about it."""
    named = (f"{''.join(c if c.isprintable() else '?' for c in item.key)} ({item.does})" for item in items)
    return f"leftoff: leftoff.toml is not trusted, so it is used without {', '.join(named)}.\n{HOW}"


# -- stores that need trust


def store_items(home: str, store: str) -> list[TrustItem]:
    """Return what needs trust before the store of a project is opened. ``store``: its path in the work tree ``home``.

    That is a link in its place that leads outside, a store that this user does not know, or links in a folder in which
    a store would be created: it would be written through them.
    """
    path = os.path.join(home, store)
    if os.path.islink(path):
        target = outside(home, store, own=True)
        return [TrustItem(store, os.readlink(path), LEADS, target)] if target else []
    if not os.path.isdir(path):
        return []
    if os.path.lexists(os.path.join(path, STORE_FILE)):
        store_id = id_of(path)
        return [] if _marks(os.path.dirname(path), store_id) else [TrustItem(store, store_id, UNKNOWN, path)]
    try:
        links = [(f"{store}/{name}", os.path.join(path, name)) for name in sorted(links_in(path))]
    except OSError as error:
        raise failure(error, path) from None
    return [TrustItem(key, os.readlink(link), LEADS, os.path.realpath(link)) for key, link in links]


def id_of(folder: str) -> str:
    """Return the id of the store in a folder, as the file next to the database says; empty if there is none."""
    try:
        with open(open_plain(os.path.join(folder, ID_FILE), os.O_NOFOLLOW), encoding="ascii") as file:
            found = file.read(64).strip()
    except (OSError, ValueError):
        return ""
    return found if len(found) == 32 and not set(found) - set("0123456789abcdef") else ""


def know_store(home: str, store_id: str, *, trusted: bool = False) -> None:
    """Mark a store as known. ``home``: the folder that its folder is in. ``trusted``: it was not created here.

    Raise ``StoreUnavailable`` if the mark cannot be written anywhere.
    """
    *others, own = (os.path.join(folder, store_id) for folder in _mark_folders(home))
    for path in others:
        try:
            return _write_mark(path, b"trusted\n" if trusted else b"")
        except StoreUnavailable:
            pass
    _write_mark(own, b"trusted\n" if trusted else b"")


def forget_store(home: str, store_id: str) -> list[str]:
    """Remove the marks of a store that was trusted, not those of one that was created here. Return their paths."""
    marks = [path for path in _marks(home, store_id) if os.path.getsize(path)]
    for path in marks:
        os.unlink(path)
    return marks


def _marks(home: str, store_id: str) -> list[str]:
    paths = (os.path.join(folder, store_id) for folder in _mark_folders(home)) if store_id else ()
    return [path for path in paths if os.path.isfile(path)]


def _mark_folders(home: str) -> list[str]:
    git = common_folder(home)
    own = os.path.join(CALLER.user_folder, "known")
    return [os.path.join(git, "leftoff"), own] if git else [own]


def _write_mark(path: str, content: bytes) -> None:
    """Write a file for this user alone."""
    try:
        os.makedirs(os.path.dirname(os.path.dirname(path)), mode=0o700, exist_ok=True)
        write_private(path, [content])
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be written: {error.strerror}.",
            hint="What you trust is kept in .git or in your own folder (XDG_STATE_HOME); "
            "LEFTOFF_TRUST=1 trusts this time.",
        ) from None


# -- what was trusted

_LARGEST = 1 << 20  # bytes of a file that we wrote


class Remembered(NamedTuple):
    """What was trusted, and in which file that is stored. Without ``item`` the file is damaged."""

    path: str
    project: str
    item: TrustItem | None

    def to_json(self) -> dict[str, Any]:
        if self.item is None:
            return {"path": self.path, "damaged": True}
        return {"path": self.path, "project": self.project, **self.item.to_json()}


def not_trusted(folder: str, items: Sequence[TrustItem]) -> list[TrustItem]:
    """Return the items that the user has not said yes to."""
    if not items or CALLER.trusts(folder):
        return []
    base = os.path.realpath(folder)
    agreed = {item for item in items if _remembered(_path_of(folder, item))[1:] == (base, item)}
    return [item for item in items if item.does == UNKNOWN or item not in agreed]


def remember(folder: str, item: TrustItem, at: str) -> None:
    """Store that the user said yes."""
    import json

    about = {"project": os.path.realpath(folder), **item._asdict(), "at": at}
    _write_mark(_path_of(folder, item), json.dumps(about).encode())


def remembered() -> list[Remembered]:
    """Return every setting that this user trusted, and the files that are damaged."""
    folder = os.path.join(CALLER.user_folder, "trust")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [_remembered(os.path.join(folder, name)) for name in names if name[0] != "."]


def _remembered(path: str) -> Remembered:
    """Read a file of leftoff. One whose content does not match its name says nothing."""
    import json

    try:
        with open(open_plain(path, os.O_NOFOLLOW), encoding="utf-8") as file:
            about = json.loads(file.read(_LARGEST))
        project, item = str(about["project"]), TrustItem(*(str(about[key]) for key in TrustItem._fields))
    except (OSError, ValueError, TypeError, KeyError):
        return Remembered(path, "", None)
    return Remembered(path, project, item if _path_of(project, item) == path else None)


def _path_of(folder: str, item: TrustItem) -> str:
    about = repr((os.path.realpath(folder), item.key, item.value, item.target))
    name = sha256(about.encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(CALLER.user_folder, "trust", name)
