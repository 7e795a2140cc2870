"""The protocols' own examples: read without loss, written as they are, and mapped onto the right records."""

from __future__ import annotations

from typing import Any

import pytest

from leftoff.model.codec import decode, text
from leftoff.protocols.document_draft import Source, State
from leftoff.protocols.loose_values import Repairs
from leftoff.protocols.protocol import decode_document, write
from leftoff.protocols.registry import BUILT_IN, protocol, recognise
from tests.protocols.examples import BMAD, CLAUDE, CRUNCH, DOTAGENT, EXAMPLES, SITEBUILDER

ALL = [(name, title) for name in BUILT_IN for title in EXAMPLES[name][1]]


def decoded(name: str, document: dict[str, Any]) -> tuple[State, Repairs]:
    repairs = Repairs()
    return decode_document(
        protocol(name), document, Source(EXAMPLES[name][0], 1_765_000_000_000), repairs
    ), repairs


@pytest.mark.parametrize(("name", "title"), ALL)
def test_written_as_it_was_read(name: str, title: str) -> None:
    """Encoding what was decoded gives the same document, also through storage."""
    document = EXAMPLES[name][1][title]
    found, _ = decoded(name, document)
    found.records = {address: decode(text(value)) for address, value in found.records.items()}
    again = write(protocol(name), found)
    assert document == again


@pytest.mark.parametrize(("name", "title"), ALL)
def test_read_again_it_is_the_same(name: str, title: str) -> None:
    """Decoding what was encoded gives the same records."""
    found, _ = decoded(name, EXAMPLES[name][1][title])
    again, _ = decoded(name, write(protocol(name), found))
    assert found.records == again.records
    assert (found.run_id, found.at, found.aliases) == (again.run_id, again.at, again.aliases)


@pytest.mark.parametrize("name", BUILT_IN)
def test_recognised(name: str) -> None:
    """A full example is known for what it is, wherever it lies."""
    title, document = next(iter(EXAMPLES[name][1].items()))
    if name == "dotagent":
        document = document["phase"]
    assert name == recognise(document, "somewhere.json").name, title


def test_bmad_records() -> None:
    """Steps are counted from 1, those that are completed are so, and the id in the document is another name."""
    found, repairs = decoded("bmad", BMAD["state"])
    steps = {key: value["status"] for (kind, key), value in found.records.items() if kind == "step"}
    assert {str(n): "completed" if n < 4 else "pending" for n in range(1, 9)} == steps
    assert ["a3f9b2"] == found.aliases
    assert "dev-story" == found.records["run", "workflow"]
    assert "feature-auth" == found.records["run", "branch"]
    assert "Ada" == found.records["variable", "user_name"]
    assert {"step": "2", "name": "plan", "path": "artefacts/step-02-output.md"} == found.records[
        "artifact", "plan"
    ]
    assert [] == repairs.lines


def test_crunch_records() -> None:
    """Phases, batches, outputs, messages, conflicts, knowledge and members each have their place."""
    found, repairs = decoded("crunch", CRUNCH["full"])
    records = found.records
    assert "crunch-42" == found.run_id
    assert ["CP-enrich-20250114-a3f2"] == found.aliases
    assert "running" == records["step", "enrich"]["status"]
    assert "completed" == records["step", "enrich/batch-1"]["status"]
    assert "running" == records["step", "enrich/batch-3"]["status"]
    output = records["step", "enrich/system-architect/create_spec"]
    assert ("completed", [".claude/crunch/42/spec.md"]) == (output["status"], output["outputs"])
    assert "enrich/system-architect/create_spec" == records["artifact", ".claude/crunch/42/spec.md"]["step"]
    assert {"pending": True} == records["message", "MSG-1"]
    assert {"awaiting_response": True} == records["message", "MSG-3"]
    assert {"in_progress": True} == records["conflict", "CONF-1"]
    assert {"injected": True} == records["knowledge", "KE-1"]
    assert "coordinator" == records["member", "orchestrator"]["role"]
    assert ("42", "Issue title") == (records["run", "issue"], records["run", "title"])
    assert [] == repairs.lines


def test_dotagent_records() -> None:
    """Phases are steps, tasks are steps below one of them, and what a person approved is an approval."""
    records = decoded("dotagent", DOTAGENT["with tasks"])[0].records
    assert "completed" == records["step", "ARCHITECTURE"]["status"]
    assert ["memory/reports/demand.json"] == records["step", "REQUIREMENTS"]["outputs"]
    assert "completed" == records["step", "IMPLEMENTATION/task-001"]["status"]
    assert ("running", 2) == tuple(
        records["step", "IMPLEMENTATION/task-002"][k] for k in ("status", "attempt")
    )
    approved = decoded("dotagent", DOTAGENT["phase"])[0].records["approval", "REQUIREMENTS"]
    assert "2026-03-01T09:21:00Z" == approved["approved_at"]


def test_sitebuilder_records() -> None:
    """Subtasks are steps at the top; what is counted beyond those that are listed counts."""
    found, repairs = decoded("sitebuilder", SITEBUILDER["schema"])
    records = found.records
    assert "migration-T060" == found.run_id
    assert ["migration-T060-20251208-143025"] == found.aliases
    assert ("migration", "Riley", "T060") == tuple(records["run", k] for k in ("workflow", "agent", "task"))
    assert (29, {"completed": 17}) == (records["run", "total"], records["run", "beyond"])
    assert "running" == records["step", "post-20"]["status"]
    assert False is records["criterion", "29_files_created"]
    assert "Post20English.pdf" == records["context", "next_to_process"]
    assert True is records["note", "resume"]["resume"]
    assert "created" == records["file", SITEBUILDER["schema"]["files_created"][0]]["status"]
    assert [] == repairs.lines


def test_claude_operations() -> None:
    """What is about to be done to several parts of a plan is a run with a step for each."""
    found, repairs = decoded("claude-checkpoints", CLAUDE["parallel operation"])
    records = found.records
    assert "parallel_expand_023_dark_mode_20251003_193000" == found.run_id
    assert ("paused", "expand") == (records["run", "status"], records["run", "operation_type"])
    assert {"status": "pending", "order": 1, "complexity": 9} == records["step", "phase_3"]
    assert [] == repairs.lines


def test_claude_records() -> None:
    """Phases are counted from 1, the state is variables, and the project's name is found where the example has it."""
    found, repairs = decoded("claude-checkpoints", CLAUDE["format"])
    records = found.records
    assert "orchestrate_auth_system_20251003_184530" == found.run_id
    assert ("orchestrate", "auth_system") == (records["run", "workflow"], records["run", "project"])
    assert ["completed", "pending"] == [records["step", n]["status"] for n in ("1", "2")]
    assert ["tokens", "sessions"] == records["variable", "research_results"]
    assert ["project_name is missing; taken from workflow_state: auth_system."] == repairs.lines
