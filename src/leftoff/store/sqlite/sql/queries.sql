-- Every query of the SQLite store, each with a name and the reason it exists.

-- name: head
-- Where a run stands, and the epoch that fences it. The first thing every commit reads.
SELECT seq, digest, counts, coalesce((SELECT epoch FROM lease WHERE run = ?1), 0), run_id FROM run
WHERE run = ?1 AND hidden <> 2

-- name: next_n
-- The store-wide number of the next commit: row 0 of the listing is the store itself, so it shares a page with it.
UPDATE run SET n = n + 1 WHERE run = 0

-- name: move_head
-- A commit moves the head of its run. An archived run is active again.
UPDATE run SET n = (SELECT n FROM run WHERE run = 0), seq = ?, digest = ?, counts = ?, updated_at = ?, checkpoint = ?,
       hidden = CASE hidden WHEN 3 THEN 0 ELSE hidden END WHERE run = ?

-- name: add_version
-- One row per commit.
INSERT INTO version (run, seq, n, token, digest, epoch, at, counts, checkpoint, trigger, step, note)
VALUES (?, ?, (SELECT n FROM run WHERE run = 0), ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: terms
-- The first live records of a run, as far as they count for its digest.
SELECT collection, key, hash FROM record WHERE run = ? LIMIT ?

-- name: unlisted
-- A run that is looked for without the index of their ids.
SELECT 1 FROM run NOT INDEXED WHERE run_id = ?1 AND (hidden IN (0, 3) OR ?2) AND run > 0

-- name: headless
-- A run that can be seen, and whose head is not its newest version.
SELECT r.run_id FROM run r WHERE r.run = ? AND r.hidden = 0
AND r.seq <> coalesce((SELECT max(v.seq) FROM version v WHERE v.run = r.run), 0)

-- name: any_headless
-- The same, of all runs that have a commit since a number.
SELECT r.run_id FROM run r WHERE r.n >= ? AND r.hidden = 0
AND r.seq <> coalesce((SELECT max(v.seq) FROM version v WHERE v.run = r.run), 0) LIMIT 1

-- name: count_runs
-- How many runs their table has, and how many the index of their ids.
SELECT (SELECT count(*) FROM run NOT INDEXED), (SELECT count(*) FROM run INDEXED BY sqlite_autoindex_run_1)

-- name: row
-- What is live under one key, without its bytes.
SELECT hash, status, ord, leaf FROM record WHERE run = ? AND collection = ? AND key = ?

-- name: supersede
-- Keep what is about to be replaced, readable at the versions that saw it.
INSERT INTO past (run, collection, key, until, seq, hash, data, blob)
SELECT run, collection, key, ?, seq, hash, data, blob FROM record WHERE run = ? AND collection = ? AND key = ?

-- name: put_record
-- Make this the live record of its key.
REPLACE INTO record (run, collection, key, seq, hash, data, blob, status, ord, leaf) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop_record
-- The key has no live record any more.
DELETE FROM record WHERE run = ? AND collection = ? AND key = ?

-- name: set_leaf
-- A step got its first step below it, or lost its last.
UPDATE record SET leaf = ? WHERE run = ? AND collection = 'step' AND key = ?

-- name: has_below
-- Whether any step is below this one.
SELECT 1 FROM record WHERE run = ? AND collection = 'step' AND key > ? AND key < ? LIMIT 1

-- name: last_key
-- The last live key in a range: where the next entry of a list goes.
SELECT key FROM record WHERE run = ? AND collection = ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT 1

-- name: hashes
-- The live keys of a range with their hashes, to write only what differs.
SELECT key, hash FROM record WHERE run = ? AND collection = ? AND key >= ? AND key < ?

-- name: record
-- One live record with its bytes.
SELECT seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = ? AND collection = ? AND key = ?

-- name: live
-- The live records of one collection, in key order.
SELECT collection, key, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = ? AND collection = ? ORDER BY key

-- name: bulk
-- The live records of one collection, in key order, and no more of each than is hashed.
SELECT key, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = ? AND collection = ? ORDER BY key

-- name: live_range
-- The live records of one collection between two keys, in key order.
SELECT collection, key, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = ? AND collection = ? AND key >= ? AND key < ? ORDER BY key

-- name: live_at
-- The live records of one collection that a version saw already.
SELECT collection, key, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = record.hash)) FROM record
WHERE run = ? AND collection = ? AND seq <= ?

-- name: collections
-- The collections that have live records, by hopping from one to the next.
WITH RECURSIVE c(name) AS (
    SELECT min(collection) FROM record WHERE run = ?1
    UNION ALL
    SELECT (SELECT min(collection) FROM record WHERE run = ?1 AND collection > c.name) FROM c WHERE c.name IS NOT NULL
) SELECT name FROM c WHERE name IS NOT NULL

-- name: past_collections
-- The collections that have superseded records.
WITH RECURSIVE c(name) AS (
    SELECT min(collection) FROM past WHERE run = ?1
    UNION ALL
    SELECT (SELECT min(collection) FROM past WHERE run = ?1 AND collection > c.name) FROM c WHERE c.name IS NOT NULL
) SELECT name FROM c WHERE name IS NOT NULL

-- name: past_next_key
-- The oldest superseded record of the next key: reading an old version hops from key to key, not over the history.
SELECT key, until, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = past.hash)) FROM past
WHERE run = ? AND collection = ? AND key > ? ORDER BY key, until LIMIT 1

-- name: past_at
-- The superseded record of one key that was live after a version, if any was.
SELECT until, seq, hash, coalesce(data, (SELECT v.data FROM value v WHERE v.hash = past.hash)) FROM past
WHERE run = ? AND collection = ? AND key = ? AND until > ? ORDER BY until LIMIT 1

-- name: put_value
-- Larger bytes, once each.
INSERT OR IGNORE INTO value (hash, data) VALUES (?, ?)

-- name: add_run
-- A new run, before its first commit.
INSERT INTO run (run_id, n, seq, digest, counts, updated_at, created_at, workflow, branch, status, hidden)
VALUES (?, (SELECT n FROM run WHERE run = 0), 0, zeroblob(32), ?, ?, ?, ?, ?, ?, ?)

-- name: set_card
-- The listing's copy of the `run` records. A run in the trash or the archive stays there.
UPDATE run SET workflow = ?, branch = ?, status = ?, title = ?, issue = ?, session = ?, card = ?,
       hidden = CASE WHEN hidden > 1 THEN hidden ELSE ? END WHERE run = ?

-- name: run_columns
-- What a listing shows of a run (a fragment that other queries complete).
SELECT r.run, r.run_id, r.n, r.seq, r.digest, r.counts, r.updated_at, r.created_at, r.workflow, r.branch, r.status,
       r.title, r.issue, r.session, r.card, r.hidden, r.checkpoint
FROM run r

-- name: leaves
-- The first leaf steps of a status, in declared order; and the status that each has itself, which no index is asked for.
SELECT key, (SELECT r.status FROM record r NOT INDEXED WHERE r.run = l.run AND r.collection = 'step' AND r.key = l.key)
FROM record l INDEXED BY record_leaf WHERE run = ? AND status = ? AND leaf = 1 ORDER BY ord LIMIT ?

-- name: leaves_counted
-- How many leaf steps a run has by status, as its head says; and how many of one the index has, as far as they are counted.
SELECT r.counts, (SELECT count(*) FROM (SELECT 1 FROM record INDEXED BY record_leaf
WHERE run = r.run AND status = ?2 AND leaf = 1 LIMIT ?3)) FROM run r WHERE r.run = ?1

-- name: leaf_page
-- The next leaf steps of a status behind a place, in declared order; of those that have a word in their path.
SELECT ord, key FROM record INDEXED BY record_leaf
WHERE run = ?1 AND status = ?2 AND leaf = 1 AND (ord, key) > (?3, ?4)
AND (?5 = '' OR instr(lower(key), lower(?5)) OR instr(lower(key), lower(?6))) ORDER BY ord, key LIMIT ?7

-- name: leaf_counts
-- How many leaf steps there are below a step, by status.
SELECT status, count(*) FROM record WHERE run = ? AND collection = 'step' AND key > ? AND key < ? AND leaf = 1 GROUP BY status

-- name: last_order
-- The greatest order among leaf steps: an undeclared step goes behind it. One seek for each status.
SELECT max(last) FROM (
    SELECT (
        SELECT max(ord) FROM record INDEXED BY record_leaf
        WHERE run = ?1 AND status = word.value AND leaf = 1 AND ord >= ?2 AND ord < ?3
    ) AS last
    FROM (
        SELECT 'pending' AS value UNION ALL SELECT 'running' UNION ALL SELECT 'waiting' UNION ALL SELECT 'completed'
        UNION ALL SELECT 'failed' UNION ALL SELECT 'blocked' UNION ALL SELECT 'skipped'
    ) AS word
)

-- name: lives
-- When the commits under each epoch were made.
SELECT epoch, min(at), max(at), count(*) FROM version WHERE run = ? GROUP BY epoch ORDER BY epoch

-- name: version_columns
-- A version as it is read back (a fragment that other queries complete).
SELECT r.run_id, v.seq, v.digest, v.at, v.n, v.epoch, v.counts, v.checkpoint, v.trigger, v.step, v.note, v.run,
       (SELECT group_concat(a.name, char(10)) FROM alias a WHERE a.run = v.run AND a.seq = v.seq)
FROM version v JOIN run r ON r.run = v.run

-- name: token_since
-- Whether a commit that is tried again was applied already.
SELECT seq FROM version WHERE run = ? AND seq > ? AND token = ?

-- name: forgotten
-- What is left of a commit whose version was pruned: it must not be applied again either.
SELECT value FROM meta WHERE name = ?

-- name: meta_range
-- Facts about the store whose names lie in a range.
SELECT name, value FROM meta WHERE name >= ? AND name < ?

-- name: drop_meta
-- A fact about the store that is one no more.
DELETE FROM meta WHERE name = ?

-- name: bounds
-- The oldest and the newest version that can be read.
SELECT min(seq), max(seq) FROM version WHERE run = ?

-- name: uncounted
-- A run whose checkpoints are not as many in the list of versions as by their ids: each is on a page of its own.
SELECT r.run_id FROM run r WHERE r.run = ?1
AND (SELECT count(*) FROM version INDEXED BY version_checkpoint WHERE checkpoint IS NOT NULL AND run = ?1)
 <> (SELECT count(at) FROM version WHERE run = ?1 AND +checkpoint IS NOT NULL)

-- name: around
-- The nearest versions before and after one that can be read.
SELECT (SELECT max(seq) FROM version WHERE run = ? AND seq < ?), (SELECT min(seq) FROM version WHERE run = ? AND seq > ?)

-- name: other_names
-- The other names of checkpoints that start with some text.
SELECT DISTINCT a.name FROM alias a JOIN run r ON r.run = a.run
WHERE a.name >= ? AND a.name < ? AND r.hidden IN (0, 3) ORDER BY a.name LIMIT ?

-- name: other_names_of_run
-- The same, of one run.
SELECT DISTINCT name FROM alias WHERE name >= ? AND name < ? AND run = ? ORDER BY name LIMIT ?

-- name: add_alias
-- Another name for a checkpoint.
INSERT OR IGNORE INTO alias (name, run, seq) VALUES (?, ?, ?)

-- name: lease
-- Who drives a run.
SELECT epoch, kind, scope, pid, started, session, who, since, beat FROM lease WHERE run = ?

-- name: leases
-- Every lease that somebody holds.
SELECT r.run_id, l.epoch, l.kind, l.scope, l.pid, l.started, l.session, l.who, l.since, l.beat
FROM lease l JOIN run r ON r.run = l.run WHERE l.kind IS NOT NULL

-- name: put_lease
-- Take, change or free a lease; the row stays, so the epoch only grows.
REPLACE INTO lease (run, epoch, kind, scope, pid, started, session, who, since, beat) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: activate
-- A run that somebody drives is not archived any more.
UPDATE run SET hidden = 0 WHERE run = ? AND hidden = 3

-- name: beat
-- Still here.
UPDATE lease SET beat = ? WHERE run = ? AND epoch = ? AND kind IS NOT NULL RETURNING epoch

-- name: add_attempt
-- The next try at a step.
INSERT INTO attempt (token, run, step, number, scope, pid, started, log, started_at)
VALUES (?1, ?2, ?3, (SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE run = ?2 AND step = ?3), ?4, ?5, ?6, ?7, ?8)
RETURNING number

-- name: attempt
-- What a token stands for, and which try at its step is the current one.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.step = a.step), a.token
FROM attempt a WHERE a.token = ?

-- name: attempts
-- Every try at the steps of a run.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.step = a.step), a.token
FROM attempt a WHERE a.run = ? ORDER BY a.step, a.number

-- name: latest_attempts
-- The last tries that began between two moments, newest first.
SELECT a.run, a.step, a.number, a.scope, a.pid, a.started, a.log, a.started_at, a.ended_at, a.exit_code,
       (SELECT max(b.number) FROM attempt b WHERE b.run = a.run AND b.step = a.step), a.token
FROM attempt a WHERE a.token IN (
    SELECT token FROM attempt WHERE run = ?1 AND started_at >= ?2 AND started_at < ?3
    ORDER BY started_at DESC, step DESC, number DESC LIMIT ?4
) ORDER BY a.started_at DESC, a.step DESC, a.number DESC

-- name: set_attempt_process
-- The process that an attempt turned out to be.
UPDATE attempt SET scope = ?, pid = ?, started = ? WHERE token = ?

-- name: drop_attempt
-- A try that never began counts for nothing.
DELETE FROM attempt WHERE token = ?

-- name: end_attempt
-- How a try ended.
UPDATE attempt SET ended_at = ?, exit_code = ? WHERE token = ?

-- name: blob
-- Whether a blob is known.
SELECT size, stored, encoding FROM blob WHERE hash = ?

-- name: put_blob
-- A blob whose file is durable.
INSERT OR IGNORE INTO blob (hash, size, stored, encoding) VALUES (?, ?, ?, ?)

-- name: blobs
-- Every blob.
SELECT hash, size, stored, encoding FROM blob ORDER BY hash

-- name: drop_blob_if_unused
-- Forget a blob that no record, live or superseded, refers to.
DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM record INDEXED BY record_blob WHERE blob = ?1)
AND NOT EXISTS (SELECT 1 FROM past INDEXED BY past_blob WHERE blob = ?1) RETURNING hash

-- name: drop_value_if_unused
-- Forget bytes that no record, live or superseded, has.
DELETE FROM value WHERE hash = ?1
AND NOT EXISTS (SELECT 1 FROM record INDEXED BY record_value WHERE hash = ?1 AND data IS NULL)
AND NOT EXISTS (SELECT 1 FROM past INDEXED BY past_value WHERE hash = ?1 AND data IS NULL)

-- name: forget_versions
-- Versions of a span that are not sealed can no longer be read once their records go. At most a batch.
DELETE FROM version WHERE run = ?1 AND seq IN (
    SELECT seq FROM version WHERE run = ?1 AND seq > ?2 AND seq < ?3 AND checkpoint IS NULL ORDER BY seq LIMIT ?4
) RETURNING seq, token, digest, at

-- name: forget_version
-- One version that was asked for by name.
DELETE FROM version WHERE run = ? AND seq = ? RETURNING seq, token, digest, at

-- name: forget_aliases
-- The other names of a version that is gone.
DELETE FROM alias WHERE run = ? AND seq = ?

-- name: drop_idle_tokens
-- The kept tokens of runs that rest: nobody tries a commit of theirs again.
DELETE FROM meta WHERE name >= 'token:' AND name < 'token;' AND CAST(substr(name, 7) AS INTEGER) NOT IN (
    SELECT run FROM run WHERE status IN ('running', 'blocked')
)

-- name: past_batch
-- Superseded records of a run, in order, a batch at a time, and whether any kept version still sees them.
SELECT p.collection, p.key, p.until, p.hash, p.data IS NULL, p.blob,
       EXISTS (SELECT 1 FROM version v WHERE v.run = p.run AND v.seq >= p.seq AND v.seq < p.until)
FROM past p WHERE p.run = ?1 AND (p.collection, p.key, p.until) > (?2, ?3, ?4)
ORDER BY p.collection, p.key, p.until LIMIT ?5

-- name: drop_past
-- A superseded record that no kept version sees.
DELETE FROM past WHERE run = ? AND collection = ? AND key = ? AND until = ?

-- name: record_batch
-- Live records of a run, a batch at a time, without their bytes.
SELECT collection, key, hash, data IS NULL, blob FROM record WHERE run = ? LIMIT ?

-- name: drop_versions
-- Versions of a run that is being removed, a batch at a time.
DELETE FROM version WHERE run = ?1 AND seq IN (SELECT seq FROM version WHERE run = ?1 LIMIT ?2) RETURNING seq

-- name: drop_run_rows
-- The rest of a run that is being removed.
DELETE FROM run WHERE run = ?

-- name: drop_lease
-- Nobody drives a run that is gone.
DELETE FROM lease WHERE run = ?

-- name: drop_attempts
-- Nor are there tries at its steps.
DELETE FROM attempt WHERE run = ?

-- name: drop_all_aliases
-- Nor names of its checkpoints.
DELETE FROM alias WHERE run = ?

-- name: hide_run
-- A run that is being removed is not seen any more.
UPDATE run SET hidden = 1, run_id = ? WHERE run = ?

-- name: reveal_run
-- A run that was imported is complete.
UPDATE run SET hidden = 0, run_id = ? WHERE run = ?

-- name: set_hidden
-- Active (0), in the trash (2) or archived (3).
UPDATE run SET hidden = ? WHERE run = ?

-- name: newest_n
-- The number of the newest commit.
SELECT n FROM run WHERE run = 0

-- name: stamps
-- By the clocks of then, the last commit of each hour; and the greatest number of a commit in it.
SELECT max(at), max(n) FROM version GROUP BY at / 3600000 ORDER BY 1

-- name: size
-- About how many bytes some runs take. What they share with others counts in full, or not at all (?2).
WITH own (run) AS (SELECT value FROM json_each(?1))
SELECT (SELECT count(*) * 128 FROM version WHERE run IN own)
     + (SELECT coalesce(sum(64 + length(key) + coalesce(length(data), 0)), 0) FROM record WHERE run IN own)
     + (SELECT coalesce(sum(64 + length(key) + coalesce(length(data), 0)), 0) FROM past WHERE run IN own)
     + (SELECT coalesce(sum(length(data)), 0) FROM value v WHERE hash IN (
            SELECT hash FROM record WHERE run IN own AND data IS NULL
            UNION SELECT hash FROM past WHERE run IN own AND data IS NULL)
        AND NOT (?2 AND (EXISTS (SELECT 1 FROM record WHERE hash = v.hash AND data IS NULL AND run NOT IN own)
                      OR EXISTS (SELECT 1 FROM past WHERE hash = v.hash AND data IS NULL AND run NOT IN own))))
     + (SELECT coalesce(sum(stored), 0) FROM blob b WHERE hash IN (
            SELECT blob FROM record WHERE run IN own AND blob IS NOT NULL
            UNION SELECT blob FROM past WHERE run IN own AND blob IS NOT NULL)
        AND NOT (?2 AND (EXISTS (SELECT 1 FROM record WHERE blob = b.hash AND run NOT IN own)
                      OR EXISTS (SELECT 1 FROM past WHERE blob = b.hash AND run NOT IN own))))

-- name: stray_values
-- Values that nothing refers to, left by a prune that was cut short.
SELECT hash FROM value v WHERE NOT EXISTS (SELECT 1 FROM record INDEXED BY record_value WHERE hash = v.hash AND data IS NULL)
AND NOT EXISTS (SELECT 1 FROM past INDEXED BY past_value WHERE hash = v.hash AND data IS NULL) LIMIT ?

-- name: stray_blobs
-- Blobs that nothing refers to.
SELECT hash FROM blob b WHERE NOT EXISTS (SELECT 1 FROM record INDEXED BY record_blob WHERE blob = b.hash)
AND NOT EXISTS (SELECT 1 FROM past INDEXED BY past_blob WHERE blob = b.hash) LIMIT ?

-- name: every_record
-- Every record, live and superseded, with its bytes: fsck reads them all.
SELECT p.collection, p.key, p.seq, p.until, p.hash, coalesce(p.data, (SELECT v.data FROM value v WHERE v.hash = p.hash)),
       p.blob, p.status, p.leaf
FROM (
    SELECT collection, key, seq, NULL AS until, hash, data, blob, status, leaf FROM record WHERE run = ?1
    UNION ALL
    SELECT collection, key, seq, until, hash, data, blob, NULL, NULL FROM past WHERE run = ?1
) p

-- name: runs_to_check
-- Every run that fsck looks at: those on their way in or out are nobody's yet, or no longer.
SELECT run FROM run WHERE hidden IN (0, 2, 3) AND run > 0 ORDER BY run

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
SELECT run_id FROM run WHERE hidden = 1 AND run > 0 AND instr(run_id, ' ') = 0
AND EXISTS (SELECT 1 FROM version v WHERE v.run = run.run)

-- name: newest_commit
-- The greatest number that a commit has, and the number that the store gave last.
SELECT (SELECT coalesce(max(n), 0) FROM version), (SELECT n FROM run WHERE run = 0)

-- name: all_values
-- Every value, to be hashed again.
SELECT hash, data FROM value

-- name: meta
-- What the store says of itself.
SELECT name, value FROM meta
WHERE name IN ('store_id', 'created_at', 'created_by', 'written_by', 'schema')

-- name: fact
-- What was noted under one name.
SELECT value FROM meta WHERE name = ?

-- name: put_meta
-- One fact about the store.
REPLACE INTO meta (name, value) VALUES (?, ?)
