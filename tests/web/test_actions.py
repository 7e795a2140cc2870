"""What is decided on the page is what the shell would do, refused by the same rules, and written down with a name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.routing import Route

from leftoff.host import user
from tests.cli.command import call, succeed
from tests.cli.people import story
from tests.cli.runs import release, started
from tests.web.client import Client, serving

WAITS = 7
FLOW = """name: flow
steps:
  - {id: make, run: echo made > made.txt, outputs: [made.txt]}
  - {id: sign-off, needs: [make], approval: {ask: Is it good, options: [approve, later]}}
  - {id: end, needs: [sign-off], run: cp made.txt end.txt}
"""


@pytest.fixture
def page(tmp_path: Path, trusted: None) -> Iterator[Client]:
    with serving(tmp_path) as client:
        yield client


def waits(cwd: Path) -> None:
    """A run of a workflow that waits for a person."""
    (cwd / "flow.yaml").write_text(FLOW)
    assert WAITS == call("run", "flow.yaml", "--run-id", "r", cwd=cwd).code


def do(page: Client, cwd: Path, run: str, action: str, **fields: Any) -> str:
    """An action on the page: looked at, then done; what is said on the page that follows."""
    path = f"/p/{cwd.name}/runs/{run}/do/{action}"
    asked = page.get(path + "?" + "&".join(f"{name}={value}" for name, value in fields.items()))
    assert 200 == asked.status, asked
    plan = asked.text.partition('name="plan" value="')[2].partition('"')[0]
    answer = page.post(path, {**fields, **({"plan": plan} if plan else {})})
    assert 303 == answer.status, answer
    return page.get(answer.headers["location"]).text


def shown(cwd: Path, run: str) -> Any:
    return succeed("show", run, "--json", cwd=cwd).json


def audit(cwd: Path, run: str) -> list[tuple[str, str, str]]:
    found = shown(cwd, run)["records"].get("audit", {})
    return [(found[key]["action"], found[key]["by"], found[key]["via"]) for key in sorted(found)]


def until_ended(page: Client, cwd: Path, run: str) -> str:
    """Wait for whoever drives it; its status."""
    while (about := page.api("GET", f"/api/projects/{cwd.name}/runs/{run}").json)["health"] == "alive":
        time.sleep(0.02)
    return str(about["status"])


def test_approve(page: Client, tmp_path: Path) -> None:
    """A person decides, and the workflow continues in the background, to its end, without another click."""
    waits(tmp_path)
    asked = page.get(f"/p/{tmp_path.name}/runs/r/do/approve?step=sign-off").text
    assert "Is it good" in asked and all(f'value="{option}"' in asked for option in ("approve", "later"))
    assert "choice=later" in page.get(f"/p/{tmp_path.name}/runs/r").text  # a button for each option
    said = do(page, tmp_path, "r", "approve", step="sign-off", choice="approve", note="fine")
    assert "sign-off is approved. The run continues." in said
    assert "completed" == until_ended(page, tmp_path, "r")
    assert (tmp_path / "end.txt").exists()
    assert [("approve", user(), "page")] == audit(tmp_path, "r")
    decided = shown(tmp_path, "r")["records"]["approval"]["sign-off"]
    assert ("approve", "fine", user()) == (decided["choice"], decided["note"], decided["by"])
    again = page.post(f"/p/{tmp_path.name}/runs/r/do/approve", {"step": "sign-off", "choice": "approve"})
    assert "sign-off is already approved." in page.get(again.headers["location"]).text


def test_approved_through_the_interface_for_programs(page: Client, tmp_path: Path) -> None:
    """It decides as the command does: another call resumes the run."""
    waits(tmp_path)
    path = f"/api/projects/{tmp_path.name}/runs/r"
    assert 200 == page.api("POST", f"{path}/approve", {"step": "sign-off", "choice": "approve"}).status
    assert "paused" == shown(tmp_path, "r")["status"]
    assert 200 == page.api("POST", f"{path}/resume", {}).status
    assert "completed" == until_ended(page, tmp_path, "r")
    assert [("approve", user(), "api"), ("resume", user(), "api")] == audit(tmp_path, "r")


def test_a_rejection_that_the_workflow_survives(page: Client, tmp_path: Path) -> None:
    """With `on_failure: continue` the run continues without the step, and is failed in the end."""
    (tmp_path / "flow.yaml").write_text(
        FLOW.replace("needs: [make], approval", "on_failure: continue, approval")
    )
    assert WAITS == call("run", "flow.yaml", "--run-id", "r", cwd=tmp_path).code
    said = do(page, tmp_path, "r", "reject", step="sign-off")
    assert "sign-off is rejected. The run continues without it." in said
    assert "failed" == until_ended(page, tmp_path, "r") and (tmp_path / "end.txt").exists()


def test_approved_and_something_else_needs_a_person(page: Client, tmp_path: Path) -> None:
    """The run does not continue past a finding: the page says why and offers Resume."""
    waits(tmp_path)
    (tmp_path / "made.txt").write_text("other")
    said = do(page, tmp_path, "r", "approve", step="sign-off", choice="approve")
    assert "sign-off is approved. The run does not continue yet. A person must decide: made.txt" in said
    assert f"/p/{tmp_path.name}/runs/r/do/resume" in said
    assert "paused" == shown(tmp_path, "r")["status"] and not (tmp_path / "end.txt").exists()
    do(page, tmp_path, "r", "resume", **{"answers.outputs.changed:make": "run the step again"})
    assert "completed" == until_ended(page, tmp_path, "r")


def test_two_approvals(page: Client, tmp_path: Path) -> None:
    """The run continues once the last one is decided; the page names the other one meanwhile."""
    (tmp_path / "flow.yaml").write_text(
        "name: flow\nsteps:\n  - {id: a, approval: A?}\n  - {id: b, needs: [], approval: B?}\n"
        "  - {id: end, needs: [a, b], run: touch end.txt}\n"
    )
    assert WAITS == call("run", "flow.yaml", "--run-id", "r", cwd=tmp_path).code
    assert "Step b is waiting for a decision." in do(page, tmp_path, "r", "approve", step="a")
    assert "paused" == shown(tmp_path, "r")["status"]
    assert "b is approved. The run continues." in do(page, tmp_path, "r", "approve", step="b")
    assert "completed" == until_ended(page, tmp_path, "r") and (tmp_path / "end.txt").exists()


def test_approved_while_a_driver_lives(page: Client, tmp_path: Path) -> None:
    """That driver continues with it; no other process is started."""
    (tmp_path / "flow.yaml").write_text(
        "name: flow\nsteps:\n  - {id: a, approval: A?}\n  - {id: end, run: touch end.txt}\n"
        "  - {id: long, needs: [], run: 'until test -e end.txt; do sleep 0.05; done'}\n"
    )
    succeed("run", "flow.yaml", "--run-id", "r", "--detach", cwd=tmp_path)
    while "waiting" != _status(page, tmp_path, "a"):
        time.sleep(0.02)
    said = do(page, tmp_path, "r", "approve", step="a")
    assert "a is approved. The process that drives the run continues with it." in said
    assert "completed" == until_ended(page, tmp_path, "r")


def test_approved_and_no_process_can_be_started(
    page: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision holds, and the page says that the run does not continue."""
    waits(tmp_path)
    (tmp_path / "no-python").write_text("#!/bin/sh\necho no more memory; exit 9\n")
    (tmp_path / "no-python").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    said = do(page, tmp_path, "r", "approve", step="sign-off", choice="approve")
    monkeypatch.undo()
    assert "sign-off is approved. The run does not continue yet." in said and "no more memory" in said
    assert "approved" == shown(tmp_path, "r")["records"]["approval"]["sign-off"]["status"]
    do(page, tmp_path, "r", "resume")
    assert "completed" == until_ended(page, tmp_path, "r")


def test_approved_in_a_run_that_nobody_drives(page: Client, tmp_path: Path) -> None:
    """A person or an agent continues it: the page says so, and starts nothing."""
    run = story(tmp_path)
    said = do(page, tmp_path, run, "approve", step="sign-off", choice="approve")
    assert "The person or agent who works on the run continues it." in said
    assert "paused" == shown(tmp_path, run)["status"]


def test_a_decision_is_not_made_twice(page: Client, tmp_path: Path) -> None:
    """Refused as in the shell, and nothing is written down."""
    waits(tmp_path)
    do(page, tmp_path, "r", "reject", step="sign-off")
    before = shown(tmp_path, "r")["head"]
    answer = page.post(f"/p/{tmp_path.name}/runs/r/do/approve", {"step": "sign-off", "choice": "approve"})
    refused = call("approve", "r", "sign-off", "--choice", "approve", cwd=tmp_path)
    assert 409 == answer.status and 5 == refused.code
    assert refused.err.splitlines()[0].removeprefix("leftoff: ")[:40] in answer.text
    assert before == shown(tmp_path, "r")["head"] and ["reject"] == [each[0] for each in audit(tmp_path, "r")]


def test_what_was_rejected_is_asked_again(page: Client, tmp_path: Path) -> None:
    """The page names its own buttons, as the shell names its commands; and has them."""
    waits(tmp_path)
    said = do(page, tmp_path, "r", "reject", step="sign-off")
    assert "sign-off is rejected. “Ask again” asks again." in said and "`leftoff" not in said
    again = f"/p/{tmp_path.name}/runs/r/do/resume?from_step=sign-off"
    assert again in said
    do(page, tmp_path, "r", "resume", from_step="sign-off")
    while "waiting" != _status(page, tmp_path, "sign-off"):
        time.sleep(0.02)
    until_ended(page, tmp_path, "r")
    said = do(page, tmp_path, "r", "approve", step="sign-off", choice="approve")
    assert "sign-off is approved. The run continues." in said and again not in said
    assert "completed" == until_ended(page, tmp_path, "r")


def _status(page: Client, cwd: Path, step: str) -> str:
    found = page.api("GET", f"/api/projects/{cwd.name}/runs/r/show").json["step_records"]
    return next(str(one["status"]) for one in found if one["step"] == step)


def test_an_answer_to_a_finding(page: Client, tmp_path: Path) -> None:
    """What a verdict asks is answered finding by finding, with the choices that a terminal would offer."""
    waits(tmp_path)
    succeed("approve", "r", "sign-off", "--choice", "approve", cwd=tmp_path)
    (tmp_path / "made.txt").write_text("other")
    path = f"/api/projects/{tmp_path.name}/runs/r"
    asked = page.api("GET", f"{path}/ahead/resume").json["findings"]
    assert ["outputs.changed"] == [finding["code"] for finding in asked]
    refused = page.api("POST", f"{path}/resume", {})
    assert 409 == refused.status and "needs_person" == refused.json["error"]["code"]
    field = "answers.outputs.changed:make"
    assert f'name="{field}"' in page.get(f"/p/{tmp_path.name}/runs/r/do/resume").text
    do(page, tmp_path, "r", "resume", **{field: "run the step again"})
    assert "completed" == until_ended(page, tmp_path, "r")
    assert "made\n" == (tmp_path / "end.txt").read_text()


def test_what_a_run_from_elsewhere_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown, and not folded away; who agrees has that run, and no file that came since."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    waits(tmp_path / "theirs")
    succeed("export", "r", "-o", str(tmp_path / "bundle"), cwd=tmp_path / "theirs")
    ours = tmp_path / "ours"
    (ours / "made.txt").write_text("made\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    succeed("import", str(tmp_path / "bundle"), cwd=ours)
    succeed("approve", "r", "sign-off", "--choice", "approve", cwd=ours)
    with serving(ours) as page:
        asked = page.get(f"/p/{ours.name}/runs/r/do/resume").text
        assert "<details open><summary>What it would run" in asked and "cp made.txt end.txt" in asked
        plan = asked.partition('name="plan" value="')[2].partition('"')[0]
        agreed = {"accept": "definition.untrusted", "plan": plan}
        (ours / "flow.yaml").write_text(FLOW.replace("end.txt", "other.txt"))
        assert 409 == page.post(f"/p/{ours.name}/runs/r/do/resume", agreed).status
        (ours / "flow.yaml").unlink()
        assert 303 == page.post(f"/p/{ours.name}/runs/r/do/resume", agreed).status
        assert "completed" == until_ended(page, ours, "r")
    assert (True, False) == ((ours / "end.txt").exists(), (ours / "other.txt").exists())


def test_resume_what_is_reported_on(page: Client, tmp_path: Path) -> None:
    """A run that nobody executes is running again."""
    run = release(tmp_path)
    succeed("pause", cwd=tmp_path)
    do(page, tmp_path, run, "resume")
    assert "running" == shown(tmp_path, run)["status"]


def test_unblock(page: Client, tmp_path: Path) -> None:
    """What blocked a run is resolved."""
    run = started(tmp_path)
    succeed("step", "block", "a", "--error", "no key", cwd=tmp_path)
    do(page, tmp_path, run, "unblock")
    assert "blocked" != shown(tmp_path, run)["status"] and ["unblock"] == [
        each[0] for each in audit(tmp_path, run)
    ]


def test_stop(page: Client, tmp_path: Path) -> None:
    """A run that was started from the page is stopped from it."""
    (tmp_path / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: sleep 1000}\n")
    succeed("run", "flow.yaml", "--run-id", "r", "--detach", cwd=tmp_path)
    do(page, tmp_path, "r", "stop")
    assert "paused" == shown(tmp_path, "r")["status"]
    answer = page.post(f"/p/{tmp_path.name}/runs/nothing/do/stop")
    assert 404 == answer.status


def test_roll_back_with_files(page: Client, tmp_path: Path) -> None:
    """The plan is shown first; where it is another by then, nothing is done and it is said."""
    run, path = started(tmp_path), f"/p/{tmp_path.name}"
    (tmp_path / "a.txt").write_text("old")
    succeed("track", "a.txt", cwd=tmp_path)
    first = succeed("save", "--json", cwd=tmp_path).json["seq"]
    (tmp_path / "a.txt").write_text("new")
    succeed("track", "a.txt", cwd=tmp_path)
    succeed("save", cwd=tmp_path)
    to = f"{path}/runs/{run}/do/rollback"
    asked = page.get(f"{to}?to={run}@{first}&files=1").text
    assert "restore a.txt" in asked
    plan = asked.partition('name="plan" value="')[2].partition('"')[0]
    form = {"to": f"{run}@{first}", "files": "1", "plan": plan}
    (tmp_path / "a.txt").write_text("somebody else was here")
    assert 409 == page.post(to, form).status and "somebody" in (tmp_path / "a.txt").read_text()
    assert 409 == page.post(to, {**form, "plan": ""}).status
    do(page, tmp_path, run, "rollback", to=f"{run}@{first}", files="1")
    assert "old" == (tmp_path / "a.txt").read_text()
    assert ["rollback"] == [each[0] for each in audit(tmp_path, run)]


def test_roll_back_to_where_it_is(page: Client, tmp_path: Path) -> None:
    """Changes nothing, the history of what was done included; and says so."""
    run = started(tmp_path)
    before = shown(tmp_path, run)
    said = do(page, tmp_path, run, "rollback", to=f"{run}@{before['head']['seq']}")
    assert "nothing was changed" in said and before == shown(tmp_path, run)


def test_fork_and_archive(page: Client, tmp_path: Path) -> None:
    """A fork is another run, whose name the page shows; an archived one is still opened by its name."""
    run = started(tmp_path)
    succeed("finish", cwd=tmp_path)
    do(page, tmp_path, run, "fork", run_id="fork-of-it", branch="side")
    assert ("paused", "side") == (
        shown(tmp_path, "fork-of-it")["status"],
        shown(tmp_path, "fork-of-it")["branch"],
    )
    assert [] == audit(tmp_path, run) and ["fork"] == [each[0] for each in audit(tmp_path, "fork-of-it")]
    do(page, tmp_path, run, "archive")
    assert shown(tmp_path, run)["archived"]
    assert ["archive"] == [each[0] for each in audit(tmp_path, run)]
    assert 409 == page.post(f"/p/{tmp_path.name}/runs/fork-of-it/do/archive").status


def test_without_the_second_token(page: Client, tmp_path: Path) -> None:
    """A form that is not ours changes nothing, whoever's cookie it carries."""
    run = started(tmp_path)
    path = f"/p/{tmp_path.name}/runs/{run}/do/fork"
    for wrong in ("", "0" * 64, page.csrf[:-1]):
        assert 403 == page.post(path, {"csrf": wrong}).status
    headers = [("cookie", page.cookie), ("content-type", "application/json")]
    assert 403 == page.ask("POST", f"/api/projects/{tmp_path.name}/runs/{run}/fork", headers, b"{}").status
    headers.append(("x-leftoff-csrf", page.csrf))
    assert 200 == page.ask("POST", f"/api/projects/{tmp_path.name}/runs/{run}/fork", headers, b"{}").status
    other = page.post(path, {}, content_type="multipart/form-data; boundary=x")
    assert 400 == other.status
    assert 2 == len(succeed("ls", "--json", cwd=tmp_path).json["runs"])


def test_read_only(tmp_path: Path) -> None:
    """There is no address that would change anything."""
    run = release(tmp_path)
    with serving(tmp_path, read_only=True) as page:
        taken = [
            (getattr(route, "path", ""), route.methods)
            for route in cast(list[Route], page.app.routes)
            if "POST" in (getattr(route, "methods", None) or ())
        ]
        assert [] == taken
        for action in ("stop", "fork", "rollback"):
            assert 404 == page.get(f"/p/{tmp_path.name}/runs/{run}/do/{action}").status
            assert page.post(f"/p/{tmp_path.name}/runs/{run}/do/{action}", {"csrf": "x"}).status in (404, 405)
            assert page.api("POST", f"/api/projects/{tmp_path.name}/runs/{run}/{action}", {}).status in (
                404,
                405,
            )


def test_prune_and_check(page: Client, tmp_path: Path) -> None:
    """What retention would let go, and a check of the store."""
    release(tmp_path)
    succeed("finish", cwd=tmp_path)
    (tmp_path / "leftoff.toml").write_text('[retention]\ncompleted = "0d"\n')
    assert "<code>leftoff prune</code>" in page.get(f"/p/{tmp_path.name}/store?preview=1").text
    assert 1 == len(page.api("POST", f"/api/projects/{tmp_path.name}/prune", {}).json["removed"])
    begun = page.post(f"/p/{tmp_path.name}/do/check")
    assert 303 == begun.status and "The check has begun." in page.get(begun.headers["location"]).text
    while (found := page.api("GET", f"/api/projects/{tmp_path.name}/fsck").json)["running"]:
        pass
    assert found["report"]["ok"]
    assert found["report"] == succeed("fsck", "--json", cwd=tmp_path).json


def test_a_driver_is_not_pushed_aside(page: Client, tmp_path: Path) -> None:
    """A run that somebody drives is not resumed again, nor rolled back."""
    (tmp_path / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: sleep 1000}\n")
    succeed("run", "flow.yaml", "--run-id", "r", "--detach", cwd=tmp_path)
    path = f"/api/projects/{tmp_path.name}/runs/r"
    try:
        assert 409 == page.api("POST", f"{path}/resume", {}).status
        assert 409 == page.api("POST", f"{path}/rollback", {"to": "r@1", "yes": True}).status
        assert [] == page.api("GET", f"{path}/audit").json["audit"]
    finally:
        succeed("stop", "r", cwd=tmp_path)


def test_what_is_no_action(page: Client, tmp_path: Path) -> None:
    """A wrong name, a wrong field, a wrong kind: each is told, and changes nothing."""
    run = started(tmp_path)
    path = f"/api/projects/{tmp_path.name}/runs/{run}"
    assert 404 == page.api("POST", f"{path}/explode", {}).status
    assert 404 == page.get(f"/p/{tmp_path.name}/runs/{run}/do/explode").status
    assert 400 == page.api("POST", f"{path}/fork", {"nothing": 1}).status
    assert 400 == page.api("POST", f"{path}/fork", {"branch": ["x"]}).status
    assert 400 == page.api("POST", f"{path}/resume", {"accept": "everything"}).status
    assert 1 == len(succeed("ls", "--json", cwd=tmp_path).json["runs"])


def test_what_one_answer_is_for_is_asked_once(page: Client, tmp_path: Path) -> None:
    """Two outputs of one step that are gone are one question; it is answered for both, and must be."""
    made = "{id: make, run: 'echo a > a.txt; echo b > b.txt', outputs: [a.txt, b.txt]}"
    (tmp_path / "flow.yaml").write_text(FLOW.replace(FLOW.splitlines()[2].strip()[2:], made))
    assert WAITS == call("run", "flow.yaml", "--run-id", "r", cwd=tmp_path).code
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).unlink()
    path = f"/p/{tmp_path.name}/runs/r/do/resume"
    asked = page.get(path).text
    again = 'name="answers.outputs.missing:make" value="bring the copy back" required'
    assert (1, 1, 1) == tuple(asked.count(text) for text in (again, 'say">a.txt, an', 'say">b.txt, an'))
    refused = page.post(path)
    assert 409 == refused.status and f'href="{path}"' in refused.text
    assert 303 == page.post(path, {"answers.outputs.missing:make": "bring the copy back"}).status
    until_ended(page, tmp_path, "r")
    assert (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()


def test_an_action_is_about_the_run_that_it_is_asked_of(page: Client, tmp_path: Path) -> None:
    """A version of another run is refused, whether it is looked at or done."""
    for run in ("mine", "other"):
        started(tmp_path, "release", "--run-id", run)
    for action, field in (("rollback", "to"), ("fork", "at")):
        path = f"/api/projects/{tmp_path.name}/runs/mine"
        assert 400 == page.api("GET", f"{path}/ahead/{action}?{field}=other@1").status
        refused = page.api("POST", f"{path}/{action}", {field: "other@1"})
        assert "other@1 is not a version of run mine." == refused.json["error"]["message"]


def test_a_check_that_fails_inside_is_over(
    page: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever went wrong is said, and another one can begin."""
    started(tmp_path, "r")

    def breaks(*args: object, **named: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("leftoff.web.background.check_store", breaks)
    path = f"/api/projects/{tmp_path.name}/fsck"
    page.api("POST", path)
    while (told := page.api("GET", path).json)["running"]:
        pass
    assert not told["running"] and "RuntimeError" in str(told["error"]) and "secret" not in str(told["error"])
