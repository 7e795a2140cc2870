"""The embedded store: one SQLite file, its log, its lock, its migrations."""
