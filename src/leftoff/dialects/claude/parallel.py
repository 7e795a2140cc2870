"""claude's `parallel_ops/*.json`: what is about to be done to several parts of a plan at once, one step each."""

from __future__ import annotations

import re

from leftoff.dialects.draft import STEP_FIELDS
from leftoff.dialects.loose_values import run_words, shown, step_words
from leftoff.model.ids import quote_part, unquote_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import Draft, State

FOLDER = "parallel_ops"
WORKFLOW = "parallel"
KEYS = ("operation_type", "plan_path", "operations")
KIND, PLAN = "operation_type", "plan_path"  # `run` records
STATUS = run_words({"paused": "pre_execution", "running": "in_progress"})
_STEPS = step_words({"running": "in_progress"})
_ID = re.compile(r"parallel_([a-z]+)_(.+)_\d{8}_\d{6}\Z")


def is_parallel(document: dict[str, Any]) -> bool:
    return KIND in document and "workflow_type" not in document


def decode(draft: Draft, document: dict[str, Any], given: str) -> None:
    """Everything but the id and the times."""
    match = _ID.match(given)
    draft.run("workflow", WORKFLOW)
    draft.run(KIND, draft.text(document, KIND))
    plan = draft.text(document, PLAN)
    draft.run(PLAN, plan)
    draft.run("title", f"{document.get(KIND)} {plan}" if plan else None)
    if match:
        draft.run("project", match[2])
    draft.run("status", draft.status(STATUS, document, "status", "paused"))
    for number, entry in enumerate(draft.entries(document, "operations")):
        _operation(draft, entry, number)


def _operation(draft: Draft, entry: Any, number: int) -> None:
    about = dict(entry) if isinstance(entry, dict) else {"item_id": entry}
    name = about.pop("item_id", None)
    if not isinstance(name, (str, int)) or isinstance(name, bool) or name == "":
        draft.repairs.add(f"operations: {shown(entry)} has no item_id; kept as it is written.")
        return
    record: dict[str, Any] = {"status": "pending", "order": number}
    if "status" in about:
        record["status"] = _STEPS.read(about.pop("status"), "pending", draft.repairs, f"operation {name}")
    record |= {key: value for key, value in about.items() if key not in STEP_FIELDS}
    if not draft.put("step", quote_part(str(name)), record):
        draft.repairs.add(f"the operation {shown(name)} is there twice; the first one counts.")


def encode(state: State) -> dict[str, Any]:
    leaves = state.leaves()
    begun = any(step.get("status") != "pending" for _, step in leaves)
    return {
        "checkpoint_id": state.run_id,
        KIND: state.run(KIND),
        PLAN: state.run(PLAN),
        "created_at": state.run("created_at"),
        "operations": [_entry(path, step, begun) for path, step in leaves],
        "status": STATUS.write(state.status),
    }


def _entry(path: str, step: dict[str, Any], begun: bool) -> dict[str, Any]:
    """An operation as it was asked for; once the first one has begun, with its status."""
    entry = {"item_id": unquote_part(path), **{k: v for k, v in step.items() if k not in STEP_FIELDS}}
    return {**entry, "status": _STEPS.write(str(step.get("status")))} if begun else entry
