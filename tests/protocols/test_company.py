"""A protocol's files in rough company: other runs beside its own, copies of files, fresh clones, files in the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from leftoff.engine.find import SESSION
from leftoff.protocols import registry
from leftoff.protocols.protocol import Protocol
from leftoff.protocols.registry import protocol as protocol_named
from tests.cli.command import call, succeed

#: by protocol: how a run of its own begins, its first step, and how the same run is asked for again
OWN = {
    "bmad": (("start", "dev-story", "--run-id", "dev-story-20260227-143022", "--steps", "a,b"), "a"),
    "crunch": (("start", "crunch", "--issue", "42"), "enrich"),
    "dotagent": (("start", "dotagent", "--run-id", "own"), "REQUIREMENTS"),
    "sitebuilder": (("start", "own", "--task", "T1", "--steps", "a,b"), "a"),
    "claude-checkpoints": (
        ("start", "orchestrate", "--title", "Own", "--run-id", "own", "--steps", "a,b"),
        "a",
    ),
}
PROTOCOLS = pytest.mark.parametrize("protocol", OWN)
#: where a protocol's files are
PLACES = {
    "bmad": "_bmad-output",
    "crunch": ".claude/crunch",
    "dotagent": "memory",
    "sitebuilder": "progress",
    "claude-checkpoints": ".claude/checkpoints",
}


def files(project: Path) -> set[str]:
    """Everything that is not leftoff's own."""
    found = (path.relative_to(project) for path in project.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] not in (".leftoff", ".git", "leftoff.toml")}


def own_run(project: Path, protocol: str) -> str:
    """A run of the protocol, one step done and sealed."""
    words, step = OWN[protocol]
    run = succeed(*words, cwd=project).out.strip()
    succeed("step", "done", step, "--run", run, cwd=project)
    succeed("save", "--run", run, cwd=project)
    return run


def runs(project: Path) -> list[str]:
    return sorted(run["run_id"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"])


@pytest.mark.parametrize("protocol", ["crunch", "dotagent", "sitebuilder"])
def test_other_work_is_not_in_its_files(project: Path, protocol: str) -> None:
    """No verb is stopped by it, nothing of it is written, and nothing is read back as a run of somebody else."""
    succeed("init", "--protocol", protocol, cwd=project)
    before = files(project)
    succeed("start", "release", "--run-id", "rel-1", cwd=project)
    for words in (("save",), ("step", "done", "build"), ("set", "x=1"), ("note", "n"), ("fsck",)):
        succeed(*words, cwd=project)
    assert ["rel-1"] == runs(project)
    assert before == files(project)
    sealed = succeed("log", "rel-1", "--json", cwd=project).json["checkpoints"]
    assert ["step_complete", "manual"] == [checkpoint["trigger"] for checkpoint in sealed]
    succeed("rm", "rel-1", "--yes", cwd=project)


@PROTOCOLS
def test_its_own_files_are_imported_as_their_run(project: Path, protocol: str) -> None:
    """Also where the run has an id that the protocol would not have given it, and for a dry run."""
    succeed("init", "--protocol", protocol, cwd=project)
    words, step = OWN[protocol]
    succeed(*(words if "--run-id" in words else (*words, "--run-id", "mine")), cwd=project)
    succeed("step", "done", step, cwd=project)
    succeed("save", cwd=project)
    before = runs(project)
    for more in (["--dry-run"], []):
        (imported,) = succeed("import", ".", "--json", *more, cwd=project).json["imported"]
        assert (before, False) == ([imported["run_id"]], imported["new"])
    assert before == runs(project)


@PROTOCOLS
def test_a_session_of_an_agent_is_no_work_of_the_protocol(project: Path, protocol: str) -> None:
    succeed("init", "--protocol", protocol, cwd=project)
    before = files(project)
    run = succeed("start", SESSION, "--title", "a typo", "--session", "s1", cwd=project).out.strip()
    succeed("save", "--run", run, cwd=project)
    assert before == files(project)


@PROTOCOLS
def test_a_clone_has_the_state_of_its_files(project: Path, tmp_path: Path, protocol: str) -> None:
    """Without `.leftoff`, what the files say is taken in before anything is looked up, by whatever verb is first."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    for number, words in enumerate((("brief", run), ("next", "--run", run), ("resume", run, "--dry-run"))):
        clone = tmp_path / f"clone-{number}"
        shutil.copytree(project, clone, ignore=shutil.ignore_patterns(".leftoff"), symlinks=True)
        assert call(*words, cwd=clone).code in (0, 7), words
        assert 0o700 == (clone / ".leftoff").stat().st_mode & 0o777
        assert [run] == runs(clone)


@PROTOCOLS
def test_in_a_clone_the_same_work_goes_on(project: Path, tmp_path: Path, protocol: str) -> None:
    """`start --resume` begins no second run."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    shutil.rmtree(project / ".leftoff")
    words = list(OWN[protocol][0])
    if "--run-id" in words:
        del words[words.index("--run-id") : words.index("--run-id") + 2]
    found = call(*words, "--resume", cwd=project)
    assert (0, run) == (found.code, found.out.strip()), str(found)


@PROTOCOLS
def test_files_that_nobody_took_in_are_named(project: Path, tmp_path: Path, protocol: str) -> None:
    """Without `leftoff.toml`: which protocol's they are, and the command that takes them in."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    shutil.rmtree(project / ".leftoff")
    (project / "leftoff.toml").unlink()
    found = call("resume", cwd=project)
    assert 3 == found.code and f"leftoff import . --protocol {protocol}" in found.err
    error = call("resume", "--json", cwd=project).json["error"]
    assert f"leftoff import . --protocol {protocol}" in error["hint"]
    assert not (project / ".leftoff").exists()
    succeed("import", ".", "--protocol", protocol, cwd=project)
    assert run in runs(project)


def test_where_no_file_lies_no_protocol_is_loaded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are looked at first: loading all of them costs more than the verb."""
    assert {*registry.HOMES} == {*registry.BUILT_IN}
    loaded: list[str] = []
    known = registry.protocol

    def load(name: str) -> Protocol:
        loaded.append(name)
        return known(name)

    monkeypatch.setattr(registry, "protocol", load)
    assert 3 == call("show", cwd=project).code
    assert [] == loaded
    (project / ".claude/crunch").mkdir(parents=True)
    assert 3 == call("show", cwd=project).code
    assert {"crunch"} == {*loaded}


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        (".claude/data/checkpoints/own.json", "claude-checkpoints"),
        ("docs/agentic-orchestration/progress/checkpoints/own.json", "sitebuilder"),
    ],
)
def test_files_in_further_places_are_named(project: Path, path: str, protocol: str) -> None:
    (project / path).parent.mkdir(parents=True)
    (project / path).write_text("{}")
    assert f"files of the protocol {protocol} ({path})" in call("show", cwd=project).err


@PROTOCOLS
def test_a_file_in_the_way_stops_no_verb(project: Path, protocol: str) -> None:
    """What could not be written is told once, is there in `status`, and is written when it can be."""
    succeed("init", "--protocol", protocol, cwd=project)
    place = project / PLACES[protocol]
    place.parent.mkdir(exist_ok=True)
    place.write_text("a file where a folder belongs")
    words, step = OWN[protocol]
    first = succeed(*words, cwd=project)
    run = first.out.strip()
    second = succeed("step", "done", step, "--run", run, cwd=project)
    succeed("save", "--run", run, cwd=project)
    assert 1 == (first.err + second.err).count(f"the files of {protocol} are not up to date"), first.err
    status = succeed("status", "--json", cwd=project).json
    assert 1 == len(status["problems"]) and PLACES[protocol] in status["problems"][0]
    assert "out of sync" in succeed("status", cwd=project).out
    place.unlink()
    assert [] == succeed("status", "--json", cwd=project).json["problems"]
    assert place.is_dir()


def test_an_error_of_our_own_stops_no_verb(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leftoff.protocols.bmad import Bmad

    succeed("init", "--protocol", "bmad", cwd=project)

    def wrong(*_: object) -> None:
        raise ValueError("max() arg is an empty sequence")

    monkeypatch.setattr(Bmad, "places", wrong)
    assert "ValueError" in succeed("start", "w", "--run-id", "r", cwd=project).err
    assert "" == succeed("set", "x=1", cwd=project).err
    assert "1\n" == succeed("get", "x", cwd=project).out


def test_an_older_checkpoint_of_ours_is_nobodys_run(project: Path) -> None:
    """crunch: known by what it holds, wherever it lies."""
    succeed("init", "--protocol", "crunch", cwd=project)
    own_run(project, "crunch")
    succeed("save", cwd=project)
    place = project / ".claude/crunch/42/checkpoints"
    other = project / ".claude/crunch/77/checkpoints"
    other.mkdir(parents=True)
    for path in place.glob("CP-*.yaml"):
        shutil.copy(path, other / path.name)
    succeed("set", "x=1", cwd=project)
    assert ["crunch-42"] == runs(project)


def test_a_verdict_has_no_doubts_of_another_protocol(project: Path) -> None:
    succeed("init", "--protocol", "dotagent", cwd=project)
    succeed("start", "release", "--run-id", "rel-1", "--steps", "VERIFICATION,REQUIREMENTS", cwd=project)
    succeed("step", "done", "VERIFICATION", cwd=project)
    found = json.loads(call("verify", "rel-1", "--json", cwd=project).out)
    assert "progress.illegal" not in [finding["code"] for finding in found["findings"]]


@pytest.mark.parametrize("protocol", ["bmad", "claude-checkpoints"])
def test_steps_keep_their_names_in_a_clone(project: Path, protocol: str) -> None:
    """These protocols only count them; names that are not the file's to give stay numbers."""
    succeed("init", "--protocol", protocol, cwd=project)
    run = own_run(project, protocol)
    shutil.rmtree(project / ".leftoff")
    assert "b" == succeed("next", "--run", run, cwd=project).out.splitlines()[0]
    (path,) = (project / PLACES[protocol]).rglob("*.json")
    names = {"bmad": "step_names", "claude-checkpoints": "phase_names"}[protocol]
    document = json.loads(path.read_text())
    assert {"1": "a", "2": "b"} == document[names]
    shutil.rmtree(project / ".leftoff")
    path.write_text(json.dumps({**document, names: {"1": "b/", "2": "2", "x": "y", "3": "a"}}))
    steps = succeed("show", run, "--json", cwd=project).json["step_records"]
    assert [("1", "completed"), ("2", "pending")] == [(step["step"], step["status"]) for step in steps]


@PROTOCOLS
def test_what_is_not_in_its_files_is_said(project: Path, protocol: str) -> None:
    """When such a run begins, with how one begins that is; of sessions, and its own runs, nothing is said."""
    shown = protocol in ("bmad", "claude-checkpoints")
    page = succeed("init", "--protocol", protocol, cwd=project)
    starts = protocol_named(protocol).starts
    assert f"`{starts}` first" in page.out and shown != ("in the store alone" in page.out)
    (project / "w.yaml").write_text("name: w\nsteps:\n  - {id: a, run: 'true'}\n")
    for other in (("start", "release"), ("run", "w.yaml")):
        assert shown != (f"none of the files of {protocol}; `{starts}`" in succeed(*other, cwd=project).err)
    for own in (OWN[protocol][0], ("start", SESSION, "--session", "s1")):
        assert "none of the files" not in succeed(*own, cwd=project).err


def test_an_older_workflow_goes_on_in_the_archive(project: Path) -> None:
    """dotagent's files show one workflow. Another that is unfinished is kept in its archived files, also for a clone,
    and comes back when it is the only one."""
    succeed("init", "--protocol", "dotagent", cwd=project)
    for run in ("one", "two"):
        succeed("start", "dotagent", "--run-id", run, cwd=project)
    succeed("step", "done", "REQUIREMENTS", "--run", "one", cwd=project)
    (archived,) = (project / "memory/state/.archive").glob("one_*/phase.json")
    assert "ARCHITECTURE" == json.loads(archived.read_text())["current_phase"]
    edited = json.loads(archived.read_text())
    edited["completed_phases"].append({"phase": "ARCHITECTURE", "completed_at": "2026-01-01T00:00:00Z"})
    archived.write_text(json.dumps(edited))
    assert "IMPLEMENTATION" == succeed("next", "--run", "one", cwd=project).out.splitlines()[0]
    shutil.rmtree(project / ".leftoff")
    assert ["one", "two"] == runs(project)
    assert "IMPLEMENTATION" == succeed("next", "--run", "one", cwd=project).out.splitlines()[0]
    succeed("set", "x=1", "--run", "two", cwd=project)
    assert "two" == json.loads((project / "memory/state/phase.json").read_text())["workflow_id"]
    succeed("finish", "--run", "two", cwd=project)
    succeed("set", "x=1", "--run", "one", cwd=project)
    assert "one" == json.loads((project / "memory/state/phase.json").read_text())["workflow_id"]
    assert not archived.parent.exists()


@PROTOCOLS
def test_the_files_of_a_protocol_can_be_withdrawn(project: Path, protocol: str) -> None:
    """Before a project is shared: no document stays, the store has all of it, and the next commit writes them again."""
    words, step = OWN[protocol]
    succeed("init", "--protocol", protocol, cwd=project)
    succeed(*words, cwd=project)
    succeed("step", "done", step, cwd=project)
    before = files(project)
    told = succeed("prune", "--protocol-files", "--dry-run", "--json", cwd=project).json["removed"]
    assert told and before == files(project)
    gone = {
        each["path"] for each in succeed("prune", "--protocol-files", "--json", cwd=project).json["removed"]
    }
    assert gone == {each["path"] for each in told} and gone == before - files(project)
    left = [path for path in files(project) if "checkpoint" in path or path.endswith("state.json")]
    assert [path for path in left if "config" not in path] == []
    assert [] == succeed("verify", "--json", cwd=project).json["findings"]
    succeed("save", cwd=project)
    assert gone - files(project) == set()


def test_no_files_to_withdraw(project: Path) -> None:
    found = call("prune", "--protocol-files", cwd=project)
    assert 3 == found.code and "no protocol's files" in found.err


def test_the_latest_in_a_clone_is_the_latest_by_time(project: Path) -> None:
    """Not the one whose path comes last: `resume` goes on with what was worked on last."""
    succeed("init", "--protocol", "bmad", cwd=project)
    for run in ("a", "z"):
        succeed("start", run, "--run-id", run, "--steps", "one,two", cwd=project)
    succeed("step", "done", "one", "--run", "a", cwd=project)
    shutil.rmtree(project / ".leftoff")
    assert "taking the latest, a" in succeed("resume", cwd=project).err
