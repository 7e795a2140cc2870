"""run.each: one step per item, finished ones skipped, and what becomes of an item whose loop is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import leftoff
from leftoff.errors import Invalid
from tests.api.test_steps import sealed, statuses


def below(run: Any) -> list[str]:
    """The items' steps, without the batch's own."""
    return [path.partition("/")[2] for path in run.steps if "/" in path]


def test_one_step_per_item(run: leftoff.Run) -> None:
    """Each is a step below the batch, declared up front, running in its turn, completed by going on."""
    seen = []
    for item in run.each("convert", ["a.pdf", "b.pdf"]):
        seen.append((item, statuses(run)))
    assert [
        ("a.pdf", {"convert": "running", "convert/a.pdf": "running", "convert/b.pdf": "pending"}),
        ("b.pdf", {"convert": "running", "convert/a.pdf": "completed", "convert/b.pdf": "running"}),
    ] == seen
    assert {"completed"} == set(statuses(run).values())
    assert [
        ("step_complete", "convert/a.pdf"),
        ("step_complete", "convert/b.pdf"),
        ("step_complete", "convert"),
    ] == sealed(run)


def test_finished_items_are_skipped(store: leftoff.Store, run: leftoff.Run) -> None:
    """After a resume only what was not done comes again, also where the list has grown."""
    for item in run.each("convert", ["a", "b", "c"]):
        if item == "b":
            break
    run.pause()
    again = store.resume(run.id)
    assert ["b", "c", "d"] == list(again.each("convert", ["a", "b", "c", "d"]))
    assert [] == list(again.each("convert", ["a", "b", "c", "d"]))


def test_looping_over_what_is_done_says_nothing(run: leftoff.Run) -> None:
    """A batch that is finished stays as it is: no version, no checkpoint."""
    list(run.each("convert", ["a"]))
    before = run.info.to_json()["head"]
    assert [] == list(run.each("convert", ["a"]))
    assert before == run.info.to_json()["head"]


def test_again(run: leftoff.Run) -> None:
    """`again=True` takes the finished ones too."""
    list(run.each("convert", ["a", "b"]))
    assert ["a", "b"] == list(run.each("convert", ["a", "b"], again=True))
    assert 2 == run.steps["convert/a"]["attempt"]


def test_no_items(run: leftoff.Run) -> None:
    """A batch of nothing is done at once."""
    assert [] == list(run.each("convert", []))
    assert run.done("convert")
    assert [] == list(run.each("other", iter(())))
    assert run.done("other")


def test_generators(run: leftoff.Run) -> None:
    """Items may come one by one: each is declared in its turn, and asked for only then."""
    asked = []

    def items() -> Iterator[str]:
        for name in ("a", "b", "c"):
            asked.append(name)
            yield name

    for item in run.each("convert", items()):
        assert item == asked[-1]
        assert asked == below(run)
    assert {"completed"} == set(statuses(run).values())


def test_slashes_are_percent_encoded(run: leftoff.Run) -> None:
    """An item is one part of a path, whatever is in it."""
    names = ["docs/a.md", "100%", "docs%2Fa.md", "a\0b", "caf\u00e9 \U0001f600"]
    assert names == list(run.each("convert", names))
    assert ["docs%2Fa.md", "100%25", "docs%252Fa.md", "a%00b", "caf\u00e9 \U0001f600"] == below(run)


def test_repeats_get_a_number(run: leftoff.Run) -> None:
    """The second of its name is #2; an item that is really called so is not mistaken for it."""
    items = ["x", "x", "x#2", "x", "y"]
    assert items == list(run.each("convert", items))
    assert ["x", "x#2", "x#2#2", "x#3", "y"] == below(run)
    assert [] == list(run.each("convert", items))


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ([1, 2.5], ["1", "2.5"]),
        (range(2), ["0", "1"]),
        (("a",), ["a"]),
        ({"k": 1}, ["k"]),
        ([PurePosixPath("docs/a.md")], ["docs%2Fa.md"]),
    ],
    ids=repr,
)
def test_what_names_itself(run: leftoff.Run, items: Any, names: list[str]) -> None:
    """Text, numbers and paths are their own names."""
    assert list(items) == list(run.each("convert", items))
    assert names == below(run)


def test_dicts_need_a_key(run: leftoff.Run) -> None:
    """A dict has no name of its own: `key` is a field, or a function."""
    items = [{"id": "p1", "n": 1}, {"id": "p2", "n": 2}]
    with pytest.raises(Invalid, match="dict") as caught:
        list(run.each("convert", items))
    assert 'key="id"' in caught.value.hint
    assert items == list(run.each("convert", items, key="id"))
    assert items == list(run.each("other", items, key=lambda item: f"n{item['n']}"))
    assert ["p1", "p2", "n1", "n2"] == below(run)


def test_nameless_items(run: leftoff.Run) -> None:
    """What has no name of its own needs a key, and a key must give one."""
    for item in (None, True, ["a"], (1,), b"x"):
        with pytest.raises(Invalid):
            list(run.each("convert", [item]))
        with pytest.raises(Invalid, match="cannot name an item"):
            list(run.each("convert", [item], key=lambda _: ""))


def test_key_may_be_an_attribute(run: leftoff.Run) -> None:
    """Objects are named by one of theirs."""
    list(run.each("convert", [Path("docs/a.md")], key="stem"))
    assert ["a"] == below(run)


# -- leaving the loop


def test_break_leaves_the_item_pending(store: leftoff.Store, run: leftoff.Run) -> None:
    """At once, and the batch with it; what was done before stays done."""
    for item in run.each("convert", ["a", "b", "c"]):
        if item == "b":
            run.variables["seen"] = item
            break
    expected = {
        "convert": "pending",
        "convert/a": "completed",
        "convert/b": "pending",
        "convert/c": "pending",
    }
    assert expected == statuses(run)
    run.commit()
    assert expected == statuses(store.get(run.id))
    assert "b" == store.get(run.id).variables["seen"]


def test_an_exception_fails_the_item(store: leftoff.Store) -> None:
    """Out through the run's with block: item, batch and run are failed, with the error."""
    with pytest.raises(RuntimeError), store.run("w", steps=["convert"]) as run:
        for item in run.each("convert", ["a", "b", "c"]):
            if item == "b":
                raise RuntimeError("page 3 is torn")
    seen = store.get(run.id)
    assert {
        "convert": "failed",
        "convert/a": "completed",
        "convert/b": "failed",
        "convert/c": "pending",
    } == statuses(seen)
    assert ("RuntimeError", "page 3 is torn") == told(seen.steps["convert/b"]["error"])
    assert "failed" == seen.status
    newest = seen.history()[0]
    assert ("error", "convert/b", "page 3 is torn") == (newest.trigger, newest.step, newest.note)


def test_an_exception_that_is_caught_outside_the_loop_leaves_the_item_to_be_done(
    store: leftoff.Store,
) -> None:
    """The program continues, and so may the loop."""
    with store.run("w") as run:
        try:
            for _ in run.each("convert", ["a", "b"]):
                raise RuntimeError("page 3 is torn")
        except RuntimeError:
            pass
        assert {"convert": "pending", "convert/a": "pending", "convert/b": "pending"} == statuses(run)
        assert ["a", "b"] == list(run.each("convert", ["a", "b"]))
    assert {"completed"} == set(statuses(store.get(run.id)).values())


def test_while_it_is_handled_the_exception_is_known(run: leftoff.Run) -> None:
    """Whatever is asked of the run in the handler records which one it was."""
    try:
        for _ in run.each("convert", ["a", "b"]):
            raise RuntimeError("page 3 is torn")
    except RuntimeError:
        run.checkpoint(note="looking into it")
    assert ("RuntimeError", "page 3 is torn") == told(run.steps["convert/a"]["error"])


def test_an_exception_inside_the_body_that_is_caught_there(run: leftoff.Run) -> None:
    """What the body deals with is no failure: going on completes the item."""
    for _ in run.each("convert", ["a"]):
        try:
            raise RuntimeError
        except RuntimeError:
            continue
    assert {"completed"} == set(statuses(run).values())


def test_an_exception_after_a_break_is_not_of_the_item(store: leftoff.Store) -> None:
    """Whether it leaves the run or is handled inside."""
    with pytest.raises(ZeroDivisionError), store.run("w") as run:
        for _ in run.each("convert", ["a"]):
            break
        try:
            int("x")
        except ValueError:
            run.note("not a number")
        for _ in run.each("print", ["a"]):
            break
        1 / 0  # noqa: B018
    assert "pending" == statuses(store.get(run.id))["convert/a"] == statuses(store.get(run.id))["print/a"]


def test_a_break_while_an_exception_is_handled(run: leftoff.Run) -> None:
    """An exception from before the loop has nothing to do with its items."""
    try:
        raise RuntimeError
    except RuntimeError:
        for _ in run.each("convert", ["a"]):
            break
        assert {"convert": "pending", "convert/a": "pending"} == statuses(run)


def test_a_loop_around_the_loop(run: leftoff.Run) -> None:
    """What takes the items may be a generator, such as a progress bar."""

    def progress(items: Any) -> Iterator[Any]:
        for item in items:  # noqa: UP028 - as progress bars do it
            yield item

    for _ in enumerate(progress(run.each("convert", ["a", "b"]))):
        break
    assert {"convert": "pending", "convert/a": "pending", "convert/b": "pending"} == statuses(run)


@pytest.mark.parametrize("way", ["close", "del", "rebind", "forget"])
def test_an_iterator_that_is_put_away(run: leftoff.Run, way: str) -> None:
    """Taking items by hand and stopping is no failure either."""

    def take() -> None:
        items: Any = run.each("convert", ["a", "b"])
        assert "a" == next(items)
        if way == "close":
            items.close()
        elif way == "del":
            del items
        elif way == "rebind":
            items = None

    take()
    assert {"convert": "pending", "convert/a": "pending", "convert/b": "pending"} == statuses(run)


def test_an_interrupted_item_is_pending(store: leftoff.Store) -> None:
    """Ctrl-C is nobody's failure."""
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        for _ in run.each("convert", ["a", "b"]):
            raise KeyboardInterrupt
    seen = store.get(run.id)
    assert {"convert": "pending", "convert/a": "pending", "convert/b": "pending"} == statuses(seen)
    assert ("paused", "user_interrupt") == (seen.status, seen.history()[0].trigger)


def test_pausing_in_the_middle_of_an_item(store: leftoff.Store, run: leftoff.Run) -> None:
    """Whoever stops driving leaves nothing that looks as if it ran."""
    items = run.each("convert", ["a", "b"])
    assert "a" == next(items)
    run.pause()
    seen = store.get(run.id)
    assert {"convert": "pending", "convert/a": "pending", "convert/b": "pending"} == statuses(seen)
    assert ("paused", None, "convert/a") == (seen.status, seen.info.current_step, seen.info.next_step)


def test_a_break_and_a_later_exception(store: leftoff.Store) -> None:
    """An item that was left by break has nothing to do with what goes wrong after the next use of the run."""
    with pytest.raises(RuntimeError), store.run("w") as run:
        for _ in run.each("convert", ["a"]):
            break
        run.do("count", lambda: 1)
        raise RuntimeError
    expected = {"convert": "pending", "convert/a": "pending", "count": "completed"}
    assert expected == statuses(store.get(run.id))


def test_artifacts_belong_to_their_item(run: leftoff.Run, tmp_path: Path) -> None:
    """A file recorded in the loop is an output of the item."""
    for name in run.each("convert", ["a", "b"]):
        page = tmp_path / f"{name}.md"
        page.write_text(name)
        run.artifact(page)
    assert ["a.md"] == run.steps["convert/a"]["outputs"]
    assert "convert/b" == run.artifacts["b.md"]["step"]


def test_many_items_are_declared_in_few_commits(run: leftoff.Run) -> None:
    """Progress can be seen from the start, and costs little."""
    before = run.info.to_json()["head"]["seq"]
    for _ in run.each("convert", [f"item-{i:04d}" for i in range(1200)]):
        break
    run.commit()
    assert 1200 == run.info.steps["total"]
    assert run.info.to_json()["head"]["seq"] - before <= 6


def test_an_iterator_in_a_variable_and_an_exception(store: leftoff.Store) -> None:
    """It is let go of only with the traceback, so the end of the run settles the item."""
    with pytest.raises(RuntimeError), store.run("w") as run:
        items = run.each("convert", ["a", "b"])
        for _ in items:
            raise RuntimeError("page 3 is torn")
    seen = store.get(run.id)
    assert {"convert": "failed", "convert/a": "failed", "convert/b": "pending"} == statuses(seen)
    assert "page 3 is torn" == seen.steps["convert/a"]["error"]["message"]
    del items
    assert {"convert": "failed", "convert/a": "failed", "convert/b": "pending"} == statuses(seen)


def told(error: Any) -> tuple[str, str]:
    return error["type"], error["message"]
