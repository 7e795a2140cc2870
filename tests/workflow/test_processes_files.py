"""What attempts leave on disk: exits, variables, results, and logs that are read while they grow."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import Invalid, StoreUnavailable
from leftoff.model import typed
from leftoff.workflow.attempt_folder import (
    AttemptFolder,
    Exit,
    LogFollower,
)


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    made = AttemptFolder.of(str(tmp_path), "run-1", "token")
    made.make()
    return made


# ----------------------------------------------------------------------------------------------- the folder


def test_prepare(tmp_path: Path) -> None:
    """The folder is where it is said to be, with all above it; a second one of that name is refused."""
    made = AttemptFolder.of(str(tmp_path / "store"), "run-1", "token")
    made.make()
    assert str(tmp_path / "store" / "attempts" / "run-1" / "token") == made.path
    assert (False, None, "", {}) == (
        made.began(),
        made.exit(),
        made.tail(),
        made.variables(),
    )
    with pytest.raises(StoreUnavailable, match="token"):
        made.make()


def test_prepare_where_nothing_can_be_made(tmp_path: Path) -> None:
    """A store that cannot be written to is an error of ours."""
    (tmp_path / "attempts").touch()
    with pytest.raises(StoreUnavailable):
        AttemptFolder.of(str(tmp_path), "run-1", "token").make()


# ------------------------------------------------------------------------------------------------ the exit


@given(
    st.integers(0, 255), st.integers(1, 64) | st.none(), st.booleans(), st.booleans(), st.text() | st.none()
)
def test_an_exit_comes_back(
    code: int, signal: int | None, timed_out: bool, stopped: bool, error: str | None
) -> None:
    """What is written is read."""
    before = Exit(code, signal, timed_out, 123, error, stopped)
    after = Exit.read(before.line("token"), "token")
    assert after is not None
    assert before == after
    assert (code, signal, timed_out, stopped) == (after.code, after.signal, after.timed_out, after.stopped)


@given(st.integers(0, 200))
def test_an_exit_that_is_not_whole_is_not_known(length: int) -> None:
    """A line that was cut anywhere says nothing."""
    line = Exit(0, at=1).line("token")
    assert (Exit.read(line[:length], "token") is not None) == (length >= len(line))


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[]\n", b'{"code":0}\n', b"\xff\n", b"null\n", b"0\n"])
def test_something_else_is_no_exit(folder: AttemptFolder, line: bytes) -> None:
    Path(folder, "exit").write_bytes(line)
    assert folder.exit() is None


def test_an_exit_that_cannot_be_read(folder: AttemptFolder) -> None:
    os.mkdir(os.path.join(folder, "exit"))
    assert folder.exit() is None


# ------------------------------------------------------------------------------------------- the variables


def test_variables(folder: AttemptFolder) -> None:
    """K=V as `leftoff set` types it, K:=JSON, and objects; the later line wins; blank lines are nothing."""
    Path(folder, "vars").write_text(
        'n=3\nname=Ada L.\nversion=1.10\nlist=[1, 2]\n\nraw:="3"\n{"a": 1, "b": {"c": null}}\r\n'
        "empty=\nat=@ada\nurl=https://x/?a=b\nn=4\nlast=true"
    )
    assert {
        "n": 4,
        "name": "Ada L.",
        "version": "1.10",
        "list": [1, 2],
        "raw": "3",
        "a": 1,
        "b": {"c": None},
        "empty": "",
        "at": "@ada",
        "url": "https://x/?a=b",
        "last": True,
    } == folder.variables()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no assignment", "is not K=V"),
        (b"=3", "is not K=V"),
        (b"k:=nope", "The value of k is not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} x', "extra text"),
        (b'{"": 1}', "cannot be empty"),
        (b"k=\xff", "utf-8"),
        (b'{"n": 1e999}', ""),
        (b"k\0=1", "NUL"),
    ],
)
def test_a_bad_line_is_named(folder: AttemptFolder, line: bytes, why: str) -> None:
    """The error names the file and the line, and says how it is done."""
    Path(folder, "vars").write_bytes(b"ok=1\n\n" + line + b"\nfine=2\n")
    with pytest.raises(Invalid) as caught:
        folder.variables()
    assert caught.value.message.startswith(f"{folder.path}/vars:3: ")
    assert why in caught.value.message
    assert "LEFTOFF_VARS" in caught.value.hint


def test_too_many_variables(folder: AttemptFolder) -> None:
    """A file that is no list of variables any more is refused before it fills the memory."""
    with open(os.path.join(folder, "vars"), "wb") as file:
        file.truncate(typed.MOST_BYTES + 1)
    with pytest.raises(Invalid, match="larger than 64 MiB"):
        folder.variables()


# --------------------------------------------------------------------------------------------------- tails


def test_tail(folder: AttemptFolder) -> None:
    """The last lines, at most so many bytes of them, from the beginning of a line where that is possible."""
    log = Path(folder.file("log"))
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert "line 98\nline 99" == folder.tail(lines=2)
    assert 20 == len(folder.tail().splitlines())
    assert "line 99" == folder.tail(most=10)
    log.write_text("one\ntwo")
    assert "one\ntwo" == folder.tail()
    log.write_bytes(b"x" * 10_000 + b"\xff")
    assert "x" * 9 + "\ufffd" == folder.tail(most=10)


# ---------------------------------------------------------------------------------------------- followers


def test_a_log_that_grows(tmp_path: Path) -> None:
    """Whole lines as they come; the rest at the end; a file that is not there yet is empty."""
    path = tmp_path / "log"
    with closing(LogFollower(str(path))) as follower:
        assert "" == follower.read()
        with path.open("a") as log:
            for text, expected in (("a\nb", "a\n"), ("c", ""), ("d\ne\nf", "bcd\ne\n"), ("", "")):
                log.write(text)
                log.flush()
                assert expected == follower.read()
        assert "f" == follower.read(last=True)
        assert "" == follower.read(last=True)


def test_a_follower_is_flat(tmp_path: Path) -> None:
    """At most a piece at a time, of however large a log; together they are all of it."""
    path = tmp_path / "log"
    line = "x" * 99 + "\n"
    path.write_text(line * 50_000)
    with closing(LogFollower(str(path))) as follower:
        pieces = []
        while piece := follower.read():
            pieces.append(piece)
    assert max(map(len, pieces)) <= LogFollower.MOST
    assert line * 50_000 == "".join(pieces)


@given(st.text(max_size=50), st.lists(st.integers(0, 200), max_size=5))
def test_what_follows_is_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: list[int]
) -> None:
    """However it is written and read, nothing is lost or given twice."""
    data = text.encode()
    path = tmp_path_factory.mktemp("follow") / "log"
    out = ""
    with path.open("ab", buffering=0) as log, closing(LogFollower(str(path))) as follower:
        places = sorted({place % (len(data) + 1) for place in at} | {0, len(data)})
        for start, end in zip(places, places[1:], strict=False):  # noqa: RUF007
            log.write(data[start:end])
            out += follower.read()
        out += follower.read(last=True)
    assert text == out
