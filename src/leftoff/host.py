"""Which process is this, what does it say to its log, and does another one still live?

A process is known by its scope (machine, boot, pid namespace), its pid and its raw start time, so that neither a
reused pid nor a reboot nor a container is mistaken for it. A process whose scope cannot be seen from here is
``unknown``, which is not the same as gone.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"
SHELLS = frozenset("sh bash dash ash zsh fish ksh mksh csh tcsh busybox env timeout nice sudo".split())

_REAPERS = frozenset("systemd init tini dumb-init docker-init catatonit launchd".split())

_scope: str | None = None
_shown: bool | None = None


def text_of(path: str) -> str:
    """What a file of the system says, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    import subprocess

    try:
        return subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def scope() -> str:
    """``machine/boot/namespace`` of this process."""
    global _scope
    if _scope is None:
        name = os.uname().nodename
        if sys.platform == "darwin":
            machine, boot, space = _sysctl("kern.uuid"), _sysctl("kern.bootsessionuuid"), "0"
        else:
            machine = text_of("/etc/machine-id") or text_of("/var/lib/dbus/machine-id")
            boot = text_of("/proc/sys/kernel/random/boot_id")
            space = _namespace()
        if not space or not (machine or boot):  # pids mean nothing to others then: no process sees another
            space += f"?{os.urandom(8).hex()}"
        _scope = f"{machine}@{name}/{boot}/{space}"
    return _scope


def _namespace() -> str:
    """Return the units of pids and start times on Linux."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    _, _, since = text_of("/proc/self/timens_offsets").partition("boottime")
    offset = ".".join(since.split())
    return space if offset in ("", "0.0") else f"{space}+{offset}"


def uptime() -> int:
    """For how many milliseconds this machine runs, sleep included."""
    import time

    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def shown() -> bool:
    """Whether /proc counts pids as we do. It may be that of another namespace, where ours are strangers'."""
    global _shown
    if _shown is None:
        try:
            _shown = os.readlink("/proc/self") == str(os.getpid())
        except OSError:
            _shown = False
    return _shown


def started(pid: int) -> str:
    """The raw start time of a live process, or an empty string if there is none (a zombie does not count)."""
    return start_of(pid) or ""


def start_of(pid: int) -> str | None:
    """Its raw start time; empty if there is no such live process, ``None`` if that is unknown: there is one,
    and the system does not say since when (no /proc, or one that hides others, or no file can be opened)."""
    state = when = ""
    if sys.platform == "darwin":
        state, _, when = _ps(pid, "stat=,lstart=").partition(" ")
    elif shown():
        # The name in parentheses may hold anything, spaces and parentheses too: fields count from the last one.
        fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
        state, when = (fields[0], fields[19]) if len(fields) > 19 else ("", "")
    if when:
        return "" if state[:1] in "ZX" else when.strip()
    try:
        if pid > 0:
            os.kill(pid, 0)
            return None
    except PermissionError:
        return None
    except (ProcessLookupError, OverflowError):
        pass
    return ""


def _ps(pid: int, what: str) -> str:
    """Return what macOS reports about a process, or nothing."""
    import subprocess

    try:
        out = subprocess.run(["ps", "-ww", "-o", what, "-p", str(pid)], capture_output=True, text=True)
    except OSError:
        return ""
    return out.stdout.strip()


class Process:
    """The identity of one process, comparable across processes and machines."""

    __slots__ = ("pid", "scope", "started")

    def __init__(self, scope: str, pid: int, started: str) -> None:
        self.scope = scope
        self.pid = pid
        self.started = started

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Process):
            return NotImplemented
        return (self.scope, self.pid, self.started) == (other.scope, other.pid, other.started)

    def __hash__(self) -> int:
        return hash((self.scope, self.pid, self.started))

    def __repr__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def host(self) -> str:
        return self.scope.partition("/")[0].rpartition("@")[2] or "this machine"

    def state(self) -> str:
        """``alive``, ``gone`` or ``unknown``."""
        if self.scope == scope():
            now = start_of(self.pid)
            if now is None or (now and not self.started):
                return UNKNOWN
            return ALIVE if now and now == self.started else GONE
        machine, boot, _ = (self.scope + "//").split("/")[:3]
        here_machine, here_boot, _ = (scope() + "//").split("/")[:3]
        if machine == here_machine and boot and here_boot and boot != here_boot:
            return GONE
        return UNKNOWN


def this_process() -> Process:
    return Process(scope(), os.getpid(), started(os.getpid()))


def inside(process: Process) -> bool:
    """Whether this process was started, directly or not, by that one, which is alive."""
    pid = os.getpid()
    while pid > 1 and pid != process.pid:
        pid = _parent(pid)
    return pid == process.pid and process.state() == ALIVE


def _parent(pid: int) -> int:
    if sys.platform == "darwin":
        return int(_ps(pid, "ppid=") or 0)
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def agent_above(*names: str) -> Process | None:
    """The agent that called this process: the nearest one above that does more than to call it; ``None`` if that is
    the first of all, or adopts orphans. ``names``: what agents are called; one of that name close by goes before any
    other."""
    pid = os.getppid()
    while pid > 1 and _only_calls(pid):
        pid = _parent(pid)
    near, above = pid, pid
    for _ in range(_NEAR):
        if above <= 1:
            break
        if not names or is_called(above, names):
            near = above
            break
        above = _parent(above)
    began = started(near) if near > 1 and _name(near) not in _REAPERS else ""
    return Process(scope(), near, began) if began else None


def orphan(*names: str) -> Process | None:
    """The process that called this one, which has ended: it is unknown. ``None`` where the first process of all has
    such a name, as in a container: then it may be that one, and it lives."""
    return None if is_called(1, names) else Process(scope(), 0, "")


_NEAR = 4  # processes that are looked at: a program of an agent's may have a wrapper of any kind around us


def _only_calls(pid: int) -> bool:
    """Whether a process is a shell, a script of one, or something that was called with our own words."""
    if _name(pid) in SHELLS or _program(pid) in SHELLS:
        return True
    own = sys.argv[1:]
    return bool(own) and words_of(pid)[-len(own) :] == own


def is_called(pid: int, names: tuple[str, ...]) -> bool:
    """Whether a process is a program of one of these names, or a script of that name that a program runs."""
    return any(os.path.basename(word) in names for word in words_of(pid)[:2])


def words_of(pid: int) -> list[str]:
    """The words that a process was started with."""
    if sys.platform == "darwin":
        return _ps(pid, "args=").split()
    return text_of(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")


def _program(pid: int) -> str:
    """The name of the file that a process runs: that of the shell, where its own name is that of a script."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _name(pid: int) -> str:
    """The name of a process's program, without the dash of a login shell."""
    if sys.platform == "darwin":
        return os.path.basename(_ps(pid, "comm=")).lstrip("-")
    return text_of(f"/proc/{pid}/comm").lstrip("-")


def python(module: str) -> list[str]:
    """Words that start a module of leftoff: in no folder does a `json.py` or `types.py` of the user's come first."""
    return [sys.executable, "-P", "-m", module]


def user() -> str:
    """Whose process this is, as user@host."""
    name = user_name(os.getuid())
    if name.isdecimal():  # a container may run under a number that has no name
        name = os.environ.get("LOGNAME") or os.environ.get("USER") or name
    return f"{name}@{os.uname().nodename}".encode("utf-8", "replace").decode()


def user_name(number: int) -> str:
    """Of a user of this machine; the number itself where that has no name."""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


# -- lines of the logger `leftoff`, or on stderr with LEFTOFF_DEBUG=1
# A program that has `logging` gets them at level DEBUG. One that has not loaded it does not pay for it.


def debugging() -> bool:
    """Return whether the user wants to see tracebacks and every line."""
    return os.environ.get("LEFTOFF_DEBUG") == "1"


_stderr = debugging()  # asked once: a commit is logged, too
_logger: Any = None


def debug(text: str, *about: object) -> None:
    """Write one line, with ``%``: nothing is formatted unless it is written."""
    global _logger
    if _stderr:
        sys.stderr.write(f"leftoff: [{os.getpid()}] {text % about}\n")
    if _logger is None and "logging" in sys.modules:
        _logger = sys.modules["logging"].getLogger("leftoff")
    if _logger is not None:
        _logger.debug(text, *about)
