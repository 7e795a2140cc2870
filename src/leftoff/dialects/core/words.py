"""Status words: each dialect has its own, people write others, and all mean one of ours."""

from __future__ import annotations

from leftoff.dialects.core.repairs import shown
from leftoff.model.words import RUN_STATUS, STEP_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.repairs import Repairs

# What people write beside the words of the protocols.
_LOOSE = {
    "completed": "complete completed done finished success successful succeeded passed pass ok ✓ ✔ ✅ ☑",
    "running": "in_progress running active started ongoing wip working current alive 🔄 🚧 ▶ 🏃",
    "pending": "pending todo open planned queued new ready not_started waiting ⏳ ⬜ ☐ 🕐",
    "failed": "failed fail failure error errored broken ❌ ✗ ✘ 💥",
    "blocked": "blocked stuck on_hold hold 🚫 ⛔ 🛑",
    "skipped": "skipped skip ⏭",
    "paused": "paused pause suspended interrupted ⏸",
    "abandoned": "abandoned cancelled canceled aborted dropped",
}
_MEANING = {word: ours for ours, words in _LOOSE.items() for word in words.split()}
_SIGNS = frozenset(word for word in _MEANING if not word.isascii())
_NO_SIGNS = str.maketrans(dict.fromkeys([*_SIGNS, *"*`.,:;!?()[]{}<>/|~=+\"'"], " "))
_NOT = ("not", "never", "no", "without")  # whatever follows, it is not that
_STEP = {"paused": "pending", "abandoned": "skipped"}
_RUN = {"pending": "paused", "skipped": "abandoned"}


def meaning(word: Any) -> str | None:
    """Our word for what somebody wrote, however it is spelt; ``None`` where nobody could tell.

    A word that is known counts, wherever it stands; a sign only where there is none.
    """
    if not isinstance(word, str):
        return None
    plain = word.replace("\ufe0f", "").lower().replace("-", "_")
    parts = [part for each in plain.translate(_NO_SIGNS).split() if (part := each.strip("_"))]
    for first, second in zip(parts, [*parts[1:], ""], strict=False):
        found = _MEANING.get(f"{first}_{second}") or _MEANING.get(first)
        if found is not None or first.partition("_")[0] in _NOT:
            return found
    return next((_MEANING[sign] for sign in plain if sign in _SIGNS), None)


class Words:
    """The status words of a protocol: what they mean, and which of them is written for each of ours."""

    def __init__(self, read: dict[str, str], write: dict[str, str], loose: dict[str, str]) -> None:
        self._read = read
        self._write = write
        self._loose = loose

    def read(self, word: Any, default: str, repairs: Repairs, where: str) -> str:
        """Our word. One that the protocol does not have is read by its meaning, and told."""
        if isinstance(word, str) and word in self._read:
            return self._read[word]
        found = meaning(word)
        ours = self._loose.get(found, found) if found is not None else None
        if ours is None or ours not in self._write:
            if word is not None:
                repairs.add(f"{where}: the status {shown(word)} is unknown; read as {self.write(default)}.")
            return default
        repairs.add(f"{where}: the status {shown(word)} is read as {self.write(ours)}.")
        return ours

    def write(self, ours: str) -> str:
        return self._write.get(ours, ours)


def step_words(write: dict[str, str], also: dict[str, str] | None = None) -> Words:
    """The words for steps: ours to theirs, where they differ, and further words of theirs."""
    write = {word: word for word in STEP_STATUS} | write
    return Words(_inverse(write, also), write, _STEP)


def run_words(write: dict[str, str], also: dict[str, str] | None = None) -> Words:
    """The words for runs."""
    write = {word: word for word in RUN_STATUS} | write
    return Words(_inverse(write, also), write, _RUN)


def _inverse(write: dict[str, str], also: dict[str, str] | None) -> dict[str, str]:
    """Of several that are written by one word, the first is what that word is read as."""
    out: dict[str, str] = {}
    for ours, theirs in write.items():
        out.setdefault(theirs, ours)
    return {**out, **(also or {})}
