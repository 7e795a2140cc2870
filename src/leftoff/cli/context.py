"""What a verb works with: the project, its store, the branch, the current run; each found when it is asked for."""

from __future__ import annotations

import sys

from leftoff.cli.dispatch import out, printable
from leftoff.engine.config import project as places
from leftoff.engine.config.caller import Caller
from leftoff.operations import Project, reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.lifecycle.finish import Settled
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.commit import Guard, Seal, Terms
    from leftoff.engine.write.head import Head
    from leftoff.engine.write.report import Make, Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

    class Answer(Protocol):
        """What an operation gives back, as the document that every face shows."""

        def to_json(self) -> dict[str, Any]: ...


class Context:
    """One call of the command: what was typed, the project and the caller it means, and where the answer goes."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self._project: Project | None = None
        self.caller = Caller(named=getattr(args, "run", None), branch=getattr(args, "branch", None))

    @property
    def project(self) -> Project:
        if self._project is None:
            folder = places.find_project(given=self.args.project)
            self._project = Project(folder, self.args.store, self.say)
        return self._project

    @property
    def settings(self) -> Settings:
        return self.project.settings

    @property
    def store(self) -> Store:
        return self.project.store

    @property
    def redactor(self) -> Redactor:
        return self.project.redactor

    @property
    def branch(self) -> str:
        return self.caller.branch

    @property
    def now(self) -> int:
        return self.project.now

    @property
    def limits(self) -> tuple[int, int]:
        return self.project.limits

    def close(self) -> None:
        if self._project is not None:
            self._project.close()

    # -- which run

    def current_in(self, view: View, *, latest: bool = False) -> RunRow:
        """The run that a verb means when none is named: --run, LEFTOFF_RUN, the session's, the branch's only one."""
        return reports.current(self.project, self.caller, latest=latest)(view)

    def current(self, *, latest: bool = False) -> RunRow:
        return reports.current_row(self.project, self.caller, latest=latest)

    def target(
        self, ref: str, current: Callable[[View], RunRow] | None = None, *, back: bool = False
    ) -> Target:
        """What a REF names; ``@`` is the current run. ``back``: an archived run is taken back into the store."""
        from leftoff.operations.runs import target

        return target(self.project, self.caller, ref, current, back=back)

    def bring_back(self, ref: str) -> None:
        from leftoff.operations.runs import bring_back

        bring_back(self.project, self.caller, ref)

    # -- looking

    def infos(self, **where: Any) -> list[RunInfo]:
        """Runs as listings show them; an empty list where there is no store."""
        from leftoff.engine.read.info import list_info

        return list_info(self.store, self.now, self.limits, **where)

    def info(self, row: RunRow) -> RunInfo:
        """A run as it is now."""
        from leftoff.engine.read.info import run_info
        from leftoff.engine.write.head import gone

        found = run_info(self.store, row.run, self.now, self.limits)
        if found is None:
            raise gone(row.run_id)
        return found

    def screen(self) -> Screen:
        """Stdout, as a page sees it."""
        from leftoff.cli.render.screen import stdout

        return stdout(self.now)

    def issue_now(self) -> dict[str, Any]:
        """What the current run's issue is like by now, as `context` records."""
        from leftoff.engine.workspace.issues import take

        row, section = self.current(), self.settings.section("issues")
        return take(section, self.project.folder, row.issue, row.card.get("git_branch"), self.now)

    def files(self) -> Found | None:
        """What a checkpoint says of files: those the run knows, as they are by now; ``None`` where it knows none."""
        row = self.current()
        if not self.settings.capture.git and not self.store.read(lambda view: view.hashes(row.run, "file")):
            return None
        from leftoff.engine.workspace.tracking import for_checkpoint

        return for_checkpoint(self.project.workspace(), row)

    # -- commits

    def changes(self) -> ChangeSet:
        from leftoff.model.changes import ChangeSet

        return ChangeSet(self.redactor)

    def guard(self) -> Guard:
        return reports.guard_of(self.caller)

    def report(self, make: Make | None = None, *, at: int | None = None, **more: Any) -> Reported:
        """Report on the current run, in one transaction."""
        make = make or (lambda tx, row, changes: None)
        return reports.report(self.project, self.caller, make, at=at, **more)

    def settle(self, status: str, **more: Any) -> Settled:
        """Pause or finish the current run; with --json, print it."""
        from leftoff.engine.lifecycle.finish import settle

        done = settle(
            self.store,
            self.current_in,
            status,
            self.now,
            project=self.project.folder,
            scrubber=self.redactor,
            session=self.caller.session,
            guard=self.guard(),
            **more,
        )
        if self.args.json:
            self.emit_run(done.row.run)
        return done

    def emit_run(self, run: int) -> None:
        """A run as JSON, as it is now."""
        self.emit(self.run_json(run))

    def run_json(self, run: int) -> dict[str, Any]:
        from leftoff.engine.read.info import run_info

        found = run_info(self.store, run, self.now, self.limits)
        assert found is not None
        return found.to_json()

    def answer(self, found: Answer) -> int:
        """The end of a verb: with --json, what came of it."""
        if self.args.json:
            self.emit(found.to_json())
        return 0

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

        version = commit(
            self.store, self.head(row), changes, Terms(self.now, self.guard(), seal=seal, **more)
        )
        return (version.seq if version is not None else row.seq), version

    def head(self, row: RunRow) -> Head:
        from leftoff.engine.write.head import Head

        return Head.of(row)

    # -- saying

    def out(self, text: str) -> None:
        """A result, on stdout."""
        out(text)

    def say(self, text: str) -> None:
        """Talk, on stderr."""
        from leftoff.cli.render.text import clean_lines

        sys.stderr.write(printable(clean_lines(text)) + "\n")

    def say_redacted(self, done: Reported | ChangeSet) -> None:
        """A secret is not stored, and whoever gave it should know."""
        for key in done.redacted:
            self.say(
                f"leftoff: {key} holds what looks like a secret, which is not stored (see docs/redaction.md)."
            )

    def emit(self, document: Any) -> None:
        """One JSON document on stdout."""
        from leftoff.cli.render.text import safe_json
        from leftoff.model.codec import text

        out(safe_json(text(document), sys.stdout.encoding))
