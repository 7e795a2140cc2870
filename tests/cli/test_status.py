"""`leftoff status`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leftoff.cli.text import width
from tests.cli.command import LEFTOFF, PATIENCE, call, environment, succeed
from tests.cli.runs import HOSTILE, files_below, harmless, release, started
from tests.cli.terminal import CTRL_C, Terminal, shown

HEAD = [
    "| Agent | Task | Progress | Last Update | Status |",
    "|-------|------|----------|-------------|--------|",
]


def test_json_is_the_contract(tmp_path: Path) -> None:
    """All unfinished runs of all branches are listed, with the project, the store, the branch and the current run."""
    run = release(tmp_path)
    side = started(tmp_path, "side", "--branch", "side")
    done = started(tmp_path, "done")
    succeed("finish", "--run", done, cwd=tmp_path)
    found = succeed("status", "--json", cwd=tmp_path).json
    assert {run, side} == {entry["run_id"] for entry in found["runs"]}
    assert (str(tmp_path), str(tmp_path / ".leftoff"), "main", run) == tuple(
        found[key] for key in ("project", "store", "branch", "current_run")
    )
    assert side == succeed("status", "--json", "--branch", "side", cwd=tmp_path).json["current_run"]


def test_several_current_runs(tmp_path: Path) -> None:
    """With several unfinished runs there is no current one; that is said, and is no error."""
    one, two = started(tmp_path, "one"), started(tmp_path, "two")
    assert succeed("status", "--json", cwd=tmp_path).json["current_run"] is None
    page = succeed("status", cwd=tmp_path).out
    assert "2 unfinished runs" in page
    assert one in page and two in page


def test_an_empty_project(tmp_path: Path) -> None:
    """Where there is nothing yet, that is said; no store is made."""
    found = succeed("status", "--json", cwd=tmp_path).json
    assert ([], None) == (found["runs"], found["current_run"])
    page = succeed("status", cwd=tmp_path).out
    assert f"project  {tmp_path}" in page
    assert "No run is unfinished." in page
    assert [] == files_below(tmp_path)


def test_it_fits(tmp_path: Path) -> None:
    """On a terminal of any width it fits, and is harmless."""
    started(tmp_path, "evil", "--title", HOSTILE * 9)
    started(tmp_path, "other")
    for columns in (20, 80, 160):
        terminal = shown("status", cwd=tmp_path, columns=columns)
        assert terminal.coloured
        assert harmless(terminal.shown)
        assert all(width(line) <= columns for line in terminal.shown.splitlines())


@pytest.mark.parametrize(
    "words", [("--markdown", "--json"), ("--markdown", "--watch"), ("extra",), ("--wach",)]
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What does not go together is wrong usage."""
    assert 2 == call("status", *words, cwd=tmp_path).code


# -- watching


def test_watch_redraws_until_ctrl_c(tmp_path: Path) -> None:
    """On a terminal the page follows what happens, and Ctrl-C ends it with 130, without a traceback."""
    started(tmp_path, "work", "--steps", "a,b")
    with Terminal("status", "--watch", cwd=tmp_path) as terminal:
        terminal.expect("0%")
        succeed("step", "done", "a", cwd=tmp_path)
        terminal.expect("50%")
        terminal.type(CTRL_C)
        assert 130 == terminal.end()
    assert "Traceback" not in terminal.shown


def watching(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(LEFTOFF), "status", "--watch", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_as_events(tmp_path: Path, number: int) -> None:
    """With --json there is one event per line for each change, and the last is the end; both signals end with 130."""
    run = started(tmp_path, "work", "--steps", "a,b")
    process = watching(tmp_path, "--json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert ("status", run, 0) == (first["event"], first["runs"][0]["run_id"], first["runs"][0]["percent"])
    succeed("step", "done", "a", cwd=tmp_path)
    second = json.loads(process.stdout.readline())
    assert 50 == second["runs"][0]["percent"]
    process.send_signal(number)
    rest, errors = process.communicate(timeout=PATIENCE)
    last = json.loads(rest.splitlines()[-1])
    assert ("end", run) == (last["event"], last["run"]["run_id"])
    assert (130, "") == (process.returncode, errors)


def test_watch_in_a_pipe(tmp_path: Path) -> None:
    """Piped, the page comes again whenever something has changed."""
    started(tmp_path, "work", "--steps", "a,b")
    process = watching(tmp_path)
    assert process.stdout is not None
    while "0/2" not in process.stdout.readline():
        pass
    succeed("step", "done", "a", cwd=tmp_path)
    while "1/2" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert 130 == process.returncode


# -- the table of the sitebuilder protocol


def test_markdown_is_the_protocols_table(tmp_path: Path) -> None:
    """In progress, complete and not started look as the protocol shows them."""
    migration = started(tmp_path, "migration", "--task", "T060", "--steps", "a,b,c", "--agent", "Riley")
    succeed("step", "done", "a", "--run", migration, cwd=tmp_path)
    succeed("step", "done", "b", "--run", migration, cwd=tmp_path)
    technical = started(tmp_path, "technical", "--task", "T040", "--steps", "a")
    succeed("step", "done", "a", "--run", technical, cwd=tmp_path)
    succeed("finish", "--run", technical, cwd=tmp_path)
    started(tmp_path, "content", "--task", "T001", "--total", "5")
    lines = succeed("status", "--markdown", cwd=tmp_path).out.splitlines()
    assert HEAD == lines[:2]
    assert "| content | T001 | 0% | — | not started |" in lines
    assert any(
        line.startswith("| migration | T060 | 66% | ") and line.endswith(" | in_progress |") for line in lines
    )
    assert any(
        line.startswith("| technical | T040 | 100% | ") and line.endswith(" | complete |") for line in lines
    )
    assert 5 == len(lines)


def test_markdown_survives_hostile_names(tmp_path: Path) -> None:
    """A name cannot end its cell, nor its line."""
    started(tmp_path, "a|b", "--title", f"x | y\n| z {HOSTILE}")
    out = succeed("status", "--markdown", cwd=tmp_path).out
    assert harmless(out)
    assert 3 == len(out.splitlines())
    assert r"| a\|b | x \| y \| z new" in out.splitlines()[2]


# -- times


def test_time_used_against_estimates(tmp_path: Path) -> None:
    """The current run's steps: the time that they took, what was estimated for all, and what is left of that."""
    run = started(tmp_path, "work", "--steps", "a,b,c")
    times = {"started_at": "2026-01-01T00:00:00.000Z", "completed_at": "2026-01-01T00:01:30.000Z"}
    for step, record in {
        "a": {"status": "completed", "order": 0, "estimate": 60, **times},
        "b": {"status": "pending", "order": 1, "estimate": 120},
    }.items():
        succeed("put", "step", step, json.dumps(record), "--run", run, cwd=tmp_path)
    found = succeed("status", "--json", cwd=tmp_path).json
    assert {"used": 90.0, "estimated": 180.0, "left": 120.0} == found["time"]
    assert "used of an estimated" in succeed("status", cwd=tmp_path).out
    other = started(tmp_path, "other", "--steps", "x")
    both = succeed("status", "--json", cwd=tmp_path).json
    assert (None, {run, other}, found["time"]) == (both["time"], both["times"].keys(), both["times"][run])
    assert "estimated" not in succeed("status", cwd=tmp_path).out, "only that of the current run is shown"
    succeed("finish", "--run", other, cwd=tmp_path)
    succeed("pause", "--run", run, cwd=tmp_path)
    assert " used" not in succeed("status", cwd=tmp_path).out, "nothing runs, so no time passes"


def test_all_lists_every_run(tmp_path: Path) -> None:
    """Also finished and archived ones, as `ls --all` does; other options narrow the list."""
    release(tmp_path)
    for name in ("old", "older"):
        succeed("start", name, "--run-id", name, cwd=tmp_path)
        succeed("finish", "--run", name, cwd=tmp_path)
    succeed("archive", "older", cwd=tmp_path)
    for words in (["--all"], ["--all", "--json"], ["--status", "completed"], ["--workflow", "old", "--long"]):
        wanted, found = succeed("ls", *words, cwd=tmp_path), succeed("status", *words, cwd=tmp_path)
        assert (wanted.out, wanted.err) == (found.out, found.err)
    assert 3 == len(succeed("status", "--all", "--json", cwd=tmp_path).json["runs"])
    assert 2 == call("status", "--all", "--watch", cwd=tmp_path).code


FLOW = """
name: release
steps:
  - id: sign-off
    approval: {ask: "Publish it?", options: [publish, hold, reject]}
"""


def test_what_needs_you_comes_first(tmp_path: Path) -> None:
    """A killed run is interrupted in every face, and a question is shown with the whole command that answers it."""
    code = "import leftoff, os; leftoff.start('dies', run_id='dies', steps=['a']); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=False)
    (tmp_path / "flow.yaml").write_text(FLOW)
    assert 7 == call("run", "flow.yaml", "--run-id", "asks", cwd=tmp_path).code
    found = succeed("status", "--json", cwd=tmp_path).json
    states = {each["run_id"]: (each["status"], each["state"]) for each in found["runs"]}
    assert {"asks": ("paused", "waiting"), "dies": ("running", "interrupted")} == states
    command = "leftoff approve asks sign-off --choice publish|hold"
    again = "Start the program python again: it continues the run."
    assert [
        {"run_id": "asks", "why": "approval", "what": "sign-off: Publish it?", "command": command},
        {"run_id": "dies", "why": "dead", "what": "a", "command": again},
    ] == found["needs_you"]
    text = succeed("status", cwd=tmp_path).out
    assert text.startswith("Needs you\n") and f"    {command}\n" in text
    for words in (("status",), ("ls",), ("show", "dies"), ("start", "dies")):
        done = succeed(*words, cwd=tmp_path)
        assert "interrupted" in done.out + done.err and "running" not in done.out + done.err, str(done)
