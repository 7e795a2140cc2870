"""Rows and bytes: where they are stored, and in which order they become durable. Knows no workflow.

``leftoff.store.base`` states what every store owes. Which store a location means, and how it is written, is known here
alone: nobody above asks whether it is the embedded one (``leftoff.store.sqlite``) or one on a server
(``leftoff.store.postgres``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leftoff.errors import Unsupported, Usage, extra_hint

if TYPE_CHECKING:
    from leftoff.clock import Clock
    from leftoff.store.base import SqlStore

_FOLDERS, _SERVERS = ("sqlite", "file"), ("postgresql", "postgres")  # how URLs begin


def folder_of(location: str) -> str | None:
    """Return the folder that a store's location names; ``None`` if it is not a folder."""
    scheme, mark, rest = location.partition("://")
    word, colon, _ = location.partition(":")
    if colon and not mark and word in (*_FOLDERS, *_SERVERS):
        raise Usage(
            f"The URL of the store is wrong: two slashes follow {word}:",
            hint="postgresql://USER@HOST/DATABASE?project=NAME, or a folder: LEFTOFF_STORE=.leftoff",
        )
    return location if not mark else rest if scheme in _FOLDERS else None


def open_store(location: str, folders: str, clock: Clock | None = None) -> SqlStore:
    """A store by its folder or URL. Nothing is created before the first write.

    ``folders``: where facts of this machine about stores elsewhere are, in a folder for each.
    """
    folder = folder_of(location)
    if folder is not None:
        from leftoff.store.sqlite import SqliteStore

        return SqliteStore(folder, clock)
    if not _is_server(location):
        scheme = location.partition("://")[0]
        raise Unsupported(
            f"This leftoff has no store for {scheme}:// URLs.",
            hint="Use a folder (LEFTOFF_STORE=.leftoff), or postgresql://USER@HOST/DATABASE?project=NAME.",
        )
    try:
        from leftoff.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "psycopg":
            raise
        raise Unsupported(
            "A store on PostgreSQL needs psycopg, which is not installed.",
            hint=extra_hint("postgres"),
        ) from None
    return PostgresStore(location, folders, clock)


def local_store_folder(location: str, folders: str) -> str:
    """``Store.folder`` of a store by its folder or URL, which is not opened for it."""
    folder = folder_of(location)
    if folder is not None or not _is_server(location):
        return folder or location
    from leftoff.store.server_location import server_folder

    return server_folder(location, folders)


def shown_location(location: str) -> str:
    """A store's folder or URL as people may see it."""
    if not _is_server(location):
        return location
    from leftoff.store.server_location import ServerPlace

    return ServerPlace(location).name


def _is_server(location: str) -> bool:
    return location.partition("://")[0] in _SERVERS
