"""The error tree: drawn in one docstring, and each error says what is wrong, what to do, and whether to try again."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

import leftoff
from leftoff import errors
from leftoff.errors import LeftoffError

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LeftoffError)]
NAMES = [kind.__name__ for kind in ERRORS]
# The command's exit codes, by what they mean.
EXIT_CODES = {
    "LeftoffError": 1, "StepFailed": 1, "StepTimeout": 1, "Usage": 2, "Ambiguous": 2, "BadDefinition": 2,
    "BadSettings": 2,
    "Frozen": 2, "NotFound": 3, "NoCheckpoint": 3, "Pruned": 3, "BadData": 4, "Corrupt": 4, "Invalid": 4,
    "BadTemplate": 4, "Unsupported": 4, "Rewound": 4, "Conflict": 5, "LeaseHeld": 5, "StaleEpoch": 5, "StepDone": 5,
    "CannotResume": 6, "Diverged": 6, "UnsafePath": 6, "NeedsPerson": 7, "Redacted": 7, "StoreUnavailable": 8,
}  # fmt: skip


def drawn() -> dict[str, tuple[str, int | None]]:
    """Each name in the docstring's tree, with the name that it hangs under and its exit code."""
    out: dict[str, tuple[str, int | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ((?:[│├└─ ]{4})*)([A-Z]\w+)(?:\s+(\d)\b)?", line)
        if found is None:
            continue
        depth = len(found[1])
        while above and above[-1][0] >= depth:
            above.pop()
        out[found[2]] = (above[-1][1] if above else "", int(found[3]) if found[3] else None)
        above.append((depth, found[2]))
    return out


def test_every_error_is_in_the_tree() -> None:
    """The docstring draws the classes as they are: names, parents and exit codes."""
    tree = drawn()
    assert sorted(NAMES) == sorted(tree)
    for kind in ERRORS:
        parent, code = tree[kind.__name__]
        if kind is not LeftoffError:
            assert (parent, code) == (kind.__bases__[0].__name__, kind.exit_code)


def test_the_issue_names_them_all() -> None:
    """The ones that were promised are there, and exported."""
    promised = {
        "NotFound", "NoCheckpoint", "Ambiguous", "CannotResume", "LeaseHeld", "StaleEpoch", "Conflict", "StepDone",
        "Corrupt", "Invalid", "Unsupported", "Redacted", "StoreUnavailable",
    }  # fmt: skip
    assert promised <= set(NAMES) <= set(leftoff.__all__)
    assert all(getattr(leftoff, name) is getattr(errors, name) for name in NAMES)


@pytest.mark.parametrize("kind", ERRORS, ids=NAMES)
def test_each_has_everything(kind: type[LeftoffError]) -> None:
    """A code, an exit code, an answer to whether trying again helps, and a hint where none is given."""
    error = kind("what is wrong")
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
    assert EXIT_CODES[kind.__name__] == kind.exit_code
    assert isinstance(kind.retry, bool)
    assert error.hint
    assert kind("what is wrong", hint="do this").hint == "do this"
    assert "what is wrong" in error.message
    assert str(error) == f"{error.message}\n{error.hint}"


def test_codes_are_unique() -> None:
    """Programs go by them."""
    codes = [kind.code for kind in ERRORS]
    assert sorted(set(codes)) == sorted(codes)


def test_when_trying_again_helps() -> None:
    """A busy run and a store out of reach may be different a moment later; nothing else is."""
    assert {"LeaseHeld", "StoreUnavailable"} == {kind.__name__ for kind in ERRORS if kind.retry}


def test_pythons_own_kinds() -> None:
    """They are caught by those who know only Python's errors."""
    for kind, own in (
        (errors.NotFound, LookupError),
        (errors.Invalid, ValueError),
        (errors.Frozen, TypeError),
    ):
        assert issubclass(kind, own)


@pytest.mark.parametrize("kind", ERRORS, ids=NAMES)
def test_they_travel(kind: type[LeftoffError]) -> None:
    """Through pickle and copy, as between the processes of a pool, with all they carry."""
    error = kind("what is wrong", hint="do this")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(error) is type(twin)
        assert (str(error), vars(error)) == (str(twin), vars(twin))


def test_what_some_carry_besides() -> None:
    """Candidates, findings, the place, the path, the name."""
    assert ["a"] == errors.Ambiguous("m", listed=[("a", "what", "running", 0)]).candidates
    assert [1] == errors.CannotResume("m", findings=[1]).findings
    assert "w" == errors.Corrupt("m", where="w").where
    assert "p" == errors.Invalid("m", path="p").path
    assert "db_password" == errors.Redacted("db_password").name
