"""What names a secret: the names of credentials, and the files that hold them. Plain words, no patterns.

A name is a credential by the words it ends in: DB_PASSWORD and dbPassword are, password_policy and max_tokens are not.
"""

from __future__ import annotations

MASK = "[redacted]"
_DIGITS = "0123456789"


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
MAPS = word_set("secrets passwords passphrases api_keys apikeys access_tokens auth_tokens private_keys")
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
    """The lower-case words of a name, split at ``_ - .`` and spaces, and where camelCase changes."""
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
    return [_lower(word) for word in found if word]


def _lower(word: str) -> str:
    """Lower case; but a word that only becomes ASCII by that (the Kelvin sign) is no English word."""
    lower = word.lower()
    return word if lower.isascii() and not word.isascii() else lower


def last_words(name: str) -> list[str]:
    """The words of a name without the number at its end: ``password_2`` is a password."""
    parts = words(name)
    while parts and not parts[-1].rstrip(_DIGITS):
        parts.pop()
    if parts:
        parts[-1] = parts[-1].rstrip(_DIGITS)
    return parts


def credential_in(name: str, names: frozenset[str]) -> str:
    """The credential that a name names, or nothing."""
    parts = last_words(name)
    for count in range(min(len(parts), 8), 0, -1):
        found = "_".join(parts[-count:])
        if found in _HARMLESS:
            return ""
        if found in names:
            return found if count == len(parts) else _of_something(found, parts[0])
    return ""


def _of_something(credential: str, first: str) -> str:
    """The credential at the end of a longer name; DB_PWD, unlike PWD, is never a folder."""
    if first in _ABOUT:
        return ""
    return "password" if credential == "pwd" else credential


def harmless(text: str) -> bool:
    """Whether a string under a credential's name is none: empty, masked already, or a reference to one."""
    inner = text.strip()
    if not inner or inner == MASK or not inner.strip("*"):
        return True
    if inner.endswith("}") and inner.startswith(("${", "{{")):
        reference = inner.strip("${} ").replace(".", "_").replace("-", "_")
        return reference.isidentifier()
    return False


def is_map(value: dict[str, object]) -> bool:
    return _SCHEMA.isdisjoint(value) and all(isinstance(item, str) for item in value.values())


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
