"""Parse the URL of a store on a server, and show it without its password.

Each project is a schema of its own, so that a run of one is invisible to another, a role can be given one of them, and
``pg_dump -n`` saves one. ``?project=NAME`` is ours; everything else in the URL is for libpq.

A password never travels by an environment or a command line that we make. Other processes get a URL that names a
private file with the secrets instead (``?secrets=FILE``, also ours).
"""

from __future__ import annotations

import os
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from leftoff.errors import StoreUnavailable, Usage
from leftoff.files import make_folder, write_private
from leftoff.host import debug
from leftoff.model.codec import decode, sha256, text

SCHEMA = "leftoff"
MOST = 50  # characters of a project's name: PostgreSQL cuts names at 63 bytes
HIDDEN = "***"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_SECRET = ("password", "sslpassword", "passfile")  # in the query of a URL
_OURS = ("project", "secrets")
_FILE = "secrets-"  # starts the name of a file with secrets


class ServerPlace:
    """One project on one server."""

    def __init__(self, url: str) -> None:
        parts = _split(url)
        asked = parse_qsl(parts.query, keep_blank_values=True)
        self.project = next((value for name, value in asked if name == "project"), "")
        if "project" in dict(asked) and not (0 < len(self.project) <= MOST and set(self.project) <= _NAME):
            raise Usage(
                f"{self.project!r} cannot be a project's name in a store's URL.",
                hint=f"It is 1 to {MOST} letters, digits and . _ - after ?project=",
            )
        self.schema = f"{SCHEMA}_{self.project}" if self.project else SCHEMA
        rest = [(name, value) for name, value in asked if name not in _OURS]
        rest += [pair for name, path in asked if name == "secrets" for pair in _read(path)]
        #: the connection string for libpq
        self.conninfo = _joined(parts._replace(scheme="postgresql"), urlencode(rest, quote_via=quote))
        self.secrets = [secret for secret in [_password(parts), *_secrets(rest)] if secret]
        #: how people see it
        shown = [(name, value) for name, value in asked if name not in (*_SECRET, "secrets")]
        query = urlencode(shown, quote_via=quote, safe="/")
        self.name = _joined(parts._replace(netloc=_without_password(parts)), query)

    @property
    def key(self) -> str:
        """The file name for this URL, the same for every password: see ``local_folder``."""
        return sha256(self.name.encode()).hexdigest()[:16]

    @property
    def quoted(self) -> str:
        """The schema as SQL has it."""
        return '"' + self.schema + '"'

    def clean(self, text: str) -> str:
        """A text of the driver or the server without the password, should it be in there."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def server_folder(url: str, folders: str) -> str:
    """Return the folder of this machine for the store that the URL led to when this machine last wrote to it.

    Before the first write that is a folder of the URL's own: hooks need one while the server is away.
    """
    named = os.path.join(folders, ServerPlace(url).key)
    return os.path.join(folders, os.readlink(named)) if os.path.islink(named) else named


def settle_folder(url: str, folders: str, store_id: str) -> str:
    """Make the folder of this machine for a store, which has the store's id for a name, and link the URL to it."""
    folder, named = os.path.join(folders, store_id), os.path.join(folders, ServerPlace(url).key)
    make_folder(folder)
    if server_folder(url, folders) != folder:
        try:
            if not os.path.islink(named):
                _move(named, folder)
            link = f"{named}.{os.urandom(4).hex()}"
            os.symlink(store_id, link)
            os.replace(link, named)
        except (
            OSError
        ) as error:  # another process does the same, or a hook writes there: the next write tries again
            debug("could not link %s to %s: %s", named, folder, error)
    return folder


def _move(source: str, target: str) -> None:
    """Move what hooks left in the URL's own folder before the store's id was known."""
    for folder, _, names in os.walk(source, topdown=False):
        there = os.path.normpath(os.path.join(target, os.path.relpath(folder, source)))
        os.makedirs(there, 0o700, exist_ok=True)
        for name in names:
            os.replace(os.path.join(folder, name), os.path.join(there, name))
        os.rmdir(folder)


def without_secrets(url: str, folder: str) -> str:
    """Return a URL that opens the same store, for other processes: its secrets are in a private file in ``folder``."""
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
        write_private(path, [content])
    kept = [(name, value) for name, value in asked if name not in found]
    query = urlencode([*kept, ("secrets", path)], quote_via=quote, safe="/")
    return _joined(parts._replace(netloc=_without_password(parts)), query)


def said_elsewhere() -> dict[str, str]:
    """Return what libpq takes from the environment and from a service file."""
    try:
        from psycopg.pq import Conninfo
    except ModuleNotFoundError:
        return {}  # the connection reports it
    return {o.keyword.decode(): o.val.decode() for o in Conninfo.get_defaults() if o.val is not None}


def _split(url: str) -> SplitResult:
    """Return its parts, if libpq would read them in the same way. The error does not show them."""
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
    """Whether a character of the password that was not written as %XX ended the host too early. After the
    @ that ends it, further ones are allowed only in options."""
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
            hint="A command that is given the URL with its password creates it again.",
        ) from None


def _password(parts: SplitResult) -> str:
    return unquote(parts.netloc.rpartition("@")[0].partition(":")[2])


def _secrets(asked: list[tuple[str, str]]) -> list[str]:
    return [value for name, value in asked if name in _SECRET]


def _without_password(parts: SplitResult) -> str:
    user, at, host = parts.netloc.rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}"
