"""The command: its logic in this process, through ``main``; in a process of its own wherever that makes a difference.

That is a fork of a process that has everything loaded (``tests.cli.warm``): for a verb that drives, follows or becomes
other processes, from a thread, and while this process has a store open itself (it would take locks and leases for its
own). And it is a real start for verbs that look at their parent, for variables that Python reads when it starts, and
for a test that asks for it: ``spawn``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import apsw

from leftoff.cli import main
from tests.cli.warm import Process, stream

LEFTOFF = Path(sys.executable).parent / "leftoff"

PROCESSES = frozenset("run resume reprendre continue supervise demo serve".split())
PARENTS = frozenset("hook mcp handover".split())  # they look at the process that started them
FOLLOWS = frozenset(("-f", "--follow", "--watch", "--exec"))
PATIENCE = 240.0  # seconds: only who hangs is waited for so long, however slow the machine
TRUST = b"LEFTOFF_TRUST"  # a test may say that it trusts its project
AT_START = (b"PYTHON", b"LC_", b"LANG", b"LD_", b"TZ", b"LEFTOFF_DEBUG")


@dataclass(frozen=True)
class Called:
    """What a call of the command gave."""

    words: tuple[str | bytes, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    def __str__(self) -> str:
        shown = " ".join(w if isinstance(w, str) else repr(w) for w in self.words)
        return f"$ leftoff {shown[:200]}\nexit {self.code}\n{self.out[:2000]}\n{self.err[:2000]}"


def environment(**more: str) -> dict[str, str]:
    """Ours without what leftoff would listen to."""
    return {os.fsdecode(name): os.fsdecode(value) for name, value in _environment(more).items()}


def _environment(more: Mapping[str, str]) -> dict[bytes, bytes]:
    """The same as the system has it: `os.environ` takes longer to read than most verbs to do."""
    given = {os.fsencode(name): os.fsencode(value) for name, value in more.items()}
    ours: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    kept = {name: ours[name] for name in ours if name == TRUST or not name.startswith(b"LEFTOFF_")}
    return {**kept, b"PAGER": b"cat", **given}


def _at_start(env: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """What is heard only when a process starts."""
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


_OURS = _at_start(_environment({}))
open_before: dict[int, str] = {}  # what earlier tests did not close, which no later one sees


def call(
    *words: str | bytes, cwd: Path | str, input: str | None = None, timeout: float = PATIENCE, **env: str
) -> Called:
    """`leftoff WORDS` in a folder; stdin is empty unless there is input."""
    given = _environment(env)
    if _OURS != _at_start(given) or not PARENTS.isdisjoint(words):
        return spawn(*words, cwd=cwd, input=input, timeout=timeout, **env)
    with _files((input or "").encode()) as files:
        if _needs_a_process(words):
            code = _forked(words, cwd, environment(**env), files, timeout)
        else:
            code = _inside(words, cwd, given, files)
        return _called(words, code, *_read(files))


def call_as(user: int, *words: str, cwd: Path | str, **env: str) -> Called:
    """The same, in a process of a user of that number where whoever runs the tests may do that."""
    with _files(b"") as files:
        code = _forked(words, cwd, environment(**env), files, PATIENCE, user=user)
        return _called(words, code, *_read(files))


def inside(*words: str, cwd: Path | str, input: str, **env: str) -> Called:
    """The same, always in this process, whose parent is then the one that called."""
    with _files(input.encode()) as files:
        return _called(words, _inside(words, cwd, _environment(env), files), *_read(files))


def spawn(
    *words: str | bytes, cwd: Path | str, input: str | None = None, timeout: float = PATIENCE, **env: str
) -> Called:
    """The same, always in a process of its own."""
    done = subprocess.run(
        [str(LEFTOFF), *words],
        cwd=cwd,
        input=None if input is None else input.encode(),
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        timeout=timeout,
        env=environment(**env),
    )
    return _called(words, done.returncode, done.stdout, done.stderr)


def start(
    words: Sequence[str],
    cwd: Path,
    stdout: IO[bytes],
    stderr: IO[bytes],
    *,
    program: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Process | subprocess.Popen[bytes]:
    """The command in a process that goes on by itself; a real start where a program is given, or more of ``Popen``."""
    given = environment(**env or {})
    if program or more or _OURS != _at_start(_environment(env or {})):
        return subprocess.Popen(
            [*(program or [str(LEFTOFF)]), *words],
            cwd=cwd,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            **more,
        )
    with open(os.devnull, "rb") as stdin:
        return Process([*words], str(cwd), given, [file.fileno() for file in (stdin, stdout, stderr)])


def _called(words: tuple[str | bytes, ...], code: int, *said: bytes) -> Called:
    out, err = (part.decode("utf-8", "surrogateescape") for part in said)
    return Called(words, code, out, err)


def succeed(*words: str | bytes, cwd: Path | str, **more: Any) -> Called:
    """Run it, given that it must end well."""
    result = call(*words, cwd=cwd, **more)
    assert 0 == result.code, str(result)
    return result


def _needs_a_process(words: tuple[str | bytes, ...]) -> bool:
    return (
        not PROCESSES.isdisjoint(words)
        or not FOLLOWS.isdisjoint(words)
        or threading.current_thread() is not threading.main_thread()
        or bool(opened_since())
    )


def open_databases() -> dict[int, str]:
    """The databases that this process has open, by connection; no name where another thread is using it: it does not
    say which it is then."""
    found = {}
    for db in apsw.connections():
        try:
            found[id(db)] = db.filename
        except apsw.ThreadingViolationError:
            found[id(db)] = ""
    return found


def opened_since() -> set[str]:
    """Those that were not open when the test began, under any connection."""
    known = set(open_before.values()) - {""}
    return {name for db, name in open_databases().items() if db not in open_before and name not in known}


@contextmanager
def _files(data: bytes) -> Iterator[list[IO[bytes]]]:
    """Files for stdin, stdout and stderr."""
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(data)
        stdin.seek(0)
        yield [stdin, stdout, stderr]


def _read(files: list[IO[bytes]]) -> Iterator[bytes]:
    """What is on stdout and stderr now."""
    for file in files[1:]:
        file.seek(0)
        yield file.read()


def _forked(
    words: Sequence[str | bytes],
    cwd: Path | str,
    env: dict[str, str],
    files: list[IO[bytes]],
    timeout: float,
    **more: Any,
) -> int:
    fds = [file.fileno() for file in files]
    process = Process([os.fsdecode(word) for word in words], str(cwd), env, fds, **more)
    try:
        return process.wait(timeout)
    finally:
        process.kill()


def _inside(
    words: Sequence[str | bytes], cwd: Path | str, env: dict[bytes, bytes], files: list[IO[bytes]]
) -> int:
    with _place(cwd), _variables(env), _streams(files):
        code = _main([os.fsdecode(word) for word in words])
    assert not opened_since() - {""}, f"leftoff {words!r} left a store open"
    return code


def _main(words: list[str]) -> int:
    """The exit code, and a traceback where Python would show one."""
    sys.argv, before = [str(LEFTOFF), *words], sys.argv
    try:
        return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv = before


@contextmanager
def _place(cwd: Path | str) -> Iterator[None]:
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)  # by descriptor: it may have no name any more
    try:
        os.chdir(cwd)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def _variables(env: dict[bytes, bytes]) -> Iterator[None]:
    before = dict(os.environ._data)  # type: ignore[attr-defined]
    try:
        _set_variables(env)
        yield
    finally:
        _set_variables(before)


def _set_variables(env: dict[bytes, bytes]) -> None:
    ours: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    for name in ours.keys() - env.keys():
        del os.environb[name]
    for name, value in env.items() - ours.items():
        os.environb[name] = value


@contextmanager
def _streams(files: list[IO[bytes]]) -> Iterator[None]:
    """The three standard streams on these files: those of Python, and those that a program started by it gets."""
    before, kept = (sys.stdin, sys.stdout, sys.stderr), [os.dup(fd) for fd in range(3)]
    sys.stdout.flush()
    sys.stderr.flush()
    for fd, theirs in enumerate(files):
        os.dup2(theirs.fileno(), fd)
    made = [stream(fd) for fd in range(3)]
    sys.stdin, sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        for own in made:
            own.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for fd, ours in enumerate(kept):
            os.dup2(ours, fd)
            os.close(ours)
