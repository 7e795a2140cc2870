"""`leftoff demo`: what it tells is true, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.cli.command import LEFTOFF, environment, succeed


def stripped(part: str) -> list[str]:
    """The lines below a part's heading, with single spaces."""
    return [" ".join(line.split()) for line in part.splitlines()[1:] if line.strip()]


def test_tells_the_truth(project: Path) -> None:
    """Killed in the third step, resumed there, steps one and two not run again."""
    result = succeed("demo", cwd=project, TMPDIR=str(project))
    parts = re.split(r"^(?=\d  )", result.out, flags=re.MULTILINE)
    assert ["fetch running", "clean running", "analyse running"] == stripped(parts[1])[:3]
    assert re.fullmatch(r"kill -9 process \d+", stripped(parts[1])[3])
    states = [line.split()[:2] for line in stripped(parts[2])[1:]]
    assert [["fetch", "completed"], ["clean", "completed"], ["analyse", "running"]] == states[:3]
    again = "done before, not run again"
    run = ["analyse running", "draft running", "publish running"]
    assert [f"fetch {again}", f"clean {again}", *run] == stripped(parts[3])
    times = ["fetch 1 time", "clean 1 time", "analyse 2 times", "draft 1 time", "publish 1 time"]
    assert times == stripped(parts[4])
    sealed = re.findall(r"step_complete +(\w+)", parts[5])
    assert ["publish", "draft", "analyse", "clean", "fetch"] == sealed
    assert "~ pages: 40 → 50" in stripped(parts[6])
    assert ("", []) == (result.err, list(project.iterdir()))


def test_as_a_document_it_touches_no_project_of_yours(project: Path) -> None:
    """With --json, one document and nothing else. Neither the store here nor the one in the environment is used."""
    run = succeed("start", "mine", cwd=project).out.strip()
    elsewhere = project / "elsewhere"
    env = {"LEFTOFF_STORE": str(elsewhere), "LEFTOFF_RUN": run, "LEFTOFF_SESSION": "s"}
    facts = succeed("demo", "--json", cwd=project, **env).json
    assert facts["ok"] and "completed" == facts["status"]
    assert ["fetch", "clean", "analyse", "analyse", "draft", "publish"] == facts["ran"]
    assert ["fetch", "clean", "analyse", "draft", "publish"] == [c["step"] for c in facts["checkpoints"]]
    assert not elsewhere.exists()
    assert [run] == [r["run_id"] for r in succeed("ls", "--all", "--json", cwd=project).json["runs"]]


def test_a_reader_that_had_enough(project: Path) -> None:
    """`leftoff demo | head -1` ends in peace, and its folder is removed all the same."""
    command = f"set -o pipefail; {LEFTOFF} demo | head -2"
    import subprocess

    env = environment(TMPDIR=str(project))
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env=env, capture_output=True, text=True, timeout=60
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert [] == os.listdir(project)


def test_on_the_page(project: Path) -> None:
    """With --serve it is shown in a browser afterwards, until Ctrl-C; then nothing is left."""
    command = [str(LEFTOFF), "demo", "--serve", "--json"]
    env = environment(TMPDIR=str(project), BROWSER="true")
    with subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None and json.loads(demo.stdout.readline())["ok"]
        url = json.loads(demo.stdout.readline())["url"]
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"weekly-report" in opened.open(url).read()
        demo.send_signal(signal.SIGINT)
    assert (130, []) == (demo.returncode, list(project.iterdir()))
