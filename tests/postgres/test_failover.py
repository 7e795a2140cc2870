"""A primary that dies and a standby that takes over: a URL with both goes on, and what did not get over is told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import leftoff
from tests.cli.command import call
from tests.postgres.server import SETTINGS, USER, Server

FLOW = """name: flow
steps:
  - id: first
    run: echo first >> ran
  - id: gate
    needs: first
    run: touch waits; while [ ! -e go ]; do sleep 0.05; done; echo gate >> ran
  - id: second
    needs: gate
    run: touch seconds; while [ ! -e on ]; do sleep 0.05; done; echo second >> ran
  - id: last
    needs: second
    run: echo last >> ran
"""


class Pair:
    """A primary, and a standby that follows it."""

    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = Server(folder / "one"), Server(folder / "two")
        self.primary.make({**SETTINGS, "wal_level": "replica"})
        with open(self.primary.data / "pg_hba.conf", "a", encoding="ascii") as rules:
            rules.write("local replication all trust\n")
        self.primary.start()
        self._follow()
        self.standby.start()

    def _follow(self) -> None:
        two = self.standby
        two.folder.mkdir()
        shutil.chown(two.folder, *self.primary.data.stat()[4:6])
        source = f"postgresql://{USER}@/?host={self.primary.folder}"
        two.run(
            "pg_basebackup",
            f"--pgdata={two.data}",
            "--write-recovery-conf",
            f"--dbname={source}",
            "--no-sync",
        )
        with open(two.data / "postgresql.auto.conf", "a", encoding="utf-8") as file:
            file.write(f"unix_socket_directories = '{two.folder}'\n")

    def url(self, project: str) -> str:
        """Both of them: whoever takes writes is meant."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql://{USER}@/postgres?host={hosts}&target_session_attrs=read-write&project={project}"

    def wait_for(self, server: Server, question: str) -> None:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            while not conn.execute(question.encode()).fetchone()[0]:  # type: ignore[index]
                time.sleep(0.02)

    def be_synchronous(self) -> None:
        self.primary.tell("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        self.wait_for(self.primary, "SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication")

    def part(self) -> None:
        """The standby has all that there is, and hears of nothing that comes."""
        with psycopg.connect(self.primary.url(), autocommit=True) as conn:
            end = conn.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert end is not None
        self.wait_for(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{end[0]}'")
        self.standby.tell("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        self.wait_for(self.standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def fail_over(self) -> None:
        """The primary is gone from one moment to the next, and the standby takes its place."""
        number = int((self.primary.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for process in (number, *map(int, children)):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.standby.run("pg_ctl", "promote", "--wait", f"--pgdata={self.standby.data}")

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            try:
                server.stop()
            except AssertionError:
                pass  # it was killed


@pytest.fixture
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="leftoff-pair-"))  # another user must come by
    folder.chmod(0o755)
    both = Pair(folder)
    yield both
    both.stop()
    shutil.rmtree(folder)


def _started(project: Path, url: str, run_id: str) -> subprocess.Popen[bytes]:
    project.mkdir()
    (project / "flow.yaml").write_text(FLOW)
    (project / "leftoff.toml").write_text("")
    words = [sys.executable, "-m", "leftoff", "run", "flow.yaml", "--run-id", run_id]
    with open(project / "said", "wb") as said:
        process = subprocess.Popen(
            words, cwd=project, env={**os.environ, "LEFTOFF_STORE": url}, stdout=said, stderr=said
        )
    _until(project / "waits", process)
    return process


def _until(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists():
        assert process.poll() is None, (path.parent / "said").read_text()
        time.sleep(0.02)


def test_what_did_not_get_over_is_told(pair: Pair, tmp_path: Path) -> None:
    """With asynchronous replication, acknowledged commits may be lost. Who knew of them is refused, and its run asks
    before it is resumed; everybody else goes on."""
    url, project = pair.url("lost"), tmp_path / "project"
    stores = {name: leftoff.open(url) for name in ("kept", "behind", "gone")}
    kept, behind = (stores[name].start("work", run_id=name, branch=name) for name in ("kept", "behind"))
    driver = _started(project, url, "driven")
    pair.part()
    _put(behind, 1)
    gone = stores["gone"].start("work", run_id="gone", branch="gone")
    (project / "go").touch()
    _until(project / "seconds", driver)
    pair.fail_over()
    (project / "on").touch()
    _put(kept, 1)
    assert 4 == driver.wait(60), (project / "said").read_text()
    assert "of run driven, which it had acknowledged" in (project / "said").read_text()
    for run, expected in ((behind, leftoff.Rewound), (gone, leftoff.NotFound)):
        with pytest.raises(expected):
            _put(run, 2)
        with pytest.raises(expected):
            stores[run.id].close()
        stores[run.id]._store.close()
    assert stores["kept"].fsck().ok
    stores["kept"].close()
    env: dict[str, Any] = {"LEFTOFF_STORE": url, "cwd": project}
    assert 7 == call("resume", "driven", "--yes", **env).code
    done = call("resume", "driven", "--accept", "integrity.salvaged", "--yes", **env)
    assert (0, "completed") == (done.code, call("show", "driven", "--json", **env).json["status"])


def _put(run: leftoff.Run, value: int) -> None:
    run.variables["n"] = value
    run.commit()


@pytest.mark.crash_full
def test_nothing_acknowledged_is_lost_with_synchronous_replication(pair: Pair, tmp_path: Path) -> None:
    """Drivers and programs at work go on at the standby, as if nothing had been: each commit is there once."""
    pair.be_synchronous()
    url, project = pair.url("kept"), tmp_path / "project"
    driver = _started(project, url, "driven")
    over = threading.Event()
    counted: dict[str, int] = {}

    def work(name: str) -> None:
        with leftoff.open(url) as store:
            run = store.start("work", run_id=name, branch=name)
            while not over.is_set() or counted[name] % 10:
                run.append("list", counted.get(name, 0))
                run.commit()
                counted[name] = counted.get(name, 0) + 1

    threads = [threading.Thread(target=work, args=(f"run-{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    while sum(counted.values()) < 200:
        time.sleep(0.01)
    (project / "go").touch()
    _until(project / "seconds", driver)
    pair.fail_over()
    (project / "on").touch()
    assert 0 == driver.wait(60), (project / "said").read_text()
    over.set()
    for thread in threads:
        thread.join()
    assert ["first", "gate", "second", "last"] == (project / "ran").read_text().split()
    with leftoff.open(url) as store:
        assert store.fsck().ok
        for name, count in counted.items():
            assert [*range(count)] == list(store.get(name).variables["list"])
