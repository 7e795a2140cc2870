"""Every example runs as its first line says, alone, in an empty folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import leftoff

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an example in the current folder."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
    )


def succeeded(result: subprocess.CompletedProcess[str]) -> str:
    """What it printed, given that it ended well and had nothing to complain about."""
    said = re.sub(
        r"^leftoff: continuing [\w-]+, last active .+, \d+ of \d+ steps done\.\n", "", result.stderr
    )
    assert (0, "") == (result.returncode, said)
    return result.stdout


def test_every_example_is_tested() -> None:
    """An example without a test here is an error."""
    tested = set(re.findall(r'run_example\("(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_convert_pdfs(project: Path) -> None:
    """Undisturbed, it does each thing once and completes its run."""
    lines = succeeded(run_example("convert_pdfs.py")).splitlines()
    conversions = [f"converting inbox/{name}.pdf" for name in "abcd"]
    assert ["collecting", *conversions, "publishing", "4 files converted, see site/index.md"] == lines
    assert "# the a trail\n# the b trail\n# the c trail\n# the d trail\n" == Path("site/index.md").read_text()
    with leftoff.open(".leftoff") as store:
        assert ["completed"] == [run.status for run in store.list()]


def test_convert_pdfs_killed_half_way(project: Path) -> None:
    """Killed in the third of four files, it goes on with the third, in the same run."""
    killed = run_example("convert_pdfs.py", KILL_AT="inbox/c.pdf")
    assert -signal.SIGKILL == killed.returncode
    assert ["collecting", *(f"converting inbox/{name}.pdf" for name in "abc")] == killed.stdout.splitlines()

    lines = succeeded(run_example("convert_pdfs.py")).splitlines()
    again = ["converting inbox/c.pdf", "converting inbox/d.pdf"]
    assert [*again, "publishing", "4 files converted, see site/index.md"] == lines
    assert ["a.md", "b.md", "c.md", "d.md"] == sorted(page.name for page in Path("pages").iterdir())
    with leftoff.open(".leftoff") as store:
        assert ["completed"] == [run.status for run in store.list()]


def test_crawl(project: Path) -> None:
    """Undisturbed, it fetches each page once and completes its run."""
    told = succeeded(run_example("crawl.py")).splitlines()
    pages = ["/", "/a", "/a/1", "/a/2", "/b", "/c"]
    assert ([f"fetching {page}" for page in pages], "6 pages, see index.txt") == (sorted(told[:-1]), told[-1])
    assert pages == sorted(line.partition(":")[0] for line in Path("index.txt").read_text().splitlines())
    with leftoff.open(".leftoff") as store:
        assert [("crawl", "completed")] == [(run.workflow, run.status) for run in store.list()]


def test_crawl_killed_half_way(project: Path) -> None:
    """Killed while it fetches a page, it goes on in the same run, and fetches nothing again that it has."""
    killed = run_example("crawl.py", KILL_AT="/b")
    assert -signal.SIGKILL == killed.returncode
    with leftoff.open(".leftoff") as store:
        steps = store.get("crawl").steps
        have = {
            step["args"]["url"]
            for step in steps.values()
            if step["status"] == "completed" and "url" in step["args"]
        }
    assert "/" in have and "/b" not in have

    told = succeeded(run_example("crawl.py")).splitlines()
    assert {"fetching /b", "fetching /c"} <= set(told)
    assert not have & {line.removeprefix("fetching ") for line in told}
    assert "6 pages, see index.txt" == told[-1]
    with leftoff.open(".leftoff") as store:
        assert ["completed"] == [run.status for run in store.list()]


def test_time_travel(project: Path) -> None:
    """History, reading back, diff, rollback and fork say what happened."""
    told = succeeded(run_example("time_travel.py"))
    triggers = re.findall(r"^  [0-9a-f]{12}  (\w+)", told, re.MULTILINE)
    assert ["step_complete", "manual", "step_complete", "step_complete"] == triggers[:4]
    assert "now        NATURE TRAIL!!!, 40 words\nback then  Nature trail, 1800 words\n" in told
    assert "  title: 'Nature trail' became 'NATURE TRAIL!!!'\n  words: 1800 became 40\n" in told
    assert "rolled back to Nature trail, polished: no\n" in told
    assert told.endswith("on try-b   A quiet trail\non main    Nature trail\n")
