"""The picture in the README shows what the command prints today."""

from __future__ import annotations

import re

from tools import pictures

TIMES = re.compile(
    r"\bjust now\b|(\b\d+(\.\d+)? ?(ms|s|min|h|m|seconds?|minutes?)\b ?)+(ago)?|-\d{8}-\d{6}\b"
)


def told(text: str) -> list[list[str]]:
    """The words of each line, without ids, times, and the width that they take."""
    return [TIMES.sub("… ", line).split() for line in text.splitlines() if line.strip()]


def test_the_picture_is_what_a_terminal_shows() -> None:
    """Line by line, but for ids and times, which may push a word out; else `make pictures` draws it again."""
    now = told(pictures.words_of(pictures.draw(pictures.play())))
    then = told(pictures.words_of(pictures.PICTURE.read_text()))
    shown = [words[: max(len(line), len(words) - 1)] for line, words in zip(now, then, strict=True)]
    assert shown == now, "run: make pictures"


def test_the_readme_shows_it() -> None:
    """With words for those who do not see it; it loads nothing from elsewhere."""
    assert re.search(
        rf"!\[[^\]]{{20,}}\]\(docs/pictures/{pictures.PICTURE.name}\)", pictures.README.read_text()
    )
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", pictures.PICTURE.read_text())
