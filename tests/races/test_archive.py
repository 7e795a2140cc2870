"""Archiving has two halves: the bundle is written, then the run leaves the store. Nothing falls between them."""

from __future__ import annotations

import os
from fcntl import flock
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.config.caller import Caller
from leftoff.engine.retention.archive import Kept, kept, take_out
from leftoff.engine.retention.archive_check import check_archive
from leftoff.engine.retention.archive_trash import discard
from leftoff.engine.write.unmoved import Moved
from leftoff.errors import Conflict, LeaseHeld, NeedsPerson, NotFound, StoreUnavailable
from leftoff.files import sync_folder
from leftoff.host import this_process
from leftoff.operations.files import Rollback, plan_rollback, rollback
from leftoff.operations.pages.page_actions import act, dry_run
from leftoff.operations.runs import taken_back, target
from leftoff.operations.transfer import Import, import_runs
from leftoff.operations.upkeep.retention import archive, prune, trash, undelete
from leftoff.store.bundle.write import PART, open_part, sweep_parts
from leftoff.store.sqlite.store import SqliteStore
from tests.cli.command import call, succeed
from tests.races.between import Seam, here, note, notes, taken_up

NOBODY = Caller()
EXPORTED = "leftoff.engine.retention.archive.export"


def found_nothing() -> dict[str, Any]:
    """A report of fsck that has nothing in it yet."""
    return {"checked": {}, "problems": [], "repaired": [], "quarantined": [], "salvaged": []}


@pytest.fixture
def over(project: Path) -> Path:
    """A run that is over, with one note."""
    succeed("start", "w", "--run-id", "old", cwd=project)
    succeed("note", "before", cwd=project)
    succeed("finish", cwd=project)
    return project


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_after_the_export_is_in_the_bundle(over: Path, seam: Seam, times: int) -> None:
    """However often somebody reports meanwhile, the bundle that stays has it all."""
    seam.after(EXPORTED, lambda: note(over, "old"), times)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert ["before", *["in between"] * times] == notes(over, "old")
    assert [] == succeed("ls", "--json", cwd=over).json["runs"]


def test_a_run_that_goes_on_stays(over: Path, seam: Seam) -> None:
    """Resumed while it was exported, it is not over any more, and no bundle of an older state is left."""

    def go_on() -> None:
        with here(over) as other:
            rollback(other, NOBODY, Rollback("old@2"), lambda run, running: True, lambda plan: True)

    seam.after(EXPORTED, go_on)
    with here(over) as project, pytest.raises(Conflict, match="is running"):
        archive(project, NOBODY, "old")
    assert "running" == succeed("show", "old", "--json", cwd=over).json["status"]
    assert [] == os.listdir(over / ".leftoff/archive")


def test_a_run_that_is_taken_up_stays(over: Path, seam: Seam) -> None:
    """A lease that was taken after the first look is seen in the transaction that would remove the run."""
    seam.after(EXPORTED, lambda: taken_up(over, "old"))
    with here(over) as project, pytest.raises(LeaseHeld):
        archive(project, NOBODY, "old")
    assert ["before"] == notes(over, "old")


def test_a_run_that_moves_without_end_stays(over: Path, seam: Seam) -> None:
    """Somebody is at work on it: that is told, and nothing is lost."""
    seam.after(EXPORTED, lambda: note(over, "old"), 1000)
    with here(over) as project, pytest.raises(Conflict, match="went on"):
        archive(project, NOBODY, "old")
    assert 10 == notes(over, "old").count("in between")


def test_archived_again_while_it_is_taken_out(over: Path, seam: Seam) -> None:
    """Whoever takes a run back removes only the bundle of a run that is in the store."""
    succeed("archive", "old", cwd=over)

    def again() -> None:
        with here(over) as project:
            archive(project, NOBODY, "old")

    seam.after("leftoff.engine.retention.archive.import_bundle", again)
    with here(over) as project:
        path = kept(project.store, "old")
        assert path is not None
        take_out(project.store, path, project.store, project.now, (this_process(), "somebody"))
    assert ["before"] == notes(over, "old")


def went_on(folder: Path) -> None:
    """Somebody takes a run out of the archive, reports on it, and archives it again."""
    succeed("undelete", "old", cwd=folder)
    note(folder, "old")
    succeed("archive", "old", cwd=folder)


HIDDEN = "leftoff.engine.retention.export._Replay.put_in_order"  # all of it is in, and nobody sees it yet


def test_archived_again_with_more_while_it_is_brought_back(over: Path, seam: Seam) -> None:
    """The older state of a run is not seen beside the newer one in the archive: that one is brought back."""
    succeed("archive", "old", cwd=over)
    seam.after(HIDDEN, lambda: went_on(over))
    with here(over) as project:
        undelete(project, "old")
    assert ["before", "in between"] == notes(over, "old")
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=over).json["runs"]]


def test_archived_again_with_more_while_it_is_taken_back(over: Path, seam: Seam) -> None:
    """Whoever changes an archived run is told: what they looked at is not what is there."""
    succeed("archive", "old", cwd=over)
    with here(over) as project:
        found = target(project, NOBODY, "old")
        seam.after(HIDDEN, lambda: went_on(over))
        with pytest.raises(Moved):
            taken_back(project, found)
    assert ["before", "in between"] == notes(over, "old")
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=over).json["runs"]]


def test_archived_again_once_it_is_taken_out(over: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it touch a bundle that came right after its own had gone."""
    succeed("archive", "old", cwd=over)
    path, write = over / ".leftoff/archive/old.leftoff", SqliteStore.write
    left = [1]

    def then(store: SqliteStore, *words: Any, **named: Any) -> Any:
        done = write(store, *words, **named)
        if left and not path.exists():
            left.pop()
            with here(over) as project:
                archive(project, NOBODY, "old")
        return done

    monkeypatch.setattr(SqliteStore, "write", then)
    monkeypatch.setattr(
        "leftoff.store.bundle.write.sweep_parts", lambda folder: None
    )  # the other's was before
    with here(over) as project:
        take_out(
            project.store,
            Kept("old", str(path)),
            project.store,
            project.now,
            (this_process(), "somebody"),
        )
    assert ["before"] == notes(over, "old")


def test_archived_by_two_at_once(over: Path, seam: Seam) -> None:
    """Whoever comes last with an older bundle does not put it in the place of the other's."""

    def first() -> None:
        note(over, "old")
        with here(over) as other:
            archive(other, NOBODY, "old")

    seam.before("leftoff.store.bundle.write.BundleWriter.finish", first)
    with here(over) as project:
        assert archive(project, NOBODY, "old").already
    assert ["before", "in between"] == notes(over, "old")


def test_a_bundle_that_is_swept_is_written_again(over: Path, seam: Seam) -> None:
    """The run does not leave the store without it."""
    folder = over / ".leftoff/archive"

    def swept() -> None:
        for part in folder.glob("*".join(PART)):
            part.unlink()

    seam.after(EXPORTED, swept)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert ["old.json", "old.leftoff"] == sorted(os.listdir(folder))
    assert ["before"] == notes(over, "old")


def test_a_part_is_not_swept_while_it_waits_for_its_name(over: Path, seam: Seam) -> None:
    """It is held from when it is whole until the run leaves the store."""
    seam.after(
        "leftoff.engine.retention.archive.note_leaving", lambda: sweep_parts(str(over / ".leftoff/archive"))
    )
    exported = []
    seam.after(EXPORTED, lambda: exported.append(1), 10)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert [1] == exported


def test_the_folder_is_durable_before_the_run_goes(over: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of `archive/` in the store's folder is synced, and so are the names in it."""
    synced: list[str] = []

    def sync(path: str) -> None:
        synced.append(path)
        sync_folder(path)

    for module in ("leftoff.engine.retention.archive", "leftoff.files"):
        monkeypatch.setattr(f"{module}.sync_folder", sync)
    succeed("archive", "old", cwd=over)
    assert [str(over / ".leftoff"), str(over / ".leftoff/archive")] == synced


def test_archives_are_counted_by_commits_not_by_files(project: Path) -> None:
    """A bundle that was copied or touched is not newer for it."""
    (project / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
    for name in ("b", "a"):
        succeed("archive", name, cwd=project)
    os.utime(project / ".leftoff/archive/b.leftoff", (0, 0))
    (gone,) = succeed("prune", "--json", cwd=project).json["removed"]
    assert ("archive", "a") == (gone["kind"], gone["run_id"])


def test_parts_of_the_killed_are_swept(over: Path) -> None:
    """What a killed export left goes with the next one; what is being written stays."""
    folder = over / "out"
    folder.mkdir()
    left = folder / "ab12".join(PART)
    left.write_bytes(b"half")
    mine, fd = open_part(str(folder))
    assert 0 == call("export", "old", "-o", str(folder / "old.leftoff"), cwd=over).code
    assert {"old.leftoff", os.path.basename(mine)} == set(os.listdir(folder))
    os.close(fd)
    sweep_parts(str(folder))
    assert ["old.leftoff"] == os.listdir(folder)


def test_parts_in_the_archive_are_swept(over: Path) -> None:
    """By `prune`, too, which may be the next that comes by."""
    left = over / ".leftoff/archive" / "ab12".join(PART)
    succeed("archive", "old", cwd=over)
    left.write_bytes(b"half")
    succeed("prune", cwd=over)
    assert not left.exists()


def test_a_bundle_that_is_swept_before_it_is_held(over: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sweeps may have it open just then: it is written once more."""
    module = "leftoff.engine.retention.archive.flock"

    def swept_first(fd: int, kind: int) -> None:
        monkeypatch.setattr(module, flock)
        sweep_parts(str(over / ".leftoff/archive"))
        flock(fd, kind)

    monkeypatch.setattr(module, swept_first)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert ["before"] == notes(over, "old")
    assert ["old.json", "old.leftoff"] == sorted(os.listdir(over / ".leftoff/archive"))


def test_a_backup_has_the_archive(over: Path) -> None:
    """And deletes nothing that is called alike."""
    succeed("archive", "old", cwd=over)
    (over / "copy.archive").mkdir()
    (over / "copy.archive/mine").touch()
    with leftoff.open(over / ".leftoff") as store:
        store.backup(over / "copy")
    assert (["copy", "copy.archive"], ["mine"]) == (
        sorted(name for name in os.listdir(over) if name.startswith("copy")),
        os.listdir(over / "copy.archive"),
    )
    listed = succeed("--store", "copy", "ls", "--all", "--json", cwd=over).json["runs"]
    assert ["old"] == [run["run_id"] for run in listed]


@pytest.mark.parametrize("seam_at", [EXPORTED, "leftoff.store.sqlite.store.SqliteStore.remove"])
def test_a_new_run_asks_for_its_name(over: Path, seam: Seam, seam_at: str) -> None:
    """Whenever that is, there are not two of one name afterwards: in the store, and in the archive."""
    seam.after(seam_at, lambda: succeed("start", "w", "--run-id", "old", cwd=over))
    with here(over) as project:
        archive(project, NOBODY, "old")
    names = [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=over).json["runs"]]
    assert ["old", "old-2"] == sorted(names)


def test_a_look_at_a_rollback_takes_nothing_back(over: Path) -> None:
    """What is only shown, on the page or before a question, changes nothing."""
    succeed("archive", "old", cwd=over)
    with here(over) as project:
        assert 2 == plan_rollback(project, NOBODY, Rollback("old@2", files=True)).target.seq
    assert 0 == call("rollback", "old@2", "--dry-run", cwd=over).code
    with here(over) as project:
        plan = dry_run(project, NOBODY, "rollback", "old", {"to": "old@2", "files": True}).plan
    assert (over / ".leftoff/archive/old.leftoff").exists()
    with here(over) as project:
        act(project, NOBODY, "rollback", "old", {"to": "old@2", "files": True, "plan": plan})
    assert "running" == succeed("show", "old", "--json", cwd=over).json["status"]
    assert not (over / ".leftoff/archive/old.leftoff").exists()


@pytest.mark.parametrize("action", ["fork", "rollback"])
def test_an_action_from_a_version_of_an_archived_run(over: Path, action: str) -> None:
    """What the page says that it did is in the store, and not in one that is gone after the call."""
    succeed("archive", "old", cwd=over)
    said = {"at": "old@2", "run_id": "new"} if action == "fork" else {"to": "old@2", "yes": True}
    with here(over) as project:
        done = act(project, NOBODY, action, "old", said)
    assert call("show", done.run_id, cwd=over).code == 0
    assert not (over / ".leftoff/archive/old.leftoff").exists()


def test_a_checkpoint_of_an_archived_run_is_resumed(over: Path) -> None:
    """In the store: what the command says is so afterwards."""
    succeed("archive", "old", cwd=over)
    assert 0 == call("resume", "old", "--checkpoint", "2", "--yes", cwd=over).code
    assert "running" == succeed("show", "old", "--json", cwd=over).json["status"]
    assert not (over / ".leftoff/archive/old.leftoff").exists()


def test_it_goes_on_while_somebody_is_asked(over: Path) -> None:
    """Another took it back meanwhile, and worked on it: what was agreed to was about another state."""
    succeed("archive", "old", cwd=over)

    def ended(run_id: str, running: object) -> bool:
        raise AssertionError(run_id)

    with here(over) as project:
        found = target(project, NOBODY, "old@2")
        succeed("undelete", "old", cwd=over)
        with pytest.raises(Conflict, match="meanwhile"):
            taken_back(project, found)
    with here(over) as project:
        assert rollback(project, NOBODY, Rollback("old@2"), ended, bool).done


def test_taken_back_by_two_at_once(over: Path) -> None:
    """Whoever comes second goes on with the same run."""
    succeed("archive", "old", cwd=over)
    with here(over) as project, here(over) as other:
        targets = [(each, target(each, NOBODY, "old")) for each in (project, other)]
        first, second = (taken_back(each, found).row for each, found in targets)
    assert (first.run, first.seq, first.digest) == (second.run, second.seq, second.digest)


def test_a_question_on_the_page_leaves_it_there(project: Path) -> None:
    """It comes back once the question has its answer; what was done is written down in the run."""
    (project / "made").write_text("made")
    succeed("start", "w", "--run-id", "old", "--steps", "a,b", cwd=project)
    succeed("step", "done", "a", "--output", "made", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    succeed("archive", "old", cwd=project)
    (project / "made").unlink()
    with here(project) as page, pytest.raises(NeedsPerson):
        act(page, NOBODY, "resume", "old", {})
    assert (project / ".leftoff/archive/old.leftoff").exists()
    with here(project) as page:
        act(page, NOBODY, "resume", "old", {"accept": ["outputs.missing"]})
    assert not (project / ".leftoff/archive/old.leftoff").exists()
    assert "running" == succeed("show", "old", "--json", cwd=project).json["status"]


@pytest.mark.parametrize("again", [False, True], ids=["taken out", "archived anew"])
@pytest.mark.parametrize("inside", [False, True], ids=["a bundle", "in the store"])
def test_an_archive_too_many_that_moved_meanwhile(
    over: Path, seam: Seam, monkeypatch: pytest.MonkeyPatch, inside: bool, again: bool
) -> None:
    """One that somebody took out of the archive since it was chosen, or that went on and came back, stays."""
    if inside:
        monkeypatch.setattr(SqliteStore, "archive_folder", lambda self, *, make=False: None)
    (over / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    with here(over) as project:
        archive(project, NOBODY, "old")

    def work() -> None:
        with here(over) as other:
            undelete(other, "old")
        if again:
            with here(over) as other:
                archive(other, NOBODY, "old")

    seam.before("leftoff.engine.retention.archive_trash.discard", work)
    with here(over) as project:
        assert [] == [gone for gone in prune(project).removed if gone["kind"] == "archive"]
        assert [] == trash(project)
    assert ["before"] == notes(over, "old")


@pytest.mark.parametrize("where", ["engine.retention.archive.open_kept", "store.bundle.read._open"])
@pytest.mark.parametrize(
    "work", [lambda here_: target(here_, NOBODY, "old"), lambda here_: undelete(here_, "old")]
)
def test_a_run_is_taken_out_before_its_bundle_is_read(over: Path, seam: Seam, where: str, work: Any) -> None:
    """Nothing is damaged, and no file is missed: it is looked for again."""
    succeed("archive", "old", cwd=over)
    seam.before(f"leftoff.{where}", lambda: succeed("undelete", "old", cwd=over))
    with here(over) as project:
        try:
            work(project)
        except NotFound as error:  # to be brought back
            assert "it is there" in error.message
    assert ["before"] == notes(over, "old")


@pytest.mark.parametrize("when", ["looked for", "taken in"])
def test_another_run_is_archived_under_the_id_of_an_import(over: Path, seam: Seam, when: str) -> None:
    """Two of one id are never there: nothing is imported."""
    succeed("start", "other", "--run-id", "old", "--store", "elsewhere", cwd=over)
    succeed("export", "old", "-o", "other.bundle", "--store", "elsewhere", cwd=over)
    if when == "looked for":
        seam.after(
            "leftoff.engine.retention.archive.refuse_other", lambda: succeed("archive", "old", cwd=over)
        )
    else:
        succeed("export", "old", "-o", "old.bundle", cwd=over)
        succeed("rm", "old", "--yes", cwd=over)

        def work() -> None:
            succeed("import", "old.bundle", cwd=over)
            succeed("archive", "old", cwd=over)

        seam.before("leftoff.engine.retention.export._Replay.put_in_order", work)
    with here(over) as project:
        done = import_runs(project, Import(["other.bundle"]))
    assert ([], ["conflict"]) == (done.imported, [each["code"] for each in done.rejected])
    assert ["before"] == notes(over, "old")
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=over).json["runs"]]


# -- bundles in the trash


def test_an_archive_too_many_that_cannot_be_moved(over: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stays in the archive, and nothing in the trash tells of one that was there."""
    (over / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    with here(over) as project:
        archive(project, NOBODY, "old")
        found = kept(project.store, "old")
        assert found is not None

        def busy(work: Any) -> None:
            raise StoreUnavailable("somebody else writes")

        with monkeypatch.context() as patch:
            patch.setattr(project.store, "write", busy)
            with pytest.raises(StoreUnavailable):
                discard(project.store, found, project.now)
    assert [] == list((over / ".leftoff" / "archive" / "trash").iterdir())
    succeed("rm", "old", "--yes", cwd=over)
    succeed("fsck", cwd=over)


@pytest.fixture
def discarded(over: Path) -> Path:
    """The archived run lies in the trash; and so it would once more."""
    (over / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    succeed("export", "old", "-o", "old.bundle", cwd=over)
    succeed("archive", "old", cwd=over)
    succeed("prune", cwd=over)
    return over


def test_two_of_one_id_in_the_trash(discarded: Path) -> None:
    """The second does not take the place of the first: each is kept for its days, and the last one comes back first."""
    succeed("import", "old.bundle", cwd=discarded)
    succeed("note", "later", "--run", "old", cwd=discarded)
    succeed("archive", "old", cwd=discarded)
    succeed("prune", cwd=discarded)
    with here(discarded) as project:
        assert ["old", "old"] == [each.run_id for each in trash(project)]
        undelete(project, "old")
    assert ["before", "later"] == notes(discarded, "old")
    succeed("rm", "old", "--yes", cwd=discarded)
    succeed("undelete", "old", cwd=discarded)
    assert ["before"] == notes(discarded, "old")


def test_an_id_in_the_trash_is_taken(discarded: Path) -> None:
    """A new run gets a suffix, so that the other one can come back."""
    assert "old-2" == succeed("start", "w", "--run-id", "old", cwd=discarded).out.strip()
    succeed("undelete", "old", cwd=discarded)


def test_a_bundle_is_brought_back_while_the_trash_is_emptied(discarded: Path, seam: Seam) -> None:
    """Nothing went then, and nothing is told to have gone."""
    seam.after("leftoff.engine.retention.trash.contents", lambda: succeed("undelete", "old", cwd=discarded))
    with here(discarded) as project:
        assert [] == prune(project, empty=True).removed
    assert ["before"] == notes(discarded, "old")


def test_the_trash_is_emptied_while_a_bundle_is_brought_back(discarded: Path, seam: Seam) -> None:
    """It is told where it was, and not which file is missing."""
    seam.before(
        "leftoff.engine.retention.archive_trash.take_back",
        lambda: succeed("prune", "--empty-trash", cwd=discarded),
    )
    with here(discarded) as project, pytest.raises(Conflict, match="no longer in the trash"):
        undelete(project, "old")


def test_a_bundle_that_is_taken_out_while_its_page_is_made_again(over: Path, seam: Seam) -> None:
    """`fsck --repair` leaves no page of a run that is in the store."""
    succeed("archive", "old", cwd=over)
    page = over / ".leftoff/archive/old.json"
    page.write_text("damaged")
    seam.before(
        "leftoff.engine.retention.archive_check.run_info", lambda: succeed("undelete", "old", cwd=over)
    )
    with here(over) as project:
        check_archive(project.store, found_nothing(), repair=True)
    assert not page.exists()


def test_started_by_an_id_that_is_archived_meanwhile(over: Path, seam: Seam) -> None:
    """A run that left the store since its id was looked up still has it."""
    seam.after("leftoff.operations.lifecycle._opening", lambda: succeed("archive", "old", cwd=over))
    assert "old-2" == succeed("start", "w", "--run-id", "old", cwd=over).out.strip()
