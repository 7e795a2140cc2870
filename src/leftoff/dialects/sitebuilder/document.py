"""sitebuilder: `progress/checkpoints/{agent}-{task}.json`, one file per task, its subtasks as steps."""

from __future__ import annotations

from leftoff.clock import compact, iso
from leftoff.dialects.core.draft import STEP_FIELDS, State
from leftoff.dialects.core.files import created, decode_files, modified
from leftoff.dialects.core.issues import NUMBER, decode_issues, in_place
from leftoff.dialects.core.notes import decode_notes, encode_notes
from leftoff.dialects.core.repairs import Rejected, shown
from leftoff.dialects.core.times import read_time
from leftoff.dialects.core.words import run_words, step_words
from leftoff.dialects.sitebuilder.files import SitebuilderFiles
from leftoff.engine.read.definition import KEY as DEFINITION
from leftoff.engine.workspace.git import DIRTY
from leftoff.engine.workspace.tracking import BEFORE, MARK
from leftoff.model.ids import quote_part, slug, unquote_part
from leftoff.model.times import millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import Draft

KEYS = tuple(
    """checkpoint_id agent agent_name task_id task_title status progress_percent started_at updated_at
    completed_at subtasks files_created files_modified acceptance_criteria_met review_scores errors
    context resumable resume_instructions heartbeat""".split()
)
_OWN = ("task_id", "task_title", "subtasks", "progress_percent", "acceptance_criteria_met", "resumable")
HEART = {"interval_seconds": 300, "status": "alive"}
STATUS = run_words(
    {"running": "in_progress", "paused": "in_progress", "completed": "complete", "abandoned": "failed"},
    {"completed": "completed", "in progress": "running"},
)
STEPS = step_words(
    {"running": "in_progress", "waiting": "in_progress", "completed": "complete"}, {"completed": "completed"}
)
RESUMABLE = ("running", "blocked", "paused", "failed")
RESUME = "resume"  # the key of the note that holds `resume_instructions`
_OURS = STEP_FIELDS | {"total"}
_ERROR = ("type", "message", "timestamp", "blocking")


class Sitebuilder(SitebuilderFiles):
    name = "sitebuilder"
    about = "Site builders: progress/checkpoints/{agent}-{task}.json"
    starts = "leftoff start AGENT --task T060 --steps a,b,c"
    example = (
        "progress/checkpoints/migration-T060.json",
        {
            "agent": "migration",
            "task_id": "T060",
            "status": "in_progress",
            "subtasks": {
                "items": [{"id": "post-01", "status": "complete"}, {"id": "post-02", "status": "pending"}]
            },
            "resumable": True,
        },
    )
    keys = KEYS
    derived = {
        "progress_percent": ("subtasks",),
        "context/last_processed": ("subtasks",),
        "context/next_to_process": ("subtasks",),
        "resume_instructions": ("subtasks", "status"),
    }
    errors_block = True
    files = r"/progress/checkpoints/[^/]+\.json$"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in _OWN)
        if "agent" in document and "task_id" in document:
            return 60 + own
        if "/progress/checkpoints/" in f"/{path}" and own:
            return 55 + own
        return 50 if own >= 3 else 0

    def names(self, state: State) -> list[str]:
        return [self.encode(state)["checkpoint_id"]]

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        """Where to go on, and what is left: only items that are not complete."""
        first = _resume_instructions(state)
        left = [path for path, step in state.leaves() if step.get("status") not in ("completed", "skipped")]
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        return [*([first] if first else []), f"Left: {', '.join(left[:5]) or 'nothing'}{more}"]

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """`{agent}-{task}`: one run per task."""
        return (slug(f"{given['workflow']}-{given['task']}") if given.get("task") else None), []

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        self._name(draft, document)
        draft.run("title", draft.text(document, "task_title"))
        draft.run("agent", draft.text(document, "agent_name"))
        status = draft.status(STATUS, document, "status", "running")
        draft.run("status", status)
        draft.run("created_at", draft.iso(document, "started_at"))
        draft.run("completed_at", draft.iso(document, "completed_at"))
        draft.at = draft.time(document, "updated_at")
        if draft.at is None:
            draft.at = millis(
                draft.records.get(("run", "completed_at")) or draft.records.get(("run", "created_at"))
            )
        draft.alias(draft.text(document, "checkpoint_id") or "")
        self._heartbeat(draft, document.get("heartbeat"))
        self._subtasks(draft, draft.mapping(document, "subtasks"))
        decode_files(draft, draft.entries(document, "files_created"), "created", "files_created")
        decode_files(draft, draft.entries(document, "files_modified"), "modified", "files_modified")
        for collection, key in (("criterion", "acceptance_criteria_met"), ("score", "review_scores")):
            for name, value in draft.mapping(document, key).items():
                draft.put(collection, name, value)
        self._errors(draft, document)
        self._context(draft, document)
        draft.number(document, "progress_percent")  # it is worked out; one that is no number is told
        said = document.get("resumable")
        if isinstance(said, bool) and said != (status in RESUMABLE):
            draft.run("resumable", said)
        elif said is not None and not isinstance(said, bool):
            draft.repairs.add(f"resumable: {shown(said)} is neither true nor false; kept as it is written.")

    @staticmethod
    def _heartbeat(draft: Draft, about: Any) -> None:
        """An agent's own sign of life counts; it makes no version. Whatever else is there is the agent's."""
        said = about.get("last_beat") if isinstance(about, dict) else None
        draft.beat = read_time(said, draft.repairs, "heartbeat.last_beat", draft.source.modified or None)
        known = about if isinstance(about, dict) else {}
        rest = {key: value for key, value in known.items() if key != "last_beat" and HEART.get(key) != value}
        if rest:
            draft.run("heartbeat", rest)

    def _name(self, draft: Draft, document: dict[str, Any]) -> None:
        agent, task = draft.text(document, "agent"), draft.text(document, "task_id")
        if agent is None or task is None:
            agent, task = self._from_name(draft, document, agent, task)
        draft.run("workflow", agent)
        draft.run("branch", "main")
        draft.run("task", task)
        draft.name(f"{agent}-{task}")

    @staticmethod
    def _from_name(
        draft: Draft, document: dict[str, Any], agent: str | None, task: str | None
    ) -> tuple[str, str]:
        """Agent and task from the file's name, or from the id: `migration-T060`, `migration-T060-20251208-143025`."""
        given = document.get("checkpoint_id")
        stem = draft.source.name.removesuffix(".json").removesuffix("-complete")
        parts = given.split("-") if isinstance(given, str) and given.count("-") >= 3 else []
        if parts and parts[-1].isdigit() and parts[-2].isdigit():
            stem = "-".join(parts[:-2])
        first, dash, rest = stem.partition("-")
        if not (dash and first and rest):
            raise Rejected(f"{draft.source.path} is no sitebuilder checkpoint: it names no agent and task.")
        draft.repairs.add(f"agent and task_id are missing; taken from {shown(stem)}.")
        return agent or first, task or rest

    def _subtasks(self, draft: Draft, subtasks: dict[str, Any]) -> None:
        found = {"completed": 0, "failed": 0}
        items = subtasks.get("items")
        if isinstance(items, int) and not isinstance(items, bool):
            draft.repairs.add(f"subtasks.items: the number {items} is not a list; kept as it is written.")
            items = []
        for number, item in enumerate(draft.entries({"items": items}, "items")):
            step = self._item(draft, item, number)
            if step in found:
                found[step] += 1
        total = draft.number(subtasks, "total")
        draft.run("total", total)
        beyond = {}
        for word, listed in found.items():
            declared = draft.number(subtasks, word)
            if declared is not None and declared > listed:
                beyond[word] = declared - listed
            elif declared is not None and declared < listed:
                draft.repairs.add(f"subtasks.{word} is {declared}, but {listed} are listed; those count.")
        if beyond:
            draft.run("beyond", beyond)

    def _item(self, draft: Draft, item: Any, number: int) -> str | None:
        """One subtask as a step; its status."""
        if not isinstance(item, dict):
            draft.repairs.add(f"subtasks.items: {shown(item)} is read as the id of a subtask.")
            item = {"id": item}
        given = item.get("id", item.get("name"))
        if isinstance(given, (dict, list, bool)) or given is None or given == "":
            draft.repairs.add(f"subtasks.items: {shown(item)} has no id; kept as it is written.")
            return None
        path = quote_part(str(given))
        status = STEPS.read(item.get("status"), "pending", draft.repairs, f"subtask {path}")
        record = {"status": status, "order": number}
        outputs = item.get("output")
        if isinstance(outputs, str) and outputs:
            record["outputs"] = [outputs]
        elif isinstance(outputs, list):
            record["outputs"] = outputs
        for key, value in item.items():
            if key not in ("id", "status", "output", "order", "outputs"):
                record[key] = value
        if not draft.put("step", path, record):
            draft.repairs.add(f"subtask {path} is there twice; the first one counts.")
            return None
        return status

    def _context(self, draft: Draft, document: dict[str, Any]) -> None:
        """What is said as it would be worked out, of the run as it was or as it is now, is said by nobody."""
        context = draft.mapping(document, "context")
        states = [State(draft.run_id, dict(draft.records), 0), *([draft.known] if draft.known else [])]
        derived = [_derived(state) for state in states]
        for key, value in context.items():
            if key != "notes" and all(key not in known or value != known[key] for known in derived):
                draft.put("context", key, value)
        decode_notes(draft, draft.text(context, "notes"))
        said = draft.text(document, "resume_instructions")
        if said is not None and all(said != _resume_instructions(state) for state in states):
            draft.put("note", RESUME, {"text": said, "resume": True})

    def _errors(self, draft: Draft, document: dict[str, Any]) -> None:
        """An error that is known keeps its key: whoever clears it from the file clears it."""
        known = {}
        if draft.known is not None:
            known = {_frozen(_entry(about)): (key, about) for key, about in draft.known.of("error").items()}
        new = []
        for entry in draft.entries(document, "errors"):
            there = known.get(_frozen(entry))
            if there is not None:
                draft.put("error", *there)
            else:
                new.append(self._read_error(draft, entry))
        decode_issues(draft, new, "error")

    @staticmethod
    def _read_error(draft: Draft, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        about = dict(entry)
        when = read_time(
            entry.get("timestamp"), draft.repairs, "errors.timestamp", draft.source.modified or None
        )
        if when is not None:
            about["at"] = iso(when)
            del about["timestamp"]
        if isinstance(entry.get("blocking"), bool):
            about["status"] = "blocked" if about.pop("blocking") else "failed"
        return about

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        agent, task = self.task_of(state)
        started = state.run("created_at")
        began = millis(started)
        subtasks = _subtasks(state)
        document = {
            "checkpoint_id": f"{agent}-{task}-{compact(began if began is not None else state.at)}",
            "agent": agent,
            "agent_name": state.run("agent"),
            "task_id": task,
            "task_title": state.run("title"),
            "status": STATUS.write(state.status),
            "progress_percent": percent(state, subtasks),
            "started_at": started,
            "updated_at": iso(max(state.at, state.beat or 0)),
            "completed_at": state.run("completed_at"),
            "subtasks": subtasks,
            "files_created": created(state),
            "files_modified": modified(state),
            "acceptance_criteria_met": {
                key: _bare(value, "met") for key, value in state.of("criterion").items()
            },
            "review_scores": {key: _bare(value, "score") for key, value in state.of("score").items()},
            "errors": [_entry(about) for _, about in in_place(state.of("error"))],
            "context": _context(state),
            "resumable": _resumable(state),
            "resume_instructions": _resume_instructions(state),
        }
        return document | _heartbeat(state)


def _heartbeat(state: State) -> dict[str, Any]:
    """When the run was heard of last, if it ever was."""
    beat, own = state.beat if state.beat is not None else state.told, state.run("heartbeat")
    if beat is None and not isinstance(own, dict):
        return {}
    last = {"last_beat": iso(beat)} if beat is not None else {}
    return {"heartbeat": {**last, **HEART, **(own if isinstance(own, dict) else {})}}


def _subtasks(state: State) -> dict[str, Any]:
    items, counts = [], {"completed": 0, "failed": 0}
    for path, step in state.leaves():
        status = step.get("status")
        counts["completed"] += status in ("completed", "skipped")
        counts["failed"] += status == "failed"
        item = {"id": unquote_part(path), "status": STEPS.write(str(status)), "output": _output(step)}
        item.update((key, value) for key, value in step.items() if key not in _OURS)
        items.append(item)
    beyond, total = state.run("beyond"), state.run("total")
    for word in counts:
        more = beyond.get(word) if isinstance(beyond, dict) else 0
        counts[word] += more if isinstance(more, int) else 0
    known = total if isinstance(total, int) and not isinstance(total, bool) else 0
    return {"total": max(known, len(items)), **counts, "items": items}


def _output(step: dict[str, Any]) -> Any:
    outputs = step.get("outputs")
    if not isinstance(outputs, list) or not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def percent(state: State, subtasks: dict[str, Any]) -> int:
    """Rounded down: 10 of 29 is 34."""
    if not subtasks["total"]:
        return 100 if state.status == "completed" else 0
    return int(min(100, subtasks["completed"] * 100 // subtasks["total"]))


def _bare(value: Any, field: str) -> Any:
    """A record that holds nothing but one field, as that field's value."""
    return value[field] if isinstance(value, dict) and set(value) == {field} else value


def _entry(about: Any) -> Any:
    """An error as the protocol has it: type, message, timestamp, blocking, then whatever else is known."""
    if not isinstance(about, dict):
        return about
    rest = {
        key: value for key, value in about.items() if key not in (NUMBER, "step", "attempt", "resume_with")
    }
    if list(rest) == ["message"] and not isinstance(rest["message"], (dict, list)):
        return rest["message"]
    if "at" in rest:
        rest["timestamp"] = rest.pop("at")
    if rest.get("status") in ("blocked", "failed"):
        rest["blocking"] = rest.pop("status") == "blocked"
    return {key: rest[key] for key in (*_ERROR, *(key for key in rest if key not in _ERROR)) if key in rest}


def _frozen(value: Any) -> str:
    return repr(sorted(value.items(), key=str)) if isinstance(value, dict) else repr(value)


def _derived(state: State) -> dict[str, Any]:
    """Where the work is, for a run that says nothing of it itself."""
    leaves = state.leaves()
    done = [path for path, step in leaves if step.get("status") in ("completed", "skipped")]
    left = [path for path, step in leaves if step.get("status") not in ("completed", "skipped")]
    return {"last_processed": done[-1] if done else None, "next_to_process": left[0] if left else None}


def _context(state: State) -> dict[str, Any]:
    notes = {key: value for key, value in state.of("note").items() if key != RESUME}
    plain = State(state.run_id, {("note", key): value for key, value in notes.items()}, state.at)
    own = {key: value for key, value in state.of("context").items() if not _is_ours(key)}
    out = {**_derived(state), **own}
    return {**out, "notes": encode_notes(plain) or None}


def _is_ours(key: str) -> bool:
    """Facts that leftoff keeps for itself, and that are no part of the protocol."""
    return key in (DEFINITION, DIRTY, MARK) or key.startswith(BEFORE)


def _resumable(state: State) -> bool:
    said = state.run("resumable")
    return said if isinstance(said, bool) and state.status in RESUMABLE else state.status in RESUMABLE


def _resume_instructions(state: State) -> str | None:
    """What whoever goes on shall do first."""
    note = state.of("note").get(RESUME)
    if isinstance(note, dict) and isinstance(note.get("text"), str):
        return str(note["text"])
    for about in state.of("error").values():
        if isinstance(about, dict) and isinstance(about.get("resume_with"), str):
            return str(about["resume_with"])
    left = _derived(state)["next_to_process"]
    return f"Continue from {left}" if left is not None and state.status in RESUMABLE else None


DIALECT = Sitebuilder()
