"""leftoff with a long past: many keys with many versions, and one key with very many."""

from __future__ import annotations

import time

import leftoff
from bench.sides.committing import Committing


def value(key: int, version: int) -> str:
    """What key `key` holds at version `version`."""
    return f"value of key {key} at version {version}"


def state(keys: int, version: int) -> dict[str, object]:
    """All keys at a version."""
    return {f"key-{key:04}": value(key, version) for key in range(keys)}


class Build:
    """Writes `versions` checkpoints, each of which changes every key."""

    def __init__(self, folder: str, keys: int, versions: int) -> None:
        self._path = f"{folder}/.leftoff"
        self._keys = keys
        self._versions = versions

    def build(self) -> dict[str, object]:
        """The store's path and the id of each version's checkpoint."""
        store = leftoff.open(self._path)
        run = store.start("bench", run_id="bench")
        ids = []
        for version in range(self._versions):
            run.variables.update(**state(self._keys, version))
            ids.append(str(run.checkpoint(trigger="manual", note=f"version {version}").id))
        run.finish()
        store.close()
        return {"path": self._path, "ids": ids}


def load_modules(folder: str) -> None:
    """Use what will be measured once on another store, so that lazy imports do not drown the figure."""
    store = leftoff.open(f"{folder}/.leftoff")
    run = store.start("bench")
    run.variables.update(a=1)
    ref = str(run.checkpoint(trigger="manual", note="first").id)
    run.finish()
    dict(store.get(run.id).at(ref).variables)
    store.close()


class Load:
    """Reads a store in a process that has just started; imports are not counted."""

    def __init__(self, folder: str, path: str, keys: int, versions: int) -> None:
        self._path = path
        self._keys = keys
        self._versions = versions
        load_modules(folder)

    def head(self) -> float:
        """Seconds from opening the store to holding every variable."""
        began = time.perf_counter()
        store = leftoff.open(self._path)
        held = dict(store.get("bench").variables)
        taken = time.perf_counter() - began
        self._check(held, self._versions - 1)
        store.close()
        return taken

    def old(self, ref: str, version: int) -> float:
        """Seconds from opening the store to holding every variable as of an old checkpoint."""
        began = time.perf_counter()
        store = leftoff.open(self._path)
        held = dict(store.get("bench").at(ref).variables)
        taken = time.perf_counter() - began
        self._check(held, version)
        store.close()
        return taken

    def _check(self, held: dict[str, object], version: int) -> None:
        if held != state(self._keys, version):
            raise AssertionError(f"version {version} was read back wrong")


class OneKey(Committing):
    """One key that changes with every commit."""

    def __init__(self, folder: str, versions: int) -> None:
        super().__init__()
        self._store = leftoff.open(f"{folder}/.leftoff")
        self._run = self._store.start("bench", run_id="bench")
        for n in range(versions):
            self.commit({"n": n})

    def commit(self, changed: dict[str, object]) -> None:
        """Whatever the change is called, it goes to the one key."""
        self._run.variables["key"] = next(iter(changed.values()))
        self._run.commit()


class FreshKey(OneKey):
    """The same without a past, in a store of its own."""
