"""The verdict on a run, whether a runner drives it or somebody reports on it."""

from __future__ import annotations

import os
from functools import partial

from leftoff.engine.read.definition import definition_of, names_of
from leftoff.engine.resume.checks.run import redacted
from leftoff.engine.resume.verdict import verify
from leftoff.errors import Corrupt, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from leftoff.engine.config.settings import Settings
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.verdict import Check, Report
    from leftoff.store.base import Store
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.definition.of_run import Definitions


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
    more: Sequence[Check] = (),
    known: Mapping[str, tuple[str, str]] | None = None,
) -> Report:
    """Check the world against a run. ``given``: variables that are set again.

    ``workflow``: its definition as it shall be from now on, where that is not in the file that the run remembers.
    ``more``: checks of whoever knows more of it; ``known``: what became of its steps, as far as they know.
    """
    given = given or {}
    look = partial(verify, store, target, now, project, settings, deep=deep, session=session, known=known)
    try:
        found = loaded(store, target, project, given, workflow)
    except (Corrupt, Unsupported):  # its integrity is checked, and nothing else can be
        found = None
    if found is None:
        return look(more=(*more, lambda world: redacted(world, given)))
    from leftoff.workflow.recovery.checks import RunnerChecks

    folder = getattr(store, "folder", None) or os.path.join(project, ".leftoff")
    return look(drive=RunnerChecks(found, folder, given), more=more)


def loaded(
    store: Store, target: Target, project: str, given: Mapping[str, Any], workflow: Workflow | None = None
) -> Definitions | None:
    """The definition of a run at a version, then and now; ``None`` where it is no run of a workflow file."""
    seq = target.version.seq if target.version is not None else None
    known = definition_of(store, target.row, seq)
    if known is None:
        return None
    from leftoff.workflow.definition.of_run import Definitions

    return Definitions(known, project, {*given, *names_of(store, target.row, seq)}, workflow)
