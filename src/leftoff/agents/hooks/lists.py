"""Todo lists and plans, as agents keep them in tool calls."""

from __future__ import annotations

from leftoff.engine.steps.lists import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.agents.hooks.events import Event

# tool: the key of its list, the key of an entry's text
_LISTS = {
    "TodoWrite": ("todos", "content"),
    "update_plan": ("plan", "step"),
    "write_todos": ("todos", "description"),
}
_STATUS = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "cancelled": "skipped",
    "deleted": "skipped",
}
_MOST = 2000  # entries of a list
_BULLETS = ("- ", "* ", "+ ")


def listed(event: Event) -> list[Item] | None:
    """The list in a tool call; ``None`` where there is none."""
    tool, given = event.tool, event.given
    if tool == "ExitPlanMode":
        plan = given.get("plan")
        return _planned(plan) if isinstance(plan, str) else None
    if tool not in _LISTS:
        return None
    key, word = _LISTS[tool]
    entries = given.get(key)
    if not isinstance(entries, list):
        return None
    found = [_item(entry, word) for entry in entries[:_MOST] if isinstance(entry, dict)]
    return [item for item in found if item.text]


def _item(entry: dict[str, Any], word: str) -> Item:
    return Item(str(entry.get(word) or entry.get("content") or ""), _status(entry))


def _status(entry: dict[str, Any]) -> str:
    """The status of a step, from the agent's word for it."""
    return _STATUS.get(str(entry.get("status")), "pending")


def _planned(plan: str) -> list[Item] | None:
    """The outermost entries of a plan's lists, if it has any."""
    out = []
    for line in plan.splitlines():
        number, dot, rest = line.partition(". ")
        if dot and number.isdigit():
            out.append(Item(rest))
        elif line.startswith(_BULLETS):
            out.append(Item(line[2:]))
    return [item for item in out[:_MOST] if item.text] or None


def tool_task(event: Event) -> Item | None:
    """`TaskCreate` and `TaskUpdate`: one entry of the list at a time; ``None`` where its status stays."""
    given, answer = event.given, event.data.get("tool_response")
    made = answer.get("task", answer) if isinstance(answer, dict) else None
    task = given.get("taskId") or (made.get("id") if isinstance(made, dict) else None)
    if event.tool == "TaskUpdate" and "status" not in given:
        return None
    return Item(str(given.get("subject") or ""), _status(given), str(task) if task else None)


def task(event: Event, status: str) -> Item:
    """The entry that an event of its own is about."""
    return Item(event.text("task_subject").strip()[:2000], status, event.text("task_id") or None)
