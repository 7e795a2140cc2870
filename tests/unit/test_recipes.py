"""What the pages give to others to run, a unit for systemd and a workflow for GitHub Actions, does what they say."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml

from leftoff.cli.options import parse_words, spec_of
from tests.cli.command import call, succeed
from tests.unit.test_docs import ROOT, blocks

FLOW = """name: pages
steps:
  - {id: collect, run: 'echo collected > pages.txt', outputs: [pages.txt]}
  - {id: build, run: 'cat pages.txt > site.txt', inputs: [pages.txt], outputs: [site.txt]}
"""


def block(page: str, language: str) -> str:
    """The only block of a language on a page."""
    (text,) = [text for kind, _, text in blocks((ROOT / "docs" / page).read_text()) if kind == language]
    return text


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    """It is a unit that systemd accepts, which starts the verb in the project, and ends only that."""
    text = block("how-to/supervise.md", "ini")
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    assert ["Unit", "Service", "Install"] == unit.sections()
    command, verb, *words = shlex.split(unit["Service"]["ExecStart"])
    assert ("%h/.local/bin/leftoff", "supervise") == (command, verb)
    assert parse_words(spec_of(verb), words).restart
    assert ("process", "on-failure") == (unit["Service"]["KillMode"], unit["Service"]["Restart"])
    if shutil.which("systemd-analyze") is not None:
        here = text.replace("%h/pages", str(tmp_path)).replace(command, str(Path(sys.executable)))
        (tmp_path / "leftoff-pages.service").write_text(here)
        tried = ["systemd-analyze", "verify", "--user", "--man=no", str(tmp_path / "leftoff-pages.service")]
        done = subprocess.run(tried, capture_output=True, text=True, timeout=60)
        assert [] == [line for line in (done.stdout + done.stderr).splitlines() if "leftoff-pages" in line]


def commands_of(job: dict[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """The steps of a job that run something, each with its words."""
    return [(step, shlex.split(step["run"])) for step in job["steps"] if "run" in step]


def test_the_workflow_of_github(project: Path) -> None:
    """Each line that it runs is run here, in two jobs: the second takes everything from the first."""
    workflow = yaml.safe_load(block("how-to/ci.md", "yaml"))
    (job,) = workflow["jobs"].values()
    cache = next(step for step in job["steps"] if str(step.get("uses")).startswith("actions/cache@"))
    assert ".leftoff" == cache["with"]["path"]
    (_, install), *steps = commands_of(job)
    assert ["pip", "install", "leftoff"] == install
    (project / "flow.yaml").write_text(FLOW)
    said = []
    for _ in range(2):
        for step, (program, *words) in steps:
            assert "leftoff" == program
            if step.get("if") != "failure()":
                said.append(succeed(*words, cwd=project, **step.get("env", {})).out)
        (project / "site.txt").unlink()  # the next job has a fresh checkout, and the store from the cache
    assert (0, 2) == (said[1].count(": done: reused from "), said[3].count(": done: reused from ")), said[3]


def test_the_workflow_of_github_shows_what_failed(project: Path) -> None:
    """After a failure, its last line prints what the failed step printed."""
    workflow = yaml.safe_load(block("how-to/ci.md", "yaml"))
    (job,) = workflow["jobs"].values()
    (project / "flow.yaml").write_text("name: pages\nsteps:\n  - {id: build, run: 'echo no paper; exit 3'}\n")
    codes = []
    for step, (_, *words) in commands_of(job)[1:]:
        done = call(*words, cwd=project, **step.get("env", {}))
        codes.append(done.code)
    assert [0, 1, 0] == codes
    assert "no paper" in done.out
