"""`diff` shows what changed in files; `restore PATH` and `log -n` need no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.fixture
def tracked(project: Path) -> Path:
    """Two files, kept at two checkpoints; the second one was changed since."""
    (project / "src").mkdir()
    for number in (1, 2):
        (project / "a.txt").write_text(f"same\nversion {number}\n")
        (project / "src/b.txt").write_text(f"b{number}\n")
        if number == 1:
            succeed("start", "w", "--run-id", "r", "--var", "x=1", cwd=project)
            succeed("track", "a.txt", "src/b.txt", cwd=project)
        succeed("set", f"x={number}", cwd=project)
        succeed("save", cwd=project)
    return project


def test_between_two_versions(tracked: Path) -> None:
    found = succeed("diff", "r~1", "r~0", cwd=tracked).out
    assert "-version 1\n+version 2\n" in found and "-b1\n+b2\n" in found and " same\n" in found
    assert "~ x: 1 → 2" in found


def test_with_now_is_with_what_lies_there(tracked: Path) -> None:
    """Without a REF: the last checkpoint with now."""
    assert "Nothing differs" in succeed("diff", cwd=tracked).out
    (tracked / "a.txt").write_text("same\nby hand\n")
    (tracked / "src/b.txt").unlink()
    document = succeed("diff", "--json", cwd=tracked).json
    changed = document["files"]["changed"]
    assert ["a.txt", "src/b.txt"] == sorted(changed)
    (kept,) = (
        about for about in succeed("show", "--json", cwd=tracked).json["files"] if about["path"] == "a.txt"
    )
    assert kept["mode"] == changed["a.txt"]["from"]["mode"] == changed["a.txt"]["to"]["mode"]
    found = document["contents"]
    assert {"a.txt": (1, 1), "src/b.txt": (0, 1)} == {
        path: (each["added"], each["removed"]) for path, each in found.items()
    }
    assert "+by hand" in found["a.txt"]["diff"] and "+++ /dev/null" in found["src/b.txt"]["diff"]


def test_tabs_are_tabs(tracked: Path) -> None:
    """Piped, a line of a file is what it is: the diff of a Makefile can be read, and applied."""
    (tracked / "a.txt").write_text("same\n\tby hand\n")
    found = succeed("diff", cwd=tracked).out
    assert "\n+\tby hand\n" in found and "--- a.txt\t(r@" in found


def test_only_some_paths(tracked: Path) -> None:
    found = succeed("diff", "r~1", "r~0", "--", "src", cwd=tracked).out
    assert "+b2" in found and "version" not in found.replace("@", "") and "x:" not in found
    assert ["a.txt"] == list(
        succeed("diff", "r~1", "r~0", "--json", "--", "a.txt", cwd=tracked).json["contents"]
    )


def test_stat(tracked: Path) -> None:
    found = succeed("diff", "r~1", "r~0", "--stat", cwd=tracked).out
    assert "src/b.txt  +1 -1" in found and "variables  ~1" in found and "version 2" not in found


def test_a_secret_file_is_not_shown(project: Path) -> None:
    (project / ".env").write_text("TOKEN=one\n")
    succeed("start", "w", "--run-id", "r", cwd=project)
    call("track", ".env", cwd=project)
    succeed("save", cwd=project)
    (project / ".env").write_text("TOKEN=two\n")
    assert "TOKEN" not in call("diff", cwd=project).out


def test_restore_without_a_ref(tracked: Path) -> None:
    """From the latest checkpoint that has the file; it is said which."""
    (tracked / "src/b.txt").unlink()
    done = succeed("restore", "src/b.txt", "--yes", cwd=tracked)
    assert "b2\n" == (tracked / "src/b.txt").read_text() and "r@" in done.err
    succeed("restore", "a.txt", "src/b.txt", "--yes", cwd=tracked)
    missing = call("restore", "nowhere.txt", cwd=tracked)
    assert 3 == missing.code and "No checkpoint of r has nowhere.txt" in missing.err


def test_restore_with_a_ref(tracked: Path) -> None:
    first = succeed("log", "r", "--json", cwd=tracked).json["checkpoints"][-1]["checkpoint_id"]
    succeed("restore", f"r@{first}", "a.txt", "--yes", cwd=tracked)
    assert "version 1" in (tracked / "a.txt").read_text()


def test_log_shows_the_newest(tracked: Path) -> None:
    both = succeed("log", "--json", cwd=tracked).json["checkpoints"]
    assert both[:1] == succeed("log", "-n", "1", "--json", cwd=tracked).json["checkpoints"]
    assert 2 == call("log", "-n", "none", cwd=tracked).code


def test_what_cannot_be_looked_at_hides_nothing_else(tmp_path: Path) -> None:
    """A file outside of the project, and one behind a link: the others are compared, tabs and spaces as they are."""
    project, outside = tmp_path / "p", tmp_path / "outside"
    folder = project / "sub"
    outside.write_text("1\n")
    folder.mkdir(parents=True)
    (folder / "g").write_text("1\n")
    (project / "f").write_text("a\tb\nend \n")
    succeed("start", "w", "--run-id", "w", cwd=project)
    succeed("artifact", str(outside), cwd=project)
    succeed("track", "f", "sub/g", cwd=project)
    succeed("save", cwd=project)
    (project / "f").write_text("a\tB\nend \n")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    shown = succeed("diff", cwd=project).out
    assert "-a\tb\n+a\tB\n end \n" in shown and "sub/g differs" in shown
    assert {"f", "sub/g"} == set(succeed("diff", "--json", cwd=project).json["contents"])


def test_a_project_named_through_a_link(tmp_path: Path) -> None:
    """A file of it is inside, whichever of both is named through the link."""
    project, link = tmp_path / "p", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    (project / "f").write_text("1\n")
    succeed("start", "w", "--run-id", "w", cwd=project)
    succeed("artifact", "f", "--name", "one", cwd=project, LEFTOFF_PROJECT=str(link))
    succeed("artifact", str(link / "f"), "--name", "two", cwd=project)
    succeed("step", "done", "s", "--output", str(project / "f"), "--project", str(link), cwd=tmp_path)
    found = succeed("show", "--json", cwd=project).json
    assert {"f"} == {about["path"] for about in found["artifacts"]}
    assert ["f"] == found["step_records"][0]["outputs"]
