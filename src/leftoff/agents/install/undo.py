"""Taking back a change of a text that somebody has edited since: the start, plus the edit.

Known are the text before the change, the text after it, and what it is now. Every character that the change put in
goes, wherever it is now; every one that it took out comes back; whatever else differs was somebody's, and stays.
"""

from __future__ import annotations

from difflib import SequenceMatcher

Op = tuple[str, int, int, int, int]


def undo(before: str, after: str, now: str) -> str:
    """``now`` without the change from ``before`` to ``after``."""
    ours = [False] * len(after)
    back: dict[int, str] = {}  # what was taken out, by its place in ``after``
    for tag, i1, i2, j1, j2 in _operations(before, after):
        if tag != "equal":
            ours[j1:j2] = [True] * (j2 - j1)
            if i2 > i1:
                back[j1] = before[i1:i2]
    out: list[str] = []
    for tag, i1, i2, j1, j2 in _operations(after, now):
        if tag != "equal":
            out.append(now[j1:j2])
            continue
        for place in range(i1, i2):
            out.append(back.pop(place, ""))
            if not ours[place]:
                out.append(after[place])
    out.append(back.pop(len(after), ""))
    return "".join(out)


def _operations(old: str, new: str) -> list[Op]:
    """How to make one text from another: by lines, and by characters in the lines that differ."""
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    old_at, new_at = _starts(old_lines), _starts(new_lines)
    out: list[Op] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        at, to = old_at[i1], new_at[j1]
        if tag != "replace":
            out.append((tag, at, old_at[i2], to, new_at[j2]))
            continue
        inner = SequenceMatcher(None, old[at : old_at[i2]], new[to : new_at[j2]], autojunk=False)
        out += [(t, a1 + at, a2 + at, b1 + to, b2 + to) for t, a1, a2, b1, b2 in inner.get_opcodes()]
    return out


def _starts(lines: list[str]) -> list[int]:
    """Where each line starts, and where the last one ends."""
    out = [0]
    for line in lines:
        out.append(out[-1] + len(line))
    return out
