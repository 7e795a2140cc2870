"""Whether a run of a workflow file was begun here, by this user: only then its commands run without a question.

A run carries its workflow with it, and may come from anywhere: from a bundle, or with a whole store that lay in a
repository. So whoever begins one leaves a mark beside it in the store, which only this user can make, and no bundle
takes along. A run without it is shown and asked about before its first command runs. Who says yes leaves the mark.
"""

from __future__ import annotations

from leftoff.engine.config.trust import signer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    Mark = Callable[[Tx, int, str], None]

BEGUN, TRUSTED = "begun", "trusted"  # how a run came to its mark


def marker(how: str = BEGUN) -> Mark | None:
    """What leaves the mark, in a transaction; ``None`` where this user has no folder that can be written."""
    sign = signer(make=True)
    if sign is None:
        return None
    return lambda tx, run, run_id: tx.put_fact(_name(run), f"{how} {sign(_text(run, run_id))}")


def can_mark() -> bool:
    """Whether this user has a key, or can have one."""
    return signer(make=True) is not None


def how_ours(view: View, row: RunRow) -> str | None:
    """How a run came to its mark; ``None`` where it has none of this user's."""
    how, _, mark = (view.fact(_name(row.run)) or "").partition(" ")
    sign = signer() if mark else None
    return how if sign is not None and sign(_text(row.run, row.run_id)) == mark else None


def is_ours(store: Store, row: RunRow) -> bool:
    """Whether a run was begun, or trusted, by this user."""
    return store.read(lambda view: how_ours(view, row)) is not None


def trust_run(store: Store, row: RunRow) -> None:
    """A person saw what it would run, and said yes."""
    mark = marker(TRUSTED)
    if mark is not None:
        store.write(lambda tx: mark(tx, row.run, row.run_id))


def distrust(tx: Tx, row: RunRow) -> None:
    """The yes is taken back."""
    tx.put_fact(_name(row.run), None)


# -- runs that leave the store for a while


def note_leaving(view: View, row: RunRow) -> str | None:
    """What vouches for the bundle of a run that leaves as it is now; ``None`` where nothing does."""
    sign = signer() if how_ours(view, row) is not None else None
    return sign(_left(row.run_id, row.digest)) if sign is not None else None


def came_back(said: object, run_id: str, digest: bytes) -> Mark | None:
    """The mark of a run that comes back as it left. ``said``: what vouches for that."""
    sign = signer()
    return marker() if sign is not None and sign(_left(run_id, digest)) == said else None


def _name(run: int) -> str:
    return f"ours {run}"


def _text(run: int, run_id: str) -> str:
    return f"run {run} {run_id}"


def _left(run_id: str, digest: bytes) -> str:
    return f"left {run_id} {digest.hex()}"
