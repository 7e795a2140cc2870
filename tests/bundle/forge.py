"""Runs worth exporting, and bundles that nobody should trust."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

import leftoff
from leftoff.engine.retention.bundle_check import Bundle, open_bundle
from leftoff.engine.retention.export import export
from leftoff.host import this_process
from leftoff.model.codec import sha256
from leftoff.model.digest import MASK, checkpoint_id, term, to_bytes
from leftoff.model.versions import NO_COUNTS, Version
from leftoff.store.bundle.read import Sum
from leftoff.store.bundle.write import BundleWriter
from leftoff.store.sqlite.store import SqliteStore

DRIVER = (this_process(), "test")


def make_run(folder: Path) -> str:
    """A run with something of everything: steps in two levels, large values, secrets, files, notes, deletions."""
    with leftoff.open(folder / ".leftoff") as store:
        with store.run("convert", title="Nature trail", steps=["a", "b", "c/x", "c/y"]) as run:
            for number, name in enumerate(["a", "b", "c/x", "c/y"]):
                with run.step(name):
                    run.variables["list"] = [{"n": i} for i in range(500 * (4 - number))]
                    run.variables["dict"] = {f"key {i}": "x" * i for i in range(100 + number)}
                    run.variables["huge"] = "y" * (2_000_000 + number)
                    run.variables["password"] = "hunter2" * 5
                    page = folder / f"page-{number}.txt"
                    page.write_text("word " * 100_000 + name)
                    run.artifact(page)
                    run.note(f"step {name}")
            del run.variables["dict"]
            run.checkpoint("manual", "a note, with ümlauts")
            run.put("knowledge", "K/1", {"text": "unsealed"})
            run.commit()
        return run.id


def write_bundle(folder: Path, run_id: str, path: Path) -> None:
    """What `leftoff export` writes."""
    store = SqliteStore(str(folder / ".leftoff"))
    try:
        row = store.read(lambda view: view.find_run(run_id))
        assert row is not None
        export(store, row, str(path))
    finally:
        store.close()


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """A checked bundle."""
    bundle = open_bundle(str(path))
    try:
        yield bundle
    finally:
        bundle.close()


@contextmanager
def tampering(path: Path) -> Iterator[apsw.Connection]:
    """The file of a bundle, open for whatever one may do to it."""
    db = apsw.Connection(str(path))
    try:
        yield db
    finally:
        db.close()


def sum_up(db: apsw.Connection) -> None:
    """Make the sum right again, as a liar would who knows the format."""
    total = Sum()
    for row in db.execute("SELECT * FROM version ORDER BY seq").fetchall():
        names = db.execute("SELECT name FROM alias WHERE seq = ? ORDER BY name", (row[0],)).fetchall()
        total.add(*row, *(name for (name,) in names))  # type: ignore[arg-type]
    records = """SELECT collection, key, seq, until, (SELECT hash FROM value v WHERE v.value = r.value) FROM record r
                 ORDER BY seq, collection, key"""
    for row in db.execute(records).fetchall():
        total.add(*row)  # type: ignore[arg-type]
    if db.pragma("user_version") > 1:
        for (hash,) in db.execute("SELECT hash FROM lost ORDER BY hash").fetchall():
            total.add("lost", hash)  # type: ignore[arg-type]
    facts: Any = dict(db.execute("SELECT name, value FROM bundle").fetchall())  # type: ignore[arg-type]
    db.execute("UPDATE bundle SET value = ? WHERE name = 'sum'", (total.facts(facts),))


def forge(path: Path, records: list[tuple[str, str, bytes]], run_id: str = "forged", **facts: str) -> None:
    """A bundle of one version whose every hash is right, whatever its records say."""
    with BundleWriter(str(path)) as out:
        hashed = [(*record, sha256(record[2]).digest()) for record in sorted(records)]
        digest = to_bytes(sum(term(collection, key, hash) for collection, key, _, hash in hashed) & MASK)
        sealed = checkpoint_id(run_id, 1, digest)
        out.version(Version(run_id, 1, digest, 0, counts=NO_COUNTS, checkpoint=sealed, trigger="manual"))
        for collection, key, stored, hash in hashed:
            out.record(collection, key, 1, None, hash, stored)
        known: dict[str, Any] = {"run_id": run_id, "created_at": 0, "seq": 1, "digest": digest.hex()}
        known = {**known, "written_by": "forge", **out.counts, **facts}
        out.facts({name: str(value) for name, value in known.items()})
        out.finish()


def random_run(folder: Path, seed: int) -> str:
    """A run whose history was chosen by dice: puts, deletions, steps, rollbacks, prunes, an alias."""
    dice = random.Random(seed)
    with leftoff.open(folder / ".leftoff") as store:
        run = store.start("dice")
        for turn in range(40):
            _turn(run, dice, turn)
            if dice.random() < 0.3:
                run.checkpoint("manual", f"turn {turn}")
            else:
                run.commit()
            if dice.random() < 0.1 and len(run.history()) > 2:
                run.rollback("~1")
            if dice.random() < 0.1:
                store.prune(run.id, [v.id for v in run.history()[2:] if v.id and dice.random() < 0.5])
        run.pause()
        return run.id


def _turn(run: leftoff.Run, dice: random.Random, turn: int) -> None:
    for _ in range(dice.randrange(1, 5)):
        name = f"v{dice.randrange(6)}"
        what = dice.randrange(6)
        if what == 0 and name in run.variables:
            del run.variables[name]
        elif what == 1:
            run.variables[name] = [dice.choice("abc") * 100 for _ in range(dice.choice([3, 60]))]
        elif what == 2:
            run.variables[name] = {str(i): dice.choice("abc") * 100 for i in range(dice.choice([3, 60]))}
        elif what == 3:
            parts = [dice.choice("abc") for _ in range(dice.randrange(1, 4))]
            for depth in range(1, len(parts) + 1):
                about = {
                    "status": dice.choice(["pending", "completed", "failed"]),
                    "order": 9 - ord(parts[depth - 1]) % 8,
                }
                run.put("step", "/".join(parts[:depth]), about)
        elif what == 4:
            run.put("knowledge", name, {"turn": turn, "text": "x" * dice.choice([5, 5000])})
        else:
            run.append("log", {"turn": turn, "dice": dice.random()})
