"""`leftoff track`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import started


def files(cwd: Path) -> dict[str, Any]:
    return {about["path"]: about for about in succeed("show", "latest", "--json", cwd=cwd).json["files"]}


def test_files_are_remembered_in_one_commit(tmp_path: Path) -> None:
    """Hash and size of each, and its content; tracked again, what is remembered is what is there now."""
    run = started(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(name)
    done = succeed("track", "a.py", "b.py", cwd=tmp_path)
    assert ("", "") == (done.out, done.err)
    assert {"a.py", "b.py"} == set(files(tmp_path)) and files(tmp_path)["a.py"]["captured"]
    before = files(tmp_path)["a.py"]["hash"]
    (tmp_path / "a.py").write_text("changed")
    found = succeed("track", "a.py", "--json", cwd=tmp_path).json
    assert (run, 3, ["a.py"]) == (found["run_id"], found["seq"], [about["path"] for about in found["files"]])
    assert before != files(tmp_path)["a.py"]["hash"]


def test_large_and_secret_files_are_only_hashed(tmp_path: Path) -> None:
    """Over [files] max_file, and where they hold secrets, no copy is kept."""
    (tmp_path / "leftoff.toml").write_text('[files]\nmax_file = "10 B"\n')
    started(tmp_path)
    (tmp_path / "large").write_text("x" * 11)
    (tmp_path / "small").write_text("x" * 10)
    (tmp_path / ".env").write_text("A=1")
    succeed("track", "large", "small", ".env", cwd=tmp_path)
    assert {"large": False, "small": True, ".env": False} == {
        path: about["captured"] for path, about in files(tmp_path).items()
    }


@pytest.mark.parametrize(
    ("words", "code"), [((), 2), (("f", "missing"), 3), (("f", "."), 3), ((b"\xff",), 2)]
)
def test_all_or_none(words: tuple[str | bytes, ...], code: int, tmp_path: Path) -> None:
    """One path that is no file is enough to remember none."""
    started(tmp_path)
    (tmp_path / "f").write_text("x")
    assert code == call("track", *words, cwd=tmp_path).code
    assert {} == files(tmp_path)


def test_what_became_of_it(tmp_path: Path) -> None:
    """Made since the run began, changed since it was tracked, or gone; of what was there before nothing is said."""
    for name in ("old", "goes"):
        (tmp_path / name).write_text("1")
        os.utime(
            tmp_path / name, (1, 1)
        )  # a file of the millisecond in which the run began counts as created
    started(tmp_path)
    (tmp_path / "new").write_text("1")
    succeed("track", "old", "new", "goes", cwd=tmp_path)
    assert {"old": None, "new": "created", "goes": None} == {
        p: a.get("status") for p, a in files(tmp_path).items()
    }
    for name in ("old", "new"):
        (tmp_path / name).write_text("2")
    (tmp_path / "goes").unlink()
    succeed("track", "old", "new", "goes", cwd=tmp_path)
    assert {"old": "modified", "new": "created", "goes": "deleted"} == {
        p: a.get("status") for p, a in files(tmp_path).items()
    }


def test_modes_and_links(tmp_path: Path) -> None:
    """Permissions are recorded; a symbolic link is where it points to, and is not followed."""
    started(tmp_path)
    (tmp_path / "tool").write_text("x")
    (tmp_path / "tool").chmod(0o750)
    (tmp_path / "link").symlink_to("/etc/passwd")
    succeed("track", "tool", "link", cwd=tmp_path)
    found = files(tmp_path)
    assert ("0750", "/etc/passwd", 11) == (
        found["tool"]["mode"],
        found["link"]["target"],
        found["link"]["size"],
    )


def test_unchanged_is_no_new_version(tmp_path: Path) -> None:
    """Tracking a file again that is as it was changes nothing."""
    started(tmp_path)
    (tmp_path / "f").write_text("x")
    seqs = [succeed("track", "f", "--json", cwd=tmp_path).json["seq"] for _ in range(2)]
    assert [2, 2] == seqs


def test_all_files_together_have_a_limit(tmp_path: Path) -> None:
    """Over [files] max_total files are hashed, not copied; one that is tracked again does not count twice."""
    (tmp_path / "leftoff.toml").write_text('[files]\nmax_total = "15 B"\n')
    started(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).write_text("x" * 10)
    succeed("track", "a", cwd=tmp_path)
    succeed("track", "a", "b", cwd=tmp_path)
    assert {"a": True, "b": False} == {path: about["captured"] for path, about in files(tmp_path).items()}


def test_a_touched_file_is_no_difference(tmp_path: Path) -> None:
    """What only the file system said of a file is in no diff; what became of it, and where a link leads, is shown."""
    started(tmp_path)
    for name in ("same", "gone"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("same")
    succeed("track", "same", "gone", "link", cwd=tmp_path)
    before = succeed("show", "--json", cwd=tmp_path).json["head"]["seq"]
    (tmp_path / "same").touch()
    (tmp_path / "gone").unlink()
    succeed("track", "same", "gone", "link", cwd=tmp_path)
    run = succeed("show", "--json", cwd=tmp_path).json["run_id"]
    found = succeed("diff", f"{run}@{before}", run, "--json", cwd=tmp_path).json["files"]
    assert ["gone"] == sorted(found["changed"])
    assert "seen" not in found["changed"]["gone"]["from"]
    shown = succeed("show", run, "--files", cwd=tmp_path).out.splitlines()
    assert ["gone  deleted", "link  created  -> same"] == [" ".join(line.split(" ")) for line in shown[:2]]
