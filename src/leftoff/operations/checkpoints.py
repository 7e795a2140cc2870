"""Checkpoints: sealing one; what a run has of them, what each holds, what differs; forks."""

from __future__ import annotations

from leftoff.model.fields import Fields
from leftoff.operations.reports import current, current_row, report_on, usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.history import Diff
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.workspace.file_versions import FileDiff
    from leftoff.engine.write.audit import Audit
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow


def save(project: Project, caller: Caller, trigger: str = "manual", note: str | None = None) -> Version:
    """Seal a checkpoint: always a new one, whether anything changed or not."""
    from leftoff.engine.workspace.tracking import look_around
    from leftoff.engine.write.commit import Seal

    masked = project.redactor.mask(note) if note else None
    looked = current_row(project, caller)
    around = look_around(project, looked, dirty=True, issue=trigger == "phase_transition")

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        around.put(row, changes)
        return Seal(trigger, caller.step or tx.leaf(row.run, "running"), masked, asked=True)

    version = report_on(project, caller, looked, make, around.blobs).version
    assert version is not None
    return version


class ForkedRun(Fields):
    """A run that was forked from a checkpoint."""

    run_id: str
    branch: str
    status: str


class History:
    """The checkpoints of a run, newest first, up to the version that a REF names."""

    def __init__(self, project: Project, target: Target, most: int | None = None) -> None:
        from leftoff.engine.read.history import checkpoints

        self.target = target
        self.versions: list[Version] = checkpoints(project.store, target)[:most]
        self._store = project.store

    def parents(self) -> dict[int, int | None]:
        """For each checkpoint the seq of the one it follows."""
        from leftoff.engine.read.history import parents

        return parents(self.versions)

    def forks(self) -> dict[int, list[ForkedRun]]:
        """The runs that were forked, by the seq of the checkpoint that is nearest to where they start."""
        from leftoff.engine.read.history import forks, nearest_seq

        seqs = sorted(version.seq for version in self.versions)
        out: dict[int, list[ForkedRun]] = {}
        for seq, row in forks(self._store, self.target.row.run_id):
            at = nearest_seq(seqs, seq)
            if at is not None:
                out.setdefault(at, []).append(ForkedRun(row.run_id, row.branch, row.status))
        return out

    def to_json(self) -> dict[str, Any]:
        from leftoff.engine.read.history import refused

        cannot = refused(self._store, self.target, self.versions)
        found = [{**version.to_json(), "can_resume": version.seq not in cannot} for version in self.versions]
        return {"checkpoints": found}


def history(project: Project, caller: Caller, ref: str | None = None, most: int | None = None) -> History:
    """The checkpoints of the run that a REF names. ``most``: only so many of the newest."""
    from leftoff.operations.runs import target

    return History(project, target(project, caller, ref), most)


def show(
    project: Project, caller: Caller, ref: str | None, whole: Collection[str] | None = None
) -> dict[str, Any]:
    """All of a run, as it is or as it was at a version. ``whole``: see ``show.document``."""
    from leftoff.operations.runs import target

    return document(project, target(project, caller, ref), whole)


def document(project: Project, target: Target, whole: Collection[str] | None = None) -> dict[str, Any]:
    """Return all of a run, with the last words of an agent that did not report them. ``whole``: see
    ``show.document``."""
    from leftoff.engine.read import show

    found = show.document(project.store, target, project.now, project.limits, whole)
    known = found["records"].get("turn")
    turn = known[max(known)] if known and target.version is None else None
    if isinstance(turn, dict) and not turn.get("said") and isinstance(turn.get("transcript"), str):
        from leftoff.engine.read.transcript import last_words

        said, error = last_words(turn["transcript"], str(turn.get("prompt") or ""))
        if said:
            turn["said"] = project.redactor.mask(said[:4000])[:2000]
        if error and not turn.get("error"):
            turn["error"] = {"message": project.redactor.mask(error[:4000])[:2000]}
    return found


def told(project: Project, target: Target, room: int | None = None, seconds: float = 10.0) -> str:
    """What an agent must know that has never seen the work, in so many characters. ``seconds``: how long git may take
    to tell what a turn that was cut off has changed."""
    from leftoff.engine.read.brief import LIMIT, WHOLE, brief_parts, fit_parts, was_cut_off
    from leftoff.engine.read.quoting import source_of

    source = project.store.read(lambda view: source_of(view, target.row))
    found = document(project, target, WHOLE)
    if target.version is None and not source and was_cut_off(found):
        from leftoff.engine.lifecycle.agent_turns import add_unreported

        turns = found["records"]["turn"]
        add_unreported(project, target.row, turns[max(turns)], found["files"], seconds)
    return fit_parts(brief_parts(found, project.now, project.folder, source), room or LIMIT)


class Brief(Fields):
    """What whoever goes on with a run must know."""

    run_id: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "text": self.text}


def brief(project: Project, caller: Caller, ref: str | None) -> Brief:
    """What an agent must know to go on with a run."""
    from leftoff.operations.runs import target

    found = target(project, caller, ref)
    return Brief(found.row.run_id, told(project, found))


class Compared(Fields):
    """Two versions, and what differs."""

    old: Target
    new: Target
    found: Diff
    contents: dict[str, FileDiff]

    def to_json(self) -> dict[str, Any]:
        out = self.found.to_json() | {
            "contents": {path: each.to_json() for path, each in self.contents.items()}
        }
        known = {path for kind in ("files", "artifacts") for part in out[kind].values() for path in part}
        for path, each in self.contents.items():
            if path not in known:
                out["files"]["changed"][path] = {"from": each.old, "to": each.new}
        return out


def compare(
    project: Project,
    caller: Caller,
    old: str | None = None,
    new: str | None = None,
    paths: Sequence[str] = (),
) -> Compared:
    """What differs between two versions; without a second one, between it and its run's newest; without any, between
    the last checkpoint and now. Now is what lies there. ``paths``: only these files, and nothing else."""
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.history import diff
    from leftoff.engine.workspace.project_files import given_path
    from leftoff.operations.runs import target

    left = target(project, caller, old)
    if left.version is None and new is None:
        sealed = project.store.read(lambda view: view.versions(left.row.run, sealed=True, limit=1))
        left = Target(left.row, sealed[0] if sealed else None)
    right = target(project, caller, new) if new is not None else Target(left.row, None)
    wanted = [given_path(project.folder, path) for path in paths]
    sides = [(side.row.run, side.row.run_id, side.seq) for side in (left, right)]
    found = diff(project.store, *sides)
    return Compared(
        left, right, found.only(wanted) if wanted else found, _contents(project, left, right, wanted)
    )


def _contents(project: Project, left: Target, right: Target, wanted: list[str]) -> dict[str, FileDiff]:
    """What changed in the files that the two versions know."""
    from leftoff.engine.read.history import file_records, is_among
    from leftoff.engine.workspace.file_versions import FileSide, file_diffs

    there = project.seen_from(right.row)
    sides = []
    for side in (left, right):
        known = file_records(project.store, side.row.run, side.row.run_id, side.seq)
        known = {path: about for path, about in known.items() if not wanted or is_among(path, wanted)}
        name = f"{side.row.run_id}@{side.seq}" if side.version is not None else "now"
        sides.append(FileSide(project.store, there.folder, name, known, now=side.version is None))
    return file_diffs(sides[0], sides[1], project.redactor)


class Fork(Fields):
    """A run to make from a version of another. ``branch``: its own; by default the first fork-N that no run is on."""

    ref: str | None
    branch: str | None = None
    run_id: str | None = None
    variables: Mapping[str, Any] | None = None
    audit: Audit | None = None


class Forked(Fields):
    """The new run, and what it starts from."""

    info: RunInfo
    source: Target

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def fork(project: Project, caller: Caller, wanted: Fork) -> Forked:
    """Copy a version of a run into a new run, which is paused."""
    from leftoff.engine.lifecycle.rewind import ForkRequest, fork_paused
    from leftoff.operations.runs import info, target

    source, branch = target(project, caller, wanted.ref, current(project, caller)), wanted.branch
    on = project.store.read(_free_branch) if branch is None else branch
    variables = dict(wanted.variables or {})
    request = ForkRequest(on, wanted.run_id, variables, scrubber=project.redactor, audit=wanted.audit)
    head = usage_errors(lambda: fork_paused(project.store, source, request, project.now))
    return Forked(info(project, head), source)


def _free_branch(view: View) -> str:
    """The first fork-N that no run is on."""
    number = 1
    while view.list_runs({"branch": f"fork-{number}"}, 1):
        number += 1
    return f"fork-{number}"
