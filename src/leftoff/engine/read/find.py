"""What a REF names: one run, one version of one, or nothing.

The readings of a REF are tried in the order of docs/cli/README.md, and one that applies is final: where a run is named
and its version is not there, that is the answer, and nobody looks for something else that the text might mean as well.
"""

from __future__ import annotations

from leftoff.engine.write.head import need_store
from leftoff.errors import Ambiguous, NoCheckpoint, NotFound
from leftoff.model.fields import Fields
from leftoff.model.ids import LEAST, NEVER, is_hex, is_id_prefix, parse_ref
from leftoff.model.words import ROLLBACK_BEGIN, UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leftoff.model.ids import Ref
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

    Current = Callable[[View], RunRow]
    #: of the runs that a name fits, the one that is meant
    Choose = Callable[[View, dict[str, Any]], RunRow | None]

_A_PREFIX = f"An id is shortened to {LEAST} hex digits or more, one of them a letter; or write RUN@id:1234."


class Target(Fields):
    """What a REF names: a run, and which version of it (``None``: its head, sealed or not)."""

    row: RunRow
    version: Version | None

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq


def list_runs(store: Store, *, limit: int | None = None, **where: str | Sequence[str] | None) -> list[RunRow]:
    """Runs by status, workflow, branch, title, issue or session, latest commit first; none where there is no store."""
    return store.read(lambda view: view.list_runs(where, limit)) if store.exists() else []


def latest(view: View, where: dict[str, Any]) -> RunRow | None:
    """Return the latest unfinished run if there is one, else the latest, else the latest archived one."""
    for more in ({"status": UNFINISHED}, {}, {"archived": True}):
        if rows := view.list_runs({**where, **more}, 1):
            return rows[0]
    return None


def resolve(store: Store, text: str, current: Current | None = None, choose: Choose = latest) -> Target:
    """The run and version that a REF names. ``current`` says which run ``@`` is, ``choose`` which of several runs a
    workflow, a title or an issue is."""
    ref = parse_ref(text)
    need_store(store, text)
    return store.read(lambda view: resolve_in(view, ref, current, choose))


def resolve_in(view: View, ref: Ref, current: Current | None, choose: Choose = latest) -> Target:
    if ref.has_version:
        row = _exact(view, ref.base, current) or _by_name(view, ref.base, choose)
        if row is not None:
            return Target(row, _version_or_name(view, row, ref))
    row = _exact(view, ref.text, current)
    if row is not None:
        return Target(row, None)
    found = _checkpoint(view, ref.text)
    if found is not None:
        return found
    row = _by_name(view, ref.text, choose)
    if row is not None:
        return Target(row, None)
    longer = None if ref.has_version else _shortened(view, ref.text)
    if longer is None:
        raise _nothing(view, ref)
    return _target(view, *longer)


def _version_or_name(view: View, row: RunRow, ref: Ref) -> Version:
    """A version of a run. Where it has none such, and another is called just so, that is said: it is not guessed."""
    try:
        return version_of(view, row, ref)
    except NoCheckpoint as error:
        called = view.list_runs({"name": ref.text}, 1)
        if called:
            error.hint = f"Run {called[0].run_id} is called {ref.text}; name it by its id."
        raise


def _exact(view: View, text: str, current: Current | None) -> RunRow | None:
    if text != "@":
        return view.find_run(text)
    if current is None:
        raise NotFound("@ is the current run, and there is none here.", hint="Name the run.")
    return current(view)


def _by_name(view: View, text: str, choose: Choose) -> RunRow | None:
    """``#42``, a workflow or title, ``latest``."""
    if text.startswith("#"):
        return choose(view, {"issue": text[1:]})
    row = choose(view, {"name": text})
    if row is None and text == "latest":
        return next(iter(view.list_runs({}, 1)), None)
    return row


def _checkpoint(view: View, text: str) -> Target | None:
    """A bare checkpoint id, whole or shortened; or a protocol's own id."""
    if is_id_prefix(text):
        found = _one(text, view.checkpoints(text))
        if found is not None:
            return _target(view, *found)
    named = view.aliased(text)
    if named is None:
        return None
    other = view.aliased(text, but=named[0])  # within a run the newest one is meant; of two runs, neither
    _one(text, [named, other] if other is not None else [])
    return _target(view, *named)


def _shortened(view: View, text: str, run: int | None = None) -> tuple[int, Version] | None:
    """A protocol's own id, shortened. It may be carried by several checkpoints, and means the newest then."""
    if len(text) < LEAST:
        return None
    carriers = [view.aliased(name, run) for name in view.other_names(text, run)]
    found = {(number, version.seq): (number, version) for number, version in filter(None, carriers)}
    return _one(text, [*found.values()])


def _one(text: str, found: Sequence[tuple[int, Version]]) -> tuple[int, Version] | None:
    if len(found) > 1:
        raise Ambiguous(
            f"{text} names several checkpoints.",
            listed=[
                (
                    v.aliases[0] if v.aliases and text not in v.aliases else v.id or "",
                    f"{v.run_id}@{v.seq}",
                    v.trigger or "",
                    v.at,
                )
                for _, v in found
            ],
        )
    return found[0] if found else None


def need_only_carrier(view: View, text: str, found: Target) -> None:
    """An error where the id of a protocol names several checkpoints of the run, for a verb that never guesses: some
    protocols have one id for all of a task."""
    if found.version is not None:
        said = parse_ref(text).at or text
        sealed = view.versions(found.row.run, sealed=True) if said in found.version.aliases else []
        _one(said, [(found.row.run, version) for version in sealed if said in version.aliases])


def _target(view: View, run: int, version: Version) -> Target:
    row = view.run_row(run)
    assert row is not None
    return Target(row, version)


def version_of(view: View, row: RunRow, ref: Ref) -> Version:
    """The version of a run that a REF names, whatever is before its mark."""
    if ref.back is not None:
        limit = ref.back + 1
        while True:
            sealed = view.versions(row.run, sealed=True, limit=limit)
            counted = [version for version in sealed if version.trigger != ROLLBACK_BEGIN]
            if len(counted) > ref.back:
                return counted[ref.back]
            if len(sealed) < limit:
                message = f"Run {row.run_id} has {len(counted)} checkpoint(s); {ref.text} is further back."
                raise NoCheckpoint(message)
            limit *= 2
    assert ref.at is not None
    if ref.seq == NEVER:
        raise NoCheckpoint(f"Run {row.run_id} has no checkpoint {ref.at}.")
    if ref.seq is not None:
        return _by_seq(view, row, ref.seq)
    prefix = ref.id_prefix
    found = _one(ref.text, view.checkpoints(prefix, row.run)) if prefix and is_hex(prefix) else None
    if found is None and prefix in (None, ref.at):  # written id:…, it is nothing else
        found = view.aliased(ref.at, row.run) or _shortened(view, ref.at, row.run)
    if found is None:
        hint = "" if prefix and is_hex(prefix) else _A_PREFIX
        raise NoCheckpoint(f"Run {row.run_id} has no checkpoint {ref.at}.", hint=hint)
    return found[1]


def _by_seq(view: View, row: RunRow, seq: int) -> Version:
    from leftoff.engine.read.state import need_version

    try:
        return need_version(view, row.run, row.run_id, seq)  # says that it was pruned, or never was
    except NoCheckpoint as error:
        if len(str(seq)) >= LEAST:
            error.hint = f"Digits after @ are a version's number; {row.run_id}@id:{seq} is a checkpoint's id."
        raise


def _nothing(view: View, ref: Ref) -> NotFound:
    from difflib import get_close_matches

    known = [row.run_id for row in view.list_runs({}, 200)]
    near = get_close_matches(ref.base, known, 3, 0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else ""
    if ref.has_version and _is_checkpoint(view, ref.base):
        hint = f"{ref.base} is a checkpoint; a version is counted from its run."
    if any(each.row.run_id == ref.base for each in view.trashed()):
        hint = f"It lies in the trash: `leftoff undelete {ref.base}` brings it back."
    return NotFound(f"Nothing is called {ref.text}: no run, checkpoint, issue, workflow or title.", hint=hint)


def _is_checkpoint(view: View, text: str) -> bool:
    """Whether a hint may say so: of one that is a checkpoint, or several."""
    try:
        return _checkpoint(view, text) is not None
    except Ambiguous:
        return True
