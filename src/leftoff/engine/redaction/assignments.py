"""Credentials that are assigned in a text: ``password=…``, ``"token": "…"``, ``--api-key …``; what of it is a value.

Loaded only where a text names a credential at all.
"""

from __future__ import annotations

from leftoff.engine.redaction.credentials import FILES, harmless, is_path, word_set
from leftoff.engine.redaction.ordinary import is_ordinary

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

# name = value · "name": "value" · --name value
NAME = (
    r"(?i)(?<![\w.-])(?P<flag>--?)?(?P<name>[a-z_][\w.-]{0,79})\\?[\"']?"
    r"(?:[^\S\n]{0,3}(?P<sign>:=|=>|=(?![=~>])|:(?!:))|(?(flag)[^\S\n]|(?!)))[^\S\n]{0,3}"
)
# Behind an HTTP scheme; in quotes, escaped ones too; or up to what ends a word in code, in a shell, in a URL.
_SCHEME = r"(?:bearer|basic|token|digest|negotiate)[^\S\n]++"
_QUOTED = (
    r"(?:(?<=\\\")[^\\\n]*+(?:\\(?!\")[^\\\n]*+)*|(?<=\\')[^\\\n]*+(?:\\(?!')[^\\\n]*+)*"
    r"|(?<=\")[^\"\n]*+|(?<=')[^'\n]*+)"
)
VALUE = (
    rf"(?i)(?:{_SCHEME}(?=\S)|(?!{_SCHEME}\S))"
    rf"(?P<value>(?P<open>\\?[\"']){_QUOTED}|[^\s\"'`,;&<>(){{}}\[\]|\\]++)(?P<after>[^\n]?)"
)
COOKIE = r"(?P<value>(?P<open>)[^\n\"'=]{1,200}=[^\n\"']*+)(?P<after>)"
_NOT_SECRET = word_set(
    "none null nil true false expired missing required invalid empty unset optional yes no ok given absent "
    "revoked rejected accepted denied pending unknown undefined string str"
)


def looks_secret(name: str, credential: str, sign: str, found: re.Match[str]) -> bool:
    """Whether what follows a credential's name in a text is its value, rather than code or prose about it."""
    value, after = found["value"].removeprefix(found["open"] or ""), found["after"]
    plain = value.rstrip(".!?")
    if not plain or harmless(value) or plain.lower() in _NOT_SECRET or value.startswith(("$", "%", "//")):
        return False
    if (credential in FILES and is_path(value)) or (credential == "auth" and is_ordinary(value)):
        return False
    if found["open"] is not None:
        return True
    if after in ("(", "[", "{") or plain.lower().endswith(name.lower()):
        return False  # token = get_token(…), login(password=user.password)
    if plain.isdigit() and credential == "token":
        return False  # a count, or a place in a text
    if sign == ":" and plain.isalpha() and plain.islower():
        return after != " "  # "the token: it expires" is prose, "password: swordfish" is not
    return True
