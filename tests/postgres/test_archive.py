"""The archive of a store on a server that no folder is shared for: the store keeps it, and every machine has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.clock import SYSTEM
from leftoff.engine.config.caller import Caller
from leftoff.engine.config.project import Project, open_store
from leftoff.engine.retention import archive, copies, shelf
from leftoff.errors import Conflict, LeaseHeld, StoreUnavailable
from leftoff.host import this_process
from leftoff.operations.upkeep import retention
from leftoff.store import transfer
from leftoff.store.base import Store
from leftoff.store.postgres.store import PostgresStore
from leftoff.store.rows import Holder
from tests.cli.command import Called, call, succeed
from tests.contract.scribe import Scribe
from tests.postgres.lost import lose_the_end
from tests.postgres.proxy import Proxy
from tests.races.between import Seam

LOOKED = "leftoff.engine.retention.shelf.need_unmoved"


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
    assert "steps printed is not" not in there("logs", "old", "--failed").err


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
    retention.archive(project, Caller(), "old")
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
        retention.archive(project, Caller(), "old")
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
        retention.archive(project, Caller(), "old")
    project.close()
    assert [("old", False)] == names(there("ls", "--all", "--json"))


def test_taken_back_while_it_is_removed(here: Machine, there: Machine) -> None:
    """`rm` of an archived run that somebody needs again removes nothing."""
    here.archives("old")
    project = Project(str(here.folder), here._env["LEFTOFF_STORE"])

    def agree(row: object) -> bool:
        there("undelete", "old")
        return True

    with pytest.raises(Conflict, match="no longer archived"):
        retention.remove(project, Caller(), "old", agree)
    project.close()
    assert [("old", False)] == names(there("ls", "--json"))


def test_somebody_was_faster(here: Machine, there: Machine, url: str) -> None:
    """A run that came back is not put into the trash, and one that lies there since is not brought back."""
    here.archives("old")
    with leftoff.open(url) as opened:
        store = opened._store
        row = shelf.find(store, "old")
        assert row is not None
        there("undelete", "old")
        assert not shelf.discard(store, row.run, row.seq, SYSTEM.now())
        assert [("old", False)] == names(here("ls", "--json"))
        there("archive", "old")
        assert not shelf.discard(store, row.run, row.seq, SYSTEM.now())
        again = shelf.find(store, "old")
        assert again is not None and shelf.discard(store, row.run, again.seq, SYSTEM.now())
        shelf.take_back(store, row.run)
    assert [] == names(here("ls", "--all", "--json"))


def test_a_server_says_what_it_gave_back(here: Machine) -> None:
    """And what it takes, which no folder of this machine shows."""
    here.archives("old")
    here("set", "--run", here("start", "w").out.strip(), "text=" + "x" * 5000)
    (here.folder / "leftoff.toml").write_text('[retention]\narchives = 0\nmax_size = "1 kB"\n')
    said = here("prune").err
    assert "bytes, more than the 1,000" in said and "(PostgreSQL keeps the disk space)" in said
    assert 0 < here("prune", "--empty-trash", "--json").json["bytes_freed"]


# -- in a folder that all machines share


def test_a_bundle_stays_where_the_end_of_its_archiving_is_late(
    proxy: Proxy, name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up; then it arrives, and the run leaves the store."""
    with leftoff.open(url) as opened:
        opened.start("work", run_id="old").finish()
    store = PostgresStore(proxy.url(name), str(tmp_path), blobs=str(tmp_path / "mnt"))
    store.patience = 0.3
    row = store.read(lambda view: view.find_run("old"))
    assert row is not None
    placed = archive._place

    def late(*what: Any) -> None:
        placed(*what)
        proxy.fail("late", "COMMIT")
        lose_the_end(monkeypatch)

    monkeypatch.setattr(archive, "_place", late)
    with pytest.raises(StoreUnavailable):
        archive.archive(store, row, SYSTEM.now(), lambda row: None)
    proxy.let_go()
    assert None is store.read(lambda view: view.find_run("old"))
    assert ["old"] == [about["run_id"] for about in archive.archived(store)]
    store.close()


# -- copies


def fill(folder: Path) -> Store:
    """A store in a folder: a run, one in the archive, one in the archive's trash."""
    folder.mkdir()
    (folder / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    for name in ("trashed", "archived"):
        succeed("start", "w", "--run-id", name, cwd=folder)
        succeed("finish", cwd=folder)
        succeed("archive", name, cwd=folder)
    succeed("start", "w", "--run-id", "live", cwd=folder)
    succeed("prune", cwd=folder)
    return open_store(str(folder / ".leftoff"))


def contents(store: Store) -> tuple[list[str], list[str], list[str]]:
    from leftoff.engine.retention.trash import contents

    live = store.read(lambda view: [row.run_id for row in view.list_runs({})])
    return (
        live,
        [about["run_id"] for about in archive.archived(store)],
        [each.run_id for each in contents(store)],
    )


EVERYTHING = (["live"], ["archived"], ["trashed"])


def copied(source: Store, target: Store) -> dict[str, Any]:
    who = (this_process(), "a test")
    return copies.copy_store(source, target, SYSTEM.now(), who, lambda table, rows, total: None)


def copied_in_part(source: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short when the first run of the archive is there."""
    take_in = archive.take_in

    def cut(*what: Any) -> None:
        take_in(*what)
        raise StoreUnavailable("cut")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(archive, "take_in", cut)
        copied(source, target)
    assert (["live"], ["archived"], []) == contents(target)


def test_a_copy_has_the_archive(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files into the store on a server, and back into a folder; cut short, it goes on with what is missing."""
    source, target = fill(tmp_path / "source"), open_store(url)
    back = open_store(str(tmp_path / "back" / ".leftoff"))
    assert EVERYTHING == contents(source)
    copied_in_part(source, target, monkeypatch)
    done = succeed("store", "copy", source.location, url, cwd=tmp_path)
    assert "0 run(s) and 2 of the archive, 0 rows copied" in done.out + done.err
    copied(target, back)
    for store in (target, back):
        assert EVERYTHING == contents(store)
        assert [] == store.check()["problems"]
        assert None is store.read(lambda view: view.fact(transfer.ARCHIVE_LEFT))
        store.close()
    source.close()


def test_a_copy_without_its_archive_is_of_a_source_as_it_was(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came from the archive to the runs since then would be in neither."""
    source, target = fill(tmp_path / "source"), open_store(url)
    copied_in_part(source, target, monkeypatch)
    succeed("undelete", "trashed", cwd=tmp_path / "source")
    with pytest.raises(Conflict, match="went on since its runs were copied"):
        copied(source, target)
    source.close()
    target.close()


def test_a_source_goes_on_while_its_archive_is_copied(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who brings a run back in that moment is told of, too: it is in neither."""
    source, target = fill(tmp_path / "source"), open_store(url)
    refuse = copies._refuse_namesakes

    def goes_on(*stores: Store) -> None:
        refuse(*stores)
        succeed("undelete", "trashed", cwd=tmp_path / "source")

    monkeypatch.setattr(copies, "_refuse_namesakes", goes_on)
    with pytest.raises(Conflict, match="went on since its runs were copied"):
        copied(source, target)
    source.close()
    target.close()


def test_a_name_that_is_in_the_trash_and_elsewhere(tmp_path: Path, url: str) -> None:
    """The server has each name once: that is said before any of the archive is there."""
    folder = tmp_path / "source"
    source, target = fill(folder), open_store(url)
    Scribe(source, "trashed")  # as of old: `start` gives a name that lies in the trash to nobody
    with pytest.raises(Conflict, match="cannot keep both"):
        copied(source, target)
    succeed("prune", "--empty-trash", cwd=folder)
    copied(source, target)
    assert (["trashed", "live"], ["archived"], []) == contents(target)
    source.close()
    target.close()


def test_a_copied_archive_has_its_order(tmp_path: Path, url: str) -> None:
    """The oldest goes first when it grows too large, whatever the names are."""
    for name in ("c", "a", "b"):
        succeed("start", "w", "--run-id", name, cwd=tmp_path)
        succeed("finish", cwd=tmp_path)
        succeed("archive", name, cwd=tmp_path)
    source, target = open_store(str(tmp_path / ".leftoff")), open_store(url)
    copied(source, target)
    for store in (source, target):
        assert ["b", "a", "c"] == [each.run_id for each in archive.oldest(store, 0)]
        store.close()


def test_a_backup_has_the_archive(tmp_path: Path) -> None:
    """Copied as it lies, beside the rows."""
    store, folder = fill(tmp_path / "source"), str(tmp_path / "copy" / ".leftoff")
    copies.backup(store, folder)
    backup = open_store(folder)
    assert EVERYTHING == contents(backup)
    assert ["copy", "source"] == sorted(path.name for path in tmp_path.iterdir())
    store.close()
    backup.close()


def test_an_archive_that_is_not_here(here: Machine, there: Machine, tmp_path: Path) -> None:
    """Who does not name the folder is told where the archive is: by a listing of all, and by who misses a run."""
    folder = tmp_path / "mnt"
    settings = here.folder / "leftoff.toml"
    settings.write_text(f'blobs = "{folder}"\n')
    here("trust", "--yes")
    here.archives("r-1")
    assert str(folder) not in here("ls", "--all").err
    assert f'blobs = "{folder}"' in there("ls", "--all").err
    assert f'blobs = "{folder}"' in there("ls", "--all", "--json").err
    missed = there.tried("show", "r-1")
    assert 3 == missed.code and f'blobs = "{folder}"' in missed.err
    folder.rename(tmp_path / "unmounted")
    missed = here.tried("show", "r-1")
    assert 3 == missed.code and f"{folder}, which cannot be seen from here; mount it." in missed.err
