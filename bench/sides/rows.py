"""The rows a small commit writes, by hand: what leftoff's own layer is measured against.

The shape is that of `ARCHITECTURE.md`: a version row, the changed records updated in place, their
superseded selves in `past`, the run's row brought up to date; one transaction, WAL, `synchronous=FULL`.
Hashes and the additive digest are computed too, since the same rows cannot be written without them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

from bench import work

Execute = Callable[..., Any]

SETTINGS = ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"]
SCHEMA = [
    """CREATE TABLE run (run INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, n INTEGER NOT NULL,
        seq INTEGER NOT NULL, digest BLOB NOT NULL, counts TEXT NOT NULL, updated_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL, workflow TEXT NOT NULL, branch TEXT NOT NULL, status TEXT NOT NULL,
        title TEXT) STRICT""",
    "CREATE INDEX run_order ON run (n)",
    """CREATE TABLE version (run INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
        token BLOB NOT NULL, digest BLOB NOT NULL, epoch INTEGER NOT NULL, at INTEGER NOT NULL,
        counts TEXT NOT NULL, checkpoint TEXT, trigger TEXT, step TEXT, note TEXT,
        PRIMARY KEY (run, seq)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX version_checkpoint ON version (checkpoint) WHERE checkpoint IS NOT NULL",
    """CREATE TABLE record (run INTEGER NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
        seq INTEGER NOT NULL, hash BLOB NOT NULL, data BLOB,
        PRIMARY KEY (run, collection, key)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX record_value ON record (hash) WHERE data IS NULL",
    """CREATE TABLE past (run INTEGER NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
        until INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, data BLOB,
        PRIMARY KEY (run, collection, key, until)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX past_value ON past (hash) WHERE data IS NULL",
]
START = (
    "INSERT INTO run VALUES (1, 'bench', 0, 0, zeroblob(32), '{}', ?, ?, 'bench', 'main', 'running', 'bench')"
)
VERSION = (
    "INSERT INTO version (run, seq, n, token, digest, epoch, at, counts) VALUES (1, ?, ?, ?, ?, 1, ?, '{}')"
)
FIRST = "INSERT INTO record VALUES (1, 'variable', ?, ?, ?, ?)"
SUPERSEDE = (
    "INSERT INTO past SELECT run, collection, key, ?, seq, hash, data FROM record "
    "WHERE run = 1 AND collection = 'variable' AND key = ?"
)
UPDATE = "UPDATE record SET seq = ?, hash = ?, data = ? WHERE run = 1 AND collection = 'variable' AND key = ?"
HEAD = "UPDATE run SET n = ?, seq = ?, digest = ?, updated_at = ? WHERE run = 1"


class Rows:
    """Writes the rows of one run through whatever `execute` it is given."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._seq = 0
        self._digest = 0
        self._hashes: dict[str, bytes] = {}
        for statement in SCHEMA:
            execute(statement)
        now = time.time_ns() // 1_000_000
        execute(START, (now, now))
        self._write(work.variables(), fresh=True)

    def commit(self, changed: dict[str, object]) -> None:
        """One durable change of a few variables."""
        self._write(changed, fresh=False)

    def _write(self, changed: dict[str, object], *, fresh: bool) -> None:
        execute = self._execute
        seq = self._seq + 1
        encoded = [(key, *self._encode(key, val)) for key, val in changed.items()]
        digest = self._digest.to_bytes(32, "big")
        now = time.time_ns() // 1_000_000
        execute("BEGIN IMMEDIATE")
        for key, hash_, stored in encoded:
            if fresh:
                execute(FIRST, (key, seq, hash_, stored))
            else:
                execute(SUPERSEDE, (seq, key))
                execute(UPDATE, (seq, hash_, stored, key))
        execute(VERSION, (seq, seq, os.urandom(16), digest, now))
        execute(HEAD, (seq, seq, digest, now))
        execute("COMMIT")
        self._seq = seq

    def _encode(self, key: str, val: object) -> tuple[bytes, bytes]:
        """The stored bytes and their hash; the run's digest is moved along."""
        stored = b"j" + json.dumps(val, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        hash_ = hashlib.sha256(stored).digest()
        name = f"variable\0{key}\0".encode()
        moved = int.from_bytes(hashlib.sha256(name + hash_).digest(), "big")
        old = self._hashes.get(key)
        if old is not None:
            moved -= int.from_bytes(hashlib.sha256(name + old).digest(), "big")
        self._digest = (self._digest + moved) % (1 << 256)
        self._hashes[key] = hash_
        return hash_, stored
