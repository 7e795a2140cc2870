"""Where work happens: project folder, store, branch, git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import Usage
from tests.api.others import said

START = "import leftoff; run = leftoff.start('w'); print(run.branch); print(run.info.to_json()['git_branch'])"


def where(folder: Path, **env: str) -> list[str]:
    """The project and the store's place that a program in this folder finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in env.items():
            patch.setenv(name, value)
        with leftoff.open() as store:
            return [str(store.project), store.location]


def git(folder: Path, *words: str) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    committer = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_SYSTEM": os.devnull}
    env = {**os.environ, **identity, **committer}
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=env)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit on the branch `trunk`, and a folder inside."""
    folder = tmp_path / "repository"
    (folder / "src" / "deep").mkdir(parents=True)
    git(folder, "init", "-b", "trunk")
    git(folder, "commit", "--allow-empty", "-m", "first")
    return folder


def test_the_current_folder_by_default(tmp_path: Path) -> None:
    """Nothing above it says otherwise."""
    here = tmp_path / "here"
    here.mkdir()
    assert [str(here), str(here / ".leftoff")] == where(here)


@pytest.mark.parametrize("mark", [".leftoff", "leftoff.toml"])
def test_the_nearest_folder_with_a_mark(tmp_path: Path, mark: str) -> None:
    """A store or settings, found upward."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    deep = inner / "deep" / "deeper"
    deep.mkdir(parents=True)
    for folder in (outer, inner):
        if mark == ".leftoff":
            (folder / mark).mkdir()
        else:
            (folder / mark).write_text("")
    assert [str(inner), str(inner / ".leftoff")] == where(deep)
    assert [str(outer), str(outer / ".leftoff")] == where(outer)


def test_the_git_root(repository: Path) -> None:
    """Of a repository without a mark."""
    deep = repository / "src" / "deep"
    assert [str(repository), str(repository / ".leftoff")] == where(deep)


@pytest.mark.parametrize("mark", [".leftoff", "leftoff.toml"])
def test_the_search_ends_at_a_git_root(repository: Path, mark: str) -> None:
    """A store or settings above a repository are not the repository's."""
    above = repository.parent
    (above / mark).mkdir() if mark == ".leftoff" else (above / mark).write_text("")
    plain = above / "plain"
    plain.mkdir()
    assert [str(repository), str(repository / ".leftoff")] == where(repository / "src" / "deep")
    assert [str(above), str(above / ".leftoff")] == where(plain)
    (repository / ".leftoff").mkdir()
    assert [str(repository), str(repository / ".leftoff")] == where(repository / "src" / "deep")


def test_leftoff_project(tmp_path: Path) -> None:
    """LEFTOFF_PROJECT goes before what is found; a folder that is not there is told."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        (folder / ".leftoff").mkdir(parents=True)
    assert [str(there), str(there / ".leftoff")] == where(here, LEFTOFF_PROJECT=str(there))
    assert [str(here), str(here / ".leftoff")] == where(here, LEFTOFF_PROJECT="")


def test_a_project_that_is_not_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which variable to look at."""
    monkeypatch.setenv("LEFTOFF_PROJECT", str(project / "missing"))
    with pytest.raises(Usage, match="missing") as caught:
        leftoff.list()
    assert "LEFTOFF_PROJECT" in caught.value.hint


def test_leftoff_store(project: Path) -> None:
    """LEFTOFF_STORE goes before leftoff.toml, which goes before the project's own folder."""
    (project / "leftoff.toml").write_text('store = "state"\n')
    assert [str(project), str(project / "state")] == where(project)
    elsewhere = project / "elsewhere"
    assert [str(project), str(elsewhere)] == where(project, LEFTOFF_STORE=str(elsewhere))
    assert [str(project), str(elsewhere)] == where(project, LEFTOFF_STORE="elsewhere")


def test_leftoff_branch(project: Path) -> None:
    """The session branch: LEFTOFF_BRANCH, else main; run() and resume() look on it."""
    assert ["main", "None"] == said(START, project)
    assert ["try-b", "None"] == said(START, project, LEFTOFF_BRANCH="try-b")
    look = "import leftoff; print(leftoff.run('w').branch); print(leftoff.run('w', branch='main').branch)"
    assert ["try-b", "main"] == said(look, project, LEFTOFF_BRANCH="try-b")
    with leftoff.open(".leftoff") as store:
        assert 2 == len(store.list())


def test_the_git_branch_is_recorded_beside_it(repository: Path) -> None:
    """It is a fact, not the session branch; a detached head has none."""
    assert ["main", "trunk"] == said(START, repository)
    git(repository, "checkout", "-b", "feature/x")
    assert ["main", "feature/x"] == said(START, repository / "src")
    git(repository, "checkout", "--detach")
    assert ["main", "None"] == said(START, repository)


@pytest.mark.parametrize("place", ["linked", "repository/linked"], ids=["next to it", "inside"])
def test_a_linked_worktree_uses_the_main_store(repository: Path, tmp_path: Path, place: str) -> None:
    """One store for all worktrees; paths are relative to the worktree, which the run remembers."""
    linked = tmp_path / place
    (repository / ".leftoff").mkdir()
    git(repository, "worktree", "add", str(linked), "-b", "side")
    assert [str(linked), str(repository / ".leftoff")] == where(linked)
    lines = said(
        "import leftoff, pathlib\n"
        "pathlib.Path('a.md').write_text('page')\n"
        "with leftoff.start('w', run_id='r') as run: print(run.artifact('a.md')['path'])\n"
        "print(run.info.to_json()['git_branch']); print(run.records['run']['worktree'])",
        linked,
    )
    assert ["a.md", "side", str(linked)] == lines
    with leftoff.open(repository / ".leftoff") as store:
        assert ["r"] == [info.id for info in store.list()]
    assert not (linked / ".leftoff").exists()


def test_a_worktree_with_its_own_store(repository: Path, tmp_path: Path) -> None:
    """Whoever makes one there has it."""
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", str(linked), "-b", "side")
    (linked / ".leftoff").mkdir()
    assert [str(linked), str(linked / ".leftoff")] == where(linked)


def test_settings_of_the_project_that_a_store_belongs_to(tmp_path: Path) -> None:
    """A store in a project's folder has that project's settings, wherever it is opened from."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "leftoff.toml").write_text("[redaction]\nallow = ['password']\n")
    with leftoff.open(home / ".leftoff") as store:
        assert str(home) == store.project
        store.start("w", run_id="r", variables={"password": "kept"}).pause()
        assert "kept" == store.get("r").variables["password"]


def test_a_bad_leftoff_toml(project: Path) -> None:
    """It is told with its line, before anything is written."""
    (project / "leftoff.toml").write_text("[redaction]\nenabeld = true\n")
    with pytest.raises(leftoff.Invalid, match=r'leftoff.toml:2:1: .* no key "enabeld"') as caught:
        leftoff.start("w")
    assert '"enabled"' in caught.value.hint
    assert not (project / ".leftoff").exists()
