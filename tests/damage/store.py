"""A store with everything in it, what it must read as, and copies of it to be damaged."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.run_states import in_trash, remove_for_good
from leftoff.errors import LeftoffError
from tests.crash import faults
from tests.seams import SEAMS

PAGE = 4096
DRIVEN = "driven"
NOISE = random.Random(5).randbytes(40_000)
TEXT = b"".join(b"line %d of a file that packs well\n" % n for n in range(3000))


@dataclass
class Sample:
    """A whole store: where it is, and what reading everything in it gives."""

    path: Path
    runs: dict[str, list[int]]  # the versions of each run
    expected: dict[str, str]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.path, to)
        return to


def build(folder: Path) -> Sample:
    """Make the store: several runs, large and small values, history, blobs, free pages; closed, its log empty."""
    path = folder / ".leftoff"
    store = leftoff.open(path)
    for number in range(3):
        _fill(store, folder, f"run-{number}", 30 - 9 * number)
    _fork_and_prune(store)
    store.close()
    for suffix in ("-wal", "-shm"):
        (path / f"store.db{suffix}").unlink(missing_ok=True)
    runs = {info.run_id: [v.seq for v in leftoff_versions(path, info.run_id)] for info in _list(path)}
    return Sample(path, runs, _values(everything(path, runs)))


def _fill(store: leftoff.Store, folder: Path, run_id: str, rounds: int) -> None:
    with store.start("sample", run_id=run_id, title=f"Sample {run_id}", steps=["collect", "convert"]) as run:
        for n in range(rounds):
            run.variables.update(
                n=n, text=f"é{n}" * 30, page=f"{n}:" + "p" * 1500 * (n % 4), odd=[n, {"ü": None}]
            )
            run.append("items", {"n": n, "words": "item " * 20})
            run.put("knowledge", f"k{n % 5}", {"n": n, "long": "k" * 700 * (n % 3)})
            if n % 3 == 0:
                run.checkpoint(note=f"round {n}")
            else:
                run.commit()
        run.do("collect", lambda: ["a", "b"])
        for item in run.each("convert", ["a", "b", "c/d"]):
            run.variables["last"] = item
        for name, content in (("noise.bin", NOISE), ("text.txt", TEXT), (f"{run_id}.txt", run_id.encode())):
            (folder / name).write_bytes(content)
            run.artifact(folder / name)
        run.variables["huge"] = run_id * 300_000
        run.checkpoint(note="all there")


def _fork_and_prune(store: leftoff.Store) -> None:
    """A run more, one less, and pages that nobody uses: they stay in the file, since nothing is given back."""
    run = store.resume(f"run-0@{store.get('run-0').history()[0].seq}")
    run.fork(branch="other", run_id="fork").finish()
    run.finish()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SEAMS["SqliteStore.vacuum"], lambda *_: 0)
        store.prune("run-0", [str(v.id) for v in store.get("run-0").history()[8:12]])
        store.prune("run-1")
        store.remove("run-2")
        for each in in_trash(store._store):
            remove_for_good(store._store, each)


def _list(path: Path) -> list[leftoff.RunInfo]:
    with leftoff.open(path) as store:
        return store.list()


def leftoff_versions(path: Path, run_id: str) -> list[leftoff.Version]:
    """Every version of a run that can be read, oldest first."""
    with leftoff.open(path) as store:
        return list(reversed(store.get(run_id).history(sealed=False)))


Outcome = str | Exception


def everything(path: Path, runs: dict[str, list[int]]) -> dict[str, Outcome]:
    """All that the API can read from a store, by name: canonical text, or the error that reading it raised."""
    store = leftoff.open(path)
    out: dict[str, Outcome] = {}

    def look(name: str, read: Callable[[], Any]) -> None:
        try:
            out[name] = json.dumps(read(), sort_keys=True, ensure_ascii=False)
        except Exception as error:
            out[name] = error

    try:
        look("list", lambda: [_shown(info) for info in store.list()])
        for run_id, seqs in runs.items():
            look(f"{run_id}: now", lambda run_id=run_id: _records(store.get(run_id)))  # type: ignore[misc]
            look(f"{run_id}: history", lambda run_id=run_id: _history(store, run_id))  # type: ignore[misc]
            look(f"{run_id}: files", lambda run_id=run_id: _contents(store, run_id))  # type: ignore[misc]
            for seq in seqs:
                look(f"{run_id}@{seq}", lambda run_id=run_id, seq=seq: _records(store.get(run_id).at(seq)))  # type: ignore[misc]
    finally:
        store.close()
    return out


def _shown(info: leftoff.RunInfo) -> dict[str, Any]:
    return {key: value for key, value in info.to_json().items() if key != "health"}


def _records(run: Any) -> dict[str, Any]:
    found = {name: dict(run.records[name]) for name in run.records if name != "item"}
    found.get("context", {}).pop("repaired", None)  # what a repair says of itself
    return {name: records for name, records in found.items() if records}


def _history(store: leftoff.Store, run_id: str) -> list[Any]:
    return [version.to_json() for version in store.get(run_id).history(sealed=False)]


def _contents(store: leftoff.Store, run_id: str) -> dict[str, str]:
    hashes = {key: about["hash"] for key, about in store.get(run_id).artifacts.items()}
    loaded = {key: b"".join(store._store.load_blob(bytes.fromhex(hash[7:]))) for key, hash in hashes.items()}
    return {key: content.hex() for key, content in loaded.items()}


def _values(found: dict[str, Outcome]) -> dict[str, str]:
    assert [] == [outcome for outcome in found.values() if not isinstance(outcome, str)]
    return {name: str(outcome) for name, outcome in found.items()}


def wrong(sample: Sample, path: Path, errors: type[Exception] = leftoff.Corrupt) -> dict[str, Outcome]:
    """What reads as something else than it was, or raises what it should not. Nothing, if all is as promised."""
    found = everything(path, sample.runs)
    return {
        name: outcome
        for name, outcome in found.items()
        if outcome != sample.expected[name] and not isinstance(outcome, errors)
    }


def problems(path: Path) -> list[dict[str, Any]]:
    """What fsck says; an error that it raises counts as a problem at the store."""
    store = leftoff.open(path)
    try:
        return store.fsck().problems
    except LeftoffError as error:
        return [{"code": "raised", "where": str(path), "message": str(error)}]
    finally:
        store.close()


def flip(path: Path, offset: int, by: int = 0x10) -> None:
    """Change one byte of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([old ^ by]))
    faults.made("damages")


def checksum(page: bytes) -> bytes:
    """The last eight bytes of a sound page of SQLite's checksum layer."""
    a = b = 0
    for x, y in struct.iter_unpack("<II", page[: PAGE - 8]):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return struct.pack("<II", a, b)


def tidy(path: Path) -> None:
    """Take away what opening a store leaves beside its database."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
