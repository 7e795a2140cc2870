"""Items as people write them: shown as they are, and accepted so wherever a step is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from leftoff.errors import NeedsPerson
from tests.cli.command import call, succeed
from tests.cli.people import ask, put
from tests.cli.terminal import Terminal

FLOW = """name: shots
steps:
  - id: shrink
    foreach: [pictures/1.txt, "pictures/2, big.txt"]
    max_parallel: 1
    run: "echo small {{ item }}; test {{ item }} = pictures/1.txt"
"""


def statuses(folder: Path, run: str) -> dict[str, str]:
    found = succeed("show", run, "--json", cwd=folder).json
    return {record["step"]: record["status"] for record in found["step_records"]}


def test_items_of_a_flow(tmp_path: Path) -> None:
    """In show, logs, log, the list and the plan; --only and --from-step take them so. Programs get both."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    done = call("run", "flow.yaml", "--run-id", "s", cwd=tmp_path)
    assert 1 == done.code and "shrink [pictures/1.txt]: done" in done.out + done.err, str(done)
    for words in (("show", "--steps"), ("log",), ("ls",), ("status",), ("resume", "--dry-run")):
        shown = call(*words, cwd=tmp_path).out
        assert "[pictures/2, big.txt]" in shown and "%2F" not in shown, words
    with Terminal("show", "--steps", cwd=tmp_path) as terminal:
        terminal.end()
    assert "[pictures/2, big.txt]" in terminal.shown and "%2F" not in terminal.shown
    assert "small pictures/1.txt\n" == succeed("logs", "s", "shrink [pictures/1.txt]", cwd=tmp_path).out
    big = "shrink [pictures/2, big.txt]"
    for words in (("--only", big), ("--from-step", big)):
        plan = succeed("resume", *words, "--dry-run", "--json", cwd=tmp_path).json["plan"]
        assert [("shrink/pictures%2F2, big.txt", "pictures/2, big.txt")] == [
            (entry["step"], entry["item"]) for entry in plan if entry["action"] == "run"
        ]
    assert "shrink/pictures%2F2, big.txt" == succeed("show", "--json", cwd=tmp_path).json["next_step"]
    items = [log["item"] for log in succeed("logs", "--json", cwd=tmp_path).json["logs"]]
    assert ["pictures/1.txt", "pictures/2, big.txt"] == items


def test_every_document_about_an_item_has_its_text(tmp_path: Path) -> None:
    """Events, plans, checkpoints and steps: whether its name had to be encoded or not."""
    text = FLOW.replace('"pictures/2, big.txt"', "two")
    (tmp_path / "flow.yaml").write_text(text)
    expected = {"shrink/pictures%2F1.txt": "pictures/1.txt", "shrink/two": "two"}
    foreseen = succeed("run", "flow.yaml", "--dry-run", "--json", cwd=tmp_path).json["plan"]
    said = call("run", "flow.yaml", "--run-id", "s", "--json", cwd=tmp_path).out
    events = [json.loads(line) for line in said.splitlines()]
    told = [
        event
        for event in events
        if event["event"] in ("step_start", "step_done", "step_failed", "checkpoint")
    ]
    assert len(told) >= 6
    plan = succeed("verify", "--json", cwd=tmp_path).json["plan"]
    records = succeed("show", "--json", cwd=tmp_path).json["step_records"]
    for document in (*foreseen, *told, *plan, *records):
        assert expected.get(document["step"]) == document.get("item"), document
    sealed = succeed("log", "--json", cwd=tmp_path).json["checkpoints"]
    assert "pictures/1.txt" in [checkpoint.get("item") for checkpoint in sealed]


def test_reports_on_items(project: Path) -> None:
    """A report, a note, an approval, MCP and Python mean the item that is there; another name stays as it is."""
    steps = ["fetch/https:%2F%2Fa.b", "fetch/https:%2F%2Fc.d", "fetch/https:%2F%2Fe.f", "ask/x%2Fy"]
    succeed("start", "web", "--run-id", "w", "--steps", ",".join(steps), cwd=project)
    succeed("step", "done", "fetch [https://a.b]", cwd=project)
    Tools(str(project), None).report_step("fetch [https://c.d]", "completed")
    succeed("note", "slow", "--step", "fetch [https://a.b]", cwd=project)
    put(project, "step", "ask/x%2Fy", {"status": "waiting", "kind": "approval"}, "w")
    ask(project, "ask/x%2Fy", "w", options=["approve", "reject"])
    assert "ask [x/y] of w is approved" in succeed("approve", "w", "ask [x/y]", cwd=project).err
    succeed("step", "start", "Fix it [urgent]", cwd=project)
    known = statuses(project, "w")
    assert ["completed", "completed", "pending", "completed"] == [known[path] for path in steps]
    assert "running" == known["Fix it [urgent]"] and 5 == len(known.keys() - {"fetch", "ask"})
    assert "completed" == succeed("get", "step/fetch [https://a.b]", cwd=project).json["status"]
    notes = succeed("show", "--json", cwd=project).json["records"]["note"]
    assert ["fetch/https:%2F%2Fa.b"] == [note["step"] for note in notes.values()]
    with leftoff.open(project / ".leftoff") as store, store.start("loop", run_id="l") as run:
        for _ in run.each("fetch", ["https://a.b"]):
            pass
        assert run.done("fetch [https://a.b]") and run.done("fetch/https:%2F%2Fa.b")
        assert not run.done("fetch [https://c.d]")


def test_what_failed_comes_next(tmp_path: Path) -> None:
    """Where a run goes on from a standstill, what failed is done before what is pending, and is named so."""
    succeed("start", "w", "--run-id", "w", "--steps", "a,b,c", cwd=tmp_path)
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("step", "fail", "b", "--error", "no", cwd=tmp_path)
    assert "c" == succeed("next", cwd=tmp_path).out.strip()
    succeed("pause", cwd=tmp_path)
    assert "b" == succeed("show", "--json", cwd=tmp_path).json["next_step"]
    assert "b" == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["next_step"]
    assert "b" == succeed("next", cwd=tmp_path).out.strip()


def test_nobody_reads_an_encoded_item(project: Path) -> None:
    """The brief, the next step, differences, errors and hints have items as people write them, to every face."""
    steps = ["get/a%2Fb", "get/50%25", "ask/x%2Fy [z]"]
    succeed("start", "web", "--run-id", "w", "--steps", ",".join(steps), cwd=project)
    succeed("step", "fail", "get [a/b]", "--error", "no", "--resume-with", "again", cwd=project)
    succeed("note", "slow", "--step", "get [a/b]", cwd=project)
    assert "get [50%]\n" == succeed("next", "--start", cwd=project).out
    succeed("step", "done", "/get [50%]", cwd=project)
    put(project, "step", steps[2], {"status": "waiting", "kind": "approval"}, "w")
    ask(project, steps[2], "w", options=["approve", "reject"])
    said = [
        call(*words, cwd=project)
        for words in (
            ("brief",),
            ("next",),
            ("diff", "w@1"),
            ("verify",),
            ("step", "done", "ask [x/y [z]]"),
            ("approve", "w", "get [a/b]"),
            ("unblock", "w", "get [a/b]"),
            ("resume", "--from-step", "get [b/a]"),
            ("logs", "w", "get [a/c]"),
            ("show",),
        )
    ]
    for done in said:  # a record that is shown as JSON is as programs get it
        assert "%2" not in (done.out + done.err).replace('"step":"get/a%2Fb"', ""), str(done)
    assert "leftoff approve w 'ask [x/y [z]]'" in said[0].out
    assert "- for step “get [a/b]”: “again”" in said[0].out and "[“get [a/b]”] “slow”" in said[0].out
    assert "~ get [50%]: pending → completed" in said[2].out
    assert "Did you mean get [a/b]" in said[8].err
    with pytest.raises(NeedsPerson, match=r"Step ask \[x/y \[z\]\] is a decision"):
        Tools(str(project), None).report_step("ask [x/y [z]]", "completed")
    succeed("approve", "w", "ask [x/y [z]]", cwd=project)


def test_items_of_a_python_loop(project: Path) -> None:
    """Whether the name had to be encoded or not, and however the items come; a step beside them is none."""
    with leftoff.open(project / ".leftoff") as store, store.start("loop", run_id="l") as run:
        for _ in run.each("listed", ["a", "b/c"]):
            pass
        for _ in run.each("made", (name for name in ("p", "q"))):
            pass
        with run.step("outer"), run.step("outer/inner"):
            pass
        run.pause()
    expected = {"listed/a": "a", "listed/b%2Fc": "b/c", "made/p": "p", "made/q": "q"}
    records = succeed("show", "l", "--json", cwd=project).json["step_records"]
    plan = succeed("verify", "l", "--json", cwd=project).json["plan"]
    for document in (*records, *plan):
        assert expected.get(document["step"]) == document.get("item"), document
    assert expected.keys() <= {document["step"] for document in plan}
