"""The verdict on a run, whether a runner drives it or somebody reports on it."""

from __future__ import annotations

import os
from functools import partial

from leftoff.engine.definition import definition_of, names_of
from leftoff.engine.verify.own import redacted
from leftoff.engine.verify.verify import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leftoff.engine.find import Target
    from leftoff.engine.settings import Settings
    from leftoff.engine.verify.verify import Check, Report
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
    more: Sequence[Check] = (),
    known: Mapping[str, tuple[str, str]] | None = None,
) -> Report:
    """Check the world against a run. ``given``: variables that are set again.

    ``more``: checks of whoever knows more of it; ``known``: what became of its steps, as far as they know.
    """
    look = partial(verify, store, target, now, project, settings, deep=deep, session=session)
    definition, theirs = definition_of(store, target.row), known or {}
    if definition is None:
        again = frozenset(given)
        return look(more=(*more, lambda world: redacted(world, again)), known=lambda world: theirs)
    from leftoff.workflow.verify import RunnerChecks

    folder = getattr(store, "folder", None) or os.path.join(project, ".leftoff")
    names = frozenset({*given, *names_of(store, target.row)})
    checks = RunnerChecks(definition, project, folder, frozenset(given), names)
    report = look(more=(*checks.all, *more), known=lambda world: {**theirs, **checks.known(world)})
    report.problem = checks.problem
    return report
