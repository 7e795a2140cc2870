"""Which run is meant where a verb can be about one: the one named, that of the environment, that of the session, else
by what the verb does.

- One that *reports* means the only unfinished run of the branch; of several it takes none.
- One that *reads* means the latest unfinished run of the branch, else the latest run at all, and says so where there
  was a choice. `resume` means the latest unfinished one.
- One that *decides* never guesses: it means the only run that fits (``Deciding``).

Every face comes here; also what is the twin of a new run is known here.
"""

from __future__ import annotations

from leftoff.engine.write.lease import state as lease_state
from leftoff.errors import Ambiguous, NotFound, Usage
from leftoff.host import ALIVE
from leftoff.model.fields import Fields
from leftoff.model.ids import as_word
from leftoff.model.versions import counts_of
from leftoff.model.words import STEP_ENDED, UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.read.find import Target
    from leftoff.host import Process
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

    #: ``Project.explain``
    Explain = Callable[[NotFound, View], NotFound]

SESSION = "session"  # the workflow of the run that a session of an agent gets by itself
OPEN_TURN = "open_turn"  # in a run's own record: its last turn, while that has not ended well
REPORTS, READS, RESUMES = "reports", "reads", "resumes"
_SHOWN = 6
_BY_ID = "A decision is never guessed: name the run by its id."


# -- what is asked


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


class Which:
    """The run that a caller means where it gives no REF, by a rule. ``told``: where there was a choice, what was
    chosen."""

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
        """Return the run that is meant, be it archived."""
        named = self.caller.named
        try:
            return self.run_named(view, named) if named else self.unnamed(view)
        except NotFound as error:
            if self.explain is None:
                raise
            raise self.explain(error, view) from None

    def unnamed(self, view: View) -> RunRow:
        """The one that is meant where nobody named one."""
        asking = self._asking(view)
        return self._told_of(view, asking) or self._by_rule(view, asking)

    def run_named(self, view: View, text: str, current: Callable[[View], RunRow] | None = None) -> RunRow:
        """The run that is named; a version of one is not a run. ``current``: what ``@`` is in it."""
        row = view.find_run(text)
        if row is not None:
            return row
        from leftoff.engine.read.find import resolve_in
        from leftoff.model.ids import parse_ref

        found = resolve_in(view, parse_ref(text), current or self.unnamed, self.choose)
        return need_whole(found, text).row

    def choose(self, view: View, where: dict[str, Any]) -> RunRow | None:
        """Of the runs that a workflow, a title or an issue names: the latest unfinished one, else the latest."""
        from leftoff.engine.read.find import latest

        return latest(view, where)

    def _asking(self, view: View) -> Asking:
        return Asking(self.now, self.caller.session_in(view), self.caller.run, self.caller.agent)

    def _told_of(self, view: View, asking: Asking) -> RunRow | None:
        """The run of the environment, or that of the session."""
        bound = _bound(view, asking.session) if asking.session else []
        if asking.exported:
            row = self._exported(view, asking.exported)
            over = is_own(row, asking.session) or row.status not in UNFINISHED
            if not (over and any(one.status in UNFINISHED for one in bound)):
                return row
        return self._of(bound, f"Session {asking.session}") if bound else None

    def _exported(self, view: View, name: str) -> RunRow:
        """The run of the environment; where it is none, nobody typed that name."""
        try:
            return self.run_named(view, name, _circular)
        except NotFound as error:
            error.hint = f"LEFTOFF_RUN names it: set it to a run, or unset it. {error.hint}"
            raise

    def _by_rule(self, view: View, asking: Asking) -> RunRow:
        branch = self.caller.branch
        found = view.list_runs({"branch": branch, "status": UNFINISHED})
        rows = [row for row in found if not is_spent(row) and asking.may_use(view, row)]
        rows = [row for row in rows if not _stands_back(view, row, self.rule)] or rows
        if rows:
            return self._of(rows, f"Branch {branch}")
        last = view.list_runs({}, 50) if self.rule == READS else []
        newest = [row for row in last if asking.may_use(view, row)]
        if not newest and self.rule == READS and not last:
            raise NotFound("There is no run here.", hint="`leftoff start WORKFLOW` starts one.")
        if not newest:
            raise _none_here(view, branch, asking)
        if len(newest) > 1:
            run, on = newest[0], "" if newest[0].branch == branch else f" on branch {newest[0].branch}"
            self.told = (
                f"leftoff: no run of branch {branch} is unfinished; this is the latest one{on}, {run.run_id} "
                f"({run.status})."
            )
        return newest[0]

    def _of(self, rows: list[RunRow], whose: str) -> RunRow:
        """The one that is meant where there is only one; two are never mixed up by a report."""
        if len(rows) == 1:
            return rows[0]
        if self.rule == REPORTS:
            raise several(
                rows,
                f"{whose} has {len(rows)} unfinished runs.",
                "Say which one: --run RUN or LEFTOFF_RUN.",
            )
        others = [row.run_id for row in rows[1:]]
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        took = "taking the latest" if self.rule == RESUMES else "this is the latest"
        self.told = (
            f"leftoff: {whose[0].lower()}{whose[1:]} has {len(rows)} unfinished runs; {took}, {rows[0].run_id}.\n"
            f"The others: {', '.join(others[:_SHOWN])}{more}."
        )
        return rows[0]


def refuse_archived(row: RunRow) -> None:
    """Raise ``NotFound`` if a run is archived: it takes no reports."""
    if row.is_archived:
        raise NotFound(
            f"Run {row.run_id} is archived.",
            hint=f"`leftoff undelete {row.run_id}` brings it back; `leftoff show {row.run_id}` looks into it.",
        )


def need_whole(found: Target, text: str | None) -> Target:
    """What was named, for whoever needs a run: an error where it is one version of it."""
    if found.version is None:
        return found
    raise Usage(
        f"{text} is one version of run {found.row.run_id}; a run is needed here.",
        hint=f"Nothing was changed. Name the run alone: {found.row.run_id}.",
    )


def _circular(view: View) -> RunRow:
    raise Usage(
        "LEFTOFF_RUN is @, which is the run that LEFTOFF_RUN names.",
        hint="Nothing was changed. Set it to the id of a run, or unset it.",
    )


class Fit(Fields):
    """Which runs a decision can be about: a test, and what it says of one and of several. ``among``: the status of
    those that are looked at where none is named. ``strict``: where none fits, several others are no choice.
    ``by_name``: a run must be named, even if there is only one."""

    test: Callable[[View, RunRow], bool]
    one: str
    many: str
    among: Sequence[str] | None = UNFINISHED
    strict: bool = True
    by_name: bool = False


class Deciding(Which):
    """The run that a decision is about: the only one that fits, of the branch or of a name; of several none."""

    def __init__(self, caller: Caller, now: int, fit: Fit) -> None:
        super().__init__(caller, now)
        self.fit = fit

    def _by_rule(self, view: View, asking: Asking) -> RunRow:
        branch = self.caller.branch
        rows = view.list_runs({"branch": branch, "status": self.fit.among})
        if self.fit.by_name:
            raise self._unnamed(view, rows, branch)
        found = self._only(view, rows, f"on branch {branch}")
        if found is None:
            raise _none_here(view, branch, asking, self.fit.among)
        return found

    def _unnamed(self, view: View, rows: list[RunRow], branch: str) -> Ambiguous:
        """A run must be named; those that could be."""
        fit = [row for row in rows if self.fit.test(view, row)]
        says = f"{len(fit)} runs on branch {branch} {self.fit.many}"
        if len(fit) < 2:
            says = f"{len(fit) or 'no'} run on branch {branch} {self.fit.one}"
        if not fit:
            everywhere = view.list_runs({"status": self.fit.among})
            fit = [row for row in everywhere if self.fit.test(view, row)]
            says += f"; there is on {', '.join(sorted({row.branch for row in fit}))}" if fit else ""
        error = several(fit or rows, f"Name the run: {says}.", _BY_ID)
        error.runs = bool(fit)  # of others, none is worth a question
        return error

    def choose(self, view: View, where: dict[str, Any]) -> RunRow | None:
        """The same of the runs that a workflow, a title or an issue names."""
        name = where["name"] if "name" in where else f"#{where['issue']}"
        rows = view.list_runs(where) or view.list_runs({**where, "archived": True})
        return self._only(view, rows, f"called {name}")

    def _only(self, view: View, rows: list[RunRow], which: str) -> RunRow | None:
        fit = [row for row in rows if self.fit.test(view, row)]
        if not fit and (len(rows) < 2 or not self.fit.strict):
            fit = rows
        if len(fit) == 1:
            return fit[0]
        if fit:
            raise several(fit, f"{len(fit)} runs {which} {self.fit.many}.", _BY_ID)
        if not rows:
            return None
        none = NotFound(
            f"None of the {len(rows)} runs {which} {self.fit.one}.", hint="Name the run by its id."
        )
        none.listed = _listed(rows)
        raise none


def several(rows: Sequence[RunRow], message: str, hint: str) -> Ambiguous:
    error = Ambiguous(message, listed=_listed(rows), hint=hint)
    error.runs = True
    return error


def _listed(rows: Sequence[RunRow]) -> list[tuple[str, str, str, int]]:
    return [(row.run_id, row.title or row.workflow, row.status, row.updated_at) for row in rows]


# -- what is there


def has_open_step(row: RunRow) -> bool:
    """Whether anything that was planned is not done."""
    return any(number for word, number in counts_of(row.counts).items() if word not in STEP_ENDED)


def is_spent(row: RunRow) -> bool:
    """A session's own run whose last turn ended well, with no step open: nobody has to go on with it."""
    return bool(row.workflow == SESSION) and not has_open_step(row) and not row.card.get(OPEN_TURN)


def _stands_back(view: View, row: RunRow, rule: str) -> bool:
    """A run that a session got by itself and that has no steps is nobody's to report on; it goes before no other run.
    Whoever means the latest means it once its session is gone."""
    if row.workflow != SESSION or has_open_step(row):
        return False
    lease = view.lease(row.run)
    at_work = lease is not None and lease.process is not None and lease.process.state() == ALIVE
    return rule == REPORTS or at_work


def is_own(row: RunRow, session: str | None) -> bool:
    """Whether a run is the one that a session got by itself."""
    return bool(row.workflow == SESSION and row.session == session)


def twins(
    view: View,
    workflow: str,
    branch: str,
    title: str | None = None,
    issue: str | None = None,
    limit: int | None = 1,
) -> list[RunRow]:
    """The unfinished runs of the same work, latest first: workflow and branch; title and issue where they are given. A
    title that nobody has is one that somebody wrote with other capitals."""
    where = {"workflow": workflow, "branch": branch, "issue": issue, "status": UNFINISHED}
    found = view.list_runs({**where, "title": title}, limit)
    if found or title is None:
        return found
    alike = [row for row in view.list_runs(where) if (row.title or "").casefold() == title.casefold()]
    return alike[:limit]


def _bound(view: View, session: str) -> list[RunRow]:
    """The unfinished runs of a session, else its latest. One that it started itself goes before the automatic one."""
    rows = view.list_runs({"session": session, "status": UNFINISHED})
    own = [row for row in rows if row.workflow != SESSION]
    return own or rows or view.list_runs({"session": session}, 1)


def _none_here(view: View, branch: str, asking: Asking, among: Sequence[str] | None = UNFINISHED) -> NotFound:
    start = "`leftoff start WORKFLOW` starts one."
    what = "unfinished run" if among == UNFINISHED else "run" if among is None else "finished run"
    found = view.list_runs({"status": among}, 50)
    others = [row for row in found if among != UNFINISHED or not is_spent(row)]
    free = [row for row in others if asking.may_use(view, row)][:5]
    if others and not free:
        return NotFound("Every unfinished run belongs to another session that is working on it.", hint=start)
    if not free:
        return NotFound(f"There is no {what} on branch {branch}.", hint=start)
    on = ", ".join(dict.fromkeys(row.branch for row in free))
    error = NotFound(
        f"There is no {what} on branch {branch}; there is on {on}.",
        hint=f"Use --branch {as_word(free[0].branch)}, or --run {free[0].run_id}.",
    )
    error.listed = _listed(free)
    return error
