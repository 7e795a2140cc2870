"""The commit: one atomic, durable change of records that gives the run its next version.

Everything that costs time happens before the transaction: values were checked, redacted and encoded when they were
put into the change set, large ones become blobs here. Inside, a commit looks at the run's head once, fences off
drivers that lost their lease and attempts that are not current, writes what differs, and moves the head.
"""

from __future__ import annotations

import os
from itertools import count

from leftoff import log
from leftoff.engine.apply_changes import Apply
from leftoff.engine.head_cache import gone, need_known
from leftoff.errors import Conflict, Invalid, StaleEpoch
from leftoff.hints import Callable, Sequence
from leftoff.model.changes import ChangeSet, blob_stored
from leftoff.model.codec import MASK, checkpoint_id
from leftoff.model.ids import shown_step
from leftoff.model.versions import Version
from leftoff.model.words import TRIGGERS
from leftoff.store.base import VALUE_MAX, Stood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.head_cache import Head
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import BlobRow, RunRow

_KNOWN_TRIGGERS = frozenset(TRIGGERS)


class Seal:
    """What makes a commit a checkpoint. ``asked``: somebody wants just this one, whatever a protocol seals."""

    __slots__ = ("aliases", "asked", "note", "step", "trigger")

    def __init__(
        self,
        trigger: str,
        step: str | None = None,
        note: str | None = None,
        aliases: tuple[str, ...] = (),
        *,
        asked: bool = False,
    ) -> None:
        if trigger not in _KNOWN_TRIGGERS:
            raise Invalid(f"There is no trigger {trigger!r}.", hint=f"Triggers: {', '.join(TRIGGERS)}.")
        self.trigger = trigger
        self.step = step
        self.note = note
        self.aliases = aliases
        self.asked = asked

    def clean(self, changes: ChangeSet) -> Seal:
        """The same without the secrets that the changes may not have either."""
        step = changes.name(self.step) if self.step is not None else None
        note = changes.mask(self.note) if self.note is not None else None
        if (step, note) == (self.step, self.note):
            return self
        return Seal(self.trigger, step, note, self.aliases, asked=self.asked)


class Guard:
    """By what right a commit is made: a driver's epoch, or an attempt's token. Neither: a plain report."""

    __slots__ = ("attempt", "epoch")

    def __init__(self, epoch: int | None = None, attempt: str | None = None) -> None:
        self.epoch = epoch
        self.attempt = attempt or None

    def check(self, tx: Tx, head: Head | RunRow, epoch: int) -> None:
        if self.epoch is not None and self.epoch != epoch:
            raise StaleEpoch(
                f"Run {head.run_id} was taken over: it is at epoch {epoch}, this process at {self.epoch}."
            )
        if self.attempt is not None:
            attempt = tx.attempt(self.attempt)  # of this run, or of the one whose step reports on this
            if attempt is None:
                raise Conflict(
                    "No attempt at a step has the token in LEFTOFF_ATTEMPT.",
                    hint="Unset LEFTOFF_ATTEMPT if this is not a step that leftoff started.",
                )
            if attempt.number != attempt.current:
                step = shown_step(attempt.step)
                raise Conflict(
                    f"This is attempt {attempt.number} at {step}; attempt {attempt.current} is current.",
                    hint="Stop here: the step was started again.",
                )


NO_GUARD = Guard()


class _Tokens:
    """Tokens no other process makes: random bytes of this one (and anew after a fork), then a count."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self._own, self._count = os.urandom(10), count()

    def next(self) -> bytes:
        return self._own + next(self._count).to_bytes(6, "big")


new_token = _Tokens().next  # what makes a commit recognisable when it is tried again


class Terms:
    """When a commit is made, by what right, how it is sealed, by which token it is known again, and the blobs that were
    saved for it beforehand. ``unless``: it is not made if the commit after this version with this token was made."""

    __slots__ = ("at", "blobs", "guard", "seal", "token", "unless")

    def __init__(
        self,
        at: int,
        guard: Guard = NO_GUARD,
        seal: Seal | None = None,
        token: bytes = b"",
        blobs: Sequence[BlobRow] | None = None,
    ) -> None:
        self.at = at
        self.guard = guard
        self.seal = seal
        self.token = token or new_token()
        self.blobs: Sequence[BlobRow] = blobs or ()
        self.unless: tuple[int, bytes] | None = None


class CameLate(Exception):
    """The commit that ``Terms.unless`` names has arrived after all."""


def commit(
    store: Store, head: Head, changes: ChangeSet, terms: Terms, *, durable: bool = True
) -> Version | None:
    """Make the changes durable. The version, or ``None`` where nothing differs and nothing is sealed."""
    version, adopt = commit_apart(store, head, changes, terms, durable=durable)
    adopt()
    return version


def commit_apart(
    store: Store, head: Head, changes: ChangeSet, terms: Terms, *, durable: bool = True
) -> tuple[Version | None, Callable[[], None]]:
    """Like ``commit``, for callers with threads: what the head learned is folded in when they call the second part."""
    changes, rows = save_blobs(store, changes)
    if rows:
        terms.blobs = [*rows, *terms.blobs]
    done = store.commit(lambda tx: commit_in(tx, head, changes, terms), _stood(head, terms), durable=durable)
    if done is None:
        return None, _nothing
    version, since, apply = done
    return version, lambda: head.adopt(since, version.seq, apply.digest, apply)


def _stood(head: Head, terms: Terms) -> Stood | None:
    """Return where this process takes the run to stand, if it knows enough of it."""
    seq, digest = head.at
    if not (seq and head.counts):
        return None
    return Stood(
        head.run, head.run_id, seq, digest.to_bytes(32, "big"), head.counts, terms.guard.epoch, terms.token
    )


def _nothing() -> None:
    """Nothing was learned."""


def commit_in(tx: Tx, head: Head, changes: ChangeSet, terms: Terms) -> tuple[Version, int, Apply] | None:
    """The part inside the transaction. May run again after a rollback: it changes nothing but rows."""
    now = tx.head(head.run)
    if now is None:
        raise gone(head.run_id)
    since, digest, counts, epoch, run_id = now
    if terms.unless is not None and tx.applied(head.run, *terms.unless) is not None:
        raise CameLate
    if terms.guard is not NO_GUARD:
        terms.guard.check(tx, head, epoch)
    need_known(tx, head, since, digest)
    for row in terms.blobs:
        tx.put_blob(row)
    seal = terms.seal
    if tx.follower is not None and (seal is None or not seal.asked):
        seal = tx.follower.seal(tx, head.run, changes, seal)
    if seal is not None:
        seal = seal.clean(changes)
    apply = Apply(tx, head, since, digest, counts)
    apply.changes(changes.changes.values())
    if not apply.changed and seal is None:
        return None
    return add_version(tx, apply, run_id, epoch, terms, seal), since, apply


def add_version(tx: Tx, apply: Apply, run_id: str, epoch: int, terms: Terms, seal: Seal | None) -> Version:
    """The run's next version, sealed so (which a protocol may decide, whatever the terms say)."""
    seq = apply.seq
    log.debug("commits %s@%d%s", run_id, seq, f", sealed as {seal.trigger}" if seal is not None else "")
    apply.digest &= MASK
    digest = apply.digest.to_bytes(32, "big")
    version = Version(run_id, seq, digest, terms.at, epoch=epoch, counts=apply.packed_counts())
    if apply.card_changed:
        set_card(tx, apply.run)
    if seal is not None:
        version = version._replace(
            checkpoint=checkpoint_id(run_id, seq, digest),
            trigger=seal.trigger,
            step=seal.step,
            note=seal.note,
            aliases=seal.aliases,
        )
    tx.add_version(apply.run, version, terms.token)
    for name in version.aliases:
        tx.add_alias(apply.run, seq, name)
    return version


def set_card(tx: Tx, run: int, *, hidden: bool = False) -> None:
    """Bring the listing's copy of the `run` records up to date."""
    from leftoff.model.versions import card_of

    columns, card = card_of((record.key, record.stored) for record in tx.records(run, "run"))
    tx.set_card(run, columns, card, hidden=hidden)


def save_blobs(store: Store, changes: ChangeSet) -> tuple[ChangeSet, list[BlobRow]]:
    """Values over 1 MiB become blobs before the transaction that refers to them: the changes as it writes them.

    Those that were given keep their bytes. Until the commit is durable they are read from there, and it may be tried
    again.
    """
    large = [(address, change) for address, change in changes.changes.items() if change.is_large(VALUE_MAX)]
    if not large:
        return changes, []
    saved: list[BlobRow] = []

    def shrink(stored: bytes) -> bytes:
        saved.append(store.save_blob([stored]))
        return blob_stored(saved[-1].hash)

    small = ChangeSet()
    small.changes = dict(changes.changes)
    for address, change in large:
        small.changes[address] = change.shrunk(VALUE_MAX, shrink)
    return small, saved
