"""`leftoff ls`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import leftoff
from leftoff.cli.text import width
from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.cli.runs import HOSTILE, driven, files_below, harmless, release, started
from tests.cli.terminal import shown

RUN_KEYS = {
    "run_id", "workflow", "title", "branch", "git_branch", "issue", "status", "created_at", "updated_at",
    "completed_at", "steps", "percent", "current_step", "next_step", "head", "health", "session_id", "parent", "why",
}  # fmt: skip
STEP_KEYS = {"total", "completed", "failed", "running", "waiting", "blocked", "pending", "skipped"}


def many(folder: Path, number: int) -> None:
    """So many runs, from the oldest, run-000, to the newest."""
    store = leftoff.open(folder / ".leftoff")
    for index in range(number):
        store.start("many", run_id=f"run-{index:03d}", steps=["a", "b"]).pause()
    store.close()


def test_an_empty_project_lists_nothing(tmp_path: Path) -> None:
    """Where there is no store, nothing is listed, that is fine, and none is made."""
    assert {"runs": []} == succeed("ls", "--json", cwd=tmp_path).json
    result = succeed("ls", cwd=tmp_path)
    assert "" == result.out
    assert "leftoff start" in result.err
    assert [] == files_below(tmp_path)


def test_json_is_the_contract(tmp_path: Path) -> None:
    """A listed run has the keys, the counts and the words of the contract."""
    run = release(tmp_path)
    listed = succeed("ls", "--json", cwd=tmp_path).json["runs"]
    assert [run] == [entry["run_id"] for entry in listed]
    (entry,) = listed
    assert set(entry) >= RUN_KEYS
    assert set(entry["steps"]) >= STEP_KEYS
    assert (4, 2, 1, 1) == tuple(
        entry["steps"][word] for word in ("total", "completed", "running", "pending")
    )
    assert ("running", 50, "test", "publish", "alive") == tuple(
        entry[key] for key in ("status", "percent", "current_step", "next_step", "health")
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", entry["created_at"])
    assert entry["head"]["seq"] >= 4


def test_piped_it_is_plain_columns(tmp_path: Path) -> None:
    """Piped, a run is a line of bare columns under a heading, with the exact time."""
    run = release(tmp_path)
    heading, line = succeed("ls", cwd=tmp_path).out.splitlines()
    assert [
        "RUN",
        "STATE",
        "HEALTH",
        "STEPS",
        "PERCENT",
        "STEP",
        "UPDATED",
        "BRANCH",
        "TITLE",
    ] == heading.split()
    assert line.startswith(f"{run}  running  alive   2/4    50%      test  20")
    assert line.endswith("Z  main    Release 1.4")


def test_the_newest_fifty(tmp_path: Path) -> None:
    """The newest 50 are listed, latest news first; --all lists every one, --limit so many."""
    many(tmp_path, 53)
    names = [f"run-{index:03d}" for index in range(52, -1, -1)]

    def listed(*words: str) -> list[str]:
        return [run["run_id"] for run in succeed("ls", "--json", *words, cwd=tmp_path).json["runs"]]

    assert names[:50] == listed()
    assert names == listed("--all")
    assert names[:7] == listed("--limit", "7")
    assert names[:7] == listed("--all", "--limit=7")
    assert "--all lists every one" in succeed("ls", cwd=tmp_path).err
    assert "" == succeed("ls", "--all", cwd=tmp_path).err


def test_filters(tmp_path: Path) -> None:
    """--status (several with commas), --workflow and --branch narrow the list, together."""
    one = started(tmp_path, "one")
    two = started(tmp_path, "two", "--branch", "side")
    succeed("finish", "--run", one, cwd=tmp_path)

    def listed(*words: str) -> list[str]:
        return [run["run_id"] for run in succeed("ls", "--json", *words, cwd=tmp_path).json["runs"]]

    assert [one] == listed("--status", "completed")
    assert {one, two} == set(listed("--status", "completed,running"))
    assert [two] == listed("--workflow", "two") == listed("--workflow", "TWO", "--limit", "1")
    assert [two] == listed("--branch", "side")
    assert [] == listed("--branch", "side", "--workflow", "one")
    assert "No run matches." in succeed("ls", "--workflow", "none", cwd=tmp_path).err
    assert {one, two} == {
        r["run_id"] for r in succeed("ls", "--json", cwd=tmp_path, LEFTOFF_BRANCH="side").json["runs"]
    }


def test_wrong_words(tmp_path: Path) -> None:
    """A number that is none, a status that is none: exit 2, and what would be right."""
    for words in (("--limit", "0"), ("--limit", "1.5"), ("--limit", "٣"), ("--status", "")):
        result = call("ls", *words, cwd=tmp_path)
        assert 2 == result.code, str(result)
        assert "" == result.out
        assert 2 <= len(result.err.splitlines())


def test_an_unknown_status_lists_the_words(tmp_path: Path) -> None:
    """Whoever guesses a status is told which there are."""
    assert (
        "running, paused, blocked, failed, completed, abandoned"
        in call("ls", "--status", "done", cwd=tmp_path).err
    )


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    """A title with newlines and escape sequences is shown escaped, in a pipe, on a terminal and in JSON."""
    started(tmp_path, "evil", "--title", HOSTILE)
    piped = succeed("ls", cwd=tmp_path).out
    assert harmless(piped)
    assert r"new\nline \x1b[31mred\x1b[0m \x9b2J \u202eback" in piped
    as_json = succeed("ls", "--json", cwd=tmp_path)
    assert harmless(as_json.out)
    assert HOSTILE == as_json.json["runs"][0]["title"]
    for columns in (20, 200):
        terminal = shown("ls", cwd=tmp_path, columns=columns)
        assert harmless(terminal.shown)
        assert "\x1b[31mred" not in terminal.raw


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_an_output_that_is_not_utf_8(tmp_path: Path, encoding: str) -> None:
    """Where the output cannot say it, it is escaped; JSON stays JSON."""
    started(tmp_path, "work", "--title", "日本 🎉 é")
    assert 0 == call("ls", cwd=tmp_path, PYTHONIOENCODING=encoding).code
    code = f"'{LEFTOFF}' ls --json"
    done = subprocess.run(
        ["bash", "-c", code], cwd=tmp_path, env=environment(PYTHONIOENCODING=encoding), capture_output=True
    )
    assert "日本 🎉 é" == json.loads(done.stdout.decode(encoding))["runs"][0]["title"]


def test_a_terminal_gets_colours_bars_and_ages(tmp_path: Path) -> None:
    """On a terminal there are colours, a progress bar and relative times; with NO_COLOR there are none."""
    release(tmp_path)
    terminal = shown("ls", cwd=tmp_path, columns=120)
    assert terminal.coloured
    assert "━━━━━━━━━━  50%" in terminal.shown
    assert re.search(r"just now|\d s ago", terminal.shown)
    plain = shown("ls", cwd=tmp_path, columns=120, NO_COLOR="1")
    assert not plain.coloured
    assert "━" not in plain.shown
    assert not shown("ls", cwd=tmp_path, TERM="dumb").coloured


def test_it_fits_any_width(tmp_path: Path) -> None:
    """Long names, wide characters and long ids never make a line longer than the terminal (from 16 columns on)."""
    started(tmp_path, "x" * 90, "--title", "t" * 200, "--steps", "s" * 300)
    started(tmp_path, "cjk", "--title", "日本語のタイトル" * 8, "--branch", "枝" * 30)
    started(tmp_path, "emoji", "--title", "👩‍💻🎉 é" * 9)
    for columns in (1, 16, 30, 44, 80, 100, 160, 300):
        terminal = shown("ls", cwd=tmp_path, columns=columns)
        for line in terminal.shown.splitlines():
            assert width(line.rstrip()) <= max(columns, 16), line
        assert "emoji-" in terminal.shown


def test_health_honours_the_settings(tmp_path: Path) -> None:
    """What counts as quiet and stalled is what leftoff.toml says."""
    started(tmp_path)
    (tmp_path / "leftoff.toml").write_text("[heartbeat]\ninterval = 0.001\nquiet = 0.002\nstalled = 0.003\n")
    assert "stalled" == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["health"]
    assert "running stalled" in shown("ls", cwd=tmp_path, columns=120).shown


def test_a_dead_driver_shows(tmp_path: Path) -> None:
    """A run whose driver was killed is dead; one that is driven is alive."""
    with driven(tmp_path):
        assert "alive" == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["health"]
    code = "import leftoff, os; leftoff.start('dies'); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=False)
    assert "dead" == succeed("ls", "--workflow", "dies", "--json", cwd=tmp_path).json["runs"][0]["health"]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`leftoff ls | head -1` ends quietly."""
    many(tmp_path, 60)
    line = f"set -o pipefail; '{LEFTOFF}' ls --all | head -1"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert "" == done.stderr
    assert done.stdout.startswith("RUN")


def test_piped_it_loads_nothing_heavy(tmp_path: Path) -> None:
    """A piped listing imports neither a renderer nor what else would double its start."""
    many(tmp_path, 1)
    code = "import sys; from leftoff.cli import main; code = main(['ls']); print(*sorted(sys.modules)); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env=environment(PYTHONPATH=":".join(sys.path)),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = {
        "rich",
        "json",
        "argparse",
        "dataclasses",
        "subprocess",
        "tomllib",
        "logging",
        "asyncio",
    }
    assert set() == loaded & heavy
