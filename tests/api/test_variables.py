"""Variables: buffered until a commit, read back frozen and sorted, never lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import leftoff
from leftoff.errors import Conflict, Frozen, Invalid, StoreUnavailable
from tests.api.others import elsewhere, out_of_reach, said

BIG_LIST = [{"i": i, "text": "x" * 100} for i in range(100)]
BIG_DICT = {f"k{i:03d}": "x" * 100 for i in range(100)}
HUGE = "y" * 1_050_000  # stored as a file

VALUES: dict[str, Any] = {
    "null": None,
    "bools": [True, False],
    "int": 2**100,
    "floats": [0.1, -0.0, 1e300],
    "text": "caf\u00e9 \0 \U0001f600 \uffff",
    "empty": [[], {}, ""],
    "deep": {"a": [{"b": [{"c": None}]}]},
    "large list": BIG_LIST,
    "large dict": BIG_DICT,
    "huge text": HUGE,
    "huge entry": ["small", HUGE],
    "huge value": {"a": 1, "b": HUGE},
    "few large entries": ["x" * 3000, "y" * 3000],
    "odd keys": {key: "z" * 500 for key in ["", "/", "%", "\0", "a/b", "%2F", "\uffff", "0", "00"]},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_survive(store: leftoff.Store, run: leftoff.Run, value: Any) -> None:
    """Small, large or huge: the same in this process, in another look, and after a resume."""
    run.variables["v"] = value
    assert value == run.variables["v"]
    run.commit()
    assert value == run.variables["v"] == store.get(run.id).variables["v"]
    run.pause()
    found = store.resume(run.id).variables["v"]
    assert value == found
    assert json.dumps(value, sort_keys=True) == json.dumps(found, sort_keys=True)


def test_a_value_that_contains_itself_is_refused(run: leftoff.Run) -> None:
    """With the reason, however it branches."""
    loop: list[Any] = []
    loop += [loop, loop]
    with pytest.raises(leftoff.Invalid, match="contains itself"):
        run.variables["x"] = loop


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_series_of_assignments(store: leftoff.Store, data: st.DataObject) -> None:
    """Whatever a variable was before, small or spread, list or dict: it is what was assigned last."""
    run = store.start("w")
    entries = st.lists(st.sampled_from([1, "a", "x" * 700, {"b": "y" * 300}, None]), max_size=12)
    shapes = entries | entries.map(lambda items: {f"k{i}": item for i, item in enumerate(items)}) | st.text()
    for value in data.draw(st.lists(shapes, min_size=1, max_size=6)):
        run.variables["v"] = value
        run.commit()
        assert value == run.variables["v"] == store.get(run.id).variables["v"]
    run.finish()


def test_it_is_a_mapping(run: leftoff.Run) -> None:
    """in, len, iteration in order, get, items, update, setdefault, pop, del, ==."""
    variables = run.variables
    variables.update({"b": 2}, c=3)
    variables["a"] = 1
    assert ["a", "b", "c"] == list(variables) and 3 == len(variables)
    assert "a" in variables and "z" not in variables
    assert (1, None, 7) == (variables.get("a"), variables.get("z"), variables.get("z", 7))
    assert {"a": 1, "b": 2, "c": 3} == dict(variables.items()) == variables
    assert 1 == variables.setdefault("a", 9) and 4 == variables.setdefault("d", 4)
    assert 2 == variables.pop("b")
    del variables["c"]
    run.commit()
    assert {"a": 1, "d": 4} == dict(run.variables)
    assert "{'a': 1, 'd': 4}" == repr(run.variables)


@pytest.mark.parametrize("committed", [True, False])
def test_what_is_not_there(run: leftoff.Run, committed: bool) -> None:
    """KeyError, for reading and for deleting, before and after a commit."""
    run.variables["gone"] = 1
    del run.variables["gone"]
    if committed:
        run.commit()
    for use in (
        lambda: run.variables["gone"],
        lambda: run.variables.__delitem__("never"),
        run.variables.popitem,
    ):
        with pytest.raises(KeyError):
            use()


def test_deleting_what_was_committed(store: leftoff.Store, run: leftoff.Run) -> None:
    """A large variable goes with all its entries, and can come back."""
    for value in (1, BIG_LIST, BIG_DICT, HUGE):
        run.variables["v"] = value
        run.commit()
        del run.variables["v"]
        run.commit()
        assert "v" not in run.variables and "v" not in store.get(run.id).variables
        assert {} == dict(store.get(run.id).records["item"])


def test_what_is_read_is_frozen(run: leftoff.Run) -> None:
    """Changing it in place fails loudly, for every kind of value, before and after the commit."""
    for value in ([1], BIG_LIST):
        run.variables["v"] = value
        for _ in range(2):
            with pytest.raises(Frozen, match="would be lost"):
                run.variables["v"].append(1)
            with pytest.raises(Frozen):
                run.variables["v"] += [1]
            run.commit()
        assert value == run.variables["v"]


def test_copy_change_assign(run: leftoff.Run, store: leftoff.Store) -> None:
    """What the hint says works, and costs only what changed."""
    run.variables["v"] = BIG_LIST
    run.commit()
    copy = list(run.variables["v"])
    copy[50] = {"i": 50, "text": "new"}
    run.variables["v"] = copy
    run.commit()
    assert copy == run.variables["v"] == store.get(run.id).variables["v"]
    changed = run.diff(run.history(sealed=False)[1]).variables.changed
    assert ["v"] == list(changed)


def test_keys_come_back_sorted(run: leftoff.Run, store: leftoff.Store) -> None:
    """At every depth, in a small value and in a large one."""
    run.variables["small"] = {"b": {"d": 1, "c": 2}, "a": 3}
    run.variables["large"] = dict(reversed(BIG_DICT.items()))
    run.pause()
    again = store.resume(run.id)
    assert ["a", "b"] == list(again.variables["small"]) and ["c", "d"] == list(again.variables["small"]["b"])
    assert sorted(BIG_DICT) == list(again.variables["large"])


def test_the_object_that_was_assigned_is_not_watched(run: leftoff.Run) -> None:
    """A value is taken when it is assigned; what is done to the object later changes nothing."""
    mine = [1]
    run.variables["v"] = mine
    mine.append(2)
    assert [1] == run.variables["v"]
    run.commit()
    assert [1] == run.variables["v"]


@pytest.mark.parametrize("bad", ["\ud800", object()], ids=type)
def test_what_cannot_be_kept_fails_where_it_is_set(run: leftoff.Run, bad: Any) -> None:
    """At that very line, naming the place; what was there stays, and other changes go on."""
    run.variables["v"] = "before"
    with pytest.raises(Invalid, match=r"v\.rows"):
        run.variables["v"] = {"rows": [1, bad]}
    run.variables["w"] = 1
    run.commit()
    assert {"v": "before", "w": 1} == dict(run.variables)


@pytest.mark.parametrize(
    "name", ["a/b", "100%", "\U0010ffff", "a\nb", "x" * 4096], ids=lambda name: repr(name)[:10]
)
def test_odd_names(store: leftoff.Store, run: leftoff.Run, name: str) -> None:
    """All other text is a name, also of a large variable, and can be rolled back."""
    before = run.checkpoint()
    run.variables[name] = BIG_LIST
    run.append(name, 1)
    run.commit()
    assert [*BIG_LIST, 1] == store.get(run.id).variables[name]
    run.rollback(before)
    assert {} == dict(run.variables)


def test_bad_names(run: leftoff.Run) -> None:
    """A name is text without NUL, of bounded length."""
    name: Any
    for name in ("", "a\0b", 1, None, "x" * 5000, "\ud800"):
        with pytest.raises(Invalid):
            run.variables[name] = 1


# -- commits


def test_nothing_is_seen_before_the_commit(project: Path) -> None:
    """Another process sees what is committed, all of it together, and nothing that waits."""
    look = "import leftoff; print(dict(leftoff.get('r').variables))"
    with leftoff.open(".leftoff") as store:
        run = store.start("w", run_id="r")
        run.variables.update(a=1, b=2)
        assert ["{}"] == said(look, project)
        run.commit()
        assert ["{'a': 1, 'b': 2}"] == said(look, project)


def test_a_commit_says_its_version(run: leftoff.Run) -> None:
    """One version for all that was buffered; nothing to do is no version."""
    first = run.info.to_json()["head"]["seq"]
    run.variables.update(a=1, b=2)
    version = run.commit()
    assert version is not None and (first + 1, None) == (version.seq, version.id)
    assert run.commit() is None
    run.variables["a"] = 1  # as it is
    assert run.commit() is None
    assert first + 1 == run.info.to_json()["head"]["seq"]


def test_what_others_commit_is_picked_up_at_a_commit(run: leftoff.Run, store_path: Path) -> None:
    """Not before, so that values do not change under a program's feet; ours and theirs are both there."""
    run.variables["mine"] = 1
    run.commit()
    elsewhere(store_path, run.id, {("variable", "theirs"): 2, ("knowledge", "k"): "v"})
    run.variables["other"] = 3
    assert "theirs" not in run.variables and "k" not in run.records["knowledge"]
    run.commit()
    assert {"mine": 1, "other": 3, "theirs": 2} == dict(run.variables)
    assert {"k": "v"} == dict(run.records["knowledge"])


def test_an_empty_commit_picks_them_up_too(run: leftoff.Run, store_path: Path) -> None:
    """Waiting for somebody else's word is calling commit() now and then."""
    run.variables["mine"] = 1
    run.commit()
    elsewhere(store_path, run.id, {("variable", "theirs"): 2})
    assert run.commit() is None
    assert {"mine": 1, "theirs": 2} == dict(run.variables)


def test_on_the_same_variable_the_last_commit_wins(run: leftoff.Run, store_path: Path) -> None:
    """Whoever must know uses compare_and_set."""
    run.variables["v"] = "mine"
    elsewhere(store_path, run.id, {("variable", "v"): "theirs"})
    run.commit()
    assert "mine" == run.variables["v"]
    elsewhere(store_path, run.id, {("variable", "v"): "theirs again"})
    run.commit()
    assert "theirs again" == run.variables["v"]


def test_equal_states_have_equal_digests_after_a_change_by_others(run: leftoff.Run, store_path: Path) -> None:
    """The driver assigns the entries that it read, one of them over 1 MiB, after another process replaced them."""
    run.variables["x"] = [1, HUGE, [2]]
    first = run.commit()
    run.variables["x"] = list(run.variables["x"])
    elsewhere(store_path, run.id, {("variable", "x"): None})
    again = run.commit()
    assert first is not None and again is not None and first.seq + 2 == again.seq
    assert first.digest == again.digest


def test_compare_and_set_to_what_it_is(run: leftoff.Run, store_path: Path) -> None:
    """Nothing is committed, and what others committed is picked up all the same."""
    run.variables["v"] = 1
    run.commit()
    elsewhere(store_path, run.id, {("variable", "v"): 2, ("variable", "theirs"): 3})
    run.compare_and_set("v", 2, 2)
    assert {"theirs": 3, "v": 2} == dict(run.variables)


def test_a_failed_commit_keeps_its_changes(
    run: leftoff.Run, store: leftoff.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing of it is there, all of it waits, what comes later is added, and the next commit brings both."""
    (tmp_path / "a.md").write_text("page")
    run.variables.update(kept="k", gone=1)
    run.append("list", 1)
    run.commit()
    run.variables.update(a=1, huge=HUGE, large=["a", HUGE], big={"b": HUGE})
    del run.variables["gone"]
    run.append("list", 2)
    run.append("long", HUGE)
    rest = {"big": {"b": HUGE}, "huge": HUGE, "kept": "k", "large": ["a", HUGE], "long": [HUGE]}
    run.note("n")
    run.artifact(tmp_path / "a.md")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(store._store, "write", out_of_reach)
            with pytest.raises(StoreUnavailable):
                run.commit()
        assert {"gone": 1, "kept": "k", "list": [1]} == dict(store.get(run.id).variables)
        assert {**rest, "a": 1, "list": [1, 2]} == dict(run.variables)
    run.variables["a"] = 2
    run.append("list", 3)
    expected = {**rest, "a": 2, "list": [1, 2, 3]}
    assert expected == dict(run.variables)
    run.commit()
    assert expected == dict(run.variables) == dict(store.get(run.id).variables)
    assert 1 == len(store.get(run.id).records["note"]) == len(store.get(run.id).artifacts)


# -- append


@pytest.mark.parametrize("start", [None, [], [0], BIG_LIST], ids=["missing", "empty", "small", "large"])
def test_append(store: leftoff.Store, run: leftoff.Run, start: Any) -> None:
    """One entry at the end, whatever the list was; made if need be; seen at once."""
    if start is not None:
        run.variables["v"] = start
        run.commit()
    expected = list(start or [])
    for entry in ({"n": 1}, None, "x" * 5000, HUGE, [1]):
        run.append("v", entry)
        expected.append(entry)
        if len(expected) % 2:  # what is read is known; what is not must be read for the commit
            assert expected == run.variables["v"]
        run.commit()
        assert expected == store.get(run.id).variables["v"]
    assert expected == run.variables["v"]


def test_several_appends_in_one_commit(run: leftoff.Run, store: leftoff.Store) -> None:
    """In their order, also after an assignment or a deletion that waits in the same commit."""
    run.append("v", 1)
    run.append("v", 2)
    run.variables["w"] = [1]
    run.append("w", 2)
    run.variables["x"] = 1
    run.commit()
    del run.variables["x"]
    run.append("x", "first")
    assert {"v": [1, 2], "w": [1, 2], "x": ["first"]} == dict(run.variables)
    run.commit()
    assert {"v": [1, 2], "w": [1, 2], "x": ["first"]} == dict(store.get(run.id).variables)


@pytest.mark.parametrize(
    ("value", "committed"),
    [
        ("text", False),
        ("text", True),
        (None, True),
        ({"a": 1}, False),
        (BIG_DICT, False),
        (BIG_DICT, True),
        (HUGE, True),
    ],
)
def test_only_lists_can_be_appended_to(run: leftoff.Run, value: Any, committed: bool) -> None:
    """Refused at the line that tries, naming the variable; nothing else is held up by it."""
    run.variables["v"] = value
    if committed:
        run.commit()
    with pytest.raises(Invalid, match=r"v is .* cannot be appended to"):
        run.append("v", 1)
    run.variables["w"] = 1
    run.commit()
    assert {"v": value, "w": 1} == dict(run.variables)


@pytest.mark.parametrize("theirs", ["text", {"a": 1}, None])
def test_a_list_that_somebody_else_replaced(run: leftoff.Run, store_path: Path, theirs: Any) -> None:
    """What waits to be appended has nowhere to go: that is said, and assigning the variable anew is the way out."""
    run.append("v", 1)
    run.commit()
    run.append("v", 2)
    elsewhere(store_path, run.id, {("variable", "v"): theirs})
    with pytest.raises(Invalid, match=r"v is .* cannot be appended to"):
        run.commit()
    run.refresh()
    with pytest.raises(Invalid, match="v is no longer a list"):
        _ = run.variables["v"]
    run.variables["v"] = [1, 2]
    run.commit()
    assert [1, 2] == run.variables["v"]


def test_appends_of_several_processes_are_all_there(
    run: leftoff.Run, store: leftoff.Store, project: Path
) -> None:
    """The index is taken inside the transaction: nobody overwrites anybody."""
    run.variables["v"] = BIG_LIST
    run.append("small", "mine")
    run.commit()
    child = """
from leftoff.engine.commit import Terms, commit, Head
from leftoff.model.changes import ChangeSet
import leftoff
store = leftoff.open(".leftoff")
row = store._store.read(lambda view: view.find_run("work-1"))
head = Head(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"))
for n in range(20):
    changes = ChangeSet()
    changes.append("v", n)
    changes.append("small", n)
    commit(store._store, head, changes, Terms(1))
"""
    for _ in range(2):
        said(child, project)
        run.append("v", "mine")
        run.append("small", "mine")
        run.commit()
    theirs = list(range(20))
    assert [*BIG_LIST, *theirs, "mine", *theirs, "mine"] == run.variables["v"]
    assert ["mine", *theirs, "mine", *theirs, "mine"] == run.variables["small"]


def test_grown_or_assigned_the_state_is_the_same(store: leftoff.Store) -> None:
    """How a value is stored depends on the value alone: equal states have equal digests."""

    def digest(name: str, **values: Any) -> str:
        run = store.start("w", run_id=name)
        for entry in values.get("append", []):
            run.append("v", entry)
            run.commit()
        if "assign" in values:
            run.variables["v"] = values["assign"]
            run.commit()
        total = {c: dict(run.records[c]) for c in ("variable", "item")}
        raw = store._store.read(lambda view: view.hashes(run._number, "item", "", "\U0010ffff"))
        return json.dumps([total, {k: h.hex() for k, h in raw.items()}], sort_keys=True, default=dict)

    entries = [{"i": i, "text": "x" * 300} for i in range(30)]
    grown = digest("grown", append=entries)
    assert grown == digest("assigned", assign=entries)
    assert grown == digest("shrunk", append=[*entries, 1, 2, 3], assign=entries)
    assert digest("small", append=entries[:3]) == digest("cut", append=entries, assign=entries[:3])


# -- compare and set


@pytest.mark.parametrize("value", [1, None, {"a": 1}, BIG_LIST, BIG_DICT, ["a", HUGE]], ids=type)
def test_compare_and_set(store: leftoff.Store, run: leftoff.Run, value: Any) -> None:
    """It succeeds while the variable is what was expected, whatever its size, and is durable at once."""
    run.compare_and_set("v", None, value)
    assert value == store.get(run.id).variables["v"] == run.variables["v"]
    with pytest.raises(Conflict, match="already exists"):
        run.compare_and_set("v", None, 0)
    if value is not None:
        run.compare_and_set("v", run.variables["v"], "next")
        assert "next" == store.get(run.id).variables["v"] == run.variables["v"]


@pytest.mark.parametrize("value", [1, BIG_LIST, BIG_DICT], ids=type)
def test_compare_and_set_conflict(run: leftoff.Run, store_path: Path, value: Any) -> None:
    """Whoever was faster is not overwritten, and nothing else is changed."""
    run.variables["v"] = value
    run.commit()
    expected = run.variables["v"]
    theirs = [*value, "theirs"] if isinstance(value, list) else "theirs"
    elsewhere(store_path, run.id, {("variable", "v"): theirs})
    run.variables["waiting"] = 1
    with pytest.raises(Conflict, match="variable/v has changed since it was read") as caught:
        run.compare_and_set("v", expected, "mine")
    assert "again" in caught.value.hint
    run.commit()
    assert {"v": theirs, "waiting": 1} == dict(run.variables)


def test_compare_and_set_of_what_waits(run: leftoff.Run) -> None:
    """A variable with an uncommitted change cannot be compared."""
    run.variables["v"] = 1
    with pytest.raises(Invalid, match="commit"):
        run.compare_and_set("v", 1, 2)


def test_a_commit_of_two_variables_is_at_most_eight_statements(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEGIN and COMMIT included, on SQLite: statements are what a commit on a fast disk costs."""
    statements: list[str] = []

    def note(cursor: apsw.Cursor, sql: str, values: object) -> bool:
        statements.append(sql)
        return True

    def trace(db: apsw.Connection) -> None:
        db.set_exec_trace(note)

    monkeypatch.setattr(apsw, "connection_hooks", [trace])
    with leftoff.open(store_path) as store, store.start("work") as run:
        run.variables.update(a=1, b="x" * 200)
        run.commit()
        statements.clear()
        run.variables.update(a=2, b="y" * 200)
        run.commit()
        assert "COMMIT" == statements[-1]
        assert 8 >= len(statements), statements
