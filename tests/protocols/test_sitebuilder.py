"""sitebuilder's checkpoints, edited by hand and gone on with: what is worked out, and the lists of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leftoff.clock import SYSTEM, iso
from leftoff.protocols.sitebuilder import with_tasks
from tests.cli.command import call, succeed
from tests.protocols.examples import SITEBUILDER
from tests.protocols.files import SITEBUILDER_FILE, put


@pytest.fixture
def task(project: Path) -> Path:
    """A task with three subtasks: one is done, with its output, the next one blocked. Its file."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    words = ("--task", "T060", "--agent", "Riley", "--title", "Convert", "--steps", "post-01,post-02,post-03")
    succeed("start", "migration", *words, cwd=project)
    (project / "post-01.md").write_text("one")
    succeed("step", "done", "post-01", "--output", "post-01.md", cwd=project)
    succeed("step", "block", "post-02", "--error", "no pdf", cwd=project)
    return project / SITEBUILDER_FILE


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def where(document: Any) -> tuple[Any, ...]:
    context = document["context"]
    return context["last_processed"], context["next_to_process"], document["resume_instructions"]


def test_where_to_go_on_follows_an_edit(task: Path, project: Path) -> None:
    """An agent completes an item by hand: what it did not touch is worked out anew, and gone when all is done."""
    document = read(task)
    assert ("post-01", "post-02", "Continue from post-02") == where(document)
    document["subtasks"]["items"][1]["status"] = "complete"
    put(task, document)
    succeed("set", "x=1", cwd=project)
    assert ("post-02", "post-03", "Continue from post-03") == where(read(task))
    succeed("step", "done", "post-03", cwd=project)
    succeed("finish", cwd=project)
    done = read(task.with_name("migration-T060-complete.json"))
    assert ("post-03", None, None) == where(done)


def test_what_an_agent_says_of_it_stays(task: Path, project: Path) -> None:
    """Where to go on in an agent's own words holds."""
    document = read(task)
    document["resume_instructions"] = "Ask Ada for the PDF"
    document["context"]["next_to_process"] = "Post02English.pdf"
    put(task, document)
    succeed("step", "done", "post-02", cwd=project)
    assert ("post-02", "Post02English.pdf", "Ask Ada for the PDF") == where(read(task))


def test_files_that_are_added_stay(task: Path, project: Path) -> None:
    """Whoever adds them; one that is removed from the list by hand is gone."""
    document = read(task)
    document["files_created"] += ["z.md", "b.md"]
    document["files_modified"] += ["m.md", "a.md"]
    put(task, document)
    (project / "a-new.md").write_text("new")
    succeed("artifact", "a-new.md", cwd=project)
    document = read(task)
    assert {"post-01.md", "z.md", "b.md", "a-new.md"} == set(document["files_created"])
    assert {"m.md", "a.md"} == set(document["files_modified"])
    document["files_created"].remove("z.md")
    put(task, document)
    succeed("set", "x=2", cwd=project)
    assert {"post-01.md", "b.md", "a-new.md"} == set(read(task)["files_created"])


def test_what_was_created_stays_created(project: Path) -> None:
    """Going on although files are gone does not turn those that the agent created into modified ones."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    path = put(project / SITEBUILDER_FILE, SITEBUILDER["schema"])
    succeed("resume", "migration-T060", "--yes", cwd=project)
    document = read(path)
    for key in ("files_created", "files_modified"):
        assert SITEBUILDER["schema"][key] == document[key]


ROW = {
    "agent": "migration",
    "task": "T060",
    "percent": 65,
    "at": "1970-01-01T00:00:00Z",
    "status": "in_progress",
}
TABLE = """## Active Checkpoints

| Agent | Task | Progress | Last Update | Status |
|-------|------|----------|-------------|--------|
| migration | T060 | 65% | 2 min ago | in_progress |
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", TABLE),
        ("# Status\n\nText.\n", f"# Status\n\nText.\n\n{TABLE}"),
        (
            "# Status\n\n## Active Checkpoints\n\n## Notes\n\nMine.\n",
            f"# Status\n\n{TABLE}\n## Notes\n\nMine.\n",
        ),
        ("## Active Checkpoints\nText.", TABLE.replace("\n\n", "\nText.\n\n", 1)),
        (
            TABLE.replace("65%", "10%") + "\nMine.\n\n| a | b |\n|---|---|\n",
            TABLE + "\nMine.\n\n| a | b |\n|---|---|\n",
        ),
        (
            "## Active Checkpoints\n\n| Task | Owner | Agent | Status |\n|---|---|---|---|\n"
            "| T001 | Eve | content | not started |\n| T060 | Ada | migration | blocked |\n\n\u2028\udcff\n",
            "## Active Checkpoints\n\n| Task | Owner | Agent | Status |\n|---|---|---|---|\n"
            "| T060 | Ada | migration | in_progress |\n| T001 | Eve | content | not started |\n\n\u2028\udcff\n",
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_our_rows_of_the_page_change(before: str, after: str, end: str) -> None:
    """Columns and rows that people added stay, as do other tables, texts and the way lines end; twice is the same."""
    if not before.count("\n"):
        end = "\n"
    page, then = (text.replace("\n", end).encode("utf-8", "surrogateescape") for text in (before, after))
    assert then == with_tasks(page, [ROW], 120_000)
    assert then == with_tasks(then, [ROW], 120_000)


def test_a_row_is_one_line_of_cells() -> None:
    """Whatever an agent is called."""
    page = with_tasks(b"", [{**ROW, "agent": "a|b\nc"}], 120_000)
    assert page.splitlines()[-1].startswith(b"| a\\|b c | T060 |")
    assert page == with_tasks(page, [{**ROW, "agent": "a|b\nc"}], 120_000)


def beaten(minutes: int, **more: Any) -> dict[str, Any]:
    return {"last_beat": iso(SYSTEM.now() - minutes * 60_000), **more}


def test_a_heartbeat_that_an_agent_writes_counts(project: Path) -> None:
    """Imported, and later in the file: it makes no version, and what else the agent says of it stays."""
    old = iso(SYSTEM.now() - 40 * 60_000)
    own = {"interval_seconds": 120, "host": "box"}
    document = {**SITEBUILDER["schema"], "status": "in_progress", "started_at": old, "updated_at": old}
    path = put(project / SITEBUILDER_FILE, {**document, "heartbeat": beaten(3, **own)})
    succeed("init", "--protocol", "sitebuilder", cwd=project)

    def run() -> Any:
        return succeed("ls", "--json", cwd=project).json["runs"][0]

    assert "alive" == run()["health"]
    succeed("beat", cwd=project)
    seq, said = run()["head"]["seq"], json.loads(path.read_text())
    assert own.items() <= said["heartbeat"].items()
    said["heartbeat"]["last_beat"] = later = iso(SYSTEM.now() + 1000)
    path.write_text(json.dumps(said))
    found = call("show", "--json", cwd=project)
    assert (seq, "") == (found.json["head"]["seq"], found.err) and "conflict" not in found.json["records"]
    succeed("set", "x=1", cwd=project)
    assert later <= json.loads(path.read_text())["heartbeat"]["last_beat"]


def test_what_was_processed_last_is_in_the_brief(task: Path, project: Path) -> None:
    """With its value: whoever goes on must not have to ask for it."""
    document = read(task)
    document["context"] |= {"last_processed": "Post19.pdf", "next_to_process": "Post20.pdf", "more": {"a": 1}}
    put(task, document)
    told = succeed("brief", cwd=project).out
    assert "- last_processed: “Post19.pdf”" in told and "- next_to_process: “Post20.pdf”" in told
    assert "context: more" in told


@pytest.mark.parametrize(
    ("there", "root"),
    [
        ("docs/agentic-orchestration", "docs/agentic-orchestration/progress"),
        ("docs/agentic-orchestration/progress", "docs/agentic-orchestration/progress"),
        ("progress/checkpoints docs/agentic-orchestration", "progress"),
        ("docs", "progress"),
    ],
)
def test_where_its_files_are(project: Path, there: str, root: str) -> None:
    """Where the protocol's folder is, unless there are checkpoints elsewhere; what git shall ignore is there too."""
    for folder in there.split():
        (project / folder).mkdir(parents=True, exist_ok=True)
    assert f"    {root}/checkpoints/\n" in succeed("init", "--protocol", "sitebuilder", cwd=project).out
    succeed("start", "migration", "--task", "T060", cwd=project)
    assert (project / root / "checkpoints/migration-T060.json").is_file()


def test_a_beat_of_a_blocked_run_says_that_it_does_nothing(task: Path, project: Path) -> None:
    assert "migration-T060 is blocked" in succeed("beat", cwd=project).err
    succeed("unblock", "migration-T060", cwd=project)
    assert "" == succeed("beat", cwd=project).err


def test_an_agents_heartbeat_is_changed_beside_ours(project: Path) -> None:
    """Its own interval is taken over after a beat of ours, and nothing contradicts."""
    document = {**SITEBUILDER["schema"], "heartbeat": {"last_beat": iso(SYSTEM.now() - 60_000), "own": "key"}}
    task = put(project / SITEBUILDER_FILE, document)
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    succeed("beat", cwd=project)
    document = read(task)
    document["heartbeat"] |= {"last_beat": iso(SYSTEM.now()), "interval_seconds": 60}
    put(task, document)
    assert "both changed" not in succeed("show", cwd=project).err
    succeed("beat", cwd=project)
    beat = read(task)["heartbeat"]
    assert (60, "key") == (beat["interval_seconds"], beat["own"])


def test_an_id_of_all_its_checkpoints_is_nothing_to_go_back_to(task: Path, project: Path) -> None:
    """Whoever looks, or goes on, means the newest one; a rollback never guesses, and lists them."""
    name, version = read(task)["checkpoint_id"], "migration-T060@2"
    assert succeed("show", name, cwd=project).out == succeed("show", "migration-T060~0", cwd=project).out
    for ref in (name, f"migration-T060@{name}"):
        refused = call("rollback", ref, "--yes", cwd=project)
        assert 2 == refused.code and version in refused.err, str(refused)
    succeed("rollback", version, "--yes", cwd=project)


def test_what_is_not_met_becomes_a_subtask(project: Path) -> None:
    """Scenario 3, partial completion: a subtask for the criterion is dispatched, and no step is done again."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    succeed("start", "migration", "--task", "T060", "--steps", "post-01", cwd=project)
    succeed("step", "done", "post-01", cwd=project)
    succeed("put", "criterion", "29 files", "false", cwd=project)
    succeed("finish", cwd=project)
    assert "--only 29 files" in succeed("resume", "migration-T060", cwd=project).out
    assert 3 == call("resume", "migration-T060", "--only", "30-files", cwd=project).code
    succeed("resume", "migration-T060", "--only", "29 files", cwd=project)
    found = succeed("next", "--json", cwd=project).json
    assert "29-files" == found["step"] and "put criterion '29 files' true" in found["instructions"]
    items = json.loads((project / SITEBUILDER_FILE).read_text())["subtasks"]["items"]
    assert [("post-01", "complete"), ("29-files", "pending")] == [
        (each["id"], each["status"]) for each in items
    ]


def test_an_id_in_two_runs_is_never_guessed(project: Path) -> None:
    """A file that was copied for another task carries the first one's id: it names neither."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    succeed("start", "migration", "--task", "T060", "--steps", "post-01", cwd=project)
    succeed("step", "done", "post-01", cwd=project)
    file = project / SITEBUILDER_FILE
    document = json.loads(file.read_text())
    own = document["checkpoint_id"]
    assert "migration-T060" == succeed("show", own, "--json", cwd=project).json["run_id"]
    put(file.with_name("migration-T061.json"), {**document, "task_id": "T061"})
    found = call("show", own, cwd=project)
    assert 2 == found.code and "migration-T060@" in found.err and "migration-T061@" in found.err, str(found)
    assert "migration-T061" == succeed("show", f"migration-T061@{own}", "--json", cwd=project).json["run_id"]
