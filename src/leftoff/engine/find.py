"""Find runs: what a REF names, and which run is meant when a verb is called without one.

The readings of a REF are tried in the order of docs/reference/refs.md, and the first that applies is final: if a run is
named and it has no such version, that is an error, and no looser reading is tried.

Without a REF the run is, in this order: the one that ``--run`` names, that of the environment, that of the session,
else by a rule:

- A verb that reports means the only unfinished run of the branch. Several are an error.
- A verb that reads means the latest unfinished run of the branch, else the latest run, and says so if there was a
  choice. `resume` means the latest unfinished one.
- A verb that decides never guesses: it lists the runs that fit, even if there is only one (``Deciding``).

An operation of several transactions looks, works outside of them, and writes in the last one. That one gets the row on
which the operation decided. If the run has moved since, nothing is written, and the work begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from leftoff.engine.lease import gone
from leftoff.engine.lease import state as lease_state
from leftoff.engine.run_info import info
from leftoff.errors import MOST_LISTED, Ambiguous, Conflict, NoCheckpoint, NotFound, Usage
from leftoff.host import ALIVE, Process
from leftoff.model.changes import Version, counts_of
from leftoff.model.ids import LEAST, NEVER, Ref, as_word, is_hex, is_id_prefix, is_run_id, parse_ref
from leftoff.model.words import ROLLBACK_BEGIN, STEP_ENDED, UNFINISHED
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:  # the caller looks up its session in modules that import this one
    from leftoff.engine.settings import Caller

T = TypeVar("T")
Find = Callable[[View], RunRow]  # returns the run that a name means
#: of the runs that a name fits, the one that is meant
Choose = Callable[[View, dict[str, Any]], RunRow | None]
#: ``Project.explain``
Explain = Callable[[NotFound, View], NotFound]

TRIES = 10  # a run that moves more often than that is being worked on
SESSION = "session"  # the workflow of the run that an agent's session gets by itself
CLAUDE_WORKFLOW = "claude-workflow"  # that of the runs that list the workflow runs of Claude Code
OPEN_TURN = "open_turn"  # in a run's own record: its last turn, until that has ended well
REPORTS, READS, RESUMES = "reports", "reads", "resumes"
_SHOWN = 6
_START = "`leftoff run FILE` or `leftoff start WORKFLOW` starts one."
_A_PREFIX = f"An id is shortened to {LEAST} hex digits or more, one of them a letter; or write RUN@id:1234."


# -- what a REF names


class Target(NamedTuple):
    """What a REF names: a run and one of its versions (``None``: its head, sealed or not)."""

    row: RunRow
    version: Version | None

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq


def latest(view: View, where: dict[str, Any]) -> RunRow | None:
    """Return the latest unfinished run if there is one, else the latest, else the latest archived one."""
    for more in ({"status": UNFINISHED}, {}, {"archived": True}):
        if rows := view.list_runs({**where, **more}, 1):
            return rows[0]
    return None


def need_store(store: SqlStore, named: str = "") -> None:
    """Raise if there is no store: without one there is no run, and a report makes none. ``named``: what is meant."""
    if not store.exists():
        what = f"run {named}" if named else "run"
        hint = store.advice or _START
        raise NotFound(f"There is no {what} here: {store.name} does not exist.", hint=hint)


def resolve(store: SqlStore, text: str, current: Find | None = None, choose: Choose = latest) -> Target:
    """Return the run and version that a REF names. ``current`` finds the run that ``@`` means, ``choose`` the one of
    several runs that a workflow, a title or an issue means."""
    ref = parse_ref(text)
    need_store(store, text)
    return store.read(lambda view: resolve_in(view, ref, current, choose))


def resolve_in(view: View, ref: Ref, current: Find | None, choose: Choose = latest) -> Target:
    if ref.has_version:
        row = _exact(view, ref.base, current) or _by_name(view, ref.base, choose) or _begun(view, ref.base)
        if row is not None:
            return Target(row, version_of(view, row, ref))
    row = _exact(view, ref.text, current)
    if row is not None:
        return Target(row, None)
    found = _checkpoint(view, ref.text)
    if found is not None:
        return found
    row = _by_name(view, ref.text, choose) or _begun(view, ref.text)
    if row is not None:
        return Target(row, None)
    longer = None if ref.has_version else _shortened(view, ref.text)
    if longer is None:
        raise _nothing(view, ref)
    return _target(view, *longer)


def _exact(view: View, text: str, current: Find | None) -> RunRow | None:
    if text != "@":
        return view.find_run(text)
    if current is None:
        raise NotFound("@ is the current run, and there is none here.", hint="Name the run.")
    return current(view)


def _by_name(view: View, text: str, choose: Choose) -> RunRow | None:
    """Return the run of an issue (``#42``), a workflow or a title; the newest of all for ``latest``."""
    if text.startswith("#"):
        return choose(view, {"issue": text[1:]})
    row = choose(view, {"name": text})
    if row is None and text == "latest":
        return next((row for row in view.list_runs({}, 50) if row.workflow != CLAUDE_WORKFLOW), None)
    return row


def _begun(view: View, text: str) -> RunRow | None:
    """Return the only run whose id begins so, active or archived."""
    if len(text) < LEAST or not is_run_id(text):
        return None
    rows = view.list_runs({"prefix": text}) or view.list_runs({"prefix": text, "archived": True})
    if len(rows) > 1:
        raise several(
            view, rows, rows[0].updated_at, f"{text} begins the ids of {len(rows)} runs.", "Write more of it."
        )
    return rows[0] if rows else None


def _checkpoint(view: View, text: str) -> Target | None:
    """Return the checkpoint of an id, whole or shortened, or of a protocol's own id."""
    if is_id_prefix(text):
        found = _one(text, view.checkpoints(text))
        if found is not None:
            return _target(view, *found)
    named = view.aliased(text)
    if named is None:
        return None
    other = view.aliased(text, but=named[0])  # of one run the newest is meant; two runs are ambiguous
    _one(text, [named, other] if other is not None else [])
    return _target(view, *named)


def _shortened(view: View, text: str, run: int | None = None) -> tuple[int, Version] | None:
    """Return the newest checkpoint that carries a protocol's own id, of which ``text`` is the start."""
    if len(text) < LEAST:
        return None
    carriers = [view.aliased(name, run) for name in view.other_names(text, run)]
    found = {(number, version.seq): (number, version) for number, version in filter(None, carriers)}
    return _one(text, [*found.values()])


def _one(text: str, found: Sequence[tuple[int, Version]]) -> tuple[int, Version] | None:
    if len(found) < 2:
        return found[0] if found else None
    listed = []
    for _, version in found:
        name = version.aliases[0] if version.aliases and text not in version.aliases else version.id or ""
        listed.append((name, f"{version.run_id}@{version.seq}", version.trigger or "", version.at))
    raise Ambiguous(f"{text} names several checkpoints.", listed=listed)


def need_only_carrier(view: View, text: str, found: Target) -> None:
    """Raise ``Ambiguous`` if several checkpoints of the run carry the protocol's id that was named.

    For verbs that never guess: some protocols have one id for all checkpoints of a task.
    """
    if found.version is not None:
        said = parse_ref(text).at or text
        sealed = view.versions(found.row.run, sealed=True) if said in found.version.aliases else []
        _one(said, [(found.row.run, version) for version in sealed if said in version.aliases])


def _target(view: View, run: int, version: Version) -> Target:
    row = view.run_row(run)
    assert row is not None
    return Target(row, version)


def version_of(view: View, row: RunRow, ref: Ref) -> Version:
    """Return the version of this run that a REF names after its mark."""
    if ref.back is not None:  # checkpoints that only begin a rollback do not count
        sealed = view.versions(row.run, sealed=True)
        counted = [version for version in sealed if version.trigger != ROLLBACK_BEGIN]
        if len(counted) > ref.back:
            return counted[ref.back]
        raise NoCheckpoint(f"Run {row.run_id} has {len(counted)} checkpoint(s); {ref.text} is further back.")
    assert ref.at is not None
    if ref.seq == NEVER:
        raise NoCheckpoint(f"Run {row.run_id} has no checkpoint {ref.at}.")
    if ref.seq is not None:
        from leftoff.engine.run_reader import need_version

        return need_version(view, row.run, row.run_id, ref.seq)
    prefix = ref.id_prefix
    found = _one(ref.text, view.checkpoints(prefix, row.run)) if prefix and is_hex(prefix) else None
    if found is None and prefix in (None, ref.at):  # written id:…, it can be nothing else
        found = view.aliased(ref.at, row.run) or _shortened(view, ref.at, row.run)
    if found is None:
        hint = "" if prefix and is_hex(prefix) else _A_PREFIX
        raise NoCheckpoint(f"Run {row.run_id} has no checkpoint {ref.at}.", hint=hint)
    return found[1]


def _nothing(view: View, ref: Ref) -> NotFound:
    from difflib import get_close_matches

    near = get_close_matches(ref.base, [row.run_id for row in view.list_runs({}, 200)], 3, 0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else ""
    if any(each.row.run_id == ref.base for each in view.trashed()):
        hint = f"It is in the trash: `leftoff undelete {ref.base}` brings it back."
    return NotFound(f"Nothing is called {ref.text}: no run, checkpoint, issue, workflow or title.", hint=hint)


def need_whole(found: Target, text: str | None) -> Target:
    """Return what was named. Raise ``Usage`` if that is one version: here a run is needed."""
    if found.version is None:
        return found
    raise Usage(
        f"{text} is one version of run {found.row.run_id}; a run is needed here.",
        hint=f"Nothing was changed. Name the run alone: {found.row.run_id}.",
    )


# -- a run that was found before: it may be gone, or have moved


def need_run(view: View, run: int, run_id: str) -> RunRow:
    """Return a run that was found before, as it is now."""
    row = view.run_row(run)
    if row is None:
        raise gone(run_id)
    return row


class Moved(Conflict):
    """Another process has committed to the run since it was read."""

    retry = True
    default_hint = (
        "Another process is changing it right now. Nothing was changed; try again when it has finished."
    )


def need_unmoved(view: View, row: RunRow) -> None:
    """Raise ``Moved`` if a run is not at the version that was decided on."""
    now = need_run(view, row.run, row.run_id)
    if now.is_gone:
        raise gone(row.run_id)
    if (now.seq, now.digest) != (row.seq, row.digest):
        raise Moved(f"Run {row.run_id} changed from version {row.seq} to {now.seq} in the meantime.")


def unmoved_run(row: RunRow) -> Find:
    """Return how a report finds the run that was decided on, if it has not moved."""

    def find(view: View) -> RunRow:
        need_unmoved(view, row)
        return need_run(view, row.run, row.run_id)

    return find


def is_seen(view: View, run: int, collection: str, key: str, seen: int | None) -> bool:
    """Return whether a record is as it was at a version that a person was asked about; ``None``: they saw them all."""
    record = view.record(run, collection, key) if seen is not None else None
    return seen is None or (record is not None and record.seq <= seen)


def until_unmoved(work: Callable[[], T]) -> T:
    """Do the work, again from its beginning for as long as the run moves under it."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Moved:
            pass
    return work()


# -- which run is meant


class Asking(NamedTuple):
    """Who asks for a run: a session of an agent, and its process if that is known.

    ``exported``: the run that the session got when it started. It may have taken up another one since.
    """

    now: int
    session: str | None = None
    exported: str | None = None
    agent: Process | None = None

    def may_use(self, view: View, row: RunRow) -> bool:
        """Return whether no other session is working on a run."""
        if self.session is None and self.agent is None:
            return True
        lease = view.lease(row.run)
        if lease is None or lease.kind != "session" or (lease.session and lease.session == self.session):
            return True
        same = self.agent is not None and lease.process == self.agent
        return same or lease_state(lease, self.now) not in (ALIVE, "unknown")


class Which:
    """Find the run that a caller means without a REF, by a rule. ``told``: what was chosen, if there was a choice."""

    def __init__(self, caller: Caller, now: int, rule: str = REPORTS, explain: Explain | None = None) -> None:
        self.caller = caller
        self.now = now
        self.rule = rule
        self.explain = explain
        self.told = ""

    def __call__(self, view: View) -> RunRow:
        row = self.find(view)
        if self.rule == REPORTS:
            refuse_archived(row)
        return row

    def find(self, view: View) -> RunRow:
        """Return the run that the name means, active or archived."""
        named = self.caller.named
        try:
            return self.run_named(view, named, self.unnamed) if named else self.unnamed(view)
        except NotFound as error:
            if self.explain is None:
                raise
            raise self.explain(error, view) from None

    def unnamed(self, view: View) -> RunRow:
        """Return the run that a verb uses if none was named."""
        asking = Asking(self.now, self.caller.session_in(view), self.caller.run, self.caller.agent)
        bound: list[RunRow] = []
        if asking.session:  # a run that the session started itself goes before the automatic one
            rows = view.list_runs({"session": asking.session, "status": UNFINISHED})
            own = [row for row in rows if row.workflow != SESSION]
            bound = own or rows or view.list_runs({"session": asking.session}, 1)
        if asking.exported:
            try:
                row = self.run_named(view, asking.exported, _circular)
            except NotFound as error:  # the user did not type that name
                error.hint = f"LEFTOFF_RUN names it: set it to a run, or unset it. {error.hint}"
                raise
            over = is_own_session(row, asking.session) or row.status not in UNFINISHED
            if not (over and any(one.status in UNFINISHED for one in bound)):
                return row
        return self._of(view, bound, f"Session {asking.session}") if bound else self._by_rule(view, asking)

    def run_named(self, view: View, text: str, current: Find) -> RunRow:
        """Return the run that a text names; one version is not a run. ``current`` finds what ``@`` means."""
        row = view.find_run(text)
        if row is not None:
            return row
        return need_whole(resolve_in(view, parse_ref(text), current, self.choose), text).row

    def choose(self, view: View, where: dict[str, Any]) -> RunRow | None:
        """Return one of the runs that a workflow, a title or an issue names."""
        return latest(view, where)

    def _by_rule(self, view: View, asking: Asking) -> RunRow:
        branch = self.caller.branch
        found = view.list_runs({"branch": branch, "status": UNFINISHED})
        rows = [row for row in found if not is_spent(row) and asking.may_use(view, row)]
        rows = [row for row in rows if not _stands_back(view, row, self.rule)] or rows
        if rows:
            return self._of(view, rows, f"Branch {branch}")
        last = view.list_runs({}, 50) if self.rule == READS else []
        newest = [row for row in last if asking.may_use(view, row) and row.workflow != CLAUDE_WORKFLOW]
        if not newest and self.rule == READS and not last:
            raise NotFound("There is no run here.", hint=_START)
        if not newest:
            raise _none_here(view, branch, asking, self.now)
        if len(newest) > 1:
            run, on = newest[0], "" if newest[0].branch == branch else f" on branch {newest[0].branch}"
            self.told = (
                f"leftoff: no run of branch {branch} is unfinished; this is the latest one{on}, {run.run_id} "
                f"({run.status})."
            )
        return newest[0]

    def _of(self, view: View, rows: list[RunRow], whose: str) -> RunRow:
        """Return the only run, or the latest. A report never chooses between several."""
        if len(rows) == 1:
            return rows[0]
        if self.rule == REPORTS:
            many = f"{whose} has {len(rows)} unfinished runs."
            raise several(view, rows, self.now, many, "Say which one: --run RUN or LEFTOFF_RUN.")
        others = [row.run_id for row in rows[1:]]
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        took = "taking the latest" if self.rule == RESUMES else "this is the latest"
        self.told = (
            f"leftoff: {whose[0].lower()}{whose[1:]} has {len(rows)} unfinished runs; {took}, {rows[0].run_id}.\n"
            f"The others: {', '.join(others[:_SHOWN])}{more}."
        )
        return rows[0]


def _circular(view: View) -> RunRow:
    raise Usage(
        "LEFTOFF_RUN is @, which is the run that LEFTOFF_RUN names.",
        hint="Nothing was changed. Set it to the id of a run, or unset it.",
    )


def refuse_archived(row: RunRow) -> None:
    """Raise ``NotFound`` if a run is archived: it takes no reports."""
    if row.is_archived:
        raise NotFound(
            f"Run {row.run_id} is archived.",
            hint=f"`leftoff undelete {row.run_id}` brings it back; `leftoff show {row.run_id}` looks into it.",
        )


class Fit(NamedTuple):
    """Which runs a decision can be about: a test, and what messages say of one and of several.

    ``among``: the statuses that are looked at if no run is named. ``strict``: if none fits, several others are not a
    choice. ``call``: the words after `leftoff` that name a run.
    """

    test: Callable[[View, RunRow], bool]
    one: str
    many: str
    call: str
    among: Sequence[str] | None = UNFINISHED
    strict: bool = True


class Deciding(Which):
    """Find the run that a decision is about: the one that is named. `@` means the only run of the branch that fits."""

    def __init__(self, caller: Caller, now: int, fit: Fit) -> None:
        super().__init__(caller, now)
        self.fit = fit
        self.is_at = False  # whether the caller wrote `@`

    def find(self, view: View) -> RunRow:
        self.is_at = True
        return super().find(view)

    def _by_rule(self, view: View, asking: Asking) -> RunRow:
        branch, fit = self.caller.branch, self.fit
        rows = view.list_runs({"branch": branch, "status": fit.among})
        could = [row for row in rows if fit.test(view, row)]
        if self.is_at or (not could and fit.among is not None):
            found = self._only(view, rows, f"on branch {branch}")
            if found is None:
                raise _none_here(view, branch, asking, self.now, fit.among)
            return found
        many = len(could)
        says = f"{many or 'No'} run{'s' * (many > 1)} on branch {branch} {fit.many if many > 1 else fit.one}"
        if not could:
            could = [row for row in view.list_runs({"status": fit.among}) if fit.test(view, row)]
            says += f"; there is on {', '.join(sorted({row.branch for row in could}))}" if could else ""
        error = several(view, could or rows, self.now, f"{says}.", self._name_it(could))
        error.runs = bool(could)  # if none fits, a terminal does not ask which one
        raise error

    def _name_it(self, rows: Sequence[RunRow]) -> str:
        call = self.fit.call.replace("RUN", rows[0].run_id) if len(rows) == 1 else self.fit.call
        return f"Name the run: `leftoff {call}`."

    def choose(self, view: View, where: dict[str, Any]) -> RunRow | None:
        name = where["name"] if "name" in where else f"#{where['issue']}"
        rows = view.list_runs(where) or view.list_runs({**where, "archived": True})
        return self._only(view, rows, f"called {name}")

    def _only(self, view: View, rows: list[RunRow], which: str) -> RunRow | None:
        fit = [row for row in rows if self.fit.test(view, row)]
        if not fit and (len(rows) < 2 or not self.fit.strict):
            fit = rows
        if len(fit) > 1:
            raise several(
                view, fit, self.now, f"{len(fit)} runs {which} {self.fit.many}.", self._name_it(fit)
            )
        if fit or not rows:
            return fit[0] if fit else None
        none = f"None of the {len(rows)} runs {which} {self.fit.one}."
        error = NotFound(none, hint=self._name_it(rows))
        error.listed = _listed(view, rows, self.now)
        raise error


def several(view: View, rows: Sequence[RunRow], now: int, message: str, hint: str) -> Ambiguous:
    error = Ambiguous(message, listed=_listed(view, rows, now), hint=hint)
    error.runs = True
    return error


def _listed(view: View, rows: Sequence[RunRow], now: int) -> list[tuple[str, str, str, int]]:
    states = [info(view, row, now).state for row in rows[:MOST_LISTED]]
    states += [row.status for row in rows[MOST_LISTED:]]
    return [
        (row.run_id, row.title or row.workflow, state, row.updated_at)
        for row, state in zip(rows, states, strict=True)
    ]


def _none_here(
    view: View, branch: str, asking: Asking, now: int, among: Sequence[str] | None = UNFINISHED
) -> NotFound:
    what = "unfinished run" if among == UNFINISHED else "run" if among is None else "finished run"
    found = view.list_runs({"status": among}, 50)
    others = [row for row in found if among != UNFINISHED or not is_spent(row)]
    free = [row for row in others if asking.may_use(view, row)][:5]
    if others and not free:
        return NotFound("Every unfinished run belongs to another session that is working on it.", hint=_START)
    if not free:
        ended = view.list_runs({}, 1) if among == UNFINISHED else ()
        hint = f"The latest run, {ended[0].run_id}, has ended: name it. {_START}" if ended else _START
        return NotFound(f"There is no {what} on branch {branch}.", hint=hint)
    on = ", ".join(dict.fromkeys(row.branch for row in free))
    error = NotFound(
        f"There is no {what} on branch {branch}; there is on {on}.",
        hint=f"Use --branch {as_word(free[0].branch)}, or --run {free[0].run_id}.",
    )
    error.listed = _listed(view, free, now)
    return error


# -- runs of sessions, and twins


def has_open_step(row: RunRow) -> bool:
    """Return whether a step of the run is not done."""
    return any(number for word, number in counts_of(row.counts).items() if word not in STEP_ENDED)


def is_spent(row: RunRow) -> bool:
    """Return whether a run is a session's own, its last turn ended well, and no step is open."""
    return bool(row.workflow == SESSION) and not has_open_step(row) and not row.card.get(OPEN_TURN)


def _stands_back(view: View, row: RunRow, rule: str) -> bool:
    """Return whether any other run goes before this one: a session's own, without steps.

    It takes no reports by default. A verb that means the latest run means it once its session has ended.
    """
    if row.workflow != SESSION or has_open_step(row):
        return False
    lease = view.lease(row.run)
    return rule == REPORTS or (
        lease is not None and lease.process is not None and lease.process.state() == ALIVE
    )


def is_own_session(row: RunRow, session: str | None) -> bool:
    """Return whether a run is the one that a session got by itself."""
    return bool(row.workflow == SESSION and row.session == session)


def twins(
    view: View,
    workflow: str,
    branch: str,
    title: str | None = None,
    issue: str | None = None,
    limit: int | None = 1,
) -> list[RunRow]:
    """Return the unfinished runs of the same work, latest first: same workflow and branch; title and issue if given.

    If no run has the title, its case is ignored.
    """
    where = {"workflow": workflow, "branch": branch, "issue": issue, "status": UNFINISHED}
    found = view.list_runs({**where, "title": title}, limit)
    if found or title is None:
        return found
    alike = [row for row in view.list_runs(where) if (row.title or "").casefold() == title.casefold()]
    return alike[:limit]
