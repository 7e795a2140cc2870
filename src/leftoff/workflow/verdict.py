"""The verdict on a run, whatever kind of run it is: the one operation that every face asks."""

from __future__ import annotations

import os
from functools import partial

from leftoff.engine.definition import definition_of, names_of
from leftoff.engine.verify.verify import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.engine.find import Target
    from leftoff.engine.settings import Settings
    from leftoff.engine.verify.verify import Report
    from leftoff.store.base import Store


def verify_run(
    store: Store,
    target: Target,
    now: int,
    project: str,
    settings: Settings,
    *,
    deep: bool = False,
    given: Iterable[str] = (),
    session: str | None = None,
) -> Report:
    """Check the world against a run, with all that is known of it. ``given``: variables that are set again."""
    look = partial(verify, store, target, now, project, settings, deep=deep, session=session)
    known = definition_of(store, target.row)
    if known is None:
        return look()
    from leftoff.workflow.verify import RunnerChecks

    folder = getattr(store, "folder", None) or os.path.join(project, ".leftoff")
    names = frozenset({*given, *names_of(store, target.row)})
    checks = RunnerChecks(known, project, folder, frozenset(given), names)
    report = look(more=checks.all, known=checks.known)
    report.problem = checks.problem
    return report
