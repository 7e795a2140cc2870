-- Listings by the newest commit, runs by session and issue, and logs that are longer than their last part.

ALTER TABLE run ADD COLUMN era bigint GENERATED ALWAYS AS (n >> 10) STORED; -- changes seldom, so that most commits touch no index
CREATE INDEX run_era ON run (era) WHERE hidden = 0; -- the newest runs, without a look at the others
CREATE INDEX run_session ON run (session) WHERE session IS NOT NULL;
CREATE INDEX run_issue ON run (issue) WHERE issue IS NOT NULL;

ALTER TABLE attempt ADD COLUMN printed bytea REFERENCES blob; -- all of what it printed, where that is more than `output`
CREATE INDEX attempt_printed ON attempt (printed) WHERE printed IS NOT NULL;
