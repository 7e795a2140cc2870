"""fsck as an operation: the store's own check, with a report that people and programs can read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store


class FsckReport:
    """What was checked, what is wrong, what was set aside."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.checked: dict[str, int] = found["checked"]
        self.problems: list[dict[str, Any]] = found["problems"]
        self.quarantined: list[str] = found["quarantined"]
        self.repaired: list[dict[str, Any]] = found.get("repaired", [])
        # Run by run: what could not be proved.
        self.salvaged: list[dict[str, Any]] = found.get("salvaged", [])

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checked": self.checked,
            "problems": self.problems,
            "quarantined": self.quarantined,
            "repaired": self.repaired,
            "salvaged": self.salvaged,
        }

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "<fsck: clean>" if self.ok else f"<fsck: {len(self.problems)} problem(s): {self.problems[:3]}>"


def fsck(store: Store, *, repair: bool = False) -> FsckReport:
    """Check a store. ``repair``: set what is damaged aside. A run that lost versions asks before it resumes."""
    return FsckReport({"repaired": [], "salvaged": [], **store.check(repair=repair)})
