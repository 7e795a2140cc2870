"""The files of a project, as a run knows them: captured, compared, put back.

A file is known by one record, `file/PATH`: its hash, size and mode (or where a symbolic link points to), what became of
it (created, modified, deleted), and a copy of its content in the store. So a version of a run also says what its files
were, and going back to it can bring them back.

Three rules hold everywhere. Nothing is ever written to, or read from, a path that leads out of the project. Nothing is
overwritten or deleted whose content was not saved first, durably. And what was begun is finished: before the first
file is touched, a journal says what will be done, and whoever comes next completes it.
"""
