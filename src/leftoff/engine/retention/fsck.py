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
        self.salvaged: list[dict[str, Any]] = found.get(
            "salvaged", []
        )  # run by run: what could not be proved

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
    """``repair``: a run that lost versions, or may have, is marked: it asks before it resumes."""
    found = store.check(repair=repair)
    report = FsckReport(found)
    if found.get("unaccounted"):
        from leftoff.engine.write.salvaged import mark

        doubted = _perhaps(store, {loss["run_id"] for loss in report.salvaged})
        report.salvaged += doubted
        for loss in doubted:
            mark(store, loss, report.quarantined)
    return report


def _perhaps(store: Store, told: set[str]) -> list[dict[str, Any]]:
    """The unfinished runs that commits may have been of which nobody can account for any more."""
    from leftoff.model.words import UNFINISHED

    message = "Commits were lost, and whose they were cannot be told: it may have been further on."
    rows = store.read(lambda view: view.list_runs({"status": UNFINISHED}))
    return [
        {"run_id": row.run_id, "kept": row.seq, "newest": None, "unproved": [], "message": message}
        for row in rows
        if row.run_id not in told
    ]
