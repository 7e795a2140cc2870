"""`leftoff set`."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.model import typed
from tests.cli.command import call, succeed
from tests.cli.runs import driven, started
from tests.seams import SEAMS


def seq_of(cwd: Path) -> int:
    return int(succeed("ls", "--json", cwd=cwd).json["runs"][0]["head"]["seq"])


def test_types(tmp_path: Path) -> None:
    """A value is JSON where it prints back as it was typed, and text otherwise; := says that it is JSON."""
    started(tmp_path)
    words: list[tuple[str, object]] = [
        ("tag=1.10", "1.10"),
        ("sha=1e5", "1e5"),
        ("zip=007", "007"),
        ("n=1_000", "1_000"),
        ("n=10", 10),
        ("x=-1.5", -1.5),
        ("ok=true", True),
        ("v=null", None),
        ("l=[1,2]", [1, 2]),
        ('o={"a":1}', {"a": 1}),
        ("broken={oops", "{oops"),
        ("empty=", ""),
        ("v:=1.10", 1.1),
        ('s:="007"', "007"),
        ("e=a=b", "a=b"),
        ("name=Ada Lovelace", "Ada Lovelace"),
        ("u=grüße 🌿", "grüße 🌿"),
        ("lines=a\nb", "a\nb"),
    ]
    for word, expected in words:
        done = succeed("set", word, cwd=tmp_path)
        assert ("", "") == (done.out, done.err)
        key = word.partition("=")[0].rstrip(":")
        found = succeed("get", key, "--json", cwd=tmp_path).json
        assert (expected, type(expected)) == (found, type(found))


def test_several_are_one_commit(tmp_path: Path) -> None:
    """All variables of a call are set together, a later one of the same name wins, nothing is sealed."""
    run = started(tmp_path)
    done = succeed("set", "a=1", "b=2", "a=3", "--json", cwd=tmp_path)
    assert {"run_id": run, "seq": 2} == done.json
    assert {"a": 3, "b": 2} == succeed("get", cwd=tmp_path).json
    assert [] == succeed("log", "--json", cwd=tmp_path).json["checkpoints"]


def test_setting_the_same_again_changes_nothing(tmp_path: Path) -> None:
    """The version stays where nothing differs."""
    started(tmp_path)
    first = succeed("set", "a=1", "--json", cwd=tmp_path).json
    assert first == succeed("set", "a=1", "--json", cwd=tmp_path).json


def test_from_a_file_or_stdin(tmp_path: Path) -> None:
    """K=@FILE reads text as it is, and JSON as JSON; @- is stdin."""
    started(tmp_path)
    (tmp_path / "plan.md").write_text("# Plan\n\n- one\n")
    (tmp_path / "data.json").write_text('{\n  "n": [1, 2]\n}\n')
    succeed("set", "plan=@plan.md", "data=@data.json", "typed=@-", cwd=tmp_path, input="42\n")
    assert {"plan": "# Plan\n\n- one\n", "data": {"n": [1, 2]}, "typed": 42} == succeed(
        "get", cwd=tmp_path
    ).json


@pytest.mark.parametrize("size", [100_000, 2_500_000])
def test_long_values(size: int, tmp_path: Path) -> None:
    """Values of any length are kept: as an argument, or from a file where they are too long for one."""
    started(tmp_path)
    text = "long " * (size // 5)
    (tmp_path / "f").write_text(text)
    succeed("set", f"v={text}" if size < 130_000 else "v=@f", cwd=tmp_path)
    assert text + "\n" == succeed("get", "v", cwd=tmp_path).out


def test_a_long_list_is_kept_whole(tmp_path: Path) -> None:
    """A list over 4 KiB is spread over records, and comes back as it was."""
    started(tmp_path)
    (tmp_path / "f").write_text(str(list(range(5000))))
    succeed("set", "v=@f", cwd=tmp_path)
    succeed("set", "v=@f", "w=1", cwd=tmp_path)
    assert list(range(5000)) == succeed("get", "v", cwd=tmp_path).json


def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    """A wrong word says what is wrong and what to do, and leaves the run as it is, the right words too."""
    started(tmp_path)
    words: tuple[str | bytes, ...]
    for words, code, says in (
        ((), 2, "needs K=V"),
        (("novalue",), 2, "is not K=V"),
        (("=1",), 2, "is not K=V"),
        (("v:={",), 2, "not JSON"),
        (("v:=1e999",), 2, "inf"),
        (("a=1", "v:=nope"), 2, "not JSON"),
        (("a=1", "v=@missing.txt"), 3, "does not exist"),
        (("a=1", "v=@."), 3, "is a folder"),
        (("a=1", "v=@"), 2, "No file is named"),
        (("by=@ann",), 3, """K:='"@…"'"""),
        (("k" * 5000 + "=1",), 2, "too long"),
        ((b"v=caf\xe9",), 2, "not UTF-8"),
        ((b"k\xff=1",), 2, "not UTF-8"),
        (("a=1", "--nope"), 2, "no option --nope"),
        (("a=1", "--run", "nobody"), 3, "nobody"),
        (("a=1", "--branch", "other"), 3, "release-"),
    ):
        done = call("set", *words, cwd=tmp_path)
        assert (code, "") == (done.code, done.out)
        assert says in done.err and done.err.count("\n") >= 2 and "Traceback" not in done.err
        assert 1 == seq_of(tmp_path)


def test_bytes_in_a_file_that_are_no_text(tmp_path: Path) -> None:
    """A file that is not UTF-8 is invalid data, and the hint says where it can go."""
    started(tmp_path)
    (tmp_path / "f").write_bytes(b"caf\xe9")
    done = call("set", "v=@f", cwd=tmp_path)
    assert 4 == done.code and "0xe9" in done.err and "artifact" in done.err


def test_a_file_that_is_too_large_for_a_value(tmp_path: Path) -> None:
    """It is refused by what it says that it has, before a byte of it is read; the hint says where it can go."""
    started(tmp_path)
    with open(tmp_path / "f", "wb") as file:
        file.truncate(typed.MOST_BYTES + 1)
    for words in ("set", "v=@f"), ("put", "note", "k", "@f"), ("step", "done", "s", "--result", "@f"):
        done = call(*words, cwd=tmp_path)
        assert 2 == done.code and "64 MiB" in done.err and "leftoff artifact" in done.err
    assert 1 == seq_of(tmp_path)


def test_what_has_no_end_is_read_up_to_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """stdin and devices do not say how much they have: a value of the largest size is kept, one more byte refused."""
    monkeypatch.setattr(SEAMS["typed.MOST_BYTES"], 1 << 20)
    started(tmp_path)
    succeed("set", "v=@-", cwd=tmp_path, input="x" * (1 << 20))
    for word, text in ("v=@-", "x" * (1 << 20) + "x"), ("v=@/dev/zero", ""):
        done = call("set", word, cwd=tmp_path, input=text)
        assert 2 == done.code and "1 MiB" in done.err
    assert 2 == seq_of(tmp_path)


def test_a_secret_is_not_stored_and_that_is_said(tmp_path: Path) -> None:
    """What looks like a secret never reaches the disk; whoever gave it is told on stderr."""
    started(tmp_path)
    done = succeed("set", "db_password=hunter2hunter2", "n=1", cwd=tmp_path)
    assert "" == done.out and "db_password" in done.err and "hunter2" not in done.err
    assert {"db_password": {"redacted": True}, "n": 1} == succeed("get", cwd=tmp_path).json
    assert not any(
        b"hunter2hunter2" in f.read_bytes() for f in (tmp_path / ".leftoff").iterdir() if f.is_file()
    )


def test_without_a_run(tmp_path: Path) -> None:
    """There is nothing to set variables of; no store is made for the question."""
    done = call("set", "a=1", cwd=tmp_path)
    assert 3 == done.code and "leftoff start" in done.err
    assert not (tmp_path / ".leftoff").exists()


def test_two_runs_are_never_mixed_up(tmp_path: Path) -> None:
    """With two unfinished runs on the branch it exits 2 and lists them; --run and LEFTOFF_RUN say which is meant."""
    one, two = started(tmp_path, "one"), started(tmp_path, "two")
    done = call("set", "a=1", cwd=tmp_path)
    assert 2 == done.code and one in done.err and two in done.err and "--run" in done.err
    succeed("set", "a=1", "--run", one, cwd=tmp_path)
    succeed("set", "a=2", cwd=tmp_path, LEFTOFF_RUN=two)
    assert "1\n" == succeed("get", "a", "--run", one, cwd=tmp_path).out
    assert "2\n" == succeed("get", "a", "--run", two, cwd=tmp_path).out


def test_another_branch_is_named_not_taken(tmp_path: Path) -> None:
    """A run of another branch is never meant by accident: the error names it."""
    run = started(tmp_path, "flow", "--branch", "try-b")
    done = call("set", "a=1", cwd=tmp_path)
    assert 3 == done.code and run in done.err and "--branch try-b" in done.err
    succeed("set", "a=1", cwd=tmp_path, LEFTOFF_BRANCH="try-b")


def test_beside_a_live_driver(tmp_path: Path) -> None:
    """Reports need no lease."""
    with driven(tmp_path) as run:
        succeed("set", "a=1", "--run", run, cwd=tmp_path)
        assert "1\n" == succeed("get", "a", cwd=tmp_path).out


@pytest.mark.parametrize("name", ["latest", "w", "Title"])
def test_the_run_by_a_name(name: str, tmp_path: Path) -> None:
    """It is looked for by several readings in the transaction that writes."""
    started(tmp_path, "w", "--title", "title")
    succeed("set", "a=1", "--run", name, cwd=tmp_path)
    assert "1\n" == succeed("get", "a", cwd=tmp_path).out


def test_a_key_that_stands_twice(project: Path) -> None:
    """Which one is meant cannot be told: nothing is set, also from a file, in `put` and as a result."""
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=project)
    (project / "f.json").write_text('[{"x": {"b": 1, "c": 2, "b": 3}}]')
    twice = '{"a": 1, "a": 2}'
    for words in (
        ("set", "ok=1", f"k={twice}"),
        ("set", f"k:={twice}"),
        ("set", "k=@f.json"),
        ("put", "context", "c", twice),
        ("step", "done", "a", "--result", twice),
    ):
        done = call(*words, cwd=project)
        assert (2, True) == (done.code, "twice" in done.err), words
    assert 1 == succeed("show", "r", "--json", cwd=project).json["head"]["seq"]
    succeed("set", 'k={"a": 1, "b": {"a": 2}}', """t=["{'a': 1, 'a': 2}", {}, {}]""", cwd=project)
