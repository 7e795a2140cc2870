"""How a secret that is known by its value may be met: as it is, line by line, and as programs write it in quotes."""

from __future__ import annotations

LINE = 8  # characters of a line that is taken for a part of a secret, and not for a brace


def forms_of(secret: str) -> set[str]:
    """The secret, and each line of one that has several; each of these as JSON, Python and a shell quote it."""
    found = {secret}
    if "\n" in secret:
        found.update(line for line in map(str.strip, secret.split("\n")) if len(line) >= LINE)
    return found.union(*map(_quoted, found))


def _quoted(text: str) -> set[str]:
    """Without the quotes around it."""
    if text.isascii() and text.isprintable() and not {"'", '"', "\\"} & set(text):
        return set()  # the same everywhere
    from json import dumps

    return {
        dumps(text)[1:-1],
        dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        text.replace("'", "'\\''"),
        text.replace("'", "'\"'\"'"),
    }
