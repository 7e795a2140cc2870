-- Every query of the PostgreSQL store, each with a name and the reason it exists.

-- name: begin_read
-- One snapshot for all that is read.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: begin_write
-- Each statement sees what is committed by then; what a run's row protects is locked first.
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: relax
-- This transaction need not wait for the disk.
SET LOCAL synchronous_commit = off

-- name: opened
-- By which number this transaction is known should the answer to its end be lost; which schema it finds; the store's id.
SELECT pg_current_xact_id()::text, (SELECT value FROM meta WHERE name = 'schema'),
       (SELECT value FROM meta WHERE name = 'store_id')

-- name: writable
-- Whether this server takes writes, and from this role.
SELECT has_table_privilege('run', 'UPDATE') AND NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::bool

-- name: outcome
-- What became of a transaction whose end nobody heard of.
SELECT pg_xact_status($1::text::xid8)

-- name: committed
-- Whether a version is there by its token, or was before a prune: true of one commit only, also on another server after a
-- failover.
SELECT 1 FROM version WHERE run = $1 AND seq = $2 AND token = $3 UNION ALL SELECT 1 FROM meta WHERE name = $4

-- name: there
-- Whether there is a store. By rows: what `to_regclass` remembers may be older than a lock that was waited for.
-- And whether the role is kept out of the schema: its tables are as if they were not there then.
SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = 'meta'),
       EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = $1 AND NOT has_schema_privilege(n.oid, 'USAGE'))

-- name: works
-- Whether the server works on something for a session, rather than to wait for it.
SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event IS DISTINCT FROM 'ClientRead')

-- name: hold
-- Take a run for the rest of this transaction, and say where it stands. The first thing every commit does.
SELECT seq, digest, counts, epoch, run_id, hidden, status FROM run WHERE run = $1 FOR UPDATE

-- name: head
-- Where a run stands, for who only reads.
SELECT seq, digest, counts, epoch, run_id FROM run WHERE run = $1 AND hidden <> 2

-- name: run_columns
-- What a listing shows of a run (a fragment that other queries complete).
SELECT r.run, r.run_id, r.n, r.seq, r.digest, r.counts, r.updated_at, r.created_at, r.workflow, r.branch, r.status,
       r.title, r.issue, r.session, r.card, r.hidden, r.checkpoint
FROM run r

-- name: small
-- The first live records of a run, with all that is known of each: a small run is read at once.
SELECT collection, coalesce(whole, key), seq, hash, data, status, ord, leaf FROM record WHERE run = $1 LIMIT $2

-- name: rows
-- What is live under some keys, with the bytes that are in the row; and whether any step is below.
SELECT t.c, t.k, r.seq, r.hash, r.data, r.status, r.ord, r.leaf, t.c = 'step' AND EXISTS (
    SELECT 1 FROM record b WHERE b.run = $1 AND b.collection = 'step'
    AND b.key > (t.k || '/') COLLATE "C" AND b.key < (t.k || '0') COLLATE "C"
)
FROM unnest($2::text[], $3::text[]) AS t(c, k)
LEFT JOIN record r ON r.run = $1 AND r.collection = t.c COLLATE "C" AND r.key = t.k COLLATE "C"

-- name: row
-- What is live under one key, without its bytes.
SELECT hash, status, ord, leaf FROM record WHERE run = $1 AND collection = $2 AND key = $3

-- name: record
-- One live record with its bytes.
SELECT r.seq, r.hash, coalesce(r.data, v.data) FROM record r LEFT JOIN value v ON v.hash = r.outside
WHERE r.run = $1 AND r.collection = $2 AND r.key = $3

-- name: live
-- The live records of one collection between two keys, in key order, so many at a time.
SELECT r.key, coalesce(r.whole, r.key), r.seq, r.hash, coalesce(r.data, v.data)
FROM record r LEFT JOIN value v ON v.hash = r.outside
WHERE r.run = $1 AND r.collection = $2 AND r.key >= $3 AND ($4::text IS NULL OR r.key < $4 COLLATE "C")
ORDER BY r.key LIMIT $5

-- name: hashes
-- The live keys of a range with their hashes, to write only what differs.
SELECT coalesce(whole, key), hash FROM record
WHERE run = $1 AND collection = $2 AND key >= $3 AND ($4::text IS NULL OR key < $4 COLLATE "C")
ORDER BY key

-- name: last_key
-- The last live key in a range: where the next entry of a list goes.
SELECT coalesce(whole, key) FROM record
WHERE run = $1 AND collection = $2 AND key >= $3 AND key < $4 ORDER BY key DESC LIMIT 1

-- name: has_below
-- Whether any step is below this one.
SELECT 1 FROM record WHERE run = $1 AND collection = 'step' AND key > $2 AND key < $3 LIMIT 1

-- name: records_at
-- The records of one collection that a version saw.
SELECT coalesce(r.whole, r.key), r.seq, r.hash, coalesce(r.data, v.data)
FROM record r LEFT JOIN value v ON v.hash = r.outside
WHERE r.run = $1 AND r.collection = $2 AND r.seq <= $3
UNION ALL
SELECT coalesce(p.whole, p.key), p.seq, p.hash, coalesce(p.data, v.data)
FROM past p LEFT JOIN value v ON v.hash = p.outside
WHERE p.run = $1 AND p.collection = $2 AND p.seq <= $3 AND p.until > $3

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

-- name: leaves
-- The first leaf steps of a status, in declared order.
SELECT coalesce(whole, key) FROM record WHERE run = $1 AND status = $2 AND leaf = 1 ORDER BY left(ord, 500), ord LIMIT $3

-- name: leaf_page
-- The next leaf steps of a status behind a place, in declared order; of those that have a word in their path.
SELECT ord, coalesce(whole, key) FROM record WHERE run = $1 AND status = $2 AND leaf = 1
AND left(ord, 500) >= left($3, 500) AND (ord, coalesce(whole, key)) > ($3, $4)
AND ($5 = '' OR position(lower($5 COLLATE "C") in lower(coalesce(whole, key) COLLATE "C")) > 0
    OR position(lower($6 COLLATE "C") in lower(coalesce(whole, key) COLLATE "C")) > 0)
ORDER BY left(ord, 500), ord, coalesce(whole, key) LIMIT $7

-- name: leaf_counts
-- How many leaf steps there are below a step, by status.
SELECT status, count(*) FROM record
WHERE run = $1 AND collection = 'step' AND leaf = 1 AND starts_with(coalesce(whole, key), $2) GROUP BY status

-- name: last_order
-- The greatest order among leaf steps: an undeclared step goes behind it.
SELECT max(ord) FROM record WHERE run = $1 AND leaf = 1 AND left(ord, 500) >= left($2, 500) AND ord >= $2 AND ord < $3

-- name: lives
-- When the commits under each epoch were made.
SELECT epoch, min(at), max(at), count(*) FROM version WHERE run = $1 GROUP BY epoch ORDER BY epoch

-- name: version_columns
-- A version as it is read back (a fragment that other queries complete).
SELECT r.run_id, v.seq, v.digest, v.at, v.n, v.epoch, v.counts, v.checkpoint, v.trigger, v.step, v.note, v.run,
       (SELECT string_agg(a.name, chr(10)) FROM alias a WHERE a.run = v.run AND a.seq = v.seq)
FROM version v JOIN run r ON r.run = v.run

-- name: bounds
-- The oldest and the newest version that can be read.
SELECT min(seq), max(seq) FROM version WHERE run = $1

-- name: around
-- The nearest versions before and after one that can be read.
SELECT (SELECT max(seq) FROM version WHERE run = $1 AND seq < $2), (SELECT min(seq) FROM version WHERE run = $1 AND seq > $2)

-- name: token_since
-- Whether a commit that is tried again was applied already.
SELECT seq FROM version WHERE run = $1 AND seq > $2 AND token = $3

-- name: other_names
-- The other names of checkpoints that start with some text.
SELECT DISTINCT a.name FROM alias a JOIN run r ON r.run = a.run
WHERE a.name >= $1 AND a.name < $2 AND r.hidden IN (0, 3) AND ($3::bigint IS NULL OR a.run = $3) ORDER BY a.name LIMIT $4

-- name: first_leaves
-- Of each run of a listing (a fragment comes in between) the first leaf of the statuses that it has any of.
SELECT s.run, w.status, l.key, l.ord FROM ({listing}) s
JOIN (VALUES ('pending', 1, '[0'), ('running', 2, '0'), ('waiting', 3, '0'), ('failed', 5, '0')) AS w(status, at, none)
ON (s.counts NOT LIKE '[0,0,0,%' OR w.at = 5) AND split_part(s.counts, ',', w.at) <> w.none
CROSS JOIN LATERAL (
    SELECT coalesce(whole, key) AS key, ord FROM record
    WHERE run = s.run AND status = w.status AND leaf = 1 ORDER BY left(ord, 500), ord LIMIT 1
) l

-- name: their_leases
-- Of each run of a listing that is not finished the lease.
SELECT l.run, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat,
       (extract(epoch FROM clock_timestamp() - l.heard) * 1000)::bigint
FROM lease l JOIN ({listing}) s ON s.run = l.run WHERE s.status NOT IN ('completed', 'abandoned')

-- name: lease
-- Who drives a run, and for how many milliseconds nothing was heard of it, by the server's clock.
SELECT epoch, kind, scope, pid, started, session, who, since, beat,
       (extract(epoch FROM clock_timestamp() - heard) * 1000)::bigint
FROM lease WHERE run = $1

-- name: leases
-- Every lease that somebody holds.
SELECT r.run_id, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat,
       (extract(epoch FROM clock_timestamp() - l.heard) * 1000)::bigint
FROM lease l JOIN run r ON r.run = l.run WHERE l.kind IS NOT NULL

-- name: attempt
-- What a token stands for, and which try at its step is the current one.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.place = a.place), a.token
FROM attempt a WHERE a.token = $1

-- name: attempts
-- Every try at the steps of a run.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       max(a.number) OVER (PARTITION BY a.place), a.token
FROM attempt a WHERE a.run = $1 ORDER BY a.step, a.number

-- name: latest_attempts
-- The last tries that began between two moments, newest first.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.place = a.place), a.token
FROM attempt a WHERE a.run = $1 AND a.started_at >= $2 AND a.started_at < $3
ORDER BY a.started_at DESC, a.step DESC, a.number DESC LIMIT $4

-- name: last_attempts
-- How often some steps were tried.
SELECT t.p, coalesce((SELECT max(a.number) FROM attempt a WHERE a.run = $1 AND a.place = t.p COLLATE "C"), 0)
FROM unnest($2::text[]) AS t(p)

-- name: blob
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
-- Facts about the store whose names lie in a range.
SELECT name, value FROM meta WHERE name >= $1 AND name < $2

-- name: put_meta
-- One fact about the store.
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_meta
-- A fact about the store that is one no more.
DELETE FROM meta WHERE name = $1

-- name: newest_n
-- The number of the newest commit.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number

-- name: stamps
-- By the clocks of then, the last commit of each hour; and the greatest number of a commit in it.
SELECT max(at), max(n) FROM version GROUP BY at / 3600000 ORDER BY 1

-- name: size
-- About how many bytes some runs take. What they share with others counts in full, or not at all ($2).
SELECT ((SELECT count(*) * 128 FROM version WHERE run = ANY($1::bigint[]))
     + (SELECT coalesce(sum(64 + length(key) + coalesce(octet_length(data), 0)), 0) FROM record WHERE run = ANY($1))
     + (SELECT coalesce(sum(64 + length(key) + coalesce(octet_length(data), 0)), 0) FROM past WHERE run = ANY($1))
     + (SELECT coalesce(sum(octet_length(data)), 0) FROM value v WHERE hash IN (
            SELECT outside FROM record WHERE run = ANY($1) UNION SELECT outside FROM past WHERE run = ANY($1))
        AND NOT ($2::boolean AND (EXISTS (SELECT 1 FROM record WHERE outside = v.hash AND run <> ALL($1))
                               OR EXISTS (SELECT 1 FROM past WHERE outside = v.hash AND run <> ALL($1)))))
     + (SELECT coalesce(sum(stored), 0) FROM blob b WHERE hash IN (
            SELECT blob FROM record WHERE run = ANY($1) UNION SELECT blob FROM past WHERE run = ANY($1))
        AND NOT ($2 AND (EXISTS (SELECT 1 FROM record WHERE blob = b.hash AND run <> ALL($1))
                      OR EXISTS (SELECT 1 FROM past WHERE blob = b.hash AND run <> ALL($1))))))::bigint

-- name: start_turn
-- Those who start a run of the same workflow and branch do so one after the other, until each is durable.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || chr(10) || $1 || chr(10) || $2, 0))

-- name: add_run
-- A new run, before its first commit.
INSERT INTO run (run_id, n, seq, digest, counts, updated_at, created_at, workflow, branch, status, hidden)
VALUES ($1, 0, 0, decode(repeat('00', 32), 'hex'), $2, $3, $3, $4, $5, $6, $7) RETURNING run

-- name: set_card
-- The listing's copy of the `run` records.
UPDATE run SET workflow = $1, branch = $2, status = $3, title = $4, issue = $5, session = $6, card = $7, hidden = $8
WHERE run = $9

-- name: reveal_run
-- A run that was imported is complete.
UPDATE run SET hidden = 0, run_id = $1 WHERE run = $2

-- name: set_hidden
-- Into the trash (2), and back (0).
UPDATE run SET hidden = $1 WHERE run = $2

-- name: trash_fact
-- Since when a run lies in the trash, and how many commits there were by then.
INSERT INTO meta (name, value)
SELECT $1, $2 || ' ' || CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: hide_run
-- A run that is being removed is not seen any more.
UPDATE run SET hidden = 1, run_id = $1 WHERE run = $2

-- name: add_version
-- One row per commit, which moves the head of its run: from where it is known to stand, in which schema. Where that is
-- not so, the version gets no number, and so all fails.
WITH m AS (
    UPDATE run SET n = nextval('commit_number'), seq = $2, digest = $4, counts = $7, updated_at = $6, checkpoint = $8
    WHERE run = $1 AND seq = $12 AND digest = $13 AND epoch = $14 AND hidden = $15 AND counts = $17
      AND (SELECT value FROM meta WHERE name = 'schema') = $16
    RETURNING n
)
INSERT INTO version (run, seq, n, token, digest, epoch, at, counts, checkpoint, trigger, step, note)
VALUES ($1, $2, (SELECT n FROM m), $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: supersede
-- Keep what is about to be replaced, readable at the versions that saw it (a fragment, which goes with what replaces it:
-- all parts of a statement see what was there before it).
INSERT INTO past (run, collection, key, whole, until, seq, hash, data, outside, blob)
SELECT r.run, r.collection, r.key, r.whole, $2, r.seq, r.hash, r.data, r.outside, r.blob
FROM record r WHERE r.run = $1 AND r.collection = $3 AND r.key = $4

-- name: put
-- Make this the live record of its key.
INSERT INTO record (run, seq, collection, key, whole, hash, data, outside, blob, status, ord, leaf)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (run, collection, key) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, data = excluded.data,
    outside = excluded.outside, blob = excluded.blob, status = excluded.status, ord = excluded.ord, leaf = excluded.leaf

-- name: drop
-- This key has no live record any more.
DELETE FROM record WHERE run = $1 AND collection = $3 AND key = $4

-- name: supersede_many
-- The same for many of one commit.
INSERT INTO past (run, collection, key, whole, until, seq, hash, data, outside, blob)
SELECT r.run, r.collection, r.key, r.whole, $2, r.seq, r.hash, r.data, r.outside, r.blob
FROM unnest($3::text[], $4::text[]) AS t(c, k)
JOIN record r ON r.run = $1 AND r.collection = t.c COLLATE "C" AND r.key = t.k COLLATE "C"

-- name: put_many
-- The same for many of one commit.
INSERT INTO record (run, seq, collection, key, whole, hash, data, outside, blob, status, ord, leaf)
SELECT $1, $2, t.c, t.k, t.w, t.h, t.d, t.o, t.b, t.s, t.r, t.l
FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[],
            $10::text[], $11::text[], $12::bigint[]) AS t(c, k, w, h, d, o, b, s, r, l)
ON CONFLICT (run, collection, key) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, data = excluded.data,
    outside = excluded.outside, blob = excluded.blob, status = excluded.status, ord = excluded.ord, leaf = excluded.leaf

-- name: drop_many
-- The same for many of one commit.
DELETE FROM record r USING unnest($2::text[], $3::text[]) AS t(c, k)
WHERE r.run = $1 AND r.collection = t.c COLLATE "C" AND r.key = t.k COLLATE "C"

-- name: as_left
-- Hold a run of which this process knows where it stands. Where it stands elsewhere, this divides by zero.
SELECT 1 / count(*) FROM (
    SELECT FROM run, meta
    WHERE run.run = $1 AND run.seq = $2 AND run.digest = $3 AND run.epoch = $4 AND run.hidden = $5 AND run.counts = $7
      AND meta.name = 'schema' AND meta.value = $6
    FOR UPDATE OF run
) AS found

-- name: pass_by
-- A version in which nothing changes, where a run stands as in `as_left`: what was sent to it before and comes later finds
-- it elsewhere.
WITH m AS (
    UPDATE run SET n = nextval('commit_number'), seq = seq + 1, checkpoint = NULL
    WHERE run = $1 AND seq = $2 AND digest = $3 AND epoch = $4 AND hidden = $5 AND counts = $7
      AND (SELECT value FROM meta WHERE name = 'schema') = $6
    RETURNING n, seq, digest, epoch, updated_at, counts
)
INSERT INTO version (run, seq, n, token, digest, epoch, at, counts)
SELECT $1::bigint, seq, n, $8::bytea, digest, epoch, updated_at, counts FROM m

-- name: put_values
-- Larger bytes, once each.
INSERT INTO value (hash, data) SELECT h, d FROM unnest($1::bytea[], $2::bytea[]) AS t(h, d) ORDER BY h
ON CONFLICT (hash) DO NOTHING

-- name: set_leaf
-- A step got its first step below it, or lost its last.
UPDATE record SET leaf = $1 WHERE run = $2 AND collection = 'step' AND key = $3

-- name: add_alias
-- Another name for a checkpoint.
INSERT INTO alias (name, run, seq) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: put_lease
-- Take, change or free a lease; the row stays, so the epoch only grows.
INSERT INTO lease (run, epoch, kind, scope, pid, started, session, who, since, beat, heard)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, clock_timestamp())
ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, kind = excluded.kind, scope = excluded.scope,
    pid = excluded.pid, started = excluded.started, session = excluded.session, who = excluded.who,
    since = excluded.since, beat = excluded.beat, heard = excluded.heard

-- name: set_epoch
-- The epoch that commits are fenced by.
UPDATE run SET epoch = $1 WHERE run = $2

-- name: beat
-- Still here.
UPDATE lease SET beat = $1, heard = clock_timestamp() WHERE run = $2 AND epoch = $3 AND kind IS NOT NULL RETURNING epoch

-- name: snapshot
-- Which transactions are over.
SELECT pg_current_snapshot()::text

-- name: watch
-- Whoever watches a project holds this for as long as its connection lasts.
SELECT pg_advisory_lock_shared(hashtextextended($1, 1))

-- name: tell
-- Those who watch hear of these runs. Where nobody holds that lock, nobody is told: a notification makes all who send one
-- wait for each other. Who begins to watch right after this looks at what is committed first.
SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t
WHERE NOT (
    SELECT CASE WHEN pg_try_advisory_lock(hashtextextended($1, 1)) THEN pg_advisory_unlock(hashtextextended($1, 1))
                ELSE false END
)

-- name: add_attempt
-- A try at a step.
INSERT INTO attempt (token, run, step, place, number, scope, pid, started, log, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: set_attempt_process
-- The process that an attempt turned out to be.
UPDATE attempt SET scope = $1, pid = $2, started = $3 WHERE token = $4

-- name: drop_attempt
-- A try that never began counts for nothing.
DELETE FROM attempt WHERE token = $1

-- name: end_attempt
-- How a try ended.
UPDATE attempt SET ended_at = $1, exit_code = $2, output = coalesce($4::bytea, output) WHERE token = $3

-- name: kept_log
-- What it printed last.
SELECT output, printed FROM attempt WHERE token = $1

-- name: keep_log
-- What it printed, where more of that comes later than its end.
UPDATE attempt SET output = coalesce($2::bytea, output), printed = coalesce($3::bytea, printed) WHERE token = $1

-- name: know_blob
-- A blob whose pieces are durable is referred to from now on.
UPDATE blob SET known = true, touched = clock_timestamp() WHERE hash = $1 AND NOT known

-- name: hold_blobs
-- Rows of blobs, held until the end of the transaction, and where those lie.
SELECT hash, upload FROM blob WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE

-- name: blob_upload
-- Where a blob lies.
SELECT upload FROM blob WHERE hash = $1

-- name: need_blob
-- A blob that a record is about to refer to; it cannot go before this transaction ends.
SELECT 1 FROM blob WHERE hash = $1 AND known FOR KEY SHARE

-- name: add_upload
-- Begin to save a blob, with its first pieces.
WITH u AS (INSERT INTO upload DEFAULT VALUES RETURNING upload), p AS (
    INSERT INTO piece (upload, number, data)
    SELECT u.upload, t.n - 1, t.d FROM u, unnest($1::bytea[]) WITH ORDINALITY AS t(d, n)
)
SELECT upload FROM u

-- name: add_pieces
-- More pieces of a blob, as long as nobody took it for a leftover; the same pieces may come twice.
WITH u AS (UPDATE upload SET begun = clock_timestamp() WHERE upload = $1 RETURNING upload)
INSERT INTO piece (upload, number, data)
SELECT u.upload, $2 + t.n - 1, t.d FROM u, unnest($3::bytea[]) WITH ORDINALITY AS t(d, n) ON CONFLICT DO NOTHING

-- name: hold_uploads
-- What a blob is about to have: whoever takes it for a leftover meanwhile finds it changed.
UPDATE upload SET begun = clock_timestamp() WHERE upload = ANY($1::bigint[]) RETURNING upload

-- name: drop_uploads
-- What was saved for nothing.
WITH p AS (DELETE FROM piece WHERE upload = ANY($1::bigint[]))
DELETE FROM upload WHERE upload = ANY($1::bigint[])

-- name: drop_former
-- The pieces that a blob had before it was saved again.
WITH old AS (SELECT upload FROM blob WHERE hash = $1 AND upload <> $2), p AS (
    DELETE FROM piece WHERE upload IN (SELECT upload FROM old)
)
DELETE FROM upload WHERE upload IN (SELECT upload FROM old)

-- name: put_blob
-- All pieces of a blob are there. Whoever saved it may commit much later: until then its grace has not begun.
INSERT INTO blob (hash, size, stored, encoding, upload, touched)
VALUES ($1, $3, $4, $5, $2, clock_timestamp() + make_interval(secs => $6::float8))
ON CONFLICT (hash) DO UPDATE SET size = excluded.size, stored = excluded.stored, encoding = excluded.encoding,
    upload = excluded.upload, touched = excluded.touched

-- name: pieces
-- Some pieces of a blob, in order.
SELECT p.number, p.data FROM blob b JOIN piece p ON p.upload = b.upload
WHERE b.hash = $1 AND p.number >= $2 ORDER BY p.number LIMIT $3

-- name: all_blobs
-- Some of all blobs that are known.
SELECT hash, size, stored, encoding FROM blob WHERE known AND hash > $1 ORDER BY hash LIMIT $2

-- name: forget_named
-- Versions that were asked for by name; never what was the head when this began.
DELETE FROM version WHERE run = $1 AND seq = ANY($2::bigint[]) AND seq < $3 RETURNING seq, token, digest, at

-- name: forget_unsealed
-- Versions that are not sealed can no longer be read once their records go. At most a batch.
DELETE FROM version WHERE run = $1 AND seq IN (
    SELECT seq FROM version WHERE run = $1 AND seq < $2 AND checkpoint IS NULL ORDER BY seq LIMIT $3
) RETURNING seq, token, digest, at

-- name: forget_aliases
-- The other names of versions that are gone.
DELETE FROM alias WHERE run = $1 AND seq = ANY($2::bigint[])

-- name: put_metas
-- Several facts about the store.
INSERT INTO meta (name, value) SELECT n, v FROM unnest($1::text[], $2::text[]) AS t(n, v)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_metas
-- Several facts that are none any more.
DELETE FROM meta WHERE name = ANY($1::text[])

-- name: drop_idle_tokens
-- The kept tokens of runs that rest: nobody tries a commit of theirs again.
DELETE FROM meta WHERE name >= 'token:' AND name < 'token;' AND split_part(name, ':', 2)::bigint NOT IN (
    SELECT run FROM run WHERE status IN ('running', 'blocked')
)

-- name: past_batch
-- Superseded records of a run, in order, a batch at a time, and whether any kept version still sees them.
SELECT p.collection, p.key, p.until, p.outside, p.blob, 28 + pg_column_size(p),
       EXISTS (SELECT 1 FROM version v WHERE v.run = p.run AND v.seq >= p.seq AND v.seq < p.until)
FROM past p WHERE p.run = $1 AND (p.collection, p.key, p.until) > ($2 COLLATE "C", $3 COLLATE "C", $4)
ORDER BY p.collection, p.key, p.until LIMIT $5

-- name: drop_past
-- Superseded records that no kept version sees.
DELETE FROM past p USING unnest($2::text[], $3::text[], $4::bigint[]) AS t(c, k, u)
WHERE p.run = $1 AND p.collection = t.c COLLATE "C" AND p.key = t.k COLLATE "C" AND p.until = t.u

-- name: remove_records
-- Live records of a run that is being removed, a batch at a time.
DELETE FROM record r USING (SELECT collection, key FROM record WHERE run = $1 LIMIT $2) t
WHERE r.run = $1 AND r.collection = t.collection AND r.key = t.key
RETURNING r.outside, r.blob, 28 + pg_column_size(r)

-- name: remove_past
-- Superseded records of such a run.
DELETE FROM past p USING (SELECT collection, key, until FROM past WHERE run = $1 LIMIT $2) t
WHERE p.run = $1 AND p.collection = t.collection AND p.key = t.key AND p.until = t.until
RETURNING p.outside, p.blob, 28 + pg_column_size(p)

-- name: drop_versions
-- Versions of such a run.
DELETE FROM version WHERE run = $1 AND seq IN (SELECT seq FROM version WHERE run = $1 LIMIT $2) RETURNING seq

-- name: drop_run_rows
-- The rest of it.
DELETE FROM run WHERE run = $1

-- name: drop_lease
-- Nobody drives a run that is gone.
DELETE FROM lease WHERE run = $1

-- name: drop_attempts
-- Nor are there tries at its steps.
DELETE FROM attempt WHERE run = $1

-- name: drop_all_aliases
-- Nor names of its checkpoints.
DELETE FROM alias WHERE run = $1

-- name: lock_values
-- Whoever is about to refer to one of these is waited for.
SELECT hash FROM value WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE

-- name: drop_values
-- Bytes that no record, live or superseded, has.
DELETE FROM value v WHERE hash = ANY($1::bytea[]) AND NOT EXISTS (SELECT 1 FROM record WHERE outside = v.hash)
AND NOT EXISTS (SELECT 1 FROM past WHERE outside = v.hash) RETURNING 28 + pg_column_size(v)

-- name: lock_blobs
-- The same for blobs.
SELECT hash FROM blob WHERE hash = ANY($1::bytea[]) ORDER BY hash FOR UPDATE

-- name: discard_blobs
-- Blobs that no record refers to are known no more; their pieces stay for a while.
UPDATE blob b SET known = false, touched = clock_timestamp() WHERE hash = ANY($1::bytea[]) AND known
AND NOT EXISTS (SELECT 1 FROM record WHERE blob = b.hash) AND NOT EXISTS (SELECT 1 FROM attempt WHERE printed = b.hash)
AND NOT EXISTS (SELECT 1 FROM past WHERE blob = b.hash) RETURNING stored

-- name: stray_values
-- Values that nothing refers to, left by a prune that was cut short.
SELECT hash FROM value v WHERE NOT EXISTS (SELECT 1 FROM record WHERE outside = v.hash)
AND NOT EXISTS (SELECT 1 FROM past WHERE outside = v.hash)

-- name: stray_blobs
-- Blobs that nothing refers to.
SELECT hash FROM blob b WHERE known AND NOT EXISTS (SELECT 1 FROM record WHERE blob = b.hash)
AND NOT EXISTS (SELECT 1 FROM attempt WHERE printed = b.hash)
AND NOT EXISTS (SELECT 1 FROM past WHERE blob = b.hash)

-- name: due_blobs
-- Blobs that have been unknown for longer than their grace; whoever takes one back meanwhile is waited for.
SELECT hash, upload FROM blob WHERE NOT known AND touched < clock_timestamp() - make_interval(secs => $1::float8)
ORDER BY hash LIMIT $2 FOR UPDATE

-- name: empty_blobs
-- Their rows; a file is still there.
DELETE FROM blob WHERE hash = ANY($1::bytea[]) AND NOT known RETURNING CASE WHEN upload < 0 THEN 0 ELSE stored END

-- name: due_uploads
-- What was saved, or half saved, and belongs to no blob. One that is being given to a blob is held, and passed over.
SELECT upload FROM upload u WHERE begun < clock_timestamp() - make_interval(secs => $1::float8)
AND NOT EXISTS (SELECT 1 FROM blob b WHERE b.upload = u.upload) ORDER BY upload LIMIT $2 FOR UPDATE SKIP LOCKED

-- name: hidden_runs
-- Runs on their way in or out.
SELECT run, run_id FROM run WHERE hidden = 1

-- name: count_runs
-- How many runs there are, hidden ones too.
SELECT count(*) FROM run

-- name: bytes
-- What all tables and indexes of this project take on the server's disk.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'

-- name: runs_to_check
-- Every run that fsck looks at: those on their way in or out are nobody's yet, or no longer.
SELECT run FROM run WHERE hidden IN (0, 2, 3) ORDER BY run

-- name: every_record
-- Live records with all that is kept of them, some at a time: fsck reads them all.
SELECT r.collection, r.key, coalesce(r.whole, r.key), r.seq, NULL::bigint, r.hash, coalesce(r.data, v.data), r.blob,
       r.status, r.leaf
FROM record r LEFT JOIN value v ON v.hash = r.outside
WHERE r.run = $1 AND (r.collection, r.key) > ($2 COLLATE "C", $3 COLLATE "C") AND $4 >= 0
ORDER BY r.collection, r.key LIMIT $5

-- name: every_past
-- The same of superseded ones.
SELECT p.collection, p.key, coalesce(p.whole, p.key), p.seq, p.until, p.hash, coalesce(p.data, v.data), p.blob,
       NULL::text, NULL::integer
FROM past p LEFT JOIN value v ON v.hash = p.outside
WHERE p.run = $1 AND (p.collection, p.key, p.until) > ($2 COLLATE "C", $3 COLLATE "C", $4)
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
-- Runs that nobody sees although they have versions under a name that is a run's own.
SELECT run, run_id FROM run r WHERE hidden = 1 AND strpos(run_id, ' ') = 0
AND EXISTS (SELECT 1 FROM version v WHERE v.run = r.run)

-- name: newest_commit
-- The greatest number that a commit has, and the number that the sequence gave last.
SELECT (SELECT coalesce(max(n), 0) FROM version), (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number)

-- name: wrong_epochs
-- Runs whose row has another epoch than their lease: what fences must be one number.
SELECT r.run, r.run_id FROM run r LEFT JOIN lease l ON l.run = r.run WHERE r.epoch <> coalesce(l.epoch, 0)

-- name: make_quarantine
-- Where repair puts what it takes out; nothing in there is ever deleted.
CREATE TABLE IF NOT EXISTS quarantine (repair text NOT NULL, source text NOT NULL, kept jsonb NOT NULL)

-- name: refer_to_blob
-- A record refers to it, so it has a row, which stays; where it had none, it is one that is not known.
INSERT INTO blob AS b (hash, size, stored, encoding, upload, touched) VALUES ($1, 0, 0, 'raw', 0, 'infinity')
ON CONFLICT (hash) DO UPDATE SET touched = 'infinity' WHERE NOT b.known

-- name: catch_up
-- No commit gets a number that another one has.
SELECT setval('commit_number', n) FROM (SELECT max(n) AS n FROM version) v
WHERE n > (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commit_number)

-- name: projects
-- The schemas of this database that hold a project, and that this user may look into.
SELECT s.nspname FROM pg_namespace s
WHERE (s.nspname = 'leftoff' OR starts_with(s.nspname, 'leftoff_')) AND has_schema_privilege(s.oid, 'USAGE')
  AND EXISTS (SELECT 1 FROM pg_class t WHERE t.relnamespace = s.oid AND t.relname = 'run')
ORDER BY 1
