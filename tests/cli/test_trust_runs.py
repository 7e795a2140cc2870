"""Runs that came from elsewhere: what they would run is shown, and asked about before the first command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from leftoff.engine.commit import Terms, report
from leftoff.engine.project import Project
from leftoff.engine.run_reader import definition_of
from leftoff.engine.settings import Caller
from leftoff.errors import LeftoffError, NeedsPerson, Usage
from leftoff.operations.run_reports import this_run
from leftoff.operations.runs import info_of
from leftoff.operations.supervision import Supervision
from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.protocols.examples import SITEBUILDER

FLOW = "name: flow\nsteps:\n  - id: one\n    run: touch one\n  - id: two\n    run: test -f go && touch two\n"
UNTRUSTED = "definition.untrusted"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user with a project in which a run failed half way, and one which took that run in from a bundle."""
    top = tmp_path_factory.mktemp("made")
    home, away, user = top / "home", top / "away", str(top / "user")
    home.mkdir()
    away.mkdir()
    (home / "flow.yaml").write_text(FLOW)
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=home, XDG_STATE_HOME=user).code
    succeed("export", "r", "-o", str(top / "r.leftoff"), cwd=home, XDG_STATE_HOME=user)
    succeed("import", str(top / "r.leftoff"), cwd=away, XDG_STATE_HOME=user)
    return top


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run of a workflow file failed half way."""
    for name in ("user", "home"):
        shutil.copytree(made / name, tmp_path / name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    return tmp_path / "home"


@pytest.fixture
def away(home: Path, made: Path, tmp_path: Path) -> Path:
    """Another project, which took that run in from a bundle."""
    shutil.copytree(made / "away", tmp_path / "away")
    (tmp_path / "away/go").touch()
    return tmp_path / "away"


def codes(folder: Path, run: str = "r") -> list[str]:
    return [found["code"] for found in call("verify", run, "--json", cwd=folder).json["findings"]]


def test_an_imported_run_asks_first(away: Path) -> None:
    """Exit 7 with all that would run; `--yes` is not an answer to it, and `[verify.levels]` does not soften it."""
    for words in (("resume", "r"), ("resume", "r", "--yes"), ("resume",)):
        done = call(*words, cwd=away)
        assert 7 == done.code and UNTRUSTED in done.err and "run: test -f go && touch two" in done.err
    assert not (away / "two").exists()
    (away / "leftoff.toml").write_text(f'[verify.levels]\n"{UNTRUSTED}" = "warn"\n')
    assert 2 == call("resume", "r", "--yes", cwd=away).code
    (away / "leftoff.toml").unlink()


@pytest.mark.parametrize("how", ["a path that climbs", "a link"])
def test_a_file_outside_of_the_project(home: Path, tmp_path: Path, how: str) -> None:
    """A run from elsewhere does not say which of the user's files is read, shown, and run in its place; one that was
    begun here may be of a file anywhere."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    path = "../flow.yaml" if how == "a path that climbs" else "linked.yaml"
    if how == "a link":
        (home / path).symlink_to(tmp_path / "flow.yaml")
    assert 1 == call("run", path, "--run-id", "o", cwd=home).code
    succeed("export", "o", "-o", str(tmp_path / "o"), cwd=home)
    other = tmp_path / "down/other"
    other.mkdir(parents=True)
    succeed("import", str(tmp_path / "o"), cwd=other)
    for place in (tmp_path / "down/flow.yaml", tmp_path / "flow.yaml"):
        place.write_text("mine: 1\nsteps: [{id: one, run: echo mine}]\n")
    if how == "a link":
        (other / path).symlink_to(tmp_path / "flow.yaml")
    (other / "go").touch()
    assert "mine" not in call("verify", "o", cwd=other).out
    assert "mine" in call("verify", "o", cwd=home).out
    for _ in range(2):
        call("resume", "o", "--accept", UNTRUSTED, cwd=other)
    assert (other / "two").exists()


@pytest.mark.parametrize("answer", [("--trust",), ("--accept", UNTRUSTED)])
def test_who_says_yes_gets_it_run(away: Path, answer: tuple[str, ...]) -> None:
    """`--trust` and `--accept` are a person's word."""
    succeed("resume", "r", *answer, cwd=away)
    assert (away / "two").exists()


def test_on_a_terminal_it_is_asked_once(away: Path) -> None:
    """A yes is remembered with the run."""
    (away / "go").unlink()
    with Terminal("resume", "r", cwd=away) as terminal:
        terminal.expect("run: test -f go && touch two")
        terminal.expect("[y/N]: ")
        terminal.type("y\n")
        assert 1 == terminal.wait()
    assert UNTRUSTED not in codes(away)


def test_trust_shows_and_takes_back(away: Path) -> None:
    """`leftoff trust` names the run with its commands; `--revoke` makes it ask again."""
    shown = call("trust", cwd=away)
    assert 7 == shown.code and "run r was not started here by you" in shown.out and "touch two" in shown.out
    succeed("trust", "--yes", cwd=away)
    assert UNTRUSTED not in codes(away)
    assert ["r"] == succeed("trust", "--revoke", "--json", cwd=away).json["runs"]
    assert UNTRUSTED in codes(away)


def test_a_yes_to_an_archived_run_is_taken_back(away: Path) -> None:
    """And of one in the trash: it asks again when it comes back."""
    succeed("trust", "--yes", cwd=away)
    succeed("fork", "r", "--run-id", "f", cwd=away)
    succeed("finish", "f", "--status", "failed", cwd=away)
    succeed("archive", "f", cwd=away)
    (away / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    succeed("prune", cwd=away)
    succeed("archive", "r", cwd=away)
    assert {"f", "r"} == set(succeed("trust", "--revoke", "--json", cwd=away).json["runs"])
    succeed("trust", "--yes", cwd=away)
    succeed("undelete", "f", cwd=away)
    assert UNTRUSTED in codes(away, "f") and UNTRUSTED in codes(away)
    succeed("fsck", cwd=away)


def test_a_yes_is_for_what_was_shown(away: Path) -> None:
    """A file that comes into the project later says something else: it is shown and asked about, in what was made of
    the run, too."""
    succeed("trust", "--yes", cwd=away)
    succeed("fork", "r", "--run-id", "f", cwd=away)
    succeed("archive", "r", cwd=away)
    assert not {UNTRUSTED} & {*codes(away), *codes(away, "f")}
    (away / "flow.yaml").write_text(FLOW.replace("touch two", "touch three"))
    for run in ("f", "r"):
        done = call("resume", run, "--yes", cwd=away)
        assert 7 == done.code and "touch three" in done.err, str(done)
    assert not (away / "three").exists()


def test_a_file_that_is_replaced_while_it_is_asked_about(away: Path) -> None:
    """What is run is what was shown."""
    with Terminal("resume", "r", cwd=away) as terminal:
        terminal.expect("[y/N]: ")
        (away / "flow.yaml").write_text(FLOW.replace("touch two", "touch three"))
        terminal.type("y\n")
        assert 0 == terminal.wait()
    assert ["go", "two", "flow.yaml"] == [
        name for name in ("go", "two", "three", "flow.yaml") if (away / name).exists()
    ]


def test_nothing_that_is_asked_about_is_cut_off(away: Path) -> None:
    """A line that is longer than the terminal is wide goes on in the next."""
    (away / "flow.yaml").write_text(FLOW.replace("touch two", f"touch two{' ' * 200}; touch three"))
    with Terminal("resume", "r", cwd=away, columns=60) as terminal:
        terminal.expect("touch three")
        terminal.expect("[y/N]: ")


def test_a_run_begun_here_asks_nothing(home: Path) -> None:
    """Not when it is resumed, nor forked, nor brought back from the archive, nor after its folder moved."""
    assert UNTRUSTED not in codes(home)
    succeed("fork", "r", "--run-id", "f", cwd=home)
    assert UNTRUSTED not in codes(home, "f")
    succeed("finish", "--status", "failed", "--run", "r", cwd=home)
    succeed("archive", "r", cwd=home)
    assert UNTRUSTED not in call("resume", "r", cwd=home).err
    assert UNTRUSTED not in codes(home)
    moved = home.rename(home.parent / "moved")
    assert UNTRUSTED not in codes(moved)


def test_a_bundle_of_ones_own_run_is_a_bundle(home: Path, tmp_path: Path) -> None:
    """Who removes a run and imports it again is asked: the file may have been anywhere meanwhile."""
    succeed("export", "r", "-o", str(tmp_path / "x.leftoff"), cwd=home)
    succeed("rm", "r", "--yes", cwd=home)
    succeed("prune", "--empty-trash", cwd=home)
    succeed("import", str(tmp_path / "x.leftoff"), cwd=home)
    assert UNTRUSTED in codes(home)


def test_what_is_made_of_it_asks_too(away: Path) -> None:
    """A fork, and what comes back from the archive."""
    succeed("fork", "r", "--run-id", "f", cwd=away)
    assert UNTRUSTED in codes(away, "f")
    succeed("archive", "r", cwd=away)
    call("resume", "r", cwd=away)
    assert UNTRUSTED in codes(away)


def test_supervise_leaves_it_to_a_person(away: Path) -> None:
    """A run from elsewhere is not restarted, and it is said why."""
    project = Project(str(away))
    (row,) = project.store.read(lambda view: view.list_runs({}, None))
    (said,) = Supervision(project, Caller()).restart(info_of(project, row))
    project.close()
    assert isinstance(said, str) and f"r is not restarted: {UNTRUSTED}" in said


# -- records that decide what is executed


def tamper(folder: Path, change: dict[str, Any]) -> None:
    """What nobody can do from outside: another definition, beside all rules."""
    project = Project(str(folder))
    (row,) = project.store.read(lambda view: view.list_runs({}, None))
    known = {**(definition_of(project.store, row) or {}), **change}

    def make(tx: Any, row: Any, changes: Any) -> None:
        changes.put("context", "definition", known)

    report(project.store, this_run(row.run, row.run_id), make, Terms(project.now))
    project.close()


def test_a_definition_that_is_not_its_digest_does_not_run(home: Path) -> None:
    """Refused, by resume and by run, whether its file is there or not."""
    tamper(home, {"text": FLOW.replace("touch two", "touch evil")})
    (home / "go").touch()
    for words in ("run flow.yaml --resume", "resume r --yes", "resume r --trust"):
        done = call(*words.split(), cwd=home)
        assert 6 == done.code and "is not what its digest says" in done.err, str(done)
    (home / "flow.yaml").unlink()
    assert 6 == call("resume", "r", "--trust", cwd=home).code
    assert not (home / "evil").exists()


def test_no_put_writes_what_is_executed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the command, not a tool, not Python: nor what says which files are brought back."""
    text = FLOW.replace("touch two", "touch evil")
    forged = {"path": "gone.yaml", "digest": "sha256:0", "text": text}
    tools = Tools(str(home), None)
    for key in ("definition", "graph", "function", "returned", "workspace", "git_dirty", "before a.txt"):
        assert 2 == call("put", "context", key, json.dumps(forged), "--run", "r", cwd=home).code
        with pytest.raises(Usage):
            tools.put_record("context", key, forged, run_id="r")
    for collection in ("file", "artifact"):
        with pytest.raises(Usage):
            tools.put_record(collection, "x", {"path": "../x"}, run_id="r")
    monkeypatch.chdir(home)
    with leftoff.start("w") as run, pytest.raises(Usage):
        run.put("context", "definition", forged)
    succeed("put", "context", "mine", "1", "--run", "r", cwd=home)


def test_no_document_writes_what_is_executed(tmp_path: Path) -> None:
    """A protocol's file that carries a definition is no run of a workflow file, imported or edited."""
    document = json.loads(json.dumps(SITEBUILDER["schema"]))
    document["context"] = {"definition": {"path": "x.yaml", "digest": "sha256:0", "text": FLOW}, "other": 1}
    (tmp_path / "T060.json").write_text(json.dumps(document))
    done = call("import", "T060.json", "--protocol", "sitebuilder", "--json", cwd=tmp_path)
    (run,) = [entry["run_id"] for entry in done.json["imported"]]
    context = succeed("show", run, "--json", cwd=tmp_path).json["records"]["context"]
    assert "definition" not in context and 1 == context["other"]


def test_no_file_of_a_protocol_decides_an_approval(project: Path) -> None:
    """A step that waits for a person still does, whatever its mirrored file says; the rest is taken in."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    succeed("start", "migration", "--task", "T1", "--agent", "Riley", "--steps", "a,gate", cwd=project)
    run = succeed("ls", "--json", cwd=project).json["runs"][0]["run_id"]
    succeed("put", "step", "gate", '{"status":"waiting","kind":"approval"}', cwd=project)
    succeed("put", "approval", "gate", '{"status":"waiting","ask":"?"}', cwd=project)
    (file,) = (project / "progress").rglob("*.json")
    document = json.loads(file.read_text())
    for item in document["subtasks"]["items"]:
        item["status"] = "complete"
    file.write_text(json.dumps(document))
    records = succeed("show", run, "--json", cwd=project).json["step_records"]
    assert {"a": "completed", "gate": "waiting"} == {record["step"]: record["status"] for record in records}


@pytest.mark.parametrize(
    "value", [{"status": "approved"}, {"status": "waiting", "choice": "approve"}, {"by": "me"}]
)
def test_put_asks_and_never_decides(tmp_path: Path, value: Any) -> None:
    """An approval may be asked for; that it was decided is nobody's to put."""
    succeed("start", "w", "--run-id", "r", cwd=tmp_path)
    succeed("put", "step", "gate", '{"status":"waiting","kind":"approval"}', cwd=tmp_path)
    succeed("put", "approval", "gate", '{"status":"waiting","ask":"?"}', cwd=tmp_path)
    assert 7 == call("put", "approval", "gate", json.dumps(value), cwd=tmp_path).code
    decided = '{"status":"completed","kind":"approval"}'
    assert 7 == call("put", "step", "gate", decided, cwd=tmp_path).code
    with pytest.raises(NeedsPerson):
        Tools(str(tmp_path), None).put_record("approval", "gate", {"status": "waiting"})
    succeed("approve", "r", "gate", cwd=tmp_path)


# -- what else an agent with tools could do


def test_start_run_asks_what_resume_asks(project: Path) -> None:
    """`start_run(resume: true)` is no way around the verdict."""
    tools = Tools(str(project), None)
    (project / "out.txt").write_text("1")
    tools.start_run("w", run_id="r", steps=["a", "b"])
    tools.report_step("a", "completed", output="out.txt", run_id="r")
    assert "r" == tools.start_run("w", resume=True)["run_id"]
    (project / "out.txt").unlink()
    with pytest.raises(LeftoffError, match=r"outputs\.missing"):
        tools.start_run("w", resume=True)


def test_the_store_is_nobodys_output(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the command, nor a tool, nor Python keeps a file of the store, also through a link."""
    tools = Tools(str(project), None)
    tools.start_run("w", run_id="r")
    (project / "link").symlink_to(project / ".leftoff")
    for path in (".leftoff/store.db", "link/store.db"):
        assert 2 == call("artifact", path, cwd=project).code
        assert 2 == call("step", "done", "a", "--output", path, cwd=project).code
        with pytest.raises(Usage):
            tools.report_step("a", "completed", output=path)
        with leftoff.start("py") as run, pytest.raises(Usage):
            run.artifact(path)
