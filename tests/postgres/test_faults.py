"""What networks and servers do: nothing is lost, nothing doubled, and every error says what to do."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

import leftoff
from leftoff.errors import Corrupt, LeaseHeld, LeftoffError, StaleEpoch, StoreUnavailable, Unsupported, Usage
from leftoff.host import Process
from leftoff.store.base import Tx
from leftoff.store.postgres import Again, PostgresStore
from leftoff.store.server_connection import Pool
from tests.cli.command import call
from tests.contract.scribe import AT, Scribe, stored
from tests.postgres.proxy import Proxy
from tests.postgres.server import LOCKED, MAKE_LOCKED, USER, Server


@pytest.fixture
def store(proxy: Proxy, name: str, tmp_path: Path) -> Iterator[PostgresStore]:
    """A store behind the proxy."""
    made = PostgresStore(proxy.url(name), str(tmp_path))
    yield made
    proxy.go_silent(False)
    assert [] == made.check()["problems"]
    made.close()


def sql(store: PostgresStore, server: Server, *statements: str) -> None:
    """As somebody else, on the server itself."""
    place = store.place
    with psycopg.connect(server.url(), options=f"-c search_path={place.quoted}", autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_answer_to_a_commit_is_lost(store: PostgresStore, proxy: Proxy, when: str) -> None:
    """Whether it happened is found out: it is there once, and the caller hears of no trouble."""
    scribe = Scribe(store)
    for _ in range(3):
        proxy.fail(when)
        scribe.commit({("variable", "n"): scribe.seq}, seal="manual")
    assert [4, 3, 2, 1] == [v.seq for v in store.read(lambda v: v.versions(scribe.run, sealed=False))]
    scribe.verify()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_without_a_version_is_lost(store: PostgresStore, proxy: Proxy, when: str) -> None:
    """The same for what makes no version: an attempt is numbered once."""
    scribe = Scribe(store)
    proxy.fail(when)
    assert 1 == store.write(lambda tx: tx.add_attempt("t1", scribe.run, "a", AT))
    assert 2 == store.write(lambda tx: tx.add_attempt("t2", scribe.run, "a", AT))


def test_a_transaction_that_the_server_forgot(store: PostgresStore) -> None:
    """A server that crashed gives the number of a transaction that it had not written down to another one: such a
    transaction did not happen. Where versions tell, they decide."""
    scribe = Scribe(store)
    tokens = store.read(lambda view: view.rows("SELECT run, seq, token FROM version"))
    for made, happened in (([], False), ([(scribe.run, 1, b"another")], False), (tokens, True)):
        assert happened is store._happened(SimpleNamespace(xid="4000000000", made=made))  # type: ignore[arg-type]


def test_a_store_that_does_not_ask_doubles(store: PostgresStore, proxy: Proxy) -> None:
    """Without the look at what became of it, the same attempt would be made twice: this test can fail."""
    scribe = Scribe(store)
    store._happened = lambda tx: False  # type: ignore[method-assign]
    proxy.fail("after")
    tokens = iter(("t1", "t2"))
    store.write(lambda tx: tx.add_attempt(next(tokens), scribe.run, "a", AT))
    assert 2 == len(store.read(lambda view: view.attempts(scribe.run)))


def test_a_connection_that_went_while_nobody_looked(store: PostgresStore, proxy: Proxy) -> None:
    """The next call makes another one."""
    scribe = Scribe(store)
    proxy.cut()
    scribe.commit({("variable", "n"): 1})
    proxy.cut()
    scribe.verify()


def test_a_server_that_is_restarted(tmp_path: Path) -> None:
    """Whoever is at work goes on once it is back; what was committed is there."""
    folder = Path(
        tempfile.mkdtemp(prefix="leftoff-pg-")
    )  # other users must come by, which pytest's folder is not for
    folder.chmod(0o755)
    server = Server(folder / "server")
    server.make()
    server.start()
    try:
        store = PostgresStore(server.url(), str(tmp_path))
        scribe = Scribe(store)
        for mode in ("fast", "immediate"):
            server.stop(mode)
            again = threading.Thread(target=server.start)
            again.start()
            scribe.commit({("variable", "n"): mode})
            again.join()
        scribe.verify()
        store.close()
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_a_server_that_never_answered(tmp_path: Path) -> None:
    """Is not waited for."""
    store = PostgresStore(f"postgresql://me:geheim@/db?host={tmp_path}", str(tmp_path))
    store.patience = 1e6
    with pytest.raises(StoreUnavailable) as caught:
        store.read(lambda view: view.list_runs({}))
    _says(caught.value, "out of reach", "Check that the server runs")


def test_a_wrong_password(server: Server, name: str, tmp_path: Path) -> None:
    """Is told, and shown nowhere: not in the message, the hint, nor what lies behind it."""
    server.tell(MAKE_LOCKED)
    url = server.url(name).replace(f"{USER}@", f"{LOCKED}:geheim@")
    store = PostgresStore(url, str(tmp_path))
    assert "geheim" not in store.name and f"{LOCKED}@" in store.name
    with pytest.raises(StoreUnavailable) as caught:
        store.exists()
    assert not caught.value.retry
    _says(caught.value, "password authentication failed", ".pgpass")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dbname": "nowhere"}, "does not exist"),
        ({"options": "-c%20default_transaction_read_only=on"}, "is read-only"),
        ({"sslmode": "require", "host": "127.0.0.1"}, "SSL"),
    ],
)
def test_what_a_server_refuses(
    server: Server, proxy: Proxy, name: str, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    """Each by its name, with something to do about it."""
    if "host" in change:
        change = {**change, "port": str(proxy.port)}
    store = PostgresStore(server.url(name, **change), str(tmp_path))
    with pytest.raises(StoreUnavailable) as caught:
        store.write(lambda tx: None)
    store.close()
    _says(caught.value, words, "")


def test_a_run_that_somebody_else_holds(
    store: PostgresStore, name: str, proxy: Proxy, tmp_path: Path
) -> None:
    """Is waited for as long as was said; other runs are not."""
    scribe, neighbour = Scribe(store), Scribe(store, "run-2")
    other = PostgresStore(proxy.url(name), str(tmp_path))
    other.patience = 0.05

    def hold(tx: Tx) -> None:
        tx.head(scribe.run)  # now it is held
        neighbour.store = other
        neighbour.commit({("note", "n"): 1})
        with pytest.raises(StoreUnavailable) as caught:
            other.write(lambda tx: tx.head(scribe.run))
        _says(caught.value, "has been writing to the same run", "LEFTOFF_LOCK_TIMEOUT")

    store.write(hold)
    other.close()


def test_a_deadlock(store: PostgresStore) -> None:
    """Two that hold what the other wants: one begins again, and both are done."""
    one, two = Scribe(store), Scribe(store, "run-2")
    both = threading.Barrier(2)
    calls = {one.run: 0, two.run: 0}

    def work(first: Scribe, second: Scribe) -> Callable[[Tx], None]:
        plan = second.plan({("note", "n"): first.run})

        def fn(tx: Tx) -> None:
            calls[first.run] += 1
            tx.head(first.run)
            if calls[first.run] == 1:
                both.wait(30)
            plan.write(tx, second.run)

        return fn

    threads = [threading.Thread(target=lambda w=w: store.write(w)) for w in (work(one, two), work(two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 3 <= sum(calls.values())
    assert [2, 2] == [(store.read(lambda v, s=s: v.head(s.run)) or (0,))[0] for s in (one, two)]  # type: ignore[misc]


def test_a_run_that_moved_since_it_was_seen(
    store: PostgresStore, proxy: Proxy, name: str, tmp_path: Path
) -> None:
    """Who found a run in a listing and then writes to it works on what is so: the work begins again."""
    scribe = Scribe(store)
    other = Scribe.__new__(Scribe)
    other.__dict__.update(scribe.__dict__)
    seen: list[int] = []

    def work(tx: Tx) -> None:
        (row,) = tx.list_runs({"status": ["running"]})
        if not seen:
            other.store = PostgresStore(proxy.url(name), str(tmp_path))
            other.commit({("note", "n"): 1})
            other.store.close()
        seen.append(row.seq)
        head = tx.head(row.run)
        assert head is not None and head[0] == row.seq

    store.write(work)
    assert [1, 2] == seen


def test_a_twin_that_was_started_since(store: PostgresStore, proxy: Proxy, name: str, tmp_path: Path) -> None:
    """Who starts a run because there is none finds the one that somebody else has just started."""
    store.write(lambda tx: None)
    found: list[list[str]] = []

    def start(tx: Tx) -> None:
        rows = tx.list_runs({"workflow": "work"})
        if not found:
            twin = PostgresStore(proxy.url(name), str(tmp_path))
            Scribe(twin, "twin")
            twin.close()
        found.append([row.run_id for row in rows])
        if not rows:
            tx.add_run("run-1", AT, workflow="work", branch="main", status="running")

    store.write(start)
    assert [[], ["twin"]] == found


def test_all_connections_in_use(store: PostgresStore) -> None:
    """Who waits longer than was said is told so."""
    Scribe(store)
    store.close()
    store.pool = Pool(store.place, 1)
    store.patience = 0.05

    def look(view: object) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            store.read(lambda view: view.list_runs({}))
        _says(caught.value, "All 1 connections", "Fewer threads")

    store.read(look)


def test_a_schema_of_a_later_leftoff(store: PostgresStore, server: Server) -> None:
    """Refused by its number, also if it became so while we had the store open."""
    scribe = Scribe(store)
    facts = "UPDATE meta SET value = {} WHERE name = 'schema'"
    sql(store, server, facts.format("'9'"))
    with pytest.raises(Unsupported, match="has schema 9"):
        scribe.commit({("note", "n"): 1})
    fresh = PostgresStore(store.location, store.folder)
    with pytest.raises(Unsupported, match="has schema 9"):
        fresh.read(lambda view: view.list_runs({}))
    fresh.close()
    sql(store, server, facts.format("'1'"))
    scribe.verify()


def test_who_was_followed_is_fenced_off(store: PostgresStore) -> None:
    """A lease that was silent for too long, by the server's clock, may be followed; the old epoch gets in no more."""
    from leftoff.engine import lease as leases
    from leftoff.engine.commit import Guard, Head, Terms, commit
    from leftoff.model.changes import ChangeSet

    scribe = Scribe(store)
    far, here = Process("elsewhere/1/2", 7, "1"), Process("elsewhere/3/4", 8, "1")
    old = store.write(lambda tx: leases.take(tx, scribe.run, "run-1", (far, "one"), AT))
    for take_over in (False, True):  # a clock that is years ahead makes nobody silent
        with pytest.raises(LeaseHeld):
            store.write(
                lambda tx, t=take_over: leases.take(tx, scribe.run, "run-1", (here, "x"), AT * 2, take_over=t)  # type: ignore[misc]
            )
    store.asked("UPDATE lease SET heard = heard - interval '11 min'")
    store.write(lambda tx: leases.take(tx, scribe.run, "run-1", (here, "two"), AT, take_over=True))
    changes = ChangeSet()
    changes.put("variable", "late", 1)
    head = Head(scribe.run, "run-1", 1, 0)
    with pytest.raises(StaleEpoch):
        commit(store, head, changes, Terms(AT, Guard(epoch=old)))
    with pytest.raises(StaleEpoch):
        leases.renew_lease(store, scribe.run, "run-1", old, AT)
    scribe.verify()


def test_damage_is_found(store: PostgresStore, server: Server) -> None:
    """Bytes that were changed on the server are never read as something else, and fsck names them."""
    scribe = Scribe(store)
    scribe.commit({("note", "n"): "right"})
    sql(store, server, "UPDATE record SET data = data || '\\x20' WHERE collection = 'note'")
    with pytest.raises(Corrupt, match="note/n"):
        store.read(lambda view: view.record(scribe.run, "note", "n"))
    assert {"record"} == {problem["code"] for problem in store.check()["problems"]}
    sql(store, server, "UPDATE record SET data = substr(data, 1, length(data) - 1) WHERE collection = 'note'")


def test_projects_do_not_see_each_other(server: Server, name: str, tmp_path: Path) -> None:
    """A run of one is invisible to another on the same server."""
    one, two = (PostgresStore(server.url(f"{name}{end}"), str(tmp_path)) for end in ("", "-b"))
    Scribe(one)
    assert not two.exists()
    Scribe(two, "run-2")
    assert [["run-1"], ["run-2"]] == [
        [row.run_id for row in store.read(lambda view: view.list_runs({}))] for store in (one, two)
    ]
    two.on_link(lambda link: link.script(f"DROP SCHEMA {two.place.quoted} CASCADE"))
    one.close()
    two.close()


def test_a_bad_name_of_a_project(tmp_path: Path) -> None:
    """Is refused before anything is connected to."""
    with pytest.raises(Usage, match="cannot be a project"):
        PostgresStore('postgresql://me@/db?project=a"b', str(tmp_path))


def test_who_waits_for_nobody(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again all the same where that waits for nobody: a store that is not there yet, a run that others moved."""
    assert 0 == call("start", "w", cwd=tmp_path, LEFTOFF_STORE=url, LEFTOFF_LOCK_TIMEOUT="0").code
    with leftoff.open(url) as store, store.start("work", run_id="r") as run:
        for number in range(3):
            run.variables["n"] = number
            run.commit()
        assert 0 == call("note", "in between", "--run", "r", cwd=tmp_path, LEFTOFF_STORE=url).code
        run._buffer.store.patience = 0.0
        run.variables["n"] = 3
        run.commit()


def test_work_that_always_comes_too_late(store: PostgresStore) -> None:
    """Ends with an error, not never."""
    store.patience = 0.01

    def work(tx: Tx) -> None:
        raise Again

    with pytest.raises(StoreUnavailable, match="too busy"):
        store.write(work)


def _says(error: LeftoffError, message: str, hint: str) -> None:
    """What is wrong and what to do; the password of the URL nowhere."""
    assert message in error.message
    assert hint in error.hint
    assert "store_unavailable" == error.code
    behind: BaseException | None = error
    while behind is not None:
        assert "geheim" not in str(behind)
        behind = behind.__cause__


@pytest.mark.parametrize("how", ["url", "environment"])
def test_a_client_of_another_encoding(
    server: Server, name: str, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said to the server is UTF-8, whatever a terminal's or the URL's client_encoding is."""
    if how == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    url = server.url(name, **({"client_encoding": "LATIN1"} if how == "url" else {}))
    one = PostgresStore(url, str(tmp_path))
    Scribe(one, workflow="rüben").commit({("note", "größe"): "äöü"})
    monkeypatch.delenv("PGCLIENTENCODING", raising=False)
    other = PostgresStore(server.url(name), str(tmp_path))
    assert ["rüben"] == [row.workflow for row in other.read(lambda view: view.list_runs({}))]
    assert [] == other.check()["problems"]
    one.close()
    other.close()


def test_what_the_environment_asks_for(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq's variables hold where the URL says nothing, beside what we ask for."""
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=77s")
    monkeypatch.setenv("PGAPPNAME", "mine")
    store = PostgresStore(server.url(name), str(tmp_path))
    asked = "SELECT current_setting('statement_timeout'), current_setting('application_name'), current_schemas(false)"
    Scribe(store)
    assert [("77s", "mine", [f"leftoff_{name}"])] == store.asked(asked)
    store.close()


def test_what_an_administrator_set(server: Server, name: str, tmp_path: Path) -> None:
    """What is set for a role or a database changes nothing of what is kept."""
    odd = {
        "array_nulls": "off",
        "bytea_output": "escape",
        "default_transaction_deferrable": "on",
        "default_transaction_isolation": "serializable",
        "search_path": "nowhere",
        "standard_conforming_strings": "off",
    }
    options = "".join(f"-c%20{setting}%3D{value}%20" for setting, value in odd.items())
    store = PostgresStore(server.url(name, options=options), str(tmp_path))
    store.patience = 5.0
    scribe = Scribe(store)
    scribe.commit({("variable", f"{i}"): f"\\x{i} 'é'" for i in range(20)})
    assert [] == store.check()["problems"]
    record = store.read(lambda view: view.record(scribe.run, "variable", "7"))
    assert record is not None and stored("\\x7 'é'") == record.stored
    store.close()


def test_ports_are_part_of_a_place(tmp_path: Path) -> None:
    """Two servers in one folder of sockets do not share what lies on this machine."""
    one, two = (PostgresStore(f"postgresql://me@/db?host=/run&port={port}", str(tmp_path)) for port in (1, 2))
    assert one.folder != two.folder
