"""The recovery scenarios of the five protocols, from files as the protocols describe them: imported, then resumed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leftoff.agents.mcp_tools import Tools
from leftoff.clock import SYSTEM, iso
from tests.cli.command import Called, call, succeed
from tests.cli.terminal import Terminal
from tests.protocols.examples import BMAD, CLAUDE, CRUNCH, DOTAGENT, SITEBUILDER
from tests.protocols.files import put
from tests.verify.situations import DAY, Place, codes, git, plan

HOUR = 3_600_000
BRANCH = "feature/issue-42-jwt-refresh"
RUN = "dev-story-20260227-143022"
AUTH = "orchestrate_auth_system_20251003_184530"


def ago(hours: float = 1) -> str:
    return iso(SYSTEM.now() - int(hours * HOUR))


class Imported:
    """A repository with a protocol's files in it, taken in."""

    def __init__(self, place: Place, ref: str, files: dict[str, Any]) -> None:
        self.place = place
        self.ref = ref
        self.take_in(files)

    def take_in(self, files: dict[str, Any]) -> None:
        for path, document in files.items():
            put(self.place.folder / path, document)
        succeed("import", ".", cwd=self.place.folder)

    def verify(self, code: int) -> dict[str, Any]:
        """What `verify` and `resume --dry-run` say: the same."""
        found = self.place.verify(self.ref, code=code)
        dry = call("resume", self.ref, "--dry-run", "--json", cwd=self.place.folder)
        assert (code, found) == (dry.code, dry.json)
        return found

    def resume(self, *words: str, code: int = 0) -> Called:
        done = call("resume", self.ref, *words, cwd=self.place.folder)
        assert code == done.code, str(done)
        return done

    def steps(self) -> dict[str, str]:
        found = succeed("show", self.ref, "--json", cwd=self.place.folder).json
        return {step["step"]: step["status"] for step in found["step_records"]}


# -- bmad


def bmad(place: Place, run: str = RUN, **about: Any) -> Imported:
    document = {**BMAD["state"], "run_id": run, "session_branch": "main"}
    document |= {"started_at": ago(2), "last_checkpoint": ago(), **about}
    for made in document["artefacts_produced"]:
        place.file(made["path"], "made\n")
    place_of = f"_bmad-output/.runs/{document['session_branch']}/{run}/state.json"
    return Imported(place, run, {place_of: document})


@pytest.mark.parametrize("status", ["running", "failed"])
def test_bmad_procedure_of_resuming(place: Place, status: str) -> None:
    """bmad, `Procédure de reprise` of a run that is running or failed: no question; its variables; step 4 of 8."""
    run = bmad(place, status=status)
    found = run.verify(code=0)
    assert ("resume", "4", []) == (found["verdict"], found["resume_from"], found["findings"])
    assert {"1": "skip", "3": "skip", "4": "run", "8": "run"}.items() <= plan(found).items()
    assert f"▶️ Reprise du run {RUN} au step 4/8" in run.resume().err
    assert "Ada" == succeed("get", "user_name", "--run", RUN, cwd=place.folder).out.strip()


def test_bmad_an_artefact_that_is_gone(place: Place) -> None:
    """bmad, `Charger les artefacts produits`: one that is gone is asked about, and the step can be done again."""
    run = bmad(place)
    (place.folder / "artefacts/step-02-output.md").unlink()
    found = run.verify(code=7)
    assert [("outputs.missing", "ask")] == codes(found)
    assert "ask" == plan(found)["2"]
    run.resume(code=7)
    run.resume("--yes")
    assert ("completed", "pending") == (run.steps()["1"], run.steps()["2"])


def test_bmad_session_branches(place: Place) -> None:
    """bmad, BM-16: two runs of one workflow on two session branches; each is resumed on its own."""
    bmad(place)
    bmad(place, "dev-story-20260227-150000", session_branch="feature-auth", checkpoint_id="b4c5d6")
    for branch, run in (("main", RUN), ("feature-auth", "dev-story-20260227-150000")):
        assert run == succeed("resume", "--branch", branch, "--json", cwd=place.folder).json["run_id"]


def test_bmad_completed(place: Place) -> None:
    """bmad, `checkpoint-close`: what is completed is not resumed; nothing is left."""
    run = bmad(place, status="completed", steps_completed=[*range(1, 9)], current_step=8, resume_from_step=9)
    assert "nothing is left to do" in run.resume().out


# -- crunch


def crunch(place: Place, **about: Any) -> Imported:
    """A checkpoint on a branch that is there, with its spec, and an issue that reads as it did."""
    git(place.folder, "switch", "-q", "-c", BRANCH)
    document = {**CRUNCH["full"], "created_at": ago(), "execution_graph": GRAPH, **about}
    place.file(".claude/crunch/42/spec.md", "spec\n")
    place.file("src/auth/tokens.py", "TOKENS = 1\n")
    place.file("leftoff.toml", '[issues]\nfile = "issues/{issue}.json"\n')
    issue(place)
    place.commit("all")
    return Imported(
        place, "crunch-42", {".claude/crunch/42/checkpoints/CP-enrich-20250114-a3f2.yaml": document}
    )


GRAPH = {
    **CRUNCH["full"]["execution_graph"],
    "node_states": {
        "t1": {"status": "completed", "result": {"n": 1}, "started_at": ago(3), "completed_at": ago(2)},
        "t2": {"status": "pending"},
    },
}


def issue(place: Place, **about: Any) -> None:
    known = CRUNCH["full"]["issue_snapshot"]
    text = {
        "title": known["title"],
        "body": known["body"],
        "labels": known["labels"],
        "state": "open",
        **about,
    }
    place.file("issues/42.json", json.dumps(text))


def test_crunch_resume(place: Place) -> None:
    """crunch, resume algorithm: nothing changed, so nothing is asked; node states and results are restored."""
    run = crunch(place)
    found = run.verify(code=0)
    assert [] == [finding for finding in found["findings"] if finding["level"] != "warn"]
    run.resume()
    shown = succeed("show", "#42", "--json", cwd=place.folder).json
    results = {step["step"].rpartition("/")[2]: step["result"] for step in shown["step_records"]}
    assert {"n": 1} == results["t1"]


def test_crunch_no_checkpoint(place: Place) -> None:
    """crunch, NoCheckpointError: an issue, or a checkpoint, that there is none of is exit 3."""
    crunch(place)
    assert 3 == call("resume", "#43", cwd=place.folder).code
    assert 3 == call("resume", "#42", "--checkpoint", "CP-ready-20250114-ffff", cwd=place.folder).code


def test_crunch_prerequisites(place: Place) -> None:
    """crunch, verify_prerequisites: `prerequisites_met: false` is asked about; accepted, it goes on."""
    info = {**CRUNCH["full"]["recovery_info"], "prerequisites_met": False}
    run = crunch(place, recovery_info=info)
    assert ("prerequisite.missing", "ask") in codes(run.verify(code=7))
    run.resume(code=7)
    run.resume("--accept", "prerequisite.missing")


def test_crunch_labels_changed(place: Place) -> None:
    """crunch, stale checkpoints, `proceed_with_warning`: changed labels are a warning, and become the run's state."""
    run = crunch(place)
    issue(place, labels=["state:ready", "type:feature"])
    assert ("issue.labels", "warn") in codes(run.verify(code=0))
    run.resume()
    label = succeed("get", "context/current_state_label", "#42", cwd=place.folder).out.strip()
    assert "state:ready" == label
    assert "issue.labels" not in dict(codes(run.verify(code=0)))


def test_crunch_body_modified(place: Place) -> None:
    """crunch, stale checkpoints, `prompt_user`: a modified body needs a person, who sees the difference."""
    run = crunch(place)
    issue(place, body="Something else")
    (asked,) = (finding for finding in run.verify(code=7)["findings"] if finding["level"] == "ask")
    assert ("issue.body", True) == (asked["code"], "+Something else" in asked["diff"])
    run.resume("--accept", "issue.body")
    assert "issue.body" not in dict(codes(run.verify(code=0)))


def test_crunch_branch_deleted(place: Place) -> None:
    """crunch, stale checkpoints, `start_fresh`: without its branch it cannot be resumed, whatever is accepted."""
    run = crunch(place)
    git(place.folder, "switch", "-q", "main")
    git(place.folder, "branch", "-q", "-D", BRANCH)
    (refused,) = (finding for finding in run.verify(code=6)["findings"] if finding["level"] == "refuse")
    assert ("git.branch_gone", BRANCH) == (refused["code"], refused["subject"])
    run.resume("--yes", code=6)


# -- dotagent


def dotagent(place: Place, phase: str, *done: str, **about: Any) -> Imported:
    document = {
        **DOTAGENT["phase"]["phase"],
        "started_at": ago(5),
        "last_updated": ago(),
        "current_phase": phase,
        "completed_phases": [
            {"phase": name, "completed_at": ago(4), "output": f"memory/reports/{name}.json"} for name in done
        ],
        "user_checkpoints": [],
        **about,
    }
    for name in done:
        report(place, f"{name}.json")
    return Imported(place, "checkout-flow", {"memory/state/phase.json": document})


def report(place: Place, name: str, document: Any = None) -> None:
    put(place.folder / "memory/reports" / name, document or {"ok": True})


def tasks(place: Place, *found: dict[str, Any]) -> Imported:
    for number, about in enumerate(found):
        about |= {"id": f"task-00{number + 1}", "attempts": 1, "started_at": ago(2)}
        about.setdefault("output", f"memory/reports/task-00{number + 1}.json")
    put(place.folder / "memory/state/execution.json", {"workflow_id": "checkout-flow", "tasks": list(found)})
    return dotagent(place, "IMPLEMENTATION", "REQUIREMENTS", "ARCHITECTURE")


def test_dotagent_orphaned_task(place: Place) -> None:
    """dotagent, scenario 1, Ctrl-C during a subagent: running, no output file: it is to be done again."""
    run = tasks(place, {"status": "running"})
    found = run.verify(code=0)
    assert "run" == plan(found)["IMPLEMENTATION/task-001"]
    run.resume("--yes")
    assert "pending" == run.steps()["IMPLEMENTATION/task-001"]
    succeed("step", "start", "IMPLEMENTATION/task-001", "--run", "checkout-flow", cwd=place.folder)
    shown = succeed("show", "checkout-flow", "--json", cwd=place.folder).json["step_records"]
    assert [2] == [step["attempt"] for step in shown if step["step"].endswith("task-001")]


def test_dotagent_crash_after_the_output(place: Place) -> None:
    """dotagent, scenario 2: the status in the output is what the plan says, and what the state becomes."""
    report(place, "task-001.json", {"status": "complete"})
    report(place, "task-002.json", {"status": "failed"})
    run = tasks(place, {"status": "running"}, {"status": "running"})
    found = run.verify(code=0)
    assert ("adopt", "run") == tuple(plan(found)[f"IMPLEMENTATION/task-00{n}"] for n in (1, 2))
    why = {entry["step"].partition("/")[2]: entry["why"] for entry in found["plan"]}
    assert "its output says that it is completed" == why["task-001"]
    assert "its output says that it failed" == why["task-002"]
    run.resume("--yes")
    assert "completed" == run.steps()["IMPLEMENTATION/task-001"]


def test_dotagent_crash_after_the_output_for_a_tool(place: Place) -> None:
    """The same through the server's tool: what an output settles is settled whoever goes on."""
    report(place, "task-001.json", {"status": "complete"})
    run = tasks(place, {"status": "running"})
    Tools(str(place.folder), None).resume_run(run.ref)
    assert "completed" == run.steps()["IMPLEMENTATION/task-001"]


def test_dotagent_interrupted_during_approval(place: Place) -> None:
    """dotagent, scenario 3: designs, but no final one: the roundtable is next, the architects do not run again."""
    report(place, "designs/a.json")
    run = dotagent(place, "ARCHITECTURE", "REQUIREMENTS")
    assert "Next: run the roundtable" in run.resume("--yes").err
    assert "completed" == run.steps()["REQUIREMENTS"]


def test_dotagent_a_phase_that_ended_after_it_was_resumed(place: Place) -> None:
    """dotagent, step 3: the final design is there, though the phase was put back by an earlier resume: it is over."""
    report(place, "designs/a.json")
    run = dotagent(place, "ARCHITECTURE", "REQUIREMENTS")
    run.resume("--yes")
    report(place, "final_design.json", {"design": 1})
    found = run.verify(code=0)
    assert ("adopt", "IMPLEMENTATION") == (
        plan(found)["ARCHITECTURE"],
        next(entry["step"] for entry in found["plan"] if entry["action"] == "run"),
    )
    assert "Resuming workflow checkout-flow from IMPLEMENTATION phase" in run.resume("--yes").err
    assert "completed" == run.steps()["ARCHITECTURE"]


def test_dotagent_what_is_settled_is_no_activity(place: Place) -> None:
    """dotagent, scenario 2 in an ancient state: asked first, nothing is written; the last activity is the old one."""
    old = iso(SYSTEM.now() - 8 * DAY)
    report(place, "task-001.json", {"status": "complete"})
    put(
        place.folder / "memory/state/execution.json",
        {
            "workflow_id": "checkout-flow",
            "tasks": [
                {
                    "id": "task-001",
                    "status": "running",
                    "attempts": 1,
                    "output": "memory/reports/task-001.json",
                }
            ],
        },
    )
    run = dotagent(place, "IMPLEMENTATION", "REQUIREMENTS", "ARCHITECTURE", started_at=old, last_updated=old)
    before = succeed("show", run.ref, "--json", cwd=place.folder).json
    run.resume(code=7)
    assert before == succeed("show", run.ref, "--json", cwd=place.folder).json
    assert f"Last activity: {old[:10]}" in run.resume("--accept", "age.stale").err


def test_dotagent_ancient_state(place: Place) -> None:
    """dotagent, scenario 4: a state of 8 days ago asks; no goes on with it, yes abandons it and archives its files."""
    old = iso(SYSTEM.now() - 8 * DAY)
    run = dotagent(place, "ARCHITECTURE", "REQUIREMENTS", started_at=old, last_updated=old)
    assert [("age.stale", "ask")] == codes(run.verify(code=7))
    said = run.resume(code=7).err
    assert 1 == said.count("State is more than 7 days old. Archive it and start fresh? [y/N]")
    with Terminal("resume", "checkout-flow", cwd=place.folder) as terminal:
        terminal.expect("age.stale")
        terminal.expect("Archive it and start fresh? [y/N]")
        terminal.type("n\n")
        terminal.expect("Resume workflow from ARCHITECTURE? [Y/n]")
        terminal.type("y\n")
        assert 0 == terminal.end()


def test_dotagent_start_fresh(place: Place) -> None:
    """dotagent, validation fails: yes starts fresh, the run is abandoned and nothing else is asked."""
    run = dotagent(place, "ARCHITECTURE", "REQUIREMENTS")
    (place.folder / "memory/reports/REQUIREMENTS.json").unlink()
    assert [("outputs.missing", "ask")] == codes(run.verify(code=7))
    with Terminal("resume", "checkout-flow", cwd=place.folder) as terminal:
        terminal.expect("State appears corrupted. Start fresh? [y/N]")
        terminal.type("y\n")
        terminal.end()
        assert "Resume workflow" not in terminal.shown
    assert "abandoned" == succeed("show", "checkout-flow", "--json", cwd=place.folder).json["status"]


@pytest.mark.parametrize(
    ("about", "done", "code"),
    [
        ({"interruption_safe": False}, ["REQUIREMENTS", "ARCHITECTURE"], "integrity.incomplete_write"),
        ({"started_at": "2999-01-01T00:00:00Z"}, ["REQUIREMENTS", "ARCHITECTURE"], "time.future"),
        ({}, ["ARCHITECTURE"], "progress.illegal"),
    ],
)
def test_dotagent_validate(place: Place, about: dict[str, Any], done: list[str], code: str) -> None:
    """dotagent, step 2, VALIDATE: an incomplete write, a future time, a skipped phase: asked once, and accepted."""
    run = dotagent(place, "IMPLEMENTATION", *done, **about)
    found = run.verify(code=7)
    assert [code] == [finding["code"] for finding in found["findings"] if finding["level"] == "ask"]
    run.resume(code=7)
    run.resume("--accept", code)


def test_dotagent_an_accepted_incomplete_write_is_not_asked_again(place: Place) -> None:
    """dotagent, `interruption_safe: false`: once a person has looked, it is over."""
    run = dotagent(place, "ARCHITECTURE", "REQUIREMENTS", interruption_safe=False)
    run.resume("--accept", "integrity.incomplete_write")
    assert [] == run.verify(code=0)["findings"]


# -- sitebuilder


def sitebuilder(place: Place, **about: Any) -> Imported:
    document = {**SITEBUILDER["schema"], "started_at": ago(2), "updated_at": ago(0.25), **about}
    for entry in document["subtasks"].get("items", ()):
        if entry.get("output"):
            place.file(entry["output"], "done\n")
    for path in (*document["files_created"], *document["files_modified"]):
        place.file(path, "there\n")
    return Imported(place, "migration-T060", {"progress/checkpoints/migration-T060.json": document})


def test_sitebuilder_session_timeout(place: Place) -> None:
    """sitebuilder, scenario 1: in progress, 15 minutes without news: quiet; only what is not complete is left."""
    run = sitebuilder(place)
    found = run.verify(code=0)
    assert {"post-01": "skip", "post-02": "skip", "post-20": "run", "post-21": "run"} == plan(found)
    assert "quiet" == succeed("show", run.ref, "--json", cwd=place.folder).json["health"]
    said = run.resume().err
    assert "Continue from post-20.md" in said
    assert "Left: post-20, post-21" in said


def test_sitebuilder_blocked(place: Place) -> None:
    """sitebuilder, scenario 2: blocked, its errors are shown; `unblock` clears them, then it goes on."""
    error = {"type": "dependency_missing", "message": "Cannot find Post20English.pdf", "blocking": True}
    run = sitebuilder(place, status="blocked", errors=[{**error, "timestamp": ago()}])
    (asked,) = (finding for finding in run.verify(code=7)["findings"] if finding["level"] == "ask")
    assert ("blocked.errors", True) == (asked["code"], "Cannot find Post20English.pdf" in asked["message"])
    run.resume(code=7)
    succeed("unblock", run.ref, cwd=place.folder)
    assert [] == [finding for finding in run.verify(code=0)["findings"] if finding["level"] == "ask"]
    run.resume()


def test_sitebuilder_partial_completion(place: Place) -> None:
    """sitebuilder, scenario 3: complete, criteria false: a warning that names them, and `--only` does a step again."""
    items = [{"id": "post-01", "status": "complete", "output": "post-01.md"}]
    run = sitebuilder(
        place, status="complete", completed_at=ago(), subtasks={"total": 1, "completed": 1, "items": items}
    )
    found = run.verify(code=0)
    assert ("criteria.unmet", "warn") in codes(found)
    assert "29_files_created" in json.dumps(found["findings"])
    assert "29_files_created" in run.resume().out
    run.resume("--only", "post-01", "--yes")
    assert "pending" == run.steps()["post-01"]


def test_sitebuilder_completed_before_it_started(place: Place) -> None:
    """sitebuilder: completed_at before started_at is told; each unmet criterion has steps that could meet it."""
    items = [{"id": "post-01", "status": "complete", "output": "post-01.md"}]
    run = sitebuilder(
        place,
        status="complete",
        started_at=ago(2),
        completed_at=ago(5),
        subtasks={"total": 1, "completed": 1, "items": items},
    )
    found = dict(codes(place.verify(run.ref, code=0)))
    assert ("warn", "warn") == (found["time.order"], found["criteria.unmet"])
    told = next(f for f in place.verify(run.ref, code=0)["findings"] if f["code"] == "criteria.unmet")
    assert "These steps could meet them: post-01." in told["message"]


def test_sitebuilder_not_resumable(place: Place) -> None:
    """sitebuilder, `Verify checkpoint is resumable`: `resumable: false` refuses."""
    run = sitebuilder(place, resumable=False)
    assert ("recovery.not_resumable", "refuse") in codes(run.verify(code=6))
    run.resume("--yes", code=6)


# -- claude


def claude(place: Place, **about: Any) -> Imported:
    document = {**CLAUDE["format"], "created_at": ago(2), "updated_at": ago(), **about}
    plan_file = place.file(document["workflow_state"]["plan_path"], "# plan\n")
    document.setdefault("plan_modification_time", int(plan_file.stat().st_mtime))
    return Imported(place, AUTH, {f".claude/checkpoints/{AUTH}.json": document})


def test_claude_safe_conditions(place: Place) -> None:
    """claude, safe to resume: tests pass, no error, in progress, fresh, the plan as it was: nothing is asked."""
    run = claude(place, tests_passing=True)
    found = run.verify(code=0)
    assert ([], "2") == (found["findings"], found["resume_from"])
    run.resume()


@pytest.mark.parametrize(
    ("about", "code"),
    [
        ({"tests_passing": False}, "prerequisite.missing"),
        ({"last_error": "1 test failed"}, "blocked.errors"),
        ({"updated_at": ago(200)}, "age.stale"),
        ({"plan_modification_time": 1_700_000_000}, "files.changed"),
        ({"completed_phases": [1, 3], "current_phase": 4}, "progress.illegal"),
    ],
)
def test_claude_unsafe_conditions(place: Place, about: dict[str, Any], code: str) -> None:
    """claude, safe to resume: each condition that does not hold is a question of its own, which can be accepted."""
    run = claude(place, **about)
    assert [(code, "ask")] == codes(run.verify(code=7))
    run.resume(code=7)
    run.resume("--accept", code)


def test_claude_missing_plan(place: Place) -> None:
    """claude, `Resume Fails: ensure all referenced files exist`: a plan that is gone is asked about."""
    run = claude(place)
    (place.folder / "specs/plans/022_auth_implementation.md").unlink()
    assert [("prerequisite.missing", "ask")] == codes(run.verify(code=7))


def test_claude_an_open_error_is_cleared(place: Place) -> None:
    """claude, `last_error`: `unblock` clears it."""
    run = claude(place, last_error="1 test failed")
    succeed("unblock", run.ref, cwd=place.folder)
    assert [] == run.verify(code=0)["findings"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"checkpoint_id": "orchestrate_x_20251003_184530", "workflow_ty',
            "orchestrate_x_20251003_184530.json",
        ),
        (json.dumps({**CLAUDE["format"], "schema_version": "9.0"}), "9.0"),
    ],
)
def test_claude_files_that_cannot_be_used(place: Place, text: str, told: str) -> None:
    """claude, corrupted checkpoints and version mismatch: refused with the path, or the version; the file stays."""
    path = place.file(".claude/checkpoints/orchestrate_x_20251003_184530.json", text)
    done = call("import", ".", cwd=place.folder)
    assert (4, True) == (done.code, told in done.err + done.out)
    assert text == path.read_text()
