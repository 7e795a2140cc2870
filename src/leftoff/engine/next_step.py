"""Which step comes next, and why: the first leaf in declared order that is to be done. No other step is looked at.

In a run that `leftoff run` drives, what is pending is the runner's. There, the next step is one that the run waits for
a person to do; a step that waits for a decision is named with the command that decides.
"""

from __future__ import annotations

from leftoff.engine.approvals import how
from leftoff.engine.quoting import named, quoted, source_of, word
from leftoff.engine.run_info import next_leaf, step_counts
from leftoff.engine.run_reader import Reader
from leftoff.hints import Any
from leftoff.model.ids import shown_step, step_word, with_item
from leftoff.model.versions import counts_of
from leftoff.model.words import FINISHED, in_words
from leftoff.store.base import Store, View
from leftoff.store.rows import RunRow

_SHOWN = 3
_LOOKED_AT = 100  # steps, until one is found that is not the runner's
_RUNNERS = ("run", "python", "agent", "approval", "manual")  # what a step of a workflow does
_TOLD = {
    "running": "in progress",
    "waiting": "waiting for a person",
    "blocked": "blocked",
    "failed": "failed",
}


class NextStep:
    """A step to do, or none; and why."""

    def __init__(
        self, row: RunRow, why: str, step: str | None = None, title: Any = None, instructions: str = ""
    ) -> None:
        self.run_id = row.run_id
        self.source: str | None = None  # where the run came from, if not from here
        self.step = step
        self.title = title if isinstance(title, str) else None
        self.instructions = instructions or None
        self.why = why

    def to_json(self) -> dict[str, Any]:
        out = {name: getattr(self, name) for name in ("step", "title", "instructions", "why", "run_id")}
        return with_item({**out, "source": self.source} if self.source else out, self.step)


def next_step(store: Store, view: View, row: RunRow) -> NextStep:
    """Return what to do now."""
    if row.status in FINISHED:
        found = NextStep(row, f"The run {in_words(row.status)}.")
    else:
        reader = Reader(store, view, row.run, row.run_id)
        leaves = view.leaves(row.run, "waiting", _LOOKED_AT)
        manual = next((path for path in leaves if _record(reader, path).get("kind") == "manual"), None)
        path = manual or _pending(reader, view, row)
        found = NextStep(row, _why(reader, view, row, path, manual is not None), path)
        if path is not None:
            record, left = _record(reader, path), reader.value("error", path)
            error = left.plain if left is not None and isinstance(left.plain, dict) else {}
            told = (record.get("instructions"), error.get("resume_with"))
            instructions = "\n".join(text for text in told if isinstance(text, str))
            found = NextStep(row, found.why, path, record.get("title"), instructions)
    found.source = source_of(view, row) or None
    return found


def _record(reader: Reader, path: str) -> dict[str, Any]:
    found = reader.value("step", path)
    return dict(found.plain) if found is not None else {}


def _pending(reader: Reader, view: View, row: RunRow) -> str | None:
    """Return the first step to be done that is not the runner's."""

    def is_runners(path: str) -> bool:
        record = _record(reader, path)
        return record.get("kind") in _RUNNERS or "item" in record

    first = next_leaf(view, row)
    if first is None or not is_runners(first):
        return first
    others = view.leaves(row.run, "pending", _LOOKED_AT)
    return next((path for path in others if not is_runners(path)), None)


def _why(reader: Reader, view: View, row: RunRow, path: str | None, waits: bool) -> str:
    counts, listed = step_counts(row), counts_of(row.counts)
    total, done = counts["total"], counts["completed"] + counts["skipped"]
    progress = f"{done} of {total} steps are done"
    if path is not None and waits:
        said = [f"{progress}, and the run is waiting for this one."]
        said.append(f"`leftoff step done {named(step_word(path))}` reports it done.")
    elif path is not None:
        failed = _record(reader, path).get("status") == "failed"
        what = "this one failed, and runs again first" if failed else "this is the first that is pending"
        said = [f"{progress}, and {what}."]
    elif total == 0:
        said = ["No steps are declared, and none was reported."]
    elif done == total:
        said = [f"All {total} steps are done."]
    elif listed["pending"]:
        said = [f"{progress}. The others are the runner's: `leftoff resume {row.run_id}`."]
    elif total > sum(listed.values()):
        said = [f"{progress}; those that are to come have no names yet."]
    else:
        said = [f"{progress}, and none is pending."]
    if row.status != "running":
        said.append(f"The run {in_words(row.status)}.")
    for status in _TOLD:
        if counts[status]:
            said += _held(reader, view, row, status, path)
    return " ".join(said)


def _held(reader: Reader, view: View, row: RunRow, status: str, offered: str | None) -> list[str]:
    """Say of the steps that are not offered what is the matter with each."""
    paths = [path for path in view.leaves(row.run, status, _SHOWN + 2) if path != offered]
    out = []
    for path in paths[:_SHOWN]:
        asked = _asked(reader, row.run_id, path) if status == "waiting" else ""
        error = _record(reader, path).get("error")
        message = error.get("message") if isinstance(error, dict) else None
        said = f"{word(shown_step(path))} {in_words(_TOLD[status])}"
        out.append(asked or (f"{said}: {quoted(str(message))}." if message else f"{said}."))
    return [*out, "More are too."] if len(paths) > _SHOWN else out


def _asked(reader: Reader, run_id: str, path: str) -> str:
    """Say what a step wants to have decided, and by which command."""
    found = reader.value("approval", path)
    if found is None or not isinstance(found.plain, dict):
        return ""
    about = found.plain
    ask = f": {quoted(about['ask'])}" if isinstance(about.get("ask"), str) else ""
    until = f" until {word(about['deadline'])}" if about.get("deadline") else ""
    options = about.get("options")
    chosen = f" ({', '.join(map(word, options))})" if isinstance(options, list) else ""
    return f"{word(shown_step(path))} is waiting for a decision{until}{ask}{chosen} `{named(how(run_id, path))}`."
