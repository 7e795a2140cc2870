"""What a REF names: one thing or nothing, by the rules of docs/reference/refs.md, said here once more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.engine.find import Target, resolve
from leftoff.errors import Ambiguous, LeftoffError, NoCheckpoint, NotFound, Pruned
from leftoff.model.words import UNFINISHED
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow
from leftoff.store.sqlite import SqliteStore
from tests.contract.scribe import Scribe


@dataclass
class Known:
    """A run as the model has it: its versions with their ids and other names, and which were pruned."""

    run_id: str
    workflow: str
    title: str | None
    issue: str | None
    status: str
    ids: dict[int, str]
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    pruned: frozenset[int] = frozenset()
    newest: int = 9
    n: dict[int, int] = field(default_factory=dict)  # of each version, its place among all commits


def _id(start: str) -> str:
    return start.ljust(64, "0")


#: oldest first
RUNS = [
    Known("cafe", "site", "Old pages", None, "completed", {3: _id("beef1"), 5: _id("2345a")}),
    Known(
        "r1",
        "Site",
        "Nature trail",
        "42",
        "paused",
        {3: _id("abcd1"), 4: _id("2bcd2"), 6: _id("123456789012"), 8: _id("45def")},
        {3: ("CP-enrich-1", "own-id"), 6: ("a3f9b2",), 8: ("own-id", "CP-enrich-2.json", "CP-enrich-2")},
        frozenset({2, 4, 5}),
    ),
    Known("r2", "migration", "R1", "7", "running", {3: _id("abcd7"), 4: _id("0007")}, {4: ("migration-T1",)}),
    Known("r3", "beef", "latest@2", None, "running", {3: _id("77a1")}, {3: ("r9@3", "r1@CP-x")}),
    Known("latest-1", "CAFÉ", None, "42", "completed", {3: _id("abca")}),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    store = SqliteStore(str(tmp_path_factory.mktemp("refs") / ".leftoff"))
    for known in RUNS:
        _write(store, known)
    yield store
    store.close()


def _write(store: SqlStore, known: Known) -> None:
    scribe = Scribe(store, known.run_id, workflow=known.workflow)
    columns = {
        "workflow": known.workflow,
        "branch": "main",
        "title": known.title,
        "issue": known.issue,
        "status": known.status,
    }
    scribe.set_card({key: value for key, value in columns.items() if value is not None})
    for seq in range(3, known.newest + 1):
        plan = scribe.plan({("note", "n"): seq}, aliases=known.names.get(seq, ()))
        plan.sealed, plan.trigger = known.ids.get(seq), "manual" if seq in known.ids else None
        scribe.make(plan)
    if known.pruned:
        store.prune(scribe.run, [seq for seq in known.pruned if seq in known.ids])
    versions = store.read(lambda view: view.versions(scribe.run, sealed=False))
    known.n = {version.seq: version.n for version in versions}
    known.pruned = frozenset(seq for seq in range(1, known.newest) if seq not in known.n)
    known.ids = {seq: id for seq, id in known.ids.items() if seq in known.n}


# -- the rules


def expected(text: str) -> tuple[str, int | None] | type[LeftoffError]:
    """What a REF names: a run, and the seq of a version; or how it fails."""
    versioned = re.fullmatch(r"(.*)(?:~([0-9]+)|@([^@]+))", text, re.DOTALL)
    if versioned and not re.fullmatch(r".*~[0-9]+", text) and versioned[2]:
        versioned = None
    if versioned:
        base, back, at = versioned.groups()
        run = _run(base or "@")
        if run is not None:
            return _back(run, int(back)) if back else _at(run, at)
    exact = [known for known in RUNS if known.run_id == text]
    if exact or text == "@":
        return (exact[0] if exact else RUNS[2]).run_id, None
    if re.fullmatch("[0-9a-f]{4,64}", text) and (re.search("[a-f]", text) or len(text) >= 12):
        found = [(known, seq) for known in RUNS for seq, id in known.ids.items() if id.startswith(text)]
        if found:
            return _one(found)
    carried = _carried(RUNS, lambda name: name == text)
    if carried:
        return _one(carried)
    run = _run(text)
    if run is not None:
        return run.run_id, None
    if len(text) >= 4 and not versioned:
        carried = _carried(RUNS, lambda name: name.startswith(text))
        if carried:
            return _one(carried)
    return NotFound


def _run(name: str) -> Known | None:
    """The run before a version: by id, ``@``, ``#issue``, workflow or title, ``latest``."""
    if name == "@":
        return RUNS[2]
    for known in RUNS:
        if known.run_id == name:
            return known
    if name.startswith("#"):
        fit = [known for known in RUNS if known.issue == name[1:]]
    else:
        wanted = name.casefold()
        fit = [k for k in RUNS if wanted in (k.workflow.casefold(), (k.title or "\0").casefold())]
        if not fit and name == "latest":
            return RUNS[-1]
    unfinished = [known for known in fit if known.status in UNFINISHED]
    return (unfinished or fit)[-1] if fit else None


def _back(run: Known, number: int) -> tuple[str, int | None] | type[LeftoffError]:
    sealed = sorted(run.ids, reverse=True)
    return (run.run_id, sealed[number]) if number < len(sealed) else NoCheckpoint


def _at(run: Known, at: str) -> tuple[str, int | None] | type[LeftoffError]:
    if re.fullmatch("[0-9]+", at):
        seq = int(at)
        if not 1 <= seq <= run.newest:
            return NoCheckpoint
        return Pruned if seq in run.pruned else (run.run_id, seq)
    explicit = at.startswith("id:")
    prefix = at[3:] if explicit else at
    if re.fullmatch("[0-9a-f]{4,64}", prefix):
        found = [(run, seq) for seq, id in run.ids.items() if id.startswith(prefix)]
        if found:
            return _one(found)
    if not explicit:
        for fits in (lambda name: name == at, lambda name: name.startswith(at) and len(at) >= 4):
            carried = _carried([run], fits)
            if carried:
                return _one(carried)
    return NoCheckpoint


def _carried(runs: list[Known], fits: object) -> list[tuple[Known, int]]:
    """For each name that fits, the newest checkpoint that carries it."""
    newest: dict[str, tuple[int, Known, int]] = {}
    for known in runs:
        for seq, names in known.names.items():
            for name in names if seq in known.ids else ():
                if fits(name):  # type: ignore[operator]
                    newest[name] = max(
                        newest.get(name, (0, known, 0)), (known.n[seq], known, seq), key=lambda x: x[0]
                    )
    found = {(known.run_id, seq): (known, seq) for _, known, seq in newest.values()}
    return [*found.values()]


def _one(found: list[tuple[Known, int]]) -> tuple[str, int | None] | type[LeftoffError]:
    return (found[0][0].run_id, found[0][1]) if len(found) == 1 else Ambiguous


# -- and what is resolved

WORDS = [
    "cafe", "r1", "R1", "r2", "r3", "latest", "latest-1", "@", "", "nope", "#42", "#7", "#8", "#", "site", "SITE",
    "Nature Trail", "nature trail", "migration", "migr", "beef", "Café", "cafÉ", "own-id", "own-", "CP-enrich-1",
    "CP-e", "CP-enrich-2", "CP-", "a3f9b2", "a3f9", "a3f", "migration-T1", "r9@3", "r1@CP-x", "abcd", "abcd1", "abc",
    "abca", "beef1", "2345", "2345a", "1234", "123456789012", "2bcd2", "77a1", "45de", "0", "1", "2", "3", "4", "5",
    "6", "8", "9", "10", "007", "0007", "99999999999999999999", "\u0663", "-1", "id:abcd", "id:1234", "id:12", "id:",
    "id:zzzz", "id:0007", "ABCD", "deadbeef",
]  # fmt: skip
PIECES = st.sampled_from(WORDS)
MARKS = st.sampled_from(["", "@", "~", "~~", "@@", ":", " "])
REFS = st.lists(st.tuples(MARKS, PIECES), min_size=1, max_size=3).map(
    lambda parts: "".join(m + p for m, p in parts)
)


def found_by(store: SqlStore, text: str) -> tuple[str, int | None] | type[LeftoffError]:
    def current(view: View) -> RunRow:
        row = view.find_run("r2")
        assert row is not None
        return row

    try:
        target: Target = resolve(store, text, current)
    except LeftoffError as error:
        return type(error)
    return target.row.run_id, target.version.seq if target.version is not None else None


@given(REFS.filter(bool) | st.tuples(PIECES, MARKS, PIECES).map("".join).filter(bool))
def test_a_ref_names_what_the_rules_say(store: SqlStore, text: str) -> None:
    """Whatever is written, it names what the rules say, or fails as they say: nothing else is tried."""
    assert expected(text) == found_by(store, text)


@pytest.mark.parametrize("base", ["", "r1@", "r1~", "migration@", "#42~", "@", "nope@", "abcd@"])
def test_every_word_alone_and_behind_a_run(store: SqlStore, base: str) -> None:
    """The same for each of the words, alone, as a version, and behind what names no run."""
    refs = [base + word for word in WORDS if base + word]
    assert {ref: expected(ref) for ref in refs} == {ref: found_by(store, ref) for ref in refs}


@pytest.mark.parametrize("seq", ["2", "4", "5", "004"])
def test_a_pruned_version_says_what_is_left(store: SqlStore, seq: str) -> None:
    """A version that is gone is not another one: it says so, and names its neighbours."""
    with pytest.raises(Pruned, match=r"is gone: it was pruned. Still there around it: (r1@1, )?(r1@3, )?r1@"):
        resolve(store, f"r1@{seq}")


def test_candidates_are_listed(store: SqlStore) -> None:
    """A REF that could be several checkpoints lists them."""
    with pytest.raises(Ambiguous) as caught:
        resolve(store, "abcd")
    assert ["r1@3", "r2@3"] == sorted(what for _, what, _, _ in caught.value.listed)
