"""The table in somebody else's page: only its lines are ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.engine.board import replaced

TABLE = b"| Agent |\n|---|\n| x |"
PIECES = [
    b"text\n",
    b"\n",
    b"text\r\n",
    b"\xff\xfe\n",
    b"# Top\n",
    b"### Below\n",
    b"```\n## Active Checkpoints\n| a |\n```\n",
    b"~~~\n| b |\n~~~\n",
]
OTHER = st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"## Active Checkpoints\n\n" + TABLE + b"\n"),
        (b"# A\n", b"# A\n\n## Active Checkpoints\n\n" + TABLE + b"\n"),
        (b"# A", b"# A\n\n## Active Checkpoints\n\n" + TABLE + b"\n"),
        (b"## Active Checkpoints", b"## Active Checkpoints\n\n" + TABLE + b"\n"),
        (b"## Active Checkpoints\n# B\n", b"## Active Checkpoints\n\n" + TABLE + b"\n\n# B\n"),
        (b"## Active Checkpoints\n\n# B\n", b"## Active Checkpoints\n\n" + TABLE + b"\n\n# B\n"),
        (b"## active checkpoints ##\n\n|o|\n|o|\n\nz", b"## active checkpoints ##\n\n" + TABLE + b"\n\nz"),
        (b"## Active Checkpoints\n\nsaid\n\n| old |", b"## Active Checkpoints\n\nsaid\n\n" + TABLE),
        (
            b"## Active Checkpoints\r\n| o |\r\nz\r\n",
            b"## Active Checkpoints\r\n" + TABLE.replace(b"\n", b"\r\n") + b"\r\nz\r\n",
        ),
        (
            b"## Active Checkpoints\n| o |\n```\n| c |\n```\n",
            b"## Active Checkpoints\n" + TABLE + b"\n```\n| c |\n```\n",
        ),
        (
            b"## Active Checkpoints\n## C\n| c |\n",
            b"## Active Checkpoints\n\n" + TABLE + b"\n\n## C\n| c |\n",
        ),
    ],
)
def test_where_it_goes(before: bytes, after: bytes) -> None:
    """Under its heading, in place of the first table there; at the end, with the heading, where that is missing."""
    assert after == replaced(before, TABLE)


@given(OTHER, OTHER)
def test_the_rest_stays(above: bytes, below: bytes) -> None:
    """Whatever is above and below stays byte for byte, and doing it again changes nothing."""
    page = above + b"## Active Checkpoints\n\n| old |\n| rows |\n\n" + below
    now = replaced(page, TABLE)
    assert above + b"## Active Checkpoints\n\n" + TABLE + b"\n\n" + below == now
    assert now == replaced(now, TABLE)


@given(OTHER)
def test_it_settles(page: bytes) -> None:
    """Whatever the page was, after the first time only the table changes."""
    once = replaced(page, TABLE)
    assert once == replaced(once, TABLE)
    assert once.startswith(page)
