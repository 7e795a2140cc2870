"""Look into a run's history: `history`, `show`, `brief`, `diff`; and `fork`, which copies a version into a new run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from leftoff.engine import history as versions_of
from leftoff.engine.agent_turns import add_unreported
from leftoff.engine.brief import ALL, LIMIT, WHOLE, brief_parts, cut_off_turn, fit_parts
from leftoff.engine.commit import Audit
from leftoff.engine.file_versions import FileDiff, FileSide, file_diffs
from leftoff.engine.find import Target
from leftoff.engine.forking import ForkRequest, fork_paused
from leftoff.engine.history import Diff, diff, file_records, is_among
from leftoff.engine.project import Project
from leftoff.engine.project_files import given_path
from leftoff.engine.quoting import both_ends, source_of, telling_part
from leftoff.engine.run_info import RunInfo
from leftoff.engine.settings import Caller
from leftoff.engine.show import document
from leftoff.engine.transcript import since_prompt, workflow_runs
from leftoff.errors import usage_errors
from leftoff.model.changes import Version
from leftoff.operations.run_reports import which_run
from leftoff.operations.runs import info_of, target
from leftoff.store.base import View
from leftoff.store.rows import RunRow

_LONGEST = 20_000  # characters of a text from a transcript

# -- history


class History:
    """The checkpoints of a run, newest first, up to the version that ``target`` names."""

    def __init__(self, project: Project, target: Target, most: int | None = None) -> None:
        self.target = target
        self.versions: list[Version] = versions_of.checkpoints(project.store, target)[:most]
        self._store = project.store

    def forks(self) -> dict[int, list[RunRow]]:
        """Return the runs that were forked, by the seq of the checkpoint that is nearest to where they start."""
        seqs = sorted(version.seq for version in self.versions)
        out: dict[int, list[RunRow]] = {}
        for seq, row in versions_of.forks(self._store, self.target.row.run_id):
            at = versions_of.nearest_seq(seqs, seq)
            if at is not None:
                out.setdefault(at, []).append(row)
        return out

    def to_json(self) -> dict[str, Any]:
        cannot = versions_of.refused(self._store, self.target, self.versions)
        found = [{**version.to_json(), "can_resume": version.seq not in cannot} for version in self.versions]
        return {"checkpoints": found}


def history(project: Project, caller: Caller, ref: str | None = None, most: int | None = None) -> History:
    """Return the checkpoints of the run that a REF names. ``most``: only so many of the newest."""
    return History(project, target(project, caller, ref), most)


# -- show and brief


def show(
    project: Project, caller: Caller, ref: str | None, whole: Collection[str] | None = None
) -> dict[str, Any]:
    """Return all of a run, as it is or as it was at a version. ``whole``: see ``document`` in ``engine/show.py``."""
    return _document(project, target(project, caller, ref), whole)


def _document(project: Project, found: Target, whole: Collection[str] | None) -> dict[str, Any]:
    """Return the document of a run. If its last turn has no answer, take that from the agent's transcript."""
    out = document(project.store, found, project.now, project.limits, whole)
    known = out["records"].get("turn", {}) if found.version is None else {}
    for turn in list(known.values())[-2:]:
        if isinstance(turn, dict) and not turn.get("said") and isinstance(turn.get("transcript"), str):
            _add_transcript(project, turn)
        if isinstance(turn, dict) and isinstance(turn.get("transcript"), str):
            cut_off = [one.told for one in workflow_runs(turn["transcript"]) if not one.ended]
            runs = [project.redactor.mask(one) for one in cut_off]
            turn.update({"workflows": runs} if runs else {})
    return out


def _add_transcript(project: Project, turn: dict[str, Any]) -> None:
    """Add to a turn what the agent has not reported of it. Nothing is stored."""

    def fit(text: str, cut: Callable[[str, int], str] = both_ends) -> str:
        return cut(project.redactor.mask(text[-_LONGEST:]), 2000)

    since = since_prompt(turn["transcript"], str(turn.get("prompt") or ""))
    if since.said:
        turn["said"] = fit(since.said[-1])
        turn["said_before"] = [fit(text) for text in since.said[-20:-1]]
    if since.error and not turn.get("error"):
        turn["error"] = {"message": fit(since.error)}
    if since.failed and not turn.get("failed"):
        turn["failed"] = [
            {"command": fit(command), "error": fit(error, telling_part)}
            for command, error in since.failed[-5:]
        ]
    if since.doing:
        turn["doing"] = [fit(one) for one in since.doing[-3:]]


def brief_of(project: Project, found: Target, seconds: float = 10.0, whole: bool = False) -> str:
    """Return what an agent must know that has never seen the work. ``whole``: all of it, not only what matters most.

    ``seconds``: how long git may take to find the changes of an interrupted turn.
    """
    source = project.store.read(lambda view: source_of(view, found.row))
    about = _document(project, found, WHOLE)
    if found.version is None and not source and (turn := cut_off_turn(about)) is not None:
        add_unreported(project, turn, about["files"], seconds)
    parts = brief_parts(about, project.now, project.folder, source, whole)
    return fit_parts(parts, ALL if whole else LIMIT)


def brief_run(project: Project, caller: Caller, ref: str | None, whole: bool = False) -> dict[str, Any]:
    """Return the brief of the run that a REF names, as ``text``, and its ``run_id``. ``whole``: see ``brief_of``."""
    found = target(project, caller, ref)
    return {"run_id": found.row.run_id, "text": brief_of(project, found, whole=whole)}


# -- diff


class Compared(NamedTuple):
    """Two versions, and what differs: records, and the contents of files by path."""

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


def compare_versions(
    project: Project,
    caller: Caller,
    old: str | None = None,
    new: str | None = None,
    paths: Sequence[str] = (),
) -> Compared:
    """Compare two versions. ``new``: by default the run's head and the files that are there now; ``old``: by default
    the last checkpoint. ``paths``: compare only these files."""
    left = target(project, caller, old)
    if left.version is None and new is None:
        sealed = project.store.read(lambda view: view.versions(left.row.run, sealed=True, limit=1))
        left = Target(left.row, sealed[0] if sealed else None)
    right = target(project, caller, new) if new is not None else Target(left.row, None)
    wanted = [given_path(project.folder, path) for path in paths]
    found = diff(project.store, *((side.row.run, side.row.run_id, side.seq) for side in (left, right)))
    folder = project.seen_from(right.row).folder
    sides = []
    for side in (left, right):
        files = file_records(project.store, side.row.run, side.row.run_id, side.seq)
        files = {path: about for path, about in files.items() if not wanted or is_among(path, wanted)}
        name = f"{side.row.run_id}@{side.seq}" if side.version is not None else "now"
        sides.append(FileSide(project.store, folder, name, files, now=side.version is None))
    contents = file_diffs(sides[0], sides[1], project.redactor)
    return Compared(left, right, found.only(wanted) if wanted else found, contents)


# -- fork


def fork_run(
    project: Project,
    caller: Caller,
    ref: str | None,
    branch: str | None = None,
    run_id: str | None = None,
    variables: Mapping[str, Any] | None = None,
    audit: Audit | None = None,
) -> tuple[RunInfo, Target]:
    """Copy a version of a run into a new run, which is paused. Return the new run and its source.

    ``branch``: of the new run, by default the first fork-N that no run is on.
    """
    source = target(project, caller, ref, which_run(project, caller))
    if branch is None:

        def free(view: View) -> str:
            return next(name for n in count(1) if not view.list_runs({"branch": (name := f"fork-{n}")}, 1))

        branch = project.store.read(free)
    request = ForkRequest(branch, run_id, dict(variables or {}), scrubber=project.redactor, audit=audit)
    head = usage_errors(lambda: fork_paused(project.store, source, request, project.now))
    return info_of(project, head), source
