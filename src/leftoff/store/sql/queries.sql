-- Every query of a store, each with a name and the reason it exists. A name that ends in [sqlite] or [postgres] is
-- for that store only; all others are the same text on both. Parameters are written as PostgreSQL has them.

-- name: head
-- Where a run stands, and the epoch that fences it. The first thing every commit reads.
SELECT seq, digest, counts, coalesce((SELECT epoch FROM lease WHERE run = $1), 0), run_id FROM run
WHERE run = $1 AND hidden <> 2

-- name: head_and_n [sqlite]
-- The same for a writer, with the number of the newest commit: row 0 of the listing is the store itself.
SELECT seq,digest,counts,coalesce((SELECT epoch FROM lease WHERE run=$1),0),run_id,(SELECT n FROM run WHERE run=0)
FROM run WHERE run=$1 AND hidden<>2

-- name: hold [postgres]
-- Lock a run for the rest of the transaction.
SELECT seq, hidden, status FROM run WHERE run = $1 FOR UPDATE

-- name: terms
-- The first live records of a run, as far as they count for its digest.
SELECT collection, key, hash FROM record WHERE run = $1 LIMIT $2

-- name: row
-- What is live under one key, without its bytes.
SELECT hash, status, ord, leaf FROM record WHERE run = $1 AND collection = $2 AND key = $3

-- name: record
-- One live record with its bytes.
SELECT seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = $1 AND collection = $2 AND key = $3

-- name: live
-- The live records of one collection from a key on, in key order (a fragment: an upper bound may come between).
SELECT key, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)), seq FROM record
WHERE run = $1 AND collection = $2 AND key >= $3

-- name: records_at
-- The records of one collection that a version saw. Superseded ones are found by hopping from key to key, not by reading
-- the whole history.
WITH RECURSIVE k(key) AS (
    SELECT (SELECT min(key) FROM past WHERE run = $1 AND collection = $2)
    UNION ALL
    SELECT (SELECT min(p.key) FROM past p WHERE p.run = $1 AND p.collection = $2 AND p.key > k.key) FROM k
    WHERE k.key IS NOT NULL
)
SELECT key, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = $1 AND collection = $2 AND seq <= $3
UNION ALL
SELECT p.key, p.seq, p.hash, coalesce(p.data, (SELECT v.data FROM value v WHERE v.hash = p.hash))
FROM k CROSS JOIN past p -- CROSS: SQLite keeps this order
WHERE p.run = $1 AND p.collection = $2 AND p.key = k.key AND p.seq <= $3 AND p.until = (
    SELECT min(q.until) FROM past q WHERE q.run = $1 AND q.collection = $2 AND q.key = k.key AND q.until > $3
)

-- name: collections
-- The collections that have live records, by hopping from one to the next.
WITH RECURSIVE c(name) AS (
    SELECT (SELECT min(collection) FROM record WHERE run = $1)
    UNION ALL
    SELECT (SELECT min(collection) FROM record WHERE run = $1 AND collection > c.name) FROM c WHERE c.name IS NOT NULL
) SELECT name FROM c WHERE name IS NOT NULL

-- name: past_collections
-- The collections that have superseded records.
WITH RECURSIVE c(name) AS (
    SELECT (SELECT min(collection) FROM past WHERE run = $1)
    UNION ALL
    SELECT (SELECT min(collection) FROM past WHERE run = $1 AND collection > c.name) FROM c WHERE c.name IS NOT NULL
) SELECT name FROM c WHERE name IS NOT NULL

-- name: hashes
-- The live keys of a collection with their hashes, to write only what differs (a fragment, as `live`).
SELECT key, hash FROM record WHERE run = $1 AND collection = $2 AND key >= $3

-- name: last_key
-- The last live key in a range: where the next entry of a list goes.
SELECT key FROM record WHERE run = $1 AND collection = $2 AND key >= $3 AND key < $4 ORDER BY key DESC LIMIT 1

-- name: has_below
-- Whether any step is below this one.
SELECT 1 FROM record WHERE run = $1 AND collection = 'step' AND key > $2 AND key < $3 LIMIT 1

-- name: open_steps
-- The steps that a driver which is gone had begun, or that failed.
SELECT key FROM record WHERE run = $1 AND collection = 'step' AND status IN ('running', 'failed') ORDER BY key

-- name: leaves
-- The first leaf steps of a status, in declared order.
SELECT key FROM record WHERE run = $1 AND status = $2 AND leaf = 1 ORDER BY ord LIMIT $3

-- name: leaf_page
-- The next leaf steps of a status after a place, in declared order; of those that have a word in their path.
SELECT ord, key FROM record WHERE run = $1 AND status = $2 AND leaf = 1 AND (ord, key) > ($3, $4)
AND ($5 = '' OR strpos(lower(key), $5) > 0 OR strpos(lower(key), $6) > 0) ORDER BY ord, key LIMIT $7

-- name: leaf_counts
-- How many leaf steps there are below a step, by status.
SELECT status, count(*) FROM record WHERE run = $1 AND collection = 'step' AND key > $2 AND key < $3 AND leaf = 1
GROUP BY status

-- name: last_order
-- The greatest order among leaf steps: an undeclared step goes after it. One seek for each status.
SELECT max(last) FROM (
    SELECT (
        SELECT max(ord) FROM record WHERE run = $1 AND status = word.value AND leaf = 1 AND ord >= $2 AND ord < $3
    ) AS last
    FROM (
        SELECT 'pending' AS value UNION ALL SELECT 'running' UNION ALL SELECT 'waiting' UNION ALL SELECT 'completed'
        UNION ALL SELECT 'failed' UNION ALL SELECT 'blocked' UNION ALL SELECT 'skipped'
    ) AS word
) AS found

-- name: run_columns
-- What a listing shows of a run (a fragment that other queries complete).
SELECT r.run, r.run_id, r.n, r.seq, r.digest, r.counts, r.updated_at, r.created_at, r.workflow, r.branch, r.status,
       r.title, r.issue, r.session, r.card, r.hidden, r.checkpoint
FROM run r

-- name: version_columns
-- A version as it is read back (a fragment that other queries complete).
SELECT r.run_id, v.seq, v.digest, v.at, v.n, v.epoch, v.counts, v.checkpoint, v.trigger, v.step, v.note, v.run,
       (SELECT string_agg(a.name, '
') FROM alias a WHERE a.run = v.run AND a.seq = v.seq)
FROM version v JOIN run r ON r.run = v.run

-- name: lives
-- When the commits under each epoch were made.
SELECT epoch, min(at), max(at), count(*) FROM version WHERE run = $1 GROUP BY epoch ORDER BY epoch

-- name: bounds
-- The oldest and the newest version that can be read.
SELECT min(seq), max(seq) FROM version WHERE run = $1

-- name: around
-- The nearest versions before and after one that can be read.
SELECT (SELECT max(seq) FROM version WHERE run = $1 AND seq < $2), (SELECT min(seq) FROM version WHERE run = $1 AND seq > $2)

-- name: token_since
-- Whether a commit that is tried again was applied already.
SELECT seq FROM version WHERE run = $1 AND seq > $2 AND token = $3

-- name: kept_token
-- What is left of a commit whose version was pruned: it must not be applied again either.
SELECT t.seq, t.digest, t.at, r.run_id FROM token t JOIN run r ON r.run = t.run
WHERE t.run = $1 AND t.seq > $2 AND t.token = $3

-- name: other_names
-- The other names of checkpoints that start with some text.
SELECT DISTINCT a.name FROM alias a JOIN run r ON r.run = a.run
WHERE a.name >= $1 AND a.name < $2 AND r.hidden IN (0, 3) AND (CAST($3 AS bigint) IS NULL OR a.run = $3)
ORDER BY a.name LIMIT $4

-- name: lease [sqlite]
-- Who drives a run.
SELECT epoch, kind, scope, pid, started, session, who, since, beat, NULL FROM lease WHERE run = $1

-- name: lease [postgres]
-- Who drives a run, and for how many milliseconds nothing was heard of it, by the server's clock.
SELECT epoch, kind, scope, pid, started, session, who, since, beat,
       (extract(epoch FROM clock_timestamp() - heard) * 1000)::bigint
FROM lease WHERE run = $1

-- name: leases [sqlite]
-- Every lease that somebody holds.
SELECT r.run_id, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat, NULL
FROM lease l JOIN run r ON r.run = l.run WHERE l.kind IS NOT NULL

-- name: leases [postgres]
-- Every lease that somebody holds.
SELECT r.run_id, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat,
       (extract(epoch FROM clock_timestamp() - l.heard) * 1000)::bigint
FROM lease l JOIN run r ON r.run = l.run WHERE l.kind IS NOT NULL

-- name: first_leaves [postgres]
-- Of each run of a listing (a fragment comes in between) the first leaf of the statuses that it has any of.
SELECT s.run, w.status, l.key, l.ord FROM ({listing}) s
JOIN (VALUES ('pending', 1, '[0'), ('running', 2, '0'), ('waiting', 3, '0'), ('failed', 5, '0')) AS w(status, at, none)
ON (s.counts NOT LIKE '[0,0,0,%' OR w.at = 5) AND split_part(s.counts, ',', w.at) <> w.none
CROSS JOIN LATERAL (
    SELECT key, ord FROM record WHERE run = s.run AND status = w.status AND leaf = 1 ORDER BY ord LIMIT 1
) l

-- name: their_leases [postgres]
-- Of each run of a listing that is not finished the lease.
SELECT l.run, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat,
       (extract(epoch FROM clock_timestamp() - l.heard) * 1000)::bigint
FROM lease l JOIN ({listing}) s ON s.run = l.run WHERE s.status NOT IN ('completed', 'abandoned')

-- name: attempt_columns
-- A try at a step, and the number of the current one (a fragment that other queries complete).
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.step = a.step), a.token
FROM attempt a

-- name: kept_log [postgres]
-- What an attempt printed last, and the blob with all of it.
SELECT output, printed FROM attempt WHERE token = $1

-- name: blob [sqlite]
-- Whether a blob is known.
SELECT size, stored, encoding FROM blob WHERE hash = $1

-- name: blob [postgres]
-- Whether a blob is known.
SELECT size, stored, encoding FROM blob WHERE hash = $1 AND known

-- name: fact
-- What was noted under one name.
SELECT value FROM meta WHERE name = $1

-- name: meta
-- What the store says of itself.
SELECT name, value FROM meta
WHERE name IN ('store_id', 'created_at', 'created_by', 'written_by', 'schema')

-- name: meta_range
-- Facts about the store whose names are in a range.
SELECT name, value FROM meta WHERE name >= $1 AND name < $2

-- name: newest_n [sqlite]
-- The number of the newest commit. Row 0 of the listing is the store itself, so it shares a page with the listing.
SELECT n FROM run WHERE run = 0

-- name: newest_n [postgres]
-- The number of the newest commit.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number

-- name: size
-- About how many bytes some runs take. What they share with others counts in full, or not at all ($1).
SELECT CAST((SELECT count(*) * 128 FROM version WHERE run IN ({runs}))
     + (SELECT coalesce(sum(64 + length(key) + coalesce(length(data), 0)), 0) FROM record WHERE run IN ({runs}))
     + (SELECT coalesce(sum(64 + length(key) + coalesce(length(data), 0)), 0) FROM past WHERE run IN ({runs}))
     + (SELECT coalesce(sum(length(data)), 0) FROM value v WHERE hash IN (
            SELECT hash FROM record WHERE run IN ({runs}) AND data IS NULL
            UNION SELECT hash FROM past WHERE run IN ({runs}) AND data IS NULL)
        AND NOT ($1 = 1 AND (EXISTS (SELECT 1 FROM record WHERE hash = v.hash AND data IS NULL AND run NOT IN ({runs}))
                          OR EXISTS (SELECT 1 FROM past WHERE hash = v.hash AND data IS NULL AND run NOT IN ({runs})))))
     + (SELECT coalesce(sum(stored), 0) FROM blob b WHERE hash IN (
            SELECT blob FROM record WHERE run IN ({runs}) AND blob IS NOT NULL
            UNION SELECT blob FROM past WHERE run IN ({runs}) AND blob IS NOT NULL)
        AND NOT ($1 = 1 AND (EXISTS (SELECT 1 FROM record WHERE blob = b.hash AND run NOT IN ({runs}))
                          OR EXISTS (SELECT 1 FROM past WHERE blob = b.hash AND run NOT IN ({runs}))))) AS bigint)

-- name: count_runs
-- How many runs there are, hidden ones too.
SELECT count(*) FROM run WHERE run > 0

-- name: bytes [postgres]
-- What all tables and indexes of this project take on the server's disk.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'

-- name: writable [postgres]
-- Whether this server takes writes, and from this role.
SELECT has_table_privilege('run', 'UPDATE') AND NOT pg_is_in_recovery()
   AND NOT current_setting('transaction_read_only')::bool

-- name: there [postgres]
-- Whether there is a store, and whether the role is kept out of its schema: its tables are as if they were not there then.
SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = 'meta'),
       EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = $1 AND NOT has_schema_privilege(n.oid, 'USAGE'))

-- name: outcome [postgres]
-- What became of a transaction whose end nobody heard of.
SELECT pg_xact_status($1::text::xid8)

-- name: committed
-- Whether a version was made, pruned or not: true of one commit only, also on another server after a failover.
SELECT 1 FROM version WHERE run = $1 AND seq = $2 AND token = $3
UNION ALL SELECT 1 FROM token WHERE run = $1 AND seq = $2 AND token = $3

-- name: put_meta
-- One fact about the store.
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_meta
-- A fact about the store that is one no more.
DELETE FROM meta WHERE name = $1

-- name: start_turn [postgres]
-- Those who start a run of the same workflow and branch do so one after the other, until each is durable.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || chr(10) || $1 || chr(10) || $2, 0))

-- name: add_run
-- A new run, before its first commit.
INSERT INTO run (run_id, n, seq, digest, counts, updated_at, created_at, workflow, branch, status)
VALUES ($1, 0, 0, $2, $3, $4, $4, $5, $6, $7) RETURNING run

-- name: set_card
-- The listing's copy of the `run` records.
UPDATE run SET workflow = $1, branch = $2, status = $3, title = $4, issue = $5, session = $6, card = $7 WHERE run = $8

-- name: rename_run
-- A run that is being removed is not seen any more (1).
UPDATE run SET hidden = $1, run_id = $2 WHERE run = $3

-- name: set_hidden
-- Active (0), in the trash (2) or archived (3).
UPDATE run SET hidden = $1 WHERE run = $2

-- name: activate
-- A run that somebody drives is not archived any more.
UPDATE run SET hidden = 0 WHERE run = $1 AND hidden = 3

-- name: put_record [sqlite]
-- Make this the live record of its key. A trigger keeps what was there. Every commit runs these three statements, and
-- looking up a prepared statement costs time with each letter: so they name no column that they need not name.
INSERT INTO record VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)
ON CONFLICT DO UPDATE SET seq=$4,hash=$5,data=$6,blob=$7,status=$8,ord=$9,leaf=$10

-- name: supersede [sqlite]
-- Keep what is about to be dropped, readable at the versions that saw it.
INSERT INTO past (run, collection, key, until, seq, hash, data, blob)
SELECT run, collection, key, $2, seq, hash, data, blob FROM record WHERE run = $1 AND collection = $3 AND key = $4 AND seq <> $2

-- name: drop_record
-- The key has no live record any more.
DELETE FROM record WHERE run = $1 AND collection = $2 AND key = $3

-- name: put_value
-- Larger bytes, once each.
INSERT INTO value (hash, data) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING

-- name: set_leaf
-- A step got its first step below it, or lost its last.
UPDATE record SET leaf = $1 WHERE run = $2 AND collection = 'step' AND key = $3

-- name: move_head [sqlite]
-- A commit moves the head of its run, and a trigger the number of the store. An archived run is active again.
UPDATE run SET seq=$2,n=$3,digest=$4,counts=$5,updated_at=$6,checkpoint=$7,hidden=iif(hidden=3,0,hidden) WHERE run=$1

-- name: add_version [sqlite]
-- One row per commit.
INSERT INTO version VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)

-- name: add_version [postgres]
-- One row per commit, which moves the head of its run.
WITH m AS (
    UPDATE run SET n = nextval('commit_number'), seq = $2, digest = $4, counts = $7, updated_at = $6, checkpoint = $8,
                   hidden = CASE hidden WHEN 3 THEN 0 ELSE hidden END
    WHERE run = $1 RETURNING n
)
INSERT INTO version (run, seq, n, token, digest, epoch, at, counts, checkpoint, trigger, step, note)
VALUES ($1, $2, (SELECT n FROM m), $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: add_alias
-- Another name for a checkpoint.
INSERT INTO alias (name, run, seq) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: put_lease [sqlite]
-- Take, change or free a lease; the row stays, so the epoch only grows.
REPLACE INTO lease (run, epoch, kind, scope, pid, started, session, who, since, beat)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)

-- name: put_lease [postgres]
-- Take, change or free a lease; the row stays, so the epoch only grows.
INSERT INTO lease (run, epoch, kind, scope, pid, started, session, who, since, beat, heard)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, clock_timestamp())
ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, kind = excluded.kind, scope = excluded.scope,
    pid = excluded.pid, started = excluded.started, session = excluded.session, who = excluded.who,
    since = excluded.since, beat = excluded.beat, heard = excluded.heard

-- name: beat [sqlite]
-- Still here.
UPDATE lease SET beat = $1 WHERE run = $2 AND epoch = $3 AND kind IS NOT NULL RETURNING epoch

-- name: beat [postgres]
-- Still here.
UPDATE lease SET beat = $1, heard = clock_timestamp() WHERE run = $2 AND epoch = $3 AND kind IS NOT NULL RETURNING epoch

-- name: add_attempt
-- The next try at a step.
INSERT INTO attempt (token, run, step, number, scope, pid, started, log, started_at)
VALUES ($1, $2, $3, (SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE run = $2 AND step = $3), $4, $5, $6, $7, $8)
RETURNING number

-- name: set_attempt_process
-- The process that an attempt turned out to be.
UPDATE attempt SET scope = $1, pid = $2, started = $3 WHERE token = $4

-- name: drop_attempt
-- A try that never began counts for nothing.
DELETE FROM attempt WHERE token = $1

-- name: end_attempt
-- How a try ended.
UPDATE attempt SET ended_at = $1, exit_code = $2 WHERE token = $3

-- name: keep_log [postgres]
-- What an attempt printed.
UPDATE attempt SET output = coalesce($2::bytea, output), printed = coalesce($3::bytea, printed) WHERE token = $1

-- name: old_logs
-- Attempts of finished runs that have a log and ended before a moment.
SELECT a.token, a.log FROM attempt a JOIN run r ON r.run = a.run
WHERE a.log IS NOT NULL AND a.ended_at < $1 AND r.status IN ('completed', 'failed', 'abandoned') LIMIT $2

-- name: drop_log [sqlite]
-- The log of an attempt was removed.
UPDATE attempt SET log = NULL WHERE token = $1

-- name: drop_log [postgres]
-- The log of an attempt was removed.
UPDATE attempt SET log = NULL, output = NULL, printed = NULL WHERE token = $1

-- name: run_of_attempt [postgres]
-- The id of the run that an attempt belongs to: its log is in that folder.
SELECT r.run_id FROM attempt a JOIN run r ON r.run = a.run WHERE a.token = $1

-- name: snapshot [postgres]
-- A value that moves whenever a transaction of the server that wrote anything ends.
SELECT pg_current_snapshot()::text

-- name: relax [postgres]
-- This transaction need not wait for the disk.
SET LOCAL synchronous_commit = off

-- name: put_blob [sqlite]
-- A blob whose file is durable.
INSERT INTO blob (hash, size, stored, encoding) VALUES ($1, $2, $3, $4) ON CONFLICT (hash) DO NOTHING

-- name: know_blob [postgres]
-- A blob whose pieces are durable is referred to from now on.
UPDATE blob SET known = true, touched = clock_timestamp() WHERE hash = $1 AND NOT known

-- name: need_blob [postgres]
-- A blob that a record is about to refer to; it cannot go before this transaction ends.
SELECT 1 FROM blob WHERE hash = $1 AND known FOR KEY SHARE

-- name: hold_blobs [postgres]
-- Rows of blobs, held until the end of the transaction.
SELECT hash FROM blob WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE

-- name: add_upload [postgres]
-- Begin to save a blob, with its first pieces.
WITH u AS (INSERT INTO upload DEFAULT VALUES RETURNING upload), p AS (
    INSERT INTO piece (upload, number, data)
    SELECT u.upload, t.n - 1, t.d FROM u, unnest($1::bytea[]) WITH ORDINALITY AS t(d, n)
)
SELECT upload FROM u

-- name: add_pieces [postgres]
-- More pieces of a blob, unless a sweep took it for a leftover; the same pieces may come twice.
WITH u AS (UPDATE upload SET begun = clock_timestamp() WHERE upload = $1 RETURNING upload)
INSERT INTO piece (upload, number, data)
SELECT u.upload, $2 + t.n - 1, t.d FROM u, unnest($3::bytea[]) WITH ORDINALITY AS t(d, n) ON CONFLICT DO NOTHING

-- name: hold_uploads [postgres]
-- What a blob is about to have: a sweep that takes it for a leftover meanwhile finds it changed.
UPDATE upload SET begun = clock_timestamp() WHERE upload = ANY($1::bigint[]) RETURNING upload

-- name: drop_uploads [postgres]
-- What was saved for nothing.
WITH p AS (DELETE FROM piece WHERE upload = ANY($1::bigint[]))
DELETE FROM upload WHERE upload = ANY($1::bigint[])

-- name: drop_former [postgres]
-- The pieces that a blob had before it was saved again.
WITH old AS (SELECT upload FROM blob WHERE hash = $1 AND upload <> $2), p AS (
    DELETE FROM piece WHERE upload IN (SELECT upload FROM old)
)
DELETE FROM upload WHERE upload IN (SELECT upload FROM old)

-- name: put_blob [postgres]
-- All pieces of a blob are there. The commit that refers to it may come much later: until then its grace has not begun.
INSERT INTO blob (hash, size, stored, encoding, upload, touched)
VALUES ($1, $3, $4, $5, $2, clock_timestamp() + make_interval(secs => $6::float8))
ON CONFLICT (hash) DO UPDATE SET size = excluded.size, stored = excluded.stored, encoding = excluded.encoding,
    upload = excluded.upload, touched = excluded.touched

-- name: refer_to_blob [postgres]
-- A repaired record refers to it, so it has a row; one that had none is not known.
INSERT INTO blob AS b (hash, size, stored, encoding, upload, touched) VALUES ($1, 0, 0, 'raw', 0, 'infinity')
ON CONFLICT (hash) DO UPDATE SET touched = 'infinity' WHERE NOT b.known

-- name: pieces [postgres]
-- Some pieces of a blob, in order.
SELECT p.number, p.data FROM blob b JOIN piece p ON p.upload = b.upload
WHERE b.hash = $1 AND p.number >= $2 ORDER BY p.number LIMIT $3

-- name: blobs [sqlite]
-- Some of all blobs.
SELECT hash, size, stored, encoding FROM blob WHERE hash > $1 ORDER BY hash LIMIT $2

-- name: blobs [postgres]
-- Some of all blobs that are known.
SELECT hash, size, stored, encoding FROM blob WHERE known AND hash > $1 ORDER BY hash LIMIT $2

-- name: drop_value_if_unused [sqlite]
-- Forget bytes that no record, live or superseded, has.
DELETE FROM value WHERE hash = $1
AND NOT EXISTS (SELECT 1 FROM record r WHERE r.hash = $1 AND r.data IS NULL)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.hash = $1 AND p.data IS NULL) RETURNING length(data)

-- name: drop_value_if_unused [postgres]
-- Forget bytes that no record, live or superseded, has.
DELETE FROM value WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM record r WHERE r.outside = $1)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.outside = $1) RETURNING length(data)

-- name: drop_blob_if_unused [sqlite]
-- Forget a blob that no record, live or superseded, refers to.
DELETE FROM blob WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM record r WHERE r.blob = $1)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.blob = $1) RETURNING stored

-- name: drop_blob_if_unused [postgres]
-- A blob that nothing refers to is known no more; its pieces stay for a while.
UPDATE blob SET known = false, touched = clock_timestamp() WHERE hash = $1 AND known
AND NOT EXISTS (SELECT 1 FROM record r WHERE r.blob = $1) AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.printed = $1)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.blob = $1) RETURNING stored

-- name: lock_values [postgres]
-- A transaction that is about to refer to one of these is waited for.
SELECT hash FROM value WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE

-- name: stray_values [sqlite]
-- Values that nothing refers to, left by a prune that was cut short.
SELECT hash FROM value v WHERE NOT EXISTS (SELECT 1 FROM record r WHERE r.hash = v.hash AND r.data IS NULL)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.hash = v.hash AND p.data IS NULL)

-- name: stray_values [postgres]
-- Values that nothing refers to, left by a prune that was cut short.
SELECT hash FROM value v WHERE NOT EXISTS (SELECT 1 FROM record r WHERE r.outside = v.hash)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.outside = v.hash)

-- name: stray_blobs [sqlite]
-- Blobs that nothing refers to.
SELECT hash FROM blob b WHERE NOT EXISTS (SELECT 1 FROM record r WHERE r.blob = b.hash)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.blob = b.hash)

-- name: stray_blobs [postgres]
-- Blobs that nothing refers to.
SELECT hash FROM blob b WHERE known AND NOT EXISTS (SELECT 1 FROM record r WHERE r.blob = b.hash)
AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.printed = b.hash)
AND NOT EXISTS (SELECT 1 FROM past p WHERE p.blob = b.hash)

-- name: due_blobs [postgres]
-- Blobs that have been unknown for longer than their grace; a transaction that takes one back meanwhile is waited for.
SELECT hash, upload FROM blob WHERE NOT known AND touched < clock_timestamp() - make_interval(secs => $1::float8)
ORDER BY hash LIMIT $2 FOR UPDATE

-- name: empty_blobs [postgres]
-- Their rows.
DELETE FROM blob WHERE hash = ANY($1::bytea[]) AND NOT known RETURNING stored

-- name: due_uploads [postgres]
-- What was saved, or half saved, and belongs to no blob. One that is being given to a blob is held, and passed over.
SELECT upload FROM upload u WHERE begun < clock_timestamp() - make_interval(secs => $1::float8)
AND NOT EXISTS (SELECT 1 FROM blob b WHERE b.upload = u.upload) ORDER BY upload LIMIT $2 FOR UPDATE SKIP LOCKED

-- name: unsealed
-- Versions that are not sealed can no longer be read once their records go. At most a batch.
SELECT seq FROM version WHERE run = $1 AND seq < $2 AND checkpoint IS NULL ORDER BY seq LIMIT $3

-- name: keep_tokens
-- The tokens of the newest versions that are about to go: their commits may be tried again.
INSERT INTO token (run, token, seq, digest, at)
SELECT run, token, seq, digest, at FROM version WHERE run = $1 AND seq >= $2 AND seq IN ({seqs}) ON CONFLICT DO NOTHING

-- name: forget_versions
-- Versions that are pruned.
DELETE FROM version WHERE run = $1 AND seq IN ({seqs})

-- name: forget_aliases
-- The other names of versions that are gone.
DELETE FROM alias WHERE run = $1 AND seq IN ({seqs})

-- name: drop_tokens
-- The kept tokens of versions below one.
DELETE FROM token WHERE run = $1 AND seq < $2

-- name: drop_idle_tokens
-- The kept tokens of runs that rest: no commit of theirs is tried again.
DELETE FROM token WHERE run NOT IN (SELECT run FROM run WHERE status IN ('running', 'blocked'))

-- name: past_batch
-- Superseded records of a run, in order, a batch at a time, and whether any kept version still sees them.
SELECT p.collection, p.key, p.until, p.hash, p.data IS NULL, p.blob, 64 + length(p.key) + coalesce(length(p.data), 0),
       EXISTS (SELECT 1 FROM version v WHERE v.run = p.run AND v.seq >= p.seq AND v.seq < p.until)
FROM past p WHERE p.run = $1 AND (p.collection, p.key, p.until) > ($2, $3, $4)
ORDER BY p.collection, p.key, p.until LIMIT $5

-- name: drop_past
-- A superseded record that no kept version sees.
DELETE FROM past WHERE run = $1 AND collection = $2 AND key = $3 AND until = $4

-- name: record_batch
-- Live records of a run, a batch at a time, without their bytes.
SELECT collection, key, hash, data IS NULL, blob, 64 + length(key) + coalesce(length(data), 0) FROM record
WHERE run = $1 LIMIT $2

-- name: drop_versions
-- Versions of a run that is being removed, a batch at a time.
DELETE FROM version WHERE run = $1 AND seq IN (SELECT seq FROM version WHERE run = $1 LIMIT $2) RETURNING seq

-- name: hidden_runs
-- Runs that are being removed.
SELECT run, run_id FROM run WHERE hidden = 1 AND run > 0

-- name: runs_to_check
-- Every run that fsck looks at: those that are being removed are left out.
SELECT run FROM run WHERE hidden IN (0, 2, 3) AND run > 0 ORDER BY run

-- name: every_record
-- Live records with all that is kept of them, some at a time: fsck reads them all.
SELECT r.collection, r.key, r.seq, NULL, r.hash, coalesce(r.data, (SELECT v.data FROM value v WHERE v.hash = r.hash)),
       r.blob, r.status, r.leaf
FROM record r WHERE r.run = $1 AND (r.collection, r.key) > ($2, $3) ORDER BY r.collection, r.key LIMIT $4

-- name: every_past
-- The same of superseded ones.
SELECT p.collection, p.key, p.seq, p.until, p.hash, coalesce(p.data, (SELECT v.data FROM value v WHERE v.hash = p.hash)),
       p.blob, NULL, NULL
FROM past p WHERE p.run = $1 AND (p.collection, p.key, p.until) > ($2, $3, $4)
ORDER BY p.collection, p.key, p.until LIMIT $5

-- name: all_values
-- Values, some at a time, to be hashed again.
SELECT hash, data FROM value WHERE hash > $1 ORDER BY hash LIMIT $2

-- name: rows_of_no_run
-- Rows whose run is not there, by table and run.
SELECT 'record', run, count(*) FROM record WHERE run NOT IN (SELECT run FROM run) GROUP BY run
UNION ALL SELECT 'past', run, count(*) FROM past WHERE run NOT IN (SELECT run FROM run) GROUP BY run
UNION ALL SELECT 'version', run, count(*) FROM version WHERE run NOT IN (SELECT run FROM run) GROUP BY run
UNION ALL SELECT 'alias', run, count(*) FROM alias WHERE run NOT IN (SELECT run FROM run) GROUP BY run
UNION ALL SELECT 'lease', run, count(*) FROM lease WHERE run NOT IN (SELECT run FROM run) GROUP BY run
UNION ALL SELECT 'attempt', run, count(*) FROM attempt WHERE run NOT IN (SELECT run FROM run) GROUP BY run

-- name: hidden_but_complete
-- Runs that are hidden although they have versions under a name that is a run's own.
SELECT run, run_id FROM run r WHERE hidden = 1 AND run > 0 AND strpos(run_id, ' ') = 0
AND EXISTS (SELECT 1 FROM version v WHERE v.run = r.run)

-- name: newest_commit
-- The greatest number that a commit has.
SELECT coalesce(max(n), 0) FROM version

-- name: make_quarantine [postgres]
-- Where repair puts what it takes out; nothing in there is ever deleted.
CREATE TABLE IF NOT EXISTS quarantine (repair text NOT NULL, source text NOT NULL, kept jsonb NOT NULL)

-- name: catch_up [postgres]
-- No commit gets a number that another one has.
SELECT setval('commit_number', n) FROM (SELECT max(n) AS n FROM version) v
WHERE n > (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number)
