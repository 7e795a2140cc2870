"""Retention in a project: its rules, from settings and dialect, applied to the runs and archives that are here."""

from __future__ import annotations

import os

from leftoff.dialects.core.registry import mirrored
from leftoff.engine.retention import archive, trash
from leftoff.engine.retention.disk import disk_use
from leftoff.engine.retention.policy import ARCHIVE, DEFAULT, outlived, plan, policy
from leftoff.engine.retention.prune import sweep
from leftoff.errors import Conflict, LeftoffError, NotFound
from leftoff.store.sqlite.location import is_due, mark_done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.archive import Check
    from leftoff.engine.retention.policy import Plan, Policy, Removal
    from leftoff.store.rows import RunRow

STAMP = "pruned"  # a file in the store's folder: when retention last ran by itself


class Pruned:
    """What went, what stays, and what somebody should know. ``freed``: measured on disk; of a dry run, what the trash
    would give back."""

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

    def prune(
        self, *, dry: bool = False, empty: bool = False, rules: Policy | None = None, asked: bool = True
    ) -> Pruned:
        """``empty``: the trash, too, whatever its age. ``asked``: somebody wants it now."""
        rules = self._rules = rules if rules is not None else self.rules()
        phase_of = self.dialect.phase_of if self.dialect is not None else None
        made = plan(self.store, rules, self.now, phase_of, asked=asked)
        done = Pruned(dry)
        done.kept = made.kept
        before = disk_use(self.project.store_folder)
        self._trash(rules, done, empty=empty)
        if not dry:
            self._apply(made, done)
        done.removed += [removal.to_json() for removal in made.removals]
        self._archives(rules, done)
        if not dry:
            self._sweep(before, rules, done)
        if made.doubted:
            done.warnings.append(_doubt(made.doubted))
        return done

    def _sweep(self, before: int, rules: Policy, done: Pruned) -> None:
        """What earlier prunes and crashes left goes, too; and what all of it gave back is measured."""
        if self.store.exists():
            sweep(self.store, at_once=one_thread())
        size = disk_use(self.project.store_folder)
        done.freed = max(0, before - size)
        if rules.max_bytes is not None and size > rules.max_bytes:
            done.warnings.append(
                f"the store has {size:,} bytes, more than the {rules.max_bytes:,} that are wanted; "
                "everything that the rules keep is kept."
            )

    def _trash(self, rules: Policy, done: Pruned, *, empty: bool) -> None:
        """What has lain in the trash for long enough goes for good; with ``empty`` all of it."""
        there = trash.contents(self.store) if empty else trash.due(self.store, self.now, rules.trash)
        why = "the trash is emptied" if empty else "its time in the trash is over"
        if done.dry:
            done.freed = trash.size(self.store, there)
        for each in there:
            try:
                if not done.dry:
                    trash.remove(self.store, each)
            except (Conflict, NotFound):
                continue  # somebody was faster
            done.removed.append({"kind": "trash", "run_id": each.run_id, "why": why, "action": "remove"})

    def _apply(self, made: Plan, done: Pruned) -> None:
        by_run: dict[int, list[int]] = {}
        for removal in list(made.removals):
            if removal.seq is not None:
                by_run.setdefault(removal.run, []).append(removal.seq)
            elif not self._archive_or_trash(removal, done):
                made.removals.remove(removal)
        for run, seqs in by_run.items():
            self.store.prune(run, seqs)

    def _archive_or_trash(self, removal: Removal, done: Pruned) -> bool:
        """A whole run: into the archive, or into the trash. One that somebody drives, or went on with, stays."""
        try:
            if removal.action == ARCHIVE:
                self.archive(removal.row, self._check_over)
            else:
                trash.discard(self.store, removal.row, self.now)
                self._retire(removal.row, removed=True)
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
        if self.dialect is not None:
            self.dialect.retire(self.project.folder, row.run_id, row.branch, self.now, removed=removed)

    def _archives(self, rules: Policy, done: Pruned) -> None:
        if rules.archives is None:
            return
        for path in archive.oldest(self.store, rules.archives):
            run_id = os.path.basename(path).removesuffix(archive.SUFFIX)
            why = f"the last {rules.archives} archives are kept"
            if done.dry or archive.discard(self.store, path, self.now):
                done.removed.append({"kind": "archive", "run_id": run_id, "why": why, "action": "remove"})

    # -- by itself

    def due(self) -> bool:
        """Whether retention runs by itself here, and has not today."""
        if not self.store.exists() or not self.rules().auto:
            return False
        return is_due(os.path.join(self.store.folder, STAMP), self.now)

    def by_itself(self) -> None:
        """Once a day, after a run starts or ends."""
        if self.due():
            mark_done(os.path.join(self.project.store_folder, STAMP), self.now)
            for line in self.prune(asked=False).warnings:
                self.project.say(f"leftoff: {line}")


def _doubt(runs: list[str]) -> str:
    one = len(runs) == 1
    names = ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    return (
        f"{names} {'stays' if one else 'stay'}: old enough by the clock, but the store has not seen that time pass. "
        "Was the clock put forward? `leftoff archive` or `leftoff rm` takes away what you name."
    )


def one_thread() -> bool:
    """Whether this process does nothing else beside."""
    from threading import active_count

    return active_count() == 1
