"""Retention in a project: its rules, from settings and dialect, applied to the runs and archives that are here."""

from __future__ import annotations

import os

from leftoff.dialects.core.registry import mirrored
from leftoff.engine.retention import archive
from leftoff.engine.retention.policy import ARCHIVE, DEFAULT, outlived, plan, policy
from leftoff.engine.retention.prune import remove
from leftoff.errors import Conflict, LeftoffError, NotFound
from leftoff.model.times import DAY_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.archive import Check
    from leftoff.engine.retention.policy import Plan, Policy, Removal
    from leftoff.store.rows import RunRow

STAMP = "pruned"  # a file in the store's folder: when retention last ran by itself


class Pruned:
    """What went, what stays, and what somebody should know."""

    def __init__(self, dry: bool) -> None:
        self.dry = dry
        self.removed: list[dict[str, Any]] = []
        self.kept = 0
        self.freed = 0
        self.warnings: list[str] = []

    def to_json(self) -> dict[str, Any]:
        return {
            "removed": self.removed,
            "kept": self.kept,
            "bytes_freed": self.freed,
            "dry_run": self.dry,
            "warnings": self.warnings,
        }


class Upkeep:
    """The rules of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.store = project.store
        self.now = project.now
        self.dialect = mirrored(project.folder, project.settings)
        self._rules: Policy | None = None  # those that are being applied

    def rules(self) -> Policy:
        own = self.dialect is not None
        base = self.dialect.retention(self.project.folder) if self.dialect is not None else DEFAULT
        return self.project.settings.parsed("retention", lambda said: policy(said, base, auto=own))

    def prune(self, *, dry: bool = False, rules: Policy | None = None) -> Pruned:
        rules = self._rules = rules if rules is not None else self.rules()
        made = plan(self.store, rules, self.now, self.dialect.phase_of if self.dialect is not None else None)
        done = Pruned(dry)
        done.kept = made.kept
        if not dry:
            self._apply(made, done)
        done.removed += [removal.to_json() for removal in made.removals]
        self._archives(rules, done)
        if rules.max_bytes is not None and not dry:
            size = self._size()
            if size > rules.max_bytes:
                done.warnings.append(
                    f"the store has {size:,} bytes, more than the {rules.max_bytes:,} that are wanted; "
                    "everything that the rules keep is kept."
                )
        return done

    def _apply(self, made: Plan, done: Pruned) -> None:
        by_run: dict[int, list[int]] = {}
        for removal in list(made.removals):
            if removal.seq is not None:
                by_run.setdefault(removal.run, []).append(removal.seq)
            elif not self._archive_or_remove(removal, done):
                made.removals.remove(removal)
        for run, seqs in by_run.items():
            done.freed += self.store.prune(run, seqs)

    def _archive_or_remove(self, removal: Removal, done: Pruned) -> bool:
        """A whole run: into the archive, or for good. One that somebody drives stays."""
        try:
            row = self.store.read(lambda view: view.find_run(removal.run_id))
            if row is None:
                return False
            if removal.action == ARCHIVE:
                done.freed += self.archive(row, self._check_over).freed
            else:
                done.freed += remove(self.store, removal.run_id, self.now)
                self._retire(row, removed=True)
        except NotFound:
            return False
        except LeftoffError as error:
            done.warnings.append(f"{removal.run_id} stays: {error.message}")
            return False
        return True

    def archive(self, row: RunRow, check: Check) -> archive.Archived:
        """A run into its bundle, unless ``check`` is against it as it is by then."""
        done = archive.archive(self.store, row, self.now, check, self.project.limits)
        self._retire(row, removed=False)
        return done

    def _check_over(self, row: RunRow) -> None:
        """Whoever went on with a run that the rules let go has given it a new age."""
        if outlived(row, self._rules or self.rules(), self.now) is None:
            raise Conflict(f"Run {row.run_id} is {row.status}, and was just worked on.")

    def _retire(self, row: RunRow, *, removed: bool) -> None:
        """The files of a dialect go where its protocol archives them."""
        if self.dialect is not None and self.dialect.includes(row):
            self.dialect.retire(self.project.folder, row.run_id, row.branch, self.now, removed=removed)

    def _archives(self, rules: Policy, done: Pruned) -> None:
        if rules.archives is None:
            return
        for path in archive.oldest(self.store, rules.archives):
            run_id = os.path.basename(path).removesuffix(archive.SUFFIX)
            why = f"the last {rules.archives} archives are kept"
            done.removed.append({"kind": "archive", "run_id": run_id, "why": why, "action": "remove"})
            if not done.dry:
                done.freed += archive.drop(path)

    def _size(self) -> int:
        folder = getattr(self.store, "folder", None)
        total = 0
        for parent, _, names in os.walk(folder) if folder is not None else ():
            for name in names:
                try:
                    total += os.path.getsize(os.path.join(parent, name))
                except OSError:
                    pass
        return total

    # -- by itself

    def due(self) -> bool:
        """Whether retention runs by itself here, and has not today."""
        folder = getattr(self.store, "folder", None)
        if folder is None or not self.store.exists() or not self.rules().auto:
            return False
        try:
            last = os.stat(os.path.join(folder, STAMP)).st_mtime
        except OSError:
            return True
        return self.now - last * 1000 >= DAY_MS

    def by_itself(self) -> None:
        """Once a day, after a run starts or ends."""
        if self.due():
            folder = getattr(self.store, "folder", "")
            with open(os.path.join(folder, STAMP), "wb", opener=lambda p, f: os.open(p, f, 0o600)):
                pass
            os.utime(os.path.join(folder, STAMP), (self.now / 1000, self.now / 1000))
            self.prune()
