"""`leftoff approve`, and how a run reads while a step of it waits for a person."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leftoff.cli.text import width
from leftoff.engine.approvals import expire_due, question
from leftoff.engine.commit import Seal, Terms, report
from leftoff.errors import NotFound
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import as_word
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import call, succeed
from tests.cli.people import AT, OPTIONS, ask, put, shown, step_of, story
from tests.cli.runs import HOSTILE, driven, harmless
from tests.cli.terminal import shown as on_terminal


def test_who_when_what(tmp_path: Path) -> None:
    """The step is completed with the choice as its result; the record says who chose what, when and why; one
    checkpoint of its own seals it, and --json prints the run."""
    run = story(tmp_path)
    before = shown(tmp_path, run)["head"]["seq"]
    done = succeed("approve", run, "sign-off", "--note", "well done", "--json", cwd=tmp_path)
    assert (run, "paused", before + 1) == (done.json["run_id"], done.json["status"], done.json["head"]["seq"])
    step = step_of(tmp_path, run, "sign-off")
    assert ("completed", {"choice": "approve"}, None) == (step["status"], step["result"], step["error"])
    record = shown(tmp_path, run)["records"]["approval"]["sign-off"]
    assert ("approved", "approve", "well done") == (record["status"], record["choice"], record["note"])
    assert ("Is docs/a.md good?", OPTIONS) == (record["ask"], record["options"])
    assert re.fullmatch(r"\S+@\S+", record["by"]) and re.fullmatch(r"\d{4}-\S+Z", record["at"])
    newest = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][0]
    assert ("approval", "sign-off", "approve: well done") == (
        newest["trigger"],
        newest["step"],
        newest["note"],
    )
    assert newest["checkpoint_id"] == done.json["head"]["checkpoint_id"]


def test_people_are_told_how_it_goes_on(tmp_path: Path) -> None:
    """Nothing on stdout; a line on stderr with the next command."""
    run = story(tmp_path)
    done = succeed("approve", run, "sign-off", cwd=tmp_path)
    assert "" == done.out
    assert f"leftoff: sign-off of {run} is approved. `leftoff resume {run}` continues.\n" == done.err


@pytest.mark.parametrize("choice", OPTIONS)
def test_a_choice(choice: str, tmp_path: Path) -> None:
    """Any of the options; choosing reject is rejecting."""
    run = story(tmp_path)
    succeed("approve", run, "sign-off", "--choice", choice, cwd=tmp_path)
    step, record = step_of(tmp_path, run, "sign-off"), shown(tmp_path, run)["records"]["approval"]["sign-off"]
    rejected = choice == "reject"
    assert ("failed" if rejected else "completed", {"choice": choice}) == (step["status"], step["result"])
    assert ("rejected" if rejected else "approved", choice) == (record["status"], record["choice"])


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["reject", "ship it"], "ship it"),
        (["hold", "approve", "reject"], "approve"),
        (["reject", "ship it", "wait"], None),
        (["ship", "hold"], None),
    ],
)
def test_without_a_choice_nothing_is_guessed(options: list[str], chosen: str | None, tmp_path: Path) -> None:
    """It is `approve`, or the only option that does not reject; where there are several, one must be named."""
    run = story(tmp_path)
    ask(tmp_path, "sign-off", run, options=options)
    before = shown(tmp_path, run)
    done = call("approve", run, "sign-off", cwd=tmp_path)
    if chosen is not None:
        assert {"choice": chosen} == step_of(tmp_path, run, "sign-off")["result"]
    else:
        assert 2 == done.code and options[-1] in done.err and "--choice" in done.err
        assert before == shown(tmp_path, run)


def test_again_the_same_changes_nothing(tmp_path: Path) -> None:
    """A script may be run twice; what was decided otherwise is a conflict that says who decided what."""
    run = story(tmp_path)
    succeed("approve", run, "sign-off", "--choice", "roundtable", cwd=tmp_path)
    before = shown(tmp_path, run)
    again = succeed("approve", run, "sign-off", "--choice", "roundtable", cwd=tmp_path)
    assert "is already approved (roundtable)" in again.err
    for words in (["approve", run, "sign-off"], ["reject", run, "sign-off"]):
        other = call(*words, cwd=tmp_path)
        assert 5 == other.code and re.search(r"already decided: roundtable by \S+@\S+ at \S+Z", other.err)
    assert before == shown(tmp_path, run)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["story-1", "sign-of"], 3, "sign-off"),
        (["story-1", "nothing-like-it"], 3, "sign-off"),
        (["nothing", "sign-off"], 3, "nothing"),
        (["story-1", "draft"], 5, "is completed, and needs no approval"),
        (["story-1", "publish"], 5, "is pending, and needs no approval"),
        (["story-1", "read-aloud"], 5, "leftoff step done read-aloud --run story-1"),
        (["story-1", "sign-off", "--choice", "yes"], 2, "approve, roundtable, reject"),
        (["story-1", "sign-off", "--choice", ""], 2, "approve, roundtable, reject"),
        (["story-1@1", "sign-off"], 2, "story-1"),
        (["story-1", "a//b"], 2, "empty part"),
        (["story-1", "sign-off", "more"], 2, "does not take 'more'"),
        (["story-1", "sign-off", "--yes"], 2, "no option --yes"),
    ],
)
def test_what_cannot_be_decided(words: list[str], code: int, told: str, tmp_path: Path) -> None:
    """Each with its exit code and what would be right, and nothing is changed."""
    run = story(tmp_path)
    before = shown(tmp_path, run)
    done = call("approve", *words, cwd=tmp_path)
    assert code == done.code and told in done.err, str(done)
    assert before == shown(tmp_path, run)


def test_a_step_that_has_not_asked_yet(tmp_path: Path) -> None:
    """It is named as what it is; so is one that was put back, although it was decided once."""
    run = story(tmp_path)
    put(tmp_path, "step", "later", {"status": "pending", "kind": "approval"}, run)
    done = call("approve", run, "later", cwd=tmp_path)
    assert 5 == done.code and "is not waiting for a decision: it is pending" in done.err
    succeed("approve", run, "sign-off", cwd=tmp_path)
    put(tmp_path, "step", "sign-off", {"status": "pending"}, run)
    assert 5 == call("approve", run, "sign-off", cwd=tmp_path).code


def test_asked_again_it_is_decided_again(tmp_path: Path) -> None:
    """Of an earlier decision nothing is left in the record."""
    run = story(tmp_path)
    succeed("reject", run, "sign-off", "--note", "not yet", cwd=tmp_path)
    put(tmp_path, "step", "sign-off", {"status": "waiting"}, run)
    succeed("approve", run, "sign-off", cwd=tmp_path)
    found = shown(tmp_path, run)["records"]
    assert ("approved", "approve") == tuple(
        found["approval"]["sign-off"][key] for key in ("status", "choice")
    )
    assert "note" not in found["approval"]["sign-off"] and "error" not in found


def test_a_finished_run(tmp_path: Path) -> None:
    """Nothing waits in it any more."""
    run = story(tmp_path)
    succeed("finish", "--status", "abandoned", "--run", run, cwd=tmp_path)
    done = call("approve", run, "sign-off", cwd=tmp_path)
    assert 5 == done.code and "is abandoned" in done.err


def test_past_the_deadline(tmp_path: Path) -> None:
    """It is refused, and the step is rejected by that: once, however often one tries."""
    run = story(tmp_path, deadline=AT)
    done = call("approve", run, "sign-off", "--json", cwd=tmp_path)
    assert (5, "conflict") == (done.code, done.json["error"]["code"])
    assert "2026-02-02T02:40:00Z" in done.err and "expired" in done.err
    step, found = step_of(tmp_path, run, "sign-off"), shown(tmp_path, run)
    assert ("failed", "rejected") == (step["status"], step["error"]["type"])
    record = found["records"]["approval"]["sign-off"]
    assert "expired" == record["status"] and "choice" not in record and "by" not in record
    for verb in ("approve", "reject"):
        assert 5 == call(verb, run, "sign-off", cwd=tmp_path).code
    assert found == shown(tmp_path, run)


def test_before_the_deadline(tmp_path: Path) -> None:
    """A deadline that is to come is in nobody's way."""
    run = story(tmp_path, deadline=AT * 2)
    succeed("approve", run, "sign-off", cwd=tmp_path)


def test_beside_a_live_driver(tmp_path: Path) -> None:
    """A decision needs no lease, and whoever drives the run goes on by itself."""
    with driven(tmp_path) as run:
        put(tmp_path, "step", "a", {"status": "waiting", "kind": "approval"}, run)
        done = succeed("approve", run, "a", cwd=tmp_path)
    assert "The process that drives the run continues with it." in done.err


def test_of_two_who_decide_at_once_one_does(tmp_path: Path) -> None:
    """Never both: the other is told."""
    run = story(tmp_path)
    words = [("approve", run, "sign-off", "--choice", "approve"), ("reject", run, "sign-off")] * 3
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda each: call(*each, cwd=tmp_path).code, words))
    taken = step_of(tmp_path, run, "sign-off")["result"]["choice"]
    assert [0 if words[i][-1] == taken or words[i][0] == taken else 5 for i in range(6)] == codes
    sealed = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"]
    assert 1 == [entry["trigger"] for entry in sealed].count("approval")


def test_a_secret_in_a_note(tmp_path: Path) -> None:
    """It is kept nowhere."""
    run = story(tmp_path)
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ"
    succeed("approve", run, "sign-off", "--note", f"with {secret}", cwd=tmp_path)
    assert secret not in succeed("show", run, "--json", cwd=tmp_path).out
    assert secret not in succeed("log", run, "--json", cwd=tmp_path).out


def test_a_step_that_reports_for_an_old_attempt(tmp_path: Path) -> None:
    """What calls itself an attempt must be the current one of that run."""
    run = story(tmp_path)
    assert 5 == call("approve", run, "sign-off", cwd=tmp_path, LEFTOFF_ATTEMPT="bogus").code


def test_deadlines_that_passed(tmp_path: Path) -> None:
    """Whoever looks after a run rejects what is due, and nothing else."""
    run = story(tmp_path, deadline=AT)
    put(tmp_path, "step", "other", {"status": "waiting", "kind": "approval"}, run)
    ask(tmp_path, "other", run, deadline=AT + 5000)
    store = SqliteStore(str(tmp_path / ".leftoff"))
    due: list[str] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        due[:] = expire_due(store, tx, row, changes, AT + 1)
        return Seal("approval", due[0]) if due else None

    def find(view: object) -> RunRow:
        row = view.find_run(run)  # type: ignore[attr-defined]
        if row is None:
            raise NotFound(run)
        found: RunRow = row
        return found

    for expected in (["sign-off"], []):
        report(store, find, make, Terms(AT + 1))
        assert expected == due
    store.close()
    assert ("failed", "waiting") == tuple(
        step_of(tmp_path, run, step)["status"] for step in ("sign-off", "other")
    )


def test_the_record_of_a_question() -> None:
    """What an approval begins with; a deadline only where there is one."""
    asked = question("a", "Good?", (), AT)
    assert ["approve", "reject"] == asked["options"] and "deadline" not in asked
    assert "2026-02-02T02:40:01Z" == question("a", "Good?", ["x"], AT, AT + 1000)["deadline"]


def test_a_name_as_a_word() -> None:
    """Commands that are shown can be pasted, whatever a step is called."""
    assert ["a/b-1", "'a b'", "'$(x)'", "'it'\"'\"'s'", "''"] == [
        as_word(name) for name in ("a/b-1", "a b", "$(x)", "it's", "")
    ]


# -- how it reads


def test_brief_says_what_is_waited_for(tmp_path: Path) -> None:
    """The question, its options and the command; the instructions of what is to be done by hand."""
    run = story(tmp_path, deadline=AT * 2)
    text = succeed("brief", run, cwd=tmp_path).out
    part = text.partition("Waiting for a person:\n")[2].partition("\n\n")[0]
    for said in (
        "“Is docs/a.md good?” [approve, roundtable, reject], until",
        f"`leftoff approve {run} sign-off`",
    ):
        assert said in part
    assert "Read the pages aloud. All." in part and "`leftoff step done read-aloud`" in part
    assert "None" not in part and "In flight:" not in text
    succeed("approve", run, "sign-off", "--note", "mind the cache", cwd=tmp_path)
    decided = succeed("brief", run, cwd=tmp_path).out.partition("Decisions:\n")[2]
    assert re.match(r"- sign-off: approve by \S+@\S+, \S+Z: “mind the cache”\n", decided)


def test_show_says_what_is_waited_for(tmp_path: Path) -> None:
    """Below the step as long as it waits, and among the records what was decided."""
    run = story(tmp_path)
    for text in (
        succeed("show", run, cwd=tmp_path).out,
        on_terminal("show", run, cwd=tmp_path, columns=120).shown,
    ):
        assert "Is docs/a.md good? (approve, roundtable, reject)" in text
        assert (
            f"leftoff approve {run} sign-off" in text and f"leftoff step done read-aloud --run {run}" in text
        )
    succeed("approve", run, "sign-off", cwd=tmp_path)
    text = succeed("show", run, cwd=tmp_path).out
    assert re.search(r"sign-off  approve by \S+@\S+, \S+Z \(Is docs/a.md good\?\)", text)
    assert f"leftoff approve {run}" not in text


def test_status_says_that_it_waits(tmp_path: Path) -> None:
    """A run in which nothing runs and something waits is waiting, not working."""
    run = story(tmp_path)
    assert f"{run}, waiting, 25%, at sign-off" in succeed("status", cwd=tmp_path).out
    terminal = on_terminal("status", cwd=tmp_path, columns=160)
    assert "◔ sign-off" in terminal.shown


def test_hostile_questions(tmp_path: Path) -> None:
    """Whatever is asked, nothing of it is obeyed by a terminal, and it fits."""
    run = story(tmp_path)
    put(tmp_path, "step", f"evil{HOSTILE}", {"status": "waiting", "kind": "approval"}, run)
    ask(tmp_path, f"evil{HOSTILE}", run, ask=HOSTILE, options=[HOSTILE, "reject"])
    for words in (["show", run], ["brief", run], ["next", "--run", run], ["status"]):
        done = succeed(*words, cwd=tmp_path)
        assert harmless(done.out) and harmless(done.err)
    for columns in (20, 80):
        terminal = on_terminal("show", run, cwd=tmp_path, columns=columns)
        assert harmless(terminal.shown)
        assert all(width(line) <= columns for line in terminal.shown.splitlines())
    done = succeed("approve", run, f"evil{HOSTILE}", cwd=tmp_path)
    assert harmless(done.err)


# -- with the runner

FLOW = """
name: story
steps:
  - id: draft
    run: echo drafted >> ran.txt
  - id: beside
    needs: []
    run: echo beside >> ran.txt
  - id: sign-off
    needs: [draft]
    approval: {ask: "Is {{ run.id }} good?", options: [approve, roundtable, reject]}
  - id: by-hand
    needs: [draft]
    instructions: Read it aloud.
  - id: publish
    needs: [sign-off, by-hand]
    run: echo {{ choice('sign-off') }} >> ran.txt
"""


def test_a_run_waits_and_goes_on(tmp_path: Path) -> None:
    """What can run does, then it pauses with 7; behind the decision it goes on, and nothing before it runs again."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    assert 7 == call("run", "flow.yaml", "--run-id", "story-1", cwd=tmp_path).code
    assert ["beside", "drafted"] == sorted((tmp_path / "ran.txt").read_text().split())
    found = succeed("next", "--json", cwd=tmp_path).json
    assert ("by-hand", "Read it aloud.") == (found["step"], found["instructions"])
    assert "sign-off is waiting for a decision: “Is story-1 good?”" in found["why"]
    assert 7 == call("resume", "story-1", "--yes", cwd=tmp_path).code  # --yes never approves
    succeed("step", "done", found["step"], cwd=tmp_path)
    succeed("approve", "story-1", "sign-off", "--choice", "roundtable", cwd=tmp_path)
    succeed("resume", "story-1", "--yes", cwd=tmp_path)
    assert ["beside", "drafted", "roundtable"] == sorted((tmp_path / "ran.txt").read_text().split())
    assert "completed" == shown(tmp_path, "story-1")["status"]
    assert "roundtable\n" not in succeed("logs", "story-1", cwd=tmp_path).out  # it went into the file


@pytest.mark.parametrize("word", ["start", "done", "skip", "fail", "block"])
def test_a_report_decides_nothing(word: str, tmp_path: Path) -> None:
    """`step` on an approval is refused with the commands that decide it, also before the run has come to it."""
    run = story(tmp_path)
    put(tmp_path, "step", "later", {"status": "pending", "kind": "approval"}, run)
    before = shown(tmp_path, run)
    for step in ("sign-off", "later"):
        result = call("step", word, step, "--run", run, cwd=tmp_path)
        assert 7 == result.code and f"`leftoff approve {run} {step}` or `leftoff reject" in result.err
    assert before == shown(tmp_path, run)


def test_done_of_an_approved_step(tmp_path: Path) -> None:
    """What was approved is done: saying so again changes nothing, and is no error."""
    run = story(tmp_path)
    succeed("approve", run, "sign-off", cwd=tmp_path)
    before = shown(tmp_path, run)
    succeed("step", "done", "sign-off", "--run", run, cwd=tmp_path)
    assert before == shown(tmp_path, run)


def test_a_run_that_is_over_waits_for_nothing(project: Path) -> None:
    """One that was given up is no candidate: what is left is the only one, and decided."""
    (project / "w.yaml").write_text("name: w\nsteps: [{id: sign-off, approval: Ship?}]\n")
    assert 7 == call("run", "w.yaml", "--run-id", "old", cwd=project).code
    assert 7 == call("run", "w.yaml", "--fresh", "--run-id", "new", cwd=project).code
    call("finish", "--run", "old", "--status", "abandoned", cwd=project)
    done = call("approve", "w", "sign-off", cwd=project)
    assert 0 == done.code and "sign-off of new is approved" in done.err, str(done)
