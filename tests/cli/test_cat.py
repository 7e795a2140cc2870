"""`leftoff cat`."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.cli.runs import started
from tests.workspace.trees import repository

BYTES = bytes(range(256)) * 3


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    started(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/text").write_text("then\n")
    (tmp_path / "bytes").write_bytes(BYTES)
    (tmp_path / "link").symlink_to("sub/text")
    (tmp_path / ".env").write_text("KEY=1")
    succeed("track", "sub/text", "bytes", "link", ".env", cwd=tmp_path)
    succeed("artifact", "sub/text", "--name", "report", cwd=tmp_path)
    found = succeed("save", cwd=tmp_path).out.strip()
    (tmp_path / "sub/text").write_text("now\n")
    (tmp_path / "bytes").unlink()
    succeed("track", "sub/text", "bytes", cwd=tmp_path)
    return found


def test_byte_for_byte(checkpoint: str, tmp_path: Path) -> None:
    """What was there, and nothing else, also where it is gone now."""
    done = subprocess.run(
        [str(LEFTOFF), "cat", f"{checkpoint}:bytes"], cwd=tmp_path, env=environment(), capture_output=True
    )
    assert (0, BYTES, b"") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("sub/text", "then\n"), ("link", "sub/text"), ("report", "then\n"), ("./sub/text", "then\n")],
)
def test_paths_and_names(path: str, expected: str, checkpoint: str, tmp_path: Path) -> None:
    """A path of the project, one from here, the name of an artifact; of a link, where it points to."""
    assert expected == succeed("cat", f"{checkpoint}:{path}", cwd=tmp_path).out


def test_versions_differ(checkpoint: str, tmp_path: Path) -> None:
    """Each version has its own."""
    assert ["then\n", "now\n"] == [
        succeed("cat", f"{ref}:sub/text", cwd=tmp_path).out for ref in (checkpoint, "latest")
    ]


def test_json(checkpoint: str, tmp_path: Path) -> None:
    """What is recorded of it, and its content as text or in base64."""
    found = succeed("cat", f"{checkpoint}:sub/text", "--json", cwd=tmp_path).json
    assert ("sub/text", 5, "0644", "then\n") == tuple(found[key] for key in ("path", "size", "mode", "text"))
    found = succeed("cat", f"{checkpoint}:bytes", "--json", cwd=tmp_path).json
    assert BYTES == base64.b64decode(found["base64"])


def test_a_file_of_an_archived_run(tmp_path: Path) -> None:
    """Its bundle is opened by itself."""
    (tmp_path / "f.md").write_text("hi")
    succeed("start", "w", "--run-id", "r", cwd=tmp_path)
    succeed("artifact", "f.md", cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    succeed("archive", "r", cwd=tmp_path)
    assert "hi" == succeed("cat", "r:f.md", cwd=tmp_path).out


def test_clean_files_come_from_git(tmp_path: Path) -> None:
    """Where a version captured all that was dirty, the others are as the commit has them."""
    repository(tmp_path, a="committed\n")
    started(tmp_path)
    succeed("track", "--git", cwd=tmp_path)
    (tmp_path / "a").write_text("changed\n")
    assert "committed\n" == succeed("cat", "latest:a", cwd=tmp_path).out


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("CP", 2),
        ("unknown", 3),
        ("CP:", 2),
        (":a", 2),
        ("nothing:a", 3),
        ("CP:unknown", 3),
        ("CP:.env", 3),
        ("latest:bytes", 3),
        ("CP:../a", 4),
        ("CP:/etc/passwd", 4),
    ],
)
def test_what_cannot_be_printed(word: str, code: int, checkpoint: str, tmp_path: Path) -> None:
    """Wrong usage is exit 2; what is not known, was deleted or only hashed exit 3; outside the project exit 4."""
    result = call("cat", word.replace("CP", checkpoint), cwd=tmp_path)
    assert (code, "") == (result.code, result.out), str(result)
