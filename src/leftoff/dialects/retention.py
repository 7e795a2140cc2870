"""Retention in a project: its rules, from settings and dialect, applied to the runs and archives that are here."""

from __future__ import annotations

import os

from leftoff.dialects.registry import mirrored
from leftoff.engine.retention import archive, archive_trash, shelf, trash
from leftoff.engine.retention.disk import disk_use, given_back, store_size
from leftoff.engine.retention.policy import ARCHIVE, DEFAULT, REMOVE, outlived, plan, policy
from leftoff.engine.retention.prune import sweep
from leftoff.engine.write.unmoved import until_unmoved
from leftoff.errors import Conflict, LeftoffError, NotFound
from leftoff.files import is_due, mark_done
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.archive import Check, Kept
    from leftoff.engine.retention.policy import Plan, Policy, Removal
    from leftoff.engine.retention.trash import InTrash
    from leftoff.store.rows import RunRow

STAMP = "pruned"  # a file in the store's folder: when retention last ran by itself


class Looked(Fields):
    """The rules, what they would let go, what lies in the trash for long enough, and why."""

    rules: Policy
    plan: Plan
    trash: list[InTrash]
    why: str


class Pruned:
    """What a prune removed, what it kept, and what it warns of.

    ``freed``: bytes given back, measured on disk (of a server: as it counted them); in a dry run, about how many would
    be. ``in_trash``: about how many more are given back when the trash is emptied. ``waiting``: bytes of removed files
    that other processes may still read. ``looked``: what it follows from.
    """

    def __init__(self, dry: bool, looked: Looked | None = None) -> None:
        self.dry = dry
        self.looked = looked
        self.removed: list[dict[str, Any]] = []
        self.kept = 0
        self.freed = self.in_trash = self.waiting = 0
        self.warnings: list[str] = []

    def to_json(self) -> dict[str, Any]:
        return {
            "removed": self.removed,
            "kept": self.kept,
            "bytes_freed": self.freed,
            "bytes_in_trash": self.in_trash,
            "bytes_waiting": self.waiting,
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

    def prune(self, *, dry: bool = False, empty: bool = False, rules: Policy | None = None) -> Pruned:
        """Let go what the rules no longer keep. ``empty``: the trash, too, whatever its age."""
        found = self.look(empty=empty, rules=rules)
        return found if dry else self.carry_out(found)

    def look(self, *, empty: bool = False, rules: Policy | None = None) -> Pruned:
        """What would go."""
        rules = self._rules = rules if rules is not None else self.rules()
        phase_of = self.dialect.phase_of if self.dialect is not None else None
        made = plan(self.store, rules, self.now, phase_of)
        there = trash.contents(self.store) if empty else trash.due(self.store, self.now, rules.trash)
        why = "the trash is emptied" if empty else "its time in the trash is over"
        found = Pruned(True, Looked(rules, made, there, why))
        found.kept = made.kept
        found.freed = trash.size(self.store, there)
        found.removed = [_from_trash(each, why) for each in there]
        found.removed += [removal.to_json() for removal in made.removals]
        found.removed += [_old_archive(each, rules) for each in self._old_archives(made, rules)]
        gone = {(each.run_id, each.n) for each in there}
        rest = [each for each in trash.contents(self.store) if (each.run_id, each.n) not in gone]
        new = [removal.row for removal in made.removals if removal.seq is None and removal.action == REMOVE]
        found.in_trash = trash.size(self.store, [*rest, *new])
        return found

    def carry_out(self, found: Pruned) -> Pruned:
        """What was looked at goes, as far as it is still as it was then."""
        looked, done = found.looked, Pruned(False, found.looked)
        assert looked is not None
        made, rules = looked.plan, looked.rules
        done.kept = made.kept
        before = disk_use(self.project.store_folder)
        self._trash(looked, done)
        self._apply(made, done)
        done.removed += [removal.to_json() for removal in made.removals]
        self._archives(rules, done)
        self._sweep(before, rules, done)
        return done

    def _sweep(self, before: int, rules: Policy, done: Pruned) -> None:
        """What earlier prunes and crashes left goes, too; and what all of it gave back is measured."""
        if self.store.exists():
            done.freed += sweep(self.store, at_once=one_thread())
            trash.sweep_archive(self.store)
            done.in_trash = trash.size(self.store, trash.contents(self.store))
            done.waiting = disk_use(os.path.join(self.store.folder, "trash"))
        done.freed = given_back(self.store, before, done.freed)
        size = store_size(self.store) if rules.max_bytes is not None and self.store.exists() else 0
        if rules.max_bytes is not None and size > rules.max_bytes:
            done.warnings.append(
                f"the store has {size:,} bytes, more than the {rules.max_bytes:,} that are wanted; "
                "everything that the rules keep is kept."
            )

    def _trash(self, looked: Looked, done: Pruned) -> None:
        """What has lain in the trash for long enough goes for good; where it is emptied, all of it."""
        for each in looked.trash:
            try:
                done.freed += trash.remove(self.store, each)
            except (Conflict, NotFound):
                continue  # somebody was faster
            done.removed.append(_from_trash(each, looked.why))

    def _apply(self, made: Plan, done: Pruned) -> None:
        by_run: dict[int, list[int]] = {}
        for removal in list(made.removals):
            if removal.seq is not None:
                by_run.setdefault(removal.run, []).append(removal.seq)
            elif not self._archive_or_trash(removal, done):
                made.removals.remove(removal)
        for run, seqs in by_run.items():
            done.freed += self.store.prune(run, seqs)

    def _archive_or_trash(self, removal: Removal, done: Pruned) -> bool:
        """A whole run: into the archive, or into the trash. One that somebody drives, or went on with, stays."""
        limits = self.project.limits
        try:
            if removal.action == ARCHIVE:  # where it is: a bundle would be one more copy of what runs share
                until_unmoved(
                    lambda: shelf.put(self.store, removal.run_id, self.now, self._check_over, limits)
                )
            else:
                trash.discard(self.store, removal.row, self.now)
            self._retire(removal.row, removed=removal.action != ARCHIVE)
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

    def _old_archives(self, made: Plan, rules: Policy) -> list[Kept]:
        """The archived runs that are too many once what is planned was archived, too."""
        if rules.archives is None:
            return []
        new = sum(removal.seq is None and removal.action == ARCHIVE for removal in made.removals)
        return archive.oldest(self.store, max(0, rules.archives - new))

    def _archives(self, rules: Policy, done: Pruned) -> None:
        if rules.archives is None:
            return
        for each in archive.oldest(self.store, rules.archives):
            if archive_trash.discard(self.store, each, self.now):
                done.removed.append(_old_archive(each, rules))

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
            for line in self.prune().warnings:
                self.project.say(f"leftoff: {line}")


def _from_trash(each: InTrash, why: str) -> dict[str, Any]:
    return {"kind": "trash", "run_id": each.run_id, "why": why, "action": "remove"}


def _old_archive(each: Kept, rules: Policy) -> dict[str, Any]:
    why = f"the last {rules.archives} archives are kept"
    return {"kind": "archive", "run_id": each.run_id, "why": why, "action": "remove"}


def one_thread() -> bool:
    """Whether this process does nothing else beside."""
    from threading import active_count

    return active_count() == 1
