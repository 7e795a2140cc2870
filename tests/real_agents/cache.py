"""The agents' programs: installed once, in the versions of `packages.json`, which a whole run brings up to date."""

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
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
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
    """Return the folder with the programs, and install them if they are not there yet. A Node.js is among them: some
    of them need a newer one than the system may have."""
    npm = cache() / "npm"
    pinned = npm / "package.json"
    if not pinned.exists() or pinned.read_bytes() != PINNED.read_bytes():
        _install(npm)
        shutil.copyfile(PINNED, pinned)  # last: it says that the rest is there
    return npm / "node_modules" / ".bin"


def newest() -> None:
    """Write the newest versions on npm to `packages.json`."""
    pinned = json.loads(PINNED.read_text())
    for package in pinned["dependencies"]:
        found = subprocess.run(["npm", "view", package, "version"], capture_output=True, text=True)
        pinned["dependencies"][package] = found.stdout.strip() or pinned["dependencies"][package]
    PINNED.write_text(json.dumps(pinned, indent=2) + "\n")


def _install(npm: Path) -> None:
    if shutil.which("npm") is None:
        raise SystemExit("make agents needs npm: install Node.js 20 or newer.")
    npm.mkdir(parents=True, exist_ok=True)
    (npm / "package.json").unlink(missing_ok=True)
    pinned = json.loads(PINNED.read_text())["dependencies"]
    wanted = [f"{package}@{version}" for package, version in pinned.items()]
    quiet = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "--prefix", str(npm), *wanted], check=True)
    late = npm / "node_modules" / PROGRAMS["claude"] / "install.cjs"
    if late.exists():  # where npm does not run the scripts of packages, the program itself is still missing
        subprocess.run(["node", str(late)], check=False, stdout=subprocess.DEVNULL)
