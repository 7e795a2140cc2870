"""Arguments and results: JSON as it is, other types by name, everything else refused; never pickled."""

from __future__ import annotations

import datetime as dt
import decimal
import pathlib
import uuid
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leftoff
from leftoff.model.codec import decode, text
from leftoff.python import value_kinds as kinds
from leftoff.python.values import decode_value, encode_value
from tests.workflow import kept
from tests.workflow.functions import program, store

__all__ = ["store"]


OPTIONAL: Any = Optional  # as older programs write it


def there_and_back(value: Any) -> Any:
    """As a record has it, and read again."""
    return decode_value(decode(text(encode_value(value, "value"), "value")), "The value")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$type"), inner),
    max_leaves=20,
)
ANY = st.recursive(
    JSON
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from(list(kept.Colour))
    | st.builds(kept.Attrs, st.integers()),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.builds(kept.Page, st.text(), st.just([]), st.none())
    ),
    max_leaves=20,
)


@given(ANY)
def test_whatever_is_kept_comes_back_as_it_was(value: Any) -> None:
    """The same value of the same type, at every depth; JSON is stored as it is."""
    back = there_and_back(value)
    assert (value, type(value)) == (back, type(back))
    assert repr(_sorted(value)) == repr(_sorted(back))


def _sorted(value: Any) -> Any:
    """Dicts in an order of their own: that of a record is not the program's."""
    if type(value) is dict:
        return sorted(((repr(k), _sorted(v)) for k, v in value.items()), key=repr)
    if type(value) in (list, tuple):
        return type(value)(_sorted(item) for item in value)
    return value


@given(JSON)
def test_json_is_stored_as_it_is(value: Any) -> None:
    """Unless a dict has the very key that marks a type."""
    if "$type" not in repr(value):
        assert encode_value(value, "value") is value


VALUES = [
    kept.Page("a", [kept.Page("b", colour=kept.Colour.GREEN)]),
    kept.Doubled(3),
    kept.Point(1, (2, 3)),
    kept.Struct("a", {"x", "y"}),
    kept.Attrs(1, hidden=(1, 2), made=[3]),
    kept.Model(number=3, inner=kept.Attrs(1), Alias="x", **{"more": [1]}),
    kept.Model(),
    kept.Root([1, 2]),
    kept.Colour.RED,
    kept.Level.LOW,
    kept.Mode.READ | kept.Mode.WRITE,
    kept.Mode.READ,
    {1: "a", ("x", 2): {"$type": "tuple"}},
    {"$type": "set", "value": []},
    {frozenset({1, 2}), "a"},
    pathlib.Path("a/b"),
    pathlib.PurePosixPath("/x"),
    pathlib.PureWindowsPath("c:\\x"),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Vienna"), fold=1),
    dt.datetime(2026, 1, 1, 2, 30, fold=1),
    dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    dt.time(1, 2, 3, 4),
    decimal.Decimal("1.10"),
    uuid.UUID(int=5),
    b"\x00\xff",
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_types_that_are_kept(value: Any) -> None:
    """Equal, of the same type, and of the same inner state."""
    back = there_and_back(value)
    assert (value, type(value)) == (back, type(back))
    assert getattr(value, "tzinfo", None) == getattr(back, "tzinfo", None)
    if isinstance(value, kept.Model):
        assert (value.model_fields_set, value._private) == (back.model_fields_set, back._private)


def test_text_and_numbers_of_a_subclass_are_plain(store: leftoff.Store) -> None:
    """As numpy's floats are; the first time already."""

    class Metres(float):
        pass

    measure = leftoff.step(lambda: Metres(2.5), name="measure")
    flow = leftoff.workflow(lambda: type(measure()).__name__, name="flow")
    assert "float" == flow.run(store=store)


REFUSED = [
    (kept.Opaque(), "value is an Opaque"),
    ([kept.Opaque()], r"value\[0\] is an Opaque"),
    ({"a": {"b": (1, object())}}, r"value\.a\.b\[1\] is an object"),
    (kept.Page("a", [kept.Opaque()]), r"value \(Page\)\.links\[0\] is an Opaque"),  # type: ignore[list-item]
    (memoryview(b"x"), "value is a memoryview"),
    (lambda: 1, "value is a function"),
    (ValueError("x"), "value is a ValueError"),
    (kept.Opaque, "value is a type"),
]


@pytest.mark.parametrize(("value", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused_is_named_with_its_place(value: Any, said: str) -> None:
    """Nothing is guessed, and nothing is pickled."""
    with pytest.raises(leftoff.Invalid, match=said) as caught:
        encode_value(value, "value")
    assert "leftoff.register" in caught.value.hint


def test_a_class_that_nobody_finds_again_is_refused() -> None:
    """Before anything of it is recorded: one inside a function, or one whose name is another's by now."""

    @dataclass
    class Local:
        x: int

    with pytest.raises(leftoff.Invalid, match="Local cannot be found again"):
        encode_value(Local(1), "value")

    @dataclass
    class Page:
        x: int

    Page.__module__, Page.__qualname__ = kept.__name__, "Page"
    with pytest.raises(leftoff.Invalid, match="kept:Page cannot be found again"):
        encode_value(Page(1), "value")


def test_a_value_that_contains_itself_is_refused() -> None:
    """Instead of looking for its end for ever."""
    loop: list[Any] = [()]
    loop.append(loop)
    with pytest.raises(leftoff.Invalid, match="contains itself"):
        encode_value(loop, "value")


def test_a_result_that_cannot_be_kept_fails_the_step(store: leftoff.Store) -> None:
    """At once and for good: retries would change nothing."""
    made: list[int] = []

    @leftoff.step(retries=3)
    def wrong() -> object:
        made.append(1)
        return kept.Opaque()

    @leftoff.workflow
    def flow() -> None:
        wrong()

    with pytest.raises(leftoff.Invalid, match="the result of wrong is an Opaque"):
        flow.run(store=store, run_id="r")
    assert ("failed", [1]) == (store.get("r").steps["1-wrong"]["status"], made)


def test_an_argument_that_cannot_be_kept_is_named(store: leftoff.Store) -> None:
    """At the call, which is not made; `ignore` leaves it out."""
    made: list[Any] = []

    def fetch(client: Any, url: str) -> str:
        made.append(client)
        return url

    flow = leftoff.workflow(lambda: leftoff.step(fetch)(kept.Opaque(), "a"), name="flow")
    with pytest.raises(
        leftoff.Invalid, match="fetch was called with what cannot be recorded: client is an Opaque"
    ):
        flow.run(store=store)
    assert [] == made
    spared = leftoff.step(ignore="client")(fetch)
    assert "a" == leftoff.workflow(lambda: spared(kept.Opaque(), "a"), name="spared").run(
        store=store, run_id="r"
    )
    assert {"url": "a"} == store.get("r").steps["1-fetch"]["args"]


@pytest.fixture
def registered() -> Iterator[None]:
    """Registrations end with the test."""
    before, names = dict(kinds._by_class), dict(kinds._registered)
    yield
    kinds._by_class.clear()
    kinds._by_class.update(before)
    kinds._registered.clear()
    kinds._registered.update(names)


def test_registered_types(registered: None) -> None:
    """Whatever its functions make of it, kept in turn; the record has its name."""
    leftoff.register(
        kept.Opaque, lambda opaque: (opaque.value,), lambda data: kept.Opaque(*data), name="opaque"
    )
    assert {"$type": "opaque", "value": {"$type": "tuple", "value": [5]}} == encode_value(
        kept.Opaque(5), "value"
    )
    assert [kept.Opaque(5)] == there_and_back([kept.Opaque(5)])


def test_registering_needs_both_ways(registered: None) -> None:
    """And a class, and a name that means nothing else."""
    with pytest.raises(leftoff.Usage, match="How is a Opaque recorded"):
        leftoff.register(kept.Opaque, lambda opaque: 1)
    with pytest.raises(leftoff.Usage, match="is not a class"):
        leftoff.register("Opaque", str, str)  # type: ignore[arg-type]
    with pytest.raises(leftoff.Usage, match="Python's own types"):
        leftoff.register(kept.Opaque, lambda opaque: 1, lambda data: data, name="tuple")


def record(name: str, value: Any = None) -> Any:
    """What a record may hold."""
    return {"$type": name, "value": value}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (
            record("tests.workflow.kept:Gone", {}),
            "The value is a tests.workflow.kept:Gone, and module .* has no Gone",
        ),
        (record("no.such:Page", {}), "this program has not imported no.such"),
        (record("tests.workflow.kept:Opaque", {}), "a class whose values cannot be stored"),
        (record("os:system", "true"), "a class whose values cannot be stored"),
        (record("", {}), "this program has not imported"),
        (record("tests.workflow.kept:Page", {"url": "a", "old": 1}), "it has old, which the class has not"),
        (record("tests.workflow.kept:Page", {"links": []}), "it has no url"),
        (
            record("tests.workflow.kept:Colour", "BLUE"),
            "cannot be made a tests.workflow.kept:Colour again: KeyError",
        ),
        (record("tests.workflow.kept:Struct", {"tags": []}), "it has no name"),
        (record("tests.workflow.kept:Attrs", {"y": 1}), "it has y, which"),
        (record("datetime", "yesterday"), "cannot be made a datetime again"),
    ],
)
def test_a_record_that_no_longer_fits_says_which(stored: Any, said: str) -> None:
    """A class that moved or changed is named with the record; only classes that are kept are ever looked for."""
    with pytest.raises(leftoff.Unsupported, match=said) as caught:
        decode_value(stored, "The value")
    assert "leftoff.register" in caught.value.hint


def test_no_record_has_a_module_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may come from anywhere, and loading a module runs it: a class is found in what the program imported."""
    (tmp_path / "brought_along.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nclass Page(dict): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(leftoff.Unsupported, match="has not imported brought_along") as caught:
        decode_value(record("brought_along:Page", {}), "The value")
    assert "Import it first" in caught.value.hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("word", ["breakpoint", "exit", "no_such", "__build_class__"])
def test_a_default_is_made_by_a_type(word: str) -> None:
    """Whatever a record says: no function is called because a key is not there."""
    with pytest.raises(leftoff.Unsupported, match="cannot be made a default-dict"):
        decode_value(record("default-dict", [word, []]), "The value")


def test_fields_with_a_default_may_be_new() -> None:
    """A record that was written before a field existed gets the default."""
    assert kept.Page("a") == decode_value(record("tests.workflow.kept:Page", {"url": "a"}), "The value")
    assert kept.Attrs(1) == decode_value(record("tests.workflow.kept:Attrs", {"x": 1}), "The value")
    made = decode_value(
        record("tests.workflow.kept:Model", {"fields": {"number": 4}, "set": ["number"]}), "The value"
    )
    assert (4, "", None) == (made.number, made.alias, made.inner)


def test_a_class_that_moved_is_registered_under_its_old_name(registered: None) -> None:
    """Then old records are read, and new ones have the same name."""
    leftoff.register(kept.Page, name="pages:Page")
    assert kept.Page("a") == decode_value(record("pages:Page", {"url": "a"}), "The value")
    assert "pages:Page" == encode_value(kept.Page("a"), "value")["$type"]


def test_values_of_any_size(store: leftoff.Store) -> None:
    """Arguments and results over a megabyte are kept as any others."""
    seen: list[int] = []

    @leftoff.step
    def grow(text: str) -> dict[str, str]:
        seen.append(len(text))
        return {"text": text * 2}

    @leftoff.workflow
    def flow(text: str) -> str:
        out = grow(text)["text"]
        if len(seen) < 2:
            seen.append(0)
            raise KeyboardInterrupt
        return out

    with pytest.raises(KeyboardInterrupt):
        flow.run("x" * 1_100_000, store=store)
    assert "x" * 2_200_000 == flow.resume(store=store)
    assert [1_100_000, 0] == seen


def flow_of_a_secret(store: leftoff.Store) -> Any:
    """A workflow with a step whose result is nothing but a secret; it is interrupted once."""
    token = leftoff.step(lambda: "ghp_" + "a1B2" * 9, name="token")

    def flow() -> None:
        token()
        raise KeyboardInterrupt

    return leftoff.workflow(flow).run(store=store, run_id="t")


def test_secrets_are_not_recorded(store: leftoff.Store) -> None:
    """This process has them; whoever replays is told when it looks, and the digest of arguments does not hold them."""
    seen: list[Any] = []

    @leftoff.step
    def login(password: str) -> dict[str, str]:
        return {"user": "ada", "api_key": "k-1234567890"}

    @leftoff.workflow
    def flow(password: str) -> str:
        got = login(password)
        seen.append(got["user"])
        if len(seen) == 1:
            assert "k-1234567890" == got["api_key"]
            raise KeyboardInterrupt
        return got["api_key"]

    with pytest.raises(KeyboardInterrupt):
        flow.run("hunter2", store=store, run_id="r")
    for ask in (lambda: flow.resume("r", store=store), lambda: flow.run(run_id="r", store=store)):
        with pytest.raises(leftoff.Redacted, match="argument password of run r"):
            ask()
        assert ("paused", "idle") == (store.get("r").status, store.get("r").info.health)
    with pytest.raises(leftoff.Redacted, match=r"the result of step 1-login\.api_key"):
        flow.run("hunter2", store=store, run_id="r")
    with pytest.raises(leftoff.Redacted, match="the result of step 1-token") as caught:
        for _ in range(2):
            try:
                flow_of_a_secret(store)
            except KeyboardInterrupt:
                pass
    assert "version=" in caught.value.hint
    raw = b"".join(path.read_bytes() for path in Path(store.location).glob("store.db*"))
    assert b"hunter2" not in raw and b"k-1234567890" not in raw


def test_a_text_that_is_masked_is_so_the_first_time_too(store: leftoff.Store) -> None:
    """A workflow must see the same each time, also where a credential stands in a long text."""
    seen: list[str] = []

    @leftoff.step
    def read() -> str:
        return "Authorization: Bearer " + "ghp_" + "a1B2" * 9 + " and a good many other words. " * 20

    @leftoff.workflow
    def flow() -> None:
        seen.append(read())
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow.run(store=store)
    flow.resume(store=store)
    assert seen[0] == seen[1] and "other words" in seen[0]


def test_a_class_of_the_program_itself(tmp_path: Path) -> None:
    """What a script calls `__main__` is found by those who import it, and the other way round, without a copy."""
    text = """
import leftoff, sys
from dataclasses import dataclass
print("loaded", __name__)

@dataclass
class Page:
    url: str

@leftoff.step
def fetch(url: str) -> Page:
    return Page(url)

@leftoff.step
def rest(page: Page) -> str:
    if "fail" in sys.argv:
        raise SystemExit(3)
    return type(page).__module__

@leftoff.workflow
def crawl(url: str) -> str:
    return rest(fetch(url))

if __name__ == "__main__":
    print(crawl.run("a", run_id=sys.argv[1]))
"""
    assert 3 == program(text, tmp_path, "one", "fail").returncode
    assert "loaded __main__\n__main__\n" == program(text, tmp_path, "one").stdout
    assert 3 == program(text, tmp_path, "two", "fail").returncode
    (tmp_path / "other").mkdir()
    child = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import program; print(program.crawl.resume('two'))"
    from tests.api.others import said

    shown = said(child, tmp_path / "other", LEFTOFF_STORE=str(tmp_path / ".leftoff"))
    assert ["loaded program", "program"] == shown
