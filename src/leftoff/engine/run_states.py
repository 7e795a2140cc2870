"""The state of a run: active, archived or in the trash. Each change is one transaction.

An archived run is not listed, but all its names find it, and it can be read and forked where it is. A commit to it, or
a driver that takes its lease, makes it active again. A run in the trash is found only by `undelete`; after some days it
is removed for good. Ids are unique over all states.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine.commit import Head, Seal, Terms, commit_in
from leftoff.engine.find import need_store, need_unmoved, version_of
from leftoff.engine.lease import held, state
from leftoff.engine.opening import run_by_id
from leftoff.engine.retention_policy import IN_PROGRESS, Policy, outlived, policy
from leftoff.errors import Ambiguous, Conflict, LeaseHeld, LeftoffError, NotFound
from leftoff.files import SWEPT, is_due, mark_done
from leftoff.host import ALIVE, UNKNOWN, debug
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import of_run, parse_ref, shown_step
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import ATTEMPTS, PYTHON_LOGS, RunRow, Trashed, is_of_attempt

if TYPE_CHECKING:
    from leftoff.engine.project import Project


def refuse_active(view: View, run: int, run_id: str, now: int) -> None:
    """Raise ``LeaseHeld`` if another process drives a run, or one of its steps still runs."""
    lease = view.lease(run)
    if lease is not None and state(lease, now) in (ALIVE, UNKNOWN):
        raise held(run_id, lease, now)
    for attempt in view.attempts(run):
        process = attempt.process
        if attempt.ended_at is None and process is not None and process.state() == ALIVE:
            raise LeaseHeld(
                f"Step {shown_step(attempt.step)} of run {run_id} is still running ({process}).",
                hint=f"`leftoff stop {run_id}` ends it.",
            )


def set_aside(store: SqlStore, *rows: RunRow, now: int, trash: bool) -> None:
    """Move runs to the trash, or archive them: all or none. Raise ``Moved`` if one has changed since its row was read,
    ``LeaseHeld`` if one is being driven."""

    def work(tx: Tx) -> None:
        for row in sorted(rows, key=lambda row: row.run):  # in one order, or two processes could deadlock
            need_unmoved(tx, row)
            refuse_active(tx, row.run, row.run_id, now)
            tx.trash(row.run, now) if trash else tx.archive(row.run)

    store.write(work)


def in_trash(store: SqlStore) -> list[Trashed]:
    """Return the runs in the trash, the last one first."""
    return store.read(lambda view: view.trashed()) if store.exists() else []


def trashed_to_json(each: Trashed) -> dict[str, Any]:
    row = each.row
    about = {"run_id": row.run_id, "workflow": row.workflow, "title": row.title, "status": row.status}
    return {**about, "removed_at": iso(each.at)}


def bring_back(store: SqlStore, name: str, now: int) -> str:
    """Bring a run back from the trash or the archive, named by its id, workflow, title or issue. Return its id.

    This commits a checkpoint, so that retention counts the run's age from now on.
    """

    def work(tx: Tx) -> str:
        row = _unlisted(tx, name)
        note = "brought back from the archive" if row.is_archived else "brought back from the trash"
        tx.activate(row.run)
        commit_in(tx, Head.of(row), ChangeSet(), Terms(now, seal=Seal("manual", note=note, asked=True)))
        return str(row.run_id)

    parse_ref(name)  # an empty name is wrong usage
    if not store.exists():
        raise NotFound(f"There is no run {name} in the trash or the archive.")
    return store.write(work)


def _unlisted(view: View, name: str) -> RunRow:
    """Return the archived or trashed run of that name. An id wins over every other name."""

    def is_called(row: RunRow) -> bool:
        if name.startswith("#"):
            return bool(row.issue == name[1:])
        known = (row.workflow, row.title)
        return any(isinstance(own, str) and own.casefold() == name.casefold() for own in known)

    rows = [*(each.row for each in view.trashed()), *view.archived()]
    found = [row for row in rows if row.run_id == name] or [row for row in rows if is_called(row)]
    if len(found) > 1:
        names = ", ".join(row.run_id for row in found)
        told = f"{name} names several runs that were removed or archived: {names}."
        raise Ambiguous(told, hint="Give the id of one of them.")
    if found:
        return found[0]
    if view.find_run(name) is not None:
        told = f"Run {name} is neither in the trash nor archived: it is there."
        raise NotFound(told, hint=f"leftoff show {name}")
    raise NotFound(
        f"There is no run {name} in the trash or the archive. A run that was in the trash for too long is gone for "
        "good.",
        hint="`leftoff undelete` lists what is in the trash, `leftoff status --all` what is archived.",
    )


# -- emptying the trash


def due_trash(store: SqlStore, now: int, age: int | None) -> list[Trashed]:
    """Return what has been in the trash for longer than ``age``. Without an age, nothing is ever due."""
    return [each for each in in_trash(store) if now - each.at > age] if age is not None else []


def remove_for_good(store: SqlStore, each: Trashed) -> int:
    """Remove a run for good. Return the bytes given back. Raise ``Conflict`` if it was brought back in the meantime."""

    def allowed(view: View) -> None:
        if not any(there.row.run == each.row.run and there.n == each.n for there in view.trashed()):
            raise Conflict(f"Run {each.row.run_id} is no longer in the trash.")

    return store.remove(each.row.run, allowed) + remove_attempts(store, each.row.run_id)


def removal_size(store: SqlStore, rows: Iterable[RunRow]) -> int:
    """Return about how many bytes the removal of these runs gives back."""
    rows = list(rows)
    runs = [row.run for row in rows]
    inside = store.read(lambda view: view.size(*runs, alone=True)) if runs else 0
    return inside + sum(disk_use(attempts_folder(store, row.run_id)) for row in rows)


def tidy_store(project: Project) -> None:
    """Remove what is due: blobs after their grace period; once a day old logs, and what was in the trash for too long.
    Old runs move to the trash, unless the project follows a protocol, which has its own rules. A failure waits until
    tomorrow."""
    store, now, stamp = project.store, project.now, os.path.join(project.store_folder, SWEPT)
    settings = project.settings
    try:
        if not is_due(stamp, now):
            store.sweep(thorough=False)
            return
        mark_done(stamp, now)
        rules, protocol = (
            settings.parsed("retention", lambda said: policy(said, auto=True)),
            settings.section("protocol"),
        )
        moved = _retire(store, rules, now) if rules.auto and not protocol else []
        if moved:
            known = f"{', '.join(moved[:3])}{', …' if moved[3:] else ''}"
            project.say(
                f"leftoff: {len(moved)} old run(s) moved to the trash: {known}. See `leftoff help undelete`."
            )
        remove_old_logs(store, now, rules.logs)
        for each in due_trash(store, now, rules.trash):
            try:
                remove_for_good(store, each)
            except (Conflict, NotFound):
                pass  # another process was faster
        sweep_store(store, thorough=False)
    except (LeftoffError, OSError) as error:
        debug("did not sweep: %s", error)


def _retire(store: SqlStore, rules: Policy, now: int) -> list[str]:
    """Move the runs that the rules let go to the trash. Return their ids."""
    rows = store.read(lambda view: [row for row in view.list_runs({}) if outlived(row, rules, now)])
    moved = []
    for row in rows:
        try:
            set_aside(store, row, now=now, trash=True)
            moved.append(row.run_id)
        except (Conflict, NotFound):
            pass  # it is driven, or has changed since
    return moved


def remove_old_logs(store: SqlStore, now: int, age: int | None) -> int:
    """Remove what the attempts of finished runs printed longer than ``age`` ago. Return the bytes given back."""
    if age is None:
        return 0
    freed = 0
    while found := store.read(lambda view: view.old_logs(now - age)):
        freed += sum(
            _remove_folder(os.path.join(store.folder, log)) for _, log in found if is_of_attempt(log)
        )
        store.write(lambda tx: tx.drop_logs([token for token, _ in found]))
    above = os.path.join(store.folder, ATTEMPTS)
    for run_id in os.listdir(above) if os.path.isdir(above) else ():
        steps = os.path.join(above, run_id, PYTHON_LOGS)  # Python code has no attempts' rows
        row = store.read(lambda view: view.find_run(run_id)) if os.path.isdir(steps) else None  # noqa: B023
        if row is not None and row.status not in IN_PROGRESS and now - row.updated_at > age:
            freed += _remove_folder(steps)
    return freed


def _remove_folder(path: str) -> int:
    """Delete a folder. Return the bytes given back."""
    from shutil import rmtree

    size = disk_use(path)
    rmtree(path, ignore_errors=True)
    return size


_HEX, _TOKEN = frozenset("0123456789abcdef"), 16  # the name of an attempt's folder, and how long it is


# -- check


class FsckReport(NamedTuple):
    """What was checked, what is wrong, what was set aside. ``salvaged``: run by run, what could not be proved."""

    checked: dict[str, int]
    problems: list[dict[str, Any]]
    quarantined: list[str]
    repaired: list[dict[str, Any]]
    salvaged: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **{name: getattr(self, name) for name in self._fields}}

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "<fsck: clean>" if self.ok else f"<fsck: {len(self.problems)} problem(s): {self.problems[:3]}>"


def fsck(store: SqlStore, *, repair: bool = False) -> FsckReport:
    """Check a store. ``repair``: set what is damaged aside. A run that lost versions asks before it resumes."""
    found = store.check(repair=repair)
    checked, problems, aside = found["checked"], found["problems"], found["quarantined"]
    return FsckReport(checked, problems, aside, found.get("repaired", []), found.get("salvaged", []))


# -- measure


def disk_use(path: str) -> int:
    """Return the bytes that a file, or all files below a folder, occupy; 0 if there is none."""
    total, paths = 0, [path]
    for parent, folders, names in os.walk(path):
        paths += [os.path.join(parent, name) for name in (*folders, *names)]
    for each in paths:
        try:
            total += os.lstat(each).st_blocks * 512
        except OSError:  # gone
            pass
    return total


_PLACES = {"store.db": "database", "blobs": "blobs", ATTEMPTS: "logs", "trash": "removed", "tmp": "removed"}


def store_sizes(store: SqlStore) -> dict[str, int]:
    """Return the bytes that each part of a store takes on disk: what they add up to, then the parts.

    ``removed``: files that are deleted within the hour. The other parts also contain runs in the trash.
    """
    sizes = dict.fromkeys(("database", "wal", "blobs", "logs", "removed", "other"), 0)
    if store.shared:
        sizes["database"] = int(store.about().get("bytes", 0))
    for name in os.listdir(store.folder) if os.path.isdir(store.folder) else ():
        part = "wal" if "-wal" in name or "-shm" in name else "logs" if name.endswith(".log") else "other"
        sizes[_PLACES.get(name, part)] += disk_use(os.path.join(store.folder, name))
    sizes["other"] += os.lstat(store.folder).st_blocks * 512 if os.path.isdir(store.folder) else 0
    return {"bytes": sum(sizes.values()), **{f"bytes_{name}": size for name, size in sizes.items()}}


def given_back(store: SqlStore, before: int, counted: int) -> int:
    """Return the bytes that some work on a store gave back: measured in its folder if it is all there; else as the work
    counted, because a server keeps the room. ``before``: what the folder took then."""
    return counted if store.shared else max(0, before - disk_use(store.folder))


def attempts_folder(store: SqlStore, run_id: str) -> str:
    """Return where a run's attempts leave their logs and exit codes."""
    return os.path.join(store.folder, ATTEMPTS, run_id)


def run_size(store: SqlStore, row: RunRow) -> int:
    """Return the bytes that a run takes: its records, the copies of its files, what its steps printed. What it shares
    with other runs counts in full."""
    return store.read(lambda view: view.size(row.run)) + disk_use(attempts_folder(store, row.run_id))


# -- prune and sweep


def drop_checkpoints(store: SqlStore, run_id: str, drop: Iterable[str]) -> int:
    """Drop these checkpoints (by id, seq or another name), and what no kept one can see. Return the bytes given
    back."""
    wanted = list(drop)
    need_store(store, run_id)

    def look(view: View) -> tuple[int, list[int]]:
        row = run_by_id(view, run_id)
        return row.run, [version_of(view, row, parse_ref(of_run(run_id, each))).seq for each in wanted]

    run, seqs = store.read(look)
    return store.prune(run, seqs)


def sweep_store(store: SqlStore, *, thorough: bool = True, at_once: bool = False) -> int:
    """Drop what crashes left, and removed files after their grace period. Return the bytes given back. See
    ``Store.sweep``."""
    if not store.exists():
        return 0
    freed = store.sweep(thorough=thorough, at_once=at_once)
    # A process may have died after it removed a run, and before it deleted the folder of its attempts.
    folder = os.path.join(store.folder, ATTEMPTS)
    names = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        inside = os.listdir(path) if os.path.isdir(path) else [""]
        # Others may also use the store's folder: a folder with anything else in it stays.
        if all(each == PYTHON_LOGS or (len(each) == _TOKEN and not set(each) - _HEX) for each in inside):
            names.append(name)
    gone = store.read(lambda view: [name for name in names if view.find_run(name, hidden=True) is None])
    return freed + sum(remove_attempts(store, name) for name in gone)


def remove_attempts(store: SqlStore, run_id: str) -> int:
    """Delete the folder in which the attempts of a run that is gone left their logs. Return the bytes given back.

    It is renamed in a transaction, so that a new run of that id which starts meanwhile keeps its own folder.
    """
    folder = attempts_folder(store, run_id)
    aside = f"{folder}.{os.urandom(4).hex()}"

    def put_aside(tx: Tx) -> bool:
        if not os.path.isdir(folder) or tx.find_run(run_id, hidden=True) is not None:
            return False
        os.rename(folder, aside)
        return True

    if not os.path.isdir(folder) or not store.write(put_aside, durable=False):
        return 0
    return _remove_folder(aside)
