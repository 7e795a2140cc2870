"""The interface of the layer that keeps a protocol's files in sync with a store."""

from __future__ import annotations

from typing import Any

from leftoff.store.base import SqlStore, Tx
from leftoff.store.rows import RunRow


class Follower:
    """A higher layer creates one. The engine calls it inside the transaction."""

    #: the store without it: its changes are in the files after the next ``sync``
    store: SqlStore

    def look(self) -> None:
        """Import what others did to the files."""
        raise NotImplementedError

    def sync(self, *, look: bool = True) -> None:
        """Bring the files up to date, after a look at them."""
        raise NotImplementedError

    def write_again(self, run: int) -> None:
        """Bring the files of a run up to date."""
        raise NotImplementedError

    def deleted(self, run_id: str) -> str | None:
        """Return a file of the run that was deleted, and was not written again since."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """Which files could not be kept in step, and why."""
        raise NotImplementedError

    def outside(self, row: RunRow) -> str | None:
        """Return the notice for a new run that the protocol's files do not show."""
        raise NotImplementedError

    def withdraw(self, *, dry: bool = False) -> list[str]:
        """Take the documents that it wrote out of the project, until the next commit of their runs; their paths.
        ``dry``: only say which."""
        raise NotImplementedError

    def run_of_file(self, path: str) -> str | None:
        """Return the run that a file of the project shows, if any."""
        raise NotImplementedError

    def own_files(self) -> frozenset[str]:
        """Return the files that it writes. Their changes are not reported as changes."""
        raise NotImplementedError

    def run_id(self, opening: Any, at: int, *, again: bool = False) -> str | None:
        """The id of a run that opens so; ``again``: the id that it would have had each time before."""
        raise NotImplementedError

    def steps(self, opening: Any, at: int) -> list[str]:
        """Return the steps of a run that opens like this, if none were given."""
        raise NotImplementedError

    def seal(self, tx: Tx, run: int, changes: Any, seal: Any) -> Any:
        """How the protocol seals a commit that is about to be made; ``None``: not at all."""
        raise NotImplementedError
