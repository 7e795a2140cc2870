"""The pages are tested: what they show runs, and what they link to exists.

In README.md and docs/, a block whose first line names a file (`# flow.yaml`) is written there. Any other `python` block
runs as part of one session per page, from top to bottom, in an empty project; a `console` block runs each line that
starts with `$ ` there, and the lines below it are what must be printed (`...` stands for any text). Blocks of any other
kind, such as `sh` or `text`, are only shown.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import succeed

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.\w+)\n")
LINK = re.compile(r'(?:\]\(|(?:src|href|srcset)=")([^)\s"]+)')
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def page_name(page: Path) -> str:
    """How a page is called in a test's id."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """The language, first line number and text of each fenced block."""
    for match in FENCE.finditer(text):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


RUN = [page for page in PAGES if re.search("^```(python|console)", page.read_text(), re.MULTILINE)]
BY_A_SHELL = re.compile(r"[|&;<>$`*?~(){}\n]")


@pytest.mark.parametrize("page", RUN, ids=page_name)
def test_blocks_run(page: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pastes a page's blocks gets what the page says."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    logger, handlers = logging.getLogger("leftoff"), logging.root.handlers[:]
    session: dict[str, object] = {"__name__": "__main__"}
    for language, line, text in blocks(page.read_text()):
        if named := FILE.match(text):
            (project / named[1]).write_text(text)
        elif language == "python":
            exec(compile("\n" * line + text, str(page), "exec", dont_inherit=True), session)
        elif language == "console":
            run_console(text, project)
    logger.setLevel(logging.NOTSET)
    logging.root.handlers[:] = handlers


def run_console(text: str, folder: Path) -> None:
    """Run each `$` line of a block, and compare with what is written below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        out = run_command(command, folder)
        if expected.strip():
            pattern = re.escape(expected.rstrip()).replace(re.escape("..."), ".*")
            assert re.fullmatch(pattern, out.rstrip(), re.DOTALL), f"{command}\n{out}"


def run_command(command: str, folder: Path) -> str:
    """What it prints."""
    name, *words = shlex.split(command, comments=True)
    if name == "leftoff" and not BY_A_SHELL.search(command):
        return succeed(*words, cwd=folder).out
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert 0 == result.returncode, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of this project, and every anchor a heading of that page.

    The site has only what is in docs/, so a page in there links to no file outside.
    """
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / name).resolve() if name else page
        inside = (ROOT / "docs") not in page.parents or (ROOT / "docs") in file.parents
        if not file.exists() or not inside or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert [] == broken


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}
