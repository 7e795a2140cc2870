-- The schema of a SQLite store. See docs/internals/format.md for what each table promises.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A cache of the `run` records and the head's counters, for listing; fsck recomputes it.
CREATE TABLE run (
    run        INTEGER PRIMARY KEY AUTOINCREMENT, -- never given again: a process may still hold a removed run's
    run_id     TEXT NOT NULL UNIQUE,
    n          INTEGER NOT NULL,           -- store-wide number of the last commit: the order of everything
    seq        INTEGER NOT NULL,           -- the head
    digest     BLOB NOT NULL,
    counts     TEXT NOT NULL,              -- leaf steps by status
    updated_at INTEGER NOT NULL,
    checkpoint TEXT,                       -- of the head, where it is sealed
    created_at INTEGER NOT NULL,
    workflow   TEXT NOT NULL,
    branch     TEXT NOT NULL,
    status     TEXT NOT NULL,
    title      TEXT,
    issue      TEXT,
    session    TEXT,
    card       TEXT NOT NULL DEFAULT '{}', -- the other `run` records, as JSON
    hidden     INTEGER NOT NULL DEFAULT 0  -- 0 active, 1 being removed, 2 in the trash, 3 archived
) STRICT;
-- The store itself: its `n` is the number of the newest commit.
INSERT INTO run (run, run_id, n, seq, digest, counts, updated_at, created_at, workflow, branch, status, hidden)
VALUES (0, '', 0, 0, x'', '', 0, 0, '', '', '', 1);
CREATE TRIGGER newest_commit AFTER UPDATE OF n ON run WHEN new.run > 0 BEGIN
    UPDATE run SET n = new.n WHERE run = 0;
END;

-- One row per commit. A checkpoint is a version with an id.
CREATE TABLE version (
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    token      BLOB NOT NULL,
    digest     BLOB NOT NULL,
    epoch      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    counts     TEXT NOT NULL,
    checkpoint TEXT,
    trigger    TEXT,
    step       TEXT,
    note       TEXT,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_checkpoint ON version (checkpoint) WHERE checkpoint IS NOT NULL;

-- The tokens of versions that were pruned: a commit that is tried again is recognised by them.
CREATE TABLE token (
    run    INTEGER NOT NULL,
    token  BLOB NOT NULL,
    seq    INTEGER NOT NULL,
    digest BLOB NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (run, token)
) STRICT, WITHOUT ROWID;

-- Other names of a checkpoint: a protocol's own ids.
CREATE TABLE alias (
    name TEXT NOT NULL,
    run  INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    PRIMARY KEY (name, run, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_version ON alias (run, seq);

-- The live records, updated in place. Values up to 1 KiB are in the row, larger ones in `value`.
CREATE TABLE record (
    run        INTEGER NOT NULL,
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    seq        INTEGER NOT NULL,           -- the version that wrote it
    hash       BLOB NOT NULL,              -- sha256 of the stored bytes
    data       BLOB,                       -- the stored bytes; NULL: in `value`
    blob       BLOB,                       -- the blob they refer to
    status     TEXT,                       -- of a step
    ord        TEXT,                       -- of a step: where it stands among the others
    leaf       INTEGER,                    -- of a step: 1 where nothing is below it
    PRIMARY KEY (run, collection, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_value ON record (hash) WHERE data IS NULL;
CREATE INDEX record_blob ON record (blob) WHERE blob IS NOT NULL;
CREATE INDEX record_leaf ON record (run, status, ord) WHERE leaf = 1;

-- Superseded records, each with the version that ended it.
CREATE TABLE past (
    run        INTEGER NOT NULL,
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    until      INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    hash       BLOB NOT NULL,
    data       BLOB,
    blob       BLOB,
    PRIMARY KEY (run, collection, key, until)
) STRICT, WITHOUT ROWID;
CREATE INDEX past_value ON past (hash) WHERE data IS NULL;
CREATE INDEX past_blob ON past (blob) WHERE blob IS NOT NULL;

-- A commit replaces a live record: what was there stays readable at the versions that saw it.
CREATE TRIGGER record_superseded AFTER UPDATE OF seq ON record WHEN old.seq <> new.seq BEGIN
    INSERT INTO past (run, collection, key, until, seq, hash, data, blob)
    VALUES (old.run, old.collection, old.key, new.seq, old.seq, old.hash, old.data, old.blob);
END;

-- Stored bytes over 1 KiB and up to 1 MiB, once each.
CREATE TABLE value (
    hash BLOB NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Files in blobs/, once each.
CREATE TABLE blob (
    hash     BLOB NOT NULL PRIMARY KEY,
    size     INTEGER NOT NULL,
    stored   INTEGER NOT NULL,
    encoding TEXT NOT NULL                 -- raw or zstd
) STRICT, WITHOUT ROWID;

-- The content of blobs in a bundle, in pieces as they are stored. Empty in a folder store, which has them in blobs/.
CREATE TABLE piece (
    blob   BLOB NOT NULL,
    number INTEGER NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (blob, number)
) STRICT, WITHOUT ROWID;

-- Who drives a run. The row stays when the lease is freed, so that its epoch only grows.
CREATE TABLE lease (
    run      INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    kind     TEXT,                         -- process or session; NULL: free
    scope    TEXT,
    pid      INTEGER,
    started  TEXT,
    session  TEXT,
    who      TEXT,
    since    INTEGER,
    beat     INTEGER
) STRICT;

-- One try at a step by a process: a fact about a machine, not part of the state.
CREATE TABLE attempt (
    token      TEXT NOT NULL PRIMARY KEY,
    run        INTEGER NOT NULL,
    step       TEXT NOT NULL,
    number     INTEGER NOT NULL,
    scope      TEXT,
    pid        INTEGER,
    started    TEXT,
    session    TEXT,
    log        TEXT,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    exit_code  INTEGER,
    UNIQUE (run, step, number)
) STRICT, WITHOUT ROWID;
