"""What fsck looked at and what it found."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOST_BLOB = "lost blob "  # starts the name of a fact in `meta`: this blob is known to be gone


class Report:
    """Counts of what was looked at, and problems, each with a code, its place and a sentence."""

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.problems: list[dict[str, Any]] = []
        self.quarantined: list[str] = []

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number

    def problem(self, code: str, where: str, message: str, **facts: Any) -> None:
        self.problems.append({"code": code, "where": where, "message": message, **facts})

    def codes(self) -> set[str]:
        return {problem["code"] for problem in self.problems}

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": not self.problems,
            "checked": self.checked,
            "problems": self.problems,
            "quarantined": self.quarantined,
        }
