"""What is decided is what was looked at: a run that an agent goes on with, a question, what retention lets go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.agents import agent_session as sessions
from leftoff.agents.mcp_tools import Tools
from leftoff.engine.find import Moved
from leftoff.engine.sessions import Who
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeaseHeld, LeftoffError
from leftoff.operations.page_actions import act, dry_run
from leftoff.operations.run_lifecycle import decide_step, hand_over_run
from leftoff.operations.run_reports import set_variables
from leftoff.operations.runs import target
from tests.cli.command import call, succeed
from tests.races.between import Seam, here, note, notes, taken_up
from tests.seams import SEAMS

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"
NOBODY = Caller()


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


def paused(folder: Path, *names: str) -> None:
    for name in names:
        succeed("start", name, "--run-id", name, "--steps", "a,b", cwd=folder)
        succeed("pause", "--run", name, cwd=folder)


# -- a session that goes on with what nobody works on


def resumed(folder: Path) -> sessions.SessionRun:
    with here(folder) as project:
        session = sessions.AgentSession(
            project, Who("s1", "claude", None), "main", driven=False, anywhere=False
        )
        return sessions.resume_session(session)


def judged(taken: sessions.SessionRun) -> tuple[str, int]:
    assert taken.run is not None and taken.report is not None
    assert taken.run.run_id == taken.report.world.row.run_id
    return taken.run.run_id, taken.report.world.row.seq


def test_somebody_takes_it_up(project: Path, seam: Seam) -> None:
    """The session gets another one then, and only once that was judged, too."""
    paused(project, "other", "latest")
    seam.after(SEAMS["session._verified"], lambda: taken_up(project, "latest"))
    assert "other" == judged(resumed(project))[0]


def test_somebody_reports_on_it(project: Path, seam: Seam) -> None:
    """What they reported is part of what is judged."""
    paused(project, "latest")
    seam.after(SEAMS["session._verified"], lambda: note(project, "latest"))
    assert ("latest", 3) == judged(resumed(project))
    assert ["in between"] == notes(project, "latest")


# -- start_run(resume: true)


def test_what_stands_in_the_way_since(project: Path, seam: Seam) -> None:
    """A model that starts with `resume` is told what came up after the verdict."""
    paused(project, "w")

    def set_it() -> None:
        with here(project) as other:
            set_variables(other, Caller(named="w"), {"key": SECRET})

    seam.after(SEAMS["resume.verify"], set_it)
    with pytest.raises(LeftoffError, match="key"):
        Tools(str(project), None).start_run("w", run_id="w", resume=True)
    assert "paused" == succeed("show", "w", "--json", cwd=project).json["status"]


def test_one_that_was_begun_since(project: Path, seam: Seam) -> None:
    """There was nothing to judge when it looked; now there is."""
    succeed("init", cwd=project)

    def begin() -> None:
        paused(project, "w")
        call("set", f"key={SECRET}", "--run", "w", cwd=project)

    seam.after(SEAMS["resume.unfinished"], begin)
    with pytest.raises(LeftoffError, match="key"):
        Tools(str(project), None).start_run("w", run_id="w", resume=True)


# -- a question


def ask(folder: Path, text: str) -> None:
    """Put a question, in the place of one that was there."""
    if call("show", "r", cwd=folder).code:
        succeed("start", "w", "--run-id", "r", cwd=folder)
        succeed("put", "step", "sign-off", '{"status":"waiting","kind":"approval"}', cwd=folder)
    asked = {"status": "waiting", "ask": text, "options": ["ship", "hold", "reject"]}
    succeed("put", "approval", "sign-off", json.dumps(asked), cwd=folder)


def test_another_question_than_the_page_showed(project: Path) -> None:
    """It is not decided by who saw the other one."""
    ask(project, "Delete the copy?")
    with here(project) as here_:
        plan = dry_run(here_, NOBODY, "approve", "r", {"step": "sign-off"}).plan
    ask(project, "Delete the original?")
    said = {"step": "sign-off", "choice": "ship", "plan": plan}
    with here(project) as here_, pytest.raises(Conflict, match="asks something else"):
        act(here_, NOBODY, "approve", "r", said)
    with here(project) as here_:
        plan = dry_run(here_, NOBODY, "approve", "r", {"step": "sign-off"}).plan
        assert "approved" in act(here_, NOBODY, "approve", "r", {**said, "plan": plan}).told


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("resume", {"answers": {"blocked.errors:a": "clear them"}}),
        ("resume", {"accept": ["blocked.errors"]}),
        ("unblock", {}),
        ("unblock", {"step": "a"}),
    ],
)
def test_another_error_than_the_page_showed(project: Path, action: str, said: dict[str, Any]) -> None:
    """What somebody says of one error is said of no other, told while their page was open."""
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("step", "block", "a", "--error", "no token", cwd=project)
    with here(project) as here_:
        plan = dry_run(here_, NOBODY, action, "r", {}).plan
    succeed("step", "block", "a", "--error", "no quota", cwd=project)
    with here(project) as here_, pytest.raises(Conflict):
        act(here_, NOBODY, action, "r", {**said, "plan": plan})
    assert "no quota" in succeed("show", "r", cwd=project).out
    with here(project) as here_:
        plan = dry_run(here_, NOBODY, action, "r", {}).plan
        act(here_, NOBODY, action, "r", {**said, "plan": plan})
    assert "running" == succeed("show", "r", "--json", cwd=project).json["status"]


def test_more_errors_than_the_page_showed(project: Path) -> None:
    """What was shown is resolved, and it is told that something else is not."""
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("step", "block", "a", "--error", "no token", cwd=project)
    with here(project) as here_:
        plan = dry_run(here_, NOBODY, "unblock", "r", {}).plan
    succeed("step", "block", "b", "--error", "no quota", cwd=project)
    with here(project) as here_:
        assert "Something else blocks" in act(here_, NOBODY, "unblock", "r", {"plan": plan}).told
        plan = dry_run(here_, NOBODY, "unblock", "r", {}).plan
        assert "What blocked it is resolved." == act(here_, NOBODY, "unblock", "r", {"plan": plan}).told


@pytest.mark.parametrize("plan", ["9" * 5000, "-1", "²", "x"])
def test_a_plan_that_the_page_never_showed(project: Path, plan: str) -> None:
    """It is another one, whatever it is."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("step", "block", "a", "--error", "no token", cwd=project)
    with here(project) as here_, pytest.raises(Conflict, match="not what was shown"):
        act(here_, NOBODY, "unblock", "r", {"plan": plan})


def test_another_question_while_somebody_picks(project: Path) -> None:
    """The same at a terminal, where a choice may be open for long."""
    ask(project, "Delete the copy?")

    def pick(*_: object) -> str:
        ask(project, "Delete the original?")
        return "ship"

    caller = Caller()
    caller.pick = pick
    with here(project) as here_, pytest.raises(Conflict, match="asks something else"):
        decide_step(here_, caller, ("r", "sign-off"))


def test_another_question_while_somebody_picks_the_step(project: Path) -> None:
    """Of several questions one is picked by what it asks: that is the one which is decided."""
    ask(project, "Delete the copy?")
    for name, kind in (("other", "step"), ("other", "approval")):
        asked = {"status": "waiting", "kind": "approval", "ask": "Publish?", "options": ["approve", "reject"]}
        succeed("put", kind, name, json.dumps(asked), "--run", "r", cwd=project)

    def pick(*_: object) -> str:
        succeed("put", "approval", "other", '{"status":"waiting","ask":"Delete it?"}', cwd=project)
        return "other"

    caller = Caller()
    caller.pick = pick
    with here(project) as here_, pytest.raises(Conflict, match="asks something else"):
        decide_step(here_, caller, ("r",))


def test_who_decided_is_in_the_same_commit(project: Path) -> None:
    """The version that has the decision also has the record of who took it."""
    ask(project, "Ship it?")
    with here(project) as here_:
        act(here_, NOBODY, "approve", "r", {"step": "sign-off", "choice": "ship"})
    decided = succeed("log", "r", "--json", cwd=project).json["checkpoints"][0]
    assert "approval" == decided["trigger"]
    (record,) = (
        succeed("show", f"r@{decided['seq']}", "--json", cwd=project).json["records"]["audit"].values()
    )
    assert ("approve", {"step": "sign-off", "choice": "ship"}) == (record["action"], record["said"])


# -- a run that is handed over


@pytest.mark.parametrize(("meanwhile", "refused"), [(note, Moved), (taken_up, LeaseHeld)])
def test_a_run_that_goes_on_while_it_is_handed_over(
    project: Path, meanwhile: Callable[[Path, str], None], refused: type[Conflict]
) -> None:
    """The other agent would be told of another state, or would take the run from whoever drives it."""
    paused(project, "w")
    with here(project) as ours:
        row = target(ours, NOBODY, "w").row
        meanwhile(project, "w")
        with pytest.raises(refused):
            hand_over_run(ours, NOBODY, row, "codex", None)
    assert "agent" not in succeed("show", "w", "--json", cwd=project).json["records"]["run"]
