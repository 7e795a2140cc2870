"""`leftoff undelete`: what `rm` or retention removed comes back whole. Emptying the trash gives the disk back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.clock import Clock
from leftoff.engine.run_states import disk_use
from tests.cli.command import Called, call, succeed

DAY = 86_400_000
BIG = 5_000_000


class Hands:
    """The clock of every process that the tests play, put forward by so many days."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days = 0.0
        real = Clock.now
        monkeypatch.setattr(Clock, "now", lambda clock: real(clock) + int(self.days * DAY))

    def pass_by(self, project: Path, *days: float) -> None:
        """Days, with a little work at the end of each stretch."""
        for some in days:
            self.days += some
            succeed("note", "at work", "--run", "other", cwd=project)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hands:
    return Hands(monkeypatch)


@pytest.fixture
def failed(project: Path) -> Path:
    """A run that failed, with 5 MB that cannot be packed, in a project that removes such runs; and another run."""
    (project / "leftoff.toml").write_text(
        '[retention]\nauto = true\nfailed = "30d"\n[protocol]\nname = "bmad"\n'
    )
    succeed("start", "w", "--run-id", "other", cwd=project)
    succeed("start", "w", "--run-id", "r", "--var", "x=1", "--steps", "a,b", cwd=project)
    (project / "big.bin").write_bytes(os.urandom(BIG))
    succeed("step", "done", "a", "--run", "r", cwd=project)
    succeed("artifact", "big.bin", "--run", "r", cwd=project)
    folder = project / ".leftoff/attempts/r/token"
    folder.mkdir(parents=True)
    (folder / "log").write_text("what it printed")
    succeed("finish", "--status", "failed", "--run", "r", cwd=project)
    (project / "big.bin").unlink()
    return project


@pytest.fixture
def trashed(failed: Path, clock: Hands) -> Path:
    """That run in the trash, for its age."""
    clock.pass_by(failed, *[7] * 5)
    entries = prune(failed)["removed"]
    assert [("run", "r", "remove")] == [(e["kind"], e["run_id"], e["action"]) for e in entries]
    return failed


def prune(project: Path, *words: str) -> Any:
    return succeed("prune", "--json", *words, cwd=project).json


def taken(project: Path) -> int:
    return disk_use(str(project / ".leftoff"))


def known(project: Path) -> list[str]:
    return sorted(run["run_id"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"])


# -- time


def test_retention_goes_by_the_clock(failed: Path, clock: Hands) -> None:
    """A run that is old enough goes into the trash by itself with the next start. If the clock was wrong, `undelete`
    brings the run back."""
    clock.days = 31
    succeed("start", "w", "--run-id", "new", cwd=failed)
    assert ["new", "other"] == known(failed)
    clock.days = 0
    succeed("undelete", "r", cwd=failed)
    assert ["new", "other", "r"] == known(failed)


# -- the trash


def test_it_comes_back_whole(trashed: Path) -> None:
    """History, artifacts, what its steps printed; and the rules count its age from there."""
    assert ["other"] == known(trashed)
    assert 3 == call("show", "r", cwd=trashed).code
    assert [("r", "failed")] == [
        (each["run_id"], each["status"]) for each in succeed("undelete", "--json", cwd=trashed).json["trash"]
    ]
    assert "r" == succeed("undelete", "r", "--json", cwd=trashed).json["run_id"]
    shown = succeed("show", "r", "--json", cwd=trashed).json
    assert ({"x": 1}, "failed", 1) == (shown["variables"], shown["status"], len(shown["artifacts"]))
    assert "what it printed" == (trashed / ".leftoff/attempts/r/token/log").read_text()
    assert BIG == len(kept_copy(trashed))
    assert "brought back" in succeed("log", "r", "--json", cwd=trashed).json["checkpoints"][0]["note"]
    assert [] == prune(trashed)["removed"]


def kept_copy(project: Path) -> bytes:
    """What the store has of its artifact."""
    store = leftoff.open(project / ".leftoff")
    try:
        (about,) = store.get("r").artifacts.values()
        return b"".join(store._store.load_blob(bytes.fromhex(about["hash"].partition(":")[2])))
    finally:
        store.close()


def test_no_name_is_read_loosely(trashed: Path) -> None:
    """A run without a title is not called None, and an empty name is none. An id goes before a title, wherever the
    run lies; a name that several have is nobody's."""
    assert 3 == call("undelete", "None", cwd=trashed).code
    assert 2 == call("undelete", "", cwd=trashed).code
    for run_id, title in (("w2", "other work"), ("x", "w")):
        succeed("start", "w2", "--run-id", run_id, "--title", title, "--issue", "7", cwd=trashed)
        succeed("finish", "--run", run_id, cwd=trashed)
        succeed("archive", run_id, cwd=trashed)
    several = call("undelete", "W", cwd=trashed)
    assert 2 == several.code and "r, x" in several.err, str(several)
    assert 2 == call("undelete", "#7", cwd=trashed).code
    assert ["other", "w2", "x"] == known(trashed)
    succeed("undelete", "w2", cwd=trashed)
    assert "w2" == succeed("show", "w2", "--json", cwd=trashed).json["run_id"]
    assert "x" == succeed("undelete", "#7", "--json", cwd=trashed).json["run_id"]


def test_whoever_looks_for_it_is_told(trashed: Path) -> None:
    found = call("show", "r", cwd=trashed)
    assert 3 == found.code and "leftoff undelete r" in found.err


def test_it_is_counted(trashed: Path) -> None:
    """`status` says how much lies there; `ls` does not list it."""
    found = succeed("status", "--json", cwd=trashed).json["trash"]
    assert (1, True) == (found["runs"], found["bytes"] > BIG)
    assert "1 run, 5" in succeed("status", cwd=trashed).out


def test_its_id_stays_its_own(trashed: Path) -> None:
    """A run that is started under it meanwhile gets a suffix, as after one that is over; both can be there."""
    started = succeed("start", "w", "--run-id", "r", cwd=trashed)
    assert "r-2" == started.out.strip()
    succeed("undelete", "r", cwd=trashed)
    assert ["other", "r", "r-2"] == known(trashed)


def test_by_itself_after_its_days(trashed: Path, clock: Hands) -> None:
    """Not before; then any verb that writes gives the disk back."""
    clock.pass_by(trashed, 29)
    assert 1 == succeed("status", "--json", cwd=trashed).json["trash"]["runs"]
    clock.pass_by(trashed, 2)
    assert 0 == succeed("status", "--json", cwd=trashed).json["trash"]["runs"]
    clock.days += 0.1  # the grace of readers
    succeed("note", "a little later", "--run", "other", cwd=trashed)
    assert taken(trashed) < 1_000_000
    assert not (trashed / ".leftoff/attempts/r").exists()


def test_emptied(trashed: Path) -> None:
    """`prune --empty-trash`: the disk is given back, as much as is said; `--dry-run` says about what it would be."""
    before = taken(trashed)
    dry = prune(trashed, "--empty-trash", "--dry-run")
    assert [("trash", "r")] == [(entry["kind"], entry["run_id"]) for entry in dry["removed"]]
    assert (before, True) == (taken(trashed), dry["bytes_freed"] > BIG)
    done = prune(trashed, "--empty-trash")
    assert dry["removed"] == done["removed"]
    assert before - taken(trashed) == done["bytes_freed"] > BIG
    assert_gone(call("undelete", "r", cwd=trashed))


def test_what_rm_removed_comes_back(failed: Path) -> None:
    """`rm` uses the same trash: the protocol's files go with the run, and `undelete` writes them again."""
    files = failed / "_bmad-output/.runs/main/r"
    assert (files / "state.json").is_file()
    done = succeed("rm", "r", "--yes", "--json", cwd=failed).json
    assert ["r"] == done["removed"]
    assert ["other"] == known(failed) and not files.exists()
    assert ["r"] == [each["run_id"] for each in succeed("undelete", "--json", cwd=failed).json["trash"]]
    succeed("undelete", "r", cwd=failed)
    assert (files / "state.json").is_file()
    assert "what it printed" == (failed / ".leftoff/attempts/r/token/log").read_text()


def test_the_trash_gives_the_disk_back(failed: Path) -> None:
    """With what its steps left, at once: no other process has the store open."""
    before = taken(failed)
    succeed("rm", "r", "--yes", cwd=failed)
    done = succeed("prune", "--empty-trash", "--json", cwd=failed).json
    assert done["bytes_freed"] > BIG > 1_000_000 > taken(failed) < before
    assert not (failed / ".leftoff/attempts/r").exists()
    assert_gone(call("undelete", "r", cwd=failed))


def assert_gone(said: Called) -> None:
    assert 3 == said.code
    assert "gone for good" in said.err


def test_readers_have_their_hour(failed: Path, clock: Hands) -> None:
    """While somebody has the store open, the bytes wait; the next verb that writes after the hour lets them go."""
    reader = leftoff.open(failed / ".leftoff")
    reader.get("other")
    succeed("rm", "r", "--yes", cwd=failed)
    done = succeed("prune", "--empty-trash", "--json", cwd=failed).json
    assert done["bytes_waiting"] > BIG > taken(failed) - done["bytes_waiting"]
    reader.close()
    clock.days += 0.1
    succeed("set", "x=1", "--run", "other", cwd=failed)
    assert taken(failed) < 1_000_000


def test_archives_lie_there_too(project: Path) -> None:
    """A bundle beyond the number that is kept can be brought back as a run."""
    (project / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    succeed("start", "w", "--run-id", "a", "--var", "x=1", cwd=project)
    succeed("finish", cwd=project)
    succeed("archive", "a", cwd=project)
    assert [("archive", "a")] == [(e["kind"], e["run_id"]) for e in prune(project)["removed"]]
    assert [] == known(project)
    assert 1 == succeed("status", "--json", cwd=project).json["trash"]["runs"]
    succeed("undelete", "a", cwd=project)
    assert {"x": 1} == succeed("show", "a", "--json", cwd=project).json["variables"]
    assert [] == succeed("undelete", "--json", cwd=project).json["trash"]


def test_several_of_one_name(project: Path, clock: Hands) -> None:
    """A workflow's name will do where only one run of it lies there; else they are listed, and nothing is changed."""
    (project / "leftoff.toml").write_text('[protocol]\nname = "bmad"\n[retention]\nfailed = "0s"\n')
    for name in ("a", "b"):
        succeed("start", f"w{name}", "--run-id", name, "--title", "Same", cwd=project)
        succeed("finish", "--status", "failed", "--run", name, cwd=project)
    clock.days = 0.01
    prune(project)
    assert 2 == call("undelete", "same", cwd=project).code
    assert "a" == succeed("undelete", "WA", "--json", cwd=project).json["run_id"]
    assert 3 == call("undelete", "wa", cwd=project).code


def test_in_python(trashed: Path) -> None:
    """The same from a program."""
    with leftoff.open(trashed / ".leftoff") as store:
        assert ["r"] == [each["run_id"] for each in store.trash()]
        store.undelete("r")
        assert [] == list(store.trash())
        assert "failed" == store.get("r").status
