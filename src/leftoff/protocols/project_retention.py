"""Retention in a project: apply the rules of its settings and its protocol to its runs."""

from __future__ import annotations

import os
from threading import active_count
from typing import Any

from leftoff.engine import run_states
from leftoff.engine.project import Project
from leftoff.engine.retention_policy import ARCHIVE, DEFAULT, REMOVE, Policy, Removal, phase, plan, policy
from leftoff.engine.run_states import disk_use, given_back, store_sizes, sweep_store
from leftoff.errors import Conflict, LeftoffError, NotFound
from leftoff.files import is_due, mark_done
from leftoff.protocols.protocol import Protocol
from leftoff.protocols.registry import followed_protocol
from leftoff.store.rows import RunRow, Trashed

STAMP = "pruned"  # a file in the store's folder: when retention last ran by itself


class PruneReport:
    """What a prune removes, what it keeps, and what it warns of.

    ``freed``: bytes given back, measured on disk (of a server: as it counted them); in a dry run, about how many would
    be. ``in_trash``: about how many more are given back when the trash is emptied. ``waiting``: bytes of removed files
    that other processes may still read.
    """

    def __init__(self, dry: bool) -> None:
        self.dry = dry
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


class Retention:
    """The rules of one project. ``look`` first, then ``carry_out`` what was found."""

    def __init__(
        self, project: Project, protocol: Protocol | None = None, rules: Policy | None = None
    ) -> None:
        self.project = project
        self.store = project.store
        self.now = project.now
        own = followed_protocol(project.folder, project.settings)
        self.protocol = protocol if protocol is not None else own
        base = own.retention(project.folder) if own is not None else DEFAULT
        self.rules = rules or project.settings.parsed(
            "retention", lambda said: policy(said, base, auto=own is not None)
        )
        self.removals: list[Removal] = []
        self.kept = 0  # checkpoints
        self.trash: list[Trashed] = []  # what has been in the trash for long enough
        self.why = ""

    def look(self, *, empty: bool = False) -> PruneReport:
        """Return what would be removed. ``empty``: also everything in the trash, of any age."""
        phase_of = self.protocol.phase_of if self.protocol is not None else phase
        self.removals, self.kept = plan(self.store, self.rules, self.now, phase_of)
        all_trash = run_states.in_trash(self.store)
        self.trash = all_trash if empty else run_states.due_trash(self.store, self.now, self.rules.trash)
        self.why = "the trash is emptied" if empty else "its time in the trash is over"
        found = PruneReport(True)
        found.kept = self.kept
        found.freed = run_states.removal_size(self.store, [each.row for each in self.trash])
        whole = [removal for removal in self.removals if removal.version is None]
        archived = sum(removal.action == ARCHIVE for removal in whole)
        found.removed = [
            *(self._from_trash(each) for each in self.trash),
            *(removal.to_json() for removal in self.removals),
            *(self._old_archive(row) for row in self._old_archives(archived)),
        ]
        gone = {each.row.run for each in self.trash}
        rest = [each.row for each in all_trash if each.row.run not in gone]
        rest += [removal.row for removal in whole if removal.action == REMOVE]
        found.in_trash = run_states.removal_size(self.store, rest)
        return found

    def carry_out(self) -> PruneReport:
        """Remove what ``look`` found, as far as it has not changed since. Return what was removed."""
        done = PruneReport(False)
        done.kept = self.kept
        before = disk_use(self.project.store_folder)
        for each in self.trash:
            try:
                done.freed += run_states.remove_for_good(self.store, each)
            except (Conflict, NotFound):
                continue  # another process was faster
            done.removed.append(self._from_trash(each))
        by_run: dict[int, list[int]] = {}
        for removal in self.removals:
            if removal.version is not None:
                by_run.setdefault(removal.row.run, []).append(removal.version.seq)
            else:
                try:
                    run_states.set_aside(
                        self.store, removal.row, now=self.now, trash=removal.action != ARCHIVE
                    )
                except NotFound:
                    continue  # it has changed since
                except LeftoffError as error:  # it is driven
                    done.warnings.append(f"{removal.row.run_id} stays: {error.message}")
                    continue
            done.removed.append(removal.to_json())
        for run, seqs in by_run.items():
            done.freed += self.store.prune(run, seqs)
        for row in self._old_archives():
            try:
                run_states.set_aside(self.store, row, now=self.now, trash=True)
            except LeftoffError:
                continue  # another process uses it
            done.removed.append(self._old_archive(row))
        if self.store.exists():  # what earlier prunes and crashes left goes, too
            done.freed += run_states.remove_old_logs(self.store, self.now, self.rules.logs)
            done.freed += sweep_store(self.store, at_once=active_count() == 1)
            in_trash = [each.row for each in run_states.in_trash(self.store)]
            done.in_trash = run_states.removal_size(self.store, in_trash)
            done.waiting = disk_use(os.path.join(self.store.folder, "trash"))
        done.freed = given_back(self.store, before, done.freed)
        most = self.rules.max_bytes
        size = store_sizes(self.store)["bytes"] if most is not None and self.store.exists() else 0
        if most is not None and size > most:
            done.warnings.append(
                f"the store has {size:,} bytes, more than the {most:,} that are wanted; "
                "everything that the rules keep is kept."
            )
        return done

    def _old_archives(self, new: int = 0) -> list[RunRow]:
        """Return the archived runs beyond the number that the rules keep, once ``new`` more are archived."""
        most = self.rules.archives
        if most is None or most < 0 or not self.store.exists():
            return []
        return self.store.read(lambda view: view.archived())[max(0, most - new) :]

    def _from_trash(self, each: Trashed) -> dict[str, Any]:
        return {"kind": "trash", "run_id": each.row.run_id, "why": self.why, "action": "remove"}

    def _old_archive(self, row: RunRow) -> dict[str, Any]:
        why = f"the last {self.rules.archives} archives are kept"
        return {"kind": "archive", "run_id": row.run_id, "why": why, "action": "remove"}


def prune_project(project: Project, *, dry: bool = False, empty: bool = False) -> PruneReport:
    """Remove what the rules no longer keep. ``empty``: also everything in the trash."""
    retention = Retention(project)
    found = retention.look(empty=empty)
    return found if dry else retention.carry_out()


def prune_daily(project: Project) -> None:
    """Run retention once a day, after a run starts or ends, if the project wants that."""
    retention = Retention(project)
    stamp = os.path.join(project.store_folder, STAMP)
    if project.store.exists() and retention.rules.auto and is_due(stamp, project.now):
        mark_done(stamp, project.now)
        retention.look()
        for line in retention.carry_out().warnings:
            project.say(f"leftoff: {line}")
