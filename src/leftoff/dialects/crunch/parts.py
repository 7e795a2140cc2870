"""The parts of a crunch checkpoint: team, batches and nodes, outputs of agents, messages, knowledge."""

from __future__ import annotations

import re

from leftoff.dialects.draft import DONE, NUMBER, STEP_FIELDS, in_place
from leftoff.dialects.loose_values import shown, step_words
from leftoff.model.ids import quote_part, unquote_part
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import Draft, State

PHASES = ("enrich", "ready", "implementing", "validation", "docs")
_AT_WORK = ("running", "waiting", "blocked", "failed")
NODES = step_words({"running": "in_progress"}, {"running": "running"})
# key in the document: collection, flag of the record
ACP = {
    "pending_messages": ("message", "pending"),
    "awaiting_response": ("message", "awaiting_response"),
    "conflicts_in_progress": ("conflict", "in_progress"),
}
KNOWLEDGE = {
    "injected_entries": ("knowledge", "injected"),
    "captured_entries": ("knowledge", "captured"),
    "pending_captures": ("knowledge", "pending"),
}
#: what a record without any flag counts as
DEFAULT = {"message": "pending", "conflict": "in_progress", "knowledge": "captured"}
_OVER = ("resolved", "answered", "done", "closed", "completed")
_BATCH = re.compile(r"batch-(\d{1,6})\Z")
_NODE = re.compile(r"batch_(\d{1,6})_(.+)\Z", re.DOTALL)
_STEP = STEP_FIELDS | {"total", "node"}
_OUTPUT = ("completed_at", "output_summary", "output_location")


def can_resume(state: State) -> bool:
    return state.status in UNFINISHED and state.run("can_resume") is not False


# -- phases


def current_phase(state: State) -> tuple[str, dict[str, Any]]:
    """The phase that a checkpoint shows, and its record: a transition is made before the next phase begins."""
    steps = state.of("step")
    over = state.trigger == "phase_transition" and state.step in PHASES
    name = str(state.step) if over else phase_at_work(state)
    return name, _of(steps, name)


def phase_at_work(state: State) -> str:
    """The phase the run is in: the last one that is at work, else the first that is not done."""
    steps = state.of("step")
    busy = {path.partition("/")[0] for path, step in state.steps() if step.get("status") in _AT_WORK}
    left = [name for name in PHASES if _of(steps, name).get("status") not in DONE]
    at_work = [name for name in left if name in busy]
    return at_work[-1] if at_work else left[0] if left else PHASES[-1]


def _of(steps: dict[str, Any], name: str) -> dict[str, Any]:
    record = steps.get(name)
    return record if isinstance(record, dict) else {}


# -- the team


def decode_team(draft: Draft, team: dict[str, Any]) -> None:
    members = team.get("members")
    for number, entry in enumerate(members if isinstance(members, list) else []):
        if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
            draft.put_free("member", entry["agent"], {**entry, NUMBER: number})
        else:
            draft.repairs.add(f"team_state.members: {shown(entry)} names no agent; kept as it is written.")
    about = {key: value for key, value in team.items() if key != "members"}
    if about:
        draft.put("context", "team", about)


def encode_team(state: State) -> dict[str, Any]:
    team = state.of("context").get("team")
    about = team if isinstance(team, dict) else {}
    members = []
    for key, entry in in_place(state.of("member")):
        known = entry if isinstance(entry, dict) else {"role": entry}
        rest = {name: value for name, value in known.items() if name not in ("agent", NUMBER)}
        members.append({"agent": known.get("agent", key), **rest})
    return {"team_id": about.get("team_id"), **about, "members": members}


# -- batches and nodes


def decode_graph(draft: Draft, graph: dict[str, Any], phase: str) -> None:
    done = draft.ordinals(graph, "completed_batches")
    current = draft.number(graph, "current_batch")
    for number in sorted({*done, *([current] if current is not None and current > 0 else [])}):
        status = "completed" if number in done else "running"
        draft.put("step", f"{phase}/batch-{number}", {"status": status, "order": number})
    known = _known_nodes(draft.known)
    for order, (name, about) in enumerate(draft.mapping(graph, "node_states").items()):
        record = _decode_node(draft, name, about, order)
        path = known.get(name) or _new_node(name, record, phase, done, current)
        if not draft.put("step", path, record):
            draft.repairs.add(f"the node {shown(name)} cannot be a step; kept as it is written.")
    if graph.get("graph_id") is not None:
        draft.put("context", "graph", {"graph_id": graph["graph_id"]})


def _decode_node(draft: Draft, name: str, about: Any, order: int) -> dict[str, Any]:
    if not isinstance(about, dict):
        about = {"status": about}
    status = NODES.read(about.get("status"), "pending", draft.repairs, f"node {name}")
    record: dict[str, Any] = {"status": status, "order": order}
    for key, value in about.items():
        if key in ("started_at", "completed_at"):
            when = draft.iso(about, key)
            if when is not None:
                record[key] = when
        elif key not in ("status", "order", "node"):
            record[key] = value
    return record


def _new_node(name: str, record: dict[str, Any], phase: str, done: list[int], current: int | None) -> str:
    """Where a node belongs: its name says the batch, else its status does."""
    match = _NODE.match(name)
    if match:
        return f"{phase}/batch-{int(match[1])}/{quote_part(match[2])}"
    batch = max(done, default=1) if record["status"] in DONE and done else (current or 1)
    record["node"] = name
    return f"{phase}/batch-{batch}/{quote_part(name)}"


def _known_nodes(known: State | None) -> dict[str, str]:
    """Nodes that have a step already, by their names."""
    out: dict[str, str] = {}
    for path, step in known.steps() if known is not None else ():
        if _BATCH.search(path.rpartition("/")[0]):
            out.setdefault(_node_name(path, step), path)
    return out


def _node_name(path: str, step: dict[str, Any]) -> str:
    above, _, task = path.rpartition("/")
    name = step.get("node")
    return name if isinstance(name, str) else f"batch_{above.rpartition('-')[2]}_{unquote_part(task)}"


def encode_graph(state: State, phase: str) -> dict[str, Any]:
    about = state.of("context").get("graph")
    nodes: dict[str, Any] = {}
    left: set[int] = set()
    done: set[int] = set()
    for path, step in state.leaves():
        parts = path.split("/")
        match = _BATCH.match(parts[1]) if len(parts) > 1 and parts[0] == phase else None
        if match is None:
            continue
        (done if step.get("status") in DONE else left).add(int(match[1]))
        if len(parts) > 2:
            nodes[_node_name(path, step)] = _node(step)
    finished = sorted(done - left)
    return {
        "graph_id": about.get("graph_id") if isinstance(about, dict) else None,
        "completed_batches": finished,
        "current_batch": min(left) if left else finished[-1] + 1 if finished else None,
        "node_states": nodes,
    }


def _node(step: dict[str, Any]) -> dict[str, Any]:
    entry = {"status": NODES.write(str(step.get("status")))}
    for key in ("result", "started_at", "completed_at", "error"):
        if step.get(key) is not None:
            entry[key] = step[key]
    return {**entry, **{key: value for key, value in step.items() if key not in _STEP}}


def resume_from(state: State, phase: str) -> str | None:
    """Where to go on, in the protocol's words: `batch_3_task_1`, else the step."""
    for path, step in state.leaves():
        parts = path.split("/")
        if parts[0] != phase or step.get("status") in DONE:
            continue
        match = _BATCH.match(parts[1]) if len(parts) > 1 else None
        if match is None:
            return path
        return f"batch_{match[1]}_task_1" if len(parts) == 2 else _node_name(path, step)
    record = state.of("step").get(phase)
    return phase if isinstance(record, dict) and record.get("status") not in DONE else None


# -- outputs of agents


def decode_outputs(draft: Draft, outputs: dict[str, Any], phase: str) -> None:
    known: dict[str, str] = {}
    for path, _ in draft.known.steps() if draft.known is not None else ():
        known.setdefault(path.partition("/")[2], path)
    for agent, tasks in outputs.items():
        for task, about in tasks.items() if isinstance(tasks, dict) else ():
            if isinstance(about, dict):
                own = f"{quote_part(agent)}/{quote_part(task)}"
                _decode_output(draft, agent, task, about, known.get(own, f"{phase}/{own}"))
            else:
                draft.repairs.add(f"agent_outputs: {shown(about)} is no output; kept as it is written.")


def _decode_output(draft: Draft, agent: str, task: str, about: dict[str, Any], path: str) -> None:
    record: dict[str, Any] = {"status": "completed", "order": len(draft.records)}
    when = draft.iso(about, "completed_at")
    if when is not None:
        record["completed_at"] = when
    if about.get("output_summary") is not None:
        record["result"] = about["output_summary"]
    record.update((key, value) for key, value in about.items() if key not in (*_OUTPUT, *_STEP))
    place = about.get("output_location")
    if isinstance(place, str) and place:
        record["outputs"] = [place]
    if not draft.put("step", path, record):
        draft.repairs.add(
            f"agent_outputs: {shown(task)} of {shown(agent)} cannot be a step; kept as it is written."
        )
    elif isinstance(place, str) and place:
        draft.put("artifact", place, {"path": place, "step": path})


def encode_outputs(state: State) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for path, step in state.leaves():
        parts = path.split("/")
        if len(parts) != 3 or _BATCH.match(parts[1]) or step.get("status") not in DONE:
            continue
        result, places = step.get("result"), step.get("outputs")
        entry = {
            "completed_at": step.get("completed_at"),
            "output_summary": result,
            "output_location": places[0] if isinstance(places, list) and places else None,
        }
        entry.update((key, value) for key, value in step.items() if key not in _STEP)
        out.setdefault(unquote_part(parts[1]), {})[unquote_part(parts[2])] = entry
    return out


# -- ids in lists: messages, conflicts, knowledge


def decode_flags(draft: Draft, lists: dict[str, Any], places: dict[str, tuple[str, str]]) -> None:
    for key, (collection, flag) in places.items():
        for entry in draft.entries(lists, key):
            name = entry if isinstance(entry, str) else entry.get("id") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not name:
                draft.repairs.add(f"{key}: {shown(entry)} has no id; kept as it is written.")
                continue
            about = {k: v for k, v in entry.items() if k != "id"} if isinstance(entry, dict) else {}
            there = draft.records.get((collection, name))
            if isinstance(there, dict):
                there.update({**about, flag: True})
            else:
                draft.put(collection, name, {**about, flag: True})


def encode_flags(state: State, places: dict[str, tuple[str, str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, (collection, flag) in places.items():
        flags = [f for c, f in places.values() if c == collection]
        out[key] = [
            name for name, about in state.of(collection).items() if _flagged(about, collection, flag, flags)
        ]
    return out


def _flagged(about: Any, collection: str, flag: str, flags: list[str]) -> bool:
    if not isinstance(about, dict):
        return flag == DEFAULT[collection]
    if about.get("kind") == "mirror" or str(about.get("status", about.get("state"))) in _OVER:
        return False
    if any(about.get(name) is True for name in flags):
        return about.get(flag) is True
    said = str(about.get("status", about.get("state"))).lower().replace("-", "_").replace(" ", "_")
    return flag == (said if said in flags else DEFAULT[collection])
