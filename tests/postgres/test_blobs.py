"""Blobs on a server: streamed in pieces, or files in a folder that all machines share."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leftoff.errors import Corrupt, Invalid, StoreUnavailable
from leftoff.store.postgres import PostgresStore
from leftoff.store.server_connection import Link, Q
from tests.cli.command import call
from tests.contract.scribe import Scribe
from tests.postgres.conftest import drop
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.seams import SEAMS

if TYPE_CHECKING:
    from leftoff.store.base import Save

LARGE = 48 << 20
COUNT = "SELECT count(*) FROM %s"


def noise(size: int) -> Iterator[bytes]:
    """Bytes that do not pack, the same each time."""
    some = random.Random(1).randbytes(1 << 20)
    for number in range(size >> 20):
        yield number.to_bytes(8, "big") + some[8:]


def test_a_large_blob_is_never_held_whole(url: str, tmp_path: Path) -> None:
    """Saved and read in pieces: what either side holds does not grow with it."""
    store = PostgresStore(url, str(tmp_path))
    Scribe(store)
    tracemalloc.start()
    row = store.save_blob(noise(LARGE))
    read = sum(map(len, store.load_blob(row.hash, row)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert LARGE == read == row.size
    assert peak < LARGE / 2
    store.close()


def test_ctrl_c_while_it_is_saved_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blob may have the new pieces by then, and the former ones are gone: neither is taken away."""
    store = PostgresStore(url, str(tmp_path))
    scribe = Scribe(store)
    row = store.save_blob([b"content"])
    scribe.commit({("artifact", "f"): b"B" + row.hash + b"{}"}, blobs=[row])
    ask = Link.ask

    def interrupted(link: Link, statements: Any) -> Any:
        done = ask(link, statements)
        if ("COMMIT", ()) in statements:
            link.close()
            monkeypatch.undo()
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(SEAMS["Link.ask"], interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save_blob([b"content"])
    store.blobs.grace = 0.0
    store.sweep()
    assert b"content" == b"".join(store.load_blob(row.hash))
    store.close()


def test_pieces_whose_answer_is_lost(proxy: Proxy, name: str, tmp_path: Path) -> None:
    """They are there, and may be sent once more."""
    store = PostgresStore(proxy.url(name), str(tmp_path))
    Scribe(store)
    proxy.fail("after", Q.add_pieces)
    row = store.save_blob(noise(3 << 20))
    assert b"".join(noise(3 << 20)) == b"".join(store.load_blob(row.hash, row))
    store.close()


@pytest.mark.parametrize("large", [False, True])
def test_what_was_swept_while_it_was_saved(url: str, tmp_path: Path, large: bool) -> None:
    """Somebody was so slow that others took it for a leftover: no blob is said to be there then."""
    store, other = PostgresStore(url, str(tmp_path)), PostgresStore(url, str(tmp_path))
    Scribe(store)
    other.blobs.grace = 0.0

    def work(save: Save) -> None:
        save(slowly())
        other.sweep()

    def slowly() -> Iterator[bytes]:
        for piece in noise(6 << 20) if large else [b"content"]:
            yield piece
            other.sweep()

    with pytest.raises(StoreUnavailable, match="taken for a leftover"):
        store.save_together(work)
    assert [[(0,)], [(0,)]] == [store.asked(COUNT % "blob"), store.asked(COUNT % "piece")]
    store.close()
    other.close()


def shared(url: str, tmp_path: Path, folder: str | None) -> PostgresStore:
    return PostgresStore(url, str(tmp_path / "local"), blobs=folder)


def test_who_does_not_name_the_folder_is_told_which(url: str, tmp_path: Path) -> None:
    """A machine without it reads everything but blobs."""
    folder = str(tmp_path / "mnt")
    here, there = shared(url, tmp_path, folder), shared(url, tmp_path, None)
    scribe = Scribe(here)
    row = here.save_blob([b"content"])
    scribe.commit({("artifact", "f"): b"B" + row.hash + b"{}"}, blobs=[row])
    assert b"content" == b"".join(here.load_blob(row.hash))
    with pytest.raises(StoreUnavailable) as caught:
        b"".join(there.load_blob(row.hash))
    assert folder in caught.value.message and f'blobs = "{folder}"' in caught.value.hint
    assert folder == here.about()["blobs"]
    here.close()
    there.close()


def test_what_is_in_pieces_is_found_beside_a_folder(url: str, tmp_path: Path) -> None:
    """The setting may come later; saved again, it is a file, and its pieces are gone."""
    before, after = shared(url, tmp_path, None), shared(url, tmp_path, str(tmp_path / "mnt"))
    scribe = Scribe(before)
    row = before.save_blob([b"content"])
    scribe.commit({("artifact", "f"): b"B" + row.hash + b"{}"}, blobs=[row])
    assert b"content" == b"".join(after.load_blob(row.hash))
    after.save_blob([b"content"])
    assert b"content" == b"".join(after.load_blob(row.hash))
    assert [] == after.check()["problems"]
    files = after.blobs.files
    assert files is not None
    Path(files.path(row.hash)).unlink()
    with pytest.raises(Corrupt):
        b"".join(after.load_blob(row.hash))
    assert ["blob"] == [problem["code"] for problem in after.check()["problems"]]
    assert ["blob"] == [problem["code"] for problem in after.check(repair=True)["problems"]]
    after.save_blob([b"content"])
    assert [] == after.check()["problems"]
    before.close()
    after.close()


def test_the_setting(project: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`blobs` in leftoff.toml, once it is trusted: it leads outside of the project."""
    folder = tmp_path_factory.mktemp("outside") / "mnt"
    (project / "leftoff.toml").write_text(f'blobs = "{folder}"\n')
    (project / "file.bin").write_bytes(b"content")
    assert 0 == call("start", "work", cwd=project, LEFTOFF_STORE=url).code
    assert 0 == call("artifact", "file.bin", cwd=project, LEFTOFF_STORE=url).code
    assert not folder.exists()
    assert 0 == call("trust", "--yes", cwd=project, LEFTOFF_STORE=url).code
    assert 0 == call("artifact", "file.bin", "--name", "again", cwd=project, LEFTOFF_STORE=url).code
    assert [b"content"] == [path.read_bytes() for path in folder.glob("blobs/*/*")]
    assert 0 == call("fsck", cwd=project, LEFTOFF_STORE=url).code


@pytest.mark.parametrize("verb", ["restore r-1@2 file.bin", "rollback r-1@2 --files"])
def test_content_that_is_not_here(
    project: Path, url: str, tmp_path_factory: pytest.TempPathFactory, verb: str
) -> None:
    """A machine without the folder puts no file back; so nothing is half done there, and nothing asked about it."""
    settings = project / "leftoff.toml"
    settings.write_text(f'blobs = "{tmp_path_factory.mktemp("outside") / "mnt"}"\n')
    (project / "file.bin").write_bytes(b"content")
    for line in ("trust --yes", "start work --run-id r-1", "track file.bin", "save"):
        assert 0 == call(*line.split(), cwd=project, LEFTOFF_STORE=url).code
    settings.unlink()
    (project / "file.bin").write_bytes(b"later")
    assert 8 == call(*verb.split(), "--yes", cwd=project, LEFTOFF_STORE=url).code
    assert b"later" == (project / "file.bin").read_bytes()
    done = call("verify", "r-1", "--json", cwd=project, LEFTOFF_STORE=url)
    assert "files.half_restored" not in [found["code"] for found in done.json["findings"]]


@pytest.mark.parametrize("verb", ["restore r-1@2 file.bin", "rollback r-1@2 --files"])
def test_a_server_that_takes_no_writes(project: Path, url: str, verb: str) -> None:
    """What is there now could not be saved first, so no file is touched; that is no restoring that was cut short."""
    (project / "file.bin").write_bytes(b"content")
    for line in ("start work --run-id r-1", "track file.bin", "save"):
        assert 0 == call(*line.split(), cwd=project, LEFTOFF_STORE=url).code
    (project / "file.bin").write_bytes(b"later")
    standby = f"{url}&options=-c%20default_transaction_read_only=on"
    assert 8 == call(*verb.split(), "--yes", cwd=project, LEFTOFF_STORE=standby).code
    assert b"later" == (project / "file.bin").read_bytes()
    done = call("verify", "r-1", "--json", cwd=project, LEFTOFF_STORE=url)
    assert "files.half_restored" not in [found["code"] for found in done.json["findings"]]


def test_a_folder_is_of_one_store(server: Server, name: str, tmp_path: Path) -> None:
    """What one store removes in there might be another's: the second one is refused, and writes nothing there."""
    folder = str(tmp_path / "mnt")
    one, two = shared(server.url(name), tmp_path, folder), shared(server.url(f"{name}-b"), tmp_path, folder)
    Scribe(one)
    Scribe(two)
    try:
        one.save_blob([b"content"])
        with pytest.raises(Invalid, match="has the blobs of another store"):
            two.save_blob([b"content"])
        again = shared(server.url(name), tmp_path, folder)  # as another process of the first
        again.save_blob([b"more"])
        again.close()
    finally:
        one.close()
        two.close()
        drop(server, f"{name}-b")
