"""`leftoff logs`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from leftoff.cli.text import tidy, width
from leftoff.engine.redactor import Redactor
from leftoff.host import Process, scope, started, this_process
from leftoff.operations.watching import LONGEST, LogFile, redacted_log
from tests.cli.command import LEFTOFF, PATIENCE, call, environment, succeed
from tests.cli.people import Attempts
from tests.cli.runs import HOSTILE, driven, harmless
from tests.cli.runs import started as new_run
from tests.cli.terminal import CTRL_C, Terminal, shown

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ"


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of three steps, in an order that is not the alphabet's."""
    return new_run(tmp_path, "flow", "--run-id", "flow-1", "--steps", "z,convert,a")


@pytest.fixture
def attempts(run: str, tmp_path: Path) -> Iterator[Attempts]:
    """Attempts at its steps."""
    with Attempts(tmp_path, run) as made:
        yield made


def gone() -> Process:
    """A process that is no more."""
    done = subprocess.Popen(["true"])
    about = Process(scope(), done.pid, started(done.pid) or "1")
    done.wait()
    return about


def test_newest_attempts_in_the_order_of_the_steps(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Each under its heading: which attempt, how it ended, how long it took."""
    attempts.add("a", b"last\n")
    attempts.add("z", b"first try\n", code=1)
    attempts.add("z", b"second try\n", ms=65_000)
    attempts.add("convert", b"broken\n", code=2, ms=400)
    assert (
        "==> z (attempt 2, exit 0, 1m 5s) <==\nsecond try\n\n"
        "==> convert (attempt 1, exit 2, 0.4s) <==\nbroken\n\n"
        "==> a (attempt 1, exit 0, 12s) <==\nlast\n"
    ) == succeed("logs", cwd=tmp_path).out
    assert succeed("logs", cwd=tmp_path).out == succeed("logs", run, cwd=tmp_path).out


def test_one_log_comes_as_it_is(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Piped and alone, byte for byte: no heading, no end of line that was not there, whatever the bytes are."""
    printed = bytes(range(256)) + b"\x1b[31mred\x1b[0m\r\n no end"
    attempts.add("z", printed)
    done = succeed("logs", run, "z", cwd=tmp_path)
    assert printed == done.out.encode("utf-8", "surrogateescape")


def test_a_step_and_those_below_it(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """STEP means the whole of it; other ways to say which run."""
    for name in ("10", "9"):
        succeed("step", "start", f"convert/{name}", cwd=tmp_path)
        attempts.add(f"convert/{name}", f"page {name}\n".encode())
    attempts.add("z", b"other\n")
    expected = succeed("logs", run, "convert", cwd=tmp_path).out
    assert ["==> convert/10", "==> convert/9"] == [
        line.partition(" (")[0] for line in expected.splitlines()[::3]
    ]
    for words in (["@", "convert"], ["convert", "--run", run], [run, "/convert"]):
        assert expected == succeed("logs", *words, cwd=tmp_path).out
    assert "page 9\n" == succeed("logs", run, "convert/9", cwd=tmp_path).out


def test_attempts_by_number(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Earlier tries stay to be read."""
    attempts.add("z", b"one\n", code=1)
    attempts.add("z", b"two\n")
    assert "one\n" == succeed("logs", run, "z", "--attempt", "1", cwd=tmp_path).out
    done = succeed("logs", run, "z", "--attempt", "3", cwd=tmp_path)
    assert "" == done.out and "no log of an attempt 3" in done.err
    assert 2 == call("logs", run, "--attempt", "first", cwd=tmp_path).code


def test_failed_ones(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """By their exit code, by a signal, without any, and where the command ended well and its step did not."""
    attempts.add("z", b"fine\n")
    attempts.add("convert", b"killed\n", code=-9)
    attempts.add("a", b"wrote nothing\n")
    succeed("step", "fail", "a", "--error", "out.md is missing", cwd=tmp_path)
    assert ["==> convert (attempt 1, signal 9, 12s) <==", "==> a (attempt 1, exit 0, 12s) <=="] == [
        line for line in succeed("logs", "--failed", cwd=tmp_path).out.splitlines() if line.startswith("==>")
    ]
    done = succeed("logs", run, "z", "--failed", cwd=tmp_path)
    assert "" == done.out and "no log of a failed attempt" in done.err


def test_documents(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """One document with everything that is known of each; bytes that are no text are escaped."""
    attempts.add("z", b"ok \xff\n", code=3)
    attempts.add("a", None, code=None)
    found = succeed("logs", "--json", cwd=tmp_path).json
    assert run == found["run_id"]
    first, second = found["logs"]
    assert {
        "step": "z",
        "attempt": 1,
        "exit_code": 3,
        "started_at": "2026-02-02T02:40:01Z",
        "ended_at": "2026-02-02T02:40:13.300Z",
        "path": str(tmp_path / ".leftoff" / "attempts" / first["path"].split("/")[-2] / "log"),
        "text": "ok \\xff\n",
    } == first
    assert ("a", None, None, None) == tuple(second[key] for key in ("step", "exit_code", "ended_at", "text"))


def test_of_a_long_log_documents_have_the_end(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """And say how much was cut."""
    attempts.add("z", b"x" * 99 + b"\n" + b"y" * (1 << 20))
    (log,) = succeed("logs", "--json", cwd=tmp_path).json["logs"]
    assert (100, "y" * (1 << 20)) == (log["cut"], log["text"])


def test_no_logs(run: str, tmp_path: Path) -> None:
    """That is said, and is no error; a run, a step and a store that are not there are."""
    done = succeed("logs", cwd=tmp_path)
    assert "" == done.out and "has no logs" in done.err
    assert {"run_id": run, "logs": []} == succeed("logs", run, "z", "--json", cwd=tmp_path).json
    missing = call("logs", run, "conver", cwd=tmp_path)
    assert 3 == missing.code and "Did you mean convert?" in missing.err
    assert 3 == call("logs", "nothing", cwd=tmp_path).code
    hinted = call("logs", "convert", cwd=tmp_path)
    assert 3 == hinted.code and "leftoff logs @ convert" in hinted.err
    assert 3 == call("logs", "a", "b", "--run", run, cwd=tmp_path).code
    for words in (["a", "b", "c"], ["-f", "--json"]):
        assert 2 == call("logs", *words, cwd=tmp_path).code
    assert 3 == call("logs", "--store", "elsewhere", cwd=tmp_path).code
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_is_gone(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """The attempt is known all the same. One that ended well, without a log, printed nothing."""
    attempts.add("z", None, code=1)
    attempts.add("y", None)
    attempts.add("a", b"there\n")
    shown = succeed("logs", cwd=tmp_path).out
    assert "==> z (attempt 1, exit 1, 12s, its log is gone) <==" in shown
    assert "==> y (attempt 1, exit 0, 12s, printed nothing) <==" in shown


def test_a_step_that_has_printed_nothing_yet(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Its log is made with the first line: it is not gone while the step runs."""
    token = attempts.add("z", None, code=None, process=this_process())
    (tmp_path / ".leftoff" / "attempts" / token).mkdir(parents=True)
    done = succeed("logs", cwd=tmp_path)
    assert "has printed nothing yet" in done.out + done.err and "gone" not in done.out + done.err


def test_of_the_run_that_ended_last(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Where nothing is unfinished, that is the run that is meant."""
    attempts.add("z", b"there\n")
    succeed("finish", cwd=tmp_path)
    assert "there\n" in succeed("logs", cwd=tmp_path).out


def test_secrets_are_masked_once_more(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Also where they were printed before anybody knew that they are secrets."""
    (tmp_path / "leftoff.toml").write_text("[redaction]\npatterns = ['XX-\\d+']\n")
    attempts.add("z", f"key {SECRET} and XX-123\npassword=hunter22\nfine\n".encode())
    for words in (["logs"], ["logs", "--json"]):
        out = succeed(*words, cwd=tmp_path).out
        assert SECRET not in out and "XX-123" not in out and "hunter22" not in out and "fine" in out


def test_a_terminal_obeys_nothing(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Colours and cursor movements are taken out, the rest is escaped; of a line that was redrawn its last state."""
    attempts.add("z", b"\x1b[31mred\x1b[0m \x1b]0;owned\x07title\n10%\r55%\r100%\r\n\x9b2J\ttab\x07\n")
    succeed("step", "start", f"evil{HOSTILE}", cwd=tmp_path)
    attempts.add(f"evil{HOSTILE}", HOSTILE.encode(), code=1)
    terminal = shown("logs", cwd=tmp_path, columns=200)
    assert terminal.coloured and harmless(terminal.shown)
    assert ["==> z (attempt 1, exit 0, 12s) <==", "red title", "100%"] == terminal.shown.splitlines()[:3]
    narrow = shown("logs", run, "z", cwd=tmp_path, columns=20).shown
    assert width(narrow.splitlines()[0]) <= 20
    bare = shown("logs", run, "z", cwd=tmp_path, NO_COLOR="1")
    assert not bare.coloured and "red title" in bare.shown


def test_a_large_log_is_read_in_pieces(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """60 MB take no more memory than a small one: most of it in one endless line, with secrets' needles in it."""
    token = attempts.add("z", b"pass " * 1000)
    attempts.print(token, b"pass the token on\n" * 20_000)
    for _ in range(5):
        attempts.print(token, b"line after line\n" * (1 << 17))
    attempts.print(token, b"x" * (50 << 20))
    code = (
        "import resource, sys, os\n"
        "done = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,\n"
        "    file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])\n"
        "_, status, used = os.wait4(done, 0)\n"
        "print(status, used.ru_maxrss)\n"
    )
    words = [sys.executable, "-c", code, str(LEFTOFF), "logs"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    status, kilobytes = map(int, done.stdout.split())
    assert 0 == status and kilobytes < 60_000


# -- following


def follow(cwd: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(LEFTOFF), "logs", "-f", *words], cwd=cwd, env=environment(), stdout=subprocess.PIPE, text=True
    )


def lines(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(number)]


def test_following_a_live_run(tmp_path: Path) -> None:
    """What is added is shown, under the name of whoever prints; it ends when the run is paused."""
    with ExitStack() as stack:
        with driven(tmp_path) as run, Attempts(tmp_path, run) as attempts:
            process = stack.enter_context(follow(tmp_path, "--run", run))
            one = attempts.add("a", b"early\n", code=None)
            assert ["==> a (attempt 1, not ended) <==", "early"] == lines(process, 2)
            attempts.print(one, b"half a li")
            attempts.print(one, b"ne\n")
            assert ["half a line"] == lines(process, 1)
            two = attempts.add("b", b"other\n", code=None)
            assert ["", "==> b (attempt 1, not ended) <==", "other"] == lines(process, 3)
            attempts.end(two, 1)
            attempts.print(one, b"and on\n")
            assert ["", "==> a (attempt 1, not ended) <==", "and on"] == lines(process, 3)
            attempts.print(one, b"no end")
            assert process.poll() is None
        assert process.stdout is not None
        assert "no end" == process.stdout.read()
    assert 0 == process.returncode


def test_it_ends_where_nobody_drives(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """Everything that is there is shown first; also of an attempt whose process is gone."""
    attempts.add("z", b"printed\n", code=None, process=gone())
    done = succeed("logs", "-f", cwd=tmp_path)
    assert "==> z (attempt 1, not ended) <==\nprinted\n" == done.out
    assert "has no logs" in succeed("logs", "@", "a", "-f", cwd=tmp_path).err


def test_it_follows_a_step_that_outlives_its_driver(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """As long as its process lives there may be more; then it ends."""
    with subprocess.Popen(["sleep", "600"]) as child:
        about = Process(scope(), child.pid, started(child.pid))
        token = attempts.add("z", b"before\n", code=None, process=about)
        with follow(tmp_path) as process:
            first, second = lines(process, 2)
            assert first.startswith("==> z (attempt 1, running, ") and "before" == second
            attempts.print(token, b"after\n")
            assert ["after"] == lines(process, 1)
            child.kill()
            child.wait()
            assert 0 == process.wait(PATIENCE)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    """With 130, on a terminal and by SIGTERM."""
    with driven(tmp_path) as run, Attempts(tmp_path, run) as attempts:
        attempts.add("a", b"there\n", code=None, process=this_process())
        with Terminal("logs", run, "-f", cwd=tmp_path) as terminal:
            terminal.expect("there")
            terminal.type(CTRL_C)
            assert 130 == terminal.end()
        with follow(tmp_path, run) as process:
            lines(process, 2)
            process.send_signal(signal.SIGTERM)
            assert 130 == process.wait(PATIENCE)


def test_a_reader_that_has_had_enough(run: str, attempts: Attempts, tmp_path: Path) -> None:
    """`leftoff logs | head -1` ends without a word."""
    attempts.add("z", b"line\n" * 20_000)
    done = subprocess.run(
        f"{LEFTOFF} logs | head -1",
        shell=True,
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=60,
    )
    assert (b"line\n", b"") == (done.stdout, done.stderr)


# -- the parts


def test_whole_lines(tmp_path: Path) -> None:
    """A line is given when it has ended, a line that does not end in pieces, the rest when nothing more comes."""
    path = tmp_path / "log"
    file = LogFile(str(path))
    assert [] == list(file.read(ended=False))
    path.write_bytes(b"one\ntw")
    assert [b"one\n"] == list(file.read(ended=False))
    with path.open("ab") as more:
        more.write(b"o\nthree")
    assert [b"two\n"] == list(file.read(ended=False))
    assert [b"three"] == list(file.read(ended=True))
    assert [] == list(file.read(ended=True))
    with path.open("ab") as more:
        more.write(b"x" * (LONGEST * 3))
    pieces = list(file.read(ended=False))
    assert LONGEST * 3 == sum(map(len, pieces)) and max(map(len, pieces)) <= LONGEST * 2


def test_a_key_of_several_lines_is_masked() -> None:
    """The one kind of secret that no line shows by itself."""
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\n" * 4
        + "-----END RSA PRIVATE KEY-----\n"
    )
    masked = redacted_log(f"before\n{key}after\n".encode(), Redactor()).decode()
    assert "MIIE" not in masked and masked.startswith("before\n") and masked.endswith("after\n")
    clean = b"nothing to hide\n"
    assert redacted_log(clean, Redactor()) is clean


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb\r", "b"),
        ("\r\r", ""),
        ("x\ty", "x    y"),
        ("\x1b", "\\x1b"),
        ("\x1b(B\x1b[?25lbar\x1b[K", "bar"),
        ("\x00\x07", "\\x00\\x07"),
    ],
)
def test_tidy(printed: str, expected: str) -> None:
    """What programs do to a terminal is not what they say."""
    assert expected == tidy(printed)


def test_a_silent_step_that_took_too_long(tmp_path: Path) -> None:
    """How it ended and why is told, though it printed nothing."""
    (tmp_path / "f.yaml").write_text("steps: [{id: slow, run: sleep 60, timeout: 100ms}]\n")
    assert 1 == call("run", "f.yaml", cwd=tmp_path).code
    for words in (["latest"], ["latest", "slow"], ["latest", "--failed"]):
        done = succeed("logs", *words, cwd=tmp_path)
        assert "" == done.out
        assert "slow: attempt 1, exit 124," in done.err
        assert "printed nothing. It was stopped: it took too long (timeout after" in done.err


def test_verbose_shows_what_steps_print(tmp_path: Path) -> None:
    """Where there is no terminal, with --verbose; else a line per event."""
    (tmp_path / "f.yaml").write_text("steps: [{id: a, run: 'echo hello'}]\n")
    assert "hello" not in succeed("run", "f.yaml", cwd=tmp_path).out
    assert "a │ hello" in succeed("run", "f.yaml", "--verbose", cwd=tmp_path).out


def test_those_of_an_archived_run(tmp_path: Path) -> None:
    """They stay with the run."""
    (tmp_path / "f.yaml").write_text("steps: [{id: a, run: 'echo hello'}]\n")
    succeed("run", "f.yaml", "--run-id", "r", cwd=tmp_path)
    succeed("archive", "r", cwd=tmp_path)
    assert "hello\n" == succeed("logs", "r", cwd=tmp_path).out
    assert succeed("logs", "r", "--json", cwd=tmp_path).json["archived"]
