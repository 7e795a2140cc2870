"""Which process is meant, and whether it lives: what the system does not say is not known, and never death."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from leftoff import host
from leftoff.errors import CannotResume
from leftoff.host import ALIVE, GONE, UNKNOWN, Process
from leftoff.workflow import process_groups as groups
from tests.seams import SEAMS


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The scope is looked up again."""
    monkeypatch.setattr(SEAMS["host._scope"], None)
    return monkeypatch


def blind(patch: pytest.MonkeyPatch, *beginnings: str) -> None:
    """No file whose path begins so can be read."""
    read = host.text_of
    patch.setattr(SEAMS["host.text_of"], lambda path: "" if path.startswith(beginnings) else read(path))


def test_a_live_process_that_is_not_shown(
    living: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is not known: another user's where /proc hides those, any where no file can be opened. One that has ended, is
    gone."""
    process = Process(host.scope(), living.pid, host.started(living.pid))
    assert ALIVE == process.state()
    blind(monkeypatch, f"/proc/{living.pid}/")
    assert (UNKNOWN, True) == (process.state(), groups.alive(process))
    assert [living.pid] == groups.members(living.pid)
    living.kill()
    living.wait()
    assert GONE == process.state()


def test_one_that_was_not_shown_when_it_was_recorded(living: subprocess.Popen[bytes]) -> None:
    """May be the one that has its pid now; nobody has the pid of one that is gone."""
    assert UNKNOWN == Process(host.scope(), living.pid, "").state()
    assert GONE == Process(host.scope(), 0, "").state()


def test_pids_without_a_namespace(living: subprocess.Popen[bytes], fresh: pytest.MonkeyPatch) -> None:
    """Mean nothing to another process: it may be of another container. Nor where neither machine nor boot is known."""

    def unreadable(path: str) -> str:
        raise FileNotFoundError(errno.ENOENT, "no", path)

    with fresh.context() as patch:
        patch.setattr(os, "readlink", unreadable)
        before = Process(host.scope(), living.pid, host.started(living.pid))
        patch.setattr(SEAMS["host._scope"], None)
        assert UNKNOWN == before.state()
        assert before != Process(host.scope(), before.pid, before.started)
    blind(fresh, "/etc/machine-id", "/var/lib/dbus", "/proc/sys")
    fresh.setattr(SEAMS["host._scope"], None)
    assert "?" in host.scope()


def test_pids_of_another_namespaces_proc(
    living: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Are strangers' where a sandbox has pids of its own and the /proc of the machine: who is gone is known, and nobody
    is taken for alive because somebody else has that number there."""
    process = Process(host.scope(), living.pid, host.started(living.pid))
    read = os.readlink
    monkeypatch.setattr(SEAMS["host._shown"], None)
    monkeypatch.setattr(os, "readlink", lambda path: "4711" if path == "/proc/self" else read(path))
    assert (UNKNOWN, None) == (process.state(), host.agent_above())
    with pytest.raises(CannotResume, match="of another pid namespace"):
        groups.check_seen()
    living.kill()
    living.wait()
    assert GONE == process.state()


def test_a_time_namespace(fresh: pytest.MonkeyPatch) -> None:
    """Counts start times from another moment: who is in it cannot be compared with who is not."""
    plain = host.scope()
    read = host.text_of
    offsets = "monotonic           0         0\nboottime       100000         0"
    fresh.setattr(SEAMS["host.text_of"], lambda path: offsets if path.endswith("offsets") else read(path))
    fresh.setattr(SEAMS["host._scope"], None)
    assert UNKNOWN == Process(plain, os.getpid(), "1").state()
    assert plain.startswith(host.scope().partition("+")[0])


def test_a_kernel_without_pidfds(living: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is to be ended is, by the pid."""

    def unknown(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", unknown)
    groups.signal_all([living.pid], signal.SIGKILL, living.pid)
    assert -signal.SIGKILL == living.wait(60)


def test_no_step_runs_where_none_can_be_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc what a step leaves behind could neither be seen nor ended."""
    groups.check_seen()
    blind(monkeypatch, "/proc/")
    with pytest.raises(CannotResume, match="does not show its processes"):
        groups.check_seen()
