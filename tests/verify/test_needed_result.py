"""A result that was redacted, and that a later step may need."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, spawn, succeed

FLOW = """
name: needed
steps:
  - {id: make, python: "tool:make"}
  - {id: use, run: "test -e go && test {{ results.make.api_key }} = sk_live_abcdefghijklmnop1234"}
"""


def test_a_needed_result_that_was_not_stored(tmp_path: Path) -> None:
    """It is asked for before anything runs; doing its step again gives it, and is no question then."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "tool.py").write_text("def make():\n    return {'api_key': 'sk_live_abcdefghijklmnop1234'}\n")
    assert 1 == call("run", "flow.yaml", cwd=tmp_path).code
    found = call("verify", "@", "--json", cwd=tmp_path)
    assert (7, [("variables.redacted", "make")]) == (
        found.code,
        [(finding["code"], finding["subject"]) for finding in found.json["findings"]],
    )
    assert 7 == call("resume", "--yes", cwd=tmp_path).code
    (tmp_path / "go").touch()
    succeed("resume", "--from-step", "make", "--yes", cwd=tmp_path)


def test_a_redacted_result_is_a_warning(tmp_path: Path) -> None:
    """The command reports it when it is recorded; `verify` and the plan name step and field, until it runs again."""
    succeed("start", "w", "--steps", "login,next", cwd=tmp_path)
    done = spawn(
        "step", "done", "login", "--result", '{"user": {"token": "a8f3k2l9x0"}}', "--json", cwd=tmp_path
    )
    assert 0 == done.code and {"run_id", "seq"} == done.json.keys()
    (line,) = done.err.splitlines()
    assert "step login is stored without" in line and "user.token" in line
    assert '[redaction] allow = ["token"]' in line
    for words in (("verify",), ("resume", "--dry-run")):
        found = succeed(*words, "--json", cwd=tmp_path).json
        (finding,) = found["findings"]
        assert ("warn", "warn", "result.redacted", "login") == (
            found["verdict"],
            *(finding[key] for key in ("level", "code", "subject")),
        )
        assert "step login" in finding["message"] and "user.token" in finding["message"]
    (tmp_path / "leftoff.toml").write_text('[redaction]\nallow = ["token"]\n')
    again = spawn("step", "done", "next", "--result", '{"token": "a8f3k2l9x0"}', cwd=tmp_path)
    assert (0, "") == (again.code, again.err)
    assert "a8f3k2l9x0" == succeed("get", "step/next", "--json", cwd=tmp_path).json["result"]["token"]
    assert ["login"] == [f["subject"] for f in succeed("verify", "--json", cwd=tmp_path).json["findings"]]


def test_the_runner_reports_a_redacted_result(tmp_path: Path) -> None:
    """One line for a step of a workflow file, and for all items of one."""
    (tmp_path / "tool.py").write_text("def make(item=0):\n    return {'cookie': 'sid=abc123'}\n")
    (tmp_path / "flow.yaml").write_text(
        "name: w\nsteps:\n  - {id: make, python: 'tool:make'}\n"
        "  - {id: each, foreach: [1, 2, 3], python: 'tool:make'}\n"
    )
    done = spawn("run", "flow.yaml", cwd=tmp_path)
    lines = [line for line in done.err.splitlines() if "is stored without" in line]
    assert (0, 2) == (done.code, len(lines)), done.err
    assert "step make is" in lines[0] and "step each" in lines[1]
