"""The recovery scenarios of the five protocols, from outside: what is found and decided, what runs and what does not.

Those that are a row of the table have their test there: crunch's changed labels, body, files and deleted branch, and
`can_resume`; dotagent's stale state, incomplete write, times and phases; sitebuilder's blocked and partly complete
runs; claude's missing state and damage.
"""

from __future__ import annotations

import json

import pytest

from tests.cli.command import call, succeed
from tests.cli.people import put
from tests.verify.situations import DAY, Place, codes, plan
from tests.workflow.driving import mark, until, wait

FIVE = "name: five\nsteps:\n" + "".join(
    f'  - {{id: s{number}, run: "{mark(f"s{number}")}; test {number} != 3 -o -e good"}}\n'
    for number in range(1, 6)
)


def test_bmad_resumes_at_the_next_step(place: Place) -> None:
    """bmad, procedure of resuming: variables are back, finished steps do not run, it goes on at steps_completed + 1."""
    place.write(FIVE.replace("name: five", "name: five\nvars: {user_name: bo}"))
    place.commit("flow")
    assert 1 == place.run("--max-parallel", "1").end()
    place.file("good")
    place.commit("good")
    found = place.dry(code=0)
    assert ("s3", {"s1": "skip", "s2": "skip", "s3": "run"}) == (
        found["resume_from"],
        {step: action for step, action in plan(found).items() if step <= "s3"},
    )
    place.resume("--max-parallel", "1").end(0)
    assert [1, 1, 2, 1, 1] == [len(place.starts(f"s{number}")) for number in range(1, 6)]
    assert "bo" == place.show()["variables"]["user_name"]


def test_bmad_resumes_the_last_unfinished_run(place: Place) -> None:
    """bmad, `resume` without an id: the last run that is not finished; `--checkpoint ID` a certain one."""
    place.start("--steps", "a,b")
    succeed("step", "done", "a", cwd=place.folder)
    checkpoint = succeed("save", cwd=place.folder).out.strip()
    succeed("step", "done", "b", cwd=place.folder)
    succeed("start", "other", "--run-id", "o", cwd=place.folder)
    succeed("finish", "--run", "o", cwd=place.folder)
    assert "r" == succeed("resume", "--json", cwd=place.folder).json["run_id"]
    succeed("resume", "--checkpoint", checkpoint, "--yes", cwd=place.folder)
    assert ("completed", "pending") == (place.status("a"), place.status("b"))


def test_claude_latest_used(place: Place) -> None:
    """claude, multiple checkpoints: the most recent one is used, and the others are named."""
    for run in ("one", "two"):
        succeed("start", "work", "--run-id", run, cwd=place.folder)
    done = succeed("resume", "--json", cwd=place.folder)
    assert "two" == done.json["run_id"]
    assert "one" in done.err


@pytest.mark.damages_store
def test_claude_a_damaged_checkpoint(place: Place) -> None:
    """claude, corrupted checkpoints: refused with where it is; after the repair the last good checkpoint goes on."""
    place.start("--steps", "a,b")
    succeed("step", "done", "a", cwd=place.folder)
    succeed("set", "x=1", cwd=place.folder)
    place.tamper("UPDATE record SET data = x'4a32' WHERE collection = 'variable' AND key = 'x'")
    found = place.verify(code=4)
    assert ("integrity.record", "refuse") == codes(found)[0]
    assert "variable/x" in json.dumps(found["findings"][0])
    place.back("--yes", code=4)
    repaired = call("fsck", "--repair", "--json", cwd=place.folder)
    assert repaired.json["quarantined"], str(repaired)
    place.back("--yes", "--accept", "integrity.salvaged", code=0)
    assert "completed" == place.status("a")


def test_claude_start_fresh(place: Place) -> None:
    """claude, start fresh: the old run is abandoned, never deleted, and can be looked at."""
    place.write(FIVE)
    place.commit("flow")
    assert 1 == place.run().end()
    place.file("good")
    assert 0 == call("run", "flow.yaml", "--fresh", "--run-id", "again", cwd=place.folder).code
    assert ("abandoned", "completed") == (place.show("r")["status"], place.show("again")["status"])


TASK = f"""
name: flow
steps:
  - id: task-001
    run: "{mark("t")}; {wait()}; echo '{{}}' > out.json"
    outputs: [out.json]
"""


def test_dotagent_ctrl_c_during_a_subagent(place: Place) -> None:
    """dotagent, scenario 1: running, no output file: the orphan is noticed, attempts + 1, it runs again."""
    place.write(TASK)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("t"), "the start")
    driver.kill_all()
    found = place.dry(code=0)
    assert {"task-001": "run"} == plan(found)
    assert "its end is unknown" in found["plan"][0]["why"]
    place.file("gate")
    place.resume().end(0)
    assert (2, 2) == (len(place.starts("t")), place.steps()["task-001"]["attempt"])


def test_dotagent_crash_after_the_write(place: Place) -> None:
    """dotagent, scenario 2: the work ended, the state was not told: its exit code is believed, it is not run again."""
    place.write(TASK)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("t"), "the start")
    driver.kill()
    assert {"task-001": "reattach"} == plan(place.dry(code=0))
    place.file("gate")
    until(lambda: not place.processes(), "the end of the step")
    assert {"task-001": "adopt"} == plan(place.dry(code=0))
    place.resume().end(0)
    assert (1, "completed") == (len(place.starts("t")), place.status("task-001"))


def test_dotagent_a_file_that_merely_exists_proves_nothing(place: Place) -> None:
    """dotagent, scenario 2, the other way round: a half written output without an exit code is no proof."""
    place.write(
        TASK.replace("; echo '{}' > out.json", "").replace("starts.t;", "starts.t; printf '{' > out.json;")
    )
    place.commit("flow")
    driver = place.run()
    until(lambda: (place.folder / "out.json").exists(), "half an output")
    driver.kill_all()
    assert {"task-001": "run"} == plan(place.dry(code=0))
    place.file("gate")
    place.resume().end(0)
    assert 2 == len(place.starts("t"))


def test_dotagent_interrupted_during_approval(place: Place) -> None:
    """dotagent, scenario 3: it waits for a decision; that is asked again, and the architects do not run again."""
    place.write(
        f"""
name: flow
steps:
  - {{id: architects, run: "{mark("a")}"}}
  - {{id: choose, approval: "Which design?", needs: [architects]}}
  - {{id: build, run: "{mark("b")}", needs: [choose]}}
"""
    )
    place.commit("flow")
    place.run().end(7)
    found = place.dry(code=7)
    assert {"architects": "skip", "choose": "ask", "build": "run"} == plan(found)
    place.resume("--yes").end(7)
    assert (1, 0) == (len(place.starts("a")), len(place.starts("b")))
    succeed("approve", "r", "choose", cwd=place.folder)
    place.resume().end(0)
    assert (1, 1) == (len(place.starts("a")), len(place.starts("b")))


def test_sitebuilder_session_timeout(place: Place) -> None:
    """sitebuilder, scenario 1: in progress, over 10 minutes without news: it is quiet, and goes on where it was."""
    place.start("--steps", "post-01,post-02,post-03")
    succeed("step", "done", "post-01", cwd=place.folder)
    succeed("step", "start", "post-02", cwd=place.folder)
    quarter = DAY // 96
    place.tamper(
        f"UPDATE version SET at = at - {quarter}",
        f"UPDATE lease SET beat = beat - {quarter}",
        f"UPDATE run SET updated_at = updated_at - {quarter} WHERE run > 0",
    )
    assert "quiet" == place.show()["health"]
    assert "resume" == place.verify(code=0)["verdict"]
    done = place.back(code=0)
    assert "post-02" in done.out
    assert {"post-01": "completed", "post-02": "pending", "post-03": "pending"} == {
        step: record["status"] for step, record in place.steps().items()
    }


def test_crunch_resumes_from_a_named_checkpoint(place: Place) -> None:
    """crunch, resume algorithm: no such checkpoint is exit 3; one that there is restores the graph's states."""
    place.start("--steps", "a,b", "--issue", "42")
    succeed("step", "done", "a", "--result", '{"n": 1}', cwd=place.folder)
    put(
        place.folder,
        "extra",
        "recovery",
        {"can_resume": True, "prerequisites_met": True, "warnings": []},
        "r",
    )
    assert 3 == call("resume", "#42", "--checkpoint", "CP-enrich-20250114-a3f2", cwd=place.folder).code
    found = succeed("resume", "#42", "--dry-run", "--json", cwd=place.folder).json
    assert ("resume", "b") == (found["verdict"], found["resume_from"])
    assert {"n": 1} == place.steps()["a"]["result"]
