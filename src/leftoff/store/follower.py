"""Who keeps the files of a protocol in step with a store, and says how that protocol opens and seals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leftoff.store.base import SqlStore, Tx
    from leftoff.store.rows import RunRow


class Follower:
    """It is a layer above that makes one; the engine asks it, inside the transaction, where there is one."""

    #: the store without it: what is written there is in the files after the next ``sync``
    store: SqlStore

    def look(self) -> None:
        """Take in what others did to the files."""
        raise NotImplementedError

    def sync(self, *, look: bool = True) -> None:
        """Bring the files up to date, after a look at them."""
        raise NotImplementedError

    def write_again(self, run: int) -> None:
        """Bring the files of a run up to date, whatever is known of them."""
        raise NotImplementedError

    def deleted(self, run_id: str) -> str | None:
        """A file of a run that somebody deleted, and that was not written again since."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """Which files could not be kept in step, and why."""
        raise NotImplementedError

    def outside(self, row: RunRow) -> str | None:
        """What is to be said of a new run that the protocol's files do not show."""
        raise NotImplementedError

    def withdraw(self, *, dry: bool = False) -> list[str]:
        """Take the documents that it wrote out of the project, until the next commit of their runs; their paths.
        ``dry``: only say which."""
        raise NotImplementedError

    def run_of_file(self, path: str) -> str | None:
        """The run that a file of the project is written for, where it is one of those."""
        raise NotImplementedError

    def own_files(self) -> frozenset[str]:
        """The files that it writes, by their paths in the project: what becomes of them is nobody's change."""
        raise NotImplementedError

    def run_id(self, opening: Any, at: int, *, again: bool = False) -> str | None:
        """The id of a run that opens so; ``again``: the id that it would have had each time before."""
        raise NotImplementedError

    def steps(self, opening: Any, at: int) -> list[str]:
        """The steps of a run that opens so, where none were given."""
        raise NotImplementedError

    def seal(self, tx: Tx, run: int, changes: Any, seal: Any) -> Any:
        """How the protocol seals a commit that is about to be made; ``None``: not at all."""
        raise NotImplementedError
