"""A command's output on its way into the log: whole, in time, in bounded memory, and without secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.engine.redactor import Redactor
from leftoff.engine.settings import Settings
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.redacting_stream import CONTEXT, LONGEST, Censor, StepLog
from tests.workflow.desk import Desk, desk_in, driver, nothing_left

BUILT_IN = Redactor()
TOKEN = "ghp_" + "a1B2" * 9
KEY = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "Proc-Type: 4,ENCRYPTED",
    "",
    *["MIIEpAIBAAKCAQEA7bq2" * 3 + "abcd"] * 20,
    "short==",
    "-----END RSA PRIVATE KEY-----",
]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


def through(
    pieces: list[bytes], secrets: list[bytes] | None = None, redactor: Redactor | None = BUILT_IN
) -> bytes:
    """What comes out of a censor that is fed with pieces."""
    censor = Censor(redactor, secrets or [])
    return b"".join([*map(censor.feed, pieces), censor.end()])


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in at} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


# ---------------------------------------------------------------------------------------------- the censor

LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from(
            [b"password: swordfish-9", TOKEN.encode(), b"the s3cr3t-value", b"multi", *map(str.encode, KEY)]
        ),
    ),
    max_size=12,
)


@given(LINES, st.lists(st.integers(0, 10_000), max_size=10))
def test_pieces_do_not_matter(lines: list[bytes], at: list[int]) -> None:
    """However the output is cut by the pipe, the log is the same."""
    data = b"\n".join(lines)
    secrets = [b"s3cr3t-value"]
    assert through([data], secrets) == through(cut(data, at), secrets)


@settings(max_examples=20)
@given(st.integers(0, 3 * LONGEST), st.integers(500, 5 * LONGEST))
def test_a_secret_anywhere_in_an_endless_line(before: int, chunk: int) -> None:
    """A line of any length has its secrets masked, also where it is shown in pieces."""
    data = (
        b"x" * before
        + b" the s3cr3t-value password=swordfish-9 "
        + TOKEN.encode()
        + b" "
        + b"y" * 2 * LONGEST
    )
    out = through([data[at : at + chunk] for at in range(0, len(data), chunk)], [b"s3cr3t-value"])
    assert [] == [word for word in (b"s3cr3t-value", b"swordfish-9", TOKEN.encode()) if word in out]
    assert (before, 2 * LONGEST) == (out.count(b"x"), out.count(b"y"))


def test_what_is_not_utf8_passes() -> None:
    """Bytes are not changed, beside a secret or alone."""
    assert b"\xff\xfe\n\xc3" == through([b"\xff\xfe\n\xc3"])
    assert b"\xff password=[redacted]\n\xff" == through([b"\xff password=swordfish-9\n\xff"])


@given(st.lists(st.integers(0, 10_000), max_size=10), st.booleans())
def test_a_private_key_over_many_lines(at: list[int], stamped: bool) -> None:
    """No line of it is shown, wherever it is cut, also with a time before each line; what follows it is."""
    stamp = "12:00:01 " if stamped else ""
    data = "\n".join(["before", *(stamp + line for line in KEY), "after", ""]).encode()
    lines = [part + b"\n" for part in data.splitlines()]
    for pieces in (cut(data, at), lines):
        out = through(pieces)
        assert (b"before\n" in out, b"after\n" in out) == (True, True)
        assert b"MIIE" not in out


def test_talk_about_keys_is_shown() -> None:
    """A line that only looks like the beginning of a key does not hide what follows."""
    data = b"-----BEGIN PRIVATE KEY-----\nis how such a file begins.\nAnd so on.\n"
    assert b"[redacted]\nis how such a file begins.\nAnd so on.\n" == through([data])
    assert b"grep 'BEGIN PRIVATE KEY' *\nnext\n" == through([b"grep 'BEGIN PRIVATE KEY' *\nnext\n"])


def test_secrets_of_several_lines() -> None:
    """Each line of a secret is one; the longest is looked for first; without redaction they still go."""
    secret = b"first line of it\nsecond line of it\n}"
    out = through([b"x first line of it\n", b"y second line of it }\n"], [secret, b"first"])
    assert b"x [redacted]\ny [redacted] }\n" == out
    out = through([b"a first b password=swordfish-9"], [b"first"], redactor=None)
    assert b"a [redacted] b password=swordfish-9" == out


def test_patterns_of_the_project_see_lines() -> None:
    """A pattern with a beginning and an end means those of a line."""
    redactor = Redactor(patterns=[r"^pin \d+$"])
    data = b"a\npin 1234\n" + b"x" * 5000 + b"\npin 99 no\npin 99\n"
    expected = data.replace(b"pin 1234\n", b"[redacted]\n").replace(b"pin 99\n", b"[redacted]\n")
    assert expected == through([data], redactor=redactor)


def test_memory_of_an_endless_line() -> None:
    """Of a line without end, little is kept."""
    censor = Censor(Redactor(), [])
    for _ in range(100):
        censor.feed(b"x" * 10_000)
        assert len(censor._line) <= LONGEST + 10_000
    censor.feed(b"x" * LONGEST)
    assert CONTEXT == len(censor._line)


# ------------------------------------------------------------------------------------------------- the log


def test_secrets_do_not_reach_the_log(desk: Desk) -> None:
    """Neither shapes nor names nor the values of the job's secrets, also across the borders of reads."""
    script = (
        "import sys, time\n"
        "w = sys.stdout.write\n"
        "for n in range(3000): w('x' * 61 + ' hunter-two ' + 'y' * 7 + '\\n')\n"
        f"w('{TOKEN[:10]}'); sys.stdout.flush(); time.sleep(0.1); w('{TOKEN[10:]}\\n')\n"
        "w('password=swordfish-9\\nhunt'); sys.stdout.flush(); time.sleep(0.1); w('er-two end\\n')"
    )
    exit, log = desk.run(sys.executable, "-c", script, secrets=("hunter-two",))
    assert 0 == exit.code
    assert [] == [word for word in ("hunter-two", "ghp_", "swordfish") if word in log]
    assert 3000 == log.count("x" * 61 + " [redacted] " + "y" * 7 + "\n")
    assert log.endswith("password=[redacted]\n[redacted] end\n")


def test_redaction_is_the_projects(tmp_path: Path) -> None:
    """What a project switches off, names or allows holds for logs."""
    words = "password=swordfish-9 build_id=77 ZZ-12345"
    for chosen, expected in (
        ({"enabled": False}, words),
        ({"patterns": ("ZZ-[0-9]+",)}, "password=[redacted] build_id=77 [redacted]"),
        ({"names": ("build_id",)}, "password=[redacted] build_id=[redacted] ZZ-12345"),
        ({"allow": ("password",)}, words),
    ):
        with nothing_left(os.urandom(6).hex()):
            desk = Desk(tmp_path / os.urandom(4).hex(), Settings({"redaction": chosen}).redaction)
            try:
                assert f"{expected}\n" == desk.sh(f"echo {words}", cwd="/")[1]
            finally:
                desk.close()


def test_much_output_in_little_memory(alone: None, tmp_path: Path) -> None:
    """50 MB pass through the shim, all of them, and it stays small."""
    script = """
token = desk.go("/bin/sh", "-c", "yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 50000000; read x < /dev/null")
pid = desk.processes[token].pid
exit = desk.end(token)
import subprocess
say(exit.code, subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True).stdout)
"""
    with driver(script, tmp_path) as there:
        code, memory = there.hear()
    log = Path(AttemptFolder.of(str(tmp_path), "run-1", "t1").file("log"))
    assert ("1", 50_000_000) == (code, log.stat().st_size)
    assert int(memory) < 40_000
    log.unlink()


@pytest.fixture
def alone() -> Iterator[None]:
    with nothing_left(os.urandom(6).hex()):
        yield


def test_files_may_not_grow(alone: None, tmp_path: Path) -> None:
    """Output that cannot be written is dropped and counted; the command goes on, and its exit is recorded."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
desk = Desk(Path(sys.argv[1]))
token = desk.go("/bin/sh", "-c", "yes | head -c 300000; exit 4")
say(desk.end(token).code)
"""
    with driver(script, tmp_path) as there:
        assert ["4"] == there.hear()
    folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
    assert (4, 100_000) == (
        getattr(folder.exit(), "code", None),
        os.path.getsize(folder.file("log")),
    )


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is room again, the log says how much is not in it."""
    log = StepLog(str(tmp_path / "log"), None, [])
    real = os.write
    log.add(b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "write", lambda fd, data: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        log.add(b"two\nthree\n")
    assert real is os.write
    log.add(b"four\n")
    log.close()
    expected = "one\nfour\nleftoff: 10 bytes of output are missing here: No space left on device\n"
    assert expected == (tmp_path / "log").read_text()


def test_what_cannot_be_redacted_is_withheld(tmp_path: Path) -> None:
    """An error in a redactor costs the output, not the command, and says so."""

    class Broken:
        def suspicious(self, key: str, text: str) -> bool:
            return True

        def mask(self, text: str) -> str:
            raise RecursionError("too deep")

    broken: Any = Broken()
    log = StepLog(str(tmp_path / "log"), broken, [])
    log.add(b"a secret\n")
    log.close()
    shown = (tmp_path / "log").read_text()
    assert "secret" not in shown
    assert "it could not be redacted: RecursionError" in shown
