"""Rows of the table that are about the run itself: its bytes, what it says of its state, times, order, lease."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.clock import SYSTEM
from leftoff.engine.commit import Terms, report
from leftoff.model.changes import ChangeSet
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import call, succeed
from tests.cli.people import put
from tests.cli.runs import driven
from tests.verify.situations import DAY, Place, codes, only, plan

RUN = "(SELECT run FROM run WHERE run_id = 'r')"


def half(place: Place) -> None:
    """A run that somebody reports on: one step of three is done, nobody works on it."""
    place.start("--steps", "a,b,c")
    succeed("step", "done", "a", "--result", "1", cwd=place.folder)
    succeed("pause", cwd=place.folder)


def test_nothing_found(place: Place) -> None:
    """Nothing is found, so the verdict is resume, exit 0, and it goes on without a word."""
    half(place)
    found = place.verify(code=0)
    assert ("resume", [], "r", "b") == tuple(
        found[k] for k in ("verdict", "findings", "run_id", "resume_from")
    )
    assert {"a": "skip", "b": "run", "c": "run"} == plan(found)
    assert "" == place.back(code=0).err


def test_verify_changes_nothing(place: Place) -> None:
    """Looking, in text or in JSON, with --deep or without, writes nothing."""
    half(place)
    before = place.head
    for words in (("verify", "r"), ("verify", "r", "--deep", "--json"), ("resume", "r", "--dry-run")):
        succeed(*words, cwd=place.folder)
    assert before == place.head


# -- integrity

DAMAGE = {
    "integrity.digest": f"UPDATE version SET digest = zeroblob(32) WHERE run = {RUN}",
    "integrity.record": f"UPDATE record SET data = x'4a31' WHERE run = {RUN} AND collection = 'step' AND key = 'a'",
    "integrity.blob": "DELETE FROM blob",
}


@pytest.mark.damages_store
@pytest.mark.parametrize("code", DAMAGE)
def test_damage_is_refused(place: Place, code: str) -> None:
    """A digest, a record or a blob that is off: refuse, exit 4, whatever is accepted; the hint names fsck and log."""
    place.start("--steps", "a,b")
    place.file("big.txt", "x" * 2_000_000)
    succeed("set", "big=@big.txt", cwd=place.folder)
    succeed("step", "done", "a", cwd=place.folder)
    place.tamper(DAMAGE[code])
    found = place.verify(code=4)
    assert ("refuse", []) == (found["verdict"], found["plan"])
    assert (code, "refuse") in codes(found)
    assert "leftoff fsck --repair" in found["findings"][0]["hint"]
    done = place.back("--yes", code=4)
    assert code in done.err


def test_missing_state_is_named(place: Place) -> None:
    """The claude protocol, missing state data: what a run must have and lacks is refused by name."""
    half(place)
    own(place, "workflow", None)
    found = place.verify(code=4)
    assert ("integrity.fields", "workflow") == (only(found)["code"], only(found)["subject"])


def own(place: Place, key: str, value: object) -> None:
    """Change a record of the run itself, as no verb does it; ``None`` takes it away."""
    store = SqliteStore(str(place.folder / ".leftoff"))

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if value is None:
            changes.delete("run", key)
        else:
            changes.put("run", key, value)

    def find(view: View) -> RunRow:
        row = view.find_run("r")
        assert row is not None
        return row

    report(store, find, make, Terms(SYSTEM.now()))
    store.close()


def test_an_incomplete_write_is_asked_about(place: Place) -> None:
    """dotagent, step 2.4: a document that says `interruption_safe: false` was cut short: ask."""
    half(place)
    put(place.folder, "context", "interruption_safe", False, "r")
    assert [("integrity.incomplete_write", "ask")] == codes(place.verify(code=7))
    assert 7 == call("resume", "r", cwd=place.folder).code
    place.back("--accept", "integrity.incomplete_write", code=0)


@pytest.mark.parametrize(
    ("collection", "key", "value"),
    [
        ("extra", "recovery", {"can_resume": False, "warnings": ["the branch was force-pushed"]}),
        ("context", "resumable", False),
    ],
)
def test_not_resumable(place: Place, collection: str, key: str, value: object) -> None:
    """crunch `can_resume`, sitebuilder `resumable`: false is refused, exit 6, and the warnings are quoted."""
    half(place)
    put(place.folder, collection, key, value, "r")
    found = place.verify(code=6)
    assert ("recovery.not_resumable", "refuse") == codes(found)[0]
    if isinstance(value, dict):
        assert "the branch was force-pushed" in only(found)["message"]
    before = place.head
    place.back("--yes", "--accept", "recovery.not_resumable", code=6)
    assert before == place.head


# -- times and order


def test_the_future(place: Place) -> None:
    """dotagent, step 2.2: a time that has not come yet is asked about."""
    half(place)
    put(
        place.folder,
        "step",
        "a",
        {"status": "completed", "order": 0, "completed_at": "2999-01-01T00:00:00Z"},
        "r",
    )
    assert ("time.future", "ask") == codes(place.verify(code=7))[0]


def test_an_end_before_its_beginning(place: Place) -> None:
    """A step that is completed before it started is asked about; --accept goes on."""
    half(place)
    times = {"started_at": "2026-01-02T00:00:00Z", "completed_at": "2026-01-01T00:00:00Z"}
    put(place.folder, "step", "a", {"status": "completed", "order": 0, **times}, "r")
    assert [("time.order", "ask")] == codes(place.verify(code=7))
    place.back("--accept", "time.order", code=0)


@pytest.mark.parametrize("stated", [True, False])
def test_a_week_is_stale(place: Place, stated: bool) -> None:
    """dotagent, scenario 4 (ancient state file): over 7 days without activity is asked about, whoever states it."""
    half(place)
    if stated:
        put(place.folder, "context", "last_updated", "2020-01-01T00:00:00Z", "r")
    else:
        place.tamper(f"UPDATE version SET at = at - {8 * DAY}", "UPDATE lease SET beat = NULL, since = NULL")
    found = place.verify(code=7)
    assert [("age.stale", "ask")] == codes(found)
    assert "start" in only(found)["hint"]
    place.back("--accept", "age.stale", code=0)


FLOW = """
name: flow
steps:
  - {id: a, run: "true"}
  - {id: b, run: "false", needs: [a]}
"""


def test_done_before_what_it_needs(place: Place) -> None:
    """A step that is completed before what it needs cannot have been: ask."""
    place.write(FLOW)
    assert 1 == place.run().end()
    steps = place.steps()
    put(place.folder, "step", "a", {**_known(steps["a"]), "status": "pending"}, "r")
    put(place.folder, "step", "b", {**_known(steps["b"]), "status": "completed"}, "r")
    found = place.verify(code=7)
    assert [("progress.illegal", "ask")] == codes(found)
    assert "b is completed before a" in only(found)["message"]


def _known(record: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in record.items() if key not in ("step", "error") and value is not None}


def test_a_phase_that_was_passed_over(place: Place) -> None:
    """dotagent, step 2.3: phases follow one another; one that was skipped is asked about."""
    place.start()
    for order, (name, status) in enumerate((("REQ", "completed"), ("ARCH", "pending"), ("IMPL", "running"))):
        put(place.folder, "step", name, {"status": status, "kind": "phase", "order": order}, "r")
    found = place.verify(code=7)
    assert ("progress.illegal", "ask") in codes(found)
    assert "ARCH was passed over" in found["findings"][0]["message"]


# -- who drives it


def test_a_live_driver(tmp_path: Path) -> None:
    """Another live driver: refuse, exit 5, and it is named; after its end anybody may go on."""
    with driven(tmp_path) as run:
        found = call("verify", run, "--json", cwd=tmp_path)
        assert 5 == found.code
        assert [("lease.held", "refuse")] == codes(found.json)
        assert "driven by" in found.json["findings"][0]["message"]
        dry = call("resume", run, "--dry-run", "--yes", cwd=tmp_path)
        assert 5 == dry.code
    assert 0 == call("verify", run, "--json", cwd=tmp_path).code


def test_one_who_cannot_be_seen_is_taken_over_by_a_person(place: Place) -> None:
    """A lease from another machine that is silent for over ten minutes: a question; --yes takes it over."""
    import leftoff

    store = leftoff.open(place.folder / ".leftoff")
    run = store.start("work", run_id="r", steps=["a"])
    place.tamper(
        "UPDATE lease SET scope = 'elsewhere@elsewhere/another/1', "
        f"beat = beat - {DAY // 24}, since = since - {DAY // 24}"
    )
    assert [("lease.silent", "ask")] == codes(place.verify(code=7))
    assert 7 == call("resume", "r", cwd=place.folder).code
    place.back("--yes", code=0)
    run.variables["late"] = 1
    with pytest.raises(leftoff.StaleEpoch):
        store.close()


# -- what is left


def test_unmet_criteria(place: Place) -> None:
    """sitebuilder, scenario 3 (partial completion): a warning, with the steps that could meet them; --only does one."""
    place.start("--steps", "a,b")
    for step in ("a", "b"):
        succeed("step", "done", step, cwd=place.folder)
    put(place.folder, "criterion", "frontmatter", {"met": False, "step": "b"}, "r")
    succeed("finish", cwd=place.folder)
    found = place.verify(code=0)
    assert ("warn", [("criteria.unmet", "warn")]) == (found["verdict"], codes(found))
    assert "could meet them: b" in only(found)["message"]
    assert {"a": "skip", "b": "run"} == plan(place.dry("--only", "b", code=0))
    place.back("--only", "b", code=0)
    assert ("completed", "pending") == (place.status("a"), place.status("b"))


def test_a_blocked_run(place: Place) -> None:
    """sitebuilder, scenario 2 (error during processing): its errors are shown; `unblock` clears them; it goes on."""
    place.start("--steps", "a,b")
    succeed("step", "block", "a", "--error", "Cannot find source PDF", cwd=place.folder)
    found = place.verify(code=7)
    assert [("blocked.errors", "ask")] == codes(found)
    assert "Cannot find source PDF" in only(found)["message"]
    assert {"a": "ask", "b": "run"} == plan(found)
    done = place.back(code=7)
    assert "--accept blocked.errors" in done.err and "leftoff unblock r" in done.err
    succeed("unblock", "r", cwd=place.folder)
    assert "resume" == place.verify(code=0)["verdict"]
    place.back(code=0)


def test_a_blocked_run_that_was_paused(place: Place) -> None:
    """A pause resolves nothing: it asks as before, until what blocks it is cleared."""
    place.start("--steps", "a,b")
    succeed("step", "block", "a", "--error", "Cannot find source PDF", cwd=place.folder)
    succeed("pause", cwd=place.folder)
    assert [("blocked.errors", "ask")] == codes(place.verify(code=7))
    place.back(code=7)
    succeed("unblock", "r", cwd=place.folder)
    assert "resume" == place.verify(code=0)["verdict"]
    place.back(code=0)


def test_prerequisites_of_a_document(place: Place) -> None:
    """crunch `prerequisites_met: false`: ask."""
    half(place)
    put(place.folder, "extra", "recovery", {"can_resume": True, "prerequisites_met": False}, "r")
    assert [("prerequisite.missing", "ask")] == codes(place.verify(code=7))
