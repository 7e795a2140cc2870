-- The schema of a bundle: one run in one file. docs/bundle.md says what each table promises.

CREATE TABLE bundle (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per kept version. A checkpoint is a version with an id.
CREATE TABLE version (
    seq        INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL,
    at         INTEGER NOT NULL,           -- milliseconds since 1970
    counts     TEXT NOT NULL,
    checkpoint TEXT,
    trigger    TEXT,
    step       TEXT,
    note       TEXT
) STRICT;

-- Other names of a checkpoint.
CREATE TABLE alias (
    seq  INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (seq, name)
) STRICT, WITHOUT ROWID;

-- Every record that a kept version sees: from the version that wrote it to the one that ended it.
CREATE TABLE record (
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    until      INTEGER,                    -- NULL: it is live
    value      INTEGER NOT NULL,
    PRIMARY KEY (collection, key, seq)
) STRICT, WITHOUT ROWID;

-- Stored bytes, once each: where they lie in which pack.
CREATE TABLE value (
    value INTEGER PRIMARY KEY,
    hash  BLOB NOT NULL,                   -- sha256 of the stored bytes
    pack  INTEGER NOT NULL,
    start INTEGER NOT NULL,
    size  INTEGER NOT NULL
) STRICT;

-- Values one behind the other, compressed together.
CREATE TABLE pack (
    pack INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,                 -- before compression
    data BLOB NOT NULL                     -- one zstd frame
) STRICT;

-- Files, by the sha256 of their content.
CREATE TABLE blob (
    hash   BLOB NOT NULL PRIMARY KEY,
    size   INTEGER NOT NULL,
    pieces INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Their content, in order.
CREATE TABLE piece (
    blob   BLOB NOT NULL,
    number INTEGER NOT NULL,
    size   INTEGER NOT NULL,               -- before compression
    data   BLOB NOT NULL,                  -- one zstd frame
    PRIMARY KEY (blob, number)
) STRICT;
