"""An agent's settings in a folder, and leftoff going in and out of them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.agents.install.jsonc import parse
from leftoff.agents.install.plan import Plan
from leftoff.agents.install.recipes import Recipe

COMMAND = "/opt/some where/bin/leftoff"
SERVER = {"command": COMMAND, "args": ["mcp"]}
AGENTS = ("claude", "codex", "gemini")


@pytest.fixture(autouse=True, scope="module")
def no_syncs() -> Iterator[None]:
    """Hundreds of files that nobody needs after a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda fd: None)
        yield


class Place:
    """An agent's settings in a folder of their own."""

    def __init__(self, folder: str, agent: str, user: bool = False) -> None:
        self.recipe = Recipe(agent, folder, COMMAND, user=user)
        self.folder = Path(folder)

    def write(self, path: str, text: str) -> None:
        where = self.folder / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(text.encode())

    def read(self, path: str) -> str:
        return (self.folder / path).read_bytes().decode()

    def install(self) -> None:
        Plan(self.recipe, uninstall=False).apply()

    def uninstall(self) -> None:
        Plan(self.recipe, uninstall=True).apply()

    def all(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def plain(self, path: str) -> Any:
        text = self.read(path)
        return tomllib.loads(text) if path.endswith(".toml") else parse(text, path)[0].plain()
