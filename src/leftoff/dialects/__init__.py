"""Foreign checkpoint formats: read, written, and kept in step with the store.

A dialect is one module with two pure functions, ``decode`` (a document into records) and ``encode`` (a run at a version
into a document), and data: names, words, retention. What a document says in a way that leftoff would not is kept beside
the records (``leftoff.dialects.core.residue``), so that a document which was read is written again as it was.
"""
