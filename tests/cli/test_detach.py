"""`leftoff run --detach`: in the background once its run has begun."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.command import call, succeed
from tests.workflow.desk import wait_for

FLOW = "name: d\nsteps:\n  - {id: a, run: 'echo hello; while [ ! -e on ]; do sleep 0.02; done'}\n"


def status(place: Path) -> str:
    return str(succeed("show", "latest", "--json", cwd=place).json["status"])


def test_it_goes_on_alone(tmp_path: Path) -> None:
    """The id is printed while the run goes on; others follow it; it ends by itself."""
    (tmp_path / "f.yaml").write_text(FLOW)
    done = succeed("run", "f.yaml", "--detach", cwd=tmp_path)
    run_id = done.out.strip()
    (run,) = succeed("ls", "--json", cwd=tmp_path).json["runs"]
    assert (run_id, "running", "alive") == (run["run_id"], run["status"], run["health"])
    assert f"leftoff stop {run_id}" in done.err
    (tmp_path / "on").touch()
    assert "hello" in succeed("logs", run_id, "-f", cwd=tmp_path).out
    wait_for(lambda: status(tmp_path) == "completed", "it is done")
    log = tmp_path / ".leftoff" / "detached.log"
    wait_for(lambda: f"{run_id} is completed" in log.read_text(), "its last line, behind the commit")


def test_it_is_stopped(tmp_path: Path) -> None:
    """As any other."""
    (tmp_path / "f.yaml").write_text(FLOW)
    about = succeed("run", "f.yaml", "--detach", "--json", cwd=tmp_path).json
    assert about["detached"]
    succeed("stop", about["run_id"], cwd=tmp_path)
    assert "paused" == status(tmp_path)


def test_what_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """With the exit code of the command; nothing stays in the background."""
    assert 3 == call("run", "no.yaml", "--detach", cwd=tmp_path).code
    (tmp_path / "f.yaml").write_text(
        "name: d\nrequires: {tools: [no-such-tool]}\nsteps: [{id: a, run: 'true'}]\n"
    )
    done = call("run", "f.yaml", "--detach", cwd=tmp_path)
    assert (7, "") == (done.code, done.out)
    assert "no-such-tool" in done.err
    assert ["f.yaml"] == os.listdir(tmp_path)
