"""The table in somebody else's page: only its lines are ours."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.operations.protocols.status_page import keep_current, replaced
from tests.cli.command import PATIENCE, succeed

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


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """Whoever comes second looks at the runs only after the first has written: the last to write has seen most."""
    page, order, inside = tmp_path / "STATUS.md", list[str](), threading.Event()

    def slow() -> str:
        inside.set()
        time.sleep(0.2)
        order.append("first")
        return "| first |"

    def quick() -> str:
        order.append("second")
        return "| second |"

    first = threading.Thread(target=keep_current, args=(str(page), slow))
    first.start()
    assert inside.wait(PATIENCE)
    assert keep_current(str(page), quick)
    first.join()
    assert ["first", "second"] == order
    assert "| second |" in page.read_text()


def test_what_is_saved_meanwhile_is_kept(tmp_path: Path) -> None:
    """Somebody saves the page between our reading and our writing it: their text is in it afterwards."""
    page = tmp_path / "STATUS.md"
    page.write_text("# Old\n")
    texts = iter(["# New, and longer\n", None])

    def make() -> str:
        text = next(texts)
        if text is not None:
            page.write_text(text)
        return "| x |"

    assert keep_current(str(page), make)
    assert "# New, and longer\n\n## Active Checkpoints\n\n| x |\n" == page.read_text()
    assert ["STATUS.md"] == [path.name for path in tmp_path.iterdir()]
    assert not keep_current(str(page), lambda: "| x |")


@pytest.mark.usefixtures("trusted")
def test_a_page_that_is_a_link(tmp_path: Path) -> None:
    """Nothing is written through it, wherever it leads; that is said, and no verb fails."""
    (tmp_path / "project/sub").mkdir(parents=True)
    project, real = tmp_path / "project", tmp_path / "real.md"
    real.write_text("mine")
    (project / "link.md").symlink_to(real)
    (project / "way").symlink_to("sub")
    for page in ("link.md", "way/STATUS.md"):
        (project / "leftoff.toml").write_text(f'[status]\nfile = "{page}"\n')
        assert "symbolic link" in succeed("start", "w", cwd=project).err
    assert ("mine", []) == (real.read_text(), list((project / "sub").iterdir()))
