"""`leftoff show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.cli.text import width
from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, files_below, harmless, release, started
from tests.cli.terminal import Terminal, shown
from tests.cli.test_ls import RUN_KEYS

STEP_RECORD = {
    "step", "title", "status", "attempt", "started_at", "completed_at", "outputs", "result", "error",
}  # fmt: skip


def full(folder: Path) -> str:
    """A run that has something of everything."""
    run = release(folder)
    (folder / "report.txt").write_text("hello")
    succeed("artifact", "report.txt", "--step", "build", cwd=folder)
    (folder / "notes.md").write_text("read me")
    succeed("track", "notes.md", cwd=folder)
    succeed("note", "mac builder is slow", cwd=folder)
    succeed("put", "knowledge", "KE-1", '{"fact": "water is wet"}', cwd=folder)
    succeed(
        "set",
        "api_key=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
        'db={"password": "hunter2hunter2"}',
        cwd=folder,
    )
    return run


def test_json_is_the_contract(tmp_path: Path) -> None:
    """The document is the run, and its variables, steps, artifacts, files and records."""
    run = full(tmp_path)
    found = succeed("show", run, "--json", cwd=tmp_path).json
    assert set(found) >= RUN_KEYS | {"variables", "step_records", "artifacts", "files", "records"}
    assert ["collect", "build", "test", "publish"] == [record["step"] for record in found["step_records"]]
    assert all(set(record) >= STEP_RECORD for record in found["step_records"])
    assert {"files": 12} == found["step_records"][0]["result"]
    assert (1.4, "1.10", 3) == tuple(found["variables"][key] for key in ("version", "tag", "count"))
    assert ["report.txt"] == [artifact["path"] for artifact in found["artifacts"]]
    assert ["notes.md"] == [file["path"] for file in found["files"]]
    assert {"fact": "water is wet"} == found["records"]["knowledge"]["KE-1"]


def test_what_was_redacted_says_so(tmp_path: Path) -> None:
    """A secret is {"redacted": true} in the document, at any depth, and [redacted] on the page."""
    run = full(tmp_path)
    variables = succeed("show", run, "--json", cwd=tmp_path).json["variables"]
    assert {"redacted": True} == variables["api_key"]
    assert {"password": {"redacted": True}} == variables["db"]
    assert "api_key = [redacted]" in succeed("show", run, cwd=tmp_path).out


def test_an_older_version_is_shown_whole(tmp_path: Path) -> None:
    """At a checkpoint everything is as it was: status, counts, steps, variables."""
    run = release(tmp_path)
    succeed("set", "count=4", cwd=tmp_path)
    succeed("step", "done", "test", cwd=tmp_path)
    succeed("finish", "--status", "failed", cwd=tmp_path)
    log = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"]
    first = next(entry for entry in log if entry["step"] == "collect")
    for ref in (f"{run}@{first['seq']}", f"{run}@{first['checkpoint_id']}", first["checkpoint_id"][:8]):
        then = succeed("show", ref, "--json", cwd=tmp_path).json
        assert ("running", 25, 1, 3) == (
            then["status"],
            then["percent"],
            then["steps"]["completed"],
            then["variables"]["count"],
        )
        assert "build" == then["next_step"]
        assert first["seq"] == then["version"]["seq"] == then["head"]["seq"]
    now = succeed("show", run, "--json", cwd=tmp_path).json
    assert ("failed", 75, 4) == (now["status"], now["percent"], now["variables"]["count"])


def test_the_current_run_is_the_default(tmp_path: Path) -> None:
    """Without a REF the current run is shown: the latest unfinished one, said where there are several, or what --run or
    LEFTOFF_RUN say."""
    run = release(tmp_path)
    assert run == succeed("show", "--json", cwd=tmp_path).json["run_id"]
    other = started(tmp_path, "other")
    result = succeed("show", "--json", cwd=tmp_path)
    assert other == result.json["run_id"]
    assert run in result.err and other in result.err
    assert run == succeed("show", "--run", run, "--json", cwd=tmp_path).json["run_id"]
    assert other == succeed("show", "@", "--json", cwd=tmp_path, LEFTOFF_RUN=other).json["run_id"]


@pytest.mark.parametrize(
    ("flag", "there", "absent"),
    [
        ("--steps", "collect  completed", "count = 3"),
        ("--variables", "count = 3", "collect  completed"),
        ("--artifacts", "report.txt  5 B  by build", "count = 3"),
        ("--files", "notes.md", "count = 3"),
    ],
)
def test_one_part(tmp_path: Path, flag: str, there: str, absent: str) -> None:
    """A flag limits the page to one part; the document stays whole."""
    run = full(tmp_path)
    page = succeed("show", run, flag, cwd=tmp_path).out
    assert there in page
    assert absent not in page
    assert set(succeed("show", run, flag, "--json", cwd=tmp_path).json) >= {"variables", "files"}


def test_a_part_that_is_empty_says_so(tmp_path: Path) -> None:
    """Nothing to show is no error."""
    started(tmp_path)
    result = succeed("show", "--artifacts", cwd=tmp_path)
    assert "" == result.out
    assert "no artifacts" in result.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--steps", "--files"), 2),
        (("nothing",), 3),
        (("@~99",), 3),
        (("@99999",), 3),
        (("",), 2),
        (("a", "b"), 2),
        (("@@",), 3),
    ],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Two parts at once is wrong usage; what is not there is exit 3. Both say what to do."""
    release(tmp_path)
    result = call("show", *words, cwd=tmp_path)
    assert code == result.code, str(result)
    assert 2 <= len(result.err.splitlines())


def test_no_store_is_made(tmp_path: Path) -> None:
    """Looking creates nothing."""
    assert 3 == call("show", cwd=tmp_path).code
    assert 3 == call("show", "latest", cwd=tmp_path).code
    assert [] == files_below(tmp_path)


def test_the_page_reads_well(tmp_path: Path) -> None:
    """Piped, the page has a title, facts, and a heading over each part."""
    run = full(tmp_path)
    lines = succeed("show", run, cwd=tmp_path).out.splitlines()
    assert "Release 1.4" == lines[0]
    assert f"run       {run}" == lines[1]
    assert "progress  50%  2 of 4 steps, 1 running, 1 pending" in lines
    for heading in ("Steps", "Variables", "Artifacts", "Files", "Note", "Knowledge"):
        assert heading in lines
    assert any(line.endswith("mac builder is slow") for line in lines)


def test_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal steps are a tree with symbols and a failed one says why; everything fits."""
    run = started(tmp_path, "deep", "--steps", "a,a/one,a/two,b")
    succeed("step", "done", "a/one", cwd=tmp_path)
    succeed("step", "fail", "a/two", "--error", "the linker crashed " * 20, cwd=tmp_path)
    for columns in (20, 80, 160):
        terminal = shown("show", run, cwd=tmp_path, columns=columns)
        assert "✓   one" in terminal.shown
        assert "✗   two" in terminal.shown
        assert "the linker" in terminal.shown
        assert all(width(line) <= columns for line in terminal.shown.splitlines())


def test_hostile_content_is_escaped(tmp_path: Path) -> None:
    """Steps, variables, notes and errors with escape sequences are shown escaped, everywhere."""
    run = started(tmp_path, "evil", "--title", HOSTILE)
    succeed("step", "fail", f"step {HOSTILE}", "--error", HOSTILE, cwd=tmp_path)
    succeed("set", f"a{HOSTILE}={HOSTILE}", cwd=tmp_path)
    succeed("note", HOSTILE, cwd=tmp_path)
    succeed("put", "knowledge", HOSTILE, '"\x9b2J"', cwd=tmp_path)
    for words in ((), ("--steps",), ("--variables",), ("--json",)):
        assert harmless(succeed("show", run, *words, cwd=tmp_path).out)
    for columns in (20, 100):
        assert harmless(shown("show", run, cwd=tmp_path, columns=columns).shown)


def test_a_large_value(tmp_path: Path) -> None:
    """A value of 100,000 characters is whole in the document and in a pipe, and cut on a terminal."""
    started(tmp_path)
    long = "x" * 100_000
    succeed("set", f"long={long}", cwd=tmp_path)
    assert long == succeed("show", "--json", cwd=tmp_path).json["variables"]["long"]
    assert long in succeed("show", "--variables", cwd=tmp_path).out
    terminal = shown("show", cwd=tmp_path)
    assert len(terminal.shown) < 5_000
    assert "…" in terminal.shown


def test_many_items_are_folded_and_long_pages_paged(tmp_path: Path) -> None:
    """The page shows only the items that need a look; --steps shows all. A page that does not fit goes to $PAGER."""
    each = f"foreach: {list(range(20))}\n    run: test {{{{ item }}}} != 7\n    on_failure: continue\n"
    (tmp_path / "flow.yaml").write_text(f"name: many\nsteps:\n  - id: each\n    {each}")
    assert 1 == call("run", "flow.yaml", "--run-id", "m", cwd=tmp_path).code
    page = succeed("show", "m", cwd=tmp_path).out
    assert "19/20, 1 failed" in page and "each/7" in page and "each/8" not in page
    assert 21 == len(succeed("show", "m", "--steps", cwd=tmp_path).out.splitlines())
    for rows, paged in ((10, True), (60, False)):
        with Terminal("show", "m", cwd=tmp_path, rows=rows, env={"PAGER": "sed s/^/paged:/"}) as terminal:
            assert 0 == terminal.end()
        assert paged == ("paged:" in terminal.shown)
