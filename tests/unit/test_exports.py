"""The names that `import leftoff` promises: adding one is a decision, losing one breaks somebody's program."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import leftoff

ERRORS = {
    "Ambiguous", "BadData", "BadDefinition", "BadSettings", "BadTemplate", "CannotResume", "Conflict", "Corrupt",
    "Diverged", "Frozen", "Invalid", "LeaseHeld", "LeftoffError", "NeedsPerson", "NoCheckpoint", "NotFound", "Pruned",
    "Redacted", "Rewound", "StaleEpoch", "StepDone", "StepFailed", "StepTimeout", "StoreUnavailable", "UnsafePath",
    "Unsupported", "Usage",
}  # fmt: skip
VERBS = {"fsck", "get", "list", "open", "resume", "run", "start"}
FUNCTIONS = {"register", "step", "workflow"}  # of durable functions
CLASSES = {"Diff", "FsckReport", "Run", "RunInfo", "RunView", "Snapshot", "Step", "Store", "Version"}


def members(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_names() -> None:
    """These and no others, each once, in order."""
    assert (
        sorted(ERRORS | VERBS | FUNCTIONS | CLASSES | {"__version__", "logger"})
        == leftoff.__all__
        == dir(leftoff)
    )


def test_a_type_checker_sees_the_same() -> None:
    """The names are loaded when they are first used; what is imported for type checkers is the same list."""
    tree = ast.parse(Path(inspect.getsourcefile(leftoff) or "").read_text())
    seen = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*leftoff.__all__} == seen - {"TYPE_CHECKING", "annotations", "import_module", "seams"}


def test_star_import() -> None:
    """`from leftoff import *` gives them all."""
    names: dict[str, object] = {}
    exec("from leftoff import *", names)
    assert {*leftoff.__all__} <= {*names}


@pytest.mark.parametrize("name", sorted(VERBS))
def test_verbs_say_what_they_do(name: str) -> None:
    """Each has a docstring, and the store has the same verb with the same words."""
    verb = getattr(leftoff, name)
    assert inspect.getdoc(verb)
    if name not in ("open", "list"):
        same = getattr(leftoff.Store, name)
        assert list(inspect.signature(verb).parameters) == list(inspect.signature(same).parameters)[1:]


def test_a_run() -> None:
    """What a run offers."""
    reading = {
        "artifacts", "at", "branch", "diff", "history", "info", "records", "status", "steps", "title", "variables",
        "workflow",
    }  # fmt: skip
    driving = {
        "append", "artifact", "beat", "checkpoint", "commit", "compare_and_set", "do", "done", "each", "finish",
        "fork", "log", "map", "note", "pause", "put", "refresh", "restore", "result", "rollback", "step", "track",
    }  # fmt: skip
    assert reading == members(leftoff.RunView)
    assert reading | driving == members(leftoff.Run)


def test_a_store() -> None:
    """What a store offers."""
    assert {
        "backup", "close", "fsck", "get", "list", "prune", "remove", "resume", "run", "start", "sweep",
        "trash", "undelete",
    } == members(leftoff.Store)  # fmt: skip


@pytest.mark.parametrize(
    "kind", [leftoff.Run, leftoff.RunView, leftoff.Store, leftoff.Step, leftoff.Snapshot]
)
def test_everything_public_is_documented(kind: type) -> None:
    """Every method says what it does; a property, if its name does not."""
    silent = [
        name
        for name in members(kind)
        if callable(getattr(kind, name)) and not inspect.getdoc(getattr(kind, name))
    ]
    assert [] == silent
