"""The animation in the README. `make pictures` records it with the real Claude Code, which takes npm and a network."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.command import succeed
from tools import pictures


def test_the_picture_shows_the_words_of_today(project: Path) -> None:
    """The labels that `leftoff status` prints are in the picture; else `make pictures` draws it again."""
    succeed("start", "trail", cwd=project)
    printed = succeed("status", cwd=project).out
    words = re.findall(r"^([a-z]+)  ", printed, re.MULTILINE)
    assert len(words) > 2
    assert set(words) <= set(pictures.words_of(pictures.PICTURE.read_text()).split()), "run: make pictures"


def test_the_readme_shows_it() -> None:
    """With a text for readers who cannot see it. It loads nothing, and shows one frame if nothing moves."""
    alt = rf"!\[[^\]]{{20,}}\]\(docs/pictures/{pictures.PICTURE.name}\)"
    svg = pictures.PICTURE.read_text()
    assert re.search(alt, pictures.README.read_text())
    assert not re.search(r"url\(|href|<script|@import|https?://(?!www\.w3\.org/2000/svg)", svg)
    assert re.findall(r'<g id="(\w+)">', svg) == [pictures.POSTER]
