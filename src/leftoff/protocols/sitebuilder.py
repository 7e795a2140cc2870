"""Site builders: `progress/checkpoints/{agent}-{task}.json`, one file per task, its subtasks as steps.

Next to it are a message to the orchestrator for each new percentage, and the table in `STATUS.md`.
"""

from __future__ import annotations

import os
import re
from glob import glob
from typing import Any

from leftoff.clock import DAY_MS, ago, compact, iso, millis
from leftoff.engine.git import DIRTY
from leftoff.engine.run_info import LIMITS, RunInfo, list_info
from leftoff.engine.run_reader import DEFINITION
from leftoff.engine.tracking import BEFORE, MARK
from leftoff.model.codec import same_json
from leftoff.model.ids import slug, unquote_part
from leftoff.model.words import STEP_STATUS, UNFINISHED
from leftoff.protocols.document_draft import (
    DONE,
    NUMBER,
    STEP_FIELDS,
    Draft,
    State,
    cell,
    inline,
    is_int,
    one_line,
    without,
)
from leftoff.protocols.loose_values import Rejected, run_words, shown_value, step_words
from leftoff.protocols.protocol import Protocol
from leftoff.protocols.sync import Sync
from leftoff.store.base import SqlStore
from leftoff.store.rows import RunRow

KEYS = tuple(
    """checkpoint_id agent agent_name task_id task_title status progress_percent started_at updated_at
    completed_at subtasks files_created files_modified acceptance_criteria_met review_scores errors
    context resumable resume_instructions heartbeat""".split()
)
_OWN = ("task_id", "task_title", "subtasks", "progress_percent", "acceptance_criteria_met", "resumable")
#: field: record of `run`, kind
FIELDS = {
    "agent_name": ("agent", "text"),
    "task_title": ("title", "text"),
    "started_at": ("created_at", "iso"),
    "completed_at": ("completed_at", "iso"),
}
#: field: collection, and the only field of a record that is written as that field's value
MAPS = {"acceptance_criteria_met": ("criterion", "met"), "review_scores": ("score", "score")}
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
NESTED = "docs/agentic-orchestration"  # where the protocol's own project has all of this
ROOTS = (f"{NESTED}/progress", "progress")
MESSAGE = "@orchestrator: Task {task} progress: {percent}%"
_STEP = STEP_FIELDS | {"total"}
_ERROR = ("type", "message", "timestamp", "blocking")


class Sitebuilder(Protocol):
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
    derived = (
        "progress_percent",
        "context/last_processed",
        "context/next_to_process",
        "resume_instructions",
    )
    errors_block = True
    shows_all = False
    beats = True
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

    def includes(self, row: RunRow) -> bool:
        """Only work on a task: `start AGENT --task T060`."""
        return row.card.get("task") is not None

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """One run per task: `{agent}-{task}`."""
        return (slug(f"{given['workflow']}-{given['task']}") if given.get("task") else None), []

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        """Say what to do first, and what is left."""
        first, left = _resume_instructions(state), state.left()
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        return [*([first] if first else []), f"Left: {', '.join(left[:5]) or 'nothing'}{more}"]

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        agent, task = draft.text(document, "agent"), draft.text(document, "task_id")
        if agent is None or task is None:
            agent, task = self._from_name(draft, document, agent, task)
        draft.name(f"{agent}-{task}")
        draft.run("workflow", agent)
        draft.run("branch", "main")
        draft.run("task", task)
        draft.fields(document, FIELDS)
        status = draft.status(STATUS, document, "status", "running")
        draft.run("status", status)
        draft.at = draft.time(document, "updated_at")
        if draft.at is None:
            began, ended = (draft.records.get(("run", key)) for key in ("created_at", "completed_at"))
            draft.at = millis(ended or began)
        draft.alias(draft.text(document, "checkpoint_id"))
        heart = document.get("heartbeat")  # it makes no version; other fields of it belong to the agent
        heart = heart if isinstance(heart, dict) else {}
        draft.told = draft.time(heart, "last_beat", "heartbeat.last_beat")
        rest = {key: value for key, value in heart.items() if key != "last_beat" and HEART.get(key) != value}
        draft.run("heartbeat", rest or None)
        self._subtasks(draft, draft.mapping(document, "subtasks"))
        draft.files(document, "files_created", "created")
        draft.files(document, "files_modified", "modified")
        for key, (collection, _) in MAPS.items():
            draft.put_all(collection, document, key)
        self._errors(draft, document)
        context = draft.mapping(document, "context")
        states = [State(draft.run_id, dict(draft.records), 0), *([draft.known] if draft.known else [])]
        computed = [_position(state) for state in states]
        # What equals a computed value, before or after this change, is not stored.
        for key, value in context.items():
            if key != "notes" and all(key not in known or value != known[key] for known in computed):
                draft.put("context", key, value)
        draft.notes(draft.text(context, "notes"))
        first = draft.text(document, "resume_instructions")
        if first is not None and all(first != _resume_instructions(state) for state in states):
            draft.put("note", RESUME, {"text": first, "resume": True})
        draft.number(document, "progress_percent")  # computed; reported if it is not a number
        said = document.get("resumable")
        if isinstance(said, bool) and said != (status in RESUMABLE):
            draft.run("resumable", said)
        elif said is not None and not isinstance(said, bool):
            draft.as_written("resumable", said, "is neither true nor false")

    @staticmethod
    def _from_name(
        draft: Draft, document: dict[str, Any], agent: str | None, task: str | None
    ) -> tuple[str, str]:
        """Take agent and task from the file's name, or from the id: `migration-T060-20251208-143025`."""
        given = document.get("checkpoint_id")
        stem = draft.source.name.removesuffix(".json").removesuffix("-complete")
        parts = given.split("-") if isinstance(given, str) and given.count("-") >= 3 else []
        if parts and parts[-1].isdigit() and parts[-2].isdigit():
            stem = "-".join(parts[:-2])
        first, dash, rest = stem.partition("-")
        if not (dash and first and rest):
            raise Rejected(f"{draft.source.path} is no sitebuilder checkpoint: it names no agent and task.")
        draft.repairs.add(f"agent and task_id are missing; taken from {shown_value(stem)}.")
        return agent or first, task or rest

    def _subtasks(self, draft: Draft, subtasks: dict[str, Any]) -> None:
        """Read the subtasks. Counts may exceed the listed ones; the rest is `beyond`."""
        entries = []
        for item in draft.entries(subtasks, "items"):
            if not isinstance(item, dict):
                draft.repairs.add(f"subtasks.items: {shown_value(item)} is read as the id of a subtask.")
            named = isinstance(item, dict) and "id" not in item and "name" in item
            entries.append({"id": item["name"], **item} if named else item)
        listed = draft.items(entries, "subtask", STEPS)
        draft.run("total", draft.number(subtasks, "total"))
        beyond = {}
        for word in ("completed", "failed"):
            found, declared = listed.count(word), draft.number(subtasks, word)
            if declared is not None and declared > found:
                beyond[word] = declared - found
            elif declared is not None and declared < found:
                draft.repairs.add(f"subtasks.{word} is {declared}, but {found} are listed; those count.")
        if beyond:
            draft.run("beyond", beyond)

    @staticmethod
    def _errors(draft: Draft, document: dict[str, Any]) -> None:
        """Read errors. A known one keeps its key, so that removing it from the file clears it."""
        known = draft.known.of("error") if draft.known is not None else {}
        new = []
        for entry in draft.entries(document, "errors"):
            there = next(
                ((key, about) for key, about in known.items() if same_json(_error(about), entry)), None
            )
            if there is not None:
                draft.put("error", *there)
                continue
            about = dict(entry) if isinstance(entry, dict) else entry
            if isinstance(entry, dict):
                when = draft.iso(entry, "timestamp", "errors.timestamp")
                if when is not None:
                    about["at"] = when
                    del about["timestamp"]
                if isinstance(entry.get("blocking"), bool):
                    about["status"] = "blocked" if about.pop("blocking") else "failed"
            new.append(about)
        draft.issues(new, "error")

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        agent, task = self.task_of(state)
        began = millis(state.run("created_at"))
        subtasks = _subtasks(state)
        total, done = subtasks["total"], subtasks["completed"]
        said, resumable = state.run("resumable"), state.status in RESUMABLE
        own = {
            key: value
            for key, value in state.of("context").items()
            if key not in (DEFINITION, DIRTY, MARK) and not key.startswith(BEFORE)  # these are leftoff's
        }
        beat, heart = state.beat if state.beat is not None else state.told, state.run("heartbeat")
        document = {
            **state.fields(FIELDS),
            "checkpoint_id": f"{agent}-{task}-{compact(began if began is not None else state.at)}",
            "agent": agent,
            "task_id": task,
            "status": STATUS.write(state.status),
            # rounded down: 10 of 29 is 34
            "progress_percent": min(100, done * 100 // total)
            if total
            else 100 * (state.status == "completed"),
            "updated_at": iso(max(state.at, state.beat or 0)),
            "subtasks": subtasks,
            "files_created": state.files("created"),
            "files_modified": state.files("modified"),
            **{
                key: {
                    each: value[name] if isinstance(value, dict) and set(value) == {name} else value
                    for each, value in state.of(collection).items()
                }
                for key, (collection, name) in MAPS.items()
            },
            "errors": [_error(about) for _, about in state.listed("error")],
            "context": {**_position(state), **own, "notes": state.notes(RESUME) or None},
            "resumable": said if isinstance(said, bool) and resumable else resumable,
            "resume_instructions": _resume_instructions(state),
        }
        if beat is not None or isinstance(heart, dict):
            last = {"last_beat": iso(beat)} if beat is not None else {}
            document["heartbeat"] = {**last, **HEART, **(heart if isinstance(heart, dict) else {})}
        return {key: document[key] for key in KEYS if key in document}

    def task_of(self, state: State) -> tuple[str, str]:
        """Return the agent and the task."""
        agent = str(state.run("workflow", ""))
        return agent, str(state.run("task") or state.run_id.removeprefix(f"{agent}-"))

    # -- files

    def _root(self, project: str) -> str:
        for folder, root in ((ROOTS[0], ROOTS[0]), (f"{ROOTS[1]}/checkpoints", ROOTS[1]), (NESTED, ROOTS[0])):
            if os.path.isdir(os.path.join(project, folder)):
                return root
        return ROOTS[1]

    def present(self, project: str) -> list[str]:
        return sorted(path for root in ROOTS for path in glob(f"{root}/checkpoints/*.json", root_dir=project))

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        """`{agent}-{task}.json` shows the newest run of a task, `-complete` the newest completed one."""
        agent, task = self.task_of(state)
        done = state.status == "completed"
        rows = sync.store.read(lambda view: view.list_runs({"workflow": agent}))
        for other in rows:
            same_task = str(other.card.get("task")) == task and (other.status == "completed") == done
            if same_task and other.run > row.run:
                return {}
        name = slug(f"{agent}-{task}") + ("-complete" if done else "")
        folder = os.path.dirname(self.home(state, f"{self._root(sync.project)}/checkpoints/{name}.json"))
        return {f"{folder}/{name}.json": None}

    def after(self, sync: Sync, row: RunRow, state: State) -> None:
        document, places = self.encode(state), self.places(sync, row, state)
        if not places:  # a later run of the same task is shown
            return
        root = os.path.dirname(os.path.dirname(next(iter(places))))
        # one line for each percentage, unless it is the last one there
        line = MESSAGE.format(task=inline(document["task_id"]), percent=document["progress_percent"])
        agent = one_line(document["agent"]).replace("/", "-")
        outbox = os.path.join(os.path.dirname(root), f"messages/outbox-{agent}.md")
        there = (sync.base.read(outbox) or b"").decode("utf-8", "replace")
        own = [each for each in there.splitlines() if each.startswith(line.rpartition(" ")[0])]
        if not own or own[-1] != line:
            sync.append(outbox, ("" if there.endswith("\n") or not there else "\n") + line + "\n")
        sync.base.runs.setdefault(row.run_id, {})["row"] = {
            "agent": document["agent"],
            "task": document["task_id"],
            "percent": document["progress_percent"],
            "at": document["updated_at"],
            "status": document["status"],
        }
        path = f"{root}/STATUS.md"
        known = [about["row"] for about in sync.base.runs.values() if "row" in about]
        sync.put_bytes(path, with_tasks(sync.base.read(path) or b"", known, sync.clock()))

    def ignored(self, project: str) -> list[str]:
        return [f"{self._root(project)}/checkpoints/"]


def _subtasks(state: State) -> dict[str, Any]:
    items, counts = [], {"completed": 0, "failed": 0}
    for path, step in state.leaves:
        status, outputs = step.get("status"), step.get("outputs")
        counts["completed"] += status in DONE
        counts["failed"] += status == "failed"
        output = outputs if isinstance(outputs, list) and outputs else None
        items.append(
            {
                "id": unquote_part(path),
                "status": STEPS.write(str(status)),
                "output": output[0] if output and len(output) == 1 else output,
                **without(step, *_STEP),
            }
        )
    beyond, total = state.run("beyond"), state.run("total")
    for word in counts:
        more = beyond.get(word) if isinstance(beyond, dict) else 0
        counts[word] += more if isinstance(more, int) else 0
    return {"total": max(total if is_int(total) else 0, len(items)), **counts, "items": items}


def _error(about: Any) -> Any:
    """Return an error in the protocol's form: type, message, timestamp, blocking, then the other fields."""
    if not isinstance(about, dict):
        return about
    rest = without(about, NUMBER, "step", "attempt", "resume_with")
    if list(rest) == ["message"] and not isinstance(rest["message"], (dict, list)):
        return rest["message"]
    if "at" in rest:
        rest["timestamp"] = rest.pop("at")
    if rest.get("status") in ("blocked", "failed"):
        rest["blocking"] = rest.pop("status") == "blocked"
    return {key: rest[key] for key in (*_ERROR, *(key for key in rest if key not in _ERROR)) if key in rest}


def _position(state: State) -> dict[str, Any]:
    """Return where the work is, for a run that does not record it."""
    done = [path for path, step in state.leaves if step.get("status") in DONE]
    return {"last_processed": done[-1] if done else None, "next_to_process": next(iter(state.left()), None)}


def _resume_instructions(state: State) -> str | None:
    note = state.of("note").get(RESUME)
    if isinstance(note, dict) and isinstance(note.get("text"), str):
        return str(note["text"])
    for about in state.of("error").values():
        if isinstance(about, dict) and isinstance(about.get("resume_with"), str):
            return str(about["resume_with"])
    left = state.left()
    return f"Continue from {left[0]}" if left and state.status in RESUMABLE else None


PROTOCOL = Sitebuilder()


# -- the table "Active Checkpoints" as Markdown: for `status --markdown`, and in the page STATUS.md. People write that
# page, and only the rows of known tasks in the table are leftoff's

TITLE = "## Active Checkpoints"
HEAD = [
    "| Agent | Task | Progress | Last Update | Status |",
    "|-------|------|----------|-------------|--------|",
]
_COLUMNS = {"agent", "task"}
_BAR = re.compile(r"(?<!\\)\|")
_WORDS = {"running": "in_progress", "completed": "complete"}


def status_table(store: SqlStore, now: int, limits: tuple[int, int] = LIMITS) -> str:
    """Return the table as Markdown: unfinished runs, and those completed within a day."""
    runs = list_info(store, now, limits, status=UNFINISHED)
    done = list_info(store, now, limits, status=("completed",), limit=50)
    runs += [run for run in done if now - run.row.updated_at < DAY_MS]
    rows = [f"| {' | '.join(cell(value) or '—' for value in _run_row(run, now))} |" for run in runs]
    return "\n".join([*HEAD, *rows])


def _run_row(run: RunInfo, now: int) -> tuple[str, str, str, str, str]:
    """Return agent, task, progress, last update and status, in the protocol's words."""
    card, task = run.row.card, run.row.card.get("task")
    counts = {word: run.steps[word] for word in STEP_STATUS if run.steps[word]}
    begun = run.status != "running" or (bool(counts.keys() - {"pending"}) if counts else run.row.seq > 1)
    return (
        str(run.workflow if task else card.get("agent") or run.workflow),
        str(task or (f"#{run.row.issue}" if run.row.issue else None) or run.title or run.run_id),
        f"{run.percent}%",
        ago(run.row.updated_at, now) if begun else "—",
        _WORDS.get(run.status, run.status) if begun else "not started",
    )


# -- the table in a page


def with_tasks(page: bytes, known: list[dict[str, Any]], now: int) -> bytes:
    """Return the page with a row for each of these tasks. Rows of other tasks, and further columns, stay."""
    lines = page.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    first, last = _find_table(lines, end)
    head = lines[first:last][:2] or [row + end for row in HEAD]
    names = [name.lower() for name in _cells(head[0])]
    there: dict[str, tuple[str, str]] = {}
    for line in lines[first + 2 : last]:
        said = dict(zip(names, _cells(line), strict=False))
        there[line] = said.get("agent", ""), said.get("task", "")
    ours = {(cell(about["agent"]), cell(about["task"])): about for about in known}
    for key, about in sorted(ours.items()):
        old = next((_cells(line) for line, other in there.items() if other == key), [])
        then = millis(about["at"])
        values = {
            **dict(zip(names, old, strict=False)),
            "agent": key[0],
            "task": key[1],
            "progress": f"{about['percent']}%",
            "last update": ago(then, now) if then is not None else "—",
            "status": cell(about["status"]),
        }
        cells = [*(values.get(name, "") for name in names), *old[len(names) :]]
        head.append(f"| {' | '.join(cells)} |{end}")
    others = [line for line, key in there.items() if key not in ours]
    return "".join([*lines[:first], *head, *others, *lines[last:]]).encode("utf-8", "surrogateescape")


def _find_table(lines: list[str], end: str) -> tuple[int, int]:
    """Return where the section's first table of tasks is. If there is none, make place for it in ``lines``."""
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    seen = [line.strip() for line in lines]
    title = next((n for n, line in enumerate(seen) if line.rstrip("# ").lower() == TITLE.lower()), None)
    if title is None:
        lines += [end, TITLE + end] if lines and lines[-1].strip() else [TITLE + end]
        title = len(lines) - 1
    stop = next((n for n in range(title + 1, len(seen)) if seen[n].startswith("#")), len(lines))
    for first in range(title + 1, min(stop, len(seen))):
        if _COLUMNS <= {name.lower() for name in _cells(seen[first])}:
            others = (n for n in range(first, stop) if not seen[n].startswith("|"))
            return first, next(others, stop)
    place = stop
    while not lines[place - 1].strip():
        place -= 1
    lines[place:stop] = [end, end] if stop < len(lines) else [end]
    return place + 1, place + 1


def _cells(line: str) -> list[str]:
    inside = _BAR.split(line.strip())
    return [text.strip() for text in inside[1:-1]] if len(inside) > 2 else []
