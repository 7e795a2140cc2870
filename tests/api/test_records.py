"""Records of any collection, notes and artifacts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.commit import Terms, report
from leftoff.engine.opening import run_by_id
from leftoff.errors import Frozen, Invalid, NotFound, Usage
from leftoff.model.changes import ChangeSet
from leftoff.model.words import COLLECTIONS
from tests.api.others import elsewhere

OWN = [word for word in COLLECTIONS if word not in ("run", "variable", "item", "step", "audit")]


def test_any_collection(store: leftoff.Store, run: leftoff.Run) -> None:
    """put, and read back by collection and key; seen here at once, elsewhere after the commit."""
    for collection in OWN:
        run.put(collection, "k/1", {"b": [1], "a": None})
        assert {"a": None, "b": [1]} == run.records[collection]["k/1"]
        assert collection in run.records and collection not in store.get(run.id).records
        run.commit()
        assert {"k/1": {"a": None, "b": [1]}} == dict(store.get(run.id).records[collection])


def test_records_are_mappings(run: leftoff.Run) -> None:
    """Sorted, read-only, frozen; a collection without records is empty; an unknown one is refused by name."""
    for key in ("b", "a", "c"):
        run.put("knowledge", key, {"n": key})
    assert ["a", "b", "c"] == list(run.records["knowledge"]) and 3 == len(run.records["knowledge"])
    assert {} == dict(run.records["score"]) and "score" not in run.records
    with pytest.raises(Frozen):
        run.records["knowledge"]["a"]["n"] = 1
    with pytest.raises(TypeError):
        run.records["knowledge"]["d"] = 1  # type: ignore[index]
    with pytest.raises(KeyError):
        run.records["knowledge"]["z"]
    with pytest.raises(Invalid, match="no collection 'wisdom'") as caught:
        run.records["wisdom"]
    assert "knowledge" in caught.value.hint
    assert "knowledge" in repr(run.records)


def test_putting_a_variable_or_a_step(store: leftoff.Store, run: leftoff.Run) -> None:
    """It is the same as setting it the usual way."""
    run.put("variable", "v", 1)
    run.put("step", "a", {"status": "completed", "result": 2})
    assert (1, True, 2) == (run.variables["v"], run.done("a"), run.result("a"))
    assert 1 == run.records["variable"]["v"] and "completed" == run.records["step"]["a"]["status"]
    run.commit()
    assert run.done("a") and 1 == run.info.steps["completed"]


def test_entries_of_a_variable_are_not_put(run: leftoff.Run) -> None:
    """They belong to it."""
    with pytest.raises(Invalid, match="entries of a variable"):
        run.put("item", "v/0", 1)


def test_who_decided_is_not_put(run: leftoff.Run) -> None:
    """The page alone writes down who did what through it: a program cannot tell of a yes that nobody gave."""
    with pytest.raises(Usage, match="leftoff's own"):
        run.put("audit", "000000000000001-x", {"action": "approve", "step": "release"})


def test_what_a_run_knows_of_itself(store: leftoff.Store) -> None:
    """Its own records: workflow, title, status, when it was created."""
    run = store.start("w", title="T", issue=42)
    own = run.records["run"]
    assert ("w", "T", "running", "42", "main") == tuple(
        own[key] for key in ("workflow", "title", "status", "issue", "branch")
    )
    run.put("run", "title", "New")
    run.commit()
    assert "New" == run.title == store.list()[0].title


def test_parallel_reports_do_not_collide(run: leftoff.Run, store_path: Path) -> None:
    """Two who write different records both have their way."""
    run.put("knowledge", "mine", 1)
    elsewhere(store_path, run.id, {("knowledge", "theirs"): 2})
    run.commit()
    assert {"mine": 1, "theirs": 2} == dict(run.records["knowledge"])


# -- notes


def test_notes(store: leftoff.Store, run: leftoff.Run) -> None:
    """Each is kept, in order, with when and in which step; the text is not the key."""
    run.note("first")
    with run.step("a"):
        run.note("second")
    run.note("first")
    run.commit()
    notes = list(store.get(run.id).records["note"].values())
    assert ["first", "second", "first"] == [note["text"] for note in notes]
    assert [None, "a", None] == [note.get("step") for note in notes]
    assert all(note["at"].endswith("Z") for note in notes)


def test_notes_of_several_drivers_are_all_kept(store: leftoff.Store, run: leftoff.Run) -> None:
    """Also where they are written within one tick of the clock."""
    for _ in range(5):
        run.note("n")
        run.pause()
        run = store.resume(run.id)
    assert 5 == len(run.records["note"])


# -- artifacts


def test_artifact(store: leftoff.Store, run: leftoff.Run, project: Path) -> None:
    """Path, hash, size and step are recorded, and a copy as the file was."""
    (project / "out").mkdir()
    page = project / "out" / "a.md"
    page.write_text("# page\n" * 1000)
    content = page.read_bytes()
    with run.step("convert"):
        about = run.artifact("out/a.md")
        assert ["out/a.md"] == list(run.artifacts)
    page.write_text("changed later")
    expected = {
        "path": "out/a.md",
        "hash": "sha256:" + hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "captured": True,
        "step": "convert",
        "captured_at": about["captured_at"],
        "mode": f"{page.stat().st_mode & 0o777:04o}",
        "seen": about["seen"],
    }
    assert expected == about == store.get(run.id).artifacts["out/a.md"]
    assert ["out/a.md"] == run.steps["convert"]["outputs"]
    blob = b"".join(store._store.load_blob(bytes.fromhex(about["hash"][7:])))
    assert content == blob


@pytest.mark.parametrize("given", [str, Path, os.fsencode], ids=["text", "path", "bytes"])
def test_paths_in_any_form(run: leftoff.Run, project: Path, given: Any) -> None:
    """Text, paths and bytes, relative or not, name the same file."""
    (project / "a.md").write_text("page")
    for path in ("a.md", project / "a.md", "./a.md"):
        assert "a.md" == run.artifact(given(path))["path"]
    assert ["a.md"] == list(run.artifacts)


def test_a_file_outside_the_project(run: leftoff.Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is named by its full path."""
    page = tmp_path_factory.mktemp("elsewhere") / "a.md"
    page.write_text("page")
    assert str(page) == run.artifact(page)["path"]


def test_a_name_of_its_own(run: leftoff.Run, project: Path) -> None:
    """An artifact may be called something else than its file; the newest of a name counts."""
    for number in (1, 2):
        (project / f"{number}.md").write_text(f"page {number}")
        run.artifact(f"{number}.md", name="the page", step="other")
    run.commit()
    assert ["the page"] == list(run.artifacts)
    assert ("2.md", "other") == (run.artifacts["the page"]["path"], run.artifacts["the page"]["step"])


def test_empty_and_large_files(store: leftoff.Store, run: leftoff.Run, project: Path) -> None:
    """Of any size."""
    for name, content in (("empty", b""), ("large", os.urandom(3_000_000)), ("text", b"line\n" * 500_000)):
        (project / name).write_bytes(content)
        about = run.artifact(name)
        run.commit()
        assert len(content) == about["size"]
        assert content == b"".join(store._store.load_blob(bytes.fromhex(about["hash"][7:])))


def test_the_same_content_is_kept_once(run: leftoff.Run, project: Path, store_path: Path) -> None:
    """By its hash."""
    for name in "abc":
        (project / name).write_text("the same")
        run.artifact(name)
    run.commit()
    assert 3 == len(run.artifacts)
    assert 1 == len([path for path in (store_path / "blobs").rglob("*") if path.is_file()])


@pytest.mark.parametrize("name", ["missing.md", "folder", "missing/a.md"])
def test_no_such_file(run: leftoff.Run, project: Path, name: str) -> None:
    """NotFound, and nothing is recorded."""
    (project / "folder").mkdir()
    with pytest.raises(NotFound, match="file") as caught:
        run.artifact(name)
    assert "before you record it" in caught.value.hint
    assert {} == dict(run.artifacts)


SECRET_FILES = [".env", ".env.local", "server.pem", "id_rsa", "deploy/.netrc", "credentials.json", "tls.key"]
ORDINARY_FILES = [".env.example", "id_rsa.pub", "environment.md", "keys.md"]


def test_secret_files_are_hashed_not_captured(run: leftoff.Run, project: Path, store_path: Path) -> None:
    """So that a change can be noticed, while the content stays out of the store."""
    for number, name in enumerate([*SECRET_FILES, *ORDINARY_FILES]):
        path, content = project / name, f"API_KEY=abcdefgh{number:02}\n".encode()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        about = run.artifact(name)
        run.commit()
        captured = name in ORDINARY_FILES
        assert captured == about["captured"] == run.artifacts[name]["captured"], name
        assert "sha256:" + hashlib.sha256(content).hexdigest() == about["hash"]
        everything = b"".join(file.read_bytes() for file in store_path.rglob("*") if file.is_file())
        assert captured == (content.strip() in everything), name


@pytest.mark.parametrize(
    ("what", "says"), [("gone", "Write the file"), ("folder", "Check"), ("shut", "Check")]
)
def test_an_artifact_that_changes_under_our_hands(
    what: str, says: str, run: leftoff.Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a file when we looked, and is none when it is opened: told as that, with what to do."""
    (project / "folder").mkdir()
    (project / "shut").touch(0o000)
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    if what == "shut" and os.getuid() == 0:  # who may read everything
        usual = os.open

        def shut(path: Any, *args: Any, **more: Any) -> int:
            if str(path).endswith("shut"):
                raise PermissionError(13, "Permission denied", path)
            return usual(path, *args, **more)

        monkeypatch.setattr(os, "open", shut)
    with pytest.raises(leftoff.LeftoffError, match=what) as caught:
        run.artifact(project / what)
    assert says in caught.value.hint


def test_an_artifact_of_a_folder_that_is_gone(
    run: leftoff.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path leads nowhere then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(leftoff.LeftoffError, match="current folder is gone") as caught:
        run.artifact("report.txt")
    assert "whole path" in caught.value.hint


def test_an_artifact_that_is_replaced(run: leftoff.Run, project: Path) -> None:
    """Each version has its own copy."""
    page = project / "a.md"
    page.write_text("old")
    run.artifact("a.md")
    old = run.checkpoint()
    page.write_text("new!")
    run.artifact("a.md")
    run.checkpoint()
    assert (3, 4) == (run.at(old).artifacts["a.md"]["size"], run.artifacts["a.md"]["size"])
    assert ["a.md"] == list(run.diff(old).artifacts.changed)


def test_a_large_report_is_saved_before_its_transaction(
    store: leftoff.Store, run: leftoff.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and not while others wait to write."""
    inner, saved = store._store, []
    save, write = inner.save_blob, inner.write

    def counted(chunks: Any) -> Any:
        saved.append("blob")
        return save(chunks)

    def marked(fn: Any, **how: Any) -> Any:
        saved.append("write")
        return write(fn, **how)

    changes = ChangeSet()
    changes.put("variable", "v", "y" * 1_500_000)
    monkeypatch.setattr(inner, "save_blob", counted)
    monkeypatch.setattr(inner, "write", marked)
    report(inner, lambda view: run_by_id(view, run.id), lambda *_: None, Terms(0), changes=changes)
    assert ["blob", "write"] == saved
    assert "y" * 1_500_000 == store.get(run.id).variables["v"]
