"""Documents into runs: found, read, and written as new runs, or merged into those that are here."""
