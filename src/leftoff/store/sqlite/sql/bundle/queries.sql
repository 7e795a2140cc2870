-- Every query on a bundle, each with a name and the reason it exists.

-- name: schema
-- What the file consists of, to be compared word for word with what it should.
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name

-- name: facts
-- What the bundle says of itself.
SELECT name, value FROM bundle

-- name: put_fact
-- One of them.
INSERT INTO bundle (name, value) VALUES (?, ?)

-- name: versions
-- The kept versions, oldest first.
SELECT seq, digest, at, counts, checkpoint, trigger, step, note FROM version ORDER BY seq

-- name: put_version
-- One of them.
INSERT INTO version (seq, digest, at, counts, checkpoint, trigger, step, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: aliases
-- The other names of checkpoints.
SELECT seq, name FROM alias ORDER BY seq, name

-- name: put_alias
-- One of them.
INSERT INTO alias (seq, name) VALUES (?, ?)

-- name: records
-- Every record, in the order in which they were written.
SELECT collection, key, seq, until, value FROM record ORDER BY seq, collection, key

-- name: put_record
-- One of them.
INSERT INTO record (collection, key, seq, until, value) VALUES (?, ?, ?, ?, ?)

-- name: events
-- The history as it is played again: at each version what was put, then what ended without being replaced.
SELECT seq AS at, 0 AS ends, collection, key, value FROM record
UNION ALL
SELECT r.until, 1, r.collection, r.key, r.value FROM record r WHERE r.until IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM record s WHERE s.collection = r.collection AND s.key = r.key AND s.seq = r.until)
ORDER BY at, ends, collection, key

-- name: overlap
-- A record that begins before the one that it follows has ended.
SELECT collection, key FROM (
    SELECT collection, key, until, lead(seq) OVER (PARTITION BY collection, key ORDER BY seq) AS following FROM record
) WHERE following IS NOT NULL AND (until IS NULL OR until > following) LIMIT 1

-- name: value
-- Where the bytes of a value lie.
SELECT hash, pack, start, size FROM value WHERE value = ?

-- name: put_value
-- Say so.
INSERT INTO value (value, hash, pack, start, size) VALUES (?, ?, ?, ?, ?)

-- name: pack
-- The compressed bytes of a pack.
SELECT size, data FROM pack WHERE pack = ?

-- name: put_pack
-- Add one.
INSERT INTO pack (pack, size, data) VALUES (?, ?, ?)

-- name: blobs
-- Every file.
SELECT hash, size, pieces FROM blob ORDER BY hash

-- name: put_blob
-- Add one.
INSERT INTO blob (hash, size, pieces) VALUES (?, ?, ?)

-- name: pieces
-- Its content in order.
SELECT number, size, data FROM piece WHERE blob = ? ORDER BY number

-- name: put_piece
-- Add one.
INSERT INTO piece (blob, number, size, data) VALUES (?, ?, ?, ?)

-- name: totals
-- How much there is, without unpacking any of it. As floats: sizes that somebody made up must not overflow.
SELECT (SELECT count(*) FROM version), (SELECT count(*) FROM record), (SELECT count(*) FROM value),
       (SELECT count(*) FROM blob), (SELECT total(size) FROM pack), (SELECT total(size) FROM blob),
       (SELECT count(*) FROM pack), (SELECT count(*) FROM piece), (SELECT total(pieces) FROM blob)
