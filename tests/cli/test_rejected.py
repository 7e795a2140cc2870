"""After a rejection: what the verbs advise leads somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed

FLOW = "name: f\nsteps:\n  - {id: sign, approval: Go?, on_failure: %s}\n  - {id: ship, run: echo shipped}\n"
AGAIN = "leftoff resume r --from-step sign"


def rejected(folder: Path, on_failure: str) -> str:
    """A run whose sign-off was rejected; what `reject` said."""
    (folder / "flow.yaml").write_text(FLOW % on_failure)
    assert 7 == call("run", "flow.yaml", "--run-id", "r", cwd=folder).code
    return succeed("reject", "r", cwd=folder).err


def test_the_advice_asks_again(tmp_path: Path) -> None:
    """`reject`, `verify`, `resume` and its end name the command that asks again, and nothing that does nothing."""
    assert f"leftoff: sign of r is rejected. `{AGAIN}` asks again.\n" == rejected(tmp_path, "stop")
    found = succeed("verify", "--json", cwd=tmp_path).json
    assert ("warn", ["step.rejected"]) == (found["verdict"], [each["code"] for each in found["findings"]])
    done = call("resume", "r", cwd=tmp_path)
    assert 1 == done.code and f"{AGAIN}  # asks again" in done.err, str(done)
    assert "continues from here" not in done.err and "logs r --failed" not in done.err
    assert 7 == call("resume", "r", "--from-step", "sign", cwd=tmp_path).code
    succeed("approve", "r", cwd=tmp_path)
    succeed("resume", "r", cwd=tmp_path)


def test_what_goes_without_it(tmp_path: Path) -> None:
    """Where the rest is done all the same, that is said first."""
    told = rejected(tmp_path, "continue")
    assert f"`leftoff resume r` continues without it; `{AGAIN}` asks again.\n" in told


@pytest.mark.parametrize("verb", ["archive", "rm"])
def test_a_run_that_is_not_named(verb: str, project: Path) -> None:
    """None fits, or one, which is not guessed: each has its sentence."""
    assert 3 == call(verb, cwd=project).code
    succeed("start", "w", "--run-id", "w", cwd=project)
    if verb == "archive":
        done = call(verb, cwd=project)
        assert 2 == done.code and "No run on branch main has ended." in done.err
        succeed("finish", "w", cwd=project)
    done = call(verb, cwd=project)
    says = {"archive": "has ended", "rm": "could be removed"}[verb]
    assert 2 == done.code and f"1 run on branch main {says}." in done.err
