"""Rows of the table that are about the world around a run: outputs, tracked files, git, its definition, its issue."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.verify.situations import Place, codes, git, only, plan
from tests.workflow.driving import mark, until, wait

FLOW = f"""
name: flow
steps:
  - id: a
    run: "{mark("a")}; echo one > a.txt; echo two > b.txt"
    outputs: [a.txt, b.txt]
  - id: b
    run: "{mark("b")}; test -e good"
    needs: [a]
"""


def failed(place: Place, text: str = FLOW) -> None:
    """A run of a workflow file: a is done, b failed, and would succeed by now."""
    place.write(text)
    place.commit("flow")
    assert 1 == place.run().end()
    place.file("good")
    place.commit("good")


# -- outputs


def test_an_output_is_gone(place: Place) -> None:
    """A completed step's output is gone: ask; --yes brings the copy back, --accept goes on without it."""
    failed(place)
    (place.folder / "a.txt").unlink()
    found = place.verify(code=7)
    assert [("outputs.missing", "ask")] == [pair for pair in codes(found) if pair[1] == "ask"]
    finding = found["findings"][0]
    choices = ["bring the copy back", "run the step again", "accept", "stop"]
    assert ("a", choices) == (finding["subject"], finding["choices"])
    assert {"a": "ask", "b": "run"} == plan(found)
    done = place.back(code=7)
    assert "--accept outputs.missing" in done.err
    assert 1 == len(place.starts("a"))
    place.resume("--yes").end(0)
    assert (1, 2) == (len(place.starts("a")), len(place.starts("b")))
    assert (place.folder / "a.txt").exists()


def test_an_output_that_is_gone_is_accepted(place: Place) -> None:
    """--accept outputs.missing: the step does not run again; in the plan it is skipped."""
    failed(place)
    (place.folder / "a.txt").unlink()
    assert {"a": "skip", "b": "run"} == plan(place.dry("--accept", "outputs.missing", code=0))
    place.resume("--accept", "outputs.missing").end(0)
    assert (1, 2) == (len(place.starts("a")), len(place.starts("b")))


def test_an_output_changed(place: Place) -> None:
    """A completed step's output has another hash: ask; --yes keeps what is there, and it is not asked about again."""
    failed(place)
    place.file("b.txt", "edited\n")
    place.commit("edited")
    found = place.verify(code=7)
    assert ("outputs.changed", "ask") == codes(found)[0]
    (place.folder / "good").unlink()
    assert 1 == place.resume("--yes").end()
    assert (1, "edited\n") == (len(place.starts("a")), (place.folder / "b.txt").read_text())
    assert "outputs.changed" not in dict(codes(place.verify(code=0)))


def test_a_touched_output_is_the_same(place: Place) -> None:
    """Another time of modification with the same content is no finding; --deep reads every byte, stat or no stat."""
    failed(place)
    os.utime(place.folder / "a.txt")
    assert "outputs.changed" not in dict(codes(place.verify(code=0)))
    st = (place.folder / "a.txt").stat()
    place.file("a.txt", "ONE\n")
    os.utime(place.folder / "a.txt", ns=(st.st_atime_ns, st.st_mtime_ns))
    assert "outputs.changed" in dict(codes(place.verify("r", "--deep", code=7)))


# -- tracked files


def tracked(place: Place) -> None:
    """A run that somebody reports on, with a tracked file."""
    place.commit("config", **{"config.txt": "port = 1\n"})
    place.start("--steps", "a,b")
    succeed("track", "config.txt", cwd=place.folder)
    succeed("step", "done", "a", cwd=place.folder)
    succeed("pause", cwd=place.folder)


def test_a_tracked_file_changed(place: Place) -> None:
    """crunch, files modified externally: ask, with a unified diff and three choices; --yes keeps what is there."""
    tracked(place)
    place.file("config.txt", "port = 2\n")
    found = place.verify(code=7)
    finding = found["findings"][0]
    assert ("files.changed", "ask", "config.txt") == tuple(finding[k] for k in ("code", "level", "subject"))
    assert "-port = 1" in finding["diff"] and "+port = 2" in finding["diff"]
    assert ["keep the current", "restore from the checkpoint", "stop"] == finding["choices"]
    done = place.back(code=7)
    assert "+port = 2" in done.err and "--accept files.changed" in done.err
    place.back("--yes", code=0)
    assert "port = 2\n" == (place.folder / "config.txt").read_text()
    assert "files.changed" not in dict(codes(place.verify(code=0)))


def test_commits_explain_a_changed_file(place: Place) -> None:
    """A tracked file that commits after the recorded one changed is a warning, and so is that HEAD moved."""
    tracked(place)
    place.commit("raise the port", **{"config.txt": "port = 3\n"})
    found = place.verify(code=0)
    assert {"files.changed": "warn", "git.head_moved": "warn"} == dict(codes(found))
    moved = next(finding for finding in found["findings"] if finding["code"] == "git.head_moved")
    assert "raise the port" in moved["message"]


def test_half_edited_by_a_kill(place: Place) -> None:
    """A SIGKILL in mid-step that left tracked files half edited: warn, never ask; crashes are the normal case."""
    place.file("config.txt", "port = 1\n")
    place.write(
        f"""
name: flow
steps:
  - id: a
    run: "{mark("a")}; {place.leftoff} track config.txt; printf half > config.txt; {wait()}; echo port = 9 > config.txt"
"""
    )
    place.commit("flow")
    driver = place.run()
    config = place.folder / "config.txt"
    until(lambda: config.read_text() == "half", "the half edit")
    driver.kill_all()
    found = place.verify(code=0)
    assert "warn" == found["verdict"]
    assert "warn" == dict(codes(found))["files.changed"]
    place.file("gate")
    place.resume().end(0)
    assert (2, "port = 9\n") == (len(place.starts("a")), config.read_text())


# -- git


def test_the_branch_is_gone(place: Place) -> None:
    """crunch, branch deleted: cannot resume, exit 6, whatever is accepted."""
    git(place.folder, "switch", "-q", "-c", "feature")
    tracked(place)
    git(place.folder, "switch", "-q", "main")
    git(place.folder, "branch", "-q", "-D", "feature")
    found = place.verify(code=6)
    assert ("git.branch_gone", "refuse", "feature") == tuple(
        found["findings"][0][key] for key in ("code", "level", "subject")
    )
    before = place.head
    place.back("--yes", code=6)
    assert before == place.head


def test_a_branch_before_its_first_commit(tmp_path: Path) -> None:
    """A repository that is just begun: the branch is checked out, and git has nothing of it yet."""
    git(tmp_path, "init", "-q")
    succeed("start", "w", "--steps", "a,b", "--run-id", "r", cwd=tmp_path)
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("resume", "r", cwd=tmp_path)
    assert "resume" == succeed("verify", "r", "--json", cwd=tmp_path).json["verdict"]


def test_another_branch(place: Place) -> None:
    """Another branch is checked out: ask, naming both."""
    tracked(place)
    git(place.folder, "switch", "-q", "-c", "other")
    found = place.verify(code=7)
    assert [("git.branch_other", "ask")] == codes(found)
    assert "main" in only(found)["message"] and "other" in only(found)["message"]
    place.back("--accept", "git.branch_other", code=0)


def test_uncommitted_changes(place: Place) -> None:
    """Uncommitted changes that were not there at the checkpoint: warn; those that were, and its own, are no finding."""
    place.file("before.txt", "x")
    tracked(place)
    assert [] == codes(place.verify(code=0))
    place.file("readme", "edited\n")
    place.file("new.txt", "y")
    found = place.verify(code=0)
    assert [("git.dirty", "warn")] == codes(found)
    assert "new.txt" in only(found)["message"] and "readme" in only(found)["message"]
    assert "before.txt" not in only(found)["message"]
    assert "git.dirty" in place.back(code=0).err


# -- the definition


@pytest.mark.parametrize(
    ("old", "new", "level", "code"),
    [("test -e good", "test -e ./good", "warn", 0), ("echo one > a.txt", "echo  one > a.txt", "ask", 7)],
)
def test_the_definition_changed(place: Place, old: str, new: str, level: str, code: int) -> None:
    """The workflow file changed: a later step is worth a word, a finished one a question."""
    failed(place)
    place.write(FLOW.replace(old, new))
    assert ("definition.changed", level) in codes(place.verify(code=code))
    if level == "ask":
        assert 7 == call("resume", "r", cwd=place.folder).code
    place.resume("--accept", "definition.changed").end(0)
    assert 1 == len(place.starts("a"))


# -- prerequisites, secrets, steps in flight


def test_a_tool_is_missing(place: Place) -> None:
    """A declared path that is gone: ask."""
    place.file("tools/x")
    failed(place, FLOW.replace("name: flow", "name: flow\nrequires: {paths: [tools/x]}"))
    (place.folder / "tools/x").unlink()
    assert ("prerequisite.missing", "ask") in codes(place.verify(code=7))


@pytest.mark.parametrize(
    ("requires", "subject"),
    [
        ("{tools: [no-such-tool-here]}", "no-such-tool-here"),
        ("{env: [NO_SUCH_VARIABLE]}", "NO_SUCH_VARIABLE"),
    ],
)
def test_tools_and_variables_are_missing(place: Place, requires: str, subject: str) -> None:
    """A declared tool, or a variable of the environment, that is not there any more: ask; accepted, it goes on."""
    failed(place, FLOW)
    place.write(FLOW.replace("name: flow", f"name: flow\nrequires: {requires}"))
    place.file("good")
    place.commit("requires")
    found = next(f for f in place.verify(code=7)["findings"] if f["code"] == "prerequisite.missing")
    assert ("ask", True) == (found["level"], subject in found["message"])
    place.back(code=7)
    place.back("--accept", "prerequisite.missing", code=0)


def test_a_step_that_was_started_elsewhere(place: Place) -> None:
    """A step in flight on a machine that cannot be seen: ask, with its name; --yes never answers that."""
    place.write(f'name: flow\nsteps:\n  - {{id: a, run: "{mark("a")}; {wait()}"}}\n')
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("a"), "its start")
    driver.kill_all()
    place.tamper(
        "UPDATE attempt SET scope = 'there@there/boot/1'",
        "UPDATE lease SET scope = 'there@there/boot/1', beat = beat - 3600000, since = since - 3600000",
    )
    found = place.verify(code=7)
    assert ("step.elsewhere", "ask") in codes(found)
    assert {"a": "ask"} == plan(found)
    assert "started on there" in str(found["findings"])
    place.back("--yes", code=7)
    place.file("gate")
    place.back("--accept", "step.elsewhere", "--accept", "lease.silent", code=0)
    assert 2 == len(place.starts("a"))


def test_a_secret_must_be_given_again(place: Place) -> None:
    """A redacted variable that a later step needs: ask; --yes never answers that, --var does."""
    text = FLOW.replace("test -e good", "test {{ api_key }} != x && test -e good")
    place.write(text)
    place.commit("flow")
    assert 1 == place.run("--var", "api_key=ghp_abcdefghijklmnopqrstuvwxyz0123456789").end()
    place.file("good")
    place.commit("good")
    found = place.verify(code=7)
    assert ("variables.redacted", "ask", "api_key") == tuple(
        found["findings"][0][key] for key in ("code", "level", "subject")
    )
    place.back("--yes", code=7)
    place.resume("--var", "api_key=y").end(0)


def test_a_step_that_must_not_simply_run_again(place: Place) -> None:
    """A step in flight that is not idempotent: ask; --yes never answers that; --accept runs it again."""
    place.write(
        f"""
name: flow
steps:
  - id: a
    idempotent: false
    run: "{mark("a")}; {wait()}"
"""
    )
    place.commit("flow")
    driver = place.run()
    driver.until("step_start", step="a")
    until(lambda: place.starts("a"), "its start")
    driver.kill_all()
    found = place.verify(code=7)
    assert ("step.not_idempotent", "ask", "a") == tuple(
        found["findings"][0][key] for key in ("code", "level", "subject")
    )
    assert {"a": "ask"} == plan(found)
    place.back("--yes", code=7)
    assert 1 == len(place.starts("a"))
    place.file("gate")
    assert {"a": "run"} == plan(place.dry("--accept", "step.not_idempotent", code=0))
    place.resume("--accept", "step.not_idempotent").end(0)
    assert 2 == len(place.starts("a"))


# -- the issue

ISSUE = {
    "title": "JWT refresh",
    "body": "Please refresh.",
    "labels": [{"name": "state:enrich"}, {"name": "type:feature"}],
    "assignees": [],
    "state": "OPEN",
}


def with_issue(place: Place, how: str = 'file = "issue-{issue}.json"') -> None:
    (place.folder / "leftoff.toml").write_text(f"[issues]\n{how}\n")
    write_issue(place)
    place.commit("settings")
    place.start("--steps", "a,b", "--issue", "42")
    succeed("pause", cwd=place.folder)


def write_issue(place: Place, **changed: object) -> None:
    place.file("issue-42.json", json.dumps({**ISSUE, **changed}))


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("how", ['file = "issue-{issue}.json"', 'command = "cat issue-{issue}.json"'])
def test_labels_update_the_state(place: Place, how: str) -> None:
    """crunch, labels changed: a warning, and the workflow's state follows the labels; then nothing is found."""
    with_issue(place, how)
    assert [] == [pair for pair in codes(place.verify(code=0)) if pair[0].startswith("issue.")]
    write_issue(place, labels=[{"name": "state:ready"}, {"name": "type:feature"}])
    found = place.verify(code=0)
    assert ("issue.labels", "warn") in codes(found)
    place.back(code=0)
    context = place.show()["records"]["context"]
    assert ("state:ready", ["state:ready", "type:feature"]) == (
        context["current_state_label"],
        context["issue_snapshot"]["labels"],
    )
    assert "issue.labels" not in dict(codes(place.verify(code=0)))


def test_the_text_of_the_issue_changed(place: Place) -> None:
    """crunch, issue body changed: a person confirms, with a diff; then it is known."""
    with_issue(place)
    write_issue(place, body="Please refresh twice.")
    found = place.verify(code=7)
    finding = found["findings"][0]
    assert ("issue.body", "ask") == (finding["code"], finding["level"])
    assert "+Please refresh twice." in finding["diff"]
    place.back("--accept", "issue.body", code=0)
    assert "issue.body" not in dict(codes(place.verify(code=0)))


def test_the_issue_was_closed(place: Place) -> None:
    """A closed issue: ask."""
    with_issue(place)
    write_issue(place, state="CLOSED")
    assert ("issue.closed", "ask") == codes(place.verify(code=7))[0]


@pytest.mark.usefixtures("trusted")
def test_the_tracker_is_out_of_reach(place: Place) -> None:
    """Offline is a warning, and nothing is concluded from it."""
    with_issue(place, 'command = "cat issue-{issue}.json"')
    (place.folder / "issue-42.json").unlink()
    assert ("issue.offline", "warn") in codes(place.verify(code=0))


def test_a_phase_takes_a_new_snapshot(place: Place) -> None:
    """The snapshot is of the start and of each phase: what changed before the last phase ended is no news."""
    (place.folder / "leftoff.toml").write_text('[issues]\nfile = "issue-{issue}.json"\n')
    write_issue(place)
    place.write(
        """
name: flow
steps:
  - id: one
    steps:
      - {id: a, run: "sed -i s/refresh/renew/ issue-42.json"}
  - id: two
    steps:
      - {id: b, run: "false"}
"""
    )
    place.commit("flow")
    assert 1 == place.run("--issue", "42").end()
    assert "issue.body" not in dict(codes(place.verify(code=0)))
    write_issue(place, body="Something else.")
    assert ("issue.body", "ask") == codes(place.verify(code=7))[0]


# -- levels


def test_a_project_sets_levels(place: Place) -> None:
    """[verify.levels] changes how bad a finding is; `resume` makes it none. What a check softened stays soft."""
    (place.folder / "leftoff.toml").write_text(
        '[verify.levels]\n"git.dirty" = "ask"\ngit.branch_other = "resume"\n"age.stale" = "refuse"\n'
    )
    tracked(place)
    git(place.folder, "switch", "-q", "-c", "other")
    assert [] == codes(place.verify(code=0))
    place.file("new.txt", "y")
    assert [("git.dirty", "ask")] == codes(place.verify(code=7))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"integrity.digest" = "warn"', "cannot be changed"),
        ('"lease.held" = "warn"', "cannot be changed"),
        ('"git.dirt" = "warn"', "git.dirty"),
        ('"git.dirty" = "loud"', "resume, warn, ask, refuse"),
    ],
)
def test_wrong_levels_are_told(place: Place, line: str, said: str) -> None:
    """A code or level that there is not, or that is fixed, is an error that names what is right."""
    tracked(place)
    (place.folder / "leftoff.toml").write_text(f"[verify.levels]\n{line}\n")
    done = call("verify", "r", cwd=place.folder)
    assert 2 == done.code and "leftoff.toml:2:1: " in done.err and said in done.err

    assert 2 == done.code and said in done.err


def test_the_branch_is_at_a_remote(place: Place) -> None:
    """A colleague's clone has it from there: it is not gone, only not checked out."""
    git(place.folder, "switch", "-q", "-c", "feature")
    tracked(place)
    commit = git(place.folder, "rev-parse", "HEAD").strip()
    git(place.folder, "switch", "-q", "main")
    git(place.folder, "branch", "-q", "-D", "feature")
    git(place.folder, "remote", "add", "up/stream", "nowhere")
    git(place.folder, "update-ref", "refs/remotes/up/stream/feature", commit)
    assert "git.branch_other" in dict(codes(place.verify(code=7)))
