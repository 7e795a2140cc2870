"""The verdict on a run, with what its protocol has to say: the one operation that every face asks."""

from __future__ import annotations

from functools import partial

from leftoff.errors import LeftoffError
from leftoff.workflow.recovery import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import State
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.verdict import Report
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow


def verify_run(
    store: Store,
    target: Target,
    now: int,
    project: str,
    settings: Settings,
    *,
    deep: bool = False,
    given: Mapping[str, Any] | None = None,
    session: str | None = None,
    workflow: Workflow | None = None,
) -> Report:
    """Check the world against a run, with all that is known of it.

    ``given``: variables that are set again. ``workflow``: its definition, where that was given, too.
    """
    look = partial(
        verdict.verify_run,
        store,
        target,
        now,
        project,
        settings,
        deep=deep,
        given=given,
        session=session,
        workflow=workflow,
    )
    dialect = dialect_of(target.row, project, settings)
    if dialect is None:
        return look()
    try:
        state = state_of(store, target, dialect)
    except LeftoffError:  # what is wrong with it, the verdict says
        return look()

    def findings(world: World) -> Iterable[Finding]:
        return dialect.findings(state, project, now)

    settled = dialect.settled(state, project) if target.version is None else {}
    known = {path: _intent(record["status"]) for path, record in settled.items()}
    report = look(more=(findings,), known=known)
    if dialect.errors_block and not state.of("error"):
        report.dismiss("blocked.errors")
    return report


def dialect_of(row: RunRow, project: str, settings: Settings) -> Dialect | None:
    """The protocol that the project follows, or that the run was imported from."""
    if settings.section("mirror"):
        from leftoff.dialects.core.project import mirrored

        return mirrored(project, settings)
    origin = row.card.get("imported")
    name = origin.get("dialect") if isinstance(origin, dict) else None
    if not isinstance(name, str):
        return None
    from leftoff.dialects.core.registry import BUILT_IN, dialect

    return dialect(name) if name in BUILT_IN else None


def state_of(store: Store, target: Target, dialect: Dialect) -> State:
    """The run at the version that is meant, as its protocol sees it."""
    from leftoff.dialects.core.versions import state_at
    from leftoff.engine.lifecycle.opening import find

    seq = target.version.seq if target.version is not None else None
    run_id = target.row.run_id
    return store.read(lambda view: state_at(store, view, find(view, run_id), dialect, seq))


def _intent(status: str) -> tuple[str, str]:
    """What becomes of a step whose output says how it ended."""
    if status == "failed":
        return "run", "its output says that it failed"
    return "adopt", f"its output says that it is {status}"
