"""`leftoff diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leftoff.cli.text import width
from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, files_below, harmless, release, started
from tests.cli.terminal import shown


def two_versions(folder: Path) -> tuple[str, str]:
    """Two checkpoints of a run, between which something of every kind happened."""
    release(folder)
    succeed("set", "old=gone", "same=1", 'config={"port": 80, "hosts": ["a"], "deep": {"x": 1}}', cwd=folder)
    first = succeed("save", cwd=folder).out.strip()
    (folder / "out.txt").write_text("x")
    succeed("artifact", "out.txt", cwd=folder)
    succeed("track", "out.txt", cwd=folder)
    succeed(
        "set",
        "count=4",
        "new=true",
        'config={"port": 8080, "hosts": ["a", "b"], "deep": {"x": 1}}',
        cwd=folder,
    )
    succeed("step", "done", "test", cwd=folder)
    succeed("step", "skip", "extra", cwd=folder)
    succeed("put", "knowledge", "KE-1", '"wet"', cwd=folder)
    second = succeed("save", cwd=folder).out.strip()
    return first, second


def test_json_is_the_contract(tmp_path: Path) -> None:
    """Each kind has what was added, removed and changed; a changed entry is from and to."""
    first, second = two_versions(tmp_path)
    found = succeed("diff", first, second, "--json", cwd=tmp_path).json
    assert set(found) >= {"variables", "steps", "artifacts", "files"}
    for kind in ("variables", "steps", "artifacts", "files"):
        assert {"added", "removed", "changed"} == set(found[kind])
    assert {"new": True} == found["variables"]["added"]
    assert {"from": 3, "to": 4} == found["variables"]["changed"]["count"]
    assert {"count", "config"} == set(found["variables"]["changed"])
    assert "skipped" == found["steps"]["added"]["extra"]["status"]
    change = found["steps"]["changed"]["test"]
    assert ("running", "completed") == (change["from"]["status"], change["to"]["status"])
    assert ["out.txt"] == list(found["artifacts"]["added"])
    assert ["out.txt"] == list(found["files"]["added"])
    back = succeed("diff", second, first, "--json", cwd=tmp_path).json
    assert {"new": True} == back["variables"]["removed"]


def test_it_reads_like_a_diff(tmp_path: Path) -> None:
    """Lines start with what they are: + came, - went, ~ changed, and of a large value only what differs."""
    first, second = two_versions(tmp_path)
    lines = succeed("diff", first, second, cwd=tmp_path).out.splitlines()
    assert lines[0].startswith("--- release-") and first in lines[0]
    assert lines[1].startswith("+++ release-") and second in lines[1]
    for line in (
        "  ~ test: running → completed",
        "  + extra: skipped",
        "  ~ count: 3 → 4",
        "  + new = true",
        "  ~ config",
        '      + hosts[1] = "b"',
        "      ~ port: 80 → 8080",
        '  + KE-1 = "wet"',
    ):
        assert line in lines, line
    assert not any("deep" in line or "same" in line for line in lines)


def test_one_ref_is_compared_with_the_newest(tmp_path: Path) -> None:
    """With a single version the other side is the head of its run, sealed or not; with a run or nothing, its last
    checkpoint and its head are compared."""
    release(tmp_path)
    succeed("save", cwd=tmp_path)
    succeed("set", "count=5", cwd=tmp_path)
    found = succeed("diff", "@~0", "--json", cwd=tmp_path).json
    assert {"count": {"from": 3, "to": 5}} == found["variables"]["changed"]
    for words in ((), ("@",), ("--run", "latest")):
        assert found == succeed("diff", *words, "--json", cwd=tmp_path).json
    assert "Nothing differs." in succeed("diff", "@", "@", cwd=tmp_path).out


def test_between_runs(tmp_path: Path) -> None:
    """Two runs can be compared, too."""
    one, two = started(tmp_path, "one", "--var", "a=1"), started(tmp_path, "two", "--var", "a=2")
    found = succeed("diff", one, two, "--json", cwd=tmp_path).json
    assert {"a": {"from": 1, "to": 2}} == found["variables"]["changed"]


def test_times_are_no_difference(tmp_path: Path) -> None:
    """On the page: a step that did the same at another time does not differ. The JSON has the times.

    A time in the user's data is a difference.
    """
    (tmp_path / "f.yaml").write_text("name: f\nsteps:\n  - id: a\n    run: echo a\n")
    for run in ("one", "two"):
        succeed("run", "f.yaml", "--run-id", run, cwd=tmp_path)
    assert "Nothing differs." in succeed("diff", "one", "two", cwd=tmp_path).out
    assert "a" in succeed("diff", "one", "two", "--json", cwd=tmp_path).json["steps"]["changed"]
    for run, sold_at in (("one", 100), ("two", 200)):
        succeed(
            "step", "done", "sale", "--result", json.dumps({"sold_at": sold_at}), "--run", run, cwd=tmp_path
        )
    assert "sold_at: 100 → 200" in succeed("diff", "one", "two", cwd=tmp_path).out


def test_secrets_stay_secret(tmp_path: Path) -> None:
    """What was redacted is {"redacted": true} on both sides."""
    started(tmp_path)
    succeed("save", cwd=tmp_path)
    succeed("set", "api_key=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", cwd=tmp_path)
    found = succeed("diff", "@~0", "--json", cwd=tmp_path).json
    assert {"api_key": {"redacted": True}} == found["variables"]["added"]
    assert "  + api_key = [redacted]" in succeed("diff", "@~0", cwd=tmp_path).out.splitlines()


@pytest.mark.parametrize(
    ("words", "code"),
    [(("a", "b", "c"), 2), (("nothing",), 3), (("@", "nothing"), 3), (("@~0", "@~50"), 3)],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Too many are wrong usage; what is not there is exit 3."""
    release(tmp_path)
    assert code == call("diff", *words, cwd=tmp_path).code


def test_no_store_is_made(tmp_path: Path) -> None:
    """Looking creates nothing."""
    assert 3 == call("diff", "latest", cwd=tmp_path).code
    assert [] == files_below(tmp_path)


def test_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal it is coloured, fits any width, and nothing hostile comes through."""
    first, _ = two_versions(tmp_path)
    succeed("set", f"k{HOSTILE}={HOSTILE * 20}", cwd=tmp_path)
    assert harmless(succeed("diff", first, cwd=tmp_path).out.replace("\t", ""))
    for columns in (20, 49, 50, 80, 160):
        terminal = shown("diff", first, cwd=tmp_path, columns=columns)
        assert terminal.coloured
        assert harmless(terminal.shown)
        assert all(width(line) <= columns for line in terminal.shown.splitlines())
        assert "\\t(now)" not in terminal.shown  # a tab is as wide as it is


def test_many_differences_inside_one_value(tmp_path: Path) -> None:
    """A terminal is told how many more there are; a pipe gets them all."""
    started(tmp_path)
    succeed("set", f"list={list(range(100))}", cwd=tmp_path)
    succeed("save", cwd=tmp_path)
    succeed("set", f"list={[n + 1 for n in range(100)]}", cwd=tmp_path)
    assert "… and 60 more places" in shown("diff", "@~0", cwd=tmp_path).shown
    assert "~ [99]: 99 → 100" in succeed("diff", "@~0", cwd=tmp_path).out
