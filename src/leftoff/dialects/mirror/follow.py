"""A store whose commits bring a protocol's files up to date, and which takes in what others did to them."""

from __future__ import annotations

from leftoff.dialects.mirror.mirror import Mirror
from leftoff.dialects.registry import mirrored
from leftoff.engine.read.which import SESSION
from leftoff.store.follower import Follower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from leftoff.engine.config.settings import Settings
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow

    T = TypeVar("T")


class Protocol(Follower):
    """What a project's protocol has to say of its runs, and the mirror that writes them."""

    def __init__(self, mirror: Mirror, mask: Callable[[str], str]) -> None:
        self.store = mirror.store
        self.mirror = mirror
        self.dialect = mirror.dialect
        self._mask = mask
        self._config: Any = None

    def look(self) -> None:
        self.mirror.look()

    def sync(self, *, look: bool = True) -> None:
        self.mirror.sync(look=look)

    def write_again(self, run: int) -> None:
        self.mirror.write_again(run)

    def deleted(self, run_id: str) -> str | None:
        return self.mirror.deleted(run_id)

    def problems(self) -> list[str]:
        return self.mirror.problems()

    def outside(self, row: RunRow) -> str | None:
        if row.workflow == SESSION or self.dialect.includes(row):
            return None
        name = self.dialect.name
        return (
            f"{row.run_id} is in none of the files of {name}; `{self.dialect.starts}` begins a run that is."
        )

    def withdraw(self, *, dry: bool = False) -> list[str]:
        return self.mirror.withdraw(dry=dry)

    def own_files(self) -> frozenset[str]:
        memory = self.mirror.memory
        return frozenset((*memory.remembered("files"), *memory.remembered("written")))

    def run_of_file(self, path: str) -> str | None:
        memory = self.mirror.memory
        followed = memory.remembered("files").get(path)
        return str(followed["run"]) if followed else memory.remembered("written").get(path)

    def run_id(self, opening: Opening, at: int, *, again: bool = False) -> str | None:
        return None if again and not self.dialect.fixed_ids else self._opening(opening, at)[0]

    def steps(self, opening: Opening, at: int) -> list[str]:
        return self._opening(opening, at)[1]

    def _opening(self, opening: Opening, at: int) -> tuple[str | None, list[str]]:
        title = self._mask(opening.title) if opening.title else None
        given = {"workflow": opening.workflow, "title": title}
        return self.dialect.opening(given | {key: opening.facts.get(key) for key in ("issue", "task")}, at)

    def read_config(self) -> None:
        """Before a transaction: inside, no file is read. What is wrong with it stops no verb."""
        self._config = self.mirror.config()

    def seal(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None) -> Seal | None:
        row = tx.run_row(run)
        own = self._config is not None and row is not None and self.dialect.includes(row)
        return self.dialect.sealed(tx, run, changes, seal, self._config) if own else seal


class Followed:
    """The same store, followed by a mirror: everything but writing goes straight to it."""

    follower: Protocol

    def __init__(self, follower: Protocol) -> None:
        self.__dict__["follower"] = follower

    def __getattr__(self, name: str) -> Any:
        return getattr(self.follower.store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.follower.store, name, value)

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        def work(tx: Tx) -> T:
            tx.follower = self.follower
            try:
                return fn(tx)
            finally:
                tx.follower = None

        self.follower.read_config()
        done = self.follower.store.write(work, durable=durable)
        self.follower.sync()
        return done

    def prune(self, run: int, drop: Any) -> int:
        """Files of checkpoints that are gone go too."""
        freed = self.follower.store.prune(run, drop)
        self.follower.mirror.write_again(run)
        return freed

    def remove(self, run: int, *more: Any) -> int:
        freed = self.follower.store.remove(run, *more)
        self.follower.sync()
        return int(freed)


def follow(
    store: Store, project: str, settings: Settings, clock: Callable[[], int], say: Callable[[str], None]
) -> Store:
    """The project's store, with its mirror."""
    own = mirrored(project, settings)
    if own is None:
        return store
    mirror = Mirror(store, project, own, settings, clock, say)
    followed: Any = Followed(Protocol(mirror, settings.redactor().mask))
    return followed  # type: ignore[no-any-return]
