"""Blobs on a server: streamed in pieces, or files in a folder that all machines share."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leftoff.errors import StoreUnavailable
from leftoff.store.postgres import PostgresStore
from leftoff.store.server_connection import Link, Q
from tests.cli.command import call
from tests.contract.scribe import Scribe
from tests.postgres.proxy import Proxy
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
