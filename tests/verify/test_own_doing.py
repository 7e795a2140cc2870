"""What the run itself, its own files and git's commits explain needs no person."""

from __future__ import annotations

import pytest

from tests.cli.command import LEFTOFF, call, succeed
from tests.verify.situations import Place, codes, git, only
from tests.workflow.driving import mark, until, wait

TRACKED = f"""
name: flow
steps:
  - {{id: t, run: "echo base > src.py; {LEFTOFF} track src.py"}}
  - {{id: edit, run: "echo more >> src.py", needs: [t]}}
  - {{id: c, run: "test -e go", needs: [edit]}}
"""


def test_a_finished_step_changed_a_tracked_file(place: Place) -> None:
    """Nothing is found: the step's checkpoint has the file as the step left it; a rollback brings that back."""
    place.write(TRACKED)
    place.commit("flow")
    place.run().end(1)
    assert "files.changed" not in dict(codes(place.verify(code=0)))
    log = succeed("log", "r", "--json", cwd=place.folder).json["checkpoints"]
    edited = next(entry["seq"] for entry in log if entry["step"] == "edit")
    place.file("src.py", "other\n")
    succeed("rollback", f"r@{edited}", "--files", "--yes", cwd=place.folder)
    assert "base\nmore\n" == (place.folder / "src.py").read_text()


@pytest.mark.parametrize("how", ["fails", "is told to stop"])
def test_a_step_that_did_not_end_well_changed_one(place: Place, how: str) -> None:
    """A warning, as after a kill: what a step did before it failed or was stopped needs no person."""
    place.write(TRACKED.replace("more >> src.py", f"more >> src.py; {mark('e')}; {wait()}; exit 1"))
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("e"), "the edit")
    if how == "fails":
        place.file("gate")
        driver.end(1)
    else:
        succeed("stop", "r", cwd=place.folder)
        driver.end(130)
    assert ("files.changed", "warn") in codes(place.verify(code=0))


def test_a_reported_step_changed_one(place: Place) -> None:
    """`step done` takes in what became of tracked files; what somebody does afterwards is asked about."""
    place.file("f", "one\n")
    place.start("--steps", "a,b")
    succeed("track", "f", cwd=place.folder)
    succeed("step", "start", "a", cwd=place.folder)
    place.file("f", "two\n")
    succeed("step", "done", "a", cwd=place.folder)
    assert "files.changed" not in dict(codes(place.verify(code=0)))
    assert "two\n" == succeed("cat", "r:f", cwd=place.folder).out
    place.file("f", "three\n")
    assert ("files.changed", "ask") in codes(place.verify(code=7))


DRAFT = f"""
name: flow
steps:
  - {{id: draft, run: "echo draft > doc.md", outputs: [doc.md]}}
  - {{id: edit, run: "echo half >> doc.md; {mark("e")}; {wait()}", needs: [draft]}}
  - {{id: c, run: "test -e go", needs: [edit]}}
"""


def test_killed_while_it_edited_an_output(place: Place) -> None:
    """SIGKILL in a step that edits what an earlier one wrote: a warning, and it goes on by itself."""
    place.write(DRAFT)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("e"), "the edit")
    driver.kill_all()
    assert ("outputs.changed", "warn") in codes(place.verify(code=0))
    place.file("gate")
    place.file("go")
    place.resume().end(0)


def test_a_finished_step_edited_an_output(place: Place) -> None:
    """The same where the step that edited it ended well; what somebody else does afterwards is asked about."""
    place.write(DRAFT)
    place.file("gate")
    place.commit("flow")
    place.run().end(1)
    assert ("outputs.changed", "warn") in codes(place.verify(code=0))
    place.file("doc.md", "by hand\n")
    assert ("outputs.changed", "ask") in codes(place.verify(code=7))


@pytest.mark.parametrize("words", [("approve", "r"), ("note", "seen", "--run", "r")])
def test_changed_while_the_run_rested(place: Place, words: tuple[str, ...]) -> None:
    """Who approves, or notes something, has done none of the run's work: that is asked about all the same."""
    place.write(
        "name: flow\nsteps:\n  - {id: a, run: 'echo a > out.txt', outputs: [out.txt]}\n"
        "  - {id: ok, approval: Go?}\n  - {id: b, run: cat out.txt}\n"
    )
    place.commit("flow")
    place.run().end(7)
    place.file("out.txt", "by hand\n")
    assert ("outputs.changed", "ask") in codes(place.verify(code=7))
    succeed(*words, cwd=place.folder)
    assert ("outputs.changed", "ask") in codes(place.verify(code=7))


def test_other_permissions(place: Place) -> None:
    """A tracked file with other permissions differs; what a step left is what it has."""
    tool = place.file("tool", "x\n")
    place.start("--steps", "a,b")
    succeed("track", "tool", cwd=place.folder)
    tool.chmod(0o755)
    found = next(f for f in place.verify(code=7)["findings"] if f["code"] == "files.changed")
    assert ("ask", ["tool"]) == (found["level"], found["paths"])
    succeed("step", "done", "a", cwd=place.folder)
    assert "files.changed" not in dict(codes(place.verify(code=0)))


def test_a_commit_that_does_not_follow(place: Place) -> None:
    """After `git commit --amend` it is said that HEAD does not follow from what the run knew."""
    place.start("--steps", "a")
    git(place.folder, "commit", "--amend", "-qm", "other")
    found = next(f for f in place.verify(code=0)["findings"] if f["code"] == "git.head_moved")
    assert "does not follow from it" in found["message"]


@pytest.mark.parametrize("name", ["t.txt", "é.txt"])
def test_commits_explain_it_in_a_subfolder(place: Place, name: str) -> None:
    """A project below the top of its repository: paths are compared as the project has them, whatever their letters."""
    folder = place.folder / "proj"
    folder.mkdir()
    (folder / "leftoff.toml").write_text("")
    (folder / name).write_text("one\n")
    place.commit("project")
    succeed("start", "work", "--run-id", "r", "--steps", "a,b", cwd=folder)
    succeed("track", name, cwd=folder)
    succeed("step", "done", "a", cwd=folder)
    (folder / name).write_text("two\n")
    place.commit("changed")
    found = call("verify", "r", "--json", cwd=folder)
    assert (0, True) == (found.code, ("files.changed", "warn") in codes(found.json)), str(found)
    (folder / "new.txt").write_text("n\n")
    succeed("track", "new.txt", cwd=folder)
    assert "git.dirty" not in dict(codes(call("verify", "r", "--json", cwd=folder).json))


def test_own_outputs_are_not_foreign(place: Place) -> None:
    """A new folder of outputs is the run's own; another file in it is not."""
    place.write(DRAFT.replace("doc.md", "out/doc.md").replace("echo draft", "mkdir out; echo draft"))
    place.file("gate")
    place.commit("flow")
    place.run().end(1)
    assert "git.dirty" not in dict(codes(place.verify(code=0)))
    place.file("out/other.txt", "x\n")
    found = next(f for f in place.verify(code=0)["findings"] if f["code"] == "git.dirty")
    assert "out/other.txt" == found["subject"]


def test_an_issue_with_a_secret_in_it(place: Place) -> None:
    """Its text is not kept, so nobody can say that it was modified; what is shown of others is masked."""
    token = "ghp_" + "a1B2c3D4e5" * 4
    place.file("leftoff.toml", '[issues]\nfile = "issues/{issue}.json"\n')
    place.file("issues/42.json", f'{{"title": "t", "body": "use token {token}", "labels": []}}')
    place.file("issues/43.json", '{"title": "t", "body": "plain", "labels": []}')
    place.commit("issues")
    place.start("--issue", "42")
    assert [] == place.verify(code=0)["findings"]
    succeed("start", "work", "--run-id", "s", "--issue", "43", cwd=place.folder)
    place.file("issues/43.json", f'{{"title": "t", "body": "use {token}", "labels": []}}')
    found = next(f for f in place.verify("s", code=7)["findings"] if f["code"] == "issue.body")
    assert token not in str(found)


def test_the_issue_at_the_end_of_a_phase(place: Place) -> None:
    """The snapshot is renewed where the last step of a phase is reported, as a runner does it."""
    place.file("leftoff.toml", '[issues]\nfile = "issues/{issue}.json"\n')
    place.file("issues/5.json", '{"title": "t", "body": "one", "labels": []}')
    place.commit("issues")
    place.start("--issue", "5", "--steps", "ph/a,ph/b,next/c")
    place.file("issues/5.json", '{"title": "t", "body": "two", "labels": []}')
    git(place.folder, "commit", "-qam", "issue")
    succeed("step", "done", "ph/a", cwd=place.folder)
    assert "issue.body" in dict(codes(place.verify(code=7)))
    succeed("step", "done", "ph/b", cwd=place.folder)
    assert "issue.body" not in dict(codes(place.verify(code=0)))


def test_secret_variables_of_a_reported_run(place: Place) -> None:
    """They are asked for again: `--var`, the environment, or accepted as missing; `--yes` does not answer."""
    place.start("--steps", "a", "--var", "db_password=hunter2222")
    found = only(place.verify(code=7))
    assert ("variables.redacted", "db_password") == (found["code"], found["subject"])
    place.back("--yes", code=7)
    assert [] == place.verify(code=0, db_password="hunter2222")["findings"]
    place.back("--var", "db_password=hunter2222", code=0)
    place.back("--accept", "variables.redacted", code=0)
