"""`leftoff completion`: the scripts are loaded into real shells, and complete."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leftoff.cli.options import VERBS
from tests.cli.command import LEFTOFF, PATIENCE, call, environment, succeed

Complete = Callable[[str], set[str]]


def need(shell: str) -> str:
    """Without the shell its completion cannot be tried, and a test that was not made has not passed."""
    found = shutil.which(shell)
    if found is None:
        raise AssertionError(f"{shell} is not installed: `apt-get install {shell}`, then run the tests again")
    return found


def shell_environment() -> dict[str, str]:
    return environment(PATH=f"{LEFTOFF.parent}{os.pathsep}{os.environ['PATH']}", HOME=os.getcwd())


@pytest.fixture
def run_id(project: Path) -> str:
    """A run with steps, and files to name."""
    (project / "page.txt").write_text("x")
    (project / "pages").mkdir()
    return succeed("start", "release", "--steps", "collect,build", cwd=project).out.strip()


def in_bash(line: str) -> set[str]:
    """What bash offers at the end of a line, broken into words as it does."""
    words = [part for word in shlex.split(line) for part in re.split(r"(=)", word) if part]
    words += [""] if line.endswith((" ", "=")) else []
    script = f"""
source <({LEFTOFF} completion bash)
COMP_WORDS=({" ".join(map(shlex.quote, words))})
COMP_CWORD={len(words) - 1}
_leftoff
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        [need("bash"), "--norc", "-c", script], capture_output=True, text=True, env=shell_environment()
    )
    assert (0, "") == (done.returncode, done.stderr)
    return set(done.stdout.split())


def in_fish(line: str) -> set[str]:
    """What fish offers."""
    script = f"source (leftoff completion fish | psub); complete -C {shlex.quote(line)}"
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", script], capture_output=True, text=True, env=shell_environment()
    )
    assert (0, "") == (done.returncode, done.stderr)
    offers = {offer.partition("\t")[0] for offer in done.stdout.splitlines()}
    return {
        offer.rpartition("=")[2] if offer.startswith("--") and "=" in offer else offer for offer in offers
    }


ZSH = """
autoload -U compinit; compinit -u -D
source <(leftoff completion zsh)
zmodload zsh/zutil
compadd() {  # what would be offered, instead of offering it
    local -a taken; builtin compadd -O taken "$@"; print -rl -- $taken >> $OFFERS; builtin compadd "$@"
}
_offer() { _leftoff; compstate[insert]=; compstate[list]= }
compdef _leftoff leftoff
bindkey '^I' complete-word
PS1='> '
print -r READY
"""


def in_zsh(line: str) -> set[str]:
    """What zsh offers, on a terminal: it completes nowhere else."""
    import pty
    import time

    offers = Path("offers.txt")
    offers.write_text("")
    Path("setup.zsh").write_text(ZSH)
    pid, master = pty.fork()
    if pid == 0:
        os.execve(
            need("zsh"), ["zsh", "-f", "-i"], {**shell_environment(), "TERM": "dumb", "OFFERS": "offers.txt"}
        )
    try:
        os.write(master, b"source setup.zsh\n")
        seen = b""
        while b"\nREADY" not in seen:
            seen += os.read(master, 65536)
        os.write(master, line.encode() + b"\t\x01true #\n print -r DO''NE\n")
        end = time.monotonic() + PATIENCE
        while b"\nDONE" not in seen and time.monotonic() < end:
            seen += os.read(master, 65536)
    finally:
        os.close(master)
        os.waitpid(pid, 0)
    return {offer.strip() for offer in offers.read_text().splitlines()} - {""}


@pytest.fixture(params=["bash", "fish", "zsh"])
def complete(request: pytest.FixtureRequest) -> Iterator[Complete]:
    """Each shell in turn."""
    yield {"bash": in_bash, "fish": in_fish, "zsh": in_zsh}[request.param]


def test_verbs(complete: Complete, project: Path) -> None:
    """Every verb that starts so."""
    assert {name for name in VERBS if name.startswith("st")} <= complete("leftoff st")


def test_options(complete: Complete, project: Path) -> None:
    """Of the verb, and those of every verb."""
    offered = complete("leftoff ls --")
    assert {"--status", "--limit", "--json", "--project"} <= offered
    assert "--output" not in offered


def test_words_that_are_known(complete: Complete, project: Path) -> None:
    """What a step can be told, and statuses."""
    assert {"start", "done", "fail", "block", "skip"} <= complete("leftoff step ")
    assert {"running", "paused"} <= complete("leftoff ls --status ")


def test_what_the_store_knows(complete: Complete, run_id: str) -> None:
    """Runs where a run is meant, steps where a step is."""
    assert {run_id, "latest"} <= complete("leftoff show ")
    assert {"collect", "build"} <= complete("leftoff step done ")


def test_files(complete: Complete, run_id: str) -> None:
    """Where a file is meant."""
    assert any("page.txt" in offer for offer in complete("leftoff artifact pag"))


def test_more_in_bash(run_id: str) -> None:
    """Verbs behind an option and after `help`, collections, runs after an option, files as often as one may be."""
    assert {"show"} <= in_bash("leftoff --json sh")
    assert {"fsck"} <= in_bash("leftoff help fs")
    assert {"knowledge"} <= in_bash("leftoff put know")
    assert {run_id} <= in_bash("leftoff set --run ")
    assert any("page.txt" in offer for offer in in_bash("leftoff import other.leftoff pag"))


def test_equals_sign_in_bash(run_id: str) -> None:
    """bash breaks words at it; the value is completed all the same."""
    assert {"running"} == in_bash("leftoff ls --status=runn")
    assert {"paused", "running"} <= in_bash("leftoff ls --status=")


def test_nothing_is_offered_where_nothing_is(project: Path) -> None:
    """No store, no runs; and asking makes none."""
    for word in ("runs", "steps"):
        assert "" == succeed("completion", word, cwd=project).out
    assert [] == list(project.iterdir())


def test_odd_steps_are_left_out(project: Path) -> None:
    """A name that a shell would take for more than a word is never handed to it."""
    succeed("start", "x", cwd=project)
    for step in ("good", "$(touch owned)", "`touch owned`", "a b", "quo'te", "a/b-1"):
        succeed("step", "start", step, cwd=project)
    assert {"good", "a/b-1"} == in_bash("leftoff step done ")
    assert not (project / "owned").exists()


def test_wrong_shells(project: Path) -> None:
    """An unknown shell is wrong usage that names those there are."""
    result = call("completion", "tcsh", cwd=project)
    assert 2 == result.code and "bash, zsh or fish" in result.err
    assert 2 == call("completion", cwd=project).code
    assert "bash" == succeed("completion", "bash", "--json", cwd=project).json["shell"]
