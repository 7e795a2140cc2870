"""The store of a Python program, and ``leftoff.run`` and its like: methods of the project's own store."""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, ParamSpec, TypeVar

from leftoff.clock import SYSTEM, Clock
from leftoff.engine import find, project, run_states, settings
from leftoff.engine.commit import Head, Terms
from leftoff.engine.continue_run import go_on, run_or_start
from leftoff.engine.find import READS, RESUMES, Which, need_store
from leftoff.engine.findings import check_codes
from leftoff.engine.forking import ForkRequest, fork_version
from leftoff.engine.judge import Verdict, judge_for_program, told_to_program
from leftoff.engine.lease import need_free
from leftoff.engine.opening import Opening, open_run, start_new_run
from leftoff.engine.opening import run_by_id as find_run
from leftoff.engine.resume_answers import Answers, ResumeRequest, keep_accepted, nothing_left
from leftoff.engine.run_info import RunInfo, list_info
from leftoff.engine.settings import CALLER, Caller
from leftoff.errors import CannotResume, LeftoffError, NotFound
from leftoff.host import Process, this_process
from leftoff.model.changes import Version
from leftoff.model.ids import issue_id
from leftoff.model.words import FINISHED
from leftoff.python.run_api import Run, RunView
from leftoff.python.values import encode_variable
from leftoff.store.rows import RunRow

P = ParamSpec("P")
R = TypeVar("R")
_stores: dict[tuple[int, str, str], Store] = {}


class Store:
    """One store: a folder (or URL). Nothing is created before the first write."""

    def __init__(self, location: str, project_folder: str, clock: Clock | None = None) -> None:
        self.project = project_folder
        self.location = location
        self._project = here = project.Project(project_folder, location, clock=clock or SYSTEM)
        here.takes_in_edits = False  # each verb looks when it is called
        self._clock = here.clock
        self._settings = here.settings
        self._store = here.store
        self._redactor = here.redactor
        self._heartbeat = float(here.settings.heartbeat.interval)
        self._limits = here.limits
        self._runs: set[Run] = set()
        self._pid = os.getpid()

    # -- driving

    def run(
        self,
        workflow: str,
        *,
        title: str | None = None,
        steps: Sequence[Any] = (),
        branch: str | None = None,
        issue: str | int | None = None,
        run_id: str | None = None,
        variables: dict[str, Any] | None = None,
        take_over: bool = False,
        accept: Sequence[str] = (),
    ) -> Run:
        """Continue the latest unfinished run of this workflow (and branch, title, issue), or start one.

        A run that continues is checked first, as ``resume`` does it.

        ``run_id``: the run of this id and no other. If it is completed already, it comes back with its results:
        ``do``, ``map`` and ``each`` run none of its steps again, and nothing is written. So a job that is started
        again after its end does its work once. ``steps``: a step that was declared once, never tried and is not
        among them any more is removed.
        """
        check_codes(accept)
        self._look()
        opening = Opening(
            workflow,
            title=title,
            branch=branch or CALLER.branch,
            run_id=run_id,
            steps=steps,
            variables=_encoded(variables),
        )
        opening.facts = self._facts(issue)
        opened = None
        while opened is None:  # or another process changed the run after it was checked
            opening.seen = self._store.read(opening.own_run) if self._store.exists() else None
            if opening.seen is not None and opening.seen.status in FINISHED:
                return self._finished(opening.seen)
            if opening.seen is None:
                opening.context = self._project.surroundings(issue_id(issue), opening.facts["git_branch"])
            else:
                request = ResumeRequest(find.Target(opening.seen, None), accept=accept)
                report = self._checked(request, f"leftoff.run({workflow!r}, ", take_over)
            now, driver = self._clock.now(), self._driver()
            opened = run_or_start(
                self._store, opening, now, driver, scrubber=self._redactor, take_over=take_over
            )
        head, epoch, resumed = opened
        run = Run(self, head, epoch, resumed=resumed)
        if resumed:
            with run._or_release():
                self._go_on(run, report, opening=opening)
        return run

    def _finished(self, row: RunRow) -> Run:
        """Return a run that is completed, with its results. Nothing is written to it."""
        if row.status != "completed":
            raise CannotResume(
                f"Run {row.run_id} is {row.status}.",
                hint=f"leftoff.get({row.run_id!r}) reads it. Choose another run_id for a new run.",
            )
        print(f"leftoff: {row.run_id} is completed; its recorded results are used.", file=sys.stderr)
        run = Run(self, Head.of(row), 0, resumed=True)
        run._let_go()
        run._buffer.over = True
        return run

    def start(
        self,
        workflow: str,
        *,
        title: str | None = None,
        steps: Sequence[Any] = (),
        branch: str | None = None,
        issue: str | int | None = None,
        run_id: str | None = None,
        variables: dict[str, Any] | None = None,
    ) -> Run:
        """Always a new run. Used without ``with``, it is paused when the program ends."""
        opening = Opening(
            workflow,
            title=title,
            branch=branch or CALLER.branch,
            run_id=run_id,
            steps=steps,
            variables=_encoded(variables),
        )
        opening.facts = self._facts(issue)
        opening.context = self._project.surroundings(issue_id(issue), opening.facts["git_branch"])
        head, epoch, _ = start_new_run(
            self._store, opening, self._clock.now(), driver=self._driver(), scrubber=self._redactor
        )
        assert epoch is not None
        return Run(self, head, epoch, resumed=False)

    def resume(
        self,
        ref: str | None = None,
        *,
        branch: str | None = None,
        take_over: bool = False,
        accept: Sequence[str] = (),
    ) -> Run:
        """Continue an unfinished run: the latest one, or what ``ref`` names. An older version is rolled back to.

        The world is checked first, as the command does it: `CannotResume` has the findings, and ``accept`` names the
        codes to continue with.
        """
        self._look()
        if ref is not None:
            target = self._resolved(ref, RESUMES)
        else:
            need_store(self._store)
            which = Which(Caller(branch=branch), self._clock.now(), RESUMES, self._project.explain)
            target = find.Target(self._store.read(which), None)
        over = nothing_left(target)
        if over is not None:
            hint = f"leftoff.get({target.row.run_id!r}) reads it; an older checkpoint of it can be resumed."
            raise CannotResume(over, hint=hint)
        call = f"leftoff.resume({target.row.run_id!r}, "
        return self._continue(target, call, take_over=take_over, accept=accept)

    def _continue(self, target: find.Target, call: str, *, take_over: bool, accept: Sequence[str]) -> Run:
        """Check a run, and drive it. ``call``: the program's call, up to where ``accept=`` goes."""
        report = self._checked(ResumeRequest(target, accept=accept), call, take_over)
        now, driver = self._clock.now(), self._driver()
        head, epoch = open_run(self._store, target.row.run_id, now, driver=driver, take_over=take_over)
        assert epoch is not None
        run = Run(self, head, epoch, resumed=True)
        with run._or_release():
            self._go_on(run, report, target.version)
        return run

    def _checked(self, request: ResumeRequest, call: str, take_over: bool) -> Verdict:
        """Return what was found of a run that may continue. Nothing is written, and its lease is not taken yet."""
        row, process = request.target.row, this_process()
        now = self._clock.now()
        self._store.read(lambda view: need_free(view, row.run, row.run_id, process, now, take_over=take_over))
        return judge_for_program(self._project, request, call)

    def _resolved(self, ref: str, rule: str) -> find.Target:
        """Return what a REF names. ``@`` is the run that the command would mean."""
        which = Which(Caller(), self._clock.now(), rule)
        try:
            return find.resolve(self._store, ref, which, which.choose)
        except NotFound as error:
            raise self._project.explain(error) from None

    def _go_on(
        self, run: Run, report: Verdict, back_to: Version | None = None, opening: Opening | None = None
    ) -> None:
        """Make a run ready to be driven. ``report``: what was found and accepted."""
        if report.findings:
            keep_accepted(self._project, report, Answers())
            run.refresh()
        if back_to is not None and back_to.seq != run._buffer.head.seq:
            run.rollback(back_to)
        terms = Terms(self._clock.now(), run._buffer.guard)
        go_on(self._store, run._buffer.row, terms, self._redactor, opening)
        run.refresh()
        for line in told_to_program(report):
            print(f"leftoff: {line}", file=sys.stderr)

    def _fork(self, run: Run, ref: Any, branch: str, run_id: str | None, variables: dict[str, Any]) -> Run:
        row = self._store.read(run._buffer.row)
        target = find.Target(row, run._version(ref) if ref is not None else None)
        wanted = ForkRequest(branch, run_id, _encoded(variables), scrubber=self._redactor)
        head, epoch, _ = fork_version(self._store, target, wanted, self._clock.now(), self._driver())
        return Run(self, head, epoch, resumed=True)

    def _drives(self, run: Run) -> None:
        """Remember a run that is driven through this store. If the program does not end it, it is paused at exit."""
        if not self._runs:
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)
        self._runs.add(run)

    def _look(self) -> None:
        """Read the changes to the files of a protocol first, if the project follows one."""
        self._project.take_in_edits()

    def _driver(self) -> tuple[Process, str]:
        name = os.path.basename(sys.argv[0])
        return this_process(), name if name not in ("", "-c", "-m") else "python"

    def _facts(self, issue: str | int | None) -> dict[str, Any]:
        """Return the facts of a new run: git, issue and program."""
        alone = CALLER.session is None and CALLER.attempt is None  # no agent or workflow continues it
        program = {"program": self._driver()[1]} if alone else {}
        return {**self._project.git_facts(), "issue": issue_id(issue), **program}

    # -- looking

    def get(self, ref: str) -> RunView:
        """A run to look at, by any REF (with a version in it: at that version); nothing is written, no lease taken."""
        self._look()
        target = self._resolved(ref, READS)
        row, version = target.row, target.version
        return RunView(self._store, row.run, row.run_id, self._clock, version=version, limits=self._limits)

    def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow: str | None = None,
        branch: str | None = None,
        title: str | None = None,
        issue: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[RunInfo]:
        """Runs, the one with the latest commit first."""
        self._look()
        words = [status] if isinstance(status, str) else status
        return list_info(
            self._store,
            self._clock.now(),
            self._limits,
            status=words,
            workflow=workflow,
            branch=branch,
            title=title,
            issue=issue,
            limit=limit,
        )

    # -- keeping it in order

    def fsck(self, *, repair: bool = False) -> run_states.FsckReport:
        """Check every byte that can be checked; ``repair`` sets damage aside."""
        return run_states.fsck(self._store, repair=repair)

    def prune(self, run_id: str, drop: Iterable[str] = ()) -> int:
        """Drop checkpoints, and the data that only they need; bytes given back to the file system."""
        return run_states.drop_checkpoints(self._store, run_id, drop)

    def remove(self, run_id: str) -> None:
        """Move a run to the trash, from where ``undelete`` brings it back."""
        need_store(self._store, run_id)
        row = self._store.read(lambda view: find_run(view, run_id))
        run_states.set_aside(self._store, row, now=self._clock.now(), trash=True)

    def trash(self) -> Sequence[dict[str, Any]]:
        """Return the runs that ``undelete`` brings back, the last one first."""
        return [run_states.trashed_to_json(each) for each in run_states.in_trash(self._store)]

    def undelete(self, run_id: str) -> None:
        """Bring back a run from the trash or the archive."""
        run_states.bring_back(self._store, run_id, self._clock.now())

    def sweep(self) -> int:
        """Drop the remains of crashes."""
        return run_states.sweep_store(self._store)

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """Write a consistent copy into a new folder, while others write."""
        if not self._store.exists():
            raise NotFound(f"There is nothing to back up: there is no store at {self._store.name}.")
        self._store.backup(os.path.abspath(os.fspath(folder)))

    def close(self) -> None:
        """Pause what is driven through this store, and release its files. It may be used again afterwards."""
        failed: LeftoffError | None = None
        for run in [*self._runs]:
            try:
                run.pause()
            except LeftoffError as error:  # the others are to be paused all the same
                failed = failed or error
                if not error.retry:
                    run._let_go()
        self._project.close(soon=False)
        atexit.unregister(self._at_exit)
        if failed is not None:
            raise failed

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return
        for run in self._runs:
            print(
                f"leftoff: run {run.id} was left open; it continues when the program is started again. "
                "To finish a run, use `with leftoff.run(...)`, or run.finish().",
                file=sys.stderr,
            )
        try:
            self.close()
        except LeftoffError as error:
            print(f"leftoff: {error.message}", file=sys.stderr)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<leftoff store {self.location}>"


def _encoded(variables: dict[str, Any] | None) -> dict[str, Any]:
    return {name: encode_variable(value, name) for name, value in (variables or {}).items()}


# -- the functions of the package


def open(location: str | os.PathLike[str] | None = None) -> Store:
    """A store by its folder or URL (left out: the project's own). It need not exist yet: the first write creates it."""
    if location is None:
        return project_store()
    text = project.absolute(os.fspath(location))
    home = os.path.dirname(text) if os.path.basename(text) == project.FOLDER else project.find_project()
    return Store(text, home)


def project_store() -> Store:
    """The store of the project that the current folder belongs to."""
    home = project.find_project()
    location = project.store_location(home, configured=settings.load(home).store)
    key = (os.getpid(), home, location)
    if key not in _stores:
        _stores[key] = Store(location, home)
    return _stores[key]


def _of_project(method: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
    """Return a function that calls a method of the project's store, with the method's signature."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> R:
        return method(project_store(), *args, **named)

    call.__wrapped__ = MethodType(method, _stores)  # a bound method, so that `help` shows no self
    call.__module__, call.__qualname__ = __name__, call.__name__
    return call


run = _of_project(Store.run)
start = _of_project(Store.start)
resume = _of_project(Store.resume)
get = _of_project(Store.get)
list = _of_project(Store.list)
fsck = _of_project(Store.fsck)
