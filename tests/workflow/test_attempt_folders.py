"""What a sweep may delete of the folders in which attempts leave their logs."""

from __future__ import annotations

from pathlib import Path

from leftoff.engine.run_states import remove_attempts
from leftoff.store import open_store
from tests.cli.command import succeed


def test_the_folder_of_a_run_that_exists_stays(project: Path) -> None:
    """A run that starts under the id of a removed one, while that one's folder is to be deleted, keeps its logs."""
    (project / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: echo hello}\n")
    succeed("run", "flow.yaml", "--run-id", "r", cwd=project)
    store = open_store(str(project / ".leftoff"), str(project / "machine"))
    try:
        assert 0 == remove_attempts(store, "r")
    finally:
        store.close()
    assert "hello\n" == succeed("logs", "r", "a", cwd=project).out
    folder = project / ".leftoff/attempts/gone"
    folder.mkdir()
    succeed("prune", cwd=project)
    assert not folder.exists()
