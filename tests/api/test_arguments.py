"""Arguments count: a finished step is only taken for a call with the same arguments."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.api.others import program, said
from tests.cli.command import succeed

START = """
import os, sys, leftoff
now = int(os.environ.get("NOW", "1"))
again = "AGAIN" in os.environ
"""


def square(n: int) -> int:
    return n * n


# -- in one process


def test_a_loop_over_one_name_is_an_error(run: leftoff.Run) -> None:
    """It says which argument differs, and what to do."""
    with pytest.raises(leftoff.Usage) as caught:
        [run.do("square", square, n) for n in (1, 2, 3)]
    assert "Step square was done with n=1, and is called with n=2 now." == caught.value.message
    for cure in ('run.do(f"square/{n}", …)', "run.map(fn, items)", "again=True"):
        assert cure in caught.value.hint
    assert [1, 4, 9] == [run.do(f"square/{n}", square, n) for n in (1, 2, 3)]


def test_the_same_arguments_give_the_recorded_result(run: leftoff.Run) -> None:
    """However they are passed: by place or by name, in any order."""

    def work(a: int, b: dict[str, int], c: int = 3) -> int:
        calls.append(a)
        return a

    calls: list[int] = []
    assert 1 == run.do("work", work, 1, {"x": 1, "y": 2})
    assert 1 == run.do("work", work, b={"y": 2, "x": 1}, a=1)
    assert [1] == calls


@pytest.mark.parametrize(
    ("function", "first", "then", "said"),
    [
        (lambda *args: 1, (), (1,), "was done without *args, and is called with *args=[1] now"),
        (max, (1, 2), (1, 3), "was done with *args=[1, 2], and is called with *args=[1, 3] now"),
        (lambda a, b=2: a, (1,), (1, 2), "was done without b, and is called with b=2 now"),
        (lambda a, b=2: a, (1, 2), (1,), "was done with b=2, and is called without b now"),
        (lambda a: a, (1,), (1.0,), "was done with a=1, and is called with a=1.0 now"),
        (lambda a: a, ([1, 2],), ([1, 3],), "was done with a=[1, 2], and is called with a=[1, 3] now"),
        (partial(pow, 2), (1,), (3,), "was done with *args=[2, 1], and is called with *args=[2, 3] now"),
    ],
)
def test_every_argument_counts(run: leftoff.Run, function: Any, first: Any, then: Any, said: str) -> None:
    """Those of builtins, those that were left out, and 1 is not 1.0."""
    run.do("work", function, *first)
    with pytest.raises(leftoff.Usage) as caught:
        run.do("work", function, *then)
    assert f"Step work {said}." == caught.value.message


def test_the_long_argument_that_differs_is_named(run: leftoff.Run) -> None:
    """Its content is not repeated."""

    def work(rows: list[str], n: int) -> None:
        pass

    run.do("work", work, ["x" * 1000], 1)
    with pytest.raises(leftoff.Usage, match="rows=") as caught:
        run.do("work", work, ["x" * 1001], 1)
    assert "n=" not in caught.value.message and len(caught.value.message) < 300


def test_again_runs_it_with_the_new_arguments(run: leftoff.Run) -> None:
    """From then on these are the arguments that it was done with."""
    assert 1 == run.do("square", square, 1)
    assert 4 == run.do("square", square, 2, again=True)
    assert 4 == run.do("square", square, 2)
    with pytest.raises(leftoff.Usage, match="n=2, and is called with n=1 now"):
        run.do("square", square, 1)


def test_a_step_that_is_not_finished_takes_new_arguments(run: leftoff.Run) -> None:
    """It failed with the old ones."""

    def work(n: int) -> int:
        if n == 1:
            raise ValueError("1 is torn")
        return n

    with pytest.raises(ValueError, match="torn"):
        run.do("work", work, 1)
    assert 2 == run.do("work", work, 2)


def test_the_arguments_are_those_before_the_call(run: leftoff.Run) -> None:
    """A function may change a list that it was given."""

    def grow(rows: list[int]) -> list[int]:
        rows.append(2)
        return rows

    assert [1, 2] == run.do("grow", grow, [1])
    assert [1, 2] == run.do("grow", grow, [1])


class Opaque:
    def __init__(self, n: int) -> None:
        self.n = n


@dataclass
class Context:
    connection: Any
    n: int


def unrecordable() -> list[Any]:
    """Arguments that no record can hold; another of the same type each time."""
    loop: list[Any] = [1]
    loop.append(loop)
    return [
        sqlite3.connect(":memory:"),
        threading.Lock(),
        lambda: 1,
        Opaque(1),
        [1, Opaque(1)],
        {"db": Opaque(1), "n": 1},
        ({Opaque(1)}, [{"deep": (Opaque(1), 2)}]),
        Context(Opaque(1), 1),
        loop,
        10**5000,
        "not Unicode: \udc80",
        (number for number in range(3)),
    ]


@pytest.mark.parametrize("index", range(len(unrecordable())))
def test_what_cannot_be_recorded_counts_by_its_type(run: leftoff.Run, index: int) -> None:
    """It does not fail the call, also inside of other arguments."""

    def work(value: Any, n: int) -> int:
        return n

    assert 1 == run.do("work", work, unrecordable()[index], 1)
    assert 1 == run.do("work", work, unrecordable()[index], 1)
    with pytest.raises(leftoff.Usage, match="n=1, and is called with n=2 now"):
        run.do("work", work, unrecordable()[index], 2)
    with pytest.raises(leftoff.Usage, match="value="):
        run.do("work", work, 3, 1)


def test_what_is_beside_it_counts(run: leftoff.Run) -> None:
    """Of a list or a dataclass that holds a connection, the rest counts by its value."""

    def work(value: Any) -> None:
        pass

    run.do("list", work, [Opaque(1), 1])
    run.do("fields", work, Context(Opaque(1), 1))
    with pytest.raises(leftoff.Usage):
        run.do("list", work, [Opaque(1), 2])
    with pytest.raises(leftoff.Usage):
        run.do("fields", work, Context(Opaque(1), 2))


def test_secrets_among_the_arguments_are_not_stored(
    store: leftoff.Store, store_path: Path, run: leftoff.Run
) -> None:
    """In one process another password is another argument. A later process cannot know, and takes it for the same."""

    def login(user: str, password: str) -> str:
        return user

    run.do("login", login, "ada", "hunter2-and-more")
    with pytest.raises(leftoff.Usage, match="Step login was done with other arguments than now"):
        run.do("login", login, "ada", "another-one-4711")
    run.pause()
    run = store.resume(run.id)
    assert "ada" == run.do("login", login, "ada", "another-one-4711")
    with pytest.raises(leftoff.Usage, match="user='ada', and is called with user='alan' now"):
        run.do("login", login, "alan", "another-one-4711")
    run.pause()
    assert not [path for path in store_path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


@dataclass
class Account:
    password: str
    connection: Any = None


@pytest.mark.parametrize(
    "argument",
    [
        {"password": "hunter2"},
        {"password": "hunter2", "connection": Opaque(1)},
        {1: 2, "password": "hunter2"},
        OrderedDict(password="hunter2"),
        Account("hunter2"),
        Account("hunter2", Opaque(1)),
        ({"password": "hunter2"},),
        [{"database": {"password": "hunter2", "connection": Opaque(1)}}],
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_a_secret_inside_an_argument_is_not_stored(store_path: Path, run: leftoff.Run, argument: Any) -> None:
    """Whatever holds it."""
    run.do("login", lambda account: 1, argument)
    run.map(lambda row: 1, [{"id": 1, "account": argument}], name="logins", key="id")
    run.pause()
    assert not [path for path in store_path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_a_loop_over_secrets(run: leftoff.Run) -> None:
    """It does not give the first result for all."""
    with pytest.raises(leftoff.Usage):
        [run.do("start", lambda token: token[:4], token) for token in ("a1b2c3d4e5f6", "zz99yy88xx77")]


def test_partial_functions(run: leftoff.Run) -> None:
    """The arguments that a function was bound to count, too."""
    with pytest.raises(leftoff.Usage, match="was done with n=1, and is called with n=2 now"):
        [run.do("square", partial(square, n)) for n in (1, 2)]
    assert [2, 4] == run.map(partial(pow, 2), [1, 2], name="powers")
    with pytest.raises(leftoff.Usage, match="Item 1 of powers was done"):
        run.map(partial(pow, 3), [1, 2], name="powers")


def test_a_redacted_result_as_an_argument(tmp_path: Path) -> None:
    """A later process has it without the secret; it is the same argument."""
    text = """
import os, leftoff
with leftoff.run("w") as run:
    settings = run.do("read", lambda: {"user": "ada", "password": "hunter2", "hosts": [{"token": "a1b2c3"}]})
    print(run.do("use", lambda settings: 1, settings))
    os._exit(9)
"""
    for _ in range(2):
        done = program(text, tmp_path)
        assert ("1\n", 9) == (done.stdout, done.returncode), done.stderr


def test_a_wrong_call_fails_in_its_step(run: leftoff.Run) -> None:
    """As it does without leftoff."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        run.do("square", square, m=1)  # type: ignore[call-overload]
    assert "failed" == run.steps["square"]["status"]


# -- in a later process


def test_other_arguments_on_resume(tmp_path: Path) -> None:
    """They are refused, with the cure; `again=True` runs it, and is remembered."""
    text = f"""{START}
with leftoff.run("w") as run:
    print(run.do("square", lambda n: n * n, now, again=again))
    if "STOP" in os.environ:
        raise SystemExit
"""
    assert ["1"] == said(text, tmp_path, STOP="1")
    refused = program(text, tmp_path, NOW="7", STOP="1")
    assert 1 == refused.returncode
    for word in (".Diverged: ", "was done with n=1, and is called with n=7 now.", "again=True"):
        assert word in refused.stderr
    assert ["1"] == said(text, tmp_path, STOP="1")
    assert ["49"] == said(text, tmp_path, NOW="7", AGAIN="1", STOP="1")
    assert ["49"] == said(text, tmp_path, NOW="7")


def test_a_loop_on_resume_is_an_error_of_this_process(tmp_path: Path) -> None:
    """The first call fits what was recorded, the second does not fit the first."""
    text = f"""{START}
with leftoff.run("w") as run:
    print(run.do("square", lambda n: n * n, 1))
    if "STOP" in os.environ:
        raise SystemExit
    try:
        run.do("square", lambda n: n * n, 2)
    except leftoff.Usage as error:
        print(error.message)
"""
    said(text, tmp_path, STOP="1")
    assert ["1", "Step square was done with n=1, and is called with n=2 now."] == said(text, tmp_path)


def test_a_step_that_was_cut_off_takes_new_arguments(tmp_path: Path) -> None:
    """Nothing was done with the old ones."""
    text = f"""{START}
def work(n):
    if "STOP" in os.environ:
        os.kill(os.getpid(), 9)
    return n
with leftoff.run("w") as run:
    print(run.do("work", work, now))
"""
    assert -9 == program(text, tmp_path, STOP="1").returncode
    assert ["2"] == said(text, tmp_path, NOW="2")


def test_a_parameter_with_a_default_may_be_added(tmp_path: Path) -> None:
    """A call that leaves it out is the same call."""
    text = f"""{START}
def before(a): return a
def after(a, b=2): return a + b
with leftoff.run("w") as run:
    print(run.do("work", before if now == 1 else after, 1))
    if now == 1:
        raise SystemExit
"""
    assert [["1"], ["1"]] == [said(text, tmp_path), said(text, tmp_path, NOW="2")]


@pytest.mark.parametrize("how", ["by hand", "with", "skipped", "after a failure"])
def test_a_record_without_arguments_is_taken_as_it_is(tmp_path: Path, how: str) -> None:
    """A person, `with run.step` or an older leftoff said that it is done."""
    with leftoff.open(tmp_path / ".leftoff") as store, store.start("w", run_id="r") as run:
        if how == "with":
            with run.step("work") as step:
                step.result = 5
        elif how == "after a failure":
            with pytest.raises(ZeroDivisionError):
                run.do("work", lambda n: 1 // n, 0)
        else:
            run.put("step", "work", {"status": "pending"})
        run.pause()
    if how == "skipped":
        succeed("step", "skip", "work", "--run", "r", cwd=tmp_path)
    elif how != "with":
        succeed("step", "done", "work", "--result", "5", "--run", "r", cwd=tmp_path)
    with leftoff.open(tmp_path / ".leftoff") as store, store.resume("r") as run:
        assert (None if how == "skipped" else 5) == run.do("work", lambda n: n, 1)


# -- items


ROWS = [{"id": "a", "v": 1}, {"id": "b", "v": 1}]
CHANGED = [{"id": "a", "v": 1}, {"id": "b", "v": 2}]


def test_map_refuses_an_item_that_changed(store: leftoff.Store, run: leftoff.Run) -> None:
    """Before any item is run, and by name: `Usage` in the same process, `Diverged` later."""
    new = {"id": "c", "v": 3}
    done: list[str] = []

    def work(row: dict[str, Any]) -> int:
        done.append(row["id"])
        return int(row["v"])

    assert [1, 1] == run.map(work, ROWS, key="id")
    assert [1, 1] == run.map(work, ROWS, key="id")
    with pytest.raises(
        leftoff.Usage, match="Item b of work was done with v=1, and now comes with v=2"
    ) as caught:
        run.map(work, [new, *CHANGED], key="id")
    assert "again=True" in caught.value.hint
    run.pause()
    run = store.resume(run.id)
    with pytest.raises(leftoff.Diverged, match="Item b of work"):
        run.map(work, [new, *CHANGED], key="id")
    assert ["a", "b"] == done
    assert [3, 1, 2] == run.map(work, [new, *CHANGED], key="id", again=True)
    assert ["a", "b", "c", "a", "b"] == done
    assert [2] == run.map(work, CHANGED[1:], key="id")


def test_each_refuses_an_item_that_changed(store: leftoff.Store, run: leftoff.Run) -> None:
    """What the loop does to an item does not count."""
    for row in run.each("load", [dict(row) for row in ROWS], key="id"):
        row["new"] = 1
    assert [] == list(run.each("load", ROWS, key="id"))
    with pytest.raises(leftoff.Usage, match="Item b of load"):
        list(run.each("load", CHANGED, key="id"))
    run.pause()
    run = store.resume(run.id)
    with pytest.raises(leftoff.Diverged, match="Item b of load"):
        list(run.each("load", CHANGED, key="id"))
    assert CHANGED == list(run.each("load", CHANGED, key="id", again=True))
    assert [] == list(run.each("load", CHANGED, key="id"))


def test_an_item_that_is_not_finished_may_change(run: leftoff.Run) -> None:
    """It failed as it was before."""
    with pytest.raises(ZeroDivisionError):
        run.map(lambda row: 1 // row["v"], [{"id": 1, "v": 0}], key="id", name="work")
    assert [1] == run.map(lambda row: row["v"], [{"id": 1, "v": 1}], key="id", name="work")


def test_items_with_a_connection(run: leftoff.Run) -> None:
    """They count by the rest."""

    def rows() -> list[dict[str, Any]]:
        return [{"id": "a", "db": sqlite3.connect(":memory:")}]

    assert ["a"] == run.map(lambda row: row["id"], rows(), key="id", name="work")
    assert ["a"] == run.map(lambda row: row["id"], rows(), key="id", name="work")


def test_items_that_name_themselves(run: leftoff.Run) -> None:
    """Their name is all that they are."""
    items = ["a", 1, Path("b")]
    assert ["a", "1", "b"] == run.map(str, items)
    assert ["a", "1", "b"] == run.map(str, items)
    assert items == list(run.each("each", items)) and [] == list(run.each("each", items))
