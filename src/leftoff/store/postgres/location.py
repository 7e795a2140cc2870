"""What a URL says: which server, which project on it; and how it is shown, which is never with a password.

Each project is a schema of its own, so that a run of one is invisible to another, a role can be given one of them, and
``pg_dump -n`` saves one. ``?project=NAME`` is ours; everything else in the URL is for libpq.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from leftoff.errors import Usage
from leftoff.model.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEMES = ("postgresql", "postgres")
SCHEMA = "leftoff"
MOST = 50  # characters of a project's name: PostgreSQL cuts names at 63 bytes
HIDDEN = "***"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_SECRET = ("password", "sslpassword", "passfile")  # in the query of a URL


class Place:
    """One project on one server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        asked = parse_qsl(parts.query, keep_blank_values=True)
        self.project = next((value for name, value in asked if name == "project"), "")
        if "project" in dict(asked) and not (0 < len(self.project) <= MOST and set(self.project) <= _NAME):
            raise Usage(
                f"{self.project!r} cannot be a project's name in a store's URL.",
                hint=f"It is 1 to {MOST} letters, digits and . _ - behind ?project=",
            )
        self.schema = f"{SCHEMA}_{self.project}" if self.project else SCHEMA
        rest = [(name, value) for name, value in asked if name != "project"]
        #: what libpq is given
        self.conninfo = urlunsplit(
            parts._replace(scheme="postgresql", query=urlencode(rest, quote_via=quote))
        )
        self.secrets = [secret for secret in [_password(parts), *_secrets(rest)] if secret]
        #: how people see it
        shown = [(name, value) for name, value in asked if name not in _SECRET]
        query = urlencode(shown, quote_via=quote, safe="/")
        self.name = urlunsplit(parts._replace(netloc=_without_password(parts), query=query))

    @property
    def key(self) -> str:
        """A name for a folder of this machine: the same project, by whatever user and password."""
        where = urlsplit(self.name)
        host = where.netloc.rpartition("@")[2] or dict(parse_qsl(where.query)).get("host", "")
        return sha256(f"{host}\n{where.path}\n{self.schema}".encode()).hexdigest()[:16]

    @property
    def quoted(self) -> str:
        """The schema as SQL has it."""
        return '"' + self.schema + '"'

    def clean(self, text: str) -> str:
        """A text of the driver or the server without the password, should it be in there."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def shown(location: str) -> str:
    """A store's folder or URL as people may see it."""
    return Place(location).name if location.partition("://")[0] in SCHEMES else location


def _password(parts: SplitResult) -> str:
    return unquote(parts.netloc.rpartition("@")[0].partition(":")[2])


def _secrets(asked: list[tuple[str, str]]) -> list[str]:
    return [value for name, value in asked if name in _SECRET]


def _without_password(parts: SplitResult) -> str:
    user, at, host = parts.netloc.rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}"
