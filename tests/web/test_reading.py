"""What the pages read through operations: runs at a glance, steps by the page, lives, graphs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest

from leftoff.engine.history import Lives, find_lives
from leftoff.engine.settings import Caller
from leftoff.engine.show import StepPage, StepsWanted, step_graph, step_page
from leftoff.engine.step_lifecycle import StepReport
from leftoff.operations.page_actions import Overview, RunFilter, at_a_glance, overview, run_records
from leftoff.operations.run_reports import report_step
from leftoff.operations.runs import target
from tests.cli.command import call
from tests.cli.runs import release
from tests.web.client import serving
from tests.web.night import MINUTE, Night, a_night


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    made = a_night(tmp_path_factory.mktemp("night") / "atlas")
    yield made
    made.project.close()


def _ids(found: Overview) -> tuple[list[str], list[str], list[str]]:
    parts = (found.needs, found.works, found.rest)
    needs, works, rest = ([each.info.run_id for each in part] for part in parts)
    return needs, works, rest


def test_what_needs_a_person_comes_first(night: Night) -> None:
    """Each run is in one part, with the reason it needs somebody: first what nobody else can do."""
    found = overview(night.project, RunFilter())
    reasons = {each.info.run_id: each.why for each in found.needs}
    expected = {
        "docs-4.3": "dead",
        "story-17": "blocked",
        "release-2.4": "approval",
        "import-orders": "failed",
    }
    assert expected == reasons
    assert ["release-2.4", "story-17", "import-orders", "docs-4.3"] == list(reasons)
    _, works, rest = _ids(found)
    assert ["manual-fr", "claude-1f3a", "billing", "billing-triggers"] == works
    assert ["story-3", "site-build-2", "nightly-import-1"] == rest
    assert (4, 4, 4, None) == (found.needing, found.needed, found.worked, found.next)


def test_a_glance_tells_what_is_asked_and_said(night: Night) -> None:
    """The question with its options, the first failure, the last words, and the time that is left."""
    found = overview(night.project, RunFilter())
    known = {each.info.run_id: each for each in [*found.needs, *found.works]}
    (question,) = known["release-2.4"].questions
    assert ("sign-off", ["publish", "hold"]) == (question.step, question.options)
    assert ("load", "UnicodeDecodeError: invalid start byte at line 120001") == known["import-orders"].failed
    assert "Reading the lexer first." == known["claude-1f3a"].said
    assert known["manual-fr"].said.startswith("Chapter 5")
    left = known["manual-fr"].times["left"]
    assert left is not None and 7 * 120 <= left <= 8 * 120


@pytest.mark.parametrize(
    ("looking", "expected"),
    [
        (RunFilter(status="completed"), ["story-3", "site-build-2", "nightly-import-1"]),
        (RunFilter(status="failed"), ["import-orders"]),
        (RunFilter(text="story"), ["story-17", "story-3"]),
        (RunFilter(text="claude"), ["claude-1f3a"]),
        (RunFilter(text="ORDERS"), ["import-orders", "nightly-import-1"]),
        (RunFilter(text="nothing like it"), []),
    ],
)
def test_filters(night: Night, looking: RunFilter, expected: list[str]) -> None:
    """Each one alone; how many need a person is told of all."""
    found = overview(night.project, looking)
    assert expected == [run_id for part in _ids(found) for run_id in part]
    assert 4 == found.needing


@pytest.mark.parametrize("text", ["", "i"])
def test_the_rest_comes_by_the_page(night: Night, text: str) -> None:
    """No run twice, none left out; of the others as many as are wanted, and only on the first page."""
    first = overview(night.project, RunFilter(text=text, first=1, most=2))
    assert (1, 1, 2) == (len(first.needs), len(first.works), len(first.rest))
    assert 1 < first.needed
    second = overview(night.project, RunFilter(text=text, before=first.next, most=2))
    assert ([], []) == (second.needs, second.works)
    assert ["story-3", "site-build-2", "nightly-import-1"] == _ids(first)[2] + _ids(second)[2]
    assert None is second.next


def _steps(night: Night, ref: str, wanted: StepsWanted) -> StepPage:
    return step_page(night.project.store, target(night.project, Caller(), ref), wanted)


def _lives(night: Night, ref: str, epoch: int | None = None) -> Lives:
    return find_lives(night.project.store, target(night.project, Caller(), ref), epoch, 400)


def test_steps_by_the_page(night: Night) -> None:
    """In declared order, by status or by a word; and the same of an older version."""

    def names(ref: str, wanted: StepsWanted) -> list[str]:
        return [record["step"] for record in _steps(night, ref, wanted).steps]

    first = _steps(night, "manual-fr", StepsWanted(limit=10))
    assert first.next is not None
    assert [f"part-{number:02d}" for number in range(1, 11)] == [each["step"] for each in first.steps]
    assert ["part-11", "part-12"] == names("manual-fr", StepsWanted(after=first.next, limit=10))
    assert ["part-05"] == names("manual-fr", StepsWanted(status=("running",)))
    assert ["part-10"] == names("manual-fr", StepsWanted(text="T-10"))
    then = _steps(night, "billing@9", StepsWanted(limit=3))
    assert ["inventory", "schema", "copy"] == [each["step"] for each in then.steps]
    assert "failed" == then.steps[2]["status"]
    assert then.next is not None
    assert ["switch"] == names("billing@9", StepsWanted(after=then.next, limit=3))


def test_lives_and_what_was_tried_in_them(night: Night) -> None:
    """Each attempt is told with what became of it; a life alone has only its own."""
    found = _lives(night, "import-orders")
    told = [(each.step, each.number, each.became) for each in found.tried]
    assert [("download", 1, "completed"), ("check", 1, "completed"), ("convert", 1, "failed")] == told[:3]
    assert [("convert", 2, "completed"), ("load", 1, "failed"), ("load", 2, "failed")] == told[3:]
    assert [0, 1, 2] == [life.epoch for life in found.lives]
    second = _lives(night, "import-orders", 1)
    assert [] == [each.step for each in second.tried if each.began < second.lives[1].began]
    waits = _lives(night, "release-2.4").tried[-1]
    assert ("sign-off", None, "waiting") == (waits.step, waits.ended, waits.became)
    copies = [each for each in _lives(night, "billing").tried if each.step == "inventory"]
    assert [6 * MINUTE] == [each.ended - each.began for each in copies if each.ended is not None]


def test_the_graph_of_a_workflow(tmp_path: Path) -> None:
    """By levels, with what each waits for; items are counted in the node of their step."""
    (tmp_path / "flow.yaml").write_text(
        "name: flow\nsteps:\n  - {id: one, run: 'true'}\n"
        "  - {id: many, needs: [one], foreach: [a, b, c], run: 'test {{ item }} != b', on_failure: continue}\n"
        "  - {id: side, needs: [], run: 'true'}\n"
    )
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=tmp_path).code
    night = Night(tmp_path)
    found = step_graph(night.project.store, target(night.project, Caller(), "r"))
    night.project.close()
    nodes = {node.step: (node.level, node.before, node.counts) for node in found.nodes}
    assert (1, ["one"], {"completed": 2, "failed": 1}) == nodes["many"]
    assert (0, [], {}) == nodes["side"] == nodes["one"]


def test_a_run_without_a_graph_is_told_in_a_row(night: Night) -> None:
    """Each step behind the one before."""
    found = step_graph(night.project.store, target(night.project, Caller(), "release-2.4"))
    assert [("notes", 0, []), ("build", 1, ["notes"])] == [
        (n.step, n.level, n.before) for n in found.nodes[:2]
    ]


def test_a_run_at_a_version(night: Night) -> None:
    """What it was then: its counts, its variables."""
    found, seen = at_a_glance(night.project, Caller(), "billing@7")
    assert found.version is not None and seen.why is None
    assert (2, 0) == (seen.info.steps["completed"], seen.info.steps["failed"])
    then = run_records(night.project, Caller(), "billing@7", "variable")["variable"]
    now = run_records(night.project, Caller(), "billing", "variable")["variable"]
    assert ("double writes", "freeze, then copy") == (then["strategy"], now["strategy"])


def test_a_run_that_needs_nobody(tmp_path: Path) -> None:
    """One that is at work, and one that is done."""
    night = Night(tmp_path / "p")
    who = night.start("w", "r", steps=["a"])
    assert None is at_a_glance(night.project, who, "r")[1].why
    report_step(night.project, who, StepReport("done", "a"))
    assert [] == overview(night.project, RunFilter()).needs
    night.project.close()


def test_a_folder_without_a_store(tmp_path: Path) -> None:
    """Nothing to show, and nothing is made."""
    night = Night(tmp_path)
    assert ([], [], []) == _ids(overview(night.project, RunFilter()))
    assert [] == list(tmp_path.iterdir())


def test_how_to_go_on_is_ready_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder's name is one word of a shell, whatever it is; the brief of a run with many steps is made when asked."""
    folder = tmp_path / "a b; touch x"
    folder.mkdir()
    run = release(folder)
    with serving(folder) as page:
        path = f"/p/{next(iter(page.app.state.projects)).key}/runs/{run}/go"
        assert f"cd {escape(shlex.quote(str(folder)))}" in page.get(path).text.replace("&#39;", "&#x27;")
        monkeypatch.setattr("leftoff.web.run_screens.MOST_BRIEFED", 3)
        without = page.get(path).text
        assert 'id="brief"' not in without and f'href="{path}?brief=1"' in without
        assert 'id="brief"' in page.get(f"{path}?brief=1").text
