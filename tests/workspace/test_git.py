"""In a git repository whole dirty states are captured and come back, and git notices nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.cli.command import call, succeed
from tests.cli.runs import started
from tests.workspace.trees import begun, git, repository, tree


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose checkpoints capture what is dirty."""
    folder = repository(tmp_path / "repo", a="a\n", b="b\n", c="c\n", d="d\n")
    (folder / "leftoff.toml").write_text("[files]\ngit = true\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "settings")
    started(folder)
    return folder


def files(cwd: Path, ref: str = "latest") -> dict[str, Any]:
    return {about["path"]: about for about in succeed("show", ref, "--json", cwd=cwd).json["files"]}


def make_dirty(cwd: Path) -> None:
    """Every way to be dirty."""
    (cwd / "a").write_text("a, changed\n")
    (cwd / "b").write_text("b, staged\n")
    git(cwd, "add", "b")
    (cwd / "c").unlink()
    git(cwd, "rm", "-q", "d")
    (cwd / "sub dir").mkdir(exist_ok=True)
    (cwd / "sub dir/ü new").write_text("untracked\n")
    (cwd / "added").write_text("added\n")
    git(cwd, "add", "added")
    (cwd / "x.log").write_text("ignored\n")


def test_status_and_staged(repo: Path) -> None:
    """Each dirty file has a record that says what git says of it; ignored and clean ones have none."""
    make_dirty(repo)
    succeed("save", cwd=repo)
    assert {
        "a": ("modified", False),
        "added": ("created", True),
        "b": ("modified", True),
        "c": ("deleted", False),
        "d": ("deleted", True),
        "sub dir/ü new": ("created", False),
    } == {path: (about["status"], about["staged"]) for path, about in files(repo).items()}


def test_git_notices_nothing(repo: Path) -> None:
    """The index is the same file with the same bytes, no object is written, and `git status` says what it said."""
    make_dirty(repo)
    status = git(repo, "status", "--porcelain=v2")
    index = repo / ".git/index"

    def traces() -> tuple[Any, ...]:
        objects = sorted(str(path) for path in (repo / ".git").rglob("*"))
        return index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino, objects

    before = traces()
    succeed("save", cwd=repo)
    succeed("track", "--git", cwd=repo)
    assert before == traces()
    assert status == git(repo, "status", "--porcelain=v2")
    assert "" == git(repo, "stash", "list")


def test_a_dirty_state_comes_back(repo: Path) -> None:
    """From dirty to clean, to another dirty state, and back: also what was never dirty then is as it was."""
    clean, first = tree(repo), succeed("save", cwd=repo).out.strip()
    make_dirty(repo)
    dirty, second = tree(repo), succeed("save", cwd=repo).out.strip()
    succeed("rollback", first, "--files", cwd=repo)
    assert {**clean, "x.log": dirty["x.log"]} == tree(repo)
    succeed("rollback", second, "--files", cwd=repo)
    assert dirty == tree(repo)
    git(repo, "gc", "-q", "--prune=now")
    succeed("rollback", first, "--files", cwd=repo)
    succeed("rollback", begun(repo), "--files", cwd=repo)
    assert dirty == tree(repo), "git gc cannot lose what leftoff captured"


def test_what_was_made_since_the_last_checkpoint_needs_a_yes(repo: Path) -> None:
    """A file that nobody recorded yet would be deleted: that is asked, and it is saved first."""
    first = succeed("save", cwd=repo).out.strip()
    (repo / "fresh").write_text("never recorded\n")
    result = call("rollback", first, "--files", cwd=repo)
    assert 7 == result.code and "delete  fresh" in result.err, str(result)
    succeed("rollback", first, "--files", "--yes", cwd=repo)
    assert not (repo / "fresh").exists()
    succeed("rollback", begun(repo), "--files", cwd=repo)
    assert "never recorded\n" == (repo / "fresh").read_text()


def test_clean_again_is_forgotten(repo: Path) -> None:
    """A file that was dirty and is committed has no record any more; one that somebody tracked keeps it."""
    make_dirty(repo)
    succeed("track", "a", cwd=repo)
    succeed("save", cwd=repo)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "all")
    succeed("save", cwd=repo)
    assert ["a"] == sorted(files(repo))


def test_unchanged_files_make_no_new_version(repo: Path) -> None:
    """Capturing the same dirty state again changes no record."""
    make_dirty(repo)
    first = succeed("track", "--git", "--json", cwd=repo).json
    assert first["seq"] == succeed("track", "--git", "--json", cwd=repo).json["seq"]


def test_a_version_that_did_not_look_at_git_does_not_claim_to(tmp_path: Path) -> None:
    """All that was dirty is known only of the version that captured it: a later one takes nothing away."""
    repository(tmp_path, a="a\n")
    started(tmp_path)
    succeed("track", "--git", cwd=tmp_path)
    first = succeed("show", "--json", cwd=tmp_path).json["head"]["seq"]
    (tmp_path / "between").write_text("made after git was looked at\n")
    later = succeed("save", cwd=tmp_path).out.strip()
    found = succeed("rollback", later, "--files", "--dry-run", "--json", cwd=tmp_path).json["files"]
    assert [] == found["delete"]
    run = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["run_id"]
    found = succeed("rollback", f"{run}@{first}", "--files", "--dry-run", "--json", cwd=tmp_path).json[
        "files"
    ]
    assert ["between"] == [one["path"] for one in found["delete"]]


def test_every_kind_of_checkpoint_captures(repo: Path) -> None:
    """Steps, checkpoints in Python and `save` alike."""
    (repo / "a").write_text("in a step\n")
    succeed("step", "done", "s", cwd=repo)
    assert ["a"] == sorted(files(repo))
    with leftoff.open(repo / ".leftoff") as store:
        run = store.resume()
        (repo / "b").write_text("in python\n")
        run.checkpoint()
        assert ["a", "b"] == sorted(run.records["file"])
        run.pause()


def test_a_project_inside_a_repository(tmp_path: Path) -> None:
    """Paths are the project's; what is dirty beside it is not captured."""
    top = repository(tmp_path / "repo", beside="x\n")
    (top / "project").mkdir()
    (top / "project/leftoff.toml").write_text("[files]\ngit = true\n")
    (top / "project/own").write_text("own\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "project")
    started(top / "project")
    first = succeed("save", cwd=top / "project").out.strip()
    (top / "beside").write_text("changed\n")
    (top / "project/own").write_text("changed\n")
    succeed("save", cwd=top / "project")
    assert ["own"] == sorted(files(top / "project"))
    succeed("rollback", first, "--files", cwd=top / "project")
    assert ["own\n", "changed\n"] == [(top / "project/own").read_text(), (top / "beside").read_text()]


def test_limits(repo: Path) -> None:
    """Over max_total, files are hashed and not copied, in the order of their paths."""
    (repo / "leftoff.toml").write_text('[files]\ngit = true\nmax_total = "25 B"\n')
    git(repo, "commit", "-qam", "limit")
    for name in ("a", "b", "c"):
        (repo / name).write_text("x" * 10)
    succeed("save", cwd=repo)
    assert {"a": True, "b": True, "c": False} == {p: about["captured"] for p, about in files(repo).items()}


def test_no_commit_yet(tmp_path: Path) -> None:
    """Before the first commit everything is created, and a rollback takes it away and brings it back."""
    git(tmp_path, "init", "-q", "-b", "main")
    started(tmp_path)
    succeed("track", "--git", cwd=tmp_path)
    first = succeed("save", cwd=tmp_path).out.strip()
    (tmp_path / "f").write_text("f\n")
    succeed("track", "--git", cwd=tmp_path)
    assert "created" == files(tmp_path)["f"]["status"]
    succeed("rollback", first, "--files", cwd=tmp_path)
    assert {} == tree(tmp_path)
    succeed("rollback", begun(tmp_path), "--files", cwd=tmp_path)
    assert "f\n" == (tmp_path / "f").read_text()


def test_track_outside_of_git(tmp_path: Path) -> None:
    """`track --git` where there is no repository is exit 3; `[files] git` alone is no error."""
    (tmp_path / "leftoff.toml").write_text("[files]\ngit = true\n")
    started(tmp_path)
    assert 3 == call("track", "--git", cwd=tmp_path).code
    succeed("save", cwd=tmp_path)


def test_outputs_that_git_knows_are_not_deleted(repo: Path) -> None:
    """A source file that a step reports as its output was there before: it is kept or restored, never deleted."""
    (repo / "leftoff.toml").write_text("")
    git(repo, "commit", "-qam", "no capturing")
    first = succeed("save", cwd=repo).out.strip()
    (repo / "a").write_text("edited\n")
    succeed("step", "done", "s", "--output", "a", cwd=repo)
    found = succeed("rollback", first, "--files", "--json", cwd=repo).json["files"]
    assert (["a"], []) == ([one["path"] for one in found["keep"]], found["delete"])


def test_what_would_be_restored_from_a_commit_is_shown(tmp_path: Path) -> None:
    """A file that was clean at the checkpoint, and was changed by somebody since: its diff, and a question."""
    git(tmp_path, "init", "-q")
    (tmp_path / "leftoff.toml").write_text("[files]\ngit = true\n")
    (tmp_path / "base").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    succeed("start", "w", cwd=tmp_path)
    checkpoint = succeed("save", cwd=tmp_path).out.strip()
    (tmp_path / "base").write_text("two\n")
    said = call("rollback", checkpoint, "--files", cwd=tmp_path)
    assert (7, True) == (said.code, "-one\n+two\n" in said.err), str(said)
    succeed("rollback", checkpoint, "--files", "--yes", cwd=tmp_path)
    assert "one\n" == (tmp_path / "base").read_text()
