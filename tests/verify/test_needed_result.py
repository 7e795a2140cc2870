"""A result that was redacted, and that a later step needs."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, succeed

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
