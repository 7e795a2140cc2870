"""The bed: a home, a model and a folder for projects, for the scenarios of one agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_agents.life import PATIENCE, Life
from tests.real_agents.model.server import Model

BIN = Path(sys.executable).parent
CODEX = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False, "maxAttempts": 2},
    "telemetry": {"enabled": False},
}
OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "model": "scripted/claude-sonnet-4-5",
    "small_model": "scripted/claude-haiku-4-5",
    "autoupdate": False,
    "share": "disabled",
}
QWEN: dict[str, Any] = {
    "security": {"auth": {"selectedType": "anthropic"}},
    "model": {"name": "claude-sonnet-4-5"},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "telemetry": {"enabled": False},
}
KEY = "not-a-key-000000000000"
CLAUDE = {  # what it asks a person at its very first start
    "hasCompletedOnboarding": True,
    "theme": "dark",
    "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
}


class Broken(Exception):
    """A promise that does not hold."""


class Unsupported(Exception):
    """What a command line cannot do, in its own words."""


def expect(what: str, expected: Any, actual: Any) -> None:
    if expected != actual:
        raise Broken(f"{what}: {actual!r}, not {expected!r}")


def must(what: str, holds: Any) -> None:
    if not holds:
        raise Broken(what)


@dataclass(frozen=True)
class Called:
    """What a call of leftoff gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Bed:
    """One home, one model, any number of projects."""

    def __init__(self, root: Path, programs: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        self.root, self.home = root, root / "home"
        self.model = Model()
        self.made = 0
        (self.home / ".gemini").mkdir(parents=True)
        (self.home / ".codex").mkdir()
        (root / "kept").mkdir()
        (self.home / ".codex" / "config.toml").write_text(CODEX.format(url=self.model.url))
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(GEMINI))
        self._write_config(".config/opencode/opencode.json", OPENCODE | {"provider": self._provider()})
        model = {
            "id": QWEN["model"]["name"],
            "envKey": "QWEN_KEY",
            "baseUrl": f"{self.model.url}/qwen",
            "generationConfig": {"maxRetries": 1},
        }
        self._write_config(".qwen/settings.json", QWEN | {"modelProviders": {"anthropic": [model]}})
        (self.home / ".claude.json").write_text(json.dumps(CLAUDE))
        # OpenCode installs a package into each of its folders. It tries for a minute unless it gets a 404.
        (self.home / ".npmrc").write_text(f"registry={self.model.url}/\n")
        self.env = self._environment(programs)
        (self.home / ".profile").write_text(f"PATH='{self.env['PATH']}'\n")  # Codex's shell is a login shell

    def _write_config(self, path: str, config: dict[str, Any]) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config))

    def _provider(self) -> dict[str, Any]:
        options = {"baseURL": f"{self.model.url}/opencode/v1", "apiKey": KEY}
        models: dict[str, Any] = {
            name: {"limit": {"context": 200_000, "output": 8_000}, "cost": {"input": given, "output": said}}
            for name, (given, said) in (("claude-sonnet-4-5", (3, 15)), ("claude-haiku-4-5", (1, 5)))
        }
        return {"scripted": {"npm": "@ai-sdk/anthropic", "options": options, "models": models}}

    def _environment(self, programs: Path) -> dict[str, str]:
        node = Path(shutil.which("node") or "/usr/bin/node").parent
        git = {
            f"GIT_{who}_{what}": "x@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        path = (BIN, programs, node, "/usr/local/bin", "/usr/bin", "/bin")
        return {
            **git,
            "HOME": str(self.home),
            "PATH": os.pathsep.join(map(str, path)),
            "USER": "somebody",
            "SHELL": "/bin/bash",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
            "OPENAI_API_KEY": KEY,
            "QWEN_KEY": KEY,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def project(self, *agents: str) -> Project:
        """A new repository with leftoff installed for these agents."""
        self.made += 1
        made = Project(self, self.root / f"p{self.made:03d}")
        self.trust(made.folder)
        for agent in agents:
            made.leftoff("install", agent)
        return made

    def trust(self, folder: Path) -> None:
        """Let Codex use the settings of a folder, as if its user had said so."""
        with (self.home / ".codex" / "config.toml").open("a") as file:
            file.write(f'[projects."{folder}"]\ntrust_level = "trusted"\n')

    def close(self) -> None:
        self.model.close()


class Project:
    """A repository that somebody works in: files that are committed, changed, untracked and ignored."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed, self.folder = bed, folder
        self.lives = 0
        (folder / "src").mkdir(parents=True)
        (folder / "notes.txt").write_text("alpha\nbeta\ngamma\n")
        (folder / "src" / "app.py").write_text("def f():\n    return 1\n")
        (folder / ".gitignore").write_text("build/\n")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
            subprocess.run(["git", *words], cwd=folder, env=bed.env, check=True)
        with (folder / "notes.txt").open("a") as file:
            file.write("an edit of the user's, not committed\n")
        (folder / "untracked.bin").write_bytes(b"\0\1untracked\xff\n")

    def files(self) -> dict[str, bytes]:
        """Everything in it, but for what belongs to git and leftoff, and settings that an agent writes itself."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            own = name.parts[0] in (".git", ".leftoff", ".opencode") or str(name) == ".qwen/settings.json"
            if path.is_file() and not own:
                found[str(name)] = path.read_bytes()
        return found

    # -- leftoff's own command

    def call(self, *words: str, **env: str) -> Called:
        done = subprocess.run(
            ["leftoff", *words],
            cwd=self.folder,
            env={**self.bed.env, **env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def leftoff(self, *words: str, **env: str) -> Called:
        """A call that ends well."""
        done = self.call(*words, **env)
        if done.code != 0:
            raise Broken(
                f"leftoff {' '.join(words)} exits {done.code}: {(done.err or done.out).strip()[:300]}"
            )
        return done

    def show(self, run: str = "latest") -> dict[str, Any]:
        found: dict[str, Any] = self.leftoff("show", run, "--json").json
        return found

    def wait_for(self, run: str) -> dict[str, Any]:
        """The same, once there is such a run."""
        end = time.monotonic() + PATIENCE
        while self.call("show", run, "--json").code == 3 and time.monotonic() < end:
            time.sleep(0.1)
        return self.show(run)

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.leftoff("ls", "--all", "--json").json["runs"]
        return found

    def brief(self, run: str = "latest") -> str:
        return str(self.leftoff("brief", run, "--json").json["text"])

    def sound(self, *may_say: str) -> None:
        """Nothing in the store is wrong, and no hook complained but for what it may; a slow machine is no fault."""
        must("fsck finds nothing wrong", self.leftoff("fsck", "--json").json["ok"])
        log = self.folder / ".leftoff" / "hook.log"
        told = log.read_text().splitlines() if log.exists() else []
        expected = ("took too long", *may_say)
        expect("hook.log", [], [line for line in told if not any(words in line for words in expected)])

    # -- processes in it

    def start(self, words: list[str], **env: str) -> Life:
        self.lives += 1
        # OpenCode waits for the locks of installations that it did not wait for when it exited.
        shutil.rmtree(self.bed.home / ".local" / "state" / "opencode" / "locks", ignore_errors=True)
        kept = self.bed.root / "kept" / f"{self.folder.name}-{self.lives:03d}"
        return Life(words, self.folder, {**self.bed.env, **env}, kept)
