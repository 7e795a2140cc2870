"""Status words: each dialect has its own, people write others, and all mean one of ours."""

from __future__ import annotations

from leftoff.dialects.report import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.report import Repairs

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
_STEP = {"paused": "pending", "abandoned": "skipped"}
_RUN = {"pending": "paused", "skipped": "abandoned"}


def meaning(word: Any) -> str | None:
    """Our word for what somebody wrote, however it is spelt; ``None`` where nobody could tell."""
    if not isinstance(word, str):
        return None
    text = word.strip().replace("\ufe0f", "").strip("*_` ")
    said = text.lstrip(
        "".join(c for c in text if not c.isalnum())
    )  # a word counts for more than a sign before it
    for part in (text, said, *said.split(), *text.split()):
        found = _MEANING.get(part.lower().replace(" ", "_").replace("-", "_"))
        if found is not None:
            return found
    return _MEANING.get(text[:1])


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
    """The words for steps: ours to theirs, and further words of theirs."""
    return Words(_inverse(write, also), write, _STEP)


def run_words(write: dict[str, str], also: dict[str, str] | None = None) -> Words:
    """The words for runs."""
    return Words(_inverse(write, also), write, _RUN)


def _inverse(write: dict[str, str], also: dict[str, str] | None) -> dict[str, str]:
    """Of several that are written by one word, the first is what that word is read as."""
    out: dict[str, str] = {}
    for ours, theirs in write.items():
        out.setdefault(theirs, ours)
    return {**out, **(also or {})}
