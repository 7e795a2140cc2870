"""Whether a run of a workflow file was begun here, by this user: only then its commands run without a question.

A run carries its workflow with it, and may come from anywhere: from a bundle, or with a whole store that lay in a
repository. So whoever begins one leaves a mark beside it in the store, which only this user can make, and no bundle
takes along. A run without it is shown and asked about before its first command runs. Who says yes leaves the mark, for
the definition that was shown: where another would run, as its file says by then, it is asked about again.
"""

from __future__ import annotations

from leftoff.engine.config.trust import signer
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    Mark = Callable[[Tx, int, str], None]

BEGUN, TRUSTED = "begun", "trusted"  # how a run came to its mark


class Ours(Fields):
    """How a run came to its mark. ``content``: the digest of the definition that was seen when it was trusted; none
    where this user named its file, as to `leftoff run`."""

    how: str = BEGUN
    content: str = ""

    def covers(self, content: str) -> bool:
        """Whether a definition may run without a question: a yes was for the one that was shown."""
        return self.content in ("", content)

    def said(self) -> str:
        return f"{self.how} {self.content}" if self.content else self.how


def marker(ours: Ours | None = None) -> Mark | None:
    """What leaves the mark, in a transaction; ``None`` where this user has no folder that can be written."""
    sign, said = signer(make=True), (ours or Ours()).said()
    if sign is None:
        return None
    return lambda tx, run, run_id: tx.put_fact(_name(run), f"{said} {sign(_text(run, run_id, said))}")


def can_mark() -> bool:
    """Whether this user has a key, or can have one."""
    return signer(make=True) is not None


def how_ours(view: View, row: RunRow) -> Ours | None:
    """How a run came to its mark; ``None`` where it has none of this user's."""
    return _proved(view.fact(_name(row.run)), lambda said: _text(row.run, row.run_id, said))


def is_ours(store: Store, row: RunRow, content: str | None = None) -> bool:
    """Whether a run was begun, or trusted, by this user. ``content``: with this definition, by its digest."""
    found = store.read(lambda view: how_ours(view, row))
    return found is not None and (content is None or found.covers(content))


def trust_run(store: Store, row: RunRow, content: str = "") -> None:
    """A person saw what it would run, and said yes; or named its file."""
    mark = marker(Ours(TRUSTED, content))
    if mark is not None:
        store.write(lambda tx: mark(tx, row.run, row.run_id))


def heir(store: Store, row: RunRow) -> Mark | None:
    """The mark for what is made of a run: as far as that is trusted, and no further."""
    found = store.read(lambda view: how_ours(view, row))
    return marker(found) if found is not None else None


def distrust(tx: Tx, row: RunRow) -> None:
    """The yes is taken back."""
    tx.put_fact(_name(row.run), None)


def _proved(fact: object, signed: Callable[[str], str]) -> Ours | None:
    """What a fact says that this user has signed. ``signed``: the text under which the mark stands."""
    said, _, mark = fact.rpartition(" ") if isinstance(fact, str) else ("", "", "")
    sign = signer() if said else None
    how, _, content = said.partition(" ")
    return Ours(how, content) if sign is not None and sign(signed(said)) == mark else None


def _name(run: int) -> str:
    return f"ours {run}"


def _text(run: int, run_id: str, said: str) -> str:
    """What is signed. Of a run that was begun here, what earlier versions signed: its mark stays good."""
    return f"run {run} {run_id}" if said == BEGUN else f"run {run} {run_id} {said}"
