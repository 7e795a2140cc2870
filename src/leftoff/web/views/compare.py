"""Two versions of a run compared: variables as a tree, steps, and files side by side."""

from __future__ import annotations

from typing import Any

from leftoff.model.fields import Fields
from leftoff.operations import Project
from leftoff.operations.checkpoints import compare
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, number
from leftoff.web.views.run import why
from leftoff.web.views.trees import compared


class Pair(Fields):
    """A line of a file before and after; ``None``: there is none. ``kind``: same, changed, or the heading of a part."""

    kind: str
    old: str | None
    new: str | None


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?from=`` and ``?to=``: seqs; without the second, what there is now."""
    old, new = number(asked.query.get("from")), number(asked.query.get("to"))
    refs = [f"{asked.run}@{seq}" if seq is not None else None for seq in (old, new)]
    found = compare(project, asked.caller, refs[0] or asked.run, refs[1])
    variables, steps = found.found.variables, found.found.steps
    before = {**variables.removed, **{key: each.old for key, each in variables.changed.items()}}
    after = {**variables.added, **{key: each.new for key, each in variables.changed.items()}}
    return {
        **heading(project, asked),
        "tab": "history",
        "old": found.old.version.to_json() if found.old.version is not None else None,
        "new": found.new.version.to_json() if found.new.version is not None else None,
        "variables": compared(before, after),
        "steps": [
            *((path, None, record.get("status"), why(record)) for path, record in steps.added.items()),
            *((path, record.get("status"), None, "") for path, record in steps.removed.items()),
            *(
                (path, each.old.get("status"), each.new.get("status"), why(each.new))
                for path, each in steps.changed.items()
            ),
        ],
        "files": [(path, each, side_by_side(each.text)) for path, each in found.contents.items()],
    }


def side_by_side(text: str) -> list[Pair]:
    """A unified diff as pairs of lines; what was taken out stands beside what came in its place."""
    if not text.startswith("--- "):
        return []
    out: list[Pair] = []
    gone: list[str] = []
    come: list[str] = []

    def settle() -> None:
        for place in range(max(len(gone), len(come))):
            old = gone[place] if place < len(gone) else None
            new = come[place] if place < len(come) else None
            out.append(Pair("changed", old, new))
        gone.clear()
        come.clear()

    for line in text.split("\n")[2:]:
        if line.startswith("-"):
            gone.append(line[1:])
        elif line.startswith("+"):
            come.append(line[1:])
        else:
            settle()
            kind = "part" if line.startswith(("@@", "…")) else "same"
            shown = line if kind == "part" else line[1:]
            out.append(Pair(kind, shown, shown))
    settle()
    return out
