"""`leftoff artifact`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import started


def artifacts(cwd: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = succeed("show", "latest", "--json", cwd=cwd).json["artifacts"]
    return found


def test_a_file_is_kept(tmp_path: Path) -> None:
    """Path, hash, size and a copy; its step lists it among its outputs; nothing is printed or sealed."""
    run = started(tmp_path, "flow", "--steps", "build")
    data = b"x" * 2_000_000
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.bin").write_bytes(data)
    done = succeed("artifact", "a.bin", "--step", "build", cwd=tmp_path / "sub")
    assert ("", "") == (done.out, done.err)
    (about,) = artifacts(tmp_path)
    assert {
        "path": "sub/a.bin",
        "step": "build",
        "size": len(data),
        "captured": True,
    }.items() <= about.items()
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == about["hash"]
    assert ["sub/a.bin"] == succeed("get", "step/build", cwd=tmp_path).json["outputs"]
    assert [] == succeed("log", "--json", cwd=tmp_path).json["checkpoints"]
    again = succeed(
        "artifact", "sub/a.bin", "--name", "thing", "--json", cwd=tmp_path, LEFTOFF_STEP="build"
    ).json
    assert (run, 3) == (again["run_id"], again["seq"])
    assert {"name": "thing", "step": "build"}.items() <= again["artifact"].items()
    assert {"sub/a.bin", "thing"} == {about["name"] for about in artifacts(tmp_path)}


def test_secrets_and_empty_files(tmp_path: Path) -> None:
    """A file that holds secrets is hashed, not copied; an empty one is a file too."""
    started(tmp_path)
    (tmp_path / "key.pem").write_text("-----BEGIN RSA PRIVATE KEY-----")
    (tmp_path / "empty").touch()
    for name in ("key.pem", "empty"):
        succeed("artifact", name, cwd=tmp_path)
    assert {"key.pem": False, "empty": True} == {
        about["name"]: about["captured"] for about in artifacts(tmp_path)
    }


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("missing",), 3, "no file missing"),
        ((".",), 3, "is a folder"),
        ((), 2, "needs PATH"),
        (("f", "g"), 2, "does not take 'g'"),
        (("f", "--step", "a//b"), 2, "not a step path"),
        (("f", "--name", "n" * 5000), 2, "too long"),
        ((b"\xff",), 2, "not UTF-8"),
    ],
)
def test_what_is_wrong(words: tuple[str | bytes, ...], code: int, says: str, tmp_path: Path) -> None:
    """It is said, and nothing is recorded."""
    started(tmp_path)
    (tmp_path / "f").write_text("x")
    done = call("artifact", *words, cwd=tmp_path)
    assert code == done.code and says in done.err and 2 <= done.err.count("\n")
    assert [] == artifacts(tmp_path)


def test_without_a_run_nothing_is_made(tmp_path: Path) -> None:
    """No store is made for a file that belongs to no run."""
    (tmp_path / "f").write_text("x")
    assert 3 == call("artifact", "f", cwd=tmp_path).code
    assert ["f"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("words", [("artifact", "notes.txt"), ("step", "done", "a", "--output", "notes.txt")])
def test_a_link_is_what_it_leads_to(words: tuple[str, ...], tmp_path: Path) -> None:
    """One to `.env` is treated as `.env`: hashed, and not copied, whatever it is called."""
    started(tmp_path, "w", "--steps", "a")
    (tmp_path / ".env").write_text("SOME=thing\n")
    (tmp_path / "notes.txt").symlink_to(".env")
    succeed(*words, cwd=tmp_path)
    about = succeed("get", "artifact/notes.txt", "--json", cwd=tmp_path).json
    assert (False, True) == (about["captured"], about["followed"])
    assert 3 == call("cat", "@:notes.txt", cwd=tmp_path).code


def test_a_file_outside_of_the_project_is_copied(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An artifact may be anywhere, and links to it are followed."""
    outside = tmp_path_factory.mktemp("outside") / "history"
    outside.write_text("mine")
    started(tmp_path)
    (tmp_path / "report.txt").symlink_to(outside)
    (tmp_path / "way").symlink_to(outside.parent)
    for name in ("report.txt", "way/history", str(outside)):
        succeed("artifact", name, cwd=tmp_path)
        assert succeed("get", f"artifact/{name}", "--json", cwd=tmp_path).json["captured"]


@pytest.mark.parametrize("link", [False, True])
def test_what_is_the_stores_is_no_artifact(link: bool, tmp_path: Path) -> None:
    """Neither by its own name nor by that of a link."""
    started(tmp_path)
    (tmp_path / "link").symlink_to(".leftoff/store.db")
    result = call("artifact", "link" if link else ".leftoff/store.db", cwd=tmp_path)
    assert 2 == result.code and "part of leftoff's store" in result.err


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """It is no file, also behind a link."""
    started(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        result = call("artifact", name, cwd=tmp_path)
        assert 3 == result.code and "no plain file" in result.err
