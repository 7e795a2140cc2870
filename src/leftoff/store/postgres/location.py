"""What a URL says: which server, which project on it; and how it is shown, which is never with a password.

Each project is a schema of its own, so that a run of one is invisible to another, a role can be given one of them, and
``pg_dump -n`` saves one. ``?project=NAME`` is ours; everything else in the URL is for libpq.

A password never travels by an environment or a command line that we make. Other processes get a URL that names a
private file with the secrets instead (``?secrets=FILE``, also ours).
"""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from leftoff.errors import StoreUnavailable, Usage
from leftoff.files import make_folder, write_private
from leftoff.model.codec import decode, text
from leftoff.model.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEMA = "leftoff"
MOST = 50  # characters of a project's name: PostgreSQL cuts names at 63 bytes
HIDDEN = "***"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_SECRET = ("password", "sslpassword", "passfile")  # in the query of a URL
_OURS = ("project", "secrets")
_WHERE = ("service", "host", "hostaddr", "port", "dbname")  # what of libpq's options names a database
_FILE = "secrets-"  # starts the name of a file with secrets


class Place:
    """One project on one server."""

    def __init__(self, url: str) -> None:
        parts = _split(url)
        asked = parse_qsl(parts.query, keep_blank_values=True)
        self.project = next((value for name, value in asked if name == "project"), "")
        if "project" in dict(asked) and not (0 < len(self.project) <= MOST and set(self.project) <= _NAME):
            raise Usage(
                f"{self.project!r} cannot be a project's name in a store's URL.",
                hint=f"It is 1 to {MOST} letters, digits and . _ - behind ?project=",
            )
        self.schema = f"{SCHEMA}_{self.project}" if self.project else SCHEMA
        rest = [(name, value) for name, value in asked if name not in _OURS]
        rest += [pair for name, path in asked if name == "secrets" for pair in _read(path)]
        #: what libpq is given
        self.conninfo = _joined(parts._replace(scheme="postgresql"), urlencode(rest, quote_via=quote))
        self.secrets = [secret for secret in [_password(parts), *_secrets(rest)] if secret]
        #: how people see it
        shown = [(name, value) for name, value in asked if name not in (*_SECRET, "secrets")]
        query = urlencode(shown, quote_via=quote, safe="/")
        self.name = _joined(parts._replace(netloc=_without_password(parts)), query)

    @property
    def key(self) -> str:
        """A name for a folder of this machine: the same project, by whatever user and password."""
        where = urlsplit(self.name)
        asked = dict(parse_qsl(where.query))
        host = where.netloc.rpartition("@")[2] or asked.get("host", "")
        port = f":{asked['port']}" if "port" in asked else ""
        named = [f"{host}{port}", where.path, self.schema]
        if not host or where.path in ("", "/"):
            elsewhere = said_elsewhere()
            named += [asked.get(name) or elsewhere.get(name) or "" for name in _WHERE]
        return sha256("\n".join(named).encode()).hexdigest()[:16]

    @property
    def quoted(self) -> str:
        """The schema as SQL has it."""
        return '"' + self.schema + '"'

    def clean(self, text: str) -> str:
        """A text of the driver or the server without the password, should it be in there."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def of_project(url: str, project: str) -> str:
    """The URL of another project in the same database."""
    parts = urlsplit(url)
    rest = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "project"
    ]
    query = [*rest, ("project", project)] if project else rest
    return _joined(parts, urlencode(query, quote_via=quote))


def local_folder(url: str, folders: str) -> str:
    """Where facts of this machine about that store lie, among such folders."""
    return os.path.join(folders, Place(url).key)


def without_secrets(url: str, folder: str) -> str:
    """What opens the same store, for other processes: secrets are in a file of ``folder`` that only its owner reads."""
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    found = {name: value for name, value in asked if name in _SECRET[:2]}
    if password := _password(parts):
        found.setdefault("password", password)
    if not found:
        return url
    content = text(found).encode()
    path = os.path.join(folder, _FILE + sha256(content).hexdigest()[:16])
    if not os.path.exists(path):
        make_folder(folder)
        write_private(path, [content])
    kept = [(name, value) for name, value in asked if name not in found]
    query = urlencode([*kept, ("secrets", path)], quote_via=quote, safe="/")
    return _joined(parts._replace(netloc=_without_password(parts)), query)


def said_elsewhere() -> dict[str, str]:
    """What libpq goes by where a URL does not say it: the environment, a service file."""
    try:
        from psycopg.pq import Conninfo
    except ModuleNotFoundError:
        return {}  # who wants to connect is told
    return {o.keyword.decode(): o.val.decode() for o in Conninfo.get_defaults() if o.val is not None}


def _split(url: str) -> SplitResult:
    """Its parts, if libpq would read them as we do. What is wrong is told without showing any of it."""
    try:
        parts = urlsplit(url)
        for piece in url.split("%")[1:]:
            bytes.fromhex(piece[:2])[0]
        unquote(url, errors="strict")
    except (ValueError, IndexError):
        parts = None
    if parts is None or parts.netloc.count("@") > 1 or _is_cut(parts):
        raise Usage(
            "The URL of the store cannot be read.",
            hint="It is postgresql://USER:PASSWORD@HOST:PORT/DATABASE?project=NAME. In a user's name or a password, "
            "@ is written %40, : %3A, / %2F, % %25.",
        )
    return parts


def _is_cut(parts: SplitResult) -> bool:
    """Whether a character of the password that was not written as %XX ended the host too early. Behind the
    @ that ends it, others may stand only in what an option says."""
    rest = parts.path + parts.fragment
    if "@" not in parts.netloc:
        return "@" in rest + (parts.query if ":" in parts.netloc else "")
    return bool(_password(parts)) and "@" in rest + parts.query.partition("=")[0]


def _joined(parts: SplitResult, query: str) -> str:
    """A URL again; one without a host, or without a query, is one, too."""
    rest = parts.path + (f"?{query}" if query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    return f"{parts.scheme}://{parts.netloc}{rest}"


def _read(path: str) -> list[tuple[str, str]]:
    try:
        with open(path, "rb") as file:
            return list(decode(file.read()).items())
    except (OSError, ValueError, AttributeError):
        raise StoreUnavailable(
            f"The file {path}, which has the store's password, cannot be read.",
            hint="A command that is given the URL with its password makes it anew.",
        ) from None


def _password(parts: SplitResult) -> str:
    return unquote(parts.netloc.rpartition("@")[0].partition(":")[2])


def _secrets(asked: list[tuple[str, str]]) -> list[str]:
    return [value for name, value in asked if name in _SECRET]


def _without_password(parts: SplitResult) -> str:
    user, at, host = parts.netloc.rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}"
