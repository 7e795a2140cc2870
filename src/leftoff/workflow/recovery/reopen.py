"""The commit with which a run is driven again: what failed or was cut off is to be done, the definition is today's.

What is there is looked at inside the transaction, so that a step that somebody reports done meanwhile stays done.
Nothing that is finished is touched, unless it is to be done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.steps import lifecycle
from leftoff.engine.steps.approvals import is_rejected
from leftoff.workflow.definition.model import differs, is_gone
from leftoff.workflow.run.entries import Entry, Page

if TYPE_CHECKING:
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.write.commit import Seal
    from leftoff.workflow.definition.model import Workflow

    Record = dict[str, Any]

DONE = ("completed", "skipped")
_DECLARED = ("order", "batch", "title", "kind", "type", "description", "instructions", "estimate")
_PLACE = ("order", "batch")


class Reopening(Entry):
    """``held``: steps whose attempts are looked after one by one. ``about``: what is known of a changed definition."""

    def __init__(
        self,
        old: Workflow,
        new: Workflow,
        declared: dict[str, Record],
        request: ResumeRequest,
        *,
        held: set[str],
        about: Record,
    ) -> None:
        super().__init__()
        self._old = old
        self._new = new
        self._declared = declared
        self._held = held
        self._request = request
        self._firsts = tuple(request.repeat) + ((request.from_step,) if request.from_step is not None else ())
        self._about = about
        self._repeated: set[str] = set()
        self._above_done: set[str] = set()
        self._now = ""

    def write(self, page: Page) -> Seal | None:
        steps, self._now = page.steps.all(), page.steps.now
        self._repeated = self._request.repeated(steps)
        done = [path for path, record in steps.items() if record["status"] in DONE]
        self._above_done = {path.rpartition("/")[0] for path in done if "/" in path}
        if page.row().status != "running":
            status_changes(page.changes, "running", page.at)
        self._put_steps(page, steps)
        for collection, given in (("context", self._about), ("variable", self._request.variables)):
            for key, value in given.items():
                page.put(collection, key, value)
        return self._request.seal()

    def _put_steps(self, page: Page, steps: dict[str, Record]) -> None:
        after = {path: self._after(path, record) for path, record in steps.items()}
        for path in sorted((path for path, record in after.items() if record is None), reverse=True):
            page.steps.remove(path)
        for path, record in after.items():
            if record is not None and record != steps[path]:
                page.steps.move(path, record)
        for path, record in self._declared.items():
            if path not in steps:
                page.steps.put(path, record)

    def _after(self, path: str, record: Record) -> Record | None:
        """A step's record from now on; ``None`` where it has none any more."""
        status = record["status"]
        if status not in DONE and is_gone(path, record, self._old, self._new):
            return lifecycle.complete(record, self._now) if path in self._above_done else None
        if self._is_old_item(path, record):
            return None
        record = self._redeclared(path, record)
        if path in self._repeated:
            return self._anew(path, record)
        if self._is_to_be_done(path, record):
            return lifecycle.put_back(record)
        return record

    def _is_to_be_done(self, path: str, record: Record) -> bool:
        status = record["status"]
        if status == "failed":
            return not is_rejected(record)
        if status == "running":
            step = self._new.find(path)
            outer = step is not None and (step.kind == "phase" or isinstance(record.get("items"), int))
            return not outer and path not in self._held
        return status in ("waiting", "blocked") and self._differs(path)

    def _differs(self, path: str) -> bool:
        return self._new.find(path) is not None and differs(self._old.find(path), self._new.find(path))

    # -- a definition that changed

    def _redeclared(self, path: str, record: Record) -> Record:
        """With what the definition says of it by now; of a finished step, and of one that waits, only its place."""
        declared = self._declared.get(path)
        if declared is None or self._old.text == self._new.text:
            return record
        settled = record["status"] in (*DONE, "waiting", "blocked") and not self._differs(path)
        words = _PLACE if settled or record["status"] in DONE else _DECLARED
        kept = {key: value for key, value in record.items() if key not in words}
        return {**kept, **{key: declared[key] for key in words if key in declared}}

    # -- once more

    def _anew(self, path: str, record: Record) -> Record:
        again = lifecycle.redo(record)
        if not self._contains_first(path):
            again.pop("items", None)  # they are looked for again: what comes before may leave others
        return again

    def _is_old_item(self, path: str, record: Record) -> bool:
        """Whether it is an item of a `foreach` that will look for its items again."""
        leaf = path.rpartition("/")[0]
        return "item" in record and leaf in self._repeated and not self._contains_first(leaf)

    def _contains_first(self, path: str) -> bool:
        return any(first.startswith(f"{path}/") for first in self._firsts)
