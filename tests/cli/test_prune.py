"""`leftoff prune`: what the rules no longer keep goes, with a reason; what must stay stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.command import call, succeed


def settings(project: Path, text: str) -> None:
    (project / "leftoff.toml").write_text(text)


def saved(project: Path, number: int, trigger: str = "manual", run: str = "r") -> None:
    for _ in range(number):
        succeed("save", "--trigger", trigger, "--run", run, cwd=project)


def checkpoints(project: Path, run: str = "r") -> list[str]:
    return [v["trigger"] for v in succeed("log", run, "--json", cwd=project).json["checkpoints"]]


def pruned(project: Path, *words: str) -> Any:
    return succeed("prune", "--json", *words, cwd=project).json


def test_by_trigger_and_count(project: Path) -> None:
    """The last so many of a trigger stay; -1 keeps all."""
    settings(project, "[retention]\nkeep = {session_end = 1, manual = -1, error = 2}\n")
    succeed("start", "w", "--run-id", "r", cwd=project)
    for trigger in ("session_end", "manual", "error"):
        saved(project, 3, trigger)
    dry = pruned(project, "--dry-run")
    assert (3, 6, True) == (len(dry["removed"]), dry["kept"], dry["dry_run"])
    assert 9 == len(checkpoints(project))
    done = pruned(project)
    assert dry["removed"] == done["removed"]
    assert "session_end: the last 1 are kept" in {entry["why"] for entry in done["removed"]}
    assert ["error"] * 2 + ["manual"] * 3 + ["session_end"] == checkpoints(project)
    assert [] == pruned(project)["removed"]


def test_the_newest_checkpoint_stays(project: Path) -> None:
    """Even where a rule keeps none."""
    settings(project, "[retention]\nkeep = {manual = 0}\n")
    succeed("start", "w", "--run-id", "r", cwd=project)
    saved(project, 3)
    pruned(project)
    assert ["manual"] == checkpoints(project)


def test_runs_that_are_over_by_age(project: Path) -> None:
    """A completed run goes into the archive; one in progress never does."""
    settings(project, '[retention]\ncompleted = "0d"\nrunning = "0d"\n')
    succeed("start", "w", "--run-id", "old", cwd=project)
    succeed("finish", "--run", "old", cwd=project)
    succeed("start", "w", "--run-id", "new", cwd=project)
    (entry,) = pruned(project)["removed"]
    assert ("run", "old", "archive") == (entry["kind"], entry["run_id"], entry["action"])
    assert ["new"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]
    assert (project / ".leftoff/archive/old.leftoff").exists()


def test_archives_by_number(project: Path) -> None:
    """The newest so many bundles stay."""
    settings(project, "[retention]\narchives = 1\n")
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
        succeed("archive", name, cwd=project)
    assert [("archive", "a")] == [(e["kind"], e["run_id"]) for e in pruned(project)["removed"]]
    assert ["b.leftoff"] == [path.name for path in (project / ".leftoff/archive").glob("*.leftoff")]


def test_wrong_rules_are_told(project: Path) -> None:
    """A word that no rule has is an error, and names what there is."""
    for text, told in (
        ("[retention]\nkeepp = 1\n", "keepp"),
        ("[retention]\nkeep = {quux = 1}\n", "quux"),
        ("[retention]\nkeep = {manual = -2}\n", "-2"),
        ('[retention]\ncompleted = "soon"\n', "soon"),
        ('[retention]\nmax_size = "big"\n', "big"),
        ("[retention]\nauto = 1\n", "auto"),
        ("[mirror]\nx = 1\n", "[mirror]"),
        ('[mirror]\ndialect = "klingon"\n', "klingon"),
    ):
        settings(project, text)
        result = call("prune", cwd=project)
        assert 2 == result.code and "leftoff.toml:2:1: " in result.err and told in result.err, text


def test_without_rules(project: Path) -> None:
    """There is a sensible default, and nothing to do in a new project; no store is made."""
    assert {"removed": [], "kept": 0} == {
        k: v for k, v in pruned(project).items() if k in ("removed", "kept")
    }
    assert [] == list(project.iterdir())


def test_by_itself_at_most_once_a_day(project: Path) -> None:
    """`[retention] auto`: after start and finish, never on the verbs that agents call often."""
    settings(project, "[retention]\nauto = true\nkeep = {manual = 1}\n")
    succeed("start", "w", "--run-id", "r", cwd=project)
    saved(project, 3)
    assert 3 == len(checkpoints(project))
    (project / ".leftoff/pruned").unlink()
    succeed("finish", "--run", "r", cwd=project)
    assert ["session_end", "manual"] == checkpoints(project)
    saved(project, 2)
    succeed("start", "w", cwd=project)
    assert 4 == len(checkpoints(project))


def test_by_itself_after_a_workflow(project: Path) -> None:
    """However a workflow is driven, by `run` or by `resume`."""
    settings(project, "[retention]\nauto = true\nkeep = {manual = 1}\n")
    (project / "flow.yaml").write_text("name: flow\nsteps: [{id: a, run: test -f there}]\n")
    done = project / ".leftoff/pruned"
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=project).code
    assert done.exists()
    done.unlink()
    (project / "there").touch()
    succeed("resume", "r", cwd=project)
    assert done.exists()
