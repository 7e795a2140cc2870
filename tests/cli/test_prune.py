"""`leftoff prune`: what the rules no longer keep goes, with a reason; what must stay stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leftoff.clock import Clock
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
    """A completed run goes into the trash; one in progress never does."""
    settings(project, '[retention]\ncompleted = "0d"\nrunning = "0d"\n')
    succeed("start", "w", "--run-id", "old", cwd=project)
    succeed("finish", "--run", "old", cwd=project)
    succeed("start", "w", "--run-id", "new", cwd=project)
    (entry,) = pruned(project)["removed"]
    assert ("run", "old", "remove") == (entry["kind"], entry["run_id"], entry["action"])
    assert ["new"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]
    succeed("undelete", "old", cwd=project)
    assert "completed" == succeed("show", "old", "--json", cwd=project).json["status"]


# -- space

SHARED, OWN = 1_000_000, 300_000


def taken(project: Path) -> int:
    """The bytes that the store's folder takes on disk."""
    folder = project / ".leftoff"
    return sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))


def worked(project: Path, *runs: str) -> None:
    """Completed runs, each with a copy of a file that all have, and one of a file of its own."""
    shared = project / "shared.bin"
    shared.write_bytes(shared.read_bytes() if shared.exists() else os.urandom(SHARED))
    for run in runs:
        (project / "own.bin").write_bytes(os.urandom(OWN))
        succeed("start", "w", "--run-id", run, cwd=project)
        for name in ("shared.bin", "own.bin"):
            succeed("artifact", name, "--run", run, cwd=project)
        succeed("finish", "--run", run, cwd=project)


@pytest.mark.parametrize("protocol", ["", '[protocol]\nname = "bmad"\n'], ids=["trash", "archive"])
def test_a_prune_never_takes_space(project: Path, protocol: str) -> None:
    """Runs that the rules let go stay where they are, marked: nothing is copied, and what is freed is measured."""
    settings(project, f'[retention]\nauto = false\ncompleted = "0d"\n{protocol}')
    worked(project, "a", "b", "c")
    before = taken(project)
    done = pruned(project)
    assert {"a", "b", "c"} == {entry["run_id"] for entry in done["removed"]}
    assert 0 <= done["bytes_freed"] == before - taken(project) < OWN
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]
    succeed("undelete", "b", cwd=project)
    assert 2 == len(succeed("show", "b", "--json", cwd=project).json["artifacts"])
    assert [] == succeed("fsck", "--json", cwd=project).json["problems"]


def test_space_that_comes_back_later(project: Path) -> None:
    """The command that frees it now is named, and frees as much as was said."""
    settings(project, '[retention]\ncompleted = "0d"\n')
    worked(project, "a", "b", "c")
    for words, says in (("prune --dry-run", "would take about"), ("prune", "takes about")):
        said = succeed(*words.split(), cwd=project).err
        assert f"the trash {says}" in said and "`leftoff prune --empty-trash`" in said, said
    assert "3 put into the trash" in said
    before = taken(project)
    dry = pruned(project, "--empty-trash", "--dry-run")
    done = pruned(project, "--empty-trash")
    assert before - taken(project) == done["bytes_freed"] > SHARED + 3 * OWN
    assert abs(dry["bytes_freed"] - done["bytes_freed"]) < 100_000
    assert "trash" not in succeed("prune", cwd=project).err


def test_what_other_runs_need_is_not_promised(project: Path) -> None:
    """A file that a run in the trash shares with one that stays gives nothing back."""
    settings(project, '[retention]\ncompleted = "0d"\n')
    worked(project, "a", "b")
    pruned(project)
    worked(project, "stays")
    before = taken(project)
    dry = pruned(project, "--empty-trash", "--dry-run")
    assert 2 * OWN < dry["bytes_freed"] < 2 * OWN + 100_000
    settings(project, '[retention]\ncompleted = "never"\n')
    done = pruned(project, "--empty-trash")
    assert before - taken(project) == done["bytes_freed"] < SHARED
    assert 2 == len(succeed("show", "stays", "--json", cwd=project).json["artifacts"])
    assert [] == succeed("fsck", "--json", cwd=project).json["problems"]


def test_archives_by_number(project: Path) -> None:
    """The newest so many archived runs stay."""
    settings(project, "[retention]\narchives = 1\n")
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
        succeed("archive", name, cwd=project)
    assert [("archive", "a")] == [(e["kind"], e["run_id"]) for e in pruned(project)["removed"]]
    assert ["b"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"]]


def test_wrong_rules_are_told(project: Path) -> None:
    """A word that no rule has is an error, and names what there is."""
    for text, told in (
        ("[retention]\nkeepp = 1\n", "keepp"),
        ("[retention]\nkeep = {quux = 1}\n", "quux"),
        ("[retention]\nkeep = {manual = -2}\n", "-2"),
        ('[retention]\ncompleted = "soon"\n', "soon"),
        ('[retention]\nmax_size = "big"\n', "big"),
        ("[retention]\nauto = 1\n", "auto"),
        ("[protocol]\nx = 1\n", "[protocol]"),
        ('[protocol]\nname = "klingon"\n', "klingon"),
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


def test_by_itself_by_default(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any verb that writes moves completed runs to the trash after 90 days. Logs go sooner only if `logs` says so.
    Checkpoints and runs in progress stay."""
    real, days = Clock.now, [0]
    monkeypatch.setattr(Clock, "now", lambda clock: real(clock) + days[0] * 86_400_000)
    (project / "flow.yaml").write_text("name: flow\nsteps: [{id: a, run: echo printed}]\n")
    succeed("run", "flow.yaml", "--run-id", "done", cwd=project)
    succeed("start", "w", "--run-id", "open", cwd=project)
    saved(project, 25, "error", "open")
    days[0] = 31
    succeed("note", "at work", "--run", "open", cwd=project)
    assert "printed\n" == succeed("logs", "done", cwd=project).out
    settings(project, '[retention]\nlogs = "30d"\n')
    days[0] = 33
    succeed("note", "at work", "--run", "open", cwd=project)
    gone = succeed("logs", "done", cwd=project)
    assert "" == gone.out and "its log was removed" in gone.err
    assert not list((project / ".leftoff/attempts").rglob("log"))
    days[0] = 91
    assert "done" in succeed("note", "still at work", "--run", "open", cwd=project).err
    assert ["open"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]
    assert 25 == len(checkpoints(project, "open"))
    succeed("undelete", "done", cwd=project)
    settings(project, "[retention]\nauto = false\n")
    days[0] = 200
    succeed("note", "x", "--run", "open", cwd=project)
    assert 0 == call("show", "done", cwd=project).code


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
