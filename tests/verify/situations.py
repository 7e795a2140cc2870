"""A real git repository, a run in it, and what the command says of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import apsw

from leftoff.store import sqlite_connection as connection
from tests.cli.command import Called, call, environment, succeed
from tests.workflow.driving import Flow

DAY = 86_400_000


def git(folder: Path, *words: str) -> str:
    """git, whatever the person who runs the tests has configured."""
    env = environment(
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_CONFIG_SYSTEM="/dev/null",
        GIT_AUTHOR_NAME="a",
        GIT_AUTHOR_EMAIL="a@example.org",
        GIT_COMMITTER_NAME="a",
        GIT_COMMITTER_EMAIL="a@example.org",
    )
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Place(Flow):
    """A project in a git repository, with runs of workflow files and runs that somebody reports on."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        git(folder, "init", "-q", "-b", "main")
        (folder / ".gitignore").write_text(".out-*\n.err-*\nstarts.*\n")
        self.commit("first", readme="hello\n")

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            self.file(name, text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.folder, "rev-parse", "HEAD")

    def start(self, *words: str) -> str:
        """A run that somebody reports on."""
        return succeed("start", "work", "--run-id", "r", *words, cwd=self.folder).out.strip()

    def verify(self, ref: str = "r", *words: str, code: int, **env: Any) -> dict[str, Any]:
        done = call("verify", ref, *words, "--json", cwd=self.folder, **env)
        assert code == done.code, str(done)
        found: dict[str, Any] = done.json
        return found

    def dry(self, *words: str, code: int) -> dict[str, Any]:
        done = call("resume", "r", "--dry-run", "--json", *words, cwd=self.folder)
        assert code == done.code, str(done)
        found: dict[str, Any] = done.json
        return found

    def back(self, *words: str, code: int, **env: Any) -> Called:
        """`resume`, which must end so."""
        done = call("resume", "r", *words, cwd=self.folder, **env)
        assert code == done.code, str(done)
        return done

    def tamper(self, *statements: str) -> None:
        """As only the database itself could be changed, with sound pages."""
        folder = self.folder / ".leftoff"
        db = connection.prepare(connection.open_file(str(folder / "store.db")), str(folder))
        try:
            with db:
                for statement in statements:
                    db.execute(statement)
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()

    @property
    def head(self) -> dict[str, Any]:
        return dict(self.show()["head"])


def codes(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Codes and levels of what was found."""
    return [(finding["code"], finding["level"]) for finding in found["findings"]]


def plan(found: dict[str, Any]) -> dict[str, str]:
    """What would be done with each step."""
    return {entry["step"]: entry["action"] for entry in found["plan"]}


def only(found: dict[str, Any]) -> dict[str, Any]:
    """The one thing that was found."""
    assert 1 == len(found["findings"]), found["findings"]
    return dict(found["findings"][0])
