"""Archived runs and the trash of a store on a server: every machine has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leftoff.clock import SYSTEM
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeaseHeld
from leftoff.host import this_process
from leftoff.operations.store_upkeep import archive_run, remove_runs
from leftoff.store.rows import Holder, RunRow
from tests.cli.command import Called, call, succeed
from tests.races.between import Seam

LOOKED = "leftoff.engine.run_states.need_unmoved"


class Machine:
    """A project on a machine of its own: another folder, and another user's folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "leftoff.toml").write_text("")
        self._env: dict[str, Any] = {"LEFTOFF_STORE": url, "XDG_STATE_HOME": str(folder / "state")}

    def __call__(self, *words: str) -> Called:
        return succeed(*words, cwd=self.folder, **self._env)

    def tried(self, *words: str) -> Called:
        return call(*words, cwd=self.folder, **self._env)

    def archives(self, name: str) -> None:
        self("start", "w", "--run-id", name, "--steps", "a", "--title", f"Title of {name}")
        self("note", f"of {name}", "--run", name)
        self("finish", "--run", name)
        self("archive", name)


@pytest.fixture
def here(tmp_path: Path, url: str) -> Machine:
    return Machine(tmp_path / "here", url)


@pytest.fixture
def there(tmp_path: Path, url: str) -> Machine:
    return Machine(tmp_path / "there", url)


def names(listed: Called) -> list[tuple[str, bool]]:
    return [(run["run_id"], bool(run.get("archived"))) for run in listed.json["runs"]]


def test_every_machine_has_it(here: Machine, there: Machine) -> None:
    """What one archived, another lists, reads by id or by name, and brings back."""
    here.archives("old")
    assert ([], 1) == (names(there("ls", "--json")), there("ls", "--json").json["archived"])
    assert [("old", True)] == names(there("ls", "--all", "--json"))
    assert "of old" in there("show", "old", "--json").out
    assert "old" == there("show", "title of old", "--json").json["run_id"]
    assert [("old", True)] == names(there("ls", "--all", "--json")), "looking changes nothing"
    assert "is archived" in there.tried("note", "more", "--run", "old").err
    assert "archived already" in there.tried("archive", "old").err
    there("undelete", "old")
    assert [("old", False)] == names(here("ls", "--all", "--json"))
    assert [] == here("fsck", "--json").json["problems"]


def test_its_id_goes_before_a_title(here: Machine) -> None:
    """As in a folder: what another run is called does not hide an archived one."""
    here.archives("old")
    here("start", "w", "--run-id", "new", "--title", "old")
    assert "old" == here("show", "old", "--json").json["run_id"]


def test_its_checkpoint_and_its_id(here: Machine, there: Machine) -> None:
    """A checkpoint is found by its own id; the id of the run stays taken, as in a folder."""
    here.archives("old")
    (checkpoint,) = there("log", "old", "--json").json["checkpoints"]
    assert "old" == there("show", checkpoint["checkpoint_id"], "--json").json["run_id"]
    assert "old-2" == here("start", "w", "--run-id", "old").out.strip()
    assert 5 == here.tried("start", "w", "--run-id", "old").code
    assert "old-2" == there("start", "w", "--run-id", "old", "--resume").out.strip()


def test_what_its_steps_printed_is_shown(here: Machine, there: Machine) -> None:
    """It stays in the store with the run, and every machine has it."""
    (here.folder / "w.yaml").write_text("name: w\nsteps:\n  - id: a\n    run: echo printed\n")
    here("run", "w.yaml", "--run-id", "old")
    here("archive", "old")
    assert "printed\n" == there("logs", "old").out
    assert True is there("logs", "old", "--json").json["archived"]


def test_only_so_many_are_kept(here: Machine, there: Machine) -> None:
    """Those beyond the number go to the trash, from where they come back; the trash is emptied for good."""
    for name in ("a", "b", "c"):
        here.archives(name)
    (there.folder / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    gone = there("prune", "--json").json["removed"]
    assert ["b", "a"] == [each["run_id"] for each in gone if each["kind"] == "archive"]
    assert ["c"] == [name for name, _ in names(here("ls", "--all", "--json"))]
    here("undelete", "b")
    here("prune", "--empty-trash", "--json")
    assert {("b", False), ("c", True)} == set(names(here("ls", "--all", "--json")))
    assert 3 == here.tried("undelete", "a").code


def test_a_commit_meanwhile_is_in_the_archive(
    here: Machine, there: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reports between the look and the archiving is not left behind."""
    here("start", "w", "--run-id", "old")
    here("finish", "--run", "old")
    Seam(monkeypatch).before(LOOKED, lambda: there("note", "in between", "--run", "old"))
    project = Project(str(here.folder), url)
    archive_run(project, Caller(), "old")
    project.close()
    assert "in between" in there("show", "old", "--json").out


def test_a_run_that_goes_on_meanwhile_stays(
    here: Machine, there: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at was over; what would be archived is not."""
    here("start", "w", "--run-id", "old", "--steps", "a")
    here("finish", "--run", "old")
    Seam(monkeypatch).before(LOOKED, lambda: there("rollback", "old@1", "--yes"))
    project = Project(str(here.folder), url)
    with pytest.raises(Conflict, match="only a finished run"):
        archive_run(project, Caller(), "old")
    project.close()
    assert [("old", False)] == names(there("ls", "--all", "--json"))


def test_a_run_that_is_driven_meanwhile_stays(
    here: Machine, there: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever became its driver has not committed anything yet."""
    here("start", "w", "--run-id", "old")
    here("finish", "--run", "old")
    project = Project(str(here.folder), url)

    def drive() -> None:
        holder = Holder("process", this_process(), None, "it", SYSTEM.now())
        row = project.store.read(lambda view: view.find_run("old"))
        assert row is not None
        project.store.write(lambda tx: tx.put_lease(row.run, 9, holder))

    Seam(monkeypatch).before(LOOKED, drive)
    with pytest.raises(LeaseHeld):
        archive_run(project, Caller(), "old")
    project.close()
    assert [("old", False)] == names(there("ls", "--all", "--json"))


def test_taken_back_while_it_is_removed(here: Machine, there: Machine) -> None:
    """The user of `rm` is asked again about an archived run that another machine brought back."""
    here.archives("old")
    project = Project(str(here.folder), here._env["LEFTOFF_STORE"])
    asked: list[bool] = []

    def agree(rows: list[RunRow]) -> bool:
        (row,) = rows
        asked.append(row.is_archived)
        if row.is_archived:
            there("undelete", "old")
        return row.is_archived

    assert remove_runs(project, Caller(), ["old"], agree) is None
    project.close()
    assert ([True, False], [("old", False)]) == (asked, names(there("ls", "--json")))


def test_a_server_says_what_it_gave_back(here: Machine) -> None:
    """And what it takes, which no folder of this machine shows."""
    here.archives("old")
    here("set", "--run", here("start", "w").out.strip(), "text=" + "x" * 5000)
    (here.folder / "leftoff.toml").write_text('[retention]\narchives = 0\nmax_size = "1 kB"\n')
    said = here("prune").err
    assert "bytes, more than the 1,000" in said and "(PostgreSQL keeps the disk space)" in said
    assert 0 < here("prune", "--empty-trash", "--json").json["bytes_freed"]


# -- copies


def test_a_copy_has_every_state(tmp_path: Path, url: str) -> None:
    """From a folder to a server, and back into a folder."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("trashed", "archived"):
        succeed("start", "w", "--run-id", name, cwd=folder)
        succeed("finish", cwd=folder)
    succeed("archive", "archived", cwd=folder)
    succeed("rm", "trashed", "--yes", cwd=folder)
    succeed("start", "w", "--run-id", "live", cwd=folder)
    back = str(tmp_path / "back" / ".leftoff")
    succeed("store", "copy", str(folder / ".leftoff"), url, cwd=tmp_path)
    succeed("store", "copy", url, back, cwd=tmp_path)
    for place in (str(folder / ".leftoff"), url, back):
        found = succeed("ls", "--all", "--json", "--store", place, cwd=tmp_path)
        assert [("live", False), ("archived", True)] == names(found)
        there = succeed("undelete", "--json", "--store", place, cwd=tmp_path).json["trash"]
        assert ["trashed"] == [each["run_id"] for each in there]
