"""The command, broken on purpose: `python -m tests.crash.broken KIND VERB …`. A suite must notice.

``forgetful`` does not look whether a process of an earlier driver still runs; ``deaf`` does not read the exit codes
that were written while nobody drove; ``hasty`` lets a command start before its attempt is on record.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from leftoff.cli import main
from leftoff.workflow import drive_steps
from leftoff.workflow import process_groups as groups
from leftoff.workflow import workflow_checks as recover
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.shim_client import Launcher


class _Instead:
    """A module of which one function is another."""

    def __init__(self, module: Any, **other: Any) -> None:
        self._module = module
        self.__dict__.update(other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def replace(owner: Any, **other: Any) -> None:
    for name, value in other.items():
        setattr(owner, name, value)


def forgetful() -> None:
    replace(recover, groups=_Instead(groups, alive=lambda process: False))


def deaf() -> None:
    replace(AttemptFolder, exit=lambda folder: None)


def hasty() -> None:
    ready, go = drive_steps.ready, Launcher.go
    told: set[str] = set()

    def early(driver: Any, token: str, process: Any) -> None:
        driver.launcher.go(token)
        time.sleep(0.1)
        ready(driver, token, process)

    def once(launcher: Launcher, token: str) -> None:
        if token not in told:
            told.add(token)
            go(launcher, token)

    replace(drive_steps, ready=early)
    replace(Launcher, go=once)


KINDS = {"forgetful": forgetful, "deaf": deaf, "hasty": hasty}

if __name__ == "__main__":
    KINDS[sys.argv.pop(1)]()
    raise SystemExit(main())
