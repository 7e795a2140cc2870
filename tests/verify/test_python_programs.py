"""`leftoff.run` and `leftoff.resume` check a run before they continue it, as `leftoff resume` does, and say so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.testing import FakeClock
from tests.api.others import program
from tests.cli.command import call, succeed
from tests.verify.situations import Place, codes, git

DAY = 86_400_000
PROGRAM = """
import pathlib, sys
import leftoff

def make():
    pathlib.Path("out.txt").write_text("mine")
    run.artifact("out.txt")
    return 1

with leftoff.run("report", steps=["make", "track", "send"], ACCEPT) as run:
    run.do("make", make)
    run.do("track", lambda: run.track("config.txt") and None)
    if STOP:
        raise SystemExit("stopped")
    run.do("send", lambda: print("sent"))
"""


def start(place: Place, *, stop: bool = False, accept: str = "") -> Any:
    """Start the program: it leaves its run when it has made and tracked a file, or sends what it made."""
    text = PROGRAM.replace("STOP", str(stop)).replace("ACCEPT", f"accept=[{accept}]")
    return program(text, place.folder)


def first(place: Place) -> str:
    """Start the program for the first time; the id of its run."""
    place.file("config.txt", "port = 1\n")
    done = start(place, stop=True)
    assert (1, "", "stopped\n") == (done.returncode, done.stdout, done.stderr)  # nothing is said of a new run
    return str(succeed("show", "latest", "--json", cwd=place.folder).json["run_id"])


def later(path: Path, text: str) -> None:
    """Change a file when the run is not at work any more."""
    time.sleep(0.05)
    path.write_text(text)


def state(place: Place, run: str) -> Any:
    """All that a refused call must leave as it was."""
    shown = succeed("show", run, "--json", cwd=place.folder).json
    return {key: shown[key] for key in shown if key != "now"}


CHANGES: dict[str, Callable[[Place], Any]] = {
    "outputs.changed": lambda place: later(place.folder / "out.txt", "tampered"),
    "outputs.missing": lambda place: os.unlink(place.folder / "out.txt"),
    "files.changed": lambda place: later(place.folder / "config.txt", "port = 2\n"),
    "git.branch_other": lambda place: git(place.folder, "switch", "-q", "-c", "other"),
}


@pytest.mark.parametrize("code", CHANGES)
def test_a_program_is_refused_as_the_command_is(place: Place, code: str) -> None:
    """Where the command asks, `leftoff.run` raises, names the code, and leaves the run as it was; accepted, it
    continues."""
    run = first(place)
    CHANGES[code](place)
    assert {code: "ask"} == dict(codes(place.verify(run, code=7)))
    before = state(place, run)
    refused = start(place)
    assert (1, "") == (refused.returncode, refused.stdout)
    assert "CannotResume" in refused.stderr and f"leftoff.run('report', accept=['{code}'])" in refused.stderr
    assert "continuing" not in refused.stderr
    assert before == state(place, run) and {code: "ask"} == dict(codes(place.verify(run, code=7)))
    done = start(place, accept=f"'{code}'")
    assert (0, "sent\n") == (done.returncode, done.stdout), done.stderr
    assert (
        f"leftoff: continuing {run}, last active " in done.stderr
        and "completed" == state(place, run)["status"]
    )


def test_the_ways_out_that_the_hint_names(place: Place) -> None:
    """`leftoff resume` settles it for the program; `leftoff finish` makes room for a new run."""
    run = first(place)
    CHANGES["outputs.changed"](place)
    hint = start(place).stderr
    assert f"`leftoff resume {run}`" in hint and f"`leftoff finish {run} --status abandoned`" in hint
    assert 7 == call("resume", run, cwd=place.folder).code
    succeed("finish", run, "--status", "abandoned", cwd=place.folder)
    done = start(place, stop=True)
    assert (
        "stopped\n" == done.stderr
        and run != succeed("show", "latest", "--json", cwd=place.folder).json["run_id"]
    )
    CHANGES["outputs.changed"](place)
    succeed("resume", "latest", "--accept", "outputs.changed", cwd=place.folder)
    assert "sent\n" == start(place).stdout


def test_the_way_out_of_a_refusal(place: Place) -> None:
    """The branch of the run was merged and deleted: the hint names the command that makes room for a new run."""
    git(place.folder, "switch", "-q", "-c", "gone")
    run = first(place)
    git(place.folder, "switch", "-q", "-")
    git(place.folder, "branch", "-q", "-D", "gone")
    assert f"`leftoff finish {run} --status abandoned`" in start(place).stderr


def test_one_line_says_what_continues(place: Place) -> None:
    """Which run, how old, how far; on stderr. What only git knows is one line more, however often it is edited."""
    run = first(place)
    done = start(place, stop=True)
    assert "" == done.stdout
    line, rest = done.stderr.split("\n", 1)
    assert line.startswith(f"leftoff: continuing {run}, last active ") and rest == "stopped\n"
    assert line.endswith(" ago, 2 of 3 steps done.") or line.endswith("just now, 2 of 3 steps done.")
    place.commit("more", other="x")
    place.file("new.py", "1\n")
    told = start(place).stderr.splitlines()
    assert 2 == len(told) and told[0].startswith(f"leftoff: continuing {run}, ")
    assert "(git.head_moved, git.dirty)" in told[1] and f"`leftoff verify {run}`" in told[1]


def test_a_run_of_two_weeks_ago_is_not_continued_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It raises, and says how old it is; accepted, or declared harmless by the project, it continues with a line."""
    clock = FakeClock()

    def opened() -> leftoff.Store:
        return leftoff.Store(str(tmp_path / ".leftoff"), str(tmp_path), clock)

    with opened() as store:
        first = store.run("report", steps=["a", "b", "c", "d", "e"])
        for step in "ab":
            first.do(step, lambda: 1)
    clock.advance(14 * DAY)
    assert "continuing" not in capsys.readouterr().err
    with opened() as store:
        before = store.list()[0].to_json()
        for drive in (lambda: store.run("report"), lambda: store.resume(first.id)):
            with pytest.raises(leftoff.CannotResume, match="14 days ago") as raised:
                drive()
            assert ["age.stale"] == [getattr(finding, "code", "") for finding in raised.value.findings]
        assert "accept=['age.stale']" in raised.value.hint and before == store.list()[0].to_json()
        (tmp_path / "leftoff.toml").write_text('[verify.levels]\n"age.stale" = "warn"\n')
        capsys.readouterr()
    with opened() as store:
        assert first.id == store.run("report").id
    told = capsys.readouterr().err.splitlines()
    assert f"leftoff: continuing {first.id}, last active 14 days ago, 2 of 5 steps done." == told[0]
    assert told[1].startswith("leftoff: The last activity was 14 days ago")


def test_what_a_killed_run_did_itself_is_a_warning(place: Place) -> None:
    """A file that was half written when the program was killed stands in nobody's way: the step does it again."""
    text = PROGRAM.replace("ACCEPT", "").replace("if STOP:", "if sys.argv[1:] == []:")
    text = text.replace('raise SystemExit("stopped")', "run.do('send', lambda: crash())")
    text += "\n"
    crash = "def crash():\n    import os, signal\n    open('out.txt', 'a').write('half')\n    os.kill(os.getpid(), 9)\n"
    place.file("config.txt", "port = 1\n")
    killed = program(crash + text, place.folder)
    assert -9 == killed.returncode
    done = start(place)
    assert (0, "sent\n") == (done.returncode, done.stdout), done.stderr
    line, warning = done.stderr.splitlines()
    assert "2 of 3 steps done" in line and warning.startswith(
        "leftoff: out.txt, an output of step make, has changed."
    )
