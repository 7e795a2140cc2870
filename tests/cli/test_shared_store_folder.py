"""A store in a folder that has other files, too."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.command import succeed


def test_a_store_in_a_folder_that_others_use(tmp_path: Path) -> None:
    """A project may name any of its folders for the store. leftoff deletes only files that it made there."""
    theirs = (
        "tmp/mine",
        "trash/mine",
        "attempts/r/mine",
        "attempts/other/mine/file",
        "archive/mine",
        "hooks/mine",
        "sync/mine",
        "pending/mine.died",
        "pending/mine.event",
        "pending/mine.lock",
        "pending/mine.new",
        "pending/mine.turn",
        "waiting/mine",
    )
    for name in theirs:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (1, 1))
    (tmp_path / "leftoff.toml").write_text('store = "."\n[protocol]\nname = "dotagent"\n')
    succeed("start", "dotagent", "--run-id", "s", cwd=tmp_path)
    event = {"session_id": "s", "cwd": str(tmp_path), "source": "startup", "prompt": "go on"}
    for name in ("SessionStart", "UserPromptSubmit", "Stop"):
        succeed("hook", "claude", cwd=tmp_path, input=json.dumps({**event, "hook_event_name": name}))
    succeed("rm", "s", "--yes", cwd=tmp_path)
    for words in (("prune",), ("prune", "--empty-trash"), ("fsck", "--repair")):
        succeed(*words, cwd=tmp_path)
    assert [] == [name for name in theirs if not (tmp_path / name).exists()]
