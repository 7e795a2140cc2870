"""A damaged file of an attempt says nothing: it is as if nobody knew how the step ended, never that it ended well."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from leftoff.workflow.attempt_folder import AttemptFolder, Exit
from tests.workflow.driving import Flow, mark, until, wait

FLOW = f"""
name: one
steps:
  - id: a
    run: "{mark("a")}; {wait()}; echo n=41 >> $LEFTOFF_VARS; exit CODE"
    checks: ["true"]
    idempotent: IDEMPOTENT
  - id: b
    run: "{mark("b")}; echo {{{{ n }}}} > n.txt"
"""


def ended_alone(flow: Flow, *, code: int = 0, idempotent: bool = True, text: str = FLOW) -> Path:
    """The folder of a step that ended after its driver was killed."""
    flow.write(text.replace("CODE", str(code)).replace("IDEMPOTENT", str(idempotent).lower()))
    driver = flow.run("--var", "n=0")
    driver.until("step_start", step="a")
    flow.started("a")
    driver.kill()
    before = flow.processes()
    flow.file("gate")
    flow.gone(before)
    folder = flow.attempt("a")
    until(lambda: (folder / "exit").read_bytes(), "the exit of a")
    return folder


def plan(flow: Flow) -> tuple[str, str]:
    """What would be done about step a, and why."""
    found = flow.call("verify", "r", "--json").json["plan"]
    return next((entry["action"], entry["why"]) for entry in found if entry["step"] == "a")


def flipped(data: bytes, bit: int) -> bytes:
    at, which = divmod(bit, 8)
    return data[:at] + bytes([data[at] ^ 1 << which]) + data[at + 1 :]


def check_flips(flow: Flow, total: int) -> int:
    """Flip one bit at a time in what a step left that ended well; how many flips were tried."""
    folder = ended_alone(flow)
    assert "adopt" == plan(flow)[0]
    files = {name: (folder / name).read_bytes() for name in ("exit", "vars")}
    rng = random.Random(13)
    for number in range(total):
        name = ("exit", "vars")[number % 2]
        bit = rng.randrange(8 * len(files[name]))
        (folder / name).write_bytes(flipped(files[name], bit))
        action, why = plan(flow)
        assert ("run", True) == (action, "its end is unknown" in why), f"bit {bit} of {name}"
        (folder / name).write_bytes(files[name])
    assert "adopt" == plan(flow)[0]
    flow.resume().end(0)
    assert ["41"] == flow.lines("n.txt")
    return total


def test_flipped_bits(flow: Flow) -> None:
    """One flipped bit in the exit or in the variables: nobody knows how the step ended."""
    assert 6 == check_flips(flow, 6)


@pytest.mark.crash_full
def test_many_flipped_bits(flow: Flow) -> None:
    """The same three hundred times."""
    assert 300 == check_flips(flow, 300)


def test_no_flip_makes_another_exit() -> None:
    """Whatever bit of an exit is flipped, it says what it said or nothing."""
    exit = Exit(3, None, False, 123, "é\n", False, {"vars": "ab" * 32})
    line = exit.line("token")
    assert exit == Exit.read(line, "token")
    assert {None} == {Exit.read(flipped(line, bit), "token") for bit in range(8 * len(line))}


@pytest.mark.parametrize("name", ["vars", "result", "items"])
def test_what_was_left_is_vouched_for(tmp_path: Path, name: str) -> None:
    """A file that is gone, that came later or that has other content is told by its name."""
    (tmp_path / name).write_text("as it was")
    folder = AttemptFolder(str(tmp_path))
    exit = Exit(0, left=folder.hashes())
    assert folder.damaged(exit) is None
    (tmp_path / name).write_text("as it waz")
    assert name == folder.damaged(exit)
    (tmp_path / name).unlink()
    assert name == folder.damaged(exit)
    assert name == folder.damaged(Exit(0, left={name: "00"}))
    (tmp_path / name).write_text("new")
    assert name == folder.damaged(Exit(0, left={}))


@pytest.mark.parametrize("name", ["exit", "vars"])
def test_a_step_that_must_not_run_twice_is_asked_about(flow: Flow, name: str) -> None:
    """A step whose files are damaged is not adopted; where it is not idempotent, a person decides."""
    folder = ended_alone(flow, idempotent=False)
    path = folder / name
    path.write_bytes(flipped(path.read_bytes(), 77 if name == "exit" else 17))
    found = flow.call("verify", "r", "--json")
    assert 7 == found.code
    assert ["step.not_idempotent"] == [f["code"] for f in found.json["findings"] if f["level"] == "ask"]
    assert 7 == flow.call("resume", "r", "--yes").code
    assert 1 == len(flow.starts("a"))


@pytest.mark.parametrize("gone", ["exit", "folder"])
def test_a_lost_exit_is_no_step_that_never_began(flow: Flow, gone: str) -> None:
    """Where the mark that a command ran is lost, what it left tells that it did; of a folder that is gone nobody can
    tell. It is not run a second time without a question."""
    folder = ended_alone(flow, idempotent=False)
    if gone == "exit":
        (folder / "exit").unlink()
    else:
        shutil.rmtree(folder)
    assert ("ask", True) == (plan(flow)[0], "its end is unknown" in plan(flow)[1])
    assert 7 == flow.call("resume", "r", "--yes").code
    assert 1 == len(flow.starts("a"))


def test_whose_exit_it_is() -> None:
    """An exit names its attempt."""
    line = Exit(0, at=1, left={}).line("ours")
    assert (Exit(0, at=1, left={}), None) == (Exit.read(line, "ours"), Exit.read(line, "theirs"))


@pytest.mark.parametrize("left", ["vars", "exit"])
def test_outputs_and_checks_prove_no_variables(flow: Flow, left: str) -> None:
    """They tell that a step is done; what else it left for the run nobody vouches for without its exit."""
    folder = ended_alone(flow, text=FLOW.replace("    checks", "    outputs: [starts.a]\n    checks"))
    if left == "vars":
        (folder / "exit").unlink()
    else:
        (folder / "vars").unlink()
        (folder / "exit").write_bytes(flipped((folder / "exit").read_bytes(), 77))
    assert ("run", True) == (plan(flow)[0], "its end is unknown" in plan(flow)[1])
    flow.resume().end(0)
    assert (2, ["41"]) == (len(flow.starts("a")), flow.lines("n.txt"))


def test_damage_runs_the_step_again(flow: Flow) -> None:
    """With a wrong byte in its variables the step is done again, and its variables are those it set then."""
    folder = ended_alone(flow)
    (folder / "vars").write_text("n=91\n")
    flow.resume().end(0)
    assert (2, ["41"]) == (len(flow.starts("a")), flow.lines("n.txt"))
