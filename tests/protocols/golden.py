"""What the protocols' files look like after a few steps, written by hand from the protocols."""

from __future__ import annotations

CRUNCH_INDEX = {
    "issue_number": 42,
    "checkpoints": ["batch_complete", "conflict_start", "manual"],
    "latest": "CP-enrich-DATE-HEX",
    "total_checkpoints": 3,
}

CRUNCH = {
    "checkpoint_id": "CP-enrich-DATE-HEX",
    "version": "1.0",
    "created_at": "TIME",
    "issue_number": 42,
    "session_id": None,
    "workflow_state": {
        "current_phase": "enrich",
        "current_state_label": "state:enrich",
        "phase_started_at": "TIME",
        "phase_attempt": 1,
    },
    "issue_snapshot": {
        "title": "JWT",
        "body": None,
        "labels": ["state:enrich"],
        "assignees": [],
        "branch": None,
    },
    "team_state": {
        "team_id": None,
        "members": [{"agent": "orchestrator", "role": "coordinator", "status": "active"}],
    },
    "execution_graph": {
        "graph_id": None,
        "completed_batches": [1],
        "current_batch": 2,
        "node_states": {
            "batch_1_task_1": {"status": "completed", "started_at": "TIME", "completed_at": "TIME"}
        },
    },
    "agent_outputs": {
        "architect": {
            "create_spec": {"completed_at": "TIME", "output_summary": "Spec", "output_location": None}
        }
    },
    "acp_state": {
        "pending_messages": ["MSG-1"],
        "awaiting_response": [],
        "conflicts_in_progress": ["CONF-1"],
    },
    "knowledge_context": {"injected_entries": [], "captured_entries": ["KE-1"], "pending_captures": []},
    "files_modified": [],
    "recovery_info": {"can_resume": True, "resume_from": "enrich", "prerequisites_met": True, "warnings": []},
}

SITEBUILDER_TABLE = """\
## Active Checkpoints

| Agent | Task | Progress | Last Update | Status |
|-------|------|----------|-------------|--------|
| content | T001 | 0% | — | not started |
"""
