"""Where the agents' programs are kept: installed once, in the versions that `packages.json` pins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

PINNED = Path(__file__).parent / "packages.json"
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
}


def cache() -> Path:
    """The folder that everything is below. Not the temporary one: Codex refuses a home there."""
    given = os.environ.get("LEFTOFF_AGENTS_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "leftoff-agents"


def versions() -> dict[str, str]:
    """The pinned version of each agent."""
    pinned = json.loads(PINNED.read_text())["dependencies"]
    return {agent: pinned[package] for agent, package in PROGRAMS.items()}


def programs() -> Path:
    """The folder with the agents' programs, which are installed where they are not yet."""
    npm = cache() / "npm"
    pinned = npm / "package.json"
    if not pinned.exists() or pinned.read_bytes() != PINNED.read_bytes():
        _install(npm)
        shutil.copyfile(PINNED, pinned)  # last: it says that the rest is there
    return npm / "node_modules" / ".bin"


def _install(npm: Path) -> None:
    if shutil.which("npm") is None:
        raise SystemExit("make agents needs npm: install Node.js 20 or newer.")
    npm.mkdir(parents=True, exist_ok=True)
    (npm / "package.json").unlink(missing_ok=True)
    wanted = [f"{package}@{versions()[agent]}" for agent, package in PROGRAMS.items()]
    quiet = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "--prefix", str(npm), *wanted], check=True)
    late = npm / "node_modules" / PROGRAMS["claude"] / "install.cjs"
    if late.exists():  # where npm does not run the scripts of packages, the program itself is still missing
        subprocess.run(["node", str(late)], check=False, stdout=subprocess.DEVNULL)
