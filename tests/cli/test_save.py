"""`leftoff save`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leftoff.model.words import TRIGGERS
from tests.cli.command import call, succeed
from tests.cli.runs import driven, started

KEYS = {
    "checkpoint_id", "aliases", "run_id", "seq", "trigger", "step", "created_at", "note", "digest", "can_resume",
}  # fmt: skip


def test_prints_the_id(tmp_path: Path) -> None:
    """Twelve hex digits and nothing else; it names the checkpoint from then on."""
    started(tmp_path)
    done = succeed("save", cwd=tmp_path)
    assert re.fullmatch(r"[0-9a-f]{12}\n", done.out) and "" == done.err
    assert 0 == call("show", done.out.strip(), cwd=tmp_path).code


def test_always_a_new_version(tmp_path: Path) -> None:
    """Whether anything changed or not."""
    started(tmp_path)
    ids = {succeed("save", cwd=tmp_path).out for _ in range(3)}
    assert 3 == len(ids)
    assert [4, 3, 2] == [c["seq"] for c in succeed("log", "--json", cwd=tmp_path).json["checkpoints"]]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_trigger(trigger: str, tmp_path: Path) -> None:
    """Any trigger may be given, with a note; the document is the checkpoint."""
    run = started(tmp_path, "flow", "--steps", "a")
    succeed("step", "start", "a", cwd=tmp_path)
    found = succeed("save", "--trigger", trigger, "--note", "so far", "--json", cwd=tmp_path).json
    assert KEYS <= set(found)
    assert (run, trigger, "so far", "a") == (found["run_id"], found["trigger"], found["note"], found["step"])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["digest"]) and found["created_at"].endswith("Z")


def test_default_trigger_and_step(tmp_path: Path) -> None:
    """It is manual, and about the step that calls."""
    started(tmp_path)
    found = succeed("save", "--json", cwd=tmp_path, LEFTOFF_STEP="build/x").json
    assert ("manual", "build/x", None) == (found["trigger"], found["step"], found["note"])


def test_beside_a_live_driver(tmp_path: Path) -> None:
    """It needs no lease."""
    with driven(tmp_path):
        succeed("save", cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--trigger", "whim"), "one of step_complete"), (("--note",), "value")],
)
def test_wrong_usage(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """A trigger that is none names those there are."""
    started(tmp_path)
    done = call("save", *words, cwd=tmp_path)
    assert (2, "") == (done.code, done.out) and says in done.err


def test_files_that_are_named_are_in_the_checkpoint(tmp_path: Path) -> None:
    """They can be restored from it; one word that is no file may be a run; a missing file saves nothing."""
    run = started(tmp_path, "work")
    for text in ("one", "two"):
        (tmp_path / "a.txt").write_text(text)
        (tmp_path / "b.txt").write_text(text)
        saved = succeed("save", "a.txt", "b.txt", "--json", cwd=tmp_path).json
        assert text == succeed("cat", f"{run}@{saved['seq']}:a.txt", cwd=tmp_path).out
    assert run == succeed("save", run, "--json", cwd=tmp_path).json["run_id"]
    before = succeed("history", "--json", cwd=tmp_path).json
    assert (
        3 == call("save", "nothing", cwd=tmp_path).code == call("save", "a.txt", "nothing", cwd=tmp_path).code
    )
    assert before == succeed("history", "--json", cwd=tmp_path).json
