"""The archive: a bundle is the only copy of its run, and a page is what it is found by. Damage to either is told."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import leftoff
from tests.cli.command import Called, call, succeed

pytestmark = pytest.mark.damages_store


@pytest.fixture
def archived(project: Path) -> Path:
    """Two archived runs with titles, and one at work."""
    for name in ("old", "older"):
        succeed("start", "w", "--run-id", name, "--title", f"Title of {name}", "--issue", "7", cwd=project)
        succeed("set", "n=1", "--run", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
        succeed("archive", name, cwd=project)
    succeed("start", "w", "--run-id", "new", cwd=project)
    return project


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def problems(done: Called) -> list[tuple[str, str]]:
    return [(each["code"], Path(each["where"]).name) for each in done.json["problems"]]


def test_a_page_says_what_was_written_or_that_it_is_damaged(archived: Path) -> None:
    """Whichever bit is flipped, whatever is cut: no listing has another title, id or status, without a word."""
    page = archived / ".leftoff/archive/old.json"
    data = page.read_bytes()
    right = succeed("ls", "--all", "--json", cwd=archived).json["runs"]
    draw = random.Random(7)
    for at in [*draw.sample(range(len(data)), 25), None]:
        page.write_bytes(data if at is not None else b"")
        if at is not None:
            flip(page, at, draw.randrange(8))
        done = succeed("ls", "--all", "--json", cwd=archived)
        runs = {run["run_id"]: run for run in done.json["runs"]}
        assert {"old", "older", "new"} == runs.keys()
        if "the page of the archived run old is damaged" in done.err:
            assert ("unknown", True, None) == tuple(
                runs["old"].get(k) for k in ("status", "damaged", "title")
            )
        else:  # at most the name of its checksum is another
            assert right == [{key: run[key] for key in right[-1] if key in run} for run in done.json["runs"]]


def test_a_damaged_page_hides_no_run(archived: Path) -> None:
    """Its run is found by its id; what else it is called is not known, which is no proof that nothing is called so."""
    flip(archived / ".leftoff/archive/old.json", 40)
    assert "old" == succeed("show", "old", "--json", cwd=archived).json["run_id"]
    assert "older" == succeed("show", "title of older", "--json", cwd=archived).json["run_id"]
    for words in (
        ("show", "title of old"),
        ("note", "x", "--run", "title of old"),
        ("undelete", "Title of old"),
    ):
        done = call(*words, cwd=archived)
        assert 4 == done.code and "of run old" in done.err, str(done)


def test_fsck_reads_the_archive(archived: Path) -> None:
    """A page is made again from its bundle; a damaged bundle is put aside, and its run named as lost."""
    folder = archived / ".leftoff/archive"
    before = succeed("ls", "--all", "--json", cwd=archived).json["runs"]
    assert 2 == succeed("fsck", "--json", cwd=archived).json["checked"]["bundles"]
    flip(folder / "old.json", 40)
    checked = call("fsck", "--json", cwd=archived)
    assert (4, [("archive", "old.json")]) == (checked.code, problems(checked))
    succeed("fsck", "--repair", cwd=archived)
    assert before == succeed("ls", "--all", "--json", cwd=archived).json["runs"]

    flip(folder / "older.leftoff", (folder / "older.leftoff").stat().st_size // 2)
    data = (folder / "older.leftoff").read_bytes()
    checked = call("fsck", "--json", cwd=archived)
    assert (4, [("archive", "older.leftoff")]) == (checked.code, problems(checked))
    done = succeed("fsck", "--repair", "--json", cwd=archived).json
    assert [("older", None)] == [(each["run_id"], each["kept"]) for each in done["salvaged"]]
    assert [data] == [Path(each).read_bytes() for each in done["quarantined"]]
    assert "Clean." in succeed("fsck", cwd=archived).out
    assert 3 == call("show", "older", cwd=archived).code


def test_a_bundle_in_the_trash_comes_back_without_its_page(archived: Path) -> None:
    """A page that cannot be read hides nothing of the trash, and fsck tells of it."""
    (archived / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    succeed("prune", cwd=archived)
    (page,) = (archived / ".leftoff/archive/trash").glob("*.json")
    page.write_bytes(b"")
    assert ["old"] == [each["run_id"] for each in succeed("undelete", "--json", cwd=archived).json["trash"]]
    assert [("archive", page.name)] == problems(call("fsck", "--json", cwd=archived))
    assert "old" == succeed("undelete", "old", "--json", cwd=archived).json["run_id"]
    assert {"n": 1} == succeed("show", "old", "--json", cwd=archived).json["variables"]
    assert "Clean." in succeed("fsck", cwd=archived).out


@pytest.mark.parametrize("where", ["archive", "trash"])
@pytest.mark.parametrize("instead", ["nothing", "folder", "link"])
def test_a_bundle_that_is_gone_is_missed(archived: Path, where: str, instead: str) -> None:
    """Its page tells of it: no listing leaves its run out without a word, who names it is told what is wrong, and a
    repair names the run as lost, once."""
    bundle = archived / ".leftoff/archive/old.leftoff"
    if where == "trash":
        bundle.parent.joinpath("trash").mkdir()
        bundle = bundle.rename(bundle.parent / "trash/old~3.leftoff")
        (archived / ".leftoff/archive/old.json").rename(bundle.with_suffix(".json"))
    bundle.unlink()
    if instead == "folder":
        bundle.mkdir()
    elif instead == "link":
        bundle.symlink_to("older.leftoff")
    for listing in (("ls", "--all"), ("undelete",)):
        assert "the bundle of the archived run old is gone" in succeed(*listing, cwd=archived).err, listing
    for verb in ("show", "undelete", "rm"):
        done = call(verb, "old", cwd=archived)
        assert (4, True) == (done.code, "run old is gone" in done.err), verb
    assert [("archive", bundle.with_suffix(".json").name)] == problems(call("fsck", "--json", cwd=archived))
    done = succeed("fsck", "--repair", "--json", cwd=archived)
    assert ["old"] == [loss["run_id"] for loss in done.json["salvaged"]]
    assert [] == problems(succeed("fsck", "--json", cwd=archived))
    assert 3 == call("show", "old", cwd=archived).code
    assert "" == succeed("ls", "--all", cwd=archived).err


def test_a_run_that_is_elsewhere_is_not_missed(archived: Path) -> None:
    """A page without its bundle, as a kill leaves it: of a run that is in the store, or in the other place."""
    folder = archived / ".leftoff/archive"
    page = (folder / "old.json").read_bytes()
    succeed("undelete", "old", cwd=archived)
    (folder / "old.json").write_bytes(page)
    (folder / "trash").mkdir()
    (folder / "trash/older~1.json").write_bytes((folder / "older.json").read_bytes())
    assert "" == succeed("ls", "--all", cwd=archived).err
    assert [] == problems(succeed("fsck", "--json", cwd=archived))


def test_what_to_do_with_a_damaged_bundle(archived: Path) -> None:
    """It is the only copy of its run: nobody is told to export that again, nor who has a copy of it elsewhere, which
    comes in once the damaged one is put aside."""
    bundle = archived / ".leftoff/archive/old.leftoff"
    (archived / "copy.leftoff").write_bytes(bundle.read_bytes())
    bundle.write_bytes(b"")
    for words in (("show", "old"), ("undelete", "old"), ("import", "copy.leftoff")):
        done = call(*words, cwd=archived)
        assert (4, False, True) == (done.code, "export" in done.err, "fsck --repair" in done.err), words
    succeed("fsck", "--repair", cwd=archived)
    assert "" == succeed("ls", "--all", cwd=archived).err
    succeed("import", "copy.leftoff", cwd=archived)


def test_a_checkpoint_beside_a_damaged_bundle(archived: Path) -> None:
    """Whose it is can be told as long as every bundle says what its checkpoints are; else what to do about that one."""
    folder = archived / ".leftoff/archive"
    (checkpoint,) = succeed("log", "old", "--json", cwd=archived).json["checkpoints"]
    named = ("show", checkpoint["checkpoint_id"], "--json")
    data = bytearray((folder / "older.leftoff").read_bytes())
    tail = data.rindex(bytes.fromhex("28b52ffd"))  # what is packed: values
    data[tail : tail + 40] = bytes(40)
    (folder / "older.leftoff").write_bytes(data)
    assert 4 == call("show", "older", cwd=archived).code
    assert "old" == succeed(*named, cwd=archived).json["run_id"]
    (folder / "older.leftoff").write_bytes(b"")
    done = call(*named, cwd=archived)
    assert (4, True, False) == (done.code, "fsck --repair" in done.err, "export" in done.err)


def test_what_is_wrong_is_told_in_a_line(archived: Path) -> None:
    """Whatever SQLite says of a bundle, and in however many lines."""
    bundle = archived / ".leftoff/archive/old.leftoff"
    data = bytearray(bundle.read_bytes())
    for at in range(4096, len(data), 97):
        data[at] ^= 255
    bundle.write_bytes(data)
    assert 2 == len(call("show", "old", cwd=archived).err.splitlines())
    (lost,) = succeed("fsck", "--repair", "--json", cwd=archived).json["salvaged"]
    assert (1, True) == (len(lost["message"].splitlines()), lost["message"].endswith(". It is left out."))


def test_a_folder_in_the_place_of_a_blob(archived: Path) -> None:
    """Nothing is kept in it, and it stops no sweep: who needs the blob is told, and a repair moves it aside."""
    (archived / "a.txt").write_text("text")
    succeed("track", "a.txt", "--run", "new", cwd=archived)
    (blob,) = (archived / ".leftoff/blobs").rglob("*/*")
    blob.unlink()
    blob.mkdir()
    succeed("start", "w", "--run-id", "other", cwd=archived)
    done = call("track", "a.txt", "--run", "other", cwd=archived)
    assert (8, True) == (done.code, "fsck --repair" in done.err)
    succeed("rm", "new", "--yes", cwd=archived)
    for _ in range(2):
        succeed("prune", cwd=archived)
    assert 0 == call("fsck", cwd=archived).code


def test_bundles_and_pages_in_each_others_place(archived: Path) -> None:
    """A bundle has the name of its run, and so has a page: no run comes back, or is listed, as another one."""
    folder = archived / ".leftoff/archive"

    def swap(suffix: str) -> None:
        (folder / f"old{suffix}").rename(folder / "aside")
        (folder / f"older{suffix}").rename(folder / f"old{suffix}")
        (folder / "aside").rename(folder / f"older{suffix}")

    swap(".json")
    done = succeed("ls", "--all", "--json", cwd=archived)
    assert [None, None] == [run.get("title") for run in done.json["runs"] if run["run_id"] != "new"]
    swap(".json")
    swap(".leftoff")
    for verb in ("show", "undelete", "log"):
        done = call(verb, "old", cwd=archived)
        assert (4, True) == (done.code, "holds another run: older" in done.err), verb
    assert 4 == call("fsck", cwd=archived).code
    done = succeed("fsck", "--repair", "--json", cwd=archived)
    assert ["old", "older"] == sorted(loss["run_id"] for loss in done.json["salvaged"])
    for path in done.json["quarantined"]:
        succeed("import", path, cwd=archived)
    assert {"old", "older", "new"} == {
        run["run_id"] for run in succeed("ls", "--json", cwd=archived).json["runs"]
    }


@pytest.mark.parametrize("name", ["blobs", "archive", "attempts"])
def test_a_file_in_the_place_of_a_folder(archived: Path, name: str) -> None:
    """Who needs the folder is told what is there and what to do."""
    place = archived / ".leftoff" / name
    if place.exists():
        place.rename(archived / "away")
    place.write_text("")
    (archived / "a.txt").write_text("text")
    (archived / "flow.yaml").write_text("name: flow\nsteps:\n  - id: a\n    run: 'true'\n")
    succeed("start", "w", "--run-id", "done", cwd=archived)
    succeed("finish", "--run", "done", cwd=archived)
    verbs = {"blobs": ("track", "a.txt", "--run", "new"), "archive": ("archive", "done")}
    done = call(*verbs.get(name, ("run", "flow.yaml")), cwd=archived)
    assert (8, True) == (done.code, "Move it away" in done.err), done
    place.unlink()


@pytest.mark.parametrize("left", ["nothing", "a file"])
def test_an_archive_that_is_gone_is_missed(archived: Path, left: str) -> None:
    """The store knows that there was one: listings, whoever asks for a run of it, and fsck say so; repair says it once
    more, and puts aside what is in its place."""
    folder = archived / ".leftoff/archive"
    shutil.rmtree(folder)
    if left != "nothing":
        folder.write_text("junk")
    wrong = (
        "and archived runs should be in there"
        if left != "nothing"
        else "and with it what was archived in there"
    )
    for words in (("ls", "--all"), ("undelete",)):
        assert wrong in succeed(*words, cwd=archived).err, words
    for words in (("show", "old"), ("undelete", "old")):
        done = call(*words, cwd=archived)
        assert (3, True) == (done.code, wrong in done.err), words
    succeed("finish", "--run", "new", cwd=archived)
    assert (4 if left == "nothing" else 8) == call("archive", "new", cwd=archived).code
    done = call("fsck", "--json", cwd=archived)
    assert (4, [("archive", "archive")]) == (done.code, problems(done))
    repaired = succeed("fsck", "--repair", "--json", cwd=archived).json
    assert [wrong in each["message"] for each in repaired["repaired"]] == [True]
    assert (left != "nothing") == bool(repaired["quarantined"])
    succeed("fsck", cwd=archived)
    assert "" == succeed("ls", "--all", cwd=archived).err
    succeed("archive", "new", cwd=archived)
    succeed("fsck", cwd=archived)


def test_a_trash_that_is_no_folder_is_told(archived: Path) -> None:
    """What lay in there is not to be had, which is no empty trash."""
    (archived / ".leftoff/archive/trash").write_text("junk")
    assert "archived runs should be in there" in succeed("undelete", cwd=archived).err
    assert [("archive", "trash")] == problems(call("fsck", "--json", cwd=archived))
    succeed("fsck", "--repair", cwd=archived)
    assert "The trash is empty.\n" == succeed("undelete", cwd=archived).err


def test_a_copy_of_a_store_whose_archive_is_empty_lacks_nothing(archived: Path, tmp_path: Path) -> None:
    """Every archived run was brought back: neither kind of copy takes the empty folder for a loss."""
    for name in ("old", "older"):
        succeed("undelete", name, cwd=archived)
    with leftoff.open(archived / ".leftoff") as store:
        store.backup(tmp_path / "backup")
    succeed("store", "copy", ".leftoff", str(tmp_path / "copy"), cwd=archived)
    for copy in ("backup", "copy"):
        assert "" == succeed("ls", "--all", "--store", str(tmp_path / copy), cwd=archived).err
        succeed("fsck", "--store", str(tmp_path / copy), cwd=archived)
