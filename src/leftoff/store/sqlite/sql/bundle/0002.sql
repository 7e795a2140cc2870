-- The second layout: the first one, and what the run has lost. A bundle of a run that lost nothing has the first.

-- Files and large values that records refer to and that were gone, by the sha256 of their content.
CREATE TABLE lost (
    hash BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
