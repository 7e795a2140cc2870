-- Listings by the newest commit, runs by session and issue, and logs that are longer than their last part.

ALTER TABLE run ADD COLUMN IF NOT EXISTS era bigint GENERATED ALWAYS AS (n >> 10) STORED; -- changes seldom, so that most commits touch no index
CREATE INDEX IF NOT EXISTS run_era ON run (era) WHERE hidden = 0; -- the newest runs, without a look at the others
CREATE INDEX IF NOT EXISTS run_session ON run (session) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_issue ON run (issue) WHERE issue IS NOT NULL;

ALTER TABLE attempt ADD COLUMN IF NOT EXISTS printed bytea REFERENCES blob; -- all of what it printed, where that is more than `output`
CREATE INDEX IF NOT EXISTS attempt_printed ON attempt (printed) WHERE printed IS NOT NULL;
