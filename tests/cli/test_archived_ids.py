"""The id of an archived run is taken; starting afresh beside others."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, succeed


def test_the_id_of_an_archived_run_is_taken(project: Path) -> None:
    """`start` gives the next one, as for any run that is over; `run --run-id` is a conflict."""
    succeed("start", "w", "--run-id", "be", cwd=project)
    succeed("finish", "be", cwd=project)
    succeed("archive", "be", cwd=project)
    assert "be-2" == succeed("start", "w", "--run-id", "be", cwd=project).out.strip()
    (project / "w.yaml").write_text("name: w\nsteps:\n  - {id: a, run: 'true'}\n")
    assert 5 == call("run", "w.yaml", "--run-id", "be", cwd=project).code


def test_afresh_beside_two(project: Path) -> None:
    """The newest is given up, the new one starts, and the older one stays."""
    (project / "w.yaml").write_text("name: w\nsteps:\n  - {id: ok, approval: Go?}\n")
    for name in ("one", "two"):
        call("run", "w.yaml", "--run-id", name, cwd=project)
    call("run", "w.yaml", "--fresh", cwd=project)
    found = {
        run["run_id"]: run["status"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"]
    }
    assert (3, "paused", "abandoned") == (len(found), found["one"], found["two"])
