"""The store of a project as a whole, and where its runs are: made, checked, copied; pruned, archived, trashed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine import run_states
from leftoff.engine.commit import Audit
from leftoff.engine.find import Deciding, Fit, until_unmoved
from leftoff.engine.opening import run_by_id
from leftoff.engine.project import Project, open_store_at
from leftoff.engine.project_files import ProjectFiles, write_new
from leftoff.engine.retention_policy import IN_PROGRESS, age_ms
from leftoff.engine.run_info import RunInfo
from leftoff.engine.run_states import FsckReport, fsck, sweep_store
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeftoffError, NotFound, Usage
from leftoff.model.words import in_words
from leftoff.operations.run_reports import record_audit
from leftoff.operations.runs import info_of, target
from leftoff.protocols.registry import protocol as protocol_named
from leftoff.protocols.registry import set_protocol
from leftoff.store.base import View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.protocols.project_retention import PruneReport

# -- init


def init_project(project: Project, protocol: str | None = None, *, utilities: bool = False) -> dict[str, Any]:
    """Make the store. ``protocol``: record in leftoff.toml that the project follows this protocol. ``utilities``: write
    the scripts that it names, except those that are there already.

    In the result, ``inside`` is the store's folder in the project, and ``starts`` how a run begins. Of a protocol:
    whether its files show every run (``shows_all``), which were ``written``, and which are not for git (``ignored``).
    """
    if utilities and protocol is None:
        raise Usage(
            "--utils is for the scripts of a protocol.", hint="Name it too: --protocol claude-checkpoints."
        )
    found = protocol_named(protocol) if protocol is not None else None
    created = not project.store.exists()  # before a protocol's files are imported
    written: list[str] = []
    if found is not None:
        if utilities and not found.utilities():
            raise Usage(f"{protocol} names no scripts.", hint="Leave --utils out.")
        written = set_protocol(project.folder, project.settings, found.name)
        project.forget_settings()
        written += found.set_up(project.folder)
        files = ProjectFiles(project.folder)
        for path, text in found.utilities().items() if utilities else ():
            if files.stat(path) is None:
                with files.open(path) as at:
                    write_new(at, at.name, [text.encode()], 0o755)
                written.append(path)
    project.store.write(lambda tx: None)  # makes the store, or migrates an older schema
    inside = os.path.relpath(project.store.folder, project.folder)
    return {
        "store": project.store.name,
        "protocol": found.name if found is not None else None,
        "created": created,
        "inside": "" if inside.split(os.sep)[0] == ".." else inside,
        "starts": found.starts if found is not None else "leftoff start NAME --steps a,b,c",
        "shows_all": found is None or found.shows_all,
        "written": written,
        "ignored": found.ignored(project.folder) if found is not None else [],
    }


def say_outside(project: Project, run_id: str) -> None:
    """Tell the user if the files of the project's protocol cannot show a new run."""
    follower = project.store.follower
    row = project.store.read(lambda view: view.find_run(run_id)) if follower is not None else None
    said = follower.outside(row) if follower is not None and row is not None else None
    if said is not None:
        project.say(f"leftoff: {said}")


# -- the store: while it is looked at as a whole, edits of a protocol's files are not imported


def store_info(project: Project) -> dict[str, Any]:
    """Return where the store is, whether it exists, what is known of it, this machine's folder about it, and how many
    bytes its parts take on disk. ``bytes_in_trash``: about how many of them are freed when the trash is emptied."""
    project.takes_in_edits = False
    store = project.store
    about = store.about()
    if about.get("created_at") is not None:
        about["created_at"] = iso(about["created_at"])
    known = {"store": store.name, "exists": store.exists(), **about, "folder": store.folder}
    if not store.exists():
        return known
    trashed = [each.row for each in run_states.in_trash(store)]
    sizes = run_states.store_sizes(store)
    return known | sizes | {"bytes_in_trash": run_states.removal_size(store, trashed), "trash": len(trashed)}


def check_store(project: Project, *, repair: bool = False) -> FsckReport:
    """Check every page, record, version and blob. ``repair``: set damage aside."""
    project.takes_in_edits = False
    found = fsck(project.store, repair=repair)
    if repair:
        sweep_store(project.store)
    return found


def migrate_store(project: Project) -> dict[str, Any]:
    """Migrate the store to the current schema."""
    project.takes_in_edits = False
    if not project.store.exists():
        raise NotFound(f"There is no store at {project.store.name}.", hint="The first write makes one.")
    project.store.migrate()
    return store_info(project)


def back_up_store(project: Project, folder: str) -> dict[str, Any]:
    """Copy one snapshot of the store into a new folder, while others write."""
    project.takes_in_edits = False
    full = os.path.abspath(folder)
    project.store.backup(full)
    saved = open_store_at(full, project.clock)
    try:
        return {"store": project.store.name, "backup": full, "runs": saved.about()["runs"]}
    finally:
        saved.close()


def copy_all(
    project: Project, source: str, target: str, tell: Callable[[str, int, int], None] | None = None
) -> dict[str, Any]:
    """Copy all of one store into another that is empty. Return how many rows of each table were copied and checked."""
    old, new = (open_store_at(each, project.clock) for each in (source, target))
    if old.name == new.name:
        raise Usage(f"{old.name} cannot be copied into itself.", hint="Name two stores.")
    try:
        from leftoff.store.store_copy import copy_store

        done = copy_store(old, new, tell)
    finally:
        old.close()
        new.close()
    return {"from": old.name, "to": new.name, "copied": done["copied"], "checked": done["checked"]}


# -- retention


def prune_by_itself(project: Project) -> None:
    """Apply retention once a day if the project wants that. Never call it from verbs that agents call often."""
    if not (project.settings.section("retention") or project.settings.section("protocol")):
        return
    from leftoff.protocols.project_retention import prune_daily

    try:
        prune_daily(project)
    except (LeftoffError, OSError) as error:
        project.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")


def withdraw_files(project: Project, *, dry: bool = False) -> PruneReport:
    """Remove the protocol's files from the project. The store keeps everything."""
    from leftoff.protocols.project_retention import PruneReport

    follower = project.store.follower
    if follower is None:
        raise NotFound(
            "This project keeps no protocol's files.", hint="`leftoff init --protocol D` would set that up."
        )
    done = PruneReport(dry)
    for path in follower.withdraw(dry=True):
        info = os.lstat(os.path.join(project.folder, path))
        done.removed.append({"kind": "file", "action": "remove", "path": path})
        done.freed += info.st_blocks * 512
    if not dry:
        follower.withdraw()
    return done


# -- archive, rm, undelete


def archive_run(
    project: Project, caller: Caller, ref: str | None = None, audit: Audit | None = None
) -> tuple[RunInfo, bool]:
    """Archive a finished run, and its protocol's files. Return it, and whether it was archived before.

    ``audit`` is recorded first, as a commit to an archived run would make it active again.
    """
    over = Fit(
        lambda view, row: row.status not in IN_PROGRESS, "has ended", "have ended", "archive RUN", among=None
    )
    found = target(project, caller, ref, Deciding(caller, project.now, over))
    run_id = found.row.run_id
    if found.version is not None:
        raise Usage(f"{ref} is one version of run {run_id}.", hint=f"leftoff archive {run_id}")
    if found.row.is_archived:
        return info_of(project, found.row), True
    _refuse_unfinished(found.row)
    if audit is not None:
        record_audit(project, found.row, audit)

    def work() -> tuple[RunInfo, bool]:
        row = project.store.read(lambda view: run_by_id(view, run_id))
        was_archived = row.is_archived  # another process may have been faster
        if not was_archived:
            _refuse_unfinished(row)
            run_states.set_aside(project.store, row, now=project.now, trash=False)
        return info_of(project, row), was_archived

    return until_unmoved(work)


def _refuse_unfinished(row: RunRow) -> None:
    if row.status in IN_PROGRESS:
        raise Conflict(
            f"Run {row.run_id} {in_words(row.status)}; only a finished run can be archived.",
            hint=f"`leftoff finish --run {row.run_id}` ends it.",
        )


def remove_runs(
    project: Project,
    caller: Caller,
    refs: Sequence[str],
    agree: Callable[[list[RunRow]], bool],
    *,
    older_than: str | None = None,
    dry: bool = False,
) -> dict[str, Any] | None:
    """Move runs to the trash, all or none. Return the result as JSON; ``None`` if the user did not agree.

    ``older_than``: in place of ``refs``, all finished runs whose last report is older than this age. If a run changes
    meanwhile, the user is asked again.
    """
    age = age_ms(older_than) if older_than is not None else 0
    if age is None:
        raise Usage(f"--older-than must be an age, not {older_than!r}.", hint="For example: 30d or 12h.")
    any_run = Fit(lambda view, row: True, "could be removed", "could be removed", "rm RUN", among=None)

    def named(ref: str | None) -> RunRow:
        found = target(project, caller, ref, Deciding(caller, project.now, any_run))
        if found.version is not None:
            run_id = found.row.run_id
            raise Usage(
                f"{ref} is one version of run {run_id}; rm removes a whole run.",
                hint=f"`leftoff rm {run_id}` removes all of it.",
            )
        return found.row

    def old(view: View) -> list[RunRow]:
        rows = [*view.list_runs({}), *view.archived()]
        return [r for r in rows if r.status not in IN_PROGRESS and project.now - r.updated_at >= age]

    def work() -> dict[str, Any] | None:
        if older_than is None:
            rows = [*{row.run: row for row in map(named, [*refs] or (None,))}.values()]
        else:
            rows = project.store.read(old) if project.store.exists() else []
        for row in rows:
            project.store.read(lambda view: run_states.refuse_active(view, row.run, row.run_id, project.now))  # noqa: B023
        return discard_runs(project, *rows, dry=dry) if dry or not rows or agree(rows) else None

    return until_unmoved(work)


def discard_runs(project: Project, *rows: RunRow, dry: bool = False) -> dict[str, Any]:
    """Move runs to the trash without a question. Their space is freed when the trash is emptied."""
    if rows and not dry:
        run_states.set_aside(project.store, *rows, now=project.now, trash=True)
    return {"removed": [row.run_id for row in rows], "bytes_freed": 0, "bytes_waiting": 0, "dry_run": dry}


def list_trash(project: Project) -> list[dict[str, Any]]:
    """Return the runs in the trash as JSON, the last one first."""
    return [run_states.trashed_to_json(each) for each in run_states.in_trash(project.store)]


def undelete_run(project: Project, ref: str) -> RunInfo:
    """Bring a run back from the trash or the archive."""
    run_id = run_states.bring_back(project.store, ref, project.now)
    return info_of(project, project.store.read(lambda view: run_by_id(view, run_id)))
