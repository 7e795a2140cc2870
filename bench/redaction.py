"""How often redaction is wrong: ordinary data under ambiguous names that it takes, credentials that it misses.

    python -m bench.redaction [--list]

The ordinary data is what language models and text processing make: tokens in several languages, word pieces, labels,
short sentences, numbers. It stands under the names that a credential may have, too. The credentials are made here, in
the shapes that services issue, from a fixed seed; none is real. Each stands where it would in a result: under a name
that says nothing, in a longer text, and (those without a shape of their own) under a credential's name.
"""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Iterator

from leftoff.engine.redactor import Redactor

NAMES = ("token", "secret", "cookie", "auth", "access_token", "next_token", "tokens")
AMBIGUOUS = NAMES[:4]

PROSE = """The quick brown fox doesn't jump over the lazy dog; it's 25 °C, i.e. 77 °F, at 14:30 on 2026-11-19. Attention
is all you need: transformers use self-attention (Vaswani et al., 2017). "Hello," she said, "this costs $3.50 or €3,20."
U.S. e-mail re-use state-of-the-art don't I'll we've 1,234,567 3.14 50% #hashtag @mention C++ F# A/B AT&T rock'n'roll
naïve café Straße Ångström über façade résumé jalapeño Zürich smørrebrød Łódź İstanbul Привет мир Добрый день
Γειά σου Κόσμε 東京 は 日本 の 首都 です 你好 世界 안녕하세요 세계 مرحبا بالعالم שלום עולם नमस्ते दुनिया สวัสดี ชาวโลก
McDonald iPhone eBay PDFs NASA COVID-19 GPT-4 BERT-base word2vec Wi-Fi 4K H2O CO2 PyTorch JavaScript GitHub"""
PIECES = """Ġthe Ġof ing ##ed ##ly ▁und ▁der ▁den tion ment Ċ ĠThe Ġ2026 ## [CLS] [SEP] [MASK] [PAD] [UNK] <s> </s>
<pad> <unk> <eos> <bos> <|endoftext|> <|im_start|> <|im_end|> <|user|> <|assistant|> <extra_id_0> ▁ Ġ ĠI 've
n't 's ... — – “ ” « » , . ; : ! ? ( ) [ ] { } / \\ | - _ + = * & ^ % $ # @ ~ ` ' " 0 1 42 007 1st 2nd 1990s
3e-5 -1 +1 1/2"""
LABELS = """DET NOUN VERB ADJ ADP PUNCT PROPN AUX SCONJ CCONJ B-PER I-PER B-ORG I-LOC O NN NNS VBD VBZ PRP$ WP nsubj
dobj root POSITIVE NEGATIVE neutral spam ham en de fr zh-Hans pt-BR true false yes no none basic bearer
digest oauth2 jwt session accepted rejected expired missing required optional strict lax None chocolate-chip
vanilla oatmeal password key"""
PLAIN = """The access token has expired. | Her secret was safe with him. | He ate the last cookie. | Please log in
again. | A token is a unit of text. | auth required | Sign in with Google | accept all cookies | unexpected
end of input | I don't know."""


def ordinary() -> Iterator[str]:
    """Each word of the lists as a tokenizer may give it, sentences, numbers, and ids that count."""
    for word in dict.fromkeys(f"{PROSE} {PIECES} {LABELS}".split()):
        yield from dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))
    yield from (sentence.strip() for sentence in PLAIN.replace("\n", " ").split("|"))
    yield from map(str, (*range(200), *range(1000, 60_000, 137)))
    yield from (f"{number / 7:.4f}" for number in range(200))


def credentials() -> Iterator[tuple[str, str]]:
    """The kind and the text of each, twenty of a kind."""
    made = random.Random(42)
    letters, mixed = string.ascii_letters + string.digits, string.ascii_letters + string.digits + "-_"
    upper = string.ascii_uppercase + string.digits

    def chars(alphabet: str, size: int) -> str:
        return "".join(made.choices(alphabet, k=size))

    def one() -> Iterator[tuple[str, str]]:
        yield "AWS access key id", "AKIA" + chars(upper, 16)
        yield "AWS secret key, named", "aws_secret_access_key = " + chars(letters + "/+", 40)
        yield "GitHub token", f"gh{made.choice('pousr')}_" + chars(letters, 36)
        yield "GitHub fine-grained token", f"github_pat_{chars(letters, 22)}_{chars(letters, 59)}"
        yield "GitLab token", "glpat-" + chars(mixed, 20)
        yield "Anthropic key", f"sk-ant-api03-{chars(mixed, 93)}AA"
        yield "OpenAI key", "sk-" + chars(letters, 48)
        yield "OpenAI project key", "sk-proj-" + chars(mixed, 74)
        yield "OpenRouter key", "sk-or-v1-" + chars("0123456789abcdef", 64)
        yield (
            "Slack bot token",
            f"xoxb-{chars(string.digits, 12)}-{chars(string.digits, 12)}-{chars(letters, 24)}",
        )
        yield (
            "Slack webhook",
            f"https://hooks.slack.com/services/T{chars(upper, 8)}/B{chars(upper, 8)}/{chars(letters, 24)}",
        )
        yield "Google API key", "AIza" + chars(mixed, 35)
        yield "Google OAuth token", "ya29." + chars(mixed, 120)
        yield "Google client secret", "GOCSPX-" + chars(mixed, 28)
        yield "Stripe key", f"{made.choice('sr')}k_live_" + chars(letters, 24)
        yield "npm token", "npm_" + chars(letters, 36)
        yield "PyPI token", "pypi-AgEIcHlwaS5vcmc" + chars(mixed, 140)
        yield "Hugging Face token", "hf_" + chars(letters, 34)
        yield "Groq key", "gsk_" + chars(letters, 52)
        yield "DigitalOcean token", "dop_v1_" + chars("0123456789abcdef", 64)
        yield "SendGrid key", f"SG.{chars(mixed, 22)}.{chars(mixed, 43)}"
        yield (
            "Discord webhook",
            f"https://discord.com/api/webhooks/{chars(string.digits, 18)}/{chars(mixed, 68)}",
        )
        yield "JWT", f"eyJ{chars(mixed, 33)}.eyJ{chars(mixed, 70)}.{chars(mixed, 43)}"
        yield "age key", "AGE-SECRET-KEY-1" + chars(upper, 58)
        yield "Azure storage key", f"AccountName=x;AccountKey={chars(letters + '/+', 86)}=="
        yield (
            "private key",
            f"-----BEGIN PRIVATE KEY-----\n{chars(letters, 64)}\n{chars(letters, 64)}\n-----END PRIVATE KEY-----",
        )
        yield "password in a URL", f"postgres://app:{chars(letters, 16)}@db.example.com:5432/app"
        yield "bearer header", "Authorization: Bearer " + chars(mixed, 40) + "7"
        yield "Twilio key", "SK" + chars("0123456789abcdef", 32)
        yield "Mailgun key", "key-" + chars("0123456789abcdef", 32)
        yield "Telegram bot token", f"{chars(string.digits, 10)}:AA{chars(mixed, 33)}"
        yield "Databricks token", "dapi" + chars("0123456789abcdef", 32)

    for _ in range(20):
        yield from one()


def unnamed() -> Iterator[tuple[str, str]]:
    """Secrets without a shape, which only their name gives away."""
    made = random.Random(7)
    for _ in range(200):
        yield "random password", "".join(made.choices(string.ascii_letters + string.digits + "!%+#", k=14))
        yield "random hex", "".join(made.choices("0123456789abcdef", k=40))
        yield "session id", "".join(made.choices(string.ascii_letters + string.digits, k=26))
    yield from (
        ("word as a password", word) for word in ("hunter2", "swordfish", "correct horse battery staple")
    )


def main(argv: list[str]) -> int:
    redactor, shown = Redactor(), "--list" in argv
    words = list(dict.fromkeys(ordinary()))
    for name in NAMES:
        taken = [word for word in words if redactor.scrub("doc", [{name: word}])[1]]
        if name == "access_token":
            continue  # no ambiguous name: everything under it is a secret, on purpose
        print(f"false positives under {name!r}: {len(taken)} of {len(words)} ({len(taken) / len(words):.2%})")
        if shown:
            print("   ", " ".join(map(repr, taken)))
    wrong = [word for word in words if redactor.scrub("doc", [{"text": word}])[1]]
    print(f"false positives under 'text': {len(wrong)} of {len(words)}")
    missed: dict[str, int] = {}
    total = 0
    for kind, text in credentials():
        for value in (text, f"The call failed with {text} as its key.", f"line one\n{text}\nline three"):
            total += 1
            clean, _ = redactor.scrub("doc", {"value": value})
            if clean == {"value": value}:
                missed[kind] = missed.get(kind, 0) + 1
    print(f"credentials with a shape that were missed: {sum(missed.values())} of {total}")
    for kind, count in missed.items():
        print(f"    {kind}: {count} of 60")
    for names in (("password", "api_key", "access_token"), AMBIGUOUS):
        left: dict[str, list[int]] = {}
        for kind, text in unnamed():
            for name in names:
                found = left.setdefault(kind, [0, 0])
                found[0] += not redactor.scrub("doc", {name: text})[1]
                found[1] += 1
        print(f"secrets without a shape that were missed under {', '.join(names)}:")
        for kind, (count, of) in left.items():
            print(f"    {kind}: {count} of {of}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
