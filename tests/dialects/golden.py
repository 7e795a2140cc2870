"""What the protocols' files look like after a few steps, written by hand from the protocols."""

from __future__ import annotations

BMAD = {
    "run_id": "dev-story-STAMP",
    "workflow_path": None,
    "session_branch": "feature-auth",
    "started_at": "TIME",
    "last_checkpoint": "TIME",
    "status": "running",
    "steps_completed": [1],
    "current_step": 2,
    "total_steps": 3,
    "resume_from_step": 2,
    "session_variables": {"user_name": "Ada"},
    "artefacts_produced": [{"step": 1, "name": "out.md", "path": "out.md"}],
    "checkpoint_id": "",
    "issues": [
        {
            "at": "TIME",
            "attempt": 1,
            "message": "no compiler",
            "status": "failed",
            "step": "build",
            "type": "failed",
        }
    ],
    "agent_notes": "free text",
    "step_names": {"1": "plan", "2": "build", "3": "test"},
}

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

DOTAGENT_START = {
    "workflow_id": "dotagent-STAMP",
    "started_at": "TIME",
    "last_updated": "TIME",
    "current_phase": "REQUIREMENTS",
    "phase_status": "pending",
    "completed_phases": [],
    "user_checkpoints": [],
    "interruption_safe": True,
}

DOTAGENT_MIDDLE = {
    "workflow_id": "dotagent-STAMP",
    "started_at": "TIME",
    "last_updated": "TIME",
    "current_phase": "IMPLEMENTATION",
    "phase_status": "in_progress",
    "completed_phases": [
        {"phase": "REQUIREMENTS", "completed_at": "TIME", "output": "memory/reports/demand.json"},
        {"phase": "ARCHITECTURE", "completed_at": "TIME", "output": None},
    ],
    "user_checkpoints": [],
    "interruption_safe": True,
}

DOTAGENT_TASKS = {
    "workflow_id": "dotagent-STAMP",
    "tasks": [
        {
            "id": "task-001",
            "status": "failed",
            "attempts": 1,
            "started_at": "TIME",
            "completed_at": "TIME",
            "output": None,
            "error": "no disk",
        }
    ],
}

SITEBUILDER_TABLE = """\
## Active Checkpoints

| Agent | Task | Progress | Last Update | Status |
|-------|------|----------|-------------|--------|
| content | T001 | 0% | — | not started |
"""

SITEBUILDER = {
    "checkpoint_id": "migration-T060-STAMP",
    "agent": "migration",
    "agent_name": "Riley",
    "task_id": "T060",
    "task_title": "Convert",
    "status": "blocked",
    "progress_percent": 33,
    "started_at": "TIME",
    "updated_at": "TIME",
    "completed_at": None,
    "subtasks": {
        "total": 3,
        "completed": 1,
        "failed": 0,
        "items": [
            {"id": "post-01", "status": "complete", "output": None},
            {"id": "post-02", "status": "blocked", "output": None},
            {"id": "post-03", "status": "pending", "output": None},
        ],
    },
    "files_created": [],
    "files_modified": [],
    "acceptance_criteria_met": {"frontmatter_valid": True},
    "review_scores": {"agent_4": 85},
    "errors": [{"type": "dependency_missing", "message": "no pdf", "timestamp": "TIME", "blocking": True}],
    "context": {"last_processed": "post-01", "next_to_process": "post-02", "notes": None},
    "resumable": True,
    "resume_instructions": "find it",
}

CLAUDE = {
    "checkpoint_id": "implement_dark_mode_STAMP",
    "workflow_type": "implement",
    "project_name": "dark_mode",
    "workflow_description": "Dark mode",
    "created_at": "TIME",
    "updated_at": "TIME",
    "status": "in_progress",
    "current_phase": 2,
    "total_phases": 4,
    "completed_phases": [1],
    "workflow_state": {"plan_path": "specs/plan.md"},
    "last_error": None,
}
