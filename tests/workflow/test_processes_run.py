"""A command as a shim runs it: what it is given, what is kept of it, how its end is told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import leftoff
from leftoff.host import started
from leftoff.workflow import process_groups as groups
from tests.workflow.desk import Desk, desk_in, wait_for


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


def facts(exit: object) -> tuple[object, ...]:
    """An exit without its time."""
    return tuple(getattr(exit, name) for name in ("code", "signal", "timed_out", "stopped", "error"))


ENDED_WELL = (0, None, False, False, None)


# ------------------------------------------------------------------------------------------- the plain path


def test_output_and_exit_code(desk: Desk) -> None:
    """stdout and stderr are in the log, in the order they were written; the exit code is told, and on disk."""
    exit, log = desk.sh("echo one; echo two >&2; echo three; exit 3")
    assert (3, None, False, False, None) == facts(exit)
    assert "one\ntwo\nthree\n" == log
    assert exit.at > 1_600_000_000_000


def test_success(desk: Desk) -> None:
    """0 is the code of a command that ended by itself with 0."""
    exit, _ = desk.sh("true")
    assert ENDED_WELL == facts(exit)
    assert exit.ok


def test_what_a_command_is_given(desk: Desk, tmp_path: Path) -> None:
    """Exactly its environment, its folder, an empty stdin, and no file that is not its own."""
    script = "import os, sys; print(sorted(os.environ), os.getcwd(), sys.stdin.read(), sorted(os.listdir('/dev/fd')))"
    folder = tmp_path / "ünï cödé"
    folder.mkdir()
    token = desk.start(sys.executable, "-I", "-c", script, cwd=str(folder), env={"A": "1"})
    desk.ready(token)
    desk.launcher.go(token)
    assert ENDED_WELL == facts(desk.end(token))
    names = sorted({*os.environ, "A"} | ({"LC_CTYPE"} & {*os.environ}))
    shown = desk.log(token)
    assert str(folder) in shown
    assert all(repr(name) in shown for name in names)
    assert "['0', '1', '2', '3']" in shown  # 3 is the listing itself


def test_words_that_are_not_unicode(desk: Desk) -> None:
    """Arguments, variables and output are bytes, and arrive as they are."""
    raw = os.fsdecode(b"\xff\xfe raw")
    exit, log = desk.run("/bin/sh", "-c", 'printf "%s|%s" "$1" "$X"', "sh", raw, env={"X": raw})
    assert (ENDED_WELL, f"{raw}|{raw}") == (facts(exit), log)


def test_no_signal_is_ignored_or_blocked(desk: Desk) -> None:
    """Whatever the driver's side ignores, a command starts with the defaults."""
    if sys.platform != "linux":
        pytest.skip("/proc tells")
    _, log = desk.run("cat", "/proc/self/status")
    masks = {
        words[0]: int(words[1], 16)
        for line in log.splitlines()
        if (words := line.split())[0][:3] == "Sig" and "/" not in words[1]
    }
    threads = 0b11 << 31  # the C library's own two
    assert (0, 0, 0) == (masks["SigBlk:"], masks["SigIgn:"] & ~threads, masks["SigCgt:"] & ~threads)


def test_signals_that_were_held_back(tmp_path: Path) -> None:
    """Whoever started the driver may have blocked them all: its steps end, and are heard of, all the same."""
    held = signal.valid_signals() - {signal.SIGALRM}  # by which a test that hangs is ended
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        with desk_in(tmp_path) as desk:
            assert ENDED_WELL == facts(desk.run("true")[0])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_session_and_group(desk: Desk) -> None:
    """The shim leads a session; the command is in it, and in the group that has the shim's pid."""
    token = desk.start("/bin/sh", "-c", "ps -o pgid=,sess= -p $$ 2>/dev/null || ps -o pgid= -p $$")
    process = desk.ready(token)
    desk.launcher.go(token)
    desk.end(token)
    assert str(process.pid) == desk.log(token).split()[0]
    assert os.getsid(0) != process.pid
    assert groups.alive(process)
    assert not groups.alive(process, desk.folder(token))


def test_files_are_private(desk: Desk) -> None:
    """An attempt's folder and files are for their owner only."""
    token = desk.go("/bin/sh", "-c", "echo x")
    desk.end(token)
    folder = Path(desk.folder(token))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert {token: 0o700, "log": 0o600, "exit": 0o600} == modes


def test_nothing_is_made_for_nothing(desk: Desk) -> None:
    """A command that says nothing leaves its exit, and no other file."""
    token = desk.go("true")
    desk.end(token)
    assert ["exit"] == os.listdir(desk.folder(token))


def test_umask_is_the_drivers(desk: Desk, tmp_path: Path) -> None:
    """What a command creates has the mode that it would have without us."""
    desk.sh("touch made")
    mask = os.umask(0)
    os.umask(mask)
    assert 0o666 & ~mask == (tmp_path / "made").stat().st_mode & 0o777


def test_modules_of_the_user_are_not_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder, nor the environment, nor a site of the user's changes what the launcher imports."""
    for name in ("socket", "select", "signal", "sitecustomize", "leftoff"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "leftoff.py"))
    monkeypatch.chdir(tmp_path)
    with desk_in(tmp_path) as desk:
        assert ENDED_WELL == facts(desk.sh("true")[0])


def test_a_launcher_is_small() -> None:
    """What is loaded into it is copied with every shim: a few modules of the standard library, and ours."""
    code = "import sys; sys.path.append(sys.argv[1]); import leftoff.workflow.shim; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", code, str(Path(leftoff.__file__).parents[1])]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    heavy = {
        "apsw",
        "asyncio",
        "json",
        "leftoff.python",
        "leftoff.store.sqlite",
        "msgspec",
        "subprocess",
    }
    assert set() == loaded & heavy
    assert len(loaded) < 90


def test_many_at_once(desk: Desk, tmp_path: Path) -> None:
    """Jobs run side by side; each has a shim of its own, and each end is told once."""
    script = "while [ ! -e on ]; do sleep 0.02; done; exit"
    tokens = [desk.go("/bin/sh", "-c", f"{script} {number}") for number in range(8)]
    (tmp_path / "on").touch()
    assert 8 == len({desk.processes[token].pid for token in tokens})
    assert list(range(8)) == [desk.end(token).code for token in tokens]
    assert [] == desk.launcher.events(0.1)


def test_a_shim_that_is_free_takes_the_next_job(desk: Desk) -> None:
    """One after the other, jobs share a shim, and nothing of the first is seen by the second."""
    first = desk.go("/bin/sh", "-c", "cd /; export A=1; echo a; exit 4", timeout=5.0)
    assert 4 == desk.end(first).code
    second = desk.go("/bin/sh", "-c", "pwd; echo ${A-none}; sleep 0.1", cwd="/tmp")
    assert ENDED_WELL == facts(desk.end(second))
    assert desk.processes[first] == desk.processes[second]
    assert "/tmp\nnone\n" == desk.log(second)


def test_a_large_job(desk: Desk) -> None:
    """A job of the size that an operating system takes passes whole, also larger than a socket's buffer."""
    words = ["x" * 100_000] * 8
    exit, log = desk.run("/bin/sh", "-c", 'echo "$#"', "sh", *words)
    assert (ENDED_WELL, "8\n") == (facts(exit), log)


# --------------------------------------------------------------------------------- what cannot be executed


def test_command_not_found(desk: Desk) -> None:
    """127, with an error that names the command, in the log too."""
    exit, log = desk.run("no-such-command-anywhere", "x")
    assert (127, "no-such-command-anywhere: command not found") == (exit.code, exit.error)
    assert "leftoff: no-such-command-anywhere: command not found\n" == log


def test_found_on_the_commands_own_path(desk: Desk, tmp_path: Path) -> None:
    """The PATH that counts is the one the command gets, also for what is relative to its folder."""
    tool = tmp_path / "tools" / "my-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    exit, log = desk.run("my-tool", env={"PATH": f"/nowhere:tools:{os.environ['PATH']}"})
    assert (ENDED_WELL, "mine\n") == (facts(exit), log)


@pytest.mark.parametrize(
    ("mode", "content", "code", "why"),
    [
        (0o644, "#!/bin/sh\n", 126, "Permission denied"),
        (0o755, "#!/no/such/interpreter\n", 127, "No such file or directory"),
        (0o755, "\x01\x02", 126, "Exec format error"),
    ],
)
def test_not_executable(desk: Desk, tmp_path: Path, mode: int, content: str, code: int, why: str) -> None:
    """126 or 127, with what is wrong with the file."""
    tool = tmp_path / "tool"
    tool.write_text(content)
    tool.chmod(mode)
    exit, log = desk.run(str(tool))
    assert (code, f"{tool}: cannot be executed: {why}") == (exit.code, exit.error)
    assert f"leftoff: {exit.error}\n" == log


def test_missing_working_folder(desk: Desk, tmp_path: Path) -> None:
    """A working folder that is not there: 127, and nothing was executed."""
    token = desk.go("/bin/sh", "-c", "touch ran", cwd=f"{tmp_path}/gone")
    exit = desk.end(token)
    why = f"the working folder {tmp_path}/gone cannot be entered: No such file or directory"
    assert (127, why) == (exit.code, exit.error)


def test_what_no_system_takes(desk: Desk) -> None:
    """A NUL, no words at all, or more of them than fit: an exit that says so, and a shim that lives on."""
    assert (126, True) == ((exit := desk.run("/bin/sh", "a\0b")[0]).code, "null" in str(exit.error))
    assert 126 == desk.run("")[0].code
    exit, _ = desk.run("/bin/sh", "x" * 4_000_000)
    assert (126, "/bin/sh: cannot be executed: Argument list too long") == (exit.code, exit.error)
    assert ENDED_WELL == facts(desk.sh("true")[0])


# ------------------------------------------------------------------------------------------------- its end


def test_killed_command(desk: Desk) -> None:
    """A signal gives 128 + its number, and the number."""
    assert (137, 9, False, False, None) == facts(desk.sh("kill -9 $$")[0])
    assert (143, 15, False, False, None) == facts(desk.sh("kill $$")[0])


def test_kill_0_is_survived(desk: Desk) -> None:
    """A script that signals its whole group ends as it would, and the shim is not hit."""
    for number in (1, 2, 3, 15):
        exit, _ = desk.sh(f"kill -{number} 0; sleep 60")
        assert (128 + number, number, False, False, None) == facts(exit)


def test_timeout(desk: Desk) -> None:
    """After its time the command gets SIGTERM; what it says of it is kept."""
    exit, log = desk.sh("trap 'echo asked; exit 0' TERM; echo up; sleep 60 & wait", timeout=0.3)
    assert (124, None, True, False, None) == facts(exit)
    assert not exit.ok
    assert "up\nasked\n" == log


def test_term_is_ignored(desk: Desk) -> None:
    """After the grace comes SIGKILL, for everybody."""
    script = "trap '' TERM; (trap '' TERM; sleep 60) & sleep 60"
    exit, _ = desk.sh(script, timeout=0.2, grace=0.2)
    assert (124, 9, True, False, None) == facts(exit)


def test_stopped_processes_get_the_signal(desk: Desk) -> None:
    """A command that is stopped is continued, so that it can end."""
    exit, _ = desk.sh("kill -STOP $$", timeout=0.2)
    assert (124, 15, True, False, None) == facts(exit)


def test_timeout_reaches_groups_of_its_own(desk: Desk) -> None:
    """timeout(1) and job control make groups of their own; they end too."""
    exit, _ = desk.run("timeout", "60", "sleep", "60", timeout=0.2)
    assert (124, True) == (exit.code, exit.timed_out)
    if shutil.which("bash"):
        exit, _ = desk.run("bash", "-c", "set -m; sleep 60 & sleep 60 & wait", timeout=0.2)
        assert (124, True) == (exit.code, exit.timed_out)


def test_stop(desk: Desk) -> None:
    """Whoever asks the shim for the end gets it, recorded as that, even if the command then ends with 0."""
    token = desk.go("/bin/sh", "-c", "trap 'exit 0' TERM; echo up; sleep 60 & wait", grace=0.5)
    wait_for(lambda: "up" in desk.log(token), "the command is up")
    groups.terminate(desk.processes[token])
    assert (143, 15, False, True, None) == facts(desk.end(token))
    wait_for(lambda: not groups.alive(desk.processes[token]), "a shim that was asked to end does")


def test_stop_before_the_start(desk: Desk) -> None:
    """A shim that waits to be told ends when it is asked to, and nothing runs."""
    token = desk.start("/bin/sh", "-c", "touch ran")
    process = desk.ready(token)
    groups.terminate(process)
    lost = desk.next(token)
    assert (False, False) == (lost.told, desk.folder(token).began())  # type: ignore[union-attr]


def test_stop_after_the_end(desk: Desk) -> None:
    """A shim that is free ends when it is asked to; the next job gets another, and is not ended."""
    token = desk.go("true")
    desk.end(token)
    process = desk.processes[token]
    groups.terminate(process)
    wait_for(lambda: not started(process.pid), "it ended")
    assert ENDED_WELL == facts(desk.sh("true")[0])


def test_background_processes_end_with_the_step(desk: Desk, tmp_path: Path) -> None:
    """What a command leaves running in its session gets SIGTERM, then SIGKILL, before the end is told."""
    script = "(trap 'echo bye; exit' TERM; echo $$ >up; sleep 60 & wait) & "
    exit, log = desk.sh(script + "while [ ! -s up ]; do sleep 0.01; done; echo done")
    assert (ENDED_WELL, "done\nbye\n") == (facts(exit), log)
    exit, _ = desk.sh("(trap '' TERM; while :; do sleep 0.05; done) >/dev/null 2>&1 & sleep 0.1", grace=0.2)
    assert ENDED_WELL == facts(exit)


def test_old_background_processes_end_too(desk: Desk) -> None:
    """Also where the command ran so long that pids may have come round."""
    exit, log = desk.sh("sleep 60 >/dev/null & sleep 1.2; echo done")
    assert (ENDED_WELL, "done\n") == (facts(exit), log)


DAEMON = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"


def test_daemons_are_left_alone(desk: Desk, tmp_path: Path) -> None:
    """What left the session lives on, and does not delay the end though it holds the output open."""
    daemon = [sys.executable, "-c", DAEMON, "sh", "-c", "echo $$ >pid; exec sleep 60"]
    exit, _ = desk.run("/bin/sh", "-c", '"$@"; while [ ! -s pid ]; do sleep 0.01; done', "sh", *daemon)
    assert ENDED_WELL == facts(exit)
    pid = int((tmp_path / "pid").read_text())
    assert started(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_daemon_that_writes_is_not_waited_for(desk: Desk) -> None:
    """One that keeps writing into the pipe does not keep the attempt from ending."""
    exit, log = desk.run(
        "/bin/sh", "-c", '"$@"; sleep 0.2', "sh", sys.executable, "-c", DAEMON, "yes", "noise"
    )
    assert ENDED_WELL == facts(exit)
    assert log.startswith("noise\n")


def test_closed_output(desk: Desk) -> None:
    """A command that closes stdout and stderr is waited for like any other."""
    exit, log = desk.sh("echo before; exec >&- 2>&-; sleep 0.3; exit 5")
    assert (5, "before\n") == (exit.code, log)


def test_output_of_the_last_moment(desk: Desk) -> None:
    """Whatever was written before the end is in the log, also more than a pipe holds, also without a last newline."""
    exit, log = desk.run(sys.executable, "-c", "import sys; sys.stdout.write('x' * 300_000 + 'end')")
    assert (ENDED_WELL, 300_003, True) == (facts(exit), len(log), log.endswith("xend"))
