"""Finding runs and versions: lists, and what a REF names."""

from __future__ import annotations

from leftoff.engine.write.lease import state as lease_state
from leftoff.errors import Ambiguous, NoCheckpoint, NotFound
from leftoff.host import ALIVE
from leftoff.model.fields import Fields
from leftoff.model.ids import is_id_prefix, parse_ref
from leftoff.model.versions import counts_of
from leftoff.model.words import STEP_ENDED, UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leftoff.engine.config.caller import Caller
    from leftoff.host import Process
    from leftoff.model.ids import Ref
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow


SESSION = "session"  # the workflow of the run that a session of an agent gets by itself


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


def twins(
    view: View,
    workflow: str,
    branch: str,
    title: str | None = None,
    issue: str | None = None,
    limit: int | None = 1,
) -> list[RunRow]:
    """The unfinished runs of the same work, latest first: workflow and branch; title and issue where they are given."""
    where = {"workflow": workflow, "branch": branch, "title": title, "issue": issue, "status": UNFINISHED}
    return view.list_runs(where, limit)


def resolve(store: Store, text: str, current: Callable[[View], RunRow] | None = None) -> Target:
    """The run and version that a REF names. ``current`` says which run ``@`` is."""
    ref = parse_ref(text)
    if not store.exists():
        raise NotFound(
            f"{text} names nothing: there is no store at {store.name}.", hint="`leftoff start` makes one."
        )
    return store.read(lambda view: resolve_in(view, ref, current))


def resolve_in(view: View, ref: Ref, current: Callable[[View], RunRow] | None) -> Target:
    if ref.at is not None or ref.back is not None:
        row = _run_named(view, ref.base, current)
        if row is not None:
            return Target(row, _version_of(view, row, ref))
    row = _exact(view, ref.text, current)
    if row is not None:
        return Target(row, None)
    found = _checkpoint(view, ref.text)
    if found is not None:
        return found
    row = _by_meaning(view, ref.text)
    if row is None:
        raise _nothing(view, ref.text)
    return Target(row, None)


def _exact(view: View, text: str, current: Callable[[View], RunRow] | None) -> RunRow | None:
    row = view.find_run(text)
    if row is None and text == "@":
        if current is None:
            raise NotFound("@ is the current run, and there is none here.", hint="Name the run.")
        row = current(view)
    return row


def _by_meaning(view: View, text: str) -> RunRow | None:
    """``#42``, a workflow, a title, ``latest``: the latest unfinished run if there is one, else the latest."""
    if text.startswith("#"):
        return _latest(view, "issue", text[1:])
    for column in ("workflow", "title"):
        row = _latest(view, column, text)
        if row is not None:
            return row
    if text == "latest":
        return next(iter(view.list_runs({}, 1)), None)
    return None


def _latest(view: View, column: str, value: str) -> RunRow | None:
    rows = view.list_runs({column: value, "status": UNFINISHED}, 1) or view.list_runs({column: value}, 1)
    return rows[0] if rows else None


def _run_named(view: View, base: str, current: Callable[[View], RunRow] | None) -> RunRow | None:
    row = _exact(view, base, current)
    return row if row is not None else _by_meaning(view, base)


def _checkpoint(view: View, text: str) -> Target | None:
    """A bare checkpoint id prefix, or a protocol's own id."""
    if is_id_prefix(text):
        found = view.checkpoints(text)
        if len(found) > 1:
            raise _ambiguous(text, [version for _, version in found])
        if found:
            return _target(view, *found[0])
    named = view.aliased(text)
    return _target(view, *named) if named else None


def _target(view: View, run: int, version: Version) -> Target:
    row = view.run_row(run)
    assert row is not None
    return Target(row, version)


def _version_of(view: View, row: RunRow, ref: Ref) -> Version:
    if ref.back is not None:
        sealed = view.versions(row.run, sealed=True, limit=ref.back + 1)
        if len(sealed) <= ref.back:
            raise NoCheckpoint(
                f"Run {row.run_id} has {len(sealed)} checkpoint(s); {ref.text} is further back."
            )
        return sealed[ref.back]
    assert ref.at is not None
    if ref.at.isascii() and ref.at.isdigit() and len(ref.at) < 16:
        version = view.version(row.run, int(ref.at))
        if version is not None:
            return version
    found = view.checkpoints(ref.at, row.run) if is_id_prefix(ref.at, 1) else []
    if len(found) > 1:
        raise _ambiguous(ref.text, [version for _, version in found])
    if found:
        return found[0][1]
    named = view.aliased(ref.at, row.run)
    if named is not None:
        return named[1]
    if ref.at.isascii() and ref.at.isdigit() and len(ref.at) < 16:
        from leftoff.engine.read.state import need_version

        return need_version(view, row.run, row.run_id, int(ref.at))  # says that it was pruned, or never was
    raise NoCheckpoint(f"Run {row.run_id} has no checkpoint {ref.at}.")


def _ambiguous(text: str, versions: list[Version]) -> Ambiguous:
    names = [f"{v.id} ({v.run_id}, {v.trigger})" for v in versions]
    return Ambiguous(
        f"{text} names several checkpoints: {', '.join(names)}.", candidates=[v.id or "" for v in versions]
    )


def _nothing(view: View, text: str) -> NotFound:
    from difflib import get_close_matches

    known = [row.run_id for row in view.list_runs({}, 200)]
    near = get_close_matches(text, known, 3, 0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else ""
    return NotFound(f"Nothing is called {text}: no run, checkpoint, issue, workflow or title.", hint=hint)


def has_open_step(row: RunRow) -> bool:
    """Whether anything that was planned is not done."""
    return any(number for word, number in counts_of(row.counts).items() if word not in STEP_ENDED)


def is_spent(row: RunRow) -> bool:
    """A session's own run with nothing open: nobody has to go on with it."""
    return bool(row.workflow == SESSION) and not has_open_step(row)


class Asking(Fields):
    """Who asks for the run that is meant: a session of an agent, and what it was told; its process, where known.

    ``exported``: the run that the session was told when it started. It may have taken up another one since.
    """

    now: int
    session: str | None = None
    exported: str | None = None
    agent: Process | None = None

    def may_use(self, view: View, row: RunRow) -> bool:
        """Whether a run is not that of another session, which works on it."""
        if self.session is None and self.agent is None:
            return True
        lease = view.lease(row.run)
        if lease is None or lease.kind != "session" or (lease.session and lease.session == self.session):
            return True
        same = self.agent is not None and lease.process == self.agent
        return same or lease_state(lease, self.now) not in (ALIVE, "unknown")


def meant_by(caller: Caller, view: View, now: int, *, latest: bool = False) -> RunRow:
    """The run that a caller means where it gives no REF; with ``latest``, of several the latest."""
    session, asking = caller.session_in(view), None
    if session or caller.run or caller.agent is not None:
        asking = Asking(now, session=session, exported=caller.run, agent=caller.agent)
    return current_run(view, branch=caller.branch, run=caller.named, asking=asking, latest=latest)


def current_run(
    view: View, *, branch: str, run: str | None = None, asking: Asking | None = None, latest: bool = False
) -> RunRow:
    """The run that a verb means: the one named, that of the session, else the only unfinished one of the branch."""
    if run:
        return _named(view, run)
    most = 1 if latest else None
    bound = _bound(view, asking.session, most) if asking is not None and asking.session else []
    if asking is not None and asking.exported:
        row = _named(view, asking.exported)
        over = is_own(row, asking.session) or row.status not in UNFINISHED
        if not (over and any(one.status in UNFINISHED for one in bound)):
            return row
    if bound and asking is not None:
        return _only(bound, f"Session {asking.session}")
    rows = view.list_runs({"branch": branch, "status": UNFINISHED}, most)
    if any(is_spent(row) or not (asking is None or asking.may_use(view, row)) for row in rows):
        found = view.list_runs({"branch": branch, "status": UNFINISHED})
        rows = [row for row in found if not is_spent(row) and (asking is None or asking.may_use(view, row))]
        rows = rows[:most]
    if rows:
        return _only(rows, f"Branch {branch}")
    raise _none_here(view, branch, asking)


def _named(view: View, run: str) -> RunRow:
    row = view.find_run(run)
    return row if row is not None else resolve_in(view, parse_ref(run), None).row


def _bound(view: View, session: str, most: int | None) -> list[RunRow]:
    """The unfinished runs of a session, else its latest. One that it started itself goes before the automatic one."""
    rows = view.list_runs({"session": session, "status": UNFINISHED})
    own = [row for row in rows if row.workflow != SESSION]
    return (own or rows)[:most] or view.list_runs({"session": session}, 1)


def is_own(row: RunRow, session: str | None) -> bool:
    """Whether a run is the one that a session got by itself."""
    return bool(row.workflow == SESSION and row.session == session)


def _only(rows: list[RunRow], whose: str) -> RunRow:
    """The one that is meant where there is only one; two are never mixed up."""
    if len(rows) == 1:
        return rows[0]
    names = [row.run_id for row in rows]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    raise Ambiguous(
        f"{whose} has {len(rows)} unfinished runs: {', '.join(names[:10])}{more}.",
        candidates=names,
        hint="Say which one: --run RUN, or set LEFTOFF_RUN.",
    )


def _none_here(view: View, branch: str, asking: Asking | None) -> NotFound:
    start = "`leftoff start WORKFLOW` starts one."
    others = [row for row in view.list_runs({"status": UNFINISHED}, 50) if not is_spent(row)]
    free = [row for row in others if asking is None or asking.may_use(view, row)][:5]
    if others and not free:
        return NotFound("Every unfinished run is that of another session, which works on it.", hint=start)
    if not free:
        return NotFound(f"There is no unfinished run on branch {branch}.", hint=start)
    names = ", ".join(f"{row.run_id} (branch {row.branch})" for row in free)
    return NotFound(
        f"There is no unfinished run on branch {branch}; there is {names}.",
        hint=f"Use --branch {free[0].branch}, or --run {free[0].run_id}.",
    )
