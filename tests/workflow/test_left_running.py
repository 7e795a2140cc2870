"""A step that outlives its driver, and whoever goes back or gives up meanwhile."""

from __future__ import annotations

from leftoff.agents.mcp_tools import Tools
from leftoff.engine.find import resolve
from leftoff.engine.project import Project
from leftoff.operations.workflow_runs import give_up
from tests.workflow.driving import Flow, mark, wait

FLOW = f"""
name: doc
steps:
  - {{id: a, run: 'echo one > doc', outputs: [doc]}}
  - {{id: b, run: '{mark("b")}; {wait()}; echo more >> doc'}}
"""


def left(flow: Flow) -> None:
    """The driver is dead, step b is at work."""
    flow.write(FLOW)
    driver = flow.run()
    flow.started("b")
    driver.kill()


def test_a_rollback_ends_it_first_and_asks_before(flow: Flow) -> None:
    """Files are not put back under the hands of a step that writes on."""
    left(flow)
    said = flow.call("rollback", "r~0", "--files")
    assert (7, True) == (said.code, "b (process " in said.err), str(said)
    assert flow.processes()
    dry = flow.succeed("rollback", "r~0", "--files", "--dry-run")
    assert "They are ended first." in dry.err and flow.processes()
    flow.file("doc", "one\nhalf")
    flow.succeed("rollback", "r~0", "--files", "--yes")
    assert ["one"] == flow.lines("doc")
    flow.gone()


def test_without_files_too(flow: Flow) -> None:
    """A step that is to be done again must not be at work from before."""
    left(flow)
    assert 7 == flow.call("rollback", "r~0").code
    flow.succeed("rollback", "r~0", "--yes")
    flow.gone()


def test_nothing_is_ended_of_a_run_that_is_driven(flow: Flow) -> None:
    """A live driver is not robbed of its steps, whatever was agreed to."""
    flow.write(FLOW)
    driver = flow.run()
    flow.started("b")
    assert 5 == flow.call("rollback", "r~0", "--yes").code
    flow.file("gate")
    assert 0 == driver.end()
    assert ["one", "more"] == flow.lines("doc")


def test_giving_a_run_up_ends_it(flow: Flow) -> None:
    """Nobody will take in what it does."""
    left(flow)
    said = flow.succeed("finish", "--status", "abandoned", "--run", "r")
    assert "ended: b" in said.err
    flow.gone()


def test_giving_a_run_up_by_a_tool_ends_it(flow: Flow) -> None:
    """An agent that gives it up leaves nothing at work, either."""
    left(flow)
    Tools(str(flow.folder), None).finish_run("abandoned", run_id="r")
    flow.gone()


def test_whoever_gives_it_up_ends_it(flow: Flow) -> None:
    """There is one way to abandon a run, for those too who would rather begin anew than go on."""
    left(flow)
    project = Project(str(flow.folder))
    give_up(project, resolve(project.store, "r").row)
    project.close()
    flow.gone()
    assert "abandoned" == flow.show()["status"]
