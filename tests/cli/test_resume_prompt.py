"""The prompt of `run FILE` where an unfinished run is there, on a pseudo-terminal: four choices, and all else a person
may type. `resume` itself has no such prompt: it asks only about what was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import HOSTILE, driven, harmless, release
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal

CHOICE = "Choice [r/s/v/d]: "


def run_of(folder: Path, ref: str) -> dict[str, object]:
    found: dict[str, object] = succeed("show", ref, "--json", cwd=folder).json
    return found


FLOW = """
name: release
vars: {version: "1.4"}
steps:
  - {id: collect, run: "true"}
  - {id: build, run: "true"}
  - {id: test, run: "test -e good"}
  - {id: publish, run: "true"}
"""


def failed(folder: Path, *words: str) -> str:
    """A run of a workflow file, two steps done, the third failed; what it needed is there by now."""
    (folder / "flow.yaml").write_text(FLOW)
    assert 1 == call("run", "flow.yaml", *words, cwd=folder).code
    (folder / "good").touch()
    return str(run_of(folder, "latest")["run_id"])


def paused(folder: Path) -> str:
    """A run that nobody drives."""
    run = release(folder)
    succeed("pause", cwd=folder)
    return run


def test_its_form_is_the_protocols(tmp_path: Path) -> None:
    """What was found, created when, how far, then the four choices."""
    failed(tmp_path, "--title", "Release 1.4")
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type(CTRL_C)
        terminal.end()
    assert re.search(
        r'^Found existing checkpoint for "Release 1\.4"\n'
        r"Created: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \((just now|\d+ seconds? ago)\)\n"
        r"Progress: Step 2 of 4 completed\n"
        r"Run: release-\S+ \(failed\)\n"
        r"\n"
        r"Options:\n"
        r"  \(r\)esume - Continue from test\n"
        r"  \(s\)tart fresh - .+\n"
        r"  \(v\)iew details - .+\n"
        r"  \(d\)elete - .+\n"
        r"\n"
        r"Choice \[r/s/v/d\]: ",
        terminal.shown,
    ), terminal.shown


def test_phases_where_the_protocol_counts_them(tmp_path: Path) -> None:
    """A project that follows claude: `Phase 2 of 4 completed`, `Continue from Phase 3`, and its name for the file."""
    succeed("init", "--protocol", "claude-checkpoints", cwd=tmp_path)
    run = failed(tmp_path, "--title", "Release 1.4")
    assert re.fullmatch(r"release_release_1_4_\d{8}_\d{6}", run)
    assert (tmp_path / f".claude/checkpoints/failed/{run}.json").exists()
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type(CTRL_C)
        terminal.end()
    assert "Progress: Phase 2 of 4 completed\n" in terminal.shown
    assert "(r)esume - Continue from Phase 3\n" in terminal.shown


@pytest.mark.parametrize("typed", ["r\n", "R\n", "resume\n", " r \n"])
def test_resume(tmp_path: Path, typed: str) -> None:
    """(r) goes on with it, to its end."""
    run = failed(tmp_path)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type(typed)
        assert 0 == terminal.end(), terminal.shown
    assert "completed" == run_of(tmp_path, run)["status"]


def test_start_fresh(tmp_path: Path) -> None:
    """(s) marks it abandoned and starts another, with nothing done."""
    old = failed(tmp_path)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type("s\n")
        assert 0 == terminal.end(), terminal.shown
    new = run_of(tmp_path, "latest")
    assert new["run_id"] != old
    assert ("abandoned", "completed") == (run_of(tmp_path, old)["status"], new["status"])
    assert f"{old} is abandoned" in terminal.shown


def test_view(tmp_path: Path) -> None:
    """(v) shows the page of `show`, then the prompt again."""
    failed(tmp_path)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type("v\n")
        terminal.expect("Variables")
        terminal.expect("Found existing checkpoint")
        terminal.expect(CHOICE)
        terminal.type("r\n")
        assert 0 == terminal.end()


def test_delete(tmp_path: Path) -> None:
    """(d) asks a second time: a no leads back to the prompt, a yes removes the run."""
    run = failed(tmp_path)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type("d\n")
        terminal.expect("to the trash? [y/N]: ")
        terminal.type("\n")
        terminal.expect(CHOICE)
        assert run == run_of(tmp_path, run)["run_id"]
        terminal.type("d\n")
        terminal.expect("to the trash? [y/N]: ")
        terminal.type("y\n")
        assert 0 == terminal.end()
    assert 3 == call("show", run, cwd=tmp_path).code


def test_garbage_is_asked_again(tmp_path: Path) -> None:
    """Anything else gets a word on what may be answered, and the question again."""
    run = failed(tmp_path)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        for typed in ("x\n", "\n", "resumee\n", "rs\n", "\x1b[A\n", "日本\n", "y" * 500 + "\n"):
            terminal.expect(CHOICE)
            terminal.type(typed)
            terminal.expect("Please answer r, s, v or d.")
        terminal.expect(CHOICE)
        terminal.type("r\n")
        assert 0 == terminal.end()
    assert "completed" == run_of(tmp_path, run)["status"]


@pytest.mark.parametrize(("typed", "code"), [(CTRL_D, 7), (CTRL_C, 130)])
def test_leaving(tmp_path: Path, typed: str, code: int) -> None:
    """The end of input is exit 7 and names --yes, Ctrl-C is 130; neither changes anything, nor shows a traceback."""
    run = failed(tmp_path)
    before = run_of(tmp_path, run)["head"]
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect(CHOICE)
        terminal.type(typed)
        assert code == terminal.end()
    assert "Traceback" not in terminal.shown
    assert ("--yes" in terminal.shown.split(CHOICE)[1]) == (code == 7)
    assert before == run_of(tmp_path, run)["head"]


@pytest.mark.parametrize("words", [(), ("--yes",), ("--json",)])
def test_resume_asks_nothing_where_nothing_is_found(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The claude protocol's safe conditions: nothing was found, so it goes on, also on a terminal."""
    paused(tmp_path)
    with Terminal("resume", *words, cwd=tmp_path) as terminal:
        assert 0 == terminal.end(), terminal.shown
    assert "Choice" not in terminal.shown and "[y/N]" not in terminal.shown


@pytest.mark.parametrize(("typed", "code", "percent"), [("y\n", 0, 25), ("n\n", 7, 50)])
def test_finished_steps_are_a_question_of_their_own(
    tmp_path: Path, typed: str, code: int, percent: int
) -> None:
    """Going back over finished steps asks; a no changes nothing."""
    run = paused(tmp_path)
    with Terminal("resume", f"{run}@{_first(tmp_path, run)}", cwd=tmp_path) as terminal:
        terminal.expect("1 finished step would run again: build.")
        terminal.type(typed)
        assert code == terminal.end()
    assert percent == run_of(tmp_path, run)["percent"]


def _first(folder: Path, run: str) -> int:
    seq: int = succeed("log", run, "--json", cwd=folder).json["checkpoints"][-1]["seq"]
    return seq


def test_a_driven_run_is_not_offered(tmp_path: Path) -> None:
    """Somebody drives it: exit 5 before any question."""
    with driven(tmp_path) as run, Terminal("resume", run, cwd=tmp_path) as terminal:
        assert 5 == terminal.end()
    assert "Choice" not in terminal.shown


def test_a_completed_run_is_not_offered(tmp_path: Path) -> None:
    """Nothing is left, so nothing is asked."""
    run = release(tmp_path)
    succeed("finish", cwd=tmp_path)
    with Terminal("resume", run, cwd=tmp_path) as terminal:
        assert 0 == terminal.end()
    assert "nothing is left" in terminal.shown


def test_it_is_harmless(tmp_path: Path) -> None:
    """A hostile title is escaped in the prompt, in the page, and in the second question."""
    failed(tmp_path, "--title", HOSTILE)
    with Terminal("run", "flow.yaml", cwd=tmp_path, columns=40) as terminal:
        terminal.expect(CHOICE)
        terminal.type("v\n")
        terminal.expect(CHOICE)
        terminal.type("d\n")
        terminal.expect("[y/N]: ")
        terminal.type("n\n")
        terminal.expect(CHOICE)
        terminal.type(CTRL_C)
        assert 130 == terminal.end()
    assert harmless(terminal.shown)


def test_the_brief_goes_to_stdout(tmp_path: Path) -> None:
    """What is found is told on stderr: with stdout in a file, the file has the brief and nothing else."""
    run = paused(tmp_path)
    with (
        open(tmp_path / "brief.txt", "w") as out,
        Terminal("resume", cwd=tmp_path, stdout=out.fileno()) as terminal,
    ):
        assert 0 == terminal.end()
    assert run in (tmp_path / "brief.txt").read_text()
