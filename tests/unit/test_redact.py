"""Redaction: what is a secret goes, and nothing else does.

The secrets here are made up, and put together from parts so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest

from leftoff.engine import redactor as redactor_module
from leftoff.engine.redactor import MASK, Redactor, words
from leftoff.errors import Invalid
from leftoff.model.codec import freeze

REDACTED = {"redacted": True}
A20 = "aB3dE5gH7jK9mN1pQ2rS"
A36 = A20 + "4tU6vW8xY0zA1bC2"
A48 = A36 + "dE3fG4hI5jK6"
HEX40 = "3f786850e387550fdab836ed7e6dc881de23001b"
HEX64 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
JWT = (
    "eyJ"
    + "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ"
    + "zdWIiOiIxMjM0NTY3ODkwIn0."
    + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
)
DASHES = "-" * 5
PEM_BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 12)


def pem(kind: str, body: str = PEM_BODY) -> str:
    return f"{DASHES}BEGIN {kind}{DASHES}\n{body}\n{DASHES}END {kind}{DASHES}\n"


CREDENTIAL_NAMES = str.split("""
    password Password PASSWORD passwd pwd db_pwd passphrase ssh-passphrase DB_PASSWORD dbPassword db.password
    database_password_2 password1 new_password password_confirmation PGPASSWORD secret SECRET client_secret
    clientSecret webhook-secret app.secret api_key apikey api-key apiKey APIKey APIKEY x-api-key X-Api-Key
    OPENAI_API_KEY openaiApiKey access_key aws_secret_access_key secret_key SECRET_KEY secretKey private_key
    privateKey encryption_key authorization Authorization Proxy-Authorization headers.authorization access_token
    accessToken refresh_token auth_token _authToken bearer_token id_token idToken session_token AWS_SESSION_TOKEN token
    Token GITHUB_TOKEN github_token HF_TOKEN botToken csrf-token credential credentials cookie Cookie set_cookie
    Set-Cookie session_cookie SMTP_PASS auth basicAuth
""")

HARMLESS_NAMES = str.split("""
    max_tokens maxTokens MAX_TOKENS next_token nextToken NextToken page_token nextPageToken continuation_token
    ContinuationToken token_count tokenCount tokens tokens_used total_tokens prompt_tokens output_tokens tokenizer
    tokenize token_type token_url token_id eos_token pad_token sync_token idempotency_token design_token start_token
    password_policy password_hash password_length password_reset passwordless secret_santa secretary secret_name
    secretRef keyboard key keys public_key primary_key foreign_key sort_key cache_key api_key_id key_id api author
    authority authorized authorization_url compass bypass passed pass passenger first_pass cookie_policy
    cookies_accepted cookiecutter credentials_file has_password is_secret needs_token rotate-token forgot_password
    ListSecrets set_password revealSecret
    missing_api_key monkey turkey donkey tokyo ken token_bucket x/token docs/api-key title status note url
""")

SECRETS = {
    "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws temporary id": "ASIA" + "Y34FZKBOKMUTVV7A",
    "aws id in a presigned url": "https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIA"
    + "IOSFODNN7EXAMPLE/2025/us-east-1",
    "aws secret by its name": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws secret in json": '{"SecretAccessKey": "' + 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}',
    "aws secret in a sentence": "the secret access key is " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "github": "ghp_" + A36,
    "github, all one letter": "ghp_" + "a" * 36,
    "github oauth": "gho_" + A36,
    "github user": "ghu_" + A36,
    "github server": "ghs_" + A36,
    "github refresh": "ghr_" + A36,
    "github fine grained": "github_pat_" + A20 + "_" + A48,
    "github in a command": "git clone https://ghp_" + A36 + "@github.com/a/b",
    "github in an assignment": "GH=ghp_" + A36,
    "gitlab": "glpat-" + A20,
    "gitlab runner": "glrt-" + A20,
    "anthropic": "sk-ant-" + "api03-" + A48 + "_" + A36 + "-AA",
    "anthropic, short": "sk-ant-" + A20,
    "openai": "sk-" + A48,
    "openai, hex": "sk-" + HEX40,
    "openai project": "sk-proj-" + A48 + "-" + A20 + "_" + A36,
    "openai service account": "sk-svcacct-" + A48,
    "openrouter": "sk-or-v1-" + HEX64,
    "slack bot": "xoxb-" + "123456789012-1234567890123-" + A20,
    "slack user": "xoxp-" + "123456789012-" + A20,
    "slack app": "xapp-1-" + "A012BCDEFGH-1234567890123-" + HEX64,
    "slack webhook": "https://hooks.slack.com/services/" + "T00000000/B00000000/" + A20,
    "discord webhook": "https://discord.com/api/webhooks/" + "123456789012345678/" + A48,
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "google oauth": "ya29." + A48,
    "google client": "GOCSPX-" + A20 + "abcdefgh",
    "stripe": "sk_live_" + A20 + "abcd",
    "stripe restricted": "rk_live_" + A20 + "abcd",
    "stripe test": "sk_test_" + A20 + "abcd",
    "stripe webhook": "whsec_" + A36,
    "npm": "npm_" + A36,
    "npmrc line": "//registry.npmjs.org/:_auth=npm_" + A36,
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcCJ" + A48,
    "hugging face": "hf_" + A36,
    "groq": "gsk_" + A48,
    "digitalocean": "dop_v1_" + HEX64,
    "sendgrid": "SG." + A20 + "aa." + A36 + "aaaaaaa",
    "age": "AGE-SECRET-KEY-1" + "QQQQQQQQQQPPPPPPPPPPZZZZZZZZZZRRRRRRRRRRYYYYYYYYYY99999999",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + A48 + A36 + "ab==;",
    "jwt": JWT,
    "jwt in a sentence": f"the session ({JWT}) ended",
    "jwt, short signature": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0.sig",
    "pem rsa": pem("RSA PRIVATE KEY", "MIIEowIBAAKCAQEA"),
    "pem": pem("PRIVATE KEY", "abc"),
    "pem openssh": pem("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU="),
    "pem encrypted": pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\nMIIEow"),
    "pem on one line": pem("EC PRIVATE KEY", "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f").replace("\n", "\\n"),
    "pem, cut off": pem("RSA PRIVATE KEY")[:300],
    "pgp": pem("PGP PRIVATE KEY BLOCK", "lQOYBGEx"),
    "bearer": "Bearer " + A36,
    "bearer header": "Authorization: Bearer " + A20,
    "bearer, lower case": "bearer " + "abcdefghijklmnopqrstuvwxyz",
    "basic": "Basic " + "dXNlcjpwYXNzd29yZA==",
    "basic, short": "basic " + "YTpi",
    "curl with a header": "curl -H 'Authorization: Basic " + "dXNlcjpwYXNzd29yZA==' https://example.com",
    "url": "postgres://bob:" + "hunter2@db.example.com:5432/app",
    "url without user": "redis://:" + "hunter2@localhost:6379/0",
    "url with @ in the password": "mysql://bob:" + "p@ss@db/app",
    "url in a command": "git push https://bob:" + "hunter2@git.example.com/a.git main",
}

SURVIVORS = [
    HEX40, HEX64, f"sha256:{HEX64}", f"sha1-{HEX40}", "d41d8cd98f00b204e9800998ecf8427e", "a3f9b2", HEX40[:7],
    "123e4567-e89b-12d3-a456-426614174000", "urn:uuid:123e4567-e89b-12d3-a456-426614174000",
    "sk-learn", "scikit-learn", "use sk-learn for it", "task-001", "task-" + "a1b2c3d4e5f6a7b8c9d0", "risk-" + HEX40,
    "disk-" + A48, "desk-0123456789abcdefghij", "ask-me-anything-about-this-0123456789", "sk-SK", "sk-",
    "sk-preklad-dokumentacie-pre-pouzivatelov", "mask-rcnn-r50-fpn-1x-coco-2024", "sk-proj-rename-the-old-things",
    "implementation/task-001", "convert-pdfs-20250114-101500", "CP-enrich-20250114-a3f2",
    "migration-T060-20251208-143025",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5=",
    "eyJhIjoxfQ==", "eyJ", "data:application/json;base64,eyJ" + "hIjoxLCJiIjoyLCJjIjozfQ==",
    "abceyJhbGciOiJ.eyJabc.defghijklm",
    "https://example.com/a?b=c#d", "https://example.com:8080/a", "http://localhost:3000", "ssh://git@github.com:22/a/b.git",
    "git@github.com:org/repo.git", "mailto:bob@example.com", "https://example.com/@bob/posts:1",
    "https://example.com/a:b@c", "postgres://bob@db/app", "postgres://bob:${DB_PASSWORD}@db/app",
    "postgres://bob:$DB_PASSWORD@db/app", "postgres://{user}:{password}@db/app", "postgres://bob:<password>@db/app",
    "postgres://bob:****@db/app", f"postgres://bob:{MASK}@db/app", "scheme://[user:passwd@]host",
    "see http://a.b: or write to c@d.e",
    "Bearer", "Bearer token", "Bearer authentication is required", "Bearer ${TOKEN}", "Bearer <token>",
    "a bearer of good news", "the standard-bearer of internationalization",
    "Basic", "Basic training starts", "BASIC programming", "Basic auth uses base64", "basic information",
    "Asia", "ASIA", "ASIAPACIFICREGIONALHQ", "AKIA", "akiaiosfodnn7example", "AIza", "npm_config_registry",
    "npm_package_devDependencies_typescript", "npm run build", "pypi-publish",
    "pypi-upload-instructions-for-the-new-maintainers",
    "xoxo", "xoxo-hugs-and-kisses-to-you", "ghp_", "ghp_short",
    "ghs_this_is_a_python_identifier", "high_", "github_pat_",
    "hf_dataset_name", "sk_live_", "glpat-", "msg.id", "SG.1", "v1_api", "_v1_",
    pem("CERTIFICATE"), pem("PUBLIC KEY", "MIIBIjANBgkqhkiG9w0B"), "-----BEGIN", f"{DASHES}BEGIN PRIVATE KEY{DASHES}",
    f"a key sits between {DASHES}BEGIN PRIVATE KEY{DASHES} and {DASHES}END PRIVATE KEY{DASHES} lines",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES} starts a file that nobody should ever commit to a public repository",
    "the secret key is kept elsewhere", "secret_key: see the vault", "What is the password?", "token: the unit of text",
    "Set API_KEY before you start.", "réponse à l'étape 3 — 完了 🚀", "", " ", "null", "0", "x" * 10_000,
    "lorem ipsum dolor sit amet " * 100,
]  # fmt: skip


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


# ---------------------------------------------------------------------------------------------- names


def test_string_under_a_credential_name_goes(redactor: Redactor) -> None:
    """A name whose last words name a credential makes any string under it a secret: the record's key, or a dict's."""
    for name in CREDENTIAL_NAMES:
        assert redactor.suspicious(name, '"x"'), name
        assert (REDACTED, [[]]) == redactor.scrub(name, "hunter2"), name
        assert ({name: REDACTED}, [[name]]) == redactor.scrub("config", {name: "hunter2"})


def test_other_names_keep_their_values(redactor: Redactor) -> None:
    """Paging, counting, policies, actions, and words that only contain a credential's word, keep their values."""
    for name in HARMLESS_NAMES:
        value = {name: "hunter2", "inner": [{name: ["hunter2"]}]}
        assert (value, []) == redactor.scrub(name, value)
        assert redactor.scrub(name, "hunter2")[0] == "hunter2", name


ORDINARY = [
    "the", "The", "DET", "tokenization", "internationalization", "naïve", "ÉTÉ", "слово", "你好，世界", "हिन्दी",
    "don't", "don’t", "'s", "##ing", "Ġthe", "ĠThe", "▁the", "[CLS]", "<|endoftext|>", "</s>", "McDonald", "iPhone",
    "PDFs", "well-known", "and/or", "e.g.", "U.S.", "__init__", "max_length", ".", ",", "...", "==", "🙂", "42", "-1",
    "3.14", "1,000", "1e-5", "50%", "$5", "1st", "1990s", "2024-01-15", "12:30", "The quick brown fox.",
    "Hello, world! It's 5 o'clock (or so).",
]  # fmt: skip

NOT_ORDINARY = [
    "hunter2", "a8f3k2l9x0", "abc123", "xK9-pQ", "AbCdEfGh", "Tr0ub4dor&3", "пароль123", "my token is hunter2",
    "sessionid=abc; path=/", "user:pass", "qwmzkxjvbtrlpshgdfncwqzkjxvbmt", "kjhgfdsqwrtpzxcv", "deadbeef01", HEX40,
    "d41d8cd98f00b204e9800998ecf8427e", "123e4567-e89b-12d3-a456-426614174000", "dGhlIHF1aWNr", "YWJjZGVm", "SGVsbG8=",
    "0123456789012345678901234567890", "!@#$%^&*", A20, *SECRETS.values(),
]  # fmt: skip


@pytest.mark.parametrize("name", ["token", "secret", "cookie", "auth", "GITHUB_TOKEN", "nextCookie"])
def test_ordinary_text_under_an_ambiguous_name_is_kept(redactor: Redactor, name: str) -> None:
    """A word, a number or a sentence under a name such as `token` is work, and not a secret."""
    for text in ORDINARY:
        value = [{name: text, "inner": {name: [text]}}]
        assert redactor.scrub("rows", value)[0] is value, text


@pytest.mark.parametrize("name", ["token", "secret", "cookie", "auth", "GITHUB_TOKEN"])
def test_anything_else_under_an_ambiguous_name_goes(redactor: Redactor, name: str) -> None:
    """What is not ordinary text under such a name is a secret."""
    for text in NOT_ORDINARY:
        assert ([{name: REDACTED}], [[0, name]]) == redactor.scrub("rows", [{name: text}]), text


@pytest.mark.parametrize(
    "name", ["password", "passwd", "api_key", "access_token", "client_secret", "private_key"]
)
@pytest.mark.parametrize("text", ["the", "42", "The quick brown fox."])
def test_clear_names_always_name_a_secret(redactor: Redactor, name: str, text: str) -> None:
    """Under a name that is not ambiguous every string is a secret; so it is under one that a project adds."""
    assert ({name: REDACTED}, [[name]]) == redactor.scrub("row", {name: text})
    assert ({"token": REDACTED}, [["token"]]) == Redactor(names=["token"]).scrub("row", {"token": text})


@pytest.mark.parametrize("value", [0, 1, 3.5, True, False, None, "", "  ", [], {}, [1, None], {"a": 1}])
def test_only_strings_are_secrets(redactor: Redactor, value: object) -> None:
    """Numbers, booleans, null, empty strings and empty containers are kept under any name."""
    assert redactor.scrub("password", value)[0] is value
    holder = {"api_key": value, "token": value}
    assert redactor.scrub("config", holder)[0] is holder


@pytest.mark.parametrize(
    "value", ["${DB_PASSWORD}", "${{ secrets.DB_PASSWORD }}", "{{ db.password }}", "***", MASK]
)
def test_references_and_masks_are_no_secrets(redactor: Redactor, value: str) -> None:
    """A reference to a secret, and what is masked already, is kept: losing it would destroy work."""
    assert redactor.scrub("password", value)[0] is value


@pytest.mark.parametrize("value", ["${DB_PASSWORD:-hunter2}", "{{ 'hunter2' }}", "$ecret", "}", "{hunter2}"])
def test_what_only_resembles_a_reference_goes(redactor: Redactor, value: str) -> None:
    """A reference with a default, or a password with a dollar in it, is a secret."""
    assert (REDACTED, [[]]) == redactor.scrub("password", value)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("PWD", "/home/bob/project", False),
        ("DB_PWD", "/hunter2", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/sa.json", False),
        ("private_key", "~/.ssh/id_ed25519", False),
        ("private_key", "C:\\keys\\a", False),
        ("secret_key", "/JalrXUtnFEMI", True),
        ("PWD", "hunter2", True),
    ],
)
def test_path_to_a_credential_is_none(redactor: Redactor, name: str, value: str, secret: bool) -> None:
    """Where a name often holds the path of a file, a path is kept."""
    assert secret == (redactor.scrub(name, value)[0] != value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("DB_PASSWORD", ["db", "password"]),
        ("dbPassword", ["db", "password"]),
        ("x-api-key", ["x", "api", "key"]),
        ("OpenAIApiKey", ["open", "ai", "api", "key"]),
        ("a.b c__d-", ["a", "b", "c", "d"]),
        ("", []),
    ],
)
def test_words_of_a_name(name: str, expected: list[str]) -> None:
    """Names are split at ``_ - . space`` and in camelCase, acronyms kept together."""
    assert expected == words(name)


def test_list_and_map_under_a_credential_name(redactor: Redactor) -> None:
    """Strings of a list go; a dict is judged by its own keys, unless it maps names to ``passwords`` or the like."""
    clean, paths = redactor.scrub("x", {"password": ["a", 1, ["b"]]})
    assert {"password": [REDACTED, 1, [REDACTED]]} == clean
    assert [["password", 0], ["password", 2, 0]] == sorted(paths)
    assert (["", REDACTED], [[1]]) == redactor.scrub("api_keys", ["", "b"])
    kept = {"authorization": {"status": "approved", "by": "bob"}}
    assert redactor.scrub("x", kept)[0] is kept
    assert ({"bob": REDACTED}, [["bob"]]) == redactor.scrub("passwords", {"bob": "hunter2"})
    for schema in ({"type": "object", "description": "All of them."}, {"bob": "hunter2", "n": 1}):
        assert redactor.scrub("secrets", schema)[0] is schema
    mixed = {"credentials": {"user": "bob", "password": "hunter2"}}
    assert (
        {"credentials": {"user": "bob", "password": REDACTED}},
        [["credentials", "password"]],
    ) == redactor.scrub("x", mixed)


# --------------------------------------------------------------------------------------------- shapes


FILLER = "The basic desk-task of a bearer: see https://example.com/a.b?c=d_e, ASK-1, 2 % secret. " * 1000


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_in_a_large_record(redactor: Redactor, text: str) -> None:
    """It is found wherever it is, next to bytes too. Ordinary text and bytes do not make the record suspicious."""
    data = {"$type": "bytes", "value": "QUtJQUlPU0ZPRE5ON0VYQU1QTEU="}
    harmless = {"rows": [FILLER, data, {"n": 1.5, "of": FILLER}]}
    assert 0 == redactor.suspicious("doc", json.dumps(harmless, separators=(",", ":")), {"rows", "n", "of"})
    for place in ([text, harmless], [harmless, {"x": f"\n{text}\n"}], [data, f"{FILLER}\t{text}", data]):
        written = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
        assert redactor.suspicious("doc", written, {"rows", "x"})


def test_names_in_a_large_record(redactor: Redactor) -> None:
    """Only the entries of such a name are looked at then."""
    rows = [{"token": "the", "db_password": "hunter2"} for _ in range(4000)]
    what = redactor.suspicious("doc", json.dumps(rows), {"token", "db_password"})
    clean: Any
    clean, paths = redactor.scrub("doc", rows, what)
    assert [[n, "db_password"] for n in range(4000)] == sorted(paths)
    assert {"token": "the", "db_password": REDACTED} == clean[0]


def test_bytes_under_the_name_of_a_credential(redactor: Redactor) -> None:
    """They are redacted. Under an ambiguous name they are not: tokens of a tokenizer are bytes."""
    data = {"$type": "bytes", "value": "aHVudGVyMg=="}
    assert {"password": {**data, "value": REDACTED}} == redactor.scrub("doc", {"password": data})[0]
    assert {"token": data} == redactor.scrub("doc", {"token": data})[0]


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_secret_shape_goes(redactor: Redactor, text: str) -> None:
    """A short string with the shape of a known secret in it is redacted whole, under any name, at any depth."""
    assert redactor.suspicious("doc", json.dumps(text))
    assert (REDACTED, [[]]) == redactor.scrub("doc", text)
    assert ({"a": [1, {"b": REDACTED}]}, [["a", 1, "b"]]) == redactor.scrub("doc", {"a": [1, {"b": text}]})


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_long_text_keeps_all_but_the_secret(redactor: Redactor, text: str) -> None:
    """In a long text only the secret is masked; the entry is not listed, and scrubbing it again changes nothing."""
    report = "The converter failed twice.\n" * 100
    given = {"report": f"{report}{text}\n{report}"}
    value, paths = redactor.scrub("doc", given)
    assert [] == paths
    assert isinstance(value, dict)
    assert MASK in value["report"] and text not in value["report"]
    assert value["report"].startswith(report) and value["report"].endswith(report)
    assert redactor.scrub("doc", value)[0] is value


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_mask_hides_shapes(redactor: Redactor, text: str) -> None:
    """In free text of any length the secret is masked, and what is around it stays."""
    masked = redactor.mask(f"failed: {text} (exit 1)")
    assert MASK in masked and text not in masked
    assert masked.startswith("failed: ") and masked.endswith(" (exit 1)")
    assert redactor.mask(masked) is masked


@pytest.mark.parametrize("text", SURVIVORS)
def test_ordinary_text_survives(redactor: Redactor, text: str) -> None:
    """Hashes, ids, links, images, names of things, and sentences about secrets come back as the same object."""
    assert redactor.scrub("doc", text)[0] is text
    value = {"a": [text, {"b": text}]}
    assert redactor.scrub("doc", value) == (value, [])
    assert redactor.scrub("doc", value)[0] is value


@pytest.mark.parametrize("text", SURVIVORS)
def test_mask_keeps_ordinary_text(redactor: Redactor, text: str) -> None:
    """Masking free text gives the same object where there is no secret."""
    assert redactor.mask(text) is text


def test_long_secret_is_no_report(redactor: Redactor) -> None:
    """A string that is mostly secret, such as a key file, is redacted whole however long it is."""
    assert len(pem("PRIVATE KEY")) > 512
    assert (REDACTED, [[]]) == redactor.scrub("doc", pem("PRIVATE KEY"))


def test_limit_of_a_short_string(redactor: Redactor) -> None:
    """Up to 512 characters a string goes whole, from 513 it is masked in place."""
    token = SECRETS["github"]
    short = token + " " + "x" * (511 - len(token))
    assert 512 == len(short)
    assert (REDACTED, [[]]) == redactor.scrub("doc", short)
    assert (MASK + " " + "x" * (512 - len(token)), []) == redactor.scrub("doc", short + "x")


def test_several_secrets_in_one_value(redactor: Redactor) -> None:
    """Every secret of a value is found in one pass, and what lies between them is shared with the original."""
    given = {
        "a": {"password": "x", "keep": [1]},
        "b": [SECRETS["github"], "ok", SECRETS["jwt"]],
        "c": {"d": "e"},
    }
    before = deepcopy(given)
    value, paths = redactor.scrub("doc", given)
    assert {
        "a": {"password": REDACTED, "keep": [1]},
        "b": [REDACTED, "ok", REDACTED],
        "c": {"d": "e"},
    } == value
    assert [["a", "password"], ["b", 0], ["b", 2]] == sorted(paths, key=str)
    assert before == given
    assert isinstance(value, dict)
    assert value["c"] is given["c"]


def test_dict_keys_are_never_changed(redactor: Redactor) -> None:
    """A key that looks like a secret stays: changing it would lose the entry."""
    value = {SECRETS["github"]: 1}
    assert redactor.scrub("doc", value)[0] is value


def test_values_read_back_can_be_scrubbed(redactor: Redactor) -> None:
    """Frozen values are accepted, and come back as plain ones where something had to go."""
    given = freeze({"a": [{"password": "x"}]})
    value, paths = redactor.scrub("doc", given)
    assert ({"a": [{"password": REDACTED}]}, [["a", 0, "password"]]) == (value, paths)
    assert dict is type(value)
    assert {"a": [{"password": "x"}]} == given


def test_depth_is_no_limit(redactor: Redactor) -> None:
    """A value may be nested deeper than Python can recurse."""
    value: Any = {"password": "x"}
    for _ in range(5000):
        value = [value]
    _, paths = redactor.scrub("doc", value)
    assert [[0] * 5000 + ["password"]] == paths


# ------------------------------------------------------------------------------------ assignments in text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter2", "password=[redacted]"),
        ("login with password=hunter2 failed", "login with password=[redacted] failed"),
        ("token: hunter2", "token: [redacted]"),
        ("password: swordfish", "password: [redacted]"),
        ("Password: swordfish\nnext", "Password: [redacted]\nnext"),
        ("DB_PASSWORD = 'p w, d'", "DB_PASSWORD = '[redacted]'"),
        ('{"password": "hunter2", "n": 1}', '{"password": "[redacted]", "n": 1}'),
        ('{\\"api_key\\": \\"hunter2\\"}', '{\\"api_key\\": \\"[redacted]\\"}'),
        ("{'secret': 'it'}", "{'secret': '[redacted]'}"),
        ("mysql --password hunter2 --port 3", "mysql --password [redacted] --port 3"),
        ("mysql --password=hunter2", "mysql --password=[redacted]"),
        ("GET /a?token=hunter2&page=3", "GET /a?token=[redacted]&page=3"),
        ("host=db password=hunter2 dbname=app", "host=db password=[redacted] dbname=app"),
        ("Authorization: token hunter2", "Authorization: token [redacted]"),
        ("Cookie: sid=abc; theme=dark\nHost: x", "Cookie: [redacted]\nHost: x"),
        ("client_secret:=hunter2;", "client_secret:=[redacted];"),
        ("token=a token=b", "token=[redacted] token=[redacted]"),
        ("auth=abc123", "auth=[redacted]"),
    ],
)
def test_mask_hides_assignments(redactor: Redactor, text: str, masked: str) -> None:
    """In free text the value that is assigned to a credential's name is masked, and nothing around it."""
    assert masked == redactor.mask(text)
    assert redactor.mask(masked) is masked


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096", "next_token: abc123", "tokens: 12", "token: 12", "unexpected token: 17",
        "fix the token: it expires too early", "invalid token: expired", "password: required.", "api_key=None",
        "token = get_token(url)", "login(user=user, password=password)", "if password == other:", "password != x",
        "def f(token: str, password: Optional[str]):", "export TOKEN=$OTHER", "password=${DB_PASSWORD}",
        "KeyError: 'password'", "the password", "Enter password:", "Password:\nnext line", "token::new", "token =",
        "password = user.password", "PWD=/home/bob", "secret: {{ vault.secret }}",
        "password=%s", "auth=ldap", "auth: Failed", "a token-bucket: 5", "/login?next=/a", "password=***",
    ],
)  # fmt: skip
def test_mask_keeps_code_and_prose(redactor: Redactor, text: str) -> None:
    """Code that only names a credential, and sentences about one, come back as the same object."""
    assert redactor.mask(text) is text


# ------------------------------------------------------------------------------------- what is configured


def test_disabled_changes_nothing() -> None:
    """With redaction off nothing is looked at; files that hold secrets are still known."""
    redactor = Redactor(enabled=False, patterns=["x"])
    value = {"password": "hunter2"}
    assert redactor.scrub("token", value)[0] is value
    assert not redactor.suspicious("password", '"hunter2"')
    assert "password=x" == redactor.mask("password=x")
    assert redactor.secret_file(".env")


@pytest.mark.parametrize(
    ("allow", "paths"),
    [
        ("password", [["token"], ["url"]]),
        ("db.password", [["token"], ["url"]]),
        ("db.*", []),
        ("db", []),
        ("*pass*", [["token"], ["url"]]),
        ("tok?n", [["password"], ["url"]]),
        ("url", [["password"], ["token"]]),
        ("PASSWORD", [["password"], ["token"], ["url"]]),
        ("other.password", [["password"], ["token"], ["url"]]),
    ],
)
def test_allowed_entries_are_never_redacted(allow: str, paths: list[list[str]]) -> None:
    """A name, a dotted path from the record's key, or a glob of either allows an entry and all that is in it."""
    value = {"password": "x", "token": "y7", "url": SECRETS["url"]}
    assert paths == sorted(Redactor(allow=[allow]).scrub("db", value)[1])


def test_allowed_names_in_text_and_files() -> None:
    """What is allowed is not masked in text either, and a file that is allowed is no secret."""
    redactor = Redactor(allow=["password", ".env.test", "config/*.key"])
    assert "password=x token=[redacted]" == redactor.mask("password=x token=y")
    assert not redactor.secret_file("a/.env.test")
    assert not redactor.secret_file("config/a.key")
    assert redactor.secret_file("other/a.key")


@pytest.mark.parametrize("name", ["badge_number", "badgeNumber", "BADGE-NUMBER", "employee badge number 2"])
def test_added_names(name: str) -> None:
    """A name that is added counts like the built-in ones: in any spelling, as the last words."""
    redactor = Redactor(names=["badge number"])
    assert redactor.suspicious(name, '"x"')
    assert (REDACTED, [[]]) == redactor.scrub(name, "x")
    assert not redactor.suspicious("title", '"x"')
    assert "x" == redactor.scrub("badge_number_format", "x")[0]


def test_added_names_beyond_ascii() -> None:
    """A name in any script can be added; then no text is known to be harmless by its JSON."""
    redactor = Redactor(names=["пароль"])
    value = {"Пароль": "x"}
    assert redactor.suspicious("doc", json.dumps(value))
    assert ({"Пароль": REDACTED}, [["Пароль"]]) == redactor.scrub("doc", value)


def test_added_patterns() -> None:
    """A pattern that is added is looked for in every string, whatever its JSON looks like."""
    redactor = Redactor(patterns=[r'"E-\d{4}"', "never"])
    value = {"doc": 'employee "E-1234" left'}
    assert redactor.suspicious("x", json.dumps(value))
    assert ({"doc": REDACTED}, [["doc"]]) == redactor.scrub("x", value)
    assert "employee [redacted] left" == redactor.mask('employee "E-1234" left')


def test_pattern_that_is_none() -> None:
    """A pattern that is not a regular expression is named when it is first needed."""
    with pytest.raises(Invalid, match=r"'\(\['"):
        Redactor(patterns=["(["]).scrub("x", "text")


# ---------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "path",
    [
        ".env", "a/.env", ".env.local", ".env.production", "prod.env", ".ENV", "a\\b\\.env", ".envrc", "server.pem",
        "tls/server.key", "id_rsa", ".ssh/id_ed25519", "id_ecdsa", "id_rsa.bak", "a.p12", "a.pfx", "a.jks",
        "release.keystore", ".netrc", "~/.npmrc", ".pypirc", "credentials.json", "service-account.json",
        "service-account-prod.json", "service_account.json", "client_secret_123.json", ".aws/credentials",
        "/home/a/.aws/credentials", ".git-credentials", ".htpasswd", "kubeconfig", ".kube/config", "prod.kubeconfig",
        ".docker/config.json", ".pgpass", "config/secrets.yml", ".cargo/credentials.toml",
    ],
)  # fmt: skip
def test_secret_files(redactor: Redactor, path: str) -> None:
    """Files that hold secrets are known by their path, in any folder and any case."""
    assert redactor.secret_file(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example", ".env.sample", ".env.template", "a/.env.local.example", "example.env", "environment.py", "env",
        "id_rsa.pub", "id_ed25519.pub", "id_rsa_parser.py", "keys.py", "key", "a.keys", "monkey", "credentials.py",
        "credentials", "docs/credentials.md", "config.json", "service.json", "service-account.md", "pem.py", "a.crt",
        "README.md", "secrets.py", "token.json", "tokenizer.json", "package.json", "", "a/",
    ],
)  # fmt: skip
def test_other_files(redactor: Redactor, path: str) -> None:
    """Examples, public keys and source code are captured like any other file."""
    assert not redactor.secret_file(path)


# ----------------------------------------------------------------------------------------------- cost


@pytest.mark.parametrize(
    "part",
    [
        "eyJ", "eyJaaaaaaaaaa.", "ghp_", "ghp_a", "sk-", "sk-ant-", "sk-a", "AKIA", "xoxb-", "pypi-", "Bearer ",
        "bearer a",
        "Basic ", "basic YTpi", "://", "://a:", "://a:b", "a:", "token=", "token: ", "password", "secret key ", "-",
        f"{DASHES}BEGIN PRIVATE KEY{DASHES}", f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n", "SG.", "a.", "a=b&", "'", "--a ",
        "cookie: a", "glpat-a", "\\\"", "${", "AGE-SECRET-KEY-1", "secret" + " " * 8, "AccountKey=",
    ],
)  # fmt: skip
@pytest.mark.timeout(30)
def test_cost_is_linear(redactor: Redactor, part: str) -> None:
    """No text makes it hang: 60,000 characters of anything repeated take a moment, not minutes."""
    text = "token " + part * (60_000 // len(part))
    redactor.scrub("doc", text)
    redactor.mask(text)


def test_import_costs_nothing() -> None:
    """Importing the module, and the hot path on an ordinary record, import nothing else."""
    code = (
        "import sys\n"
        "import leftoff.engine\n"
        "import leftoff.model.codec\n"
        "before = set(sys.modules)\n"
        "from leftoff.engine.redactor import Redactor\n"
        "redactor = Redactor(allow=['a'], names=['b'])\n"
        "redactor.suspicious('doc', '{\"path\":\"docs/a.md\"}')\n"
        "redactor.scrub('max_tokens', {'keyword': 'plain', 'password': 'x'})\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, env=path()
    )
    assert ("['leftoff.engine.redactor']", "") == (done.stdout.strip(), done.stderr)


def path() -> dict[str, str]:
    """The environment of a bare interpreter that finds this leftoff."""
    import leftoff.engine

    folder = leftoff.engine.__path__[0]
    return {"PYTHONPATH": folder.removesuffix("leftoff/engine")}


def test_secrets_that_are_known_are_never_kept() -> None:
    """An exact secret is redacted whatever its shape, whatever is allowed, and where redaction is switched off."""
    secret = "wombat-7-eucalyptus"
    for made in (
        Redactor(exact=[secret]),
        Redactor(exact=[secret], allow=["mine", "*"]),
        Redactor(exact=[secret], enabled=False),
    ):
        assert secret not in made.mask(f"it is {secret}, twice {secret}")
        scrubbed, _ = made.scrub("mine", {"mine": [secret, "fine"], "long": f"{'x ' * 400}{secret}"})
        assert secret not in str(scrubbed) and "fine" in str(scrubbed)
    off = Redactor(exact=[secret], enabled=False)
    assert "password=hunter2hunter2" == off.mask("password=hunter2hunter2")
    assert ({"password": "hunter2hunter2"}, []) == off.scrub("x", {"password": "hunter2hunter2"})


def test_no_group_is_possessive() -> None:
    """Python 3.11.2 misses matches of such a group: private keys and quoted passwords were kept in clear."""
    with open(redactor_module.__file__, encoding="utf-8") as file:
        assert [] == re.findall(r".*\)(?:[*+?]|\{[\d,]+\})\+.*", file.read())
