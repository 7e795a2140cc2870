"""Keep secrets out of the store without destroying work.

Two things make a string a secret: the name it is stored under, and its own shape. Both are judged strictly, since a
redacted value is lost when the run resumes. A name counts only if its *last* words name a credential (``DB_PASSWORD``,
``x-api-key``; never ``max_tokens``, ``next_token``, ``password_policy``), a shape only if some service issues it
(``ghp_…``, ``sk-ant-…``, a PEM key, a URL with a password in it). Numbers, booleans, empty strings, and references such
as ``${DB_PASSWORD}`` are never secrets, nor is ordinary text under an ambiguous name such as ``token``.

A short string with a secret in it is redacted whole: code must never work with a URL or a header that was silently
changed. In a long text, a report, only the secret itself is masked, and the work stays.

Every changed record of every commit passes ``suspicious``, so it looks for substrings and nothing else. It must be
true wherever ``scrub`` would find something: a name or shape that is added below needs its needle there. ``re`` is
loaded, and a pattern compiled, when a text first needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from leftoff.model.codec import text as json_text

if TYPE_CHECKING:
    import re

    Span = tuple[int, int]
    Path = list[str | int]

MASK = "[redacted]"
_SHORTEST = 4  # a secret of fewer characters would be found everywhere
_WHOLE = 512  # up to this many characters a string is redacted whole
_LINE = 8  # characters of a line that counts as a part of a secret, and not as a brace
_DIGITS = "0123456789"
IN_NAMES, IN_TEXT = 1, 2  # where a record may hold a secret
_TYPE, _BINARY = "$type", ("bytes", "bytearray")  # of values that are base64 in a record


# -- names


def word_set(words: str, ending: str = "") -> frozenset[str]:
    return frozenset([f"{word}{ending}" for word in words.split()])


# Credentials, as the words they end in. The ambiguous ones may follow any word that is not in _HARMLESS.
NAMES = word_set(
    "password passwd pwd passphrase pass_word pass_phrase pgpassword dbpassword userpassword sshpass "
    "db_pass user_pass smtp_pass mail_pass admin_pass root_pass password_confirmation password_confirm "
    "secret client_secret clientsecret token authtoken accesstoken refreshtoken idtoken sessiontoken "
    "bearertoken apitoken access_token refresh_token auth_token bearer_token id_token session_token api_token "
    "api_key apikey access_key accesskey secret_key secretkey private_key privatekey encryption_key "
    "signing_key account_key authorization authorization_header auth auth_header cookie set_cookie setcookie "
    "credential credentials secrets passwords passphrases api_keys apikeys access_keys secret_keys "
    "private_keys access_tokens refresh_tokens auth_tokens api_tokens"
)

# Under these, an ordinary word, number or sentence is not a secret.
AMBIGUOUS = word_set("token secret cookie auth")

# A dict under one of these, with nothing but strings in it, maps names to secrets, unless it describes a schema.
# Any other dict is judged by its own keys.
_MAPS = word_set("secrets passwords passphrases api_keys apikeys access_tokens auth_tokens private_keys")
_SCHEMA = word_set("type $ref shape name title description documentation")

# Names that often hold a path: of the credential, or of the working folder.
FILES = word_set("pwd credential credentials private_key privatekey")

# The word before "token", "cookie", … that makes it something else: paging, parsing, language models, styling, locks.
_HARMLESS = word_set(
    "next prev previous page continuation start stop end eos bos pad unk mask sep cls special first last max min per "
    "input output prompt completion cached total sync watch delta change sequence resume cursor pagination marker "
    "skip idempotency fencing lease lock attempt cancel cancellation design color colour theme style unexpected "
    "expected peek lookahead current word string keyword",
    "_token",
) | word_set("trade_secret top_secret open_secret prior_authorization pre_authorization fortune_cookie")

# A name that starts with one of these says what is done or known about a credential, and holds none.
_ABOUT = word_set(
    "is has no needs requires require missing invalid wrong forgot change rotate check validate get set list fetch "
    "create generate delete remove revoke describe reveal show hide enable disable without"
)


def words(name: str) -> list[str]:
    """Return the lower-case words of a name, split at ``_ - .`` and spaces, and where camelCase changes."""
    found: list[str] = []
    word = ""
    for index, char in enumerate(name):
        if char in "_-. ":
            found.append(word)
            word = ""
            continue
        if (
            word
            and char.isupper()
            and (not name[index - 1].isupper() or name[index + 1 : index + 2].islower())
        ):
            found.append(word)
            word = ""
        word += char
    found.append(word)
    # A word that only becomes ASCII in lower case (the Kelvin sign) is not an English word.
    return [word if word.lower().isascii() and not word.isascii() else word.lower() for word in found if word]


def _last_words(name: str) -> list[str]:
    """Return the words of a name without the number at its end: ``password_2`` is a password."""
    parts = words(name)
    while parts and not parts[-1].rstrip(_DIGITS):
        parts.pop()
    if parts:
        parts[-1] = parts[-1].rstrip(_DIGITS)
    return parts


def _credential_in(name: str, names: frozenset[str]) -> str:
    """Return the credential that a name names, or an empty string."""
    parts = _last_words(name)
    for count in range(min(len(parts), 8), 0, -1):
        found = "_".join(parts[-count:])
        if found in _HARMLESS:
            return ""
        if found in names and count < len(parts):
            if parts[0] in _ABOUT:
                return ""
            return "password" if found == "pwd" else found  # DB_PWD, unlike PWD, is never a folder
        if found in names:
            return found
    return ""


def harmless(text: str) -> bool:
    """Return whether a string under a credential's name is no secret: empty, masked already, or a reference to one."""
    inner = text.strip()
    if not inner or inner == MASK or not inner.strip("*"):
        return True
    if inner.endswith("}") and inner.startswith(("${", "{{")):
        reference = inner.strip("${} ").replace(".", "_").replace("-", "_")
        return reference.isidentifier()
    return False


def is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~/")) or text[1:3] in (":\\", ":/")


_SECRET_FILES = word_set(
    ".env .envrc .netrc _netrc .npmrc .pypirc .git-credentials .htpasswd .pgpass .my.cnf .dockercfg .s3cfg .boto "
    ".vault-token credentials.json application_default_credentials.json kubeconfig kubeconfig.yaml kubeconfig.yml "
    "secrets.json secrets.yaml secrets.yml secrets.toml"
)
_SECRET_ENDINGS = (
    ".pem", ".key", ".p12", ".pfx", ".p8", ".ppk", ".jks", ".keystore", ".kdbx", ".env", ".kubeconfig",
    ".aws/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".docker/config.json", ".kube/config",
)  # fmt: skip
_SECRET_STARTS = ("service-account", "service_account", "serviceaccount", "client_secret")
_KEY_FILES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_EXAMPLES = word_set("example sample template dist defaults")


def is_secret_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    stem, _, ending = name.rpartition(".")
    if name.startswith(".env."):
        return ending not in _EXAMPLES
    if ending == "env" and stem in _EXAMPLES:
        return False
    if name in _SECRET_FILES or f"/{path}".endswith(_SECRET_ENDINGS):
        return True
    if name.startswith(_KEY_FILES):
        return not stem or ending in ("bak", "old")  # id_rsa, and not id_rsa.pub
    return ending == "json" and name.startswith(_SECRET_STARTS)


# -- shapes

_EDGE = r"(?<![A-Za-z0-9])"
_MIXED = r"(?=[a-z_-]{0,80}[0-9A-Z]|[a-z]{16})"  # a key rather than a-name-made-of-words
_BASIC = (
    r"(?i:basic)\s{1,4}((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)(?![A-Za-z0-9+/=])"
)

# How each shape starts (literally: a pattern is only tried there), and what it is; the secret is the pattern's group,
# or all of it. Linear in the text: what may fail is bounded, what is unbounded is possessive; but no group is, as
# Python 3.11.2 (that of Debian 12) misses matches of such a group.
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("AKIA", "ASIA"), _EDGE + r"(?:AKIA|ASIA(?=[A-Z]{0,15}[0-9]))[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (
        ("secret", "Secret", "SECRET"),  # of AWS: 40 characters like any others, so only next to its name
        r"(?i:secret[ _-]?(?:access[ _-]?)?key)\W{1,8}(?:is\W{1,3})?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    (("AGE-SECRET-KEY-1",), _EDGE + r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+"),
    (("AccountKey=",), r"AccountKey=([A-Za-z0-9+/]{40,}+={0,2})"),
    (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        _EDGE + r"gh[pousr]_" + _MIXED + r"[A-Za-z0-9_]{20,}+(?:\.[A-Za-z0-9_-]{10,}+){0,2}",
    ),
    (("github_pat_",), _EDGE + r"github_pat_[A-Za-z0-9_]{20,}+"),
    (
        ("glpat-", "glrt-"),
        _EDGE + r"gl(?:pa|r)t-" + _MIXED + r"[A-Za-z0-9_-]{20,}+(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    (
        ("sk-",),
        _EDGE + r"sk-(?:(?:ant|proj|svcacct|admin|or-v1)-" + _MIXED + r"[A-Za-z0-9_-]{16,}+"
        r"|(?=[A-Za-z]{0,80}[0-9])[A-Za-z0-9]{20,}+|[A-Za-z]{32,}+)",
    ),
    (("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"), _EDGE + r"xox[abeprs]-[A-Za-z0-9-]{16,}+"),
    (("xapp-",), _EDGE + r"xapp-[0-9]-[A-Za-z0-9-]{16,}+"),
    (("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,}+)"),
    (
        ("discord.com/api", "discordapp.com/api"),
        r"discord(?:app)?\.com/api/webhooks/[0-9]{8,24}/([\w-]{20,}+)",
    ),
    (("AIza",), _EDGE + r"AIza[A-Za-z0-9_-]{30,}+"),
    (("ya29.",), _EDGE + r"ya29\.[A-Za-z0-9_-]{20,}+"),
    (("GOCSPX-",), _EDGE + r"GOCSPX-[A-Za-z0-9_-]{20,}+"),
    (("sk_live_", "rk_live_", "sk_test_", "rk_test_"), _EDGE + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    (("whsec_",), _EDGE + r"whsec_[A-Za-z0-9+/]{24,}+=*"),
    (("npm_",), _EDGE + r"npm_[A-Za-z0-9]{30,}+"),
    (("hf_",), _EDGE + r"hf_[A-Za-z0-9]{30,}+"),
    (("gsk_",), _EDGE + r"gsk_[A-Za-z0-9]{30,}+"),
    (("dop_v1_", "doo_v1_", "dor_v1_"), _EDGE + r"do[opr]_v1_[a-f0-9]{40,}+"),
    (("SG.",), _EDGE + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}+"),
    (("pypi-",), _EDGE + r"pypi-(?:AgE[A-Za-z0-9_-]{13,}+|[A-Za-z0-9_-]{80,}+)"),
    (
        ("eyJ",),  # a JWT; a second part that is JSON too needs less of a signature
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.(?:eyJ[A-Za-z0-9_-]*+\.[A-Za-z0-9_-]{3,}+"
        r"|[A-Za-z0-9_-]*+\.[A-Za-z0-9_-]{10,}+)(?:\.[A-Za-z0-9_-]++){0,2}",
    ),
    (
        ("-----BEGIN ",),  # a private key: with its end, or cut off; but no sentence about the two lines
        r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----(?=\s{0,4}\n|\\[rn]|\s{0,4}[A-Za-z0-9+/]{32})"
        r"(?:[^-]*+(?:-(?!-)[^-]*+)*-----END [A-Z0-9 ]{0,60}-----"
        r"|(?:(?:\\[rn]|\s)*[A-Za-z0-9+/=]{16,}+)+)",
    ),
    (
        ("Bearer", "bearer", "BEARER"),
        r"(?i:bearer)\s{1,4}((?=[A-Za-z._~+/-]{0,80}[0-9])[A-Za-z0-9._~+/-]{16,}+=*|[A-Za-z]{24,}+)",
    ),
    (("Basic", "basic", "BASIC"), _BASIC),
    (
        ("://",),  # user:password@, unless the password is a reference or a placeholder
        r"""://[^\s/?#:@"'<>\[]{0,128}+:(?!\$\{|\$[A-Z_]+@|[{<*]|%\(|\[redacted\]@)([^\s/?#"'<>]{1,512})@""",
    ),
)

_compiled: dict[str, re.Pattern[str]] = {}


def _pattern(source: str) -> re.Pattern[str]:
    found = _compiled.get(source)
    if found is None:
        import re

        found = _compiled[source] = re.compile(source, re.ASCII)
    return found


def _shapes_in(text: str) -> Iterator[Span]:
    """Yield where the known shapes of secrets are."""
    for needles, source in _SHAPES:
        for needle in needles:
            at = text.find(needle)
            while at >= 0:
                found = _pattern(source).match(text, at)
                if found and (source is not _BASIC or _is_basic(found[1])):
                    yield found.span(found.lastindex or 0)
                    at = text.find(needle, found.end())
                else:
                    at = text.find(needle, at + 1)


def _maybe_shaped(t: str) -> bool:
    """Return whether a lower-case text may hold a shape: always true if ``_shapes_in`` finds one, and fast."""
    if "key" in t or "secret" in t or "basic" in t or ("://" in t and "@" in t):
        return True
    if len(t) < 19:
        return False
    if ("ia" in t and ("akia" in t or "asia" in t)) or "aiza" in t or "bearer" in t:
        return True
    if "_" in t and (
        ("gh" in t and ("ghp_" in t or "gho_" in t or "ghu_" in t or "ghs_" in t or "ghr_" in t))
        or ("k_" in t and ("k_live_" in t or "k_test_" in t or "gsk_" in t))
        or "hub_pat_" in t or "npm_" in t or "hf_" in t or "whsec_" in t or "_v1_" in t
    ):  # fmt: skip
        return True
    if "-" in t and (
        ("sk-" in t and "sk-" in t.replace("ask-", ""))  # task-001 is what many a step is called
        or ("x" in t and ("xox" in t or "xapp-" in t or "gocspx-" in t))
        or ("t-" in t and ("glpat-" in t or "glrt-" in t)) or "pypi-" in t
    ):  # fmt: skip
        return True
    return "." in t and ("eyj" in t or "sg." in t or "ya29." in t or "hooks.slack" in t or ".com/api" in t)


# A large JSON text is searched for the needles of all shapes by one character of each that is rare in prose and in
# tables. `_AFTER` says what must follow a needle that is an ordinary word. In JSON a blank may be escaped, so these
# patterns are wider than those of the shapes.
_ANCHORS = "_-/AGJB9b"
# "secret key" and "secret access key" are found by their "k", which is rarer than the letters of "secret".
_SECRET_KEY = (
    r"(?i:ey)(?:(?<=(?i:secretkey))|(?<=(?i:secret[ _-]key))|(?<=(?i:secretaccesskey))"
    r"|(?<=(?i:secretaccess[ _-]key))|(?<=(?i:secret[ _-]accesskey))|(?<=(?i:secret[ _-]access[ _-]key)))"
)
_BLANKS = r"(?:\s|\\[ntrf]|\\u00..){1,4}"
_AFTER = {
    "sk-": r"[A-Za-z0-9_-]{16}",
    "basic": _BLANKS + r"((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)(?![A-Za-z0-9+/=])",
    "bearer": _BLANKS + r"[A-Za-z0-9._~+/-]{16}",
    "://": r"""[^\s/?#:@"'<>\[]{0,1600}:[^\s/?#"'<>]{1,6400}@""",
}
_BYTES = '{"$type":"bytes","value":"'  # before base64, in the JSON of a value
_by_anchor: dict[str, str] = {}


def _anchored() -> dict[str, str]:
    """Return each anchor with a pattern for the needles that have it."""
    if not _by_anchor:
        found: dict[str, list[str]] = {"k": [_SECRET_KEY], "K": [_SECRET_KEY]}
        for needle in (needle for needles, _ in _SHAPES for needle in needles if needle.lower() != "secret"):
            anchor = next(char for char in _ANCHORS if char in needle)
            before, _, after = (part.replace(".", "[.]") for part in needle.partition(anchor))
            if before:  # is looked at last
                after += f"(?<={before}{anchor}{after})"
            found.setdefault(anchor, []).append(after + _AFTER.get(needle.lower(), ""))
        _by_anchor.update((a, f"{a}(?:{'|'.join(sorted(each))})") for a, each in found.items())
    return _by_anchor


def _large_maybe_shaped(text: str) -> bool:
    """Return whether a large JSON text may hold a shape: always true if ``_shapes_in`` finds one. Bytes hold none."""
    for number, part in enumerate(text.split(_BYTES)):
        end = part.find('"') if number else 0
        if number and any(part.find(char, 0, end) >= 0 for char in "-_."):
            return True  # this is not base64
        if any(_anchor_in(part[end:], anchor, _pattern(source)) for anchor, source in _anchored().items()):
            return True
    return False


def _anchor_in(text: str, anchor: str, pattern: re.Pattern[str]) -> bool:
    at, count = text.find(anchor), 0
    while at >= 0 and count < 8 + (at >> 10):  # a rare character is found faster one by one
        found = pattern.match(text, at)
        if found and (found.lastindex is None or _is_basic(found[found.lastindex])):
            return True
        at, count = text.find(anchor, at + 1), count + 1
    if at < 0:
        return False
    groups = ((found.lastindex, found) for found in pattern.finditer(text, at))
    return any(group is None or _is_basic(found[group]) for group, found in groups)


def _is_basic(encoded: str) -> bool:
    """Return whether ``Basic`` credentials follow: base64 of ``user:password``; "Basic training" is not."""
    from binascii import a2b_base64

    plain = a2b_base64(encoded)
    return b":" in plain and plain.isascii() and plain.decode().isprintable()


def _blank(text: str, spans: list[Span]) -> str:
    """Return the text with the spans masked."""
    out: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            out += (text[done:start], MASK)
        done = max(done, end)
    return "".join((*out, text[done:]))


def forms_of(secret: str) -> set[str]:
    """Return the secret, and each line of one that has several; each of these as JSON, Python and a shell quote it."""
    found = {secret}
    if "\n" in secret:
        found.update(line for line in map(str.strip, secret.split("\n")) if len(line) >= _LINE)
    out = set(found)
    for text in found:
        if not text.isascii() or not text.isprintable() or {"'", '"', "\\"} & set(text):
            from json import dumps

            out |= {dumps(text)[1:-1], dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
            out |= {text.replace("'", "'\\''"), text.replace("'", "'\"'\"'")}
    return out


def _keys(value: Any) -> Iterator[object]:
    """Yield the keys of all objects in a value."""
    for entry in value.values() if isinstance(value, dict) else value:
        if isinstance(entry, (dict, list)):
            yield from _keys(entry)
    if isinstance(value, dict):
        yield from value


# -- ordinary text under an ambiguous name

# Up to 24 letters in the case of a word or of two: the, The, DET, PDFs, McDonald. In a long word, six consonants in a
# row are the sign of a random one.
_LETTERS = (
    r"(?!(?=[A-Za-z]{13})[A-Za-z]*?[^\W\d_aeiouyAEIOUY]{6})"
    r"(?:[A-Z]?[a-z]{1,23}|[A-Z]{1,24}s?|[A-Z]?[a-z]{1,11}[A-Z][a-z]{1,11})"
)
_FIGURE = r"\d{1,15}(?:[.,:/-]\d{1,15}){0,5}(?:e[+-]?\d{1,3}|st|nd|rd|th|s)?"
_AROUND = r"(?:[^\w\s=]|_){0,4}"  # "=" is that of a cookie, or the end of base64
_WORD = rf"[\W_]{{0,4}}|{_AROUND}(?:{_LETTERS}(?:[-'./_&]{_LETTERS}){{0,7}}|{_FIGURE}){_AROUND}"
_OF_A_TOKENIZER = "ĠĊ▁"  # what tokenizers write for the space before a token


def _is_ordinary(text: str) -> bool:
    """Return whether a text is made of words, numbers and punctuation alone."""
    is_word = _pattern(_WORD).fullmatch
    for word in text.split():
        word = word.lstrip(_OF_A_TOKENIZER)
        if not word.isascii():  # a letter of ASCII for each letter that has a case, and no other character
            word = "".join(
                c if c < "\x80" else "A" if c.isupper() else "a" if c.islower() else "" for c in word
            )
        if not is_word(word):
            return False
    return True


# -- assignments in a text

# name = value · "name": "value" · --name value
_NAME = (
    r"(?i)(?<![\w.-])(?P<flag>--?)?(?P<name>[a-z_][\w.-]{0,79})\\?[\"']?"
    r"(?:[^\S\n]{0,3}(?P<sign>:=|=>|=(?![=~>])|:(?!:))|(?(flag)[^\S\n]|(?!)))[^\S\n]{0,3}"
)
# Behind an HTTP scheme; in quotes, escaped ones too; or up to what ends a word in code, in a shell, in a URL.
_SCHEME = r"(?:bearer|basic|token|digest|negotiate)[^\S\n]++"
_QUOTED = (
    r"(?:(?<=\\\")[^\\\n]*+(?:\\(?!\")[^\\\n]*+)*|(?<=\\')[^\\\n]*+(?:\\(?!')[^\\\n]*+)*"
    r"|(?<=\")[^\"\n]*+|(?<=')[^'\n]*+)"
)
_VALUE = (
    rf"(?i)(?:{_SCHEME}(?=\S)|(?!{_SCHEME}\S))"
    rf"(?P<value>(?P<open>\\?[\"']){_QUOTED}|[^\s\"'`,;&<>(){{}}\[\]|\\]++)(?P<after>[^\n]?)"
)
_COOKIE = r"(?P<value>(?P<open>)[^\n\"'=]{1,200}=[^\n\"']*+)(?P<after>)"
_NOT_SECRET = word_set(
    "none null nil true false expired missing required invalid empty unset optional yes no ok given absent "
    "revoked rejected accepted denied pending unknown undefined string str"
)


def _looks_secret(name: str, credential: str, sign: str, found: re.Match[str]) -> bool:
    """Return whether what follows a credential's name in a text is its value, not code or prose about it."""
    value, after = found["value"].removeprefix(found["open"] or ""), found["after"]
    plain = value.rstrip(".!?")
    if not plain or harmless(value) or plain.lower() in _NOT_SECRET or value.startswith(("$", "%", "//")):
        return False
    if (credential in FILES and is_path(value)) or (credential == "auth" and _is_ordinary(value)):
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


# -- the redactor


class Redactor:
    """What is secret in a project. ``allow`` holds names, dotted paths and globs that never are.

    ``exact`` are secrets themselves, known to this process. A value that holds one is redacted even if its name is
    allowed, and even if redaction is not ``enabled``.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        allow: Sequence[str] = (),
        names: Sequence[str] = (),
        patterns: Sequence[str] = (),
        exact: Sequence[str] = (),
    ) -> None:
        self._enabled = enabled
        self._globs = tuple(entry for entry in allow if not {"*", "?", "["}.isdisjoint(entry))
        self._allow = frozenset(allow).difference(self._globs)
        added = [found for found in map(_last_words, names) if found]
        self._names = NAMES.union("_".join(found) for found in added)
        self._ambiguous = AMBIGUOUS.difference("_".join(found) for found in added)
        self._needles = tuple(max(found, key=len) for found in added)
        self._patterns = tuple(patterns)
        forms = {form for secret in exact if len(secret) >= _SHORTEST for form in forms_of(secret)}
        self._exact = tuple(sorted(forms, key=len, reverse=True))  # one may be part of another
        self._exact_json = tuple({*self._exact, *(json_text(secret)[1:-1] for secret in self._exact)})
        # A pattern sees the text itself, not its JSON; and a name beyond ASCII may be escaped there.
        self._always = bool(patterns) or not all(needle.isascii() for needle in self._needles)
        self._own: list[re.Pattern[str]] = []
        self._known: dict[str, str] = {}

    def suspicious(self, key: str, text: str, names: Iterable[str] | None = None) -> int:
        """Return what a record may hold, by its key and its JSON text: ``IN_NAMES``, ``IN_TEXT``, both, or 0, which is
        certain. ``names``: all keys in a large record."""
        if any(secret in text for secret in self._exact_json):
            return IN_NAMES | IN_TEXT
        if not self._enabled:
            return 0
        if names is not None and not self._always:
            by_name = IN_NAMES if any(map(self._credential, (key, *names))) else 0
            return by_name | (IN_TEXT if _large_maybe_shaped(text) else 0)
        t = f"{key}\n{text}".lower()
        found = (
            "token" in t
            or "pass" in t
            or "pwd" in t
            or "auth" in t
            or "cookie" in t
            or "credential" in t
            or _maybe_shaped(t)
            or self._always
            or (bool(self._needles) and any(needle in t for needle in self._needles))
        )
        return IN_NAMES | IN_TEXT if found else 0

    def scrub(self, key: str, value: object, what: int = IN_NAMES | IN_TEXT) -> tuple[object, list[Path]]:
        """Return the value without its secrets, and where they were; the same object if there are none.

        ``what``: what `suspicious` said.

        A redacted entry is ``{"redacted": True}``, its path is in the list ([] is the value itself). Long texts are
        masked in place and are not listed. The value that was given is never changed.
        """
        if self._exact and isinstance(value, (dict, list)) and any(map(self._has_exact, _keys(value))):
            value = self._without_secret_keys(value)
        found = list(self._find(key, value, what)) if self._enabled or self._exact else []
        if not found:
            return value, []
        paths: list[Path] = []
        copies: dict[int, Any] = {}
        for trail, text in found:
            if text is None:
                paths.append(_path(trail))
            entry = {"redacted": True} if text is None else text
            if trail is None:
                return entry, paths
            _copy(value, trail[0], copies)[trail[1]] = entry
        return copies[id(None)], paths

    def _without_secret_keys(self, value: Any) -> Any:
        """Return a value without the declared secrets in its keys, at any depth."""
        if isinstance(value, list):
            return [self._without_secret_keys(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        return {
            self.mask(key) if self._has_exact(key) else key: self._without_secret_keys(entry)
            for key, entry in value.items()
        }

    def _has_exact(self, key: object) -> bool:
        return isinstance(key, str) and any(secret in key for secret in self._exact)

    def mask(self, text: str) -> str:
        """Return free text with every secret in it masked; the same object if there is none."""
        if not self.suspicious("", text):
            return text
        spans = [*self._secrets_in(text), *(self._assigned_in(text) if self._enabled else ())]
        return _blank(text, spans) if spans else text

    def secret_file(self, path: str) -> bool:
        """Return whether a file holds secrets, by its path. Such a file is hashed and never captured."""
        path = path.replace("\\", "/")
        name = path.rpartition("/")[2]
        return is_secret_file(path.lower()) and not (self._allows(name) or self._allows(path))

    def _find(self, key: str, value: object, what: int) -> Iterator[tuple[Any, str | None]]:
        """Yield the trail to each entry that holds a secret, with its masked text, or None if all of it goes.

        A trail is (trail of the container, key): a path that costs nothing until it is needed.
        """
        every = bool(what & IN_TEXT)
        left: list[tuple[Any, object, str]] = [(None, value, self._credential(key))]
        while left:  # any depth, without recursion
            trail, entry, name = left.pop()
            if isinstance(entry, str):
                text = self._judge(entry, name)
                if text is not entry:
                    is_known = any(secret in entry for secret in self._exact)
                    if is_known or not self._allowed(key, trail):
                        yield trail, text
            elif isinstance(entry, dict):
                is_map = name in _MAPS and _SCHEMA.isdisjoint(entry)
                inherited = name if is_map and all(isinstance(item, str) for item in entry.values()) else ""
                if _TYPE in entry and entry[_TYPE] in _BINARY:
                    if name and name not in self._ambiguous:  # only a name makes bytes a secret
                        left.append(((trail, "value"), entry.get("value"), name))
                    continue
                for word, item in entry.items():
                    if isinstance(item, (list, dict)):
                        left.append(((trail, word), item, self._credential(word) or inherited))
                    elif isinstance(item, str):
                        named = self._credential(word) or inherited
                        if every or named:
                            left.append(((trail, word), item, named))
            elif isinstance(entry, list):
                for index, item in enumerate(entry):
                    if isinstance(item, (list, dict)) or (isinstance(item, str) and (every or name)):
                        left.append(((trail, index), item, name))

    def _judge(self, text: str, name: str) -> str | None:
        """Return the text itself, the text with its secrets masked, or None if it must go."""
        if name and not harmless(text) and not (name in FILES and is_path(text)):
            if name not in self._ambiguous:
                return None
            if not _is_ordinary(text):
                return None
        if not self._patterns and not self._exact and not _maybe_shaped(text.lower()):
            return text
        spans = list(self._secrets_in(text))
        if not spans:
            return text
        if len(text) <= _WHOLE:
            return None
        masked = _blank(text, spans)
        rest = len(masked) - len(MASK) * masked.count(MASK)
        return masked if rest * 2 >= len(text) else None  # a key that is long is no report

    def _credential(self, name: str) -> str:
        if not self._enabled:
            return ""
        known = self._known.get(name)
        if known is None:
            if len(name) > 200:
                return ""
            known = _credential_in(name, self._names)
            if len(self._known) >= 4096:
                self._known.clear()
            self._known[name] = known
        return known

    def _allowed(self, key: str, trail: Any) -> bool:
        """Return whether an entry, or anything around it, is allowed by its name or by its dotted path."""
        if not self._allow and not self._globs:
            return False
        dotted = key
        if self._allows(key):
            return True
        for part in _path(trail):
            dotted = f"{dotted}.{part}"
            if self._allows(dotted) or (isinstance(part, str) and self._allows(part)):
                return True
        return False

    def _allows(self, name: str) -> bool:
        if name in self._allow:
            return True
        if not self._globs:
            return False
        from fnmatch import fnmatchcase

        return any(fnmatchcase(name, glob) for glob in self._globs)

    def _secrets_in(self, text: str) -> Iterator[Span]:
        for secret in self._exact:
            at = text.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = text.find(secret, at + len(secret))
        if not self._enabled:
            return
        yield from _shapes_in(text)
        if len(self._own) < len(self._patterns):
            import re

            try:
                self._own = [re.compile(source, re.MULTILINE) for source in self._patterns]
            except re.error as error:
                from leftoff.errors import Invalid

                raise Invalid(
                    f"The redaction pattern {error.pattern!r} is not a regular expression: {error}.",
                    hint="Patterns are Python's regular expressions; in leftoff.toml put them in 'single quotes'.",
                ) from None
        for pattern in self._own:
            for found in pattern.finditer(text):
                if found.end() > found.start() and found[0] != MASK:
                    yield found.span()

    def _assigned_in(self, text: str) -> Iterator[Span]:
        """Yield where the values of ``password=…`` and the like are."""
        done = 0
        for named in _pattern(_NAME).finditer(text):
            name, sign = named["name"], named["sign"] or "="
            credential = self._credential(name)
            if not credential or named.end() < done or self._allows(name):
                continue
            source = _COOKIE if credential in ("cookie", "set_cookie") and sign == ":" else _VALUE
            found = _pattern(source).match(text, named.end())
            if found and _looks_secret(name, credential, sign, found):
                done = found.end("value")
                yield found.start("value") + len(found["open"] or ""), done


def _path(trail: Any) -> Path:
    """Return a trail as the keys and indexes that lead to the entry."""
    path: Path = []
    while trail is not None:
        trail, key = trail
        path.append(key)
    return path[::-1]


def _copy(value: Any, trail: Any, copies: dict[int, Any]) -> Any:
    """Return the container at a trail in a copy of the value. Each one is copied once; the rest is shared.

    ``copies`` holds what was copied, by the identity of its trail (the containers' entries share one trail).
    """
    missing = []
    while id(trail) not in copies and trail is not None:
        missing.append(trail)
        trail = trail[0]
    if trail is None and id(None) not in copies:
        copies[id(None)] = dict(value) if isinstance(value, dict) else list(value)
    copy = copies[id(trail)]
    for step in reversed(missing):
        inner = copy[step[1]]
        inner = dict(inner) if isinstance(inner, dict) else list(inner)
        copy[step[1]] = copies[id(step)] = inner
        copy = inner
    return copy
