"""No record, link or bundle makes leftoff touch a file outside the project, or one of git's."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.git import git_head
from leftoff.engine.issue_tracker import set_state
from leftoff.engine.project_files import check_path, given_path, place
from leftoff.engine.settings import Settings
from leftoff.errors import CannotResume, Invalid
from tests.cli.command import call, succeed
from tests.cli.runs import started
from tests.workspace.trees import git, repository, tree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a run and one tracked file, and something beside it that must stay as it is."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("untouched")
    started(folder)
    (folder / "f").write_text("then")
    succeed("track", "f", cwd=folder)
    return folder


def forge(project: Path, key: str, **about: Any) -> str:
    """A record about a file as an attacker would write it; the version that has it, before anybody looks again."""
    real = succeed("get", "file/f", "--json", cwd=project).json
    record = json.dumps({**real, "path": key, **about})
    put = succeed("put", "file", key, record, "--json", cwd=project).json
    return f"{put['run_id']}@{put['seq']}"


@pytest.mark.parametrize(
    "path",
    [
        "a/../../outside/victim",
        ".git/hooks/pre-commit",
        "sub/.GIT/config",
        ".leftoff/store.db",
        "/etc/leftoff-test",
    ],
)
def test_paths_that_lead_astray(path: str, project: Path, tmp_path: Path) -> None:
    """A path outside the project, or in git's or leftoff's folder, is exit 4 before any file is written."""
    (project / ".git/hooks").mkdir(parents=True)
    checkpoint = forge(project, path)
    (project / "f").write_text("now")
    succeed("track", "f", cwd=project)
    before = tree(tmp_path)
    result = call("rollback", checkpoint, "--files", "--yes", cwd=project)
    assert 4 == result.code, str(result)
    assert "No file was touched" in result.err
    assert before == tree(tmp_path)
    assert [] == list((project / ".git/hooks").iterdir())


@pytest.mark.parametrize(("store", "path"), [("St", "st/Store.db"), (".", "store.db")])
def test_the_store_is_no_file_of_a_run(store: str, path: str, tmp_path: Path) -> None:
    """Whatever its folder is called: no record has it written over, with all runs in it, and none is made of it."""
    (tmp_path / "leftoff.toml").write_text(f'store = "{store}"\n')
    started(tmp_path)
    (tmp_path / "f").write_text("then")
    succeed("track", "f", cwd=tmp_path)
    checkpoint = forge(tmp_path, path)
    (tmp_path / "f").write_text("now")
    for words in (("rollback", checkpoint, "--files"), ("restore", checkpoint, path)):
        done = call(*words, "--yes", cwd=tmp_path)
        assert (4, "now") == (done.code, (tmp_path / "f").read_text()), str(done)
    assert 4 == call("track", f"{store}/store.db", cwd=tmp_path).code
    succeed("fsck", cwd=tmp_path)


def test_a_bundle_with_absolute_paths(project: Path, tmp_path: Path) -> None:
    """What an imported run says of files is checked like any other record."""
    victim = tmp_path / "outside/victim"
    checkpoint = forge(project, str(victim))
    run = succeed("ls", "--json", cwd=project).json["runs"][0]["run_id"]
    succeed("export", run, "-o", str(tmp_path / "bundle"), cwd=project)
    other = tmp_path / "other"
    other.mkdir()
    succeed("import", str(tmp_path / "bundle"), cwd=other)
    assert 4 == call("rollback", checkpoint, "--files", "--yes", cwd=other).code
    assert 4 == call("restore", checkpoint, "f", "--yes", cwd=other).code
    assert ("untouched", {}) == (victim.read_text(), tree(other))


@pytest.mark.parametrize("verb", ["verify", "resume"])
def test_a_commit_that_git_would_take_for_an_option(verb: str, tmp_path: Path) -> None:
    """`git log --output=FILE` writes a file: what a run from elsewhere calls its commit is told to git only if it is
    one."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    with leftoff.open(theirs / ".leftoff") as store:
        run = store.start("w", run_id="r", steps=["a", "b"])
        run.put("run", "git_head", f"--output={tmp_path}/written")
        run.put("run", "git_branch", "main")
        run.checkpoint()
    succeed("export", "r", "-o", str(tmp_path / "bundle"), cwd=theirs)
    repository(ours)
    succeed("import", str(tmp_path / "bundle"), cwd=ours)
    call(verb, "r", cwd=ours)
    assert {"bundle", "ours", "theirs"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/packed-refs", ".git/config", ".git/index"])
def test_a_pipe_in_the_place_of_git(project: Path, name: str) -> None:
    """It is no repository: a verb, or an agent's session, does not wait for whoever would write into it."""
    (project / name).parent.mkdir(exist_ok=True)
    os.mkfifo(project / name)
    if name == ".git/packed-refs":
        (project / ".git/HEAD").write_text("ref: refs/heads/main\n")
    elif name in (".git/config", ".git/index"):
        for folder in ("objects", "refs/heads"):
            (project / ".git" / folder).mkdir(parents=True)
        (project / ".git/HEAD").write_text("0" * 40)
    assert 0 == call("start", "w", "--run-id", "g", cwd=project, timeout=30).code
    assert 0 == call("save", "--run", "g", cwd=project, timeout=30).code
    (project / "leftoff.toml").write_text("[files]\ngit = true\n")
    assert 0 == call("save", "--run", "g", cwd=project, timeout=30).code


@pytest.mark.parametrize("issue", ["../outside/issue", "link", "pipe"])
def test_an_issue_is_no_path_to_another_file(project: Path, tmp_path: Path, issue: str) -> None:
    """`[issues] file` inside of the project stays there, whatever an issue is called, or its file leads to."""
    (project / "leftoff.toml").write_text('[issues]\nfile = "{issue}.json"\n')
    (tmp_path / "outside/issue.json").write_text('{"title": "mine"}')
    (project / "link.json").symlink_to(tmp_path / "outside/issue.json")
    os.mkfifo(project / "pipe.json")
    succeed("start", "w", "--run-id", "i", "--issue", issue, cwd=project, timeout=30)
    assert "mine" not in succeed("show", "i", "--json", cwd=project).out


@pytest.mark.parametrize(
    ("command", "issue"),
    [
        ("gh issue view {issue}", "--repo=evil.example/o/r"),
        ("gh issue view {issue}", "https://evil.example/o/r/issues/1"),
        ("./told {issue}", "-x"),
        ('./told "{issue}"', "$(touch ran)"),
        ("./told 'a {issue}'", "; touch ran;"),
        ('./told "$(echo "{issue}")"', "`touch ran`"),
    ],
)
def test_an_issue_is_a_word(command: str, issue: str, project: Path, tmp_path: Path) -> None:
    """What a run from elsewhere calls its issue is no option of the command that looks it up, no other machine for
    `gh`, which would bring a token there, and in a person's quotes nothing that the shell takes for more."""
    told = project / "told"
    told.write_text("#!/bin/sh\necho told >> seen\necho '{}'\n")
    told.chmod(0o755)
    (tmp_path / "gh").symlink_to(told)
    (project / "leftoff.toml").write_text(f"[issues]\ncommand = {json.dumps(command)}\n")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LEFTOFF_TRUST": "1"}
    succeed("start", "w", "--run-id", "i", f"--issue={issue}", cwd=project, **env)
    assert [] == [name for name in ("ran", "seen") if (project / name).exists()]
    succeed("start", "w", "--run-id", "j", "--issue", "PROJ-1.2", cwd=project, **env)
    assert "told\n" == (project / "seen").read_text()


def test_a_label_that_stands_for_another_word(project: Path) -> None:
    """Words are put into a command once: one that holds the name of another is no way out of its quotes."""
    (project / "1.json").write_text('{"labels": ["state:old"]}')
    settings = Settings({"issues": {"file": "1.json", "update": "echo {issue} {add}"}})
    set_state(settings, str(project), "1 {add}", "state:new; touch ran; ")
    assert not (project / "ran").exists()


def test_a_head_that_is_no_commit(project: Path) -> None:
    """What stands in `.git/HEAD` in the place of a commit is not remembered as one."""
    (project / ".git").mkdir()
    (project / ".git/HEAD").write_text("--output=x\n")
    assert None is git_head(str(project))


@pytest.mark.parametrize("verb", ["rollback", "restore"])
def test_a_folder_that_became_a_link_out(verb: str, project: Path, tmp_path: Path) -> None:
    """A symbolic link on the way that leaves the project is exit 6, and nothing is touched, here or there."""
    (project / "d").mkdir()
    (project / "d/victim").write_text("then")
    succeed("track", "d/victim", cwd=project)
    checkpoint = succeed("save", cwd=project).out.strip()
    (project / "f").write_text("now")
    (project / "d/victim").unlink()
    (project / "d").rmdir()
    (project / "d").symlink_to(tmp_path / "outside")
    before = tree(tmp_path)
    words = ["rollback", checkpoint, "--files"] if verb == "rollback" else ["restore", checkpoint, "d/victim"]
    result = call(*words, "--yes", cwd=project)
    assert (6, before) == (result.code, tree(tmp_path)), str(result)
    assert 6 == call("track", "d/victim", cwd=project).code, "nor is anything read through it"


def test_a_link_inside_is_followed(project: Path) -> None:
    """A symbolic link on the way that stays inside the project is what its owner meant."""
    (project / "real").mkdir()
    (project / "real/x").write_text("then")
    (project / "alias").symlink_to("real")
    succeed("track", "alias/x", cwd=project)
    checkpoint = succeed("save", cwd=project).out.strip()
    (project / "real/x").write_text("now")
    succeed("rollback", checkpoint, "--files", "--yes", cwd=project)
    assert ("then", True) == ((project / "real/x").read_text(), (project / "alias").is_symlink())


def test_a_link_and_a_file_behind_it(project: Path, tmp_path: Path) -> None:
    """Records that would first make a link out of the project, and then write through it, write nothing outside."""
    forge(project, "d", target=str(tmp_path / "outside"), hash=None)
    checkpoint = forge(project, "d/victim")
    call("rollback", checkpoint, "--files", "--yes", cwd=project)
    assert "untouched" == (tmp_path / "outside/victim").read_text()
    assert {"victim"} == {path.name for path in (tmp_path / "outside").iterdir()}


def test_artifacts_outside_are_kept(project: Path, tmp_path: Path) -> None:
    """An artifact may be anywhere; a rollback leaves one outside the project alone, and says so."""
    checkpoint = succeed("save", cwd=project).out.strip()
    succeed("artifact", str(tmp_path / "outside/victim"), cwd=project)
    found = succeed("rollback", checkpoint, "--files", "--json", cwd=project).json["files"]["keep"]
    assert [(str(tmp_path / "outside/victim"), "it is outside the project")] == [
        (one["path"], one["why"]) for one in found
    ]


def test_the_rules_of_paths(tmp_path: Path) -> None:
    """Records have plain relative paths; a folder is opened part by part, and a link out of the project refused."""
    assert "a/b" == check_path("a/b")
    for path in ("", "..", ".", "/a", "a/", "a/..", "\0", None, 5):
        with pytest.raises(Invalid):
            check_path(path)
    with pytest.raises(Invalid):
        given_path(str(tmp_path), "/etc/passwd")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/etc")
    for path in ("loop/x", "out/x", "out/../x/y"):
        with pytest.raises((CannotResume, OSError)):
            place(str(tmp_path), path)
    assert place(str(tmp_path), "no/such/x") is None


def test_content_that_is_damaged_is_never_put_in_place(project: Path) -> None:
    """A record that names content which the store does not have restores nothing: exit 4."""
    checkpoint = forge(project, "g", hash="sha256:" + "0" * 64)
    done = call("rollback", checkpoint, "--files", "--json", cwd=project)
    assert (4, False) == (done.code, (project / "g").exists()), str(done)


def test_the_command_that_completes_a_restore_is_one_command(tmp_path: Path) -> None:
    """It is shown to people and agents, who may run it: each path that a record names is a word of it."""
    about = {"seq": 1, "paths": ["g; touch x", "$(touch x)"]}
    marks = [about, {**about, "seq": "1; touch x"}, {**about, "paths": "x"}]
    with leftoff.open(tmp_path / ".leftoff") as store:
        for number, each in enumerate(marks):
            run = store.start("w", run_id=f"r{number}")
            run.put("run", "restoring", {"run_id": run.id, **each})
            run.pause()
    (found,) = call("verify", "r0", "--json", cwd=tmp_path).json["findings"]
    command = found["hint"].partition("`")[2].partition("`")[0]
    assert ["leftoff", "restore", "r0@1", "g; touch x", "$(touch x)"] == shlex.split(command)
    assert [0, 0] == [call("verify", run, cwd=tmp_path).code for run in ("r1", "r2")]


@pytest.mark.parametrize("knows", [True, False])
def test_a_folder_that_looks_like_a_repository_runs_nothing(
    tmp_path: Path, knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git takes a folder of a clone for a repository if it looks like one, with a configuration that names commands:
    with leftoff none of them runs, also where git is too old to be told (before 2.38)."""
    if not knows:
        monkeypatch.setattr("leftoff.engine.git._SAFE", ())
    folder = repository(tmp_path / "clone", a="a\n") / "sub"
    git(tmp_path, "init", "-q", "--bare", str(folder))
    (folder / "work").mkdir()
    (folder / "work/f").write_text("f\n")
    ran = tmp_path / "ran"
    settings = ("repositoryformatversion = 0", "bare = false", "worktree = work", f"fsmonitor = touch {ran}")
    (folder / "config").write_text("\n\t".join(("[core]", *settings)))
    git(folder / "work", "add", "f")
    ran.unlink()  # git itself ran it
    for cwd in (folder, folder / "work"):
        (cwd / "leftoff.toml").write_text("[files]\ngit = true\n")
        succeed("start", "x", cwd=cwd)
        for words in (("save",), ("verify",), ("diff",), ("finish",)):
            call(*words, cwd=cwd)
    assert not ran.exists()
