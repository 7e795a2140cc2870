"""`leftoff brief`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.run_reader import Reader
from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, started
from tests.seams import SEAMS

PARTS = [
    "You continue unfinished work: leftoff run ",
    "Workflow ",
    "blocked; ",
    "Resume instructions:",
    "Done:",
    "In flight:",
    "Next:",
    "Open errors:",
    "Variables:",
    "Notes, newest first:",
    "Artifacts by step:",
    "Files touched:",
    "Other records",
    "Changed in the world",
    "More: ",
]


def heads(text: str) -> list[str]:
    """The parts that are there, in their order."""
    return [line for line in text.splitlines() if not line.startswith(("-", " ")) and line]


def full(cwd: Path) -> str:
    """A run with something to say in every part."""
    run = started(
        cwd, "release", "--title", "Release 1.4", "--steps", "a,b,c,d,e", "--issue", "42", "--agent", "coder"
    )
    (cwd / "out.txt").write_text("made")
    (cwd / "conf.toml").write_text("x = 1")
    succeed("step", "done", "a", "--output", "out.txt", "--result", '{"files": 12}', cwd=cwd)
    succeed("step", "start", "b", "--title", "Build it", cwd=cwd)
    succeed("step", "block", "c", "--error", "no key", "--resume-with", "ask Bob for the key", cwd=cwd)
    succeed("put", "step", "d", '{"title": "Deploy", "instructions": "Use the blue cluster."}', cwd=cwd)
    succeed(
        "set", "version=1.4", "api_key=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "pages=[1,2]", cwd=cwd
    )
    succeed("note", "mac builder is slow", cwd=cwd)
    succeed("note", "--resume", "do not touch the database", cwd=cwd)
    succeed("track", "conf.toml", cwd=cwd)
    succeed("put", "knowledge", "KE-1", '{"fact": 1}', cwd=cwd)
    return run


def test_facts_most_important_first(tmp_path: Path) -> None:
    """Every part is there, in its order, with what it is about."""
    run = full(tmp_path)
    (tmp_path / "out.txt").write_text("edited")
    (tmp_path / "conf.toml").unlink()
    done = succeed("brief", cwd=tmp_path)
    assert "" == done.err
    found = heads(done.out)
    assert len(PARTS) == len(found) and all(map(str.startswith, found, PARTS))
    for said in (
        "for step c: “ask Bob for the key”",
        "do not touch the database",
        f"leftoff run {run}.",
        "Workflow release: “Release 1.4”",
        "1 of 5 steps done (20%), 1 running, 1 blocked",
        "issue 42, agent coder",
        'a → {"files":12}',
        "b: “Build it” (running since",
        "- d: “Deploy”\n  “Use the blue cluster.”\n- e",
        "c blocked: “no key”",
        'api_key = "[redacted]"',
        "pages = [1,2]",
        "mac builder is slow",
        "a: out.txt",
        "- conf.toml\n",
        "1 knowledge: KE-1",
        "out.txt has changed",
        "conf.toml is gone",
    ):
        assert said in done.out, said
    assert done.out.index("ask Bob") < done.out.index("Done:")


def test_json_and_refs(tmp_path: Path) -> None:
    """The document has the run's id and the same text; a REF names the run or the version."""
    run = full(tmp_path)
    found = succeed("brief", "--json", cwd=tmp_path).json
    assert {"run_id", "text"} == set(found) and run == found["run_id"] and f"run {run}" in found["text"]
    assert "Done:" not in succeed("brief", f"{run}@1", cwd=tmp_path).out
    assert "5 steps done" in succeed("brief", "#42", cwd=tmp_path).out
    assert "Done:" in succeed("brief", "@~0", cwd=tmp_path).out


@pytest.mark.parametrize(("words", "most"), [((), 1600), (("--all",), 8000)])
def test_never_longer_than_it_may_be(words: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """However much there is: every part has its share, and what was left out is counted."""
    steps = ",".join(f"step-{n:04d}-{'x' * 40}" for n in range(300))
    started(tmp_path, "w" * 500, "--title", "t" * 3000, "--steps", steps)
    variables = [f"variable-{n}={'v' * 900}" for n in range(60)]
    succeed("set", *variables, "big=" + "é" * 40_000, cwd=tmp_path)
    for number in range(12):
        succeed("note", f"note {number} " + "n" * 5000, cwd=tmp_path)
        succeed("note", "--resume", f"first {number} " + "r" * 5000, cwd=tmp_path)
        succeed(
            "step", "fail", f"bad-{number}", "--error", "e" * 3000, "--resume-with", "w" * 3000, cwd=tmp_path
        )
        succeed("put", "knowledge", f"k{number}" + "k" * 300, "1", cwd=tmp_path)
    (tmp_path / "f").write_text("x")
    succeed("track", "f", cwd=tmp_path)
    (tmp_path / "f").unlink()
    done = succeed("brief", *words, cwd=tmp_path)
    assert most * 0.8 < len(done.out) <= most
    for part in (
        "You continue unfinished work: leftoff run ",
        "Resume instructions:",
        "Next:",
        "Open errors:",
        "Variables:",
        "Notes",
        *(["Changed in the world"] if words else []),
    ):
        assert any(head.startswith(part) for head in heads(done.out)), part
    assert "more" in done.out and ("f is gone" in done.out or not words)
    assert len(succeed("brief", "--json", *words, cwd=tmp_path).json["text"]) <= most


def test_git_moved(tmp_path: Path) -> None:
    """The commit or the branch that is checked out now is named where it is not the one of the last checkpoint."""

    def git(*words: str) -> None:
        options = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *options, *words), cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "trunk")
    git("commit", "-q", "--allow-empty", "-m", "one")
    started(tmp_path)
    assert "Changed in the world" not in succeed("brief", cwd=tmp_path).out
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert "The git commit was" in succeed("brief", cwd=tmp_path).out
    succeed("save", cwd=tmp_path)
    assert "Changed in the world" not in succeed("brief", cwd=tmp_path).out
    git("checkout", "-q", "-b", "side")
    assert "The git branch was trunk and is side now." in succeed("brief", cwd=tmp_path).out


def test_nothing_a_terminal_would_obey(tmp_path: Path) -> None:
    """Names and texts from anywhere cannot draw on the screen, nor pass for another part."""
    started(tmp_path, HOSTILE, "--title", HOSTILE)
    succeed("step", "fail", HOSTILE.replace("/", " "), "--error", HOSTILE, cwd=tmp_path)
    succeed("set", f"{HOSTILE.replace('=', ' ')}={HOSTILE}", cwd=tmp_path)
    succeed("note", f"x\nDone:\n- everything {HOSTILE}", cwd=tmp_path)
    out = succeed("brief", cwd=tmp_path).out
    assert all(char.isprintable() or char == "\n" for char in out)
    assert "Done:" not in heads(out)


def test_an_empty_run(tmp_path: Path) -> None:
    """Only what there is to say is said."""
    started(tmp_path)
    assert 4 == len(heads(succeed("brief", cwd=tmp_path).out))


@pytest.mark.parametrize(("words", "code"), [((), 3), (("nobody",), 3), (("a", "b"), 2)])
def test_nothing_to_tell(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """Without a run there is no brief, and no store is made for it."""
    assert code == call("brief", *words, cwd=tmp_path).code
    assert [] == list(tmp_path.iterdir())


def test_of_a_long_list_only_the_beginning_is_told(tmp_path: Path) -> None:
    """How it begins, and how many entries it has; a short one is told whole."""
    started(tmp_path)
    succeed("set", f"n:={[*range(5000)]}", "few:=[1,2]", cwd=tmp_path)
    told = succeed("brief", cwd=tmp_path).out
    assert "few = [1,2]\n" in told
    assert "n = [0,1,2,3" in told and ",80,8" in told and "(5,000 entries)" in told


def test_values_that_are_not_told_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of records that may be a million there are only the keys: how many, not what they hold."""
    started(tmp_path)
    succeed("put", "knowledge", "one", '{"text": "never told"}', cwd=tmp_path)
    read: list[str] = []
    real = Reader.plain

    def plain(self: Reader, collection: str) -> dict[str, Any]:
        read.append(collection)
        return real(self, collection)

    monkeypatch.setattr(SEAMS["Reader.plain"], plain)
    succeed("brief", cwd=tmp_path)
    assert "step" in read and "knowledge" not in read
