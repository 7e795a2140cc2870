"""The files of a run that this process drives: kept, tracked, restored, and brought back with a rollback."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.read.find import Target
from leftoff.engine.steps.artifacts import capture
from leftoff.engine.workspace.tracking import look_around, track_given
from leftoff.errors import NeedsPerson

if TYPE_CHECKING:
    from leftoff.api.buffer import Buffer
    from leftoff.api.store import Store as Owner
    from leftoff.engine.workspace.restore_plan import RestorePlan
    from leftoff.engine.workspace.restoring import Agree, Restorer
    from leftoff.model.versions import Version


class FilesMixin:
    """The part of ``Run`` that knows files."""

    if TYPE_CHECKING:
        _owner: Owner
        _buffer: Buffer
        status: Any

        def commit(self) -> Version | None: ...
        def _current_step(self) -> str | None: ...
        def _outputs(self, step: str | None, path: str) -> None: ...
        def _version(self, ref: Any) -> Version: ...

    def artifact(self, path: Any, *, name: str | None = None, step: str | None = None) -> dict[str, Any]:
        """Record a file that the current step produced, with a copy of it as it is now."""
        step = step or self._current_step()
        got = capture(self._owner._project.workspace(), os.fsdecode(path), step=step, name=name)
        with self._buffer.lock:
            got.put(self._buffer.pending)
            if got.blob is not None:
                self._buffer.blobs.append(got.blob)
            self._outputs(step, got.about["path"])
        return got.about

    def track(self, *paths: Any) -> list[dict[str, Any]]:
        """Remember files as they are now, with a copy; durable with the next commit. What is recorded of each."""
        row = self._buffer.store.read(self._buffer.row)
        found = track_given(self._owner._project.workspace(), row, [os.fsdecode(path) for path in paths])
        with self._buffer.lock:
            found.put(self._buffer.pending, row.seq + 1)
            self._buffer.blobs += found.blobs
        return [got.about for got in found.captured]

    def _look_around(self, trigger: str) -> None:
        """Before a checkpoint: the files that the run knows, git, and at the end of a phase the issue."""
        row = self._buffer.store.read(self._buffer.row)
        around = look_around(self._owner._project, row, dirty=True, issue=trigger == "phase_transition")
        with self._buffer.lock:
            around.put(row, self._buffer.pending)
            self._buffer.blobs += around.blobs

    def rollback(self, ref: str | int | Version, *, files: bool = False, yes: bool = False) -> Version:
        """Go back to a version: a new checkpoint equal to it, after the present was saved.

        ``files``: tracked files are what they were, too. Where some were changed since they were last recorded, that
        is ``NeedsPerson``, unless ``yes``; what is there is saved first in any case.
        """
        version = self._version(ref)
        with self._buffer.committing:
            restorer = self._restorer(version)
            if files:
                restorer.rollback(_agree(yes))
            else:
                restorer.back()
            self._buffer.refresh()
            if self.status != "running":  # it is driven, whatever that version says
                with self._buffer.lock:
                    status_changes(self._buffer.pending, "running", self._buffer.clock.now())
                self._buffer.commit(None)
        return restorer.version or version

    def restore(self, ref: str | int | Version, *paths: Any, yes: bool = False) -> list[str]:
        """Single files as they were at a version; those that had to be restored or deleted."""
        from leftoff.engine.workspace.paths import given_path

        version = self._version(ref)
        names = [given_path(self._owner.project, os.fsdecode(path)) for path in paths]
        with self._buffer.committing:
            done = self._restorer(version).restore(names, _agree(yes))
            self._buffer.refresh()
        return [entry.path for entry in done.plan.touched]

    def _restorer(self, version: Version) -> Restorer:
        """Return what brings files and records back to a version, under the lease of this process."""
        from leftoff.engine.workspace.restoring import Restorer

        buffer = self._buffer
        buffer.must_drive()
        self.commit()
        target, now = Target(buffer.store.read(buffer.row), version), buffer.clock.now
        return Restorer(buffer.store, self._owner.project, buffer.redactor, now, target, guard=buffer.guard)


def _agree(yes: bool) -> Agree:
    def agree(plan: RestorePlan) -> bool:
        if plan.changed and not yes:
            names = ", ".join(entry.path for entry in plan.changed)
            raise NeedsPerson(
                f"Changed since they were last recorded: {names}.",
                hint="Nothing was touched. yes=True restores them; what is there now is saved first.",
            )
        return True

    return agree
