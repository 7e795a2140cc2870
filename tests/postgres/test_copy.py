"""Everything of one store in another, both ways; cut short and gone on with; never while somebody drives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import Conflict, Invalid, NotFound, StoreUnavailable
from leftoff.host import this_process
from leftoff.store import store_copy as transfer
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.blobs import CHUNK
from leftoff.store.postgres import PostgresStore, PostgresView
from leftoff.store.rows import BlobRow, Holder
from leftoff.store.sqlite import SqliteStore
from leftoff.store.store_copy import OWN_FACTS, TABLES, copy_store, table_rows
from tests.cli.command import call, succeed
from tests.contract.rules.blobs import refer
from tests.contract.scribe import AT, Scribe

LONG = "k" * 4000 + "/"  # longer than an index of PostgreSQL can hold


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[SqlStore]:
    """A store with everything in it that a store can have."""
    store = SqliteStore(str(tmp_path / "source" / ".leftoff"))
    fill(store)
    yield store
    store.close()


@pytest.fixture
def remote(url: str, tmp_path: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(url, str(tmp_path / "local"))
    yield store
    store.close()


def test_logs_go_with_it(embedded: SqlStore, remote: PostgresStore, url: str, tmp_path: Path) -> None:
    """From files beside a store into rows, from rows to rows, and back into files."""
    path = Path(embedded.folder) / "attempts" / "x" / "log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"line\n" * 300_000)
    copy_store(embedded, remote)
    second = PostgresStore(f"{url}-2", str(tmp_path / "second"))
    copy_store(remote, second)
    back = SqliteStore(str(tmp_path / "back" / ".leftoff"))
    copy_store(second, back)
    assert path.read_bytes() == (Path(back.folder) / "attempts" / "x" / "log").read_bytes()
    second.on_link(lambda link: link.script(f"DROP SCHEMA {second.place.quoted} CASCADE"))
    second.close()
    back.close()


def test_logs_of_python_code_go_with_it(url: str, tmp_path: Path) -> None:
    """No row tells of them: they are files beside a store, on the machine that copies."""
    (tmp_path / "p").mkdir()
    with leftoff.open(tmp_path / "p" / ".leftoff") as store, store.start("w", run_id="r") as run:
        run.do("a/b", lambda: leftoff.logger.info("hello"))
    succeed("store", "copy", str(tmp_path / "p" / ".leftoff"), url, cwd=tmp_path)
    assert "hello" in succeed("logs", "r", cwd=tmp_path, LEFTOFF_STORE=url).out
    back = tmp_path / "back" / ".leftoff"
    succeed("store", "copy", url, str(back), cwd=tmp_path)
    assert "hello" in succeed("logs", "r", cwd=tmp_path, LEFTOFF_STORE=str(back)).out


def test_a_server_does_not_end_a_snapshot_while_a_large_file_is_copied(
    remote: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends a transaction that nobody goes on with for a minute: what is copied from is asked something meanwhile."""
    chunks = [bytes([number]) * CHUNK for number in range(3)]
    row = remote.save_blob(chunks)
    Scribe(remote).commit({("artifact", "f"): b"B" + row.hash + b"{}"}, blobs=[row])
    asked, newest = list[str](), PostgresView.newest

    def spied(view: PostgresView) -> int:
        asked.append("asked")
        return newest(view)

    def load(hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        for chunk in chunks:
            asked.append("chunk")
            yield chunk

    monkeypatch.setattr(transfer, "ASKED_S", 0.0)
    monkeypatch.setattr(PostgresView, "newest", spied)
    monkeypatch.setattr(remote, "load_blob", load)
    target = SqliteStore(str(tmp_path / "target" / ".leftoff"))
    copy_store(remote, target)
    assert ["chunk", "asked"] * 3 == asked
    target.close()


def fill(store: SqlStore) -> None:
    for name in ("run-1", "run-2"):
        scribe = Scribe(store, name)
        refer(scribe, "f", b"blob of " + name.encode() * 40_000)
        for number in range(6):
            changes = {("note", f"{LONG}{i}"): [number, i] for i in range(3)}
            changes[("extra", "large")] = [number] * 2000
            steps = {"a": ("running", "00000001", 0), f"a/{number}": ("pending", f"00000001/{number:08d}", 1)}
            scribe.commit(
                changes, steps=steps, seal="manual" if number % 2 else None, aliases=(f"cp-{number}",)
            )
        store.write(lambda tx, s=scribe: tx.add_attempt(f"t-{s.run}", s.run, LONG, AT, log="attempts/x"))  # type: ignore[misc]
    removed = Scribe(store, "run-3")
    store.remove(removed.run)
    store.prune(scribe.run, [4])
    store.write(lambda tx: tx.put_fact("ours 1", "mine"))
    store.write(lambda tx: tx.put_lease(scribe.run, 7))
    trashed = Scribe(store, "run-4")
    store.write(lambda tx: tx.trash(trashed.run, AT))


def everything(store: SqlStore) -> dict[str, object]:
    def look(view: View) -> dict[str, object]:
        return {name: sorted(table_rows(view, name, None, 10_000), key=repr) for name in TABLES}

    return store.read(look)


def test_there_and_back(embedded: SqlStore, remote: PostgresStore, tmp_path: Path) -> None:
    """Every row and every blob, with the same ids, numbers and history; and work goes on from there."""
    done = copy_store(embedded, remote)
    assert everything(embedded) == everything(remote)
    assert 3 == done["copied"]["run"]
    again = SqliteStore(str(tmp_path / "again"))
    copy_store(remote, again)
    assert everything(embedded) == everything(again)
    for store in (remote, again):
        (row, *_) = store.read(lambda view: view.list_runs({"workflow": "work"}))
        blob = store.read(lambda view: table_rows(view, "blob", None, 1))[0][0]
        assert b"".join(embedded.load_blob(blob)) == b"".join(store.load_blob(blob))
        new = Scribe(store, "new")
        assert new.run > 4
        newest = store.read(lambda view, r=new.run: view.run_row(r))  # type: ignore[misc]
        assert newest is not None and newest.n > row.n
        assert [] == store.check()["problems"]
    again.close()


def test_cut_short_at_any_write(embedded: SqlStore, remote: PostgresStore) -> None:
    """Nobody sees a run of it before it is complete; done again, it begins again."""
    write, left = remote.write, 0

    def failing(fn: object, *, durable: bool = True) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise Conflict("cut")
        return write(fn, durable=durable)  # type: ignore[arg-type]

    remote.write = failing  # type: ignore[method-assign,assignment]
    for allowed in range(1, 100):
        left = allowed
        try:
            copy_store(embedded, remote)
            break
        except Conflict:
            runs = remote.read(lambda view: table_rows(view, "run", None, 10_000)) if remote.exists() else []
            assert [] == runs
    remote.write = write  # type: ignore[method-assign]
    assert everything(embedded) == everything(remote)


def test_how_far_it_is(embedded: SqlStore, remote: PostgresStore) -> None:
    """It is told of how many rows how many are there."""
    told: list[tuple[int, int]] = []
    copy_store(embedded, remote, lambda table, rows, total: told.append((rows, total)))
    rows = [each for each, _ in told]
    assert sorted(rows) == rows
    (total,) = {each for _, each in told}
    assert 0 <= total - rows[-1] <= len(OWN_FACTS) + 1  # what a store says of itself is not copied


def test_a_source_that_moved_since(embedded: SqlStore, remote: PostgresStore) -> None:
    """What was copied of it before is thrown away."""

    def cut(table: str, rows: int, total: int) -> None:
        if table == "version":
            raise Conflict("cut")

    with pytest.raises(Conflict):
        copy_store(embedded, remote, cut)
    Scribe(embedded, "later")
    copy_store(embedded, remote)
    assert everything(embedded) == everything(remote)


def test_a_report_while_rows_are_copied(
    embedded: SqlStore, remote: PostgresStore, url: str, tmp_path: Path
) -> None:
    """It waits, as long as it may: the server acknowledges nothing that the copy does not have."""
    copy_store(embedded, remote)
    other = PostgresStore(url, str(tmp_path / "other"))
    other.patience = 0.1

    def report(table: str, rows: int, total: int) -> None:
        if table == "version":
            with pytest.raises(StoreUnavailable, match="too long"):
                Scribe(other, "late")

    back = SqliteStore(str(tmp_path / "back" / ".leftoff"))
    copy_store(remote, back, report)
    assert everything(remote) == everything(back)
    other.close()
    back.close()


def test_a_target_with_runs(embedded: SqlStore, remote: PostgresStore) -> None:
    """Is not written into."""
    Scribe(remote, "mine")
    with pytest.raises(Invalid, match="has runs already"):
        copy_store(embedded, remote)
    assert ["mine"] == [row.run_id for row in remote.read(lambda view: view.list_runs({}))]


def test_nothing_to_copy(remote: PostgresStore, tmp_path: Path) -> None:
    """Makes nothing."""
    with pytest.raises(NotFound):
        copy_store(SqliteStore(str(tmp_path / "none")), remote)
    assert not remote.exists()


def test_not_while_somebody_drives(embedded: SqlStore, remote: PostgresStore) -> None:
    """What they commit would be in the old store only."""
    row = embedded.read(lambda view: view.find_run("run-1"))
    assert row is not None

    def take(tx: Tx) -> None:
        tx.put_lease(row.run, 9, Holder("process", this_process(), None, "me", AT))

    embedded.write(take)
    with pytest.raises(Conflict, match="run-1 is driven by me"):
        copy_store(embedded, remote)
    assert not remote.exists()


def test_by_the_command(project: Path, url: str) -> None:
    """Copied, and found there under the same name; `info` shows no password."""
    for words in (("start", "site", "--steps", "a,b"), ("step", "done", "a"), ("set", "x=1")):
        assert 0 == call(*words, cwd=project).code
    before = call("show", "--json", cwd=project).json
    done = call("store", "copy", ".leftoff", url, "--json", cwd=project)
    assert (0, 1) == (done.code, done.json["copied"]["run"]), done
    after = call("show", "--json", cwd=project, LEFTOFF_STORE=url).json
    assert before == after
    info = call("store", "info", "--json", cwd=project, LEFTOFF_STORE=url.replace("@", ":geheim@", 1))
    assert (0, "postgresql", 1, True) == (info.code, *(info.json[k] for k in ("kind", "schema", "exists")))
    assert "geheim" not in info.out + info.err
    assert 0 == call("store", "migrate", cwd=project, LEFTOFF_STORE=url).code
    again = call("store", "copy", ".leftoff", url, cwd=project)
    assert (4, True) == (again.code, "has runs already" in again.err)


def test_a_bundle_from_one_kind_of_store_to_the_other(project: Path, url: str) -> None:
    """A run that is imported into a server and exported again gives the same bytes; so does a backup of the server."""
    (project / "page.txt").write_text("hello " * 1000)
    (project / "value").write_text("x" * 5000)
    succeed("start", "site", "--run-id", "r", "--steps", "a,b", cwd=project)
    for words in (("track", "page.txt"), ("set", "x=@value"), ("step", "done", "a"), ("set", "x=1")):
        succeed(*words, cwd=project)
    succeed("export", "r", "-o", "one.leftoff", cwd=project)
    (project / "flow.yaml").write_text("name: flow\nsteps: [{id: a, run: echo printed}]\n")
    succeed("run", "flow.yaml", "--run-id", "f", cwd=project)
    succeed("export", "f", "-o", "flow.leftoff", cwd=project)
    succeed("import", "one.leftoff", "flow.leftoff", cwd=project, LEFTOFF_STORE=url)
    assert "printed\n" == succeed("logs", "f", cwd=project, LEFTOFF_STORE=url).out
    succeed("export", "r", "-o", "two.leftoff", cwd=project, LEFTOFF_STORE=url)
    assert 1 == succeed("store", "backup", "copy", "--json", cwd=project, LEFTOFF_STORE=url).json["runs"] - 1
    succeed("--store", "copy", "export", "r", "-o", "three.leftoff", cwd=project)
    (one, two, three) = ((project / f"{name}.leftoff").read_bytes() for name in ("one", "two", "three"))
    assert one == two == three
    before, after = (
        succeed("cat", "r:page.txt", cwd=project, **where).out for where in ({}, {"LEFTOFF_STORE": url})
    )
    assert before == after == "hello " * 1000
    succeed("step", "done", "b", "--run", "r", cwd=project, LEFTOFF_STORE=url)
    assert 0 == call("fsck", cwd=project, LEFTOFF_STORE=url).code
