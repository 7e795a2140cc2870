"""Files in Python: track, restore, and a rollback that brings them back."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine import restoring
from leftoff.errors import Conflict, Invalid, NeedsPerson, NotFound
from tests.workspace.trees import tree


class Cut(BaseException):
    """The process ends here."""


def saved(run: leftoff.Run) -> Any:
    """The newest version that was made before a rollback."""
    return next(version for version in run.history() if version.trigger == "rollback_begin")


@pytest.fixture
def then(run: leftoff.Run, project: Path) -> Any:
    """A checkpoint with two tracked files, which have changed since."""
    for name in ("a", "b"):
        (project / name).write_text(f"{name} then")
    run.track("a", project / "b")
    version = run.checkpoint()
    for name in ("a", "b", "new"):
        (project / name).write_text(f"{name} now")
    run.track("a", "b", "new")
    return version


def test_track_is_buffered(store: leftoff.Store, run: leftoff.Run, project: Path) -> None:
    """What is recorded is given back, seen at once by this process, and by others after the commit."""
    (project / "a").write_text("a")
    about = run.track("a")[0]
    assert ("a", 1, True, "created") == (about["path"], about["size"], about["captured"], about["status"])
    assert "a" in run.records["file"] and "a" not in store.get(run.id).records["file"]
    run.commit()
    assert "a" in store.get(run.id).records["file"]


def test_a_file_behind_a_link_that_leads_out(
    run: leftoff.Run, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A checkpoint leaves what it knew of the file: it is not looked at, and stands in nobody's way."""
    (project / "d").mkdir()
    (project / "d" / "a").write_text("then")
    known = run.track("d/a")[0]
    run.checkpoint()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "a").write_text("changed since")
    (project / "d").rename(project / "e")
    (project / "d").symlink_to(elsewhere)
    run.checkpoint()
    assert known == run.records["file"]["d/a"]


@pytest.mark.parametrize(("path", "error"), [("missing", NotFound), ("/etc/passwd", Invalid)])
def test_what_cannot_be_tracked(path: str, error: type[Exception], run: leftoff.Run, project: Path) -> None:
    """A file that is not there, or not in the project, is an error."""
    with pytest.raises(error):
        run.track(path)
    assert {} == tree(project)


def test_rollback_with_files(run: leftoff.Run, then: Any, project: Path) -> None:
    """Records and files are as they were; the run goes on, and a second rollback brings everything back."""
    run.variables["x"] = 1
    now = tree(project)
    version = run.rollback(then, files=True)
    assert ("rollback", "running", {}) == (version.trigger, run.status, dict(run.variables))
    assert {"a": b"a then", "b": b"b then"} == {path: about[2] for path, about in tree(project).items()}
    run.rollback(saved(run), files=True)
    assert (now, 1) == (tree(project), run.variables["x"])


def test_without_files_they_stay(run: leftoff.Run, then: Any, project: Path) -> None:
    """A rollback that does not ask for files touches none."""
    now = tree(project)
    run.rollback(then)
    assert now == tree(project)


def test_changes_need_a_yes(run: leftoff.Run, then: Any, project: Path) -> None:
    """What was changed since it was recorded is a question, which ``yes`` answers; it is saved first."""
    (project / "a").write_text("by hand")
    now = tree(project)
    with pytest.raises(NeedsPerson, match=r"last recorded: a\."):
        run.rollback(then, files=True)
    assert now == tree(project)
    run.rollback(then, files=True, yes=True)
    assert "a then" == (project / "a").read_text()
    run.rollback(saved(run), files=True)
    assert now == tree(project)


def test_restore(run: leftoff.Run, then: Any, project: Path) -> None:
    """One file is as it was, the others and all other records stay."""
    run.variables["x"] = 1
    assert ["a"] == run.restore(then, "a")
    assert ["a then", "b now"] == [(project / name).read_text() for name in ("a", "b")]
    assert 1 == run.variables["x"] and [] == run.restore(then, "a")


def test_cut_short_and_changed_before_it_goes_on(
    run: leftoff.Run, then: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody wrote between a crash and the next call is asked about and saved, never overwritten silently."""
    now = tree(project)
    put = restoring.put_in_place

    def cut(writer: Any, entries: Any) -> None:
        put(writer, entries[:1])
        raise Cut

    with monkeypatch.context() as patched, pytest.raises(Cut):
        patched.setattr(restoring, "put_in_place", cut)
        run.rollback(then, files=True)
    assert ["a then", "b now"] == [(project / name).read_text() for name in ("a", "b")]
    (project / "b").write_text("in between")
    with pytest.raises(NeedsPerson):
        run.rollback(then, files=True)
    assert "in between" == (project / "b").read_text()
    run.rollback(then, files=True, yes=True)
    assert ["a then", "b then"] == [(project / name).read_text() for name in ("a", "b")]
    before = [version for version in run.history() if version.trigger == "rollback_begin"]
    run.rollback(before[0], files=True)
    assert "in between" == (project / "b").read_text()
    run.rollback(before[1], files=True)
    assert now == tree(project)


def test_cut_short_is_completed_by_the_same_call(
    run: leftoff.Run, then: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a relative name: `~0` does not count the version that was made before."""

    def cut(*_: Any) -> None:
        raise Cut

    now = tree(project)
    with monkeypatch.context() as patched, pytest.raises(Cut):
        patched.setattr(restoring, "put_in_place", cut)
        run.rollback("~0", files=True)
    assert now == tree(project)
    run.rollback("~0", files=True)
    assert {"a": b"a then", "b": b"b then"} == {path: about[2] for path, about in tree(project).items()}


def test_one_at_a_time(run: leftoff.Run, then: Any, project: Path) -> None:
    """Two cannot restore files of one project at once."""
    with open(project / ".leftoff/restore.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="restoring files"):
            run.rollback(then, files=True)
