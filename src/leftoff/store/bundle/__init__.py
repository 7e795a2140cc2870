"""The file of a bundle: one run in an SQLite database of its own."""
