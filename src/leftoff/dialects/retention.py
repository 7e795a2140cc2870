"""Retention in a project: apply the rules of its settings and its protocol to its runs."""

from __future__ import annotations

import os

from leftoff.dialects.registry import mirrored
from leftoff.engine.retention import run_states
from leftoff.engine.retention.policy import ARCHIVE, DEFAULT, REMOVE, plan, policy
from leftoff.engine.retention.store_upkeep import disk_use, given_back, store_size, sweep_store
from leftoff.errors import Conflict, LeftoffError, NotFound
from leftoff.files import is_due, mark_done
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.retention.policy import Plan, Policy, Removal
    from leftoff.store.rows import RunRow, Trashed

STAMP = "pruned"  # a file in the store's folder: when retention last ran by itself


class Looked(Fields):
    """The rules, what they would remove, what has been in the trash for long enough, and why."""

    rules: Policy
    plan: Plan
    trash: list[Trashed]
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
        rules = rules if rules is not None else self.rules()
        phase_of = self.dialect.phase_of if self.dialect is not None else None
        made = plan(self.store, rules, self.now, phase_of)
        all_trash = run_states.in_trash(self.store)
        there = all_trash if empty else run_states.due_trash(self.store, self.now, rules.trash)
        why = "the trash is emptied" if empty else "its time in the trash is over"
        found = Pruned(True, Looked(rules, made, there, why))
        found.kept = made.kept
        found.freed = run_states.removal_size(self.store, [each.row for each in there])
        found.removed = [_from_trash(each, why) for each in there]
        found.removed += [removal.to_json() for removal in made.removals]
        found.removed += [_old_archive(each, rules) for each in self._old_archives(made, rules)]
        gone = {each.row.run for each in there}
        rest = [each.row for each in all_trash if each.row.run not in gone]
        new = [removal.row for removal in made.removals if removal.seq is None and removal.action == REMOVE]
        found.in_trash = run_states.removal_size(self.store, [*rest, *new])
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
            done.freed += sweep_store(self.store, at_once=one_thread())
            done.in_trash = run_states.removal_size(
                self.store, [each.row for each in run_states.in_trash(self.store)]
            )
            done.waiting = disk_use(os.path.join(self.store.folder, "trash"))
        done.freed = given_back(self.store, before, done.freed)
        size = store_size(self.store) if rules.max_bytes is not None and self.store.exists() else 0
        if rules.max_bytes is not None and size > rules.max_bytes:
            done.warnings.append(
                f"the store has {size:,} bytes, more than the {rules.max_bytes:,} that are wanted; "
                "everything that the rules keep is kept."
            )

    def _trash(self, looked: Looked, done: Pruned) -> None:
        """Remove for good what has been in the trash for long enough, or all of it."""
        for each in looked.trash:
            try:
                done.freed += run_states.remove_for_good(self.store, each)
            except (Conflict, NotFound):
                continue  # another process was faster
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
        """Archive a whole run, or move it to the trash. A run that is driven, or has changed since, stays."""
        move = run_states.archive_run if removal.action == ARCHIVE else run_states.trash_run
        try:
            move(self.store, removal.row, self.now)
        except NotFound:
            return False
        except LeftoffError as error:
            done.warnings.append(f"{removal.run_id} stays: {error.message}")
            return False
        return True

    def _old_archives(self, made: Plan, rules: Policy) -> list[RunRow]:
        """Return the archived runs that are too many once the planned ones are archived, too."""
        if rules.archives is None or rules.archives < 0 or not self.store.exists():
            return []
        new = sum(removal.seq is None and removal.action == ARCHIVE for removal in made.removals)
        return self.store.read(lambda view: view.archived())[max(0, rules.archives - new) :]

    def _archives(self, rules: Policy, done: Pruned) -> None:
        """Move the oldest archived runs to the trash, beyond the number that the rules keep."""
        if rules.archives is None or rules.archives < 0 or not self.store.exists():
            return
        for row in self.store.read(lambda view: view.archived())[rules.archives :]:
            try:
                run_states.trash_run(self.store, row, self.now)
            except LeftoffError:
                continue  # another process uses it
            done.removed.append(_old_archive(row, rules))

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


def _from_trash(each: Trashed, why: str) -> dict[str, Any]:
    return {"kind": "trash", "run_id": each.row.run_id, "why": why, "action": "remove"}


def _old_archive(row: RunRow, rules: Policy) -> dict[str, Any]:
    why = f"the last {rules.archives} archives are kept"
    return {"kind": "archive", "run_id": row.run_id, "why": why, "action": "remove"}


def one_thread() -> bool:
    """Whether this process does nothing else beside."""
    from threading import active_count

    return active_count() == 1
