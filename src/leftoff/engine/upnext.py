"""Which step comes next, and why: the first pending leaf in declared order. No other step is looked at."""

from __future__ import annotations

from leftoff.engine.state import Reader
from leftoff.model.versions import counts_of
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

_SHOWN = 3
_TOLD = (
    ("running", "in progress"),
    ("waiting", "waiting for a person"),
    ("blocked", "blocked"),
    ("failed", "failed"),
)


class UpNext:
    """A step to do, or none; and why."""

    __slots__ = ("instructions", "step", "title", "why")

    def __init__(self, step: str | None, title: str | None, instructions: str | None, why: str) -> None:
        self.step = step
        self.title = title
        self.instructions = instructions
        self.why = why

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "title": self.title, "instructions": self.instructions, "why": self.why}


def up_next(store: Store, view: View, row: RunRow) -> UpNext:
    """What to do now."""
    reader = Reader(store, view, row.run, row.run_id)
    path = view.leaf(row.run, "pending") if row.status not in FINISHED else None
    why = _why(reader, view, row, path)
    if path is None:
        return UpNext(None, None, None, why)
    found = reader.value("step", path)
    assert found is not None
    record = found.plain
    left = reader.value("error", path)
    open_error = left.plain if left is not None and isinstance(left.plain, dict) else {}
    told = (record.get("instructions"), open_error.get("resume_with"))
    instructions = "\n".join(text for text in told if isinstance(text, str))
    title = record.get("title")
    return UpNext(path, title if isinstance(title, str) else None, instructions or None, why)


def _why(reader: Reader, view: View, row: RunRow, path: str | None) -> str:
    if row.status in FINISHED:
        return f"The run is {row.status}."
    counts = counts_of(row.counts)
    total, done = sum(counts.values()), counts["completed"] + counts["skipped"]
    said = []
    if path is not None:
        said.append(f"{done} of {total} steps are done, and this is the first that is pending.")
    elif total == 0:
        said.append("No steps are declared, and none was reported.")
    elif done == total:
        said.append(f"All {total} steps are done.")
    else:
        said.append(f"{done} of {total} steps are done, and none is pending.")
    if row.status != "running":
        said.append(f"The run is {row.status}.")
    said += [
        line
        for status, word in _TOLD
        if counts[status]
        for line in _held(reader, view, row.run, status, word)
    ]
    return " ".join(said)


def _held(reader: Reader, view: View, run: int, status: str, word: str) -> list[str]:
    """The steps that are not offered, and what is the matter with each."""
    paths = view.leaves(run, status, _SHOWN + 1)
    out = []
    for path in paths[:_SHOWN]:
        found = reader.value("step", path)
        error = found.plain.get("error") if found is not None else None
        message = error.get("message") if isinstance(error, dict) else None
        out.append(f"{path} is {word}: {message}." if message else f"{path} is {word}.")
    return [*out, "More are too."] if len(paths) > _SHOWN else out
