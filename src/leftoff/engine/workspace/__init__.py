"""The files of a project, as a run knows them: tracked, compared, restored.

A run knows a file by one record, `file/PATH`: its hash, size and mode (or the target of a link), what became of it
(created, modified, deleted), and a copy of its content in the store. So a version of a run is also a manifest of its
files, and a rollback can restore them.

Two rules hold everywhere. Nothing is written to, or read from, a path that leads out of the project. Nothing is
overwritten or deleted whose content was not saved first, durably.
"""
