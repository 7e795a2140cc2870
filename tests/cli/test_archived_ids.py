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


def over(project: Path, run_id: str) -> None:
    """A finished run that is archived."""
    succeed("start", "w", "--run-id", run_id, cwd=project)
    succeed("finish", run_id, cwd=project)
    succeed("archive", run_id, cwd=project)


def listed(project: Path) -> list[tuple[str, bool]]:
    """Every run, and whether it is archived."""
    runs = succeed("ls", "--all", "--json", cwd=project).json["runs"]
    return sorted((run["run_id"], run.get("archived", False)) for run in runs)


def test_a_fork_gets_another_id(project: Path) -> None:
    """The archived run would be out of sight behind it."""
    over(project, "be")
    succeed("start", "w", "--run-id", "other", cwd=project)
    assert "be-2" == succeed("fork", "other", "--run-id", "be", "--json", cwd=project).json["run_id"]
    assert [("be", True), ("be-2", False), ("other", False)] == listed(project)


def test_the_successor_of_an_archived_run_is_found(project: Path) -> None:
    """`start` refuses a second one of it, and `start --resume` goes on with it."""
    over(project, "be")
    succeed("start", "w", "--run-id", "be", cwd=project)
    assert 5 == call("start", "w", "--run-id", "be", cwd=project).code
    assert "be-2" == succeed("start", "w", "--run-id", "be", "--resume", cwd=project).out.strip()


def test_another_run_of_its_id_is_not_imported(project: Path, tmp_path: Path) -> None:
    """That very run is; another one is a conflict, and nothing is written."""
    succeed("start", "other", "--run-id", "be", "--store", str(tmp_path / "s"), cwd=project)
    succeed("export", "be", "-o", str(tmp_path / "be.leftoff"), "--store", str(tmp_path / "s"), cwd=project)
    over(project, "be")
    for more in ((), ("--dry-run",)):
        assert 5 == call("import", str(tmp_path / "be.leftoff"), *more, cwd=project).code
    assert [("be", True)] == listed(project)


def test_the_id_of_a_run_in_the_trash_is_taken(project: Path) -> None:
    """Of one that retention removed, from the store or from the archive: `undelete` brings it back."""
    (project / "leftoff.toml").write_text('[retention]\ncompleted = "0s"\narchives = 0\nauto = false\n')
    (project / "w.yaml").write_text("name: w\nsteps:\n  - {id: a, run: 'true'}\n")
    for name in ("kept", "archived"):
        succeed("run", "w.yaml", "--run-id", name, cwd=project)
    succeed("archive", "archived", cwd=project)
    succeed("prune", cwd=project)
    for name in ("kept", "archived"):
        refused = call("run", "w.yaml", "--run-id", name, cwd=project)
        assert (5, True) == (refused.code, f"leftoff undelete {name}" in refused.err), str(refused)
        assert f"{name}-2" == succeed("start", "w", "--run-id", name, cwd=project).out.strip()


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
