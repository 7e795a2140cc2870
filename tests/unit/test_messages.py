"""tools/messages.py finds the messages of all errors and findings."""

from __future__ import annotations

import pytest

from leftoff.engine.findings import CODES
from tools import messages


def test_every_code_is_explained() -> None:
    """Each error and each finding has a section."""
    page = messages.render()
    codes = [*CODES, *(one.code for one in messages.CLASSES.values())]
    assert [] == [code for code in codes if f"# {code}\n" not in page]


@pytest.mark.parametrize(
    "line",
    [
        "- `leftoff {verb}` needs {usage}.",  # by a function that gives back an error
        "- {path}:{line}:{column}: not UTF-8 text<br>*Save the file as UTF-8.*",  # of a file
        "- a step without an `id`<br>",  # collected while a workflow file is read
    ],
)
def test_messages_are_found_wherever_they_are_made(line: str) -> None:
    """Raised, given back by a function, or collected."""
    assert any(found.startswith(line) for found in messages.render().splitlines())
