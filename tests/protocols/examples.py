"""The examples of the five protocols, placeholders filled in; fragments as they stand there."""

from __future__ import annotations

from typing import Any

BMAD: dict[str, dict[str, Any]] = {
    "state": {
        "run_id": "dev-story-20260227-143022",
        "workflow_path": "bmm/workflows/dev-story/workflow.yaml",
        "session_branch": "feature-auth",
        "started_at": "2026-02-27T14:30:22Z",
        "last_checkpoint": "2026-02-27T15:02:10Z",
        "status": "running",
        "steps_completed": [1, 2, 3],
        "current_step": 4,
        "total_steps": 8,
        "resume_from_step": 4,
        "session_variables": {
            "user_name": "Ada",
            "project_name": "demo",
            "workflow_specific_var_1": "one",
            "workflow_specific_var_2": "two",
        },
        "artefacts_produced": [
            {"step": 1, "name": "brief", "path": "artefacts/step-01-output.md"},
            {"step": 2, "name": "plan", "path": "artefacts/step-02-output.md"},
        ],
        "checkpoint_id": "a3f9b2",
        "issues": [],
        "agent_notes": "Notes libres de l'agent sur l'exécution",
    },
}

CRUNCH: dict[str, dict[str, Any]] = {
    "full": {
        "checkpoint_id": "CP-enrich-20250114-a3f2",
        "version": "1.0",
        "created_at": "2025-01-14T10:00:00Z",
        "issue_number": 42,
        "session_id": "0b6f0f54-6a3e-4d6c-9d1f-2c9c2f0b7a11",
        "workflow_state": {
            "current_phase": "enrich",
            "current_state_label": "state:enrich",
            "phase_started_at": "2025-01-14T09:30:00Z",
            "phase_attempt": 1,
        },
        "issue_snapshot": {
            "title": "Issue title",
            "body": "Full issue body at checkpoint",
            "labels": ["state:enrich", "type:feature", "domain:security"],
            "assignees": [],
            "branch": "feature/issue-42-jwt-refresh",
        },
        "team_state": {
            "team_id": "TEAM-20250114-a3f2",
            "members": [
                {
                    "agent": "orchestrator",
                    "role": "coordinator",
                    "status": "active",
                    "tasks_completed": 2,
                    "tasks_pending": 1,
                }
            ],
        },
        "execution_graph": {
            "graph_id": "GRAPH-20250114-a3f2",
            "completed_batches": [1, 2],
            "current_batch": 3,
            "node_states": {},
        },
        "agent_outputs": {
            "system-architect": {
                "create_spec": {
                    "completed_at": "2025-01-14T09:55:00Z",
                    "output_summary": "Spec created for JWT refresh token feature",
                    "output_location": ".claude/crunch/42/spec.md",
                }
            }
        },
        "acp_state": {
            "pending_messages": ["MSG-1", "MSG-2"],
            "awaiting_response": ["MSG-3"],
            "conflicts_in_progress": ["CONF-1"],
        },
        "knowledge_context": {
            "injected_entries": ["KE-1"],
            "captured_entries": ["KE-2"],
            "pending_captures": [],
        },
        "files_modified": [{"path": "src/auth/tokens.py", "status": "modified", "staged": True}],
        "recovery_info": {
            "can_resume": True,
            "resume_from": "batch_3_task_1",
            "prerequisites_met": True,
            "warnings": [],
        },
    },
}

DOTAGENT: dict[str, dict[str, Any]] = {
    "phase": {
        "phase": {
            "workflow_id": "checkout-flow",
            "started_at": "2026-03-01T09:00:00Z",
            "last_updated": "2026-03-01T09:40:00Z",
            "current_phase": "ARCHITECTURE",
            "phase_status": "in_progress",
            "completed_phases": [
                {
                    "phase": "REQUIREMENTS",
                    "completed_at": "2026-03-01T09:20:00Z",
                    "output": "memory/reports/demand.json",
                }
            ],
            "user_checkpoints": [{"phase": "REQUIREMENTS", "approved_at": "2026-03-01T09:21:00Z"}],
            "interruption_safe": True,
        }
    },
    "with tasks": {
        "phase": {
            "workflow_id": "checkout-flow",
            "started_at": "2026-03-01T09:00:00Z",
            "last_updated": "2026-03-01T11:40:00Z",
            "current_phase": "IMPLEMENTATION",
            "phase_status": "in_progress",
            "completed_phases": [
                {
                    "phase": "REQUIREMENTS",
                    "completed_at": "2026-03-01T09:20:00Z",
                    "output": "memory/reports/demand.json",
                },
                {
                    "phase": "ARCHITECTURE",
                    "completed_at": "2026-03-01T10:20:00Z",
                    "output": "memory/reports/final_design.json",
                },
            ],
            "user_checkpoints": [],
            "interruption_safe": True,
        },
        "execution": {
            "workflow_id": "checkout-flow",
            "tasks": [
                {
                    "id": "task-001",
                    "status": "complete",
                    "attempts": 1,
                    "started_at": "2026-03-01T10:30:00Z",
                    "completed_at": "2026-03-01T10:50:00Z",
                    "output": "memory/reports/task-001.json",
                    "error": None,
                },
                {
                    "id": "task-002",
                    "status": "running",
                    "attempts": 2,
                    "started_at": "2026-03-01T11:00:00Z",
                    "completed_at": None,
                    "output": None,
                    "error": None,
                },
            ],
        },
    },
}

SITEBUILDER: dict[str, dict[str, Any]] = {
    "schema": {
        "checkpoint_id": "migration-T060-20251208-143025",
        "agent": "migration",
        "agent_name": "Riley",
        "task_id": "T060",
        "task_title": "Convert Nature Trail PDFs to Markdown",
        "status": "in_progress",
        "progress_percent": 65,
        "started_at": "2025-12-08T14:30:25Z",
        "updated_at": "2025-12-08T14:52:10Z",
        "completed_at": None,
        "subtasks": {
            "total": 29,
            "completed": 19,
            "failed": 0,
            "items": [
                {"id": "post-01", "status": "complete", "output": "pdfs-markdown/nature-trail/post-01.md"},
                {"id": "post-02", "status": "complete", "output": "pdfs-markdown/nature-trail/post-02.md"},
                {"id": "post-20", "status": "in_progress", "output": None},
                {"id": "post-21", "status": "pending", "output": None},
            ],
        },
        "files_created": [
            "docs/content-extraction/pdfs-markdown/nature-trail/post-01.md",
            "docs/content-extraction/pdfs-markdown/nature-trail/post-02.md",
        ],
        "files_modified": ["docs/content-extraction/pdfs-markdown/MANIFEST.json"],
        "acceptance_criteria_met": {
            "29_files_created": False,
            "frontmatter_valid": True,
            "manifest_updated": True,
        },
        "review_scores": {"agent_4": None, "agent_5": None},
        "errors": [],
        "context": {
            "last_processed": "Post19English.pdf",
            "next_to_process": "Post20English.pdf",
            "notes": "Hindi and Polish variants discovered - flagging for review",
        },
        "resumable": True,
        "resume_instructions": "Continue from post-20.md, source: NatureTrail/NTEnglish/Text/Post20English.pdf",
    },
    "task start": {
        "checkpoint_id": "migration-T060-20251208-143025",
        "status": "in_progress",
        "progress_percent": 0,
        "started_at": "2025-12-08T14:30:25Z",
        "subtasks": {"total": 29, "completed": 0},
        "resumable": True,
    },
    "progress": {
        "status": "in_progress",
        "progress_percent": 35,
        "updated_at": "2025-12-08T14:45:00Z",
        "subtasks": {"total": 29, "completed": 10},
        "context": {"last_processed": "Post10English.pdf", "next_to_process": "Post11English.pdf"},
    },
    "completion": {
        "status": "complete",
        "progress_percent": 100,
        "completed_at": "2025-12-08T15:30:00Z",
        "subtasks": {"total": 29, "completed": 29},
        "acceptance_criteria_met": {
            "29_files_created": True,
            "frontmatter_valid": True,
            "manifest_updated": True,
        },
        "review_scores": {"agent_4": 85},
    },
    "blocked": {
        "status": "blocked",
        "progress_percent": 65,
        "errors": [
            {
                "type": "dependency_missing",
                "message": "Cannot find source PDF: Post20English.pdf",
                "timestamp": "2025-12-08T14:52:10Z",
                "blocking": True,
            }
        ],
        "resumable": True,
        "resume_instructions": "Resolve missing PDF, then continue from post-20",
    },
    "heartbeat": {
        "heartbeat": {"last_beat": "2025-12-08T14:55:00Z", "interval_seconds": 300, "status": "alive"}
    },
    "full start": {
        "checkpoint_id": "migration-T060-20251208-143025",
        "agent": "migration",
        "task_id": "T060",
        "status": "in_progress",
        "progress_percent": 0,
        "started_at": "2025-12-08T14:30:25Z",
        "updated_at": "2025-12-08T14:30:25Z",
        "subtasks": {"total": 29, "completed": 0, "items": []},
        "files_created": [],
        "resumable": True,
    },
    "full middle": {
        "status": "in_progress",
        "progress_percent": 34,
        "updated_at": "2025-12-08T14:45:00Z",
        "subtasks": {
            "total": 29,
            "completed": 10,
            "items": [
                {"id": "post-01", "status": "complete"},
                {"id": "post-10", "status": "complete"},
                {"id": "post-11", "status": "pending"},
            ],
        },
        "files_created": [
            "docs/content-extraction/pdfs-markdown/nature-trail/post-01.md",
            "docs/content-extraction/pdfs-markdown/nature-trail/post-10.md",
        ],
        "context": {"last_processed": "Post10English.pdf", "next_to_process": "Post11English.pdf"},
    },
    "full end": {
        "status": "complete",
        "progress_percent": 100,
        "updated_at": "2025-12-08T15:30:00Z",
        "completed_at": "2025-12-08T15:30:00Z",
        "subtasks": {"total": 29, "completed": 29},
        "acceptance_criteria_met": {
            "29_files_created": True,
            "frontmatter_valid": True,
            "manifest_updated": True,
        },
        "review_scores": {"agent_4": 88},
        "resumable": False,
    },
}

CLAUDE: dict[str, dict[str, Any]] = {
    "format": {
        "checkpoint_id": "orchestrate_auth_system_20251003_184530",
        "workflow_type": "orchestrate",
        "workflow_description": "Implement authentication system",
        "created_at": "2025-10-03T18:45:30Z",
        "updated_at": "2025-10-03T18:52:15Z",
        "status": "in_progress",
        "current_phase": 2,
        "total_phases": 5,
        "completed_phases": [1],
        "workflow_state": {
            "project_name": "auth_system",
            "artifact_registry": {"plan": "specs/plans/022_auth_implementation.md"},
            "research_results": ["tokens", "sessions"],
            "plan_path": "specs/plans/022_auth_implementation.md",
        },
        "last_error": None,
    },
    "schema 2.1": {
        "schema_version": "2.1",
        "checkpoint_id": "implement_dark_mode_20251003_192230",
        "workflow_type": "implement",
        "project_name": "dark_mode",
        "workflow_description": "Dark mode",
        "created_at": "2025-10-03T19:22:30Z",
        "updated_at": "2025-10-03T19:40:00Z",
        "status": "in_progress",
        "current_phase": 3,
        "total_phases": 4,
        "completed_phases": [1, 2],
        "workflow_state": {"plan_path": "specs/plans/023_dark_mode.md"},
        "last_error": "1 test failed",
        "tests_passing": False,
        "plan_modification_time": 1759519350,
        "replanning_count": 1,
        "last_replan_reason": "scope grew",
        "replan_phase_counts": {"phase_2": 1},
        "replan_history": [{"phase": 2, "reason": "scope grew"}],
        "debug_report_path": None,
        "user_last_choice": None,
        "debug_iteration_count": 0,
        "state_machine": {
            "current_state": "implement",
            "completed_states": ["research", "plan"],
            "transition_table": {"implement": "test,debug"},
            "workflow_config": {"scope": "full"},
            "classification": {"type": "feature"},
        },
        "phase_data": {"2": {"files": 3}},
        "supervisor_state": {},
        "error_state": {"last_error": None, "retry_count": 0, "failed_state": None},
        "metadata": {"tool": "checkpoint-utils"},
    },
    "parallel operation": {
        "checkpoint_id": "parallel_expand_023_dark_mode_20251003_193000",
        "operation_type": "expand",
        "plan_path": "specs/plans/023_dark_mode.md",
        "created_at": "2025-10-03T19:30:00Z",
        "operations": [{"item_id": "phase_1", "complexity": 8}, {"item_id": "phase_3", "complexity": 9}],
        "status": "pre_execution",
    },
}

#: protocol: where its documents lie, and its examples
EXAMPLES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "bmad": ("_bmad-output/.runs/main/dev-story-20260227-143022/state.json", BMAD),
    "crunch": (".claude/crunch/42/checkpoints/CP-enrich-20250114-a3f2.yaml", CRUNCH),
    "dotagent": ("memory/state/phase.json", DOTAGENT),
    "sitebuilder": ("progress/checkpoints/migration-T060.json", SITEBUILDER),
    "claude-checkpoints": (".claude/checkpoints/orchestrate_auth_system_20251003_184530.json", CLAUDE),
}
