"""The command: its logic in this process, through ``main``; as a process of its own wherever that makes a difference.

A process of its own is started for a verb that drives, follows or becomes other processes, for variables that Python
reads when it starts, from a thread, while this process itself has a store open (it would know the locks and the leases
for its own), and for a test that asks for it: ``spawn``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import apsw

from leftoff.cli import main

LEFTOFF = Path(sys.executable).parent / "leftoff"

PROCESSES = frozenset("run resume reprendre continue supervise demo mcp hook handover".split())
FOLLOWS = frozenset(("-f", "--follow", "--watch", "--exec"))
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "LEFTOFF_DEBUG")


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
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
    return {**kept, **more}


def _at_start(env: dict[str, str]) -> dict[str, str]:
    """What is heard only when a process starts."""
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


_OURS = _at_start(environment())


def call(
    *words: str | bytes, cwd: Path | str, input: str | None = None, timeout: float = 60, **env: str
) -> Called:
    """`leftoff WORDS` in a folder; stdin is empty unless there is input."""
    given = environment(**env)
    if _needs_a_process(words, given):
        return spawn(*words, cwd=cwd, input=input, timeout=timeout, **env)
    return _inside(words, cwd, (input or "").encode(), given)


def spawn(
    *words: str | bytes, cwd: Path | str, input: str | None = None, timeout: float = 60, **env: str
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


def _called(words: tuple[str | bytes, ...], code: int, *said: bytes) -> Called:
    out, err = (part.decode("utf-8", "surrogateescape") for part in said)
    return Called(words, code, out, err)


def succeed(*words: str | bytes, cwd: Path | str, **more: Any) -> Called:
    """Run it, given that it must end well."""
    result = call(*words, cwd=cwd, **more)
    assert 0 == result.code, str(result)
    return result


def _needs_a_process(words: tuple[str | bytes, ...], env: dict[str, str]) -> bool:
    return (
        not PROCESSES.isdisjoint(words)
        or not FOLLOWS.isdisjoint(words)
        or _OURS != _at_start(env)
        or threading.current_thread() is not threading.main_thread()
        or bool(apsw.connections())
    )


def _inside(words: tuple[str | bytes, ...], cwd: Path | str, data: bytes, env: dict[str, str]) -> Called:
    with ExitStack() as stack:
        stdin, stdout, stderr = (stack.enter_context(TemporaryFile()) for _ in range(3))
        stdin.write(data)
        stdin.seek(0)
        with _place(cwd), _variables(env), _streams(stdin.fileno(), stdout.fileno(), stderr.fileno()):
            _forget()
            code = _main([os.fsdecode(word) for word in words])
        assert not apsw.connections(), f"leftoff {words} left a store open"
        stdout.seek(0)
        stderr.seek(0)
        return _called(words, code, stdout.read(), stderr.read())


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


def _forget() -> None:
    """What a process keeps of files that it has read: a new one reads them."""
    for name, module in list(sys.modules.items()):
        if name.startswith("leftoff.") and isinstance(known := getattr(module, "_loaded", None), dict):
            known.clear()


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
def _variables(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        _set_variables(env)
        yield
    finally:
        _set_variables(before)


def _set_variables(env: dict[str, str]) -> None:
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextmanager
def _streams(*given: int) -> Iterator[None]:
    """The three standard streams on these descriptors: those of Python, and those that a program started by it gets."""
    before, kept = (sys.stdin, sys.stdout, sys.stderr), [os.dup(fd) for fd in range(3)]
    sys.stdout.flush()
    sys.stderr.flush()
    for fd, own in enumerate(given):
        os.dup2(own, fd)
    made = [_stream(fd) for fd in range(3)]
    sys.stdin, sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        for stream in made:
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for fd, own in enumerate(kept):
            os.dup2(own, fd)
            os.close(own)


def _stream(fd: int) -> Any:
    """As Python makes it at its start."""
    like = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd]
    assert like is not None
    mode = "w" if fd else "r"
    return open(fd, mode, encoding=like.encoding, errors=like.errors, closefd=False)
