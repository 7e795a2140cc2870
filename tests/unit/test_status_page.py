"""The table in somebody else's page: only its lines are ours."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from leftoff.protocols.status_table import keep_current, replaced
from tests.cli.command import PATIENCE, succeed

TITLE, TABLE = "## Active Checkpoints", "| Agent |\n|---|\n| x |"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{TITLE}\n\n{TABLE}\n"),
        ("# A", f"# A\n\n{TITLE}\n\n{TABLE}\n"),
        (TITLE, f"{TITLE}\n\n{TABLE}\n"),
        (f"{TITLE}\n# B\n", f"{TITLE}\n\n{TABLE}\n\n# B\n"),
        ("## active checkpoints ##\n\n|o|\n|o|\n\nz", f"## active checkpoints ##\n\n{TABLE}\n\nz"),
        (f"{TITLE}\n\nsaid\n\n| old |", f"{TITLE}\n\nsaid\n\n{TABLE}"),
        (f"{TITLE}\r\n| o |\r\nz\r\n", f"{TITLE}\n{TABLE}\nz\n".replace("\n", "\r\n")),
        (f"```\n{TITLE}\n| c |\n```\n", f"```\n{TITLE}\n| c |\n```\n\n{TITLE}\n\n{TABLE}\n"),
        (f"{TITLE}\n## C\n| c |\n", f"{TITLE}\n\n{TABLE}\n\n## C\n| c |\n"),
    ],
)
def test_where_it_goes(before: str, after: str) -> None:
    """Under its heading, in place of the first table there; at the end, with the heading, where that is missing."""
    assert after == replaced(before, TABLE.split("\n"))
    assert after == replaced(after, TABLE.split("\n"))


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
