"""A workflow's secret is not stored in any value below the project, whichever face it came through.

The names of runs, steps, variables and files, and the contents of tracked files are out of scope.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.store.blobs import zstd
from tests.agents.hooking import Session
from tests.cli.command import call, environment, succeed
from tests.cli.test_mcp import Agent, drive

SECRET = "nothing-that-looks-like-one"
STEP = {"LEFTOFF_SECRETS": "WORKFLOW_SECRET", "WORKFLOW_SECRET": SECRET}  # what a step's process is given
VALUE = {"deep": [f"a {SECRET} b"], f"key {SECRET}": 1}
# which projects: of no protocol, and of each
PROTOCOLS = (
    "",
    "sitebuilder",
    *(pytest.param(name, marks=pytest.mark.crash_full) for name in ("bmad", "crunch", "dotagent", "claude")),
)


def bundles(folder: Path) -> Iterator[Path]:
    """Every run as a bundle: what is compressed in the store is read, too."""
    for number, run in enumerate(succeed("ls", "--all", "--json", cwd=folder).json["runs"]):
        path = folder / f"{number}.leftoff"
        succeed("export", run["run_id"], "-o", str(path), cwd=folder)
        yield path


def unpacked(path: Path) -> bytes:
    """The bytes of a file; of a bundle also those that are compressed in it."""
    data = path.read_bytes()
    if path.suffix != ".leftoff":
        return data
    data = zstd().decompress(data)
    db = sqlite3.connect(":memory:")
    db.deserialize(data)
    blobs: dict[bytes, bytes] = {}
    for hash, piece in db.execute("SELECT blob, data FROM piece ORDER BY blob, number"):
        blobs[hash] = blobs.get(hash, b"") + piece
    for (hash,) in db.execute("SELECT hash FROM blob WHERE encoding = 'zstd'"):
        data += zstd().decompress(blobs[hash])
    db.close()
    return data


def leaks(folder: Path) -> list[str]:
    """Where below the project the secret is, in names and in bytes."""
    list(bundles(folder))
    found = []
    for parent, folders, files in os.walk(folder):
        found += [name for name in (*folders, *files) if SECRET in name and not name.startswith("mine")]
        for name in files:
            if not name.startswith("mine") and SECRET.encode() in unpacked(Path(parent, name)):
                found.append(os.path.join(parent, name))
    return found


@pytest.fixture
def work(project: Path) -> Path:
    (project / ".git").mkdir()
    return project


def mine(folder: Path) -> str:
    """Return the name of a file of the user."""
    (folder / "mine.txt").write_text("a file\n")
    return "mine.txt"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_command(work: Path, protocol: str) -> None:
    """Every word that a step may give."""
    if protocol:
        succeed("init", "--protocol", protocol, cwd=work)
    file, value = mine(work), json.dumps(VALUE)
    start = ["start", "w", "--title", f"T {SECRET}", "--steps", "a,b", "--var", f"w={SECRET}"]
    succeed(*start, "--agent", f"me {SECRET}", cwd=work, **STEP)
    for words in (
        ("set", f"it={SECRET}", f"m:={value}"),
        ("put", "knowledge", "k", value),
        ("note", f"note {SECRET}", "--step", "n"),
        ("step", "start", "b", "--title", SECRET),
        ("step", "done", "b", "--result", value, "--output", file, "--note", SECRET),
        ("step", "fail", "c", "--error", f"no {SECRET}", "--type", SECRET, "--resume-with", SECRET),
        ("step", "block", "d", "--error", SECRET),
        ("step", "skip", "e", "--note", SECRET),
        ("artifact", file),
        ("track", file),
        ("save", "--note", f"saved {SECRET}"),
        ("fork", "@", "--run-id", "f", "--branch", "br", "--var", f"v={SECRET}"),
        ("unblock", "@"),
        ("pause", "--note", f"pause {SECRET}"),
        ("finish", "--status", "failed", "--summary", f"done {SECRET}"),
    ):
        done = call(*words, cwd=work, **STEP)  # type: ignore[arg-type]
        assert done.code in (0, 2, 3), str(done)
        assert "Traceback" not in done.err
    assert [] == leaks(work)


def test_mcp(work: Path) -> None:
    file = mine(work)

    async def tools(agent: Agent) -> None:
        await agent.call("start_run", workflow="w", title=SECRET, steps=["a", "b"], variables={"v": VALUE})
        await agent.call("set_variables", variables={"it": SECRET, "k": VALUE})
        await agent.call("put_record", collection="knowledge", key="k", value=VALUE)
        await agent.call("report_step", step="b", status="completed", result=VALUE, output=file)
        await agent.call("report_step", step="a", status="failed", error=f"no {SECRET} here")
        await agent.call("add_note", text=f"it is {SECRET}", step="n")
        await agent.call("request_approval", step="q", ask=f"{SECRET}?", options=["yes", "reject"])
        await agent.call("save_checkpoint", note=SECRET)
        await agent.call("finish_run", status="failed", summary=SECRET)

    drive(work, tools, **STEP)
    assert 1 == len(succeed("ls", "--all", "--json", cwd=work).json["runs"])
    assert [] == leaks(work)


def test_hooks(work: Path) -> None:
    file = mine(work)
    session = Session(work)
    session.env = STEP
    session.todos(use="in_progress", other="pending")
    session.fire(
        "PostToolUse", tool_name="Write", tool_input={"file_path": str(work / file), "content": SECRET}
    )
    session.fire("SubagentStop", agent_id="id", agent_type="helper", last_assistant_message=SECRET)
    session.fire("StopFailure", error=SECRET, error_details=f"why {SECRET}")
    session.fire("PreCompact", trigger="manual", custom_instructions=SECRET)
    session.fire("PostCompact", compact_summary=f"we used {SECRET}")
    session.fire("Stop")
    session.fire("SessionEnd", reason=f"over {SECRET}")
    assert 1 == len(succeed("ls", "--all", "--json", cwd=work).json["runs"])
    assert [] == leaks(work)


PROGRAM = f"""
import leftoff
S = {SECRET!r}
with leftoff.run("w", title=S, steps=["a", "b"], variables={{"v": S}}) as run:
    run.variables["it"] = S
    run.variables["m"] = {VALUE!r}
    run.variables["l"] = [S] * 20
    run.put("knowledge", "k", {VALUE!r})
    run.note(f"note {{S}}")
    with run.step("b") as step:
        run.artifact("mine.txt")
        step.log.info(f"log {{S}}")
    run.do("a", lambda: {VALUE!r})
    for item in run.each("e", ["i"]):
        pass
    run.checkpoint(note=f"c {{S}}")
    run.fork(branch="br", v=S).finish(summary=S)
try:
    with leftoff.run("bad") as run, run.step("x"):
        raise ValueError(S)
except ValueError:
    pass
"""


def test_python(work: Path) -> None:
    mine(work)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=work, env=environment(**STEP), capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr
    assert 3 == len(succeed("ls", "--all", "--json", cwd=work).json["runs"])
    assert "log [redacted]" in succeed("logs", "w", "b", cwd=work).out
    assert [] == leaks(work)


FLOW = """
name: flow
secrets: [WORKFLOW_SECRET]
steps:
  - id: a
    run: |
      echo "said $WORKFLOW_SECRET"; echo done > mine-out.txt
      printf 'it=%s\\n' "$WORKFLOW_SECRET" >> "$LEFTOFF_VARS"
    outputs: [mine-out.txt]
  - id: each
    foreach: [one, other]
    run: echo {{ item }}
  - id: bad
    run: echo "$WORKFLOW_SECRET" >&2; exit 1
"""


def test_the_runner(work: Path) -> None:
    (work / "mine-flow.yaml").write_text(FLOW)
    done = call("run", "mine-flow.yaml", cwd=work, WORKFLOW_SECRET=SECRET)
    assert 1 == done.code, str(done)
    assert SECRET not in done.out + done.err
    assert [] == leaks(work)


def test_what_was_compressed_would_be_seen(work: Path) -> None:
    """The search finds what nobody called a secret, in the store or in a bundle."""
    succeed("start", "w", "--var", f"v={SECRET}", cwd=work)
    assert leaks(work)
