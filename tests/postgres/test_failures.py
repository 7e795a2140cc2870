"""What a server says no with: each is an error of its own, with something to do, and nothing is half done."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from leftoff.errors import LeftoffError, StoreUnavailable, Unsupported
from leftoff.store.postgres import PostgresStore
from tests.cli.command import call
from tests.contract.scribe import Scribe
from tests.postgres.proxy import Proxy
from tests.postgres.server import USER, Server
from tests.workflow.driving import until


@pytest.fixture
def store(proxy: Proxy, name: str, tmp_path: Path) -> Iterator[PostgresStore]:
    """A store behind the proxy, whose fsck is clean in the end."""
    made = PostgresStore(proxy.url(name), str(tmp_path))
    yield made
    assert [] == made.check()["problems"]
    made.close()


Sql = Callable[..., None]


@pytest.fixture
def sql(store: PostgresStore, server: Server) -> Sql:
    """Statements of somebody else, in the schema of the store."""

    def run(*statements: str) -> None:
        options = f"-c search_path={store.place.quoted}"
        with psycopg.connect(server.url(), options=options, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    return run


def failing(code: str, when: str = "true") -> list[str]:
    """Statements: from now on, each version that is written fails with this code."""
    body = (
        f"BEGIN IF {when} THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END IF; RETURN NEW; END"
    )
    return [
        f"CREATE OR REPLACE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
        "CREATE OR REPLACE TRIGGER fails BEFORE INSERT ON version FOR EACH ROW EXECUTE FUNCTION fails()",
    ]


@pytest.mark.parametrize(
    ("code", "words", "hint", "again"),
    [
        ("53100", "The disk of", "Free some space on the server", True),
        ("53200", "is out of memory", "Nothing was changed", True),
        ("25006", "is read-only", "target_session_attrs=read-write", True),
        ("57014", "ended a query that took too long", "statement_timeout", True),
        ("42501", "may not do that", "docs/how-to/postgres.md", False),
    ],
)
def test_what_a_server_cannot_do(
    store: PostgresStore, sql: Sql, code: str, words: str, hint: str, again: bool
) -> None:
    """Is told by its name, changes nothing, and is over when it is over."""
    scribe = Scribe(store)
    sql(*failing(code))
    plan = scribe.plan({("variable", "n"): 1})
    with pytest.raises(StoreUnavailable) as caught:
        scribe.make(plan)
    assert words in caught.value.message and hint in caught.value.hint
    assert again == caught.value.retry
    sql("DROP TRIGGER fails ON version")
    scribe.make(plan)
    scribe.verify()


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_passes_by_itself_is_tried_again(store: PostgresStore, sql: Sql, code: str) -> None:
    """A few times, and the caller hears nothing of it; in vain, it says so before its patience is much over."""
    scribe = Scribe(store)
    sql("CREATE SEQUENCE tries", *failing(code, "nextval('tries') < 4"))
    scribe.commit({("variable", "n"): 1})
    scribe.verify()
    sql(*failing(code))
    store.patience = 0.2
    with pytest.raises(StoreUnavailable, match="too busy"):
        scribe.make(scribe.plan({("variable", "n"): 2}))
    sql("DROP TRIGGER fails ON version")
    scribe.verify()


def test_a_connection_that_goes_during_commit(store: PostgresStore, proxy: Proxy, sql: Sql) -> None:
    """The server goes on with it all the same: that is waited for, and the commit is there once."""
    scribe = Scribe(store)
    body = "BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END"
    sql(
        f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON version DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    asked = len(proxy.statements)
    work = threading.Thread(target=scribe.commit, args=({("variable", "n"): 1},))
    work.start()
    until(lambda: "COMMIT" in proxy.statements[asked:], "COMMIT to be sent")
    proxy.cut()
    work.join()
    sql("DROP TRIGGER slow ON version")
    scribe.verify()
    assert 2 == scribe.seq


@pytest.fixture
def few(server: Server) -> Iterator[str]:
    """A role that gets one connection, and may make a store of its own."""
    role = f"few{os.getpid()}"
    made = f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1"
    server.tell(made, f"GRANT CREATE ON DATABASE postgres TO {role}")
    yield role
    server.tell(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_a_role_whose_connections_are_used_up(server: Server, name: str, few: str, tmp_path: Path) -> None:
    """The server says so; it is no password, and no network."""
    store = PostgresStore(server.url(name).replace(f"{USER}@", f"{few}@"), str(tmp_path))
    taken = psycopg.connect(server.url().replace(f"{USER}@", f"{few}@"))
    with taken, pytest.raises(StoreUnavailable) as caught:
        store.exists()
    assert "takes no more connections" in caught.value.message


def test_connections_that_are_used_up_for_a_while(
    server: Server, name: str, few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was there before waits until there is one again."""
    store = PostgresStore(server.url(name).replace(f"{USER}@", f"{few}@"), str(tmp_path))
    scribe = Scribe(store)
    store.close()
    other = until(lambda: _connected(server, few), "its connection is not given back")
    sleep = time.sleep

    def waits(seconds: float) -> None:
        other.close()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", waits)
    scribe.commit({("variable", "n"): 1})
    scribe.verify()
    store.close()


def _connected(server: Server, role: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(server.url().replace(f"{USER}@", f"{role}@"))
    except psycopg.OperationalError:
        return None


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ALTER ROLE {role} NOLOGIN", "out of reach"),
        ("REVOKE CONNECT ON DATABASE {base} FROM PUBLIC", "permission denied"),
    ],
)
def test_somebody_who_may_not_connect(
    server: Server, few: str, tmp_path: Path, statement: str, words: str
) -> None:
    """Is told so: the server is there, and trying again helps nobody."""
    base = f"base{os.getpid()}"
    server.tell(f"CREATE DATABASE {base}", statement.format(role=few, base=base))
    url = server.url().replace(f"{USER}@/postgres", f"{few}@/{base}")
    try:
        with pytest.raises(StoreUnavailable, match=words) as caught:
            PostgresStore(url, str(tmp_path)).exists()
        assert not caught.value.retry
    finally:
        server.tell(f"DROP DATABASE {base}")


def test_a_server_that_is_too_old(proxy: Proxy, name: str, project: Path) -> None:
    """Before 13 much is missing: it is refused before anything is written, with both numbers."""
    proxy.server_version = "12.19"
    store = PostgresStore(proxy.url(name), str(project))
    with pytest.raises(Unsupported, match="is PostgreSQL 12; leftoff needs 13 or later"):
        store.write(lambda tx: None)
    assert 4 == call("start", "work", cwd=project, LEFTOFF_STORE=proxy.url(name)).code


def test_a_database_of_another_encoding(server: Server, name: str, tmp_path: Path) -> None:
    """Text of ours would not fit into it."""
    base = f"latin{os.getpid()}"
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {base} ENCODING 'LATIN1' TEMPLATE template0".encode())
    try:
        store = PostgresStore(server.url(name).replace("/postgres?", f"/{base}?"), str(tmp_path))
        with pytest.raises(Unsupported, match="is encoded as LATIN1; leftoff needs UTF8"):
            store.write(lambda tx: None)
    finally:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {base}".encode())


# -- TLS, with certificates of our own


class Secured:
    """A server of its own that takes no connection without TLS, and what its clients need to know."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder / "server")
        self.server.make()
        for name in ("ours", "theirs"):
            self._authority(name)
        self._certify()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        data = self.server.data
        (data / "pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
        with open(data / "postgresql.auto.conf", "a") as file:
            file.write(f"listen_addresses = '127.0.0.1'\nport = {self.port}\nssl = on\n")
            for what, name in (("cert", "server.crt"), ("key", "server.key")):
                file.write(f"ssl_{what}_file = '{folder}/{name}'\n")
        self.server.start()

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def _authority(self, name: str) -> None:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        more = ["-subj", f"/CN={name}", "-days", "2"]
        self._openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.crt", *more)

    def _certify(self) -> None:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        self._openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
        more = ["-CA", "ours.crt", "-CAkey", "ours.key", "-CAcreateserial", "-days", "2"]
        self._openssl("x509", "-req", "-in", "server.csr", "-out", "server.crt", *more)
        os.chmod(self.folder / "server.key", 0o600)
        if user := self.server.as_user():
            os.chown(self.folder / "server.key", user["user"], user["group"])

    def url(self, host: str = "localhost", root: str = "ours", mode: str = "verify-full") -> str:
        tls = f"sslmode={mode}&sslrootcert={self.folder}/{root}.crt&gssencmode=disable"
        return f"postgresql://{USER}@{host}:{self.port}/postgres?hostaddr=127.0.0.1&{tls}"


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """One for the tests of this module."""
    folder = Path(tempfile.mkdtemp(prefix="leftoff-pg-"))  # other users must come by
    folder.chmod(0o755)
    made = Secured(folder)
    yield made
    made.server.stop()
    shutil.rmtree(folder)


def test_tls_that_fits(secured: Secured, project: Path) -> None:
    """The authority and the name of the host are checked, and the command works."""
    url = secured.url()
    assert 0 == call("start", "work", "--run-id", "r", cwd=project, LEFTOFF_STORE=url).code
    assert "r" in call("ls", cwd=project, LEFTOFF_STORE=url).out
    store = PostgresStore(url, str(project))
    assert store.on_link(lambda link: link.conn.pgconn.ssl_in_use)
    store.close()


@pytest.mark.parametrize(
    ("host", "root", "mode", "words"),
    [
        ("localhost", "theirs", "verify-full", "out of reach"),
        ("elsewhere", "ours", "verify-full", "out of reach"),
        ("localhost", "nobody", "verify-full", "out of reach"),
        ("localhost", "ours", "disable", "out of reach"),
    ],
)
def test_tls_that_does_not(
    secured: Secured, project: Path, host: str, root: str, mode: str, words: str
) -> None:
    """Another authority, another host, no certificate, no TLS: refused, and it says what must fit."""
    done = call("ls", cwd=project, LEFTOFF_STORE=secured.url(host, root, mode))
    assert 8 == done.code
    assert words in done.err and "Traceback" not in done.err
    with pytest.raises(LeftoffError) as caught:
        PostgresStore(secured.url(host, root, mode), str(project)).exists()
    assert not caught.value.retry


# -- a disk that is full


@pytest.mark.crash_full
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Really full: commits fail by name, what was committed stays, and all goes on once there is space. Needs root."""
    folder = Path(tempfile.mkdtemp(prefix="leftoff-pg-"))
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=90m,mode=755", "tmpfs", str(folder)], check=True)
    server = Server(folder / "server")
    try:
        server.make()
        with open(server.data / "postgresql.auto.conf", "a") as file:
            file.write("max_wal_size = 32MB\nmin_wal_size = 32MB\nshared_buffers = 8MB\n")
        server.start()
        store = PostgresStore(server.url(), str(tmp_path))
        store.patience = 2.0
        scribe = Scribe(store)
        with pytest.raises(StoreUnavailable) as caught:
            for number in range(400):
                scribe.commit({("variable", f"n{number}"): os.urandom(400_000).hex()})
        assert "full" in caught.value.message or "restarted" in caught.value.message
        subprocess.run(["mount", "-o", "remount,size=400m", str(folder)], check=True)
        store.patience = 60.0
        scribe.commit({("variable", "after"): 1})
        scribe.verify()
        assert [] == store.check()["problems"]
        store.close()
    finally:
        server.stop()
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()
