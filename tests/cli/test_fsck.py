"""`leftoff fsck`: what it checks, what it says, how it exits."""

from __future__ import annotations

import builtins
import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.store import blobs
from tests.cli.command import call, environment, succeed

HUGE = "y" * 1_500_000


@pytest.fixture
def filled(project: Path) -> Path:
    """A project whose store has a run with a blob in it."""
    with leftoff.open(project / ".leftoff") as store:
        run = store.start("w", run_id="r", variables={"n": 1, "huge": HUGE}, steps=["a"])
        run.do("a", lambda: 1)
        run.finish()
    return project


def blob_of(project: Path) -> Path:
    (blob,) = [file for file in (project / ".leftoff" / "blobs").rglob("*") if file.is_file()]
    return blob


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_clean_store(filled: Path) -> None:
    """Exit 0; a person is told where it was, how much was checked, and that it is clean."""
    done = succeed("fsck", cwd=filled)
    where, verdict = done.out.splitlines()
    assert where.startswith(f"{filled}/.leftoff: checked ") and "1 runs" in where and "1 blobs" in where
    assert ("Clean.", "") == (verdict, done.err)


def test_as_json(filled: Path) -> None:
    """One document with the promised keys, and nothing else."""
    report = succeed("fsck", "--json", cwd=filled).json
    assert {"ok", "checked", "problems", "quarantined"} <= {*report}
    assert (True, [], []) == (report["ok"], report["problems"], report["quarantined"])
    assert 1 == report["checked"]["runs"] == report["checked"]["blobs"]
    assert report["checked"]["records"] > 5 and report["checked"]["pages"] > 5


@pytest.mark.parametrize("words", [("fsck",), ("fsck", "--json"), ("fsck", "--repair")], ids=" ".join)
def test_no_store(project: Path, words: tuple[str, ...]) -> None:
    """Nothing to check is no problem, and makes nothing; nobody is told that it is clean."""
    done = succeed(*words, cwd=project)
    if "--json" in words:
        assert {
            "ok": True,
            "checked": {},
            "problems": [],
            "quarantined": [],
            "repaired": [],
            "salvaged": [],
        } == done.json
    else:
        assert f"{project}/.leftoff: checked nothing: there is no store here yet.\n" == done.out
    assert [] == os.listdir(project)


COMMON = [
    ("--json", "--project", "{p}", "fsck"),
    ("fsck", "--json", "--project", "{p}"),
    ("--project", "{p}", "fsck", "--json"),
    ("--project={p}", "--json", "fsck"),
    ("fsck", "--project={p}", "--json"),
    ("--store", "{p}/.leftoff", "fsck", "--json"),
    ("fsck", "--json", "--store={p}/.leftoff"),
    ("--json", "fsck", "--repair", "--store", "{p}/.leftoff"),
]


@pytest.mark.parametrize("words", COMMON, ids=" ".join)
def test_common_options_before_and_after_the_verb(
    filled: Path, tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...]
) -> None:
    """The three of them, in either form, from anywhere."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    report = succeed(*(word.format(p=filled) for word in words), cwd=elsewhere).json
    assert report["ok"] and 1 == report["checked"]["runs"]
    assert [] == os.listdir(elsewhere)


@pytest.mark.damages_store
def test_a_damaged_blob(filled: Path) -> None:
    """Exit 4; what is wrong and where, for people and for programs. It is a result, not an error."""
    blob = blob_of(filled)
    flip(blob, 20)
    done = call("fsck", cwd=filled)
    assert 4 == done.code
    assert f"  blob: {blob}: " in done.out and "--repair" in done.out.splitlines()[-1]
    as_json = call("fsck", "--json", cwd=filled)
    assert 4 == as_json.code and not as_json.json["ok"] and "error" not in as_json.json
    (problem,) = [p for p in as_json.json["problems"] if p["code"] == "blob"]
    assert str(blob) in problem["where"] and problem["message"]


@pytest.mark.parametrize("words", [("fsck",), ("fsck", "--repair"), ("get", "huge")])
def test_a_blob_that_is_not_ours_to_read(
    filled: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no damage: exit 8, whose it is is said, and nothing is set aside."""
    blob = blob_of(filled)
    if os.geteuid() == 0:
        os.chown(blob, 1, -1)

    opened: Any = open

    def denied(path: object, *more: object, **also: object) -> object:
        if str(path) == str(blob):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *more, **also)

    monkeypatch.setattr(builtins, "open", denied)
    done = call(*words, cwd=filled)
    assert 8 == done.code and f"{blob} cannot be" in done.err, str(done)
    assert "chown" in done.err or os.geteuid() != 0
    monkeypatch.undo()
    assert HUGE == succeed("get", "huge", cwd=filled).out.strip()


@pytest.mark.damages_store
def test_a_damaged_page(filled: Path) -> None:
    """A flipped bit in the database is reported, and never read as something else."""
    database = filled / ".leftoff" / "store.db"
    flip(database, 3 * 4096 + 100)
    done = call("fsck", "--json", cwd=filled)
    assert 4 == done.code
    (problem,) = [p for p in done.json["problems"] if p["code"] == "page"]
    assert str(database) == problem["where"]


@pytest.mark.damages_store
def test_no_database_at_all(project: Path) -> None:
    """A file that is none of ours is refused, not overwritten."""
    (project / ".leftoff").mkdir()
    database = project / ".leftoff" / "store.db"
    database.write_text("this is no database, " * 1000)
    done = call("fsck", cwd=project, LEFTOFF_TRUST="1")
    assert 4 == done.code and "Traceback" not in done.err
    assert database.read_text().startswith("this is no database")


@pytest.mark.damages_store
def test_repair(filled: Path) -> None:
    """--repair sets a damaged file aside and says where. Reads and fsck report it until the content is back."""
    blob = blob_of(filled)
    flip(blob, 20)
    damaged = blob.read_bytes()
    done = call("fsck", "--repair", "--json", cwd=filled)
    assert 4 == done.code, str(done)
    assert ["blob"] == [problem["code"] for problem in done.json["problems"]]
    assert "Restore a backup" in call("fsck", "--repair", cwd=filled).out
    aside = [path for path in (filled / ".leftoff" / "quarantine").rglob("*") if path.is_file()]
    assert damaged in [path.read_bytes() for path in aside]
    with leftoff.open(filled / ".leftoff") as store:
        assert (1, 1) == (store.get("r").variables["n"], store.get("r").steps["a"]["result"])
        with pytest.raises(leftoff.Corrupt):
            _ = store.get("r").variables["huge"]


@pytest.mark.damages_store
def test_a_repair_that_fails_leaves_nothing(filled: Path) -> None:
    """The disk is full while the new database is written: everything is as it was."""
    database = filled / ".leftoff" / "store.db"
    damaged = bytearray(database.read_bytes())
    damaged[-4000:] = bytes(4000)
    database.write_bytes(damaged)
    size = database.stat().st_size
    command = [sys.executable, "-m", "leftoff", "fsck", "--repair"]
    done = subprocess.run(
        command,
        cwd=filled,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert 8 == done.returncode and "Traceback" not in done.stderr, done.stderr
    assert damaged == database.read_bytes()
    assert not (filled / ".leftoff" / "repair.tmp").exists()
    assert [] == [path for path in (filled / ".leftoff" / "quarantine").rglob("*") if path.is_file()]


def test_repair_of_a_clean_store(filled: Path) -> None:
    """There is nothing to do, and nothing is done."""
    before = {path: path.stat().st_mtime_ns for path in (filled / ".leftoff" / "blobs").rglob("*")}
    done = succeed("fsck", "--repair", cwd=filled)
    assert done.out.endswith("Clean.\n")
    assert before == {path: path.stat().st_mtime_ns for path in (filled / ".leftoff" / "blobs").rglob("*")}
    assert not (filled / ".leftoff" / "quarantine").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("fcsk",),
        ("--json", "fcsk"),
        ("fsck", "--repare"),
        ("fsck", "extra"),
        ("fsck", "--store"),
        ("fsck", "--json=1"),
        ("fsck", "--project", "/no/such/folder"),
    ],
    ids=" ".join,
)
def test_wrong_usage(project: Path, words: tuple[str, ...]) -> None:
    """Exit 2: a line that says what is wrong and one that says what to do; with --json a document too."""
    done = call(*words, cwd=project)
    assert 2 == done.code
    wrong, hint, *rest = done.err.splitlines()
    assert wrong.startswith("leftoff: ") and hint and [] == rest
    if "--json" in words:
        assert {"code", "message", "hint"} == {*done.json["error"]}
        assert ("usage", f"leftoff: {done.json['error']['message']}") == (done.json["error"]["code"], wrong)
    else:
        assert "" == done.out
    assert [] == os.listdir(project)


def test_a_store_that_cannot_be_read(filled: Path) -> None:
    """A kind of store that this leftoff has not is refused with exit 4, without a traceback."""
    done = call("fsck", "--store", "redis://localhost", cwd=filled)
    assert 4 == done.code and "redis://" in done.err and "Traceback" not in done.err


def test_no_traceback_reaches_a_user(filled: Path, tmp_path: Path) -> None:
    """Not even for a bug of ours; LEFTOFF_DEBUG=1 shows it."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import leftoff.engine.run_states as f\nf.fsck = lambda *_, **__: 1 / 0\n"
    )
    done = call("fsck", "--json", cwd=filled, PYTHONPATH=str(broken))
    assert 1 == done.code and "Traceback" not in done.err
    assert (
        "ZeroDivisionError" in done.json["error"]["message"] and "LEFTOFF_DEBUG" in done.json["error"]["hint"]
    )
    debug = call("fsck", cwd=filled, PYTHONPATH=str(broken), LEFTOFF_DEBUG="1")
    assert 1 == debug.code and "Traceback" in debug.err


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_blob_that_cannot_be_looked_at_now(
    filled: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Is whole for all we know: the store is out of reach, nothing is told as damage, nothing set aside."""
    blob = blob_of(filled)

    def no_more(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(blob))

    monkeypatch.setattr(blobs, "open", no_more, raising=False)
    for words in ("show", "--variables"), ("fsck",), ("fsck", "--repair"):
        done = call(*words, cwd=filled)
        assert 8 == done.code and os.strerror(number) in done.err, words
    monkeypatch.undo()
    assert blob_of(filled) == blob
    succeed("fsck", cwd=filled)
