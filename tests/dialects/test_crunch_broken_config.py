"""crunch's configuration, unreadable: only what is sealed by it waits until it is corrected."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, succeed


def test_a_report_is_kept(project: Path) -> None:
    """A file of the protocol never costs somebody's report."""
    succeed("init", "--dialect", "crunch", cwd=project)
    succeed("start", "dev-story", "--title", "Story", "--issue", "7", cwd=project)
    (project / ".claude").mkdir(exist_ok=True)
    (project / ".claude/checkpoint-config.yaml").write_text("{broken\n")
    done = call("set", "d=4", cwd=project)
    assert 0 == done.code and "checkpoint-config.yaml" in done.err, str(done)
    assert "4\n" == call("get", "d", cwd=project).out
    assert 0 == call("beat", cwd=project).code
