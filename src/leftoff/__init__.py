"""leftoff keeps the progress of long-running work, so that it resumes exactly where it left off.

::

    import leftoff

    with leftoff.run("convert-pdfs", steps=["collect", "convert", "publish"]) as run:
        pdfs = run.do("collect", find_pdfs)
        for pdf in run.each("convert", pdfs):
            run.artifact(convert(pdf))

Run the script again after a crash: it continues where it was. Names are loaded when they are first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from leftoff import seams

if TYPE_CHECKING:
    from leftoff._version import __version__
    from leftoff.engine.history import Diff
    from leftoff.engine.run_info import RunInfo
    from leftoff.engine.run_states import FsckReport
    from leftoff.errors import (
        Ambiguous,
        BadData,
        BadDefinition,
        BadSettings,
        BadTemplate,
        CannotResume,
        Conflict,
        Corrupt,
        Diverged,
        Frozen,
        Invalid,
        LeaseHeld,
        LeftoffError,
        NeedsPerson,
        NoCheckpoint,
        NotFound,
        Pruned,
        Redacted,
        Rewound,
        StaleEpoch,
        StepDone,
        StepFailed,
        StepTimeout,
        StoreUnavailable,
        UnsafePath,
        Unsupported,
        Usage,
    )  # fmt: skip
    from leftoff.model.changes import Version
    from leftoff.python.durable import step, workflow
    from leftoff.python.run_api import Run, RunView, Snapshot
    from leftoff.python.run_steps import Step, logger
    from leftoff.python.store_api import Store, fsck, get, list, open, resume, run, start
    from leftoff.python.value_kinds import register

_HOME = {
    "leftoff._version": ("__version__",),
    "leftoff.python.run_api": ("Run", "RunView", "Snapshot"),
    "leftoff.python.run_steps": ("Step", "logger"),
    "leftoff.python.store_api": ("Store", "fsck", "get", "list", "open", "resume", "run", "start"),
    "leftoff.engine.history": ("Diff",),
    "leftoff.engine.run_states": ("FsckReport",),
    "leftoff.engine.run_info": ("RunInfo",),
    "leftoff.model.changes": ("Version",),
    "leftoff.python.durable": ("step",),
    "leftoff.python.value_kinds": ("register",),
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = [
    "Ambiguous", "BadData", "BadDefinition", "BadSettings", "BadTemplate", "CannotResume", "Conflict", "Corrupt",
    "Diff", "Diverged", "Frozen", "FsckReport", "Invalid", "LeaseHeld", "LeftoffError", "NeedsPerson", "NoCheckpoint",
    "NotFound", "Pruned", "Redacted", "Rewound", "Run", "RunInfo", "RunView", "Snapshot", "StaleEpoch", "Step",
    "StepDone", "StepFailed", "StepTimeout", "Store", "StoreUnavailable", "UnsafePath", "Unsupported", "Usage",
    "Version", "__version__", "fsck", "get", "list", "logger", "open", "register", "resume", "run", "start", "step",
    "workflow",
]  # fmt: skip


def _loaded(home: str):  # type: ignore[no-untyped-def]
    """A module; `importlib` would cost what a hot verb cannot spare."""
    __import__(home)
    return sys.modules[home]


def _later(home: str, name: str):  # type: ignore[no-untyped-def]
    """A function of a higher layer, loaded when it is called."""
    return lambda *about: getattr(_loaded(home), name)(*about)


seams.follow = _later("leftoff.protocols.sync", "follow")
seams.drain_before_reading = _later("leftoff.agents.spool_drain", "drain_before_reading")
seams.point_out = _later("leftoff.protocols.registry", "point_out")
seams.prepare_agents = _later("leftoff.agents.agent_action", "prepare_agents")


def __getattr__(name: str) -> object:
    if name == "workflow":  # the package, which is also the decorator
        return _loaded("leftoff.workflow")
    if name not in __all__:
        raise AttributeError(f"module 'leftoff' has no attribute {name!r}")
    value = getattr(_loaded(_WHERE.get(name, "leftoff.errors")), name)
    globals()[name] = value
    return value


def __dir__():  # type: ignore[no-untyped-def]
    return sorted(__all__)
