"""`leftoff rm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, driven, files_below, harmless, release, started
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal


def runs(folder: Path) -> list[str]:
    return [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=folder).json["runs"]]


def test_without_a_terminal_it_needs_yes(tmp_path: Path) -> None:
    """Nobody there to ask: exit 7, naming --yes, and nothing is removed. With --yes it is."""
    run = release(tmp_path)
    result = call("rm", run, cwd=tmp_path)
    assert 7 == result.code
    assert "--yes" in result.err and run in result.err
    assert [run] == runs(tmp_path)
    result = succeed("rm", run, "--yes", cwd=tmp_path)
    assert "" == result.out
    assert run in result.err
    assert [] == runs(tmp_path)
    assert 3 == call("show", run, cwd=tmp_path).code


def test_json(tmp_path: Path) -> None:
    """With --json what was removed is one document; without --yes it never asks."""
    run = release(tmp_path)
    refused = call("rm", run, "--json", cwd=tmp_path)
    assert (7, "needs_person") == (refused.code, refused.json["error"]["code"])
    assert [run] == succeed("rm", run, "--json", "--yes", cwd=tmp_path).json["removed"]


@pytest.mark.parametrize(
    ("typed", "code", "gone"),
    [
        ("y\n", 0, True),
        ("yes\n", 0, True),
        ("n\n", 7, False),
        ("\n", 7, False),
        ("what\n", 7, False),
        (CTRL_D, 7, False),
        (CTRL_C, 130, False),
    ],
)
def test_on_a_terminal_it_asks(tmp_path: Path, typed: str, code: int, gone: bool) -> None:
    """Only a yes removes it; no, nothing, anything else, the end of input and Ctrl-C keep it."""
    run = release(tmp_path)
    with Terminal("rm", run, cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        terminal.type(typed)
        assert code == terminal.end()
    assert "Traceback" not in terminal.shown
    assert ([] if gone else [run]) == runs(tmp_path)


def test_the_question_is_harmless(tmp_path: Path) -> None:
    """A hostile title is escaped in the question."""
    run = started(tmp_path, "evil", "--title", HOSTILE)
    with Terminal("rm", run, cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        terminal.type("n\n")
        terminal.end()
    assert harmless(terminal.shown)


def test_not_while_somebody_drives_it(tmp_path: Path) -> None:
    """A run that a live process drives is a conflict, with --yes or without."""
    with driven(tmp_path) as run:
        assert 5 == call("rm", run, "--yes", cwd=tmp_path).code
        assert 5 == call("rm", run, cwd=tmp_path).code
        assert [run] == runs(tmp_path)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("nothing", "--yes"), 3),
        (("latest", "nothing", "--yes"), 3),
        (("@~1", "--yes"), 2),
        (("@@2", "--yes"), 2),
        (("--older-than", "soon", "--yes"), 2),
        (("@", "--older-than", "0d", "--yes"), 2),
    ],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Whole runs are removed, not versions; what is not there is exit 3."""
    run = release(tmp_path)
    result = call("rm", *words, cwd=tmp_path)
    assert code == result.code, str(result)
    assert [run] == runs(tmp_path)


def test_no_store_is_made(tmp_path: Path) -> None:
    """Nothing to remove, nothing made."""
    assert 3 == call("rm", "latest", "--yes", cwd=tmp_path).code
    assert [] == files_below(tmp_path)


def test_several_at_once(tmp_path: Path) -> None:
    """All or none: if one of them is driven, none is moved. A name that is given twice is one run."""
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=tmp_path)
        succeed("finish", "--run", name, cwd=tmp_path)
    with driven(tmp_path) as run:
        assert 5 == call("rm", "a", run, "b", "--yes", cwd=tmp_path).code
        assert 3 == len(runs(tmp_path))
    dry = succeed("rm", "a", "b", "a", "--dry-run", "--json", cwd=tmp_path).json
    assert (["a", "b"], True) == (dry["removed"], dry["dry_run"])
    refused = call("rm", "a", "b", cwd=tmp_path)
    assert 7 == refused.code and "2 runs would be moved to the trash: a (" in refused.err
    succeed("rm", "a", "b", "--yes", cwd=tmp_path)
    assert [run] == runs(tmp_path)
    succeed("undelete", "a", cwd=tmp_path)


def test_by_age(tmp_path: Path) -> None:
    """Finished runs, active or archived, that are so old. A run in progress stays, however old it is."""
    for name, status in (("a", "completed"), ("b", "failed"), ("c", "abandoned")):
        succeed("start", "w", "--run-id", name, cwd=tmp_path)
        succeed("finish", "--status", status, "--run", name, cwd=tmp_path)
    succeed("archive", "a", cwd=tmp_path)
    succeed("start", "w", "--run-id", "open", cwd=tmp_path)
    assert [] == succeed("rm", "--older-than", "1d", "--yes", "--json", cwd=tmp_path).json["removed"]
    assert 7 == call("rm", "--older-than", "0d", cwd=tmp_path).code
    done = succeed("rm", "--older-than", "0d", "--yes", "--json", cwd=tmp_path).json
    assert ["a", "b", "c"] == sorted(done["removed"])
    assert ["open"] == runs(tmp_path)
