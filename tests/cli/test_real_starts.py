"""Every verb as a process of its own: what other tests call through ``main`` starts, works and ends as a command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leftoff.cli.options import VERBS
from tests.cli.command import call, spawn, succeed
from tests.cli.runs import release

FLOW = "name: flow\nsteps:\n  - {id: a, run: echo hello}\n  - {id: b, approval: {ask: Really}}\n"
WAITS = 7

# What a verb is called with; nothing, where it is not here. `flow` waits for an approval, `old` is finished.
WORDS = {
    "approve": "flow b",
    "archive": "old",
    "artifact": "file.txt",
    "cat": "@:file.txt",
    "compat": "save-checkpoint --help",
    "completion": "bash",
    "diff": "@ old",
    "export": "@ -o out.bundle",
    "fork": "@",
    "get": "version",
    "handover": "@ --to codex",
    "hook": "claude",
    "import": "old.bundle",
    "install": "claude --dry-run",
    "logs": "flow",
    "note": "hello",
    "put": "knowledge x 1",
    "reject": "flow b",
    "resume": "flow",
    "restore": "@ file.txt",
    "rm": "old --yes",
    "rollback": "@~1",
    "run": "flow.yaml --run-id again",
    "set": "x=1",
    "show": "@",
    "start": "another",
    "step": "done test",
    "stop": "flow",
    "store": "info",
    "supervise": "--once",
    "track": "file.txt",
    "uninstall": "claude --dry-run",
    "unblock": "blocked",
    "verify": "@",
}
ENDS = {"run": WAITS, "resume": WAITS}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with runs in each state that a verb may need, to be copied."""
    cwd = tmp_path_factory.mktemp("prepared")
    (cwd / "file.txt").write_text("text\n")
    (cwd / "flow.yaml").write_text(FLOW)
    succeed("start", "old", "--run-id", "old", cwd=cwd)
    succeed("finish", "--run", "old", cwd=cwd)
    succeed("export", "old", "-o", "old.bundle", cwd=cwd)
    succeed("start", "blocked", "--run-id", "blocked", "--branch", "side", cwd=cwd)
    succeed("step", "block", "a", "--run", "blocked", "--note", "no key", cwd=cwd)
    release(cwd)
    succeed("track", "file.txt", cwd=cwd)
    succeed("save", cwd=cwd)
    assert WAITS == call("run", "flow.yaml", "--run-id", "flow", "--branch", "side", cwd=cwd).code
    return cwd


# `serve` has a real start of its own, in test_serve.py: it does not end by itself.
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "serve"])
def test_each_verb(verb: str, prepared: Path, tmp_path: Path) -> None:
    """It does its work and ends as it should."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    done = spawn(verb, *WORDS.get(verb, "").split(), cwd=tmp_path)
    assert ENDS.get(verb, 0) == done.code, str(done)
    assert "Traceback" not in done.err
