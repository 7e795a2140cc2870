"""A run's checkpoints as a graph: what each one follows, and which runs were forked from it.

The numbers of versions only grow, also where a rollback went back: then the checkpoint follows the one it equals, and
those in between end a line of their own.
"""

from __future__ import annotations

from leftoff.engine.read.state import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

_BACK_TO = "back to "  # how the note of a rollback starts, as ``leftoff.engine.lifecycle.rollback`` writes it


def checkpoints(store: Store, target: Target) -> list[Version]:
    """Newest first; those up to the version that the target names."""
    before = None if target.version is None else target.version.seq + 1

    def work(view: View) -> list[Version]:
        return view.versions(target.row.run, sealed=True, before=before)

    return store.read(work)


def refused(store: Store, target: Target, versions: list[Version]) -> set[int]:
    """The versions that say of themselves that they cannot be resumed; only a protocol's document does."""
    row = target.row

    def work(view: View) -> set[int]:
        out = set()
        for version in versions:
            if version.aliases:
                run = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
                if run.get("can_resume") is False or run.get("resumable") is False:
                    out.add(version.seq)
        return out

    return store.read(work)


def latest(store: Store, target: Target) -> dict[str, Any] | None:
    """The newest checkpoint of a run, for a report on it; and whether it says that it can be resumed."""
    newest = store.read(lambda view: view.versions(target.row.run, sealed=True, limit=1))
    if not newest:
        return None
    return {**newest[0].to_json(), "can_resume": not refused(store, target, newest)}


def parents(versions: list[Version]) -> dict[int, int | None]:
    """For each checkpoint (newest first) the seq of the one it follows."""
    by_id = {version.id: version.seq for version in versions}
    seqs = sorted(version.seq for version in versions)
    out: dict[int, int | None] = {}
    for version in versions:
        wanted = went_back_to(version, by_id) if version.trigger == "rollback" else None
        out[version.seq] = nearest(seqs, version.seq - 1 if wanted is None else wanted)
    return out


def went_back_to(version: Version, by_id: dict[str | None, int]) -> int | None:
    """The seq that a rollback's note names: by a checkpoint's id, or as ``version N``."""
    note = version.note or ""
    if not note.startswith(_BACK_TO):
        return None
    word, _, rest = note[len(_BACK_TO) :].partition(" ")
    if word == "version":
        number = rest.partition(" ")[0]
        seq = int(number) if number.isascii() and number.isdigit() and len(number) < 16 else None
    else:
        seq = by_id.get(word)
    return seq if seq is not None and seq < version.seq else None


def nearest(seqs: list[int], seq: int) -> int | None:
    """The newest of these that is not newer than ``seq``: the one itself, unless it is no checkpoint or was pruned."""
    from bisect import bisect_right

    at = bisect_right(seqs, seq)
    return seqs[at - 1] if at else None


def forks(store: Store, run_id: str) -> list[tuple[int, RunRow]]:
    """The runs that were forked from this one, with the seq each starts from."""

    def look(view: View) -> list[tuple[int, RunRow]]:
        found = []
        for row in view.list_runs({"forked_from": run_id}):
            source, _, seq = str(row.card.get("parent") or "").rpartition("@")
            if source == run_id and seq.isascii() and seq.isdigit():
                found.append((int(seq), row))
        return found

    return store.read(look)
