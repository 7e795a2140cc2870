"""``python -m tests.dialects.dying FOLDER [broken]``: one commit in a project that follows a protocol, to be killed.

Just before a file is replaced, somebody else replaces it too: by what lies ready under `edited` in the folder.
``broken``: without writing down beforehand what is about to happen, which must lose something.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from leftoff.clock import SYSTEM
from leftoff.engine.commit import Terms
from leftoff.engine.opening import find
from leftoff.engine.project_files import Place
from leftoff.engine.report_commit import report
from leftoff.protocols import sync_base
from tests.dialects.rivals import followed

RUN = "shared"


def main(project: Path, broken: bool) -> None:
    store = followed(project)
    store.follower.look()
    exchange, edited = sync_base.exchange, project / "edited"

    def disturbed(new: Place, at: Place) -> None:
        if edited.exists():
            os.replace(edited, project / at.path)
        if broken:
            (project / ".leftoff/sync" / sync_base.COMING).write_text("")
        exchange(new, at)

    sync_base.exchange = disturbed

    def make(tx: Any, row: Any, changes: Any) -> None:
        changes.put("variable", "ours", 1)

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    report(store, lambda view: find(view, RUN), make, Terms(SYSTEM.now()))
    os._exit(0)  # what is tidied up at the end is no part of it


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["broken"])
