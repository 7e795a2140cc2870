"""`leftoff history`."""

from __future__ import annotations

import re
from pathlib import Path

from leftoff.cli.text import width
from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, files_below, harmless, release, started
from tests.cli.terminal import shown

KEYS = {
    "checkpoint_id", "aliases", "run_id", "seq", "trigger", "step", "created_at", "note", "digest", "can_resume",
}  # fmt: skip


def test_json_is_the_contract(tmp_path: Path) -> None:
    """Checkpoints come newest first, with the keys of the contract, ids as 12 hex and digests tagged."""
    run = release(tmp_path)
    saved = succeed("save", "--note", "half way", cwd=tmp_path).out.strip()
    found = succeed("history", run, "--json", cwd=tmp_path).json
    assert ["checkpoints"] == list(found)
    entries = found["checkpoints"]
    assert all(set(entry) >= KEYS for entry in entries)
    assert ["manual", "step_complete", "step_complete"] == [entry["trigger"] for entry in entries]
    assert ["test", "build", "collect"] == [entry["step"] for entry in entries]
    assert (saved, "half way") == (entries[0]["checkpoint_id"], entries[0]["note"])
    assert sorted((e["seq"] for e in entries), reverse=True) == [e["seq"] for e in entries]
    assert all(re.fullmatch("[0-9a-f]{12}", entry["checkpoint_id"]) for entry in entries)
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", entry["digest"]) for entry in entries)


def test_piped_it_is_plain_columns(tmp_path: Path) -> None:
    """Piped, a checkpoint is a line: id, version, trigger, step, time, note."""
    release(tmp_path)
    saved = succeed("save", "--note", "half way", cwd=tmp_path).out.strip()
    first, second, _ = succeed("history", cwd=tmp_path).out.splitlines()
    assert re.fullmatch(rf"{saved}  @\d+  manual         test     \S+Z  half way", first)
    assert re.fullmatch(r"[0-9a-f]{12}  @\d+  step_complete  build    \S+Z", second)


def test_piped_a_note_is_on_its_line(tmp_path: Path) -> None:
    """Whatever ends a line anywhere is escaped in a note, however long that is; nothing of it is left out."""
    run = started(tmp_path)
    ends = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
    note = "".join(f"{end}line {n}" for n, end in enumerate(ends)) + "x" * 100_000
    succeed("save", "--note", note, cwd=tmp_path)
    (line,) = succeed("history", run, cwd=tmp_path).out.splitlines()
    assert all(f"line {n}" in line for n in range(len(ends))) and line.endswith("x" * 100_000)


def test_from_a_version_back(tmp_path: Path) -> None:
    """With a version, the log starts there."""
    run = release(tmp_path)
    entries = succeed("history", f"{run}~1", "--json", cwd=tmp_path).json["checkpoints"]
    assert ["collect"] == [entry["step"] for entry in entries]


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    """Nothing sealed yet is no error."""
    started(tmp_path)
    assert {"checkpoints": []} == succeed("history", "--json", cwd=tmp_path).json
    result = succeed("history", cwd=tmp_path)
    assert "" == result.out
    assert "leftoff save" in result.err


def test_wrong_words(tmp_path: Path) -> None:
    """Without a run there is nothing to list, and nothing is created; of several the latest is taken, and named."""
    assert 3 == call("history", cwd=tmp_path).code
    assert [] == files_below(tmp_path)
    release(tmp_path)
    other = started(tmp_path, "other")
    assert f"this is the latest, {other}" in succeed("history", cwd=tmp_path).err
    assert 3 == call("history", "nothing", cwd=tmp_path).code
    assert 2 == call("history", "a", "b", cwd=tmp_path).code


def rewound(folder: Path) -> str:
    """A run that went back twice, the second time further, and was forked."""
    run = started(folder, "graph", "--run-id", "graph", "--steps", "a,b,c,d")
    for step in ("a", "b", "c"):
        succeed("step", "done", step, cwd=folder)
    succeed("rollback", f"{run}~1", cwd=folder)
    succeed("step", "done", "d", cwd=folder)
    seqs = [entry["seq"] for entry in succeed("history", "--json", cwd=folder).json["checkpoints"]]
    succeed("rollback", f"{run}@{seqs[-1]}", cwd=folder)
    succeed("fork", f"{run}@{seqs[-1]}", "--branch", "side", "--run-id", "forked", cwd=folder)
    return run


def test_a_terminal_shows_rollbacks_and_forks(tmp_path: Path) -> None:
    """A rollback has a mark of its own; forks hang where they began."""
    run = rewound(tmp_path)
    terminal = shown("history", run, cwd=tmp_path, columns=120)
    assert terminal.coloured
    drawn = [re.split(r"\s{2,}", line.rstrip())[0] for line in terminal.shown.splitlines()]
    assert ["↺ @7", "● @6", "↺ @5", "● @4", "● @3", "● @2", "├─▸ forked"] == drawn
    assert "fork on side, paused" in terminal.shown
    child = shown("history", "forked", cwd=tmp_path, columns=120).shown
    assert "╰ forked from graph@2" in child


def test_what_is_not_sealed_yet_is_shown(tmp_path: Path) -> None:
    """On a terminal the newest version is on top, also where it is no checkpoint."""
    release(tmp_path)
    first = shown("history", cwd=tmp_path).shown.splitlines()[0]
    assert re.fullmatch(r"○ @\d+  not saved yet", first)


def test_it_fits_and_is_harmless(tmp_path: Path) -> None:
    """Hostile and long notes and steps are escaped and cut, at any width."""
    run = started(tmp_path, "evil")
    succeed("step", "done", f"s{HOSTILE}" + "x" * 300, "--note", HOSTILE, cwd=tmp_path)
    succeed("save", "--note", HOSTILE + "日本語" * 90, cwd=tmp_path)
    assert harmless(succeed("history", run, cwd=tmp_path).out)
    for columns in (20, 63, 64, 80, 160):
        terminal = shown("history", run, cwd=tmp_path, columns=columns)
        assert harmless(terminal.shown)
        assert all(width(line) <= columns for line in terminal.shown.splitlines())
