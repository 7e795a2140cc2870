"""What a verb works with: the project, its store, the branch, the current run; each found when it is asked for."""

from __future__ import annotations

import os
import sys

from leftoff.cli.dispatch import out, printable
from leftoff.clock import SYSTEM
from leftoff.engine.config import project
from leftoff.engine.config.caller import CALLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.dialects.core.base import Dialect
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.lifecycle.finish import Settled
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.commit import Guard, Seal
    from leftoff.engine.write.head import Head
    from leftoff.engine.write.report import Make, Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow


class Context:
    """One call of the command."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self.clock = SYSTEM
        self._project: str | None = None
        self._settings: Settings | None = None
        self._store: Store | None = None
        self._aside: Any = None  # where an archived run is looked at
        self.looks = True  # whether what others did to the files of a protocol is taken in first

    # -- where

    @property
    def project(self) -> str:
        if self._project is None:
            self._project = project.find_project(given=self.args.project)
        return self._project

    def at_home(self, row: RunRow) -> None:
        """From now on the project is where the run's files are: a run keeps to its own work tree."""
        home = project.home_of(row.card, self.project, getattr(self.store, "folder", None))
        if home != self.project:
            self.say(f"leftoff: {row.run_id} belongs to the work tree {home}.")
            self._project, self._settings = home, None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from leftoff.engine.config.settings import load

            self._settings = load(self.project)
        return self._settings

    def forget_settings(self) -> None:
        """They were changed."""
        self._settings = None

    @property
    def store(self) -> Store:
        if self._store is None:
            location = project.store_location(self.project, self.args.store, self.settings.store)
            self._store = project.open_followed(self.project, location, self.settings, self.clock, self.say)
            if self._store.follower is not None and self.looks:
                self._store.follower.look()
        return self._store

    def surroundings(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """What a new run remembers of the world around it: what is not committed, and its issue."""
        from leftoff.engine.workspace.surroundings import DIRTY, dirty_paths

        dirty = dirty_paths(self.project)
        known: dict[str, Any] = {DIRTY: dirty} if dirty is not None else {}
        if issue:
            from leftoff.engine.workspace.issues import take

            known |= take(self.settings.section("issues"), self.project, issue, branch, self.now)
        return known

    @property
    def dialect(self) -> Dialect | None:
        """The protocol that the project follows."""
        if not self.settings.section("mirror"):
            return None
        from leftoff.dialects.core.project import mirrored

        return mirrored(self.project, self.settings)

    @property
    def redactor(self) -> Redactor:
        return self.settings.redactor()

    @property
    def branch(self) -> str:
        return getattr(self.args, "branch", None) or CALLER.branch

    @property
    def now(self) -> int:
        return self.clock.now()

    def close(self) -> None:
        """The end of the call: pages that follow the store are brought up to date if anything was written."""
        if self._store is not None:
            if self._store.wrote and self._aside is None:
                self.board()
            self._store.close(soon=True)
        if self._aside is not None:
            self._aside.cleanup()

    def board(self) -> None:
        """Keep the table current that `[status] file` names; a page that cannot be written undoes nothing."""
        if not self.settings.section("status"):
            return
        from leftoff.dialects.sitebuilder import board
        from leftoff.errors import LeftoffError

        try:
            path = board.page_path(self.project, self.settings)
            if path is not None and self.store.exists():
                board.keep_current(path, lambda: board.table(self.store, self.now, self.limits))
        except (LeftoffError, OSError) as error:
            why = error.message if isinstance(error, LeftoffError) else str(error)
            self.say(f"leftoff: the page of `[status] file` is not up to date: {why}")

    # -- which run

    @property
    def named(self) -> str | None:
        """The run that was named, as an option or in the environment."""
        return getattr(self.args, "run", None) or CALLER.run

    def current_in(self, view: View, *, latest: bool = False) -> RunRow:
        """The run that a verb means when none is named: --run, LEFTOFF_RUN, the session's, the branch's only one."""
        from leftoff.engine.read.find import Asking, current_run

        session, exported = CALLER.session, CALLER.run
        asking = Asking(self.now, session=session, exported=exported) if session or exported else None
        named = getattr(self.args, "run", None)
        return current_run(view, branch=self.branch, run=named, asking=asking, latest=latest)

    def current(self, *, latest: bool = False) -> RunRow:
        from leftoff.engine.write.report import need_store

        need_store(self.store)
        return self.store.read(lambda view: self.current_in(view, latest=latest))

    def target(
        self, ref: str, current: Callable[[View], RunRow] | None = None, *, back: bool = False
    ) -> Target:
        """What a REF names; ``@`` is the current run. ``back``: an archived run is taken back into the store."""
        from leftoff.engine.read.find import resolve
        from leftoff.errors import NotFound

        try:
            return resolve(self.store, ref, current or self.current_in)
        except NotFound:
            if not self._open_archived(ref, back=back):
                raise
            return resolve(self.store, ref, current or self.current_in)

    def _open_archived(self, ref: str, *, back: bool) -> bool:
        """Whether a REF is of an archived run: taken back, or looked at in a store that is gone afterwards."""
        from leftoff.engine.retention.archive import SUFFIX, bundle_named, bundle_of, take_out
        from leftoff.host import this_process
        from leftoff.model.ids import parse_ref

        bundle = bundle_of(self.store, parse_ref(ref).base) or bundle_named(self.store, ref)
        if bundle is None:
            return False
        into = self.store
        if not back:
            from tempfile import TemporaryDirectory

            self._aside = TemporaryDirectory(prefix="leftoff-")
            into = project.open_store(self._aside.name + "/.leftoff")
        take_out(self.store, bundle, into, self.now, (this_process(), "leftoff"))
        if into is not self.store:
            self.store.close(soon=True)
            self._store = into
        else:
            self.say(f"leftoff: {os.path.basename(bundle).removesuffix(SUFFIX)} was archived, and is back.")
        return True

    def bring_back(self, ref: str) -> None:
        """An archived run that is named comes back into the store, unless one of that name is there."""
        from leftoff.engine.retention.archive import SUFFIX, bundle_named, bundle_of
        from leftoff.model.ids import parse_ref

        bundle = bundle_of(self.store, parse_ref(ref).base)
        if bundle is None and not self._is_known(ref):
            bundle = bundle_named(self.store, ref)
        if bundle is not None:
            run_id = os.path.basename(bundle).removesuffix(SUFFIX)
            there = self.store.exists() and self.store.read(lambda view: view.find_run(run_id)) is not None
            if not there:
                self._open_archived(ref, back=True)

    def _is_known(self, ref: str) -> bool:
        """Whether a REF names something in the store."""
        from leftoff.engine.read.find import resolve
        from leftoff.errors import LeftoffError

        try:
            resolve(self.store, ref, self.current_in)
        except LeftoffError:
            return False
        return True

    def upkeep(self) -> None:
        """Retention by itself, once a day, where the project wants it. Never on verbs that agents call often."""
        if not (self.settings.section("retention") or self.settings.section("mirror")):
            return
        from leftoff.dialects.retention import Upkeep
        from leftoff.errors import LeftoffError

        try:
            Upkeep(self.store, self.project, self.settings, self.now, self.limits).by_itself()
        except (LeftoffError, OSError) as error:
            self.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")

    # -- looking

    @property
    def limits(self) -> tuple[int, int]:
        """After how many milliseconds without a sign of life a run is quiet, and stalled."""
        beat = self.settings.heartbeat
        return int(beat.quiet * 1000), int(beat.stalled * 1000)

    def infos(self, **where: Any) -> list[RunInfo]:
        """Runs as listings show them; an empty list where there is no store."""
        from leftoff.engine.read.info import list_info

        return list_info(self.store, self.now, self.limits, **where)

    def info(self, row: RunRow) -> RunInfo:
        """A run as it is now."""
        from leftoff.engine.read.info import run_info
        from leftoff.errors import NotFound

        found = run_info(self.store, row.run, self.now, self.limits)
        if found is None:
            raise NotFound(f"Run {row.run_id} is gone.")
        return found

    def screen(self) -> Screen:
        """Stdout, as a page sees it."""
        from leftoff.cli.render.screen import stdout

        return stdout(self.now)

    def issue_now(self) -> dict[str, Any]:
        """What the current run's issue is like by now, as `context` records."""
        from leftoff.engine.workspace.issues import take

        row, section = self.current(), self.settings.section("issues")
        return take(section, self.project, row.issue, row.card.get("git_branch"), self.now)

    def files(self) -> Found | None:
        """What a checkpoint says of files: those the run knows, as they are by now; ``None`` where it knows none."""
        row = self.current()
        if not self.settings.capture.git and not self.store.read(lambda view: view.hashes(row.run, "file")):
            return None
        from leftoff.engine.workspace.tracking import for_checkpoint

        return for_checkpoint(self.store, self.project, self.redactor, self.settings.capture, row, self.now)

    # -- commits

    def changes(self) -> ChangeSet:
        from leftoff.model.changes import ChangeSet

        return ChangeSet(self.redactor)

    def guard(self) -> Guard:
        """Reports of a step that leftoff started carry its attempt's token."""
        from leftoff.engine.write.commit import NO_GUARD, Guard

        token = CALLER.attempt
        return Guard(attempt=token) if token else NO_GUARD

    def report(self, make: Make | None = None, *, at: int | None = None, **more: Any) -> Reported:
        """Report on the current run, in one transaction."""
        from leftoff.engine.write.report import report

        return report(
            self.store,
            self.current_in,
            make or (lambda tx, row, changes: None),
            self.now if at is None else at,
            guard=self.guard(),
            scrubber=self.redactor,
            **more,
        )

    def settle(self, status: str, **more: Any) -> Settled:
        """Pause or finish the current run; with --json, print it."""
        from leftoff.engine.lifecycle.finish import settle

        done = settle(
            self.store,
            self.current_in,
            status,
            self.now,
            project=self.project,
            scrubber=self.redactor,
            session=CALLER.session,
            guard=self.guard(),
            **more,
        )
        if self.args.json:
            self.emit_run(done.row.run)
        return done

    def emit_run(self, run: int) -> None:
        """A run as JSON, as it is now."""
        from leftoff.engine.read.info import run_info

        found = run_info(self.store, run, self.now, self.limits)
        assert found is not None
        self.emit(found.to_json())

    def told(self, done: Reported, **more: Any) -> int:
        """The end of a report: with --json, which version of which run it made."""
        if self.args.json:
            self.emit({"run_id": done.row.run_id, "seq": done.seq, **more})
        return 0

    def commit(
        self, row: RunRow, changes: ChangeSet, seal: Seal | None = None, **more: Any
    ) -> tuple[int, Version | None]:
        """Commit to a run that somebody else may drive; its seq afterwards, and the version if there is a new one."""
        from leftoff.engine.write.commit import commit

        version = commit(self.store, self.head(row), changes, self.now, guard=self.guard(), seal=seal, **more)
        return (version.seq if version is not None else row.seq), version

    def head(self, row: RunRow) -> Head:
        from leftoff.engine.write.head import Head

        return Head(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"))

    # -- saying

    def out(self, text: str) -> None:
        """A result, on stdout."""
        out(text)

    def say(self, text: str) -> None:
        """Talk, on stderr."""
        from leftoff.cli.render.text import clean_lines

        sys.stderr.write(printable(clean_lines(text)) + "\n")

    def say_redacted(self, changes: ChangeSet) -> None:
        """A secret is not stored, and whoever gave it should know."""
        from leftoff.model.changes import NOTHING

        for (_, key), change in changes.changes.items():
            if change.secret is not NOTHING:
                self.say(
                    f"leftoff: {key} holds what looks like a secret, which is not stored (see docs/redaction.md)."
                )

    def emit(self, document: Any) -> None:
        """One JSON document on stdout."""
        from leftoff.cli.render.text import safe_json
        from leftoff.model.codec import text

        out(safe_json(text(document), sys.stdout.encoding))
