"""A PostgreSQL server for the tests: started by whoever needs it first, shared by all workers, gone with the last one.

As root it runs as another user, since PostgreSQL refuses root. It listens on a Unix socket in a temporary folder and
nowhere else. Everybody who uses it holds a lock on a file; a process that waits for that lock ends it, however they
went.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

USER = "leftoff"
LOCKED = "locked"  # a user who needs a password
MAKE_LOCKED = f"""DO $$ BEGIN CREATE ROLE {LOCKED} LOGIN PASSWORD 'right';
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"""  # another test may be faster
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",  # what a server does at a power cut is its own affair
    "full_page_writes": "off",
    "max_connections": "500",
    "autovacuum": "off",
}
_BINARIES = "/usr/lib/postgresql"


def binary(name: str) -> str:
    """A program of the server; Debian keeps them off the path."""
    found = shutil.which(name)
    if found is None and os.path.isdir(_BINARIES):
        places = sorted(Path(_BINARIES).glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
        found = str(places[-1]) if places else None
    assert found is not None, f"there is no {name}: tools/ensure-packages initdb=postgresql"
    return found


class Server:
    """A cluster in a folder, for whoever may be root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._user = _somebody()

    def url(self, project: str = "", **more: str) -> str:
        query = "&".join(f"{k}={v}" for k, v in {"host": str(self.folder), **more}.items())
        return f"postgresql://{USER}@/postgres?{query}" + (f"&project={project}" if project else "")

    def make(self, settings: dict[str, str] = SETTINGS) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o755)
        if self._user:
            os.chown(self.folder, *self._user)
        how = ["--no-sync", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C"]
        self.run("initdb", f"--pgdata={self.data}", *how)
        hba = self.data / "pg_hba.conf"
        hba.write_text(f"local all {LOCKED} scram-sha-256\nlocal all all trust\n", encoding="ascii")
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        with open(self.data / "postgresql.auto.conf", "a", encoding="utf-8") as file:
            file.write(f"{lines}\nunix_socket_directories = '{self.folder}'\n")

    def start(self, *options: str) -> None:
        log = str(self.folder / "log")
        more = [f"--options={' '.join(options)}"] if options else []
        self.run("pg_ctl", "start", "--wait", f"--pgdata={self.data}", f"--log={log}", *more)

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "stop", f"--pgdata={self.data}", f"--mode={mode}")

    def run(self, name: str, *words: str) -> str:
        done = subprocess.run(
            [binary(name), *words], cwd=self.folder, capture_output=True, text=True, **self.as_user()
        )
        assert done.returncode == 0, f"{name} failed: {done.stderr}\n{done.stdout}"
        return done.stdout

    def tell(self, *statements: str) -> None:
        """As somebody who may do everything."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def as_user(self) -> dict[str, Any]:
        return {"user": self._user[0], "group": self._user[1], "extra_groups": []} if self._user else {}

    def is_up(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def guard(self, users: Path) -> None:
        """End it once nobody holds the lock."""
        stop = '"$1" stop --pgdata="$2" --mode=immediate; rm -rf "$3"'
        script = f'setsid flock -x "$1" sh -c \'{stop}\' - "$2" "$3" "$4" >/dev/null 2>&1 </dev/null &'
        words = ["sh", "-c", script, "-", str(users), binary("pg_ctl"), str(self.data), str(users.parent)]
        subprocess.run(words, check=True, **self.as_user())


def _somebody() -> tuple[int, int] | None:
    """Whom root lets run it: the server's own user, or nobody."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
        except KeyError:
            continue
    raise AssertionError("there is no user that could run a server")


def shared(run_id: str) -> tuple[Server, int]:
    """The server of this test run, and the descriptor that keeps it."""
    base = Path(tempfile.gettempdir()) / f"leftoff-pg-{os.getuid()}-{run_id}"
    base.mkdir(exist_ok=True)
    os.chmod(base, 0o755)
    user = _somebody()
    if user:
        os.chown(base, *user)  # who guards it removes it
    users = base / "users"
    users.touch()
    os.chmod(users, 0o666)
    with open(base / "starting", "a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        held = os.open(users, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(held, fcntl.LOCK_SH)
        server = Server(base / "server")
        if not server.is_up():
            server.make()
            server.start()
            server.guard(users)
    return server, held
