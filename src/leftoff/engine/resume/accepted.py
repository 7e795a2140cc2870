"""Taking in what a person agreed to: files that stay as they are, an issue that reads differently by now.

What is known of them is brought up to date in one commit, so that nothing that was answered is asked again.
"""

from __future__ import annotations

import os

from leftoff.engine.workspace.issue_tracker import put_issue, take_issue
from leftoff.engine.workspace.tracking import Found, Workspace, capture, capture_paths, known_to
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.head import need_run
from leftoff.engine.write.report import report as report_to
from leftoff.engine.write.unmoved import is_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.resume.answers import Answers
    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.workspace.tracking import Captured
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def keep_accepted(project: Project, report: Report, answers: Answers) -> None:
    """What the run goes on in spite of is how it shall be from now on."""
    world = report.world
    if any(finding.code == "files.half_restored" for finding in report.findings):
        from leftoff.engine.workspace.restoring import discard_new_files

        discard_new_files(world.project, known_to(world.store, world.row))
    kept = [finding for finding in report.findings if answers.keep(finding)]
    if world.is_head and kept:
        _take_in(world, kept, project.now, project.redactor)


def _take_in(world: World, findings: list[Finding], at: int, redactor: Redactor) -> None:
    """The present of what these findings are about is what the run knows from now on."""
    workspace = Workspace(world.store, world.project, redactor, world.settings.capture, at)
    found = _tracked(world, findings, workspace)
    outputs = _outputs(world, findings, workspace)
    seen: dict[str, Any] = {}
    if any(finding.code in ("issue.labels", "issue.body", "issue.closed") for finding in findings):
        branch = world.facts.get("git_branch")
        seen = take_issue(world.settings, world.project, str(world.facts.get("issue") or ""), branch, at)
    cleared = [finding.clears for finding in findings if finding.clears]
    if not (found.captured or outputs or seen or cleared):
        return

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        found.put(changes, row.seq + 1)
        for got in outputs:
            got.put(changes)
        put_issue(changes, seen)
        for collection, key in cleared:
            known = tx.row(row.run, collection, key) is not None
            if known and is_seen(tx, row.run, collection, key, world.row.seq):
                changes.delete(collection, key)

    blobs = [*found.blobs, *(got.blob for got in outputs if got.blob is not None)]
    run, run_id = world.row.run, world.run_id
    terms = Terms(at, blobs=blobs)
    report_to(world.store, lambda view: need_run(view, run, run_id), make, terms, scrubber=redactor)


def _tracked(world: World, findings: list[Finding], workspace: Workspace) -> Found:
    paths = [path for finding in findings if finding.code == "files.changed" for path in finding.paths]
    if not paths:
        return Found([], [])
    return capture_paths(workspace, world.row, paths)


def _outputs(world: World, findings: list[Finding], workspace: Workspace) -> list[Captured]:
    paths = {path for finding in findings if finding.code == "outputs.changed" for path in finding.paths}
    out = []
    for key, about in world.artifact_records().items() if paths else ():
        path = about.get("path")
        full = os.path.join(world.project, path) if isinstance(path, str) else ""
        if path in paths and os.path.isfile(full):
            name = key if key != path else None
            out.append(capture(workspace, full, step=about.get("step"), name=name))
    return out
