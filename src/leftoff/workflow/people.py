"""What people decided while the run goes on: approvals, steps done by hand, deadlines that passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.engine.approvals import expire_due
from leftoff.model.times import millis

if TYPE_CHECKING:
    from leftoff.engine.commit import Seal
    from leftoff.store.base import View
    from leftoff.workflow.ledger import Page
    from leftoff.workflow.stage import Stage

_OPEN = ("waiting", "blocked")


def look_at_people(stage: Stage) -> None:
    """Take in what others committed, as far as the run waits for it."""
    _expire(stage)
    if not stage.ledger.moved():
        return
    stage.state.forget_variables()
    paths = [path for status in _OPEN for path in stage.scheduler.of(status)]
    for path, record in _records(stage, paths).items():
        before, status = stage.scheduler.status[path], record.get("status")
        if status != before:
            stage.state.steps[path] = record
            _decided(stage, path, str(status), record)


def _expire(stage: Stage) -> None:
    """Reject what waited past its deadline."""
    now = stage.ledger.clock.now()
    due = [
        path
        for path in stage.scheduler.of("waiting")
        if (until := millis(stage.state.steps[path].get("waits_until"))) is not None and now > until
    ]
    if not due:
        return

    def entry(page: Page) -> Seal | None:
        from leftoff.engine.commit import Seal

        expired = expire_due(stage.ledger.store, page.tx, page.row(), page.changes, page.at)
        return Seal("approval", expired[0], "expired") if expired else None

    stage.add(entry)
    stage.close()
    stage.ledger.foreign = True  # the step's record is another one now


def _records(stage: Stage, paths: list[str]) -> dict[str, dict[str, Any]]:
    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = stage.ledger.reader(view)
        found = {path: reader.value("step", path) for path in paths}
        return {path: dict(value.plain) for path, value in found.items() if value is not None}

    return stage.ledger.store.read(look) if paths else {}


def _decided(stage: Stage, path: str, status: str, record: dict[str, Any]) -> None:
    step = stage.scheduler.steps[path]
    facts = stage.step_facts(step, path)
    if status in ("completed", "skipped"):
        stage.tell("step_done" if status == "completed" else "step_skipped", **facts, why=_why(record))
        stage.follow(path, stage.scheduler.ended(path, path, status))
    elif status == "failed":
        error = record.get("error")
        stage.tell("step_failed", **facts, error=error, tail="", will_retry_in=None)
        stage.follow(path, stage.scheduler.ended(path, path, "failed"))
    else:
        stage.scheduler.status[path] = status if status in _OPEN else "waiting"


def _why(record: dict[str, Any]) -> str:
    result = record.get("result")
    if isinstance(result, dict) and "choice" in result:
        return f"decided: {result['choice']}"
    return "somebody reported it"
