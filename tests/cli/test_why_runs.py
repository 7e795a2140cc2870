"""Every run records why it was started, and why it continued: `why` in its JSON and on its page."""

from __future__ import annotations

from pathlib import Path

import leftoff
from tests.cli.command import call, succeed

FLOW = "name: f\nsteps:\n  - id: make\n    run: echo made\n  - id: check\n    run: test -e go\n"


def why(folder: Path, *ref: str) -> str:
    """Why the run says that it ran."""
    found = succeed("show", *ref, "--json", cwd=folder).json["why"]
    lines = succeed("show", *ref, cwd=folder).out.splitlines()
    assert ["why", *found.split()] in [line.split() for line in lines]
    return str(found)


def test_a_workflow_file(tmp_path: Path) -> None:
    """The first run of it; after a failure; from a step; afresh; after a run that is completed."""
    (tmp_path / "f.yaml").write_text(FLOW)
    call("run", "f.yaml", "--run-id", "one", cwd=tmp_path)
    assert "first run" == why(tmp_path, "one")
    call("resume", "one", cwd=tmp_path)
    assert "first run; continued: it had failed" == why(tmp_path, "one")
    call("resume", "one", "--from-step", "make", "--yes", cwd=tmp_path)
    assert "first run; continued: you asked with --from-step" == why(tmp_path, "one")
    call("run", "f.yaml", "--fresh", "--run-id", "two", cwd=tmp_path)
    assert "you asked with --fresh: one had failed" == why(tmp_path, "two")
    (tmp_path / "go").touch()
    succeed("resume", "two", cwd=tmp_path)
    succeed("run", "f.yaml", "--run-id", "three", cwd=tmp_path)
    assert "a new run: two was completed" == why(tmp_path, "three")


def test_a_fork_and_an_import(tmp_path: Path) -> None:
    """A fork names its source, an imported run the bundle it came from."""
    succeed("start", "job", "--run-id", "one", cwd=tmp_path)
    succeed("fork", "one", "--run-id", "two", cwd=tmp_path)
    assert "forked from one@1" == why(tmp_path, "two")
    succeed("export", "two", "-o", "two.leftoff", cwd=tmp_path)
    succeed("import", "two.leftoff", "--store", "other", cwd=tmp_path)
    found = succeed("show", "two", "--json", "--store", "other", cwd=tmp_path).json
    assert "imported from two.leftoff; forked from one@1" == found["why"]


def test_a_program(tmp_path: Path) -> None:
    """A program that is started again says how its run stood."""
    with leftoff.open(tmp_path / ".leftoff") as store:
        run = store.run("job")
        run.pause()
        assert "first run" == run.info.to_json()["why"]
        run = store.run("job")
        run.finish()
        assert "first run; continued: it was paused" == run.info.to_json()["why"]
        again = store.run("job")
        assert f"a new run: {run.id} was completed" == again.info.to_json()["why"]
