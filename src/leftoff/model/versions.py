"""Versions and checkpoints: one row of a run's history."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.model.codec import decode
from leftoff.model.digest import tagged
from leftoff.model.ids import with_item
from leftoff.model.words import STEP_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_COUNTS = "[0,0,0,0,0,0,0]"


def counts_of(packed: str) -> dict[str, int]:
    """The leaf counters of a version, by status."""
    return dict(zip(STEP_STATUS, decode(packed), strict=True))


def pack_counts(counts: dict[str, int]) -> str:
    return "[" + ",".join(str(counts.get(word, 0)) for word in STEP_STATUS) + "]"


class Version:
    """One commit of a run; sealed, it is a checkpoint and has an id and a trigger."""

    __slots__ = (
        "aliases",
        "at",
        "checkpoint",
        "counts",
        "digest",
        "epoch",
        "n",
        "note",
        "run_id",
        "seq",
        "step",
        "trigger",
    )

    def __init__(
        self,
        run_id: str,
        seq: int,
        digest: bytes,
        at: int,
        *,
        n: int = 0,
        epoch: int = 0,
        counts: str = NO_COUNTS,
        checkpoint: str | None = None,
        trigger: str | None = None,
        step: str | None = None,
        note: str | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.run_id = run_id
        self.seq = seq
        self.digest = digest
        self.at = at
        self.n = n
        self.epoch = epoch
        self.counts = counts
        self.checkpoint = checkpoint
        self.trigger = trigger
        self.step = step
        self.note = note
        self.aliases = aliases

    @property
    def id(self) -> str | None:
        """The checkpoint's id as people use it (12 hex), or None where the version is not sealed."""
        return self.checkpoint[:12] if self.checkpoint else None

    def to_json(self) -> dict[str, Any]:
        about = {
            "checkpoint_id": self.id,
            "aliases": list(self.aliases),
            "run_id": self.run_id,
            "seq": self.seq,
            "trigger": self.trigger,
            "step": self.step,
            "created_at": iso(self.at),
            "note": self.note,
            "digest": tagged(self.digest),
            "can_resume": True,
        }
        return with_item(about, self.step)

    def __repr__(self) -> str:
        if self.checkpoint is None:
            return f"<version {self.seq} of {self.run_id}>"
        return f"<checkpoint {self.id} ({self.trigger}) of {self.run_id}@{self.seq}>"
