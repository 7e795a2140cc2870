"""A repository that somebody else made: what lies where a protocol's files are written leads nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.protocols.test_company import OWN, PLACES, PROTOCOLS, own_run
from tests.workspace.trees import repository


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(project: Path) -> list[Path]:
    """What a protocol wrote, folders before what is in them."""
    own = (".leftoff", "leftoff.toml")
    return sorted(path for path in project.rglob("*") if path.relative_to(project).parts[0] not in own)


def goes_on(project: Path, protocol: str, run: str) -> list[str]:
    """The run is reported on in all ways; what was said."""
    step = OWN[protocol][1]
    words = (("set", "x=1"), ("step", "start", step), ("step", "done", f"{step}-2"), ("note", "n"), ("save",))
    return [succeed(*each, "--run", run, cwd=project).err for each in words]


def moved_out(path: Path, outside: Path) -> None:
    """What was there is elsewhere, and a link leads to it."""
    there = outside / path.name
    path.rename(there)
    path.symlink_to(there)


@PROTOCOLS
def test_every_file_is_a_link(project: Path, outside: Path, protocol: str) -> None:
    """None is written through, no verb fails, each is told once and kept for `status`, and written again later."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    links = [path for path in written(project) if path.is_file() and not path.is_symlink()]
    for path in links:
        moved_out(path, outside)
    before = contents(outside)
    said = "".join(goes_on(project, protocol, run))
    assert before == contents(outside)
    refused = [path for path in links if path.is_symlink()]
    told = {
        str(path.relative_to(project)): said.count(f"{path.relative_to(project)} is a") for path in refused
    }
    assert {1} == set(told.values()) - {0}, "older checkpoints and settings are not written"
    assert "is a symbolic link" in call("status", cwd=project).out
    for path in refused:
        path.unlink()
    succeed("save", "--run", run, cwd=project)
    assert "symbolic link" not in call("status", cwd=project).out
    assert all((project / path).is_file() for path, times in told.items() if times)


@PROTOCOLS
@pytest.mark.parametrize("inside", [False, True])
def test_its_folder_is_a_link(project: Path, outside: Path, protocol: str, inside: bool) -> None:
    """The whole place of a protocol, wherever it leads."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    target = project / "elsewhere" if inside else outside
    target.mkdir(exist_ok=True)
    moved_out(project / PLACES[protocol], target)
    before = contents(target)
    assert "symbolic link" in "".join(goes_on(project, protocol, run))
    assert before == contents(target)


@PROTOCOLS
@pytest.mark.parametrize("what", ["pipe", "folder", "read-only"])
def test_something_else_is_in_the_way(project: Path, protocol: str, what: str) -> None:
    """It stays, nobody waits for it, and no verb fails."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    paths = [path for path in written(project) if path.is_file() and not path.is_symlink()]
    for path in paths:
        if what == "read-only":
            path.chmod(0o444)
        else:
            path.unlink()
            os.mkfifo(path) if what == "pipe" else path.mkdir()
    before = {path: (path.lstat().st_ino, path.lstat().st_mode) for path in paths}
    said = "".join(goes_on(project, protocol, run))
    there = {path: (path.lstat().st_ino, path.lstat().st_mode) for path in paths if os.path.lexists(path)}
    assert before == {**before, **there} and "not up to date" in said


def test_a_repository_that_writes_outside_of_itself(project: Path, outside: Path) -> None:
    """A document with a line break in its id, and a link for the outbox: neither the line nor the file comes about."""
    shell = outside / "bashrc"
    shell.write_text("# mine\n")
    (project / "leftoff.toml").write_text('[protocol]\nname = "sitebuilder"\n')
    folder = project / "progress/checkpoints"
    folder.mkdir(parents=True)
    (project / "messages").mkdir()
    for agent in ("a", "x"):
        (project / f"messages/outbox-{agent}.md").symlink_to(shell)
    evil = "T1\ntouch /tmp/evil\n"
    document = {"agent": "a", "task_id": evil, "status": "in_progress", "progress_percent": 40}
    (folder / "a-T1.json").write_text(json.dumps({**document, "updated_at": "2026-01-01T00:00:00Z"}))
    succeed("start", "x", "--task", evil, "--steps", "one,two", cwd=project)
    succeed("step", "done", "one", "--run", "latest", cwd=project)
    assert "# mine\n" == shell.read_text()
    (project / "messages/outbox-x.md").unlink()
    succeed("step", "done", "two", "--run", "latest", cwd=project)
    lines = (project / "messages/outbox-x.md").read_text().splitlines()
    assert lines and all(
        line.startswith("@orchestrator: Task T1 touch /tmp/evil progress:") for line in lines
    )


@pytest.mark.parametrize("protocol", ["bmad", "sitebuilder"])
def test_text_on_a_page_is_no_markup(project: Path, protocol: str) -> None:
    """One line, one cell: no row of its own, no code, no HTML, no comment."""
    evil = "a | b\n| x | y |\n<!-- `c` \x1b[31m \u202e -->"
    (project / "leftoff.toml").write_text(f'[protocol]\nname = "{protocol}"\n')
    run = succeed("start", "w", "--task", evil, "--title", evil, "--steps", "s", cwd=project).out.strip()
    succeed("note", evil, "--run", run, cwd=project)
    succeed("step", "fail", evil.replace("\n", " "), "--error", evil, "--run", run, cwd=project)
    pages = [path for path in project.rglob("*.md") if path.is_file()]
    assert {"bmad": 1, "sitebuilder": 2}[protocol] == len(pages)
    for page in pages:
        text = page.read_text()
        assert "&lt;!--" in text and not any(
            mark in text for mark in ("<!--", "-->", "\x1b", "\u202e", " `c` ")
        )
        assert not any(line.startswith("| x") for line in text.splitlines())


@PROTOCOLS
def test_its_own_files_are_nobodys_changes(project: Path, protocol: str) -> None:
    """A verdict names no file that leftoff wrote itself, and a rollback leaves them to the sync."""
    repository(project, tracked="1\n")
    (project / "leftoff.toml").write_text(f'[protocol]\nname = "{protocol}"\n[files]\ngit = true\n')
    run = own_run(project, protocol)
    first = succeed("log", run, "--json", cwd=project).json["checkpoints"][-1]["seq"]
    goes_on(project, protocol, run)
    (project / "tracked").write_text("2\n")
    succeed("save", "--run", run, cwd=project)
    own = {str(path.relative_to(project)) for path in written(project)} - {"tracked"}
    found = succeed("show", run, "--json", cwd=project).json["files"]
    assert not own & {about["path"] for about in found}
    verdict = call("verify", run, "--json", cwd=project).json["findings"]
    assert [] == [each for each in verdict if each["code"] in ("git.dirty", "files.changed")]
    before = {path for path in own if (project / path).is_file()}
    done = call("rollback", f"{run}@{first}", "--files", "--yes", "--json", cwd=project)
    assert 0 == done.code and not before & {each["path"] for each in done.json["files"]["restore"]}, str(done)
    external = succeed("log", run, "--json", cwd=project).json["checkpoints"]
    assert "external" not in [each["trigger"] for each in external]
