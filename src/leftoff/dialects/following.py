"""A store whose commits bring a protocol's files up to date, and which takes in what others did to them."""

from __future__ import annotations

from leftoff.dialects.mirror import Mirror
from leftoff.dialects.project import mirrored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from leftoff.engine.settings import Settings
    from leftoff.store.base import Store, Tx

    T = TypeVar("T")


class Followed:
    """The same store, followed by a mirror: everything but writing goes straight to it."""

    def __init__(self, store: Store, mirror: Mirror) -> None:
        self.__dict__["_store"] = store
        self.__dict__["_mirror"] = mirror

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_store"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_store"], name, value)

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        done: T = self.__dict__["_store"].write(fn, durable=durable)
        self.__dict__["_mirror"].sync()
        return done

    def prune(self, run: int, drop: Any) -> int:
        """Files of checkpoints that are gone go too."""
        freed = int(self.__dict__["_store"].prune(run, drop))
        self.__dict__["_mirror"].sync()
        return freed

    def remove(self, run: int, *more: Any) -> int:
        freed = int(self.__dict__["_store"].remove(run, *more))
        self.__dict__["_mirror"].sync()
        return freed


def follow(
    store: Store, project: str, settings: Settings, clock: Callable[[], int], say: Callable[[str], None]
) -> Store:
    """The project's store, with its mirror; edits of others are taken in at once."""
    dialect = mirrored(project, settings)
    if dialect is None or getattr(store, "folder", None) is None:
        return store
    mirror = Mirror(store, project, dialect, settings.redactor(), clock, say)
    mirror.look()
    followed: Any = Followed(store, mirror)
    return followed  # type: ignore[no-any-return]
