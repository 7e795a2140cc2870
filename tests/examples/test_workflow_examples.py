"""Every workflow among the examples: undisturbed, and killed half way and resumed. Each step writes to a journal."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import LEFTOFF, call, environment, succeed

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the workflow files in it, and nothing else."""
    for path in EXAMPLES.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    return tmp_path


def journal(here: Path) -> list[str]:
    return (here / "journal.txt").read_text(encoding="utf-8").splitlines()


def kill_when(here: Path, name: str, step: str) -> None:
    """Start a workflow, and kill -9 its driver as soon as it says that a step has started."""
    command = [str(LEFTOFF), "run", name, "--json"]
    with subprocess.Popen(command, cwd=here, env=environment(), stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "step_start" and event["step"].startswith(step):
                driver.send_signal(signal.SIGKILL)
                break
    assert -signal.SIGKILL == driver.returncode


def test_every_workflow_is_tested() -> None:
    """An example without a test here is an error."""
    tested = set(re.findall(r'"(\w+\.yaml)"', Path(__file__).read_text(encoding="utf-8")))
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == tested


@pytest.mark.parametrize("killed", [False, True])
def test_story(here: Path, killed: bool) -> None:
    """Steps one after the other; what was finished before the kill does not run again."""
    if killed:
        kill_when(here, "story.yaml", "draft")
        succeed("resume", cwd=here)
    else:
        succeed("run", "story.yaml", cwd=here)
    assert ["research", "outline", "draft", "print"] == journal(here)
    assert (here / "story/page.md").read_text(encoding="utf-8").endswith('-- O\'Brien & "daughters"\n')
    run = succeed("show", "latest", "--json", cwd=here).json
    assert ("completed", 3, True) == (
        run["status"],
        run["variables"]["facts"],
        run["records"]["criterion"]["has_every_fact"]["met"],
    )


@pytest.mark.parametrize("killed", [False, True])
def test_fanout(here: Path, killed: bool) -> None:
    """One step becomes many; after the kill each picture is still converted once."""
    if killed:
        kill_when(here, "fanout.yaml", "convert/thumbnails/pictures%2Fpier.txt")
        succeed("resume", cwd=here)
    else:
        succeed("run", "fanout.yaml", cwd=here)
    pictures = ["harbour", "market", "old town", "pier", "tower"]
    expected = ["captions", "collect", "index", *(f"thumbnail of {name}" for name in pictures)]
    assert expected == sorted(journal(here))
    index = (here / "index.txt").read_text(encoding="utf-8").splitlines()
    assert [*(f"thumbs/{name}.txt" for name in pictures), "sizes: small and large"] == index


@pytest.mark.parametrize("killed", [False, True])
def test_approval(here: Path, killed: bool) -> None:
    """It finishes what it can, waits for people, and goes on when they have decided; nothing runs twice."""
    if killed:
        kill_when(here, "approval.yaml", "tidy")
        assert 7 == call("resume", cwd=here).code
    else:
        assert 7 == call("run", "approval.yaml", cwd=here).code
    assert ["notes", "tidy"] == journal(here)
    assert "read-aloud" == succeed("next", "--json", cwd=here).json["step"]
    succeed("approve", "release", "sign-off", "--choice", "publish", cwd=here)
    succeed("step", "done", "read-aloud", cwd=here)
    succeed("resume", cwd=here)
    assert ["notes", "tidy", "publish"] == journal(here)
    assert "Version 2: the lighthouse is lit.\n" == (here / "published.txt").read_text(encoding="utf-8")


def test_approval_rejected(here: Path) -> None:
    """A rejection stands: nothing after it runs, and the run has failed once no step waits for a person. Going back to
    the step asks again."""
    assert 7 == call("run", "approval.yaml", cwd=here).code
    succeed("reject", "release", "sign-off", "--note", "not yet", cwd=here)
    assert 7 == call("resume", cwd=here).code
    succeed("step", "done", "read-aloud", cwd=here)
    assert 1 == call("resume", cwd=here).code
    assert 7 == call("resume", "--from-step", "sign-off", "--yes", cwd=here).code
    assert "waiting" == succeed("get", "step/sign-off", "--json", cwd=here).json["status"]
    assert not (here / "published.txt").exists()


def test_matrix(here: Path) -> None:
    """Every combination once; then only what changed."""
    succeed("run", "matrix.yaml", cwd=here)
    assert ["version", "list"] == [line for line in journal(here) if "build" not in line]
    assert ["linux large 1", "linux small 1", "mac large 1", "mac small 1"] == sorted(
        (here / "list.txt").read_text(encoding="utf-8").splitlines()
    )
    succeed("run", "matrix.yaml", "--reuse", cwd=here)
    assert 6 == len(journal(here))
    (here / "list.txt").unlink()
    succeed("run", "matrix.yaml", "--reuse", cwd=here)
    assert (6, True) == (len(journal(here)), (here / "list.txt").exists())
