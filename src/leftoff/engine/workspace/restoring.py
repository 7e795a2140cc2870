"""Bringing files back to what they were at a version: with a whole rollback, or one by one.

The order is what makes it safe. The plan is made and agreed to. The journal says what will be done. Every new file is
written next to its place. The present content of every file that will be touched becomes part of a checkpoint. The new
files are renamed into their places. The records follow. The journal goes. An error before the checkpoint leaves nothing
changed. Cut short later, the next call takes up the journal: what is done is seen from the files, and the rest is done.
"""

from __future__ import annotations

import os

from leftoff.engine.workspace.capturing import Tracked
from leftoff.engine.workspace.content import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    NOTHING_THERE,
    cut_off,
    mode_of,
    present,
    shown_mode,
)
from leftoff.engine.workspace.git import repository
from leftoff.engine.workspace.journal import ROLLBACK, SINGLE, Journal, Journals, Todo
from leftoff.engine.workspace.paths import refuse_store
from leftoff.engine.workspace.plan import DELETE, make_plan
from leftoff.engine.workspace.put import Putter
from leftoff.engine.workspace.tracking import Found, dirty_state, files_of
from leftoff.engine.workspace.workspace import Workspace
from leftoff.engine.write.unmoved import until_unmoved
from leftoff.errors import Conflict, LeftoffError, StoreUnavailable, UnsafePath
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.plan import Entry, Plan
    from leftoff.engine.workspace.reporting import ReportHand
    from leftoff.store.base import Store, View

    Agree = Callable[[Plan], bool]


class Outcome(Fields):
    """What was done: the plan, or ``None`` where one that had been cut short was completed; the version gone to.

    ``before``: what became of another one that had been cut short, in a sentence.
    """

    seq: int
    plan: Plan | None
    before: str = ""
    done: bool = True  # False: somebody said no

    def to_json(self) -> dict[str, Any]:
        plan = self.plan.to_json() if self.plan is not None else {"restore": [], "delete": [], "keep": []}
        return {**plan, "completed": self.plan is None, **({"before": self.before} if self.before else {})}


class Restorer(Fields):
    """One run's files in one project, and a hand to commit with."""

    store: Store
    project: str
    redactor: Redactor
    now: Callable[[], int]
    hand: ReportHand
    outputs: frozenset[str] = frozenset()  # these are restored as their steps recorded them

    def rollback(self, target: Target, ref: str, agree: Agree) -> Outcome:
        """The records and the files as they were at a version."""
        return self._run(ROLLBACK, target, ref, None, agree)

    def restore(self, target: Target, ref: str, paths: list[str], agree: Agree) -> Outcome:
        """Some files as they were at a version; no other record changes."""
        return self._run(SINGLE, target, ref, paths, agree)

    def _run(self, kind: str, target: Target, ref: str, paths: list[str] | None, agree: Agree) -> Outcome:
        """Where somebody reports meanwhile, what was agreed to was about another state: it is planned, and asked,
        again; the files that are in their place already are left alone."""
        return until_unmoved(lambda: self._once(kind, target, ref, paths, agree))

    def _once(self, kind: str, target: Target, ref: str, paths: list[str] | None, agree: Agree) -> Outcome:
        self.hand.look()
        before = ""
        with Journals(self.store, self.project) as journals:
            left = journals.load(target.row.run, target.row.run_id)
            if left is not None:
                same = (
                    left.kind == kind and (left.ref == ref or left.seq == target.seq) and _covers(left, paths)
                )
                completed = self._complete(journals, left, target)
                if completed and same:
                    return Outcome(left.seq, None)
                if same:
                    target = self._again(target, left.seq)
                elif left.saved:
                    before = _told(left, completed)
            plan = self.plan(target, paths)
            if not agree(plan):
                return Outcome(target.seq, plan, before, done=False)
            then, token = plan.sides.then, os.urandom(4).hex()
            todo = [Todo.of(entry, _folders(then.get(entry.path))) for entry in plan.touched]
            journal = Journal(kind, target.row.run, target.row.run_id, ref, target.seq, token, todo)
            try:
                self._carry_out(journals, journal, target, plan)
            except BaseException:
                if left is None and not journal.saved:
                    journals.remove(journal.run_id)
                raise
            return Outcome(target.seq, plan, before)

    def plan(self, target: Target, paths: list[str] | None) -> Plan:
        """Return what differs from a version, and what is done about each file."""
        return make_plan(self.store, self.project, target, self.redactor, only=paths, outputs=self.outputs)

    def _again(self, target: Target, seq: int) -> Target:
        """The version that the call which was cut short meant."""
        from leftoff.engine.read.find import Target

        return Target(target.row, self.store.read(lambda view: view.version(target.row.run, seq)))

    # -- one that was cut short

    def _complete(self, journals: Journals, journal: Journal, target: Target) -> bool:
        """Finish what was begun; whether that could be.

        Not before the first file; not if somebody wrote to one, or the run went on since: what was done meanwhile must
        be saved first, so all is planned anew.
        """
        self._putter(journal).discard(journal.todo)
        if not journal.saved:
            return False
        if self._went_on(journal):
            if not (journal.placed and self._followed(journal, target)):
                return False
            journals.remove(journal.run_id)  # only its own end was cut short
            return True
        paths = {one.path for one in journal.todo}
        refuse_store(self.project, self.store.folder, paths)
        for one in journal.todo:
            cut = cut_off(self.project, one.path, paths)
            now = NOTHING_THERE if cut else present(self.project, one.path)
            room = FOLDER in (now.kind, one.was.kind) and now.kind in (FOLDER, ABSENT)  # made, or being made
            if not now.same(one.want) and not now.same(one.was) and not room:
                self._tidy(journal.todo)
                return False
        self._finish(journals, journal, self._putter(journal))
        return True

    def _tidy(self, todo: list[Todo]) -> None:
        """The folders that the call which was cut short had emptied, and could not remove any more."""
        putter, paths = Putter(self.store, self.project, None, ""), {one.path for one in todo}
        for one in todo:
            if one.want.kind == ABSENT and not cut_off(self.project, one.path, paths):
                putter.tidy(one.path)

    def _went_on(self, journal: Journal) -> bool:
        """Whether anything was committed since the present was saved."""
        return self.hand.decided is not None and self.hand.decided.seq > journal.saved

    def _followed(self, journal: Journal, target: Target) -> bool:
        """Whether the records went back, too."""

        def look(view: View) -> bool:
            newer = view.versions(target.row.run, sealed=True)
            return any(v.seq > journal.saved and v.trigger == "rollback" for v in newer)

        return self.store.read(look)

    # -- doing it

    def _carry_out(self, journals: Journals, journal: Journal, target: Target, plan: Plan) -> None:
        if not plan.touched:
            self._records(journal)
            journals.remove(journal.run_id)
            return
        found, putter = self._saved(target, plan), self._putter(journal)
        journals.write(journal)
        try:
            prepare(putter, journal.todo)
            journal.saved = self.hand.seal(found, "manual", "before a rollback")
            journals.write(journal)
        except BaseException:
            putter.discard(journal.todo)
            raise
        self._finish(journals, journal, putter)

    def _putter(self, journal: Journal) -> Putter:
        return Putter(self.store, self.project, repository(self.project), journal.token)

    def _saved(self, target: Target, plan: Plan) -> Found:
        """The present content of every file that will be touched, and in git of every other dirty one."""
        known = files_of(self.store, target.row)
        tracked = Tracked(self._workspace(), known=known, withheld=plan.sides.withheld)
        repo = repository(self.project) if plan.sides.commit is not None else None
        found = dirty_state(tracked, repo) if repo is not None else Found([], [])
        others = {got.key: got for got in found.captured}
        for entry in plan.touched:
            others[entry.path] = self._save(tracked, entry, others.get(entry.path), known.get(entry.path))
        dropped = [path for path in found.dropped if path not in others]
        return Found(list(others.values()), dropped, found.commit)

    def _workspace(self) -> Workspace:
        """However much there is, all of it is kept."""
        return Workspace(self.store, self.project, self.redactor, None, self.now())

    def _save(self, tracked: Tracked, entry: Entry, dirty: Any, known: dict[str, Any] | None) -> Any:
        about = dirty.about if dirty is not None else known or {}
        facts = {name: about.get(name) for name in ("status", "by", "staged")}
        if entry.now.kind in (ABSENT, FOLDER):
            return tracked.deleted(entry.path, by=facts["by"])
        if facts["status"] == "deleted":
            facts["status"] = None
        if entry.action == DELETE:
            facts["folders"] = _folder_modes(self.project, entry.path)
        got = tracked.capture(entry.path, **facts)
        if got.about["hash"] != entry.now.hash:
            raise Conflict(f"{entry.path} was changed just now.", hint="Nothing was touched. Try again.")
        return got

    def _finish(self, journals: Journals, journal: Journal, putter: Putter) -> None:
        try:
            put_in_place(putter, journal.todo)
        except Interrupted as error:
            raise self._half_done(journal, error) from None
        finally:
            putter.discard(journal.todo)
        journal.placed = True
        journals.write(journal)
        self._records(journal)
        journals.remove(journal.run_id)

    def _half_done(self, journal: Journal, error: Interrupted) -> LeftoffError:
        """Some files are in their place, the others are not; which could not be put there, and what to do."""
        todo = journal.todo
        done = sum(present(self.project, one.path).same(one.want) for one in todo)
        told = f"{error.path} {error.why}. {done} of {len(todo)} files are in place; what was there before is saved."
        if error.changed:
            return Conflict(told, hint=f"The same `leftoff {journal.kind}` saves that, too, and continues.")
        return StoreUnavailable(told, hint=f"Then the same `leftoff {journal.kind}` completes it.")

    def _records(self, journal: Journal) -> None:
        if journal.kind == ROLLBACK:
            self.hand.back(journal.seq)
            return
        tracked = Tracked(self._workspace())
        captured = []
        for one in journal.todo:
            gone = one.want.kind == ABSENT
            captured.append(tracked.deleted(one.path) if gone else tracked.capture(one.path))
        names = ", ".join(one.path for one in journal.todo)
        if captured:
            self.hand.seal(
                Found(captured, []), "rollback", f"restored from version {journal.seq}: {names}"[:500]
            )


class Interrupted(Exception):
    """A file could not be put in its place, and why; or somebody ``changed`` it just now."""

    def __init__(self, path: str, why: str, *, changed: bool = False) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why
        self.changed = changed


def prepare(putter: Putter, todo: list[Todo]) -> None:
    """Write every new file next to its place. If a file or link must make room for its folder, it is written later."""
    for one in todo:
        try:
            putter.prepare(one)
        except (NotADirectoryError, UnsafePath):
            continue
        except OSError as error:
            raise StoreUnavailable(
                f"{one.path} cannot be restored: {error.strerror or error}.",
                hint="Nothing was changed. Remove the cause, then give the same command again.",
            ) from None


def put_in_place(putter: Putter, todo: list[Todo]) -> None:
    """Every file of a journal. What is there already is left alone, so that doing it again does no harm."""
    coming = [one for one in todo if one.want.kind != ABSENT]
    names = {one.path for one in coming}
    gone = [one for one in todo if one.want.kind == ABSENT and not cut_off(putter.project, one.path, names)]
    for one in gone:
        _put(putter, one)
    for one in coming:
        for other in gone:
            if other.path.startswith(one.path + "/") and not cut_off(putter.project, other.path, names):
                _tidy(putter, other.path)  # a folder makes room for a file
        _put(putter, one)
    for one in gone:
        if not cut_off(putter.project, one.path, names):
            _tidy(putter, one.path)


def _tidy(putter: Putter, path: str) -> None:
    try:
        putter.tidy(path)
    except OSError as error:
        raise Interrupted(path, f"has a folder that cannot be removed: {error.strerror or error}") from None


def _put(putter: Putter, one: Todo) -> None:
    """One file, unless somebody wrote to it since it was saved: that must be saved first."""
    try:
        now = present(putter.project, one.path)
        if now.kind in (FILE, LINK) and not (now.same(one.was) or now.same(one.want)):
            raise Interrupted(one.path, "was changed while files were restored", changed=True)
        if one.want.kind == ABSENT:
            putter.delete(one.path)
        else:
            putter.restore(one.path, one.want, one.commit, one.folders)
    except OSError as error:
        raise Interrupted(one.path, f"cannot be restored: {error.strerror or error}") from None


def _told(journal: Journal, completed: bool) -> str:
    """What became of one that had been cut short, before something else was done."""
    what = f"A rollback to version {journal.seq}" if journal.kind == ROLLBACK else "Restoring files"
    if completed:
        return f"{what} that had been cut short was completed first."
    return f"{what} that had been cut short was given up: the run went on, or its files were changed since."


def _covers(journal: Journal, paths: list[str] | None) -> bool:
    return paths is None or {one.path for one in journal.todo} <= set(paths)


def _folder_modes(project: str, path: str) -> list[str]:
    """The permissions of the folders above a file, from the top: they may have to be made again."""
    parts = path.split("/")[:-1]
    return [shown_mode(os.stat(os.path.join(project, *parts[: n + 1])).st_mode) for n in range(len(parts))]


def _folders(about: dict[str, Any] | None) -> list[int]:
    given = (about or {}).get("folders")
    return [mode_of(text) or 0o777 for text in given] if isinstance(given, list) else []
