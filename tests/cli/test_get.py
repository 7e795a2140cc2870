"""`leftoff get`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import started


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("v=plain text", "plain text\n"),
        ("v=a\nb", "a\nb\n"),
        ("v=3", "3\n"),
        ("v=null", "null\n"),
        ('v={"b": 1, "a": [true]}', '{"a":[true],"b":1}\n'),
        ("v=", "\n"),
    ],
)
def test_one_bare_value(given: str, printed: str, tmp_path: Path) -> None:
    """Text is printed as it is, anything else as JSON, and nothing beside it."""
    started(tmp_path)
    succeed("set", given, cwd=tmp_path)
    done = succeed("get", "v", cwd=tmp_path)
    assert (printed, "") == (done.out, done.err)


def test_any_record(tmp_path: Path) -> None:
    """COLLECTION/KEY is any record, steps below others too; a name that starts with no collection is a variable."""
    started(tmp_path, "flow", "--steps", "a/b")
    succeed("put", "knowledge", "KE-1", '{"fact": 1}', cwd=tmp_path)
    succeed("set", "src/main.py=edited", "step/odd=1", cwd=tmp_path)
    assert {"fact": 1} == succeed("get", "knowledge/KE-1", cwd=tmp_path).json
    assert "pending" == succeed("get", "step/a/b", cwd=tmp_path).json["status"]
    assert "running\n" == succeed("get", "run/status", cwd=tmp_path).out
    assert "edited\n" == succeed("get", "src/main.py", cwd=tmp_path).out
    assert "1\n" == succeed("get", "variable/step/odd", cwd=tmp_path).out


def test_at_a_version(tmp_path: Path) -> None:
    """With a REF, the value is that of the run or version it names."""
    run = started(tmp_path)
    succeed("set", "v=old", cwd=tmp_path)
    checkpoint = succeed("save", cwd=tmp_path).out.strip()
    succeed("set", "v=new", cwd=tmp_path)
    for ref in (checkpoint, f"{run}@2", f"{run}~0", "@~0", f"{run}@{checkpoint[:6]}"):
        assert "old\n" == succeed("get", "v", ref, cwd=tmp_path).out, ref
    assert "new\n" == succeed("get", "variable/v", run, cwd=tmp_path).out


def test_all_variables(tmp_path: Path) -> None:
    """Without a name, every variable as one object."""
    started(tmp_path)
    succeed("set", "b=2", "a=x", cwd=tmp_path)
    assert '{"a":"x","b":2}\n' == succeed("get", cwd=tmp_path).out


def test_a_secret_is_not_taken_for_its_mark(tmp_path: Path) -> None:
    """A script gets exit 7 and nothing on stdout; --json shows the mark, as every document does."""
    started(tmp_path)
    succeed("set", "password=hunter2hunter2", cwd=tmp_path)
    done = call("get", "password", cwd=tmp_path)
    assert (7, "") == (done.code, done.out) and "redacted" in done.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("titel",), 3, "Did you mean title"),
        (("zzz",), 3, "It has title"),
        (("knowledge/x",), 3, "no knowledge record x"),
        (("title", "nobody"), 3, "nobody"),
        (("title", "@99"), 3, "no version 99"),
        (("title", "@", "extra"), 2, "does not take 'extra'"),
        (("title", ""), 2, "empty REF"),
    ],
)
def test_what_is_not_there(words: tuple[str, ...], code: int, says: str, tmp_path: Path) -> None:
    """The error names what is near."""
    started(tmp_path)
    succeed("set", "title=x", cwd=tmp_path)
    done = call("get", *words, cwd=tmp_path)
    assert (code, "") == (done.code, done.out) and says in done.err


def test_reading_makes_no_store(tmp_path: Path) -> None:
    """Where there is no store it says so, and leaves the folder as it is."""
    assert 3 == call("get", "a", cwd=tmp_path).code
    assert [] == list(tmp_path.iterdir())
