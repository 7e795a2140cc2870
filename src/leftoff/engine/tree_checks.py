"""Checks of the project's tree: outputs of finished steps, tracked files, git, and the issue that a run works on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leftoff.engine.file_state import CHANGED, GONE, TICK_NS, compare_files, newest_by_path
from leftoff.engine.findings import BRING_BACK, REFUSE, WARN, Finding, some
from leftoff.engine.git import DIRTY, dirty_paths, git_command, git_environment, git_output, is_commit
from leftoff.engine.lease import ELSEWHERE
from leftoff.engine.run_reader import DEFINITION
from leftoff.engine.tracking import own_files
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.model.codec import Row
from leftoff.model.ids import as_word, shown_step, step_word
from leftoff.model.words import ISSUE, RESTORING
from leftoff.store.base import View

if TYPE_CHECKING:
    from leftoff.engine.run_checks import World

MOST_DIFFS = 5
MOST_LINES = 200
_COMMITS = 10
GIT_S = 20.0


# -- what finished steps wrote


def outputs(world: World) -> Iterator[Finding]:
    """Find outputs that are gone, or changed. A change by the run itself is only a warning."""
    missing, changed = _look_at_outputs(world)
    known = newest_by_path(world.artifacts.values()) if missing else {}
    for step, path in missing:
        name, word, kept, lost = shown_step(step), step_word(step), False, ""
        if known.get(path, {}).get("captured"):
            from leftoff.engine.file_versions import has_copy

            # A copy that may be restored without a further question is read to its end.
            kept = has_copy(world.store, known[path], whole=world.proves_copies)
            lost = "" if kept else "; the copy that was kept is damaged or gone"
        first = f"--yes runs {name} again"
        if kept:
            first = f"--yes restores the copy; --from-step {word} runs the step again"
        yield Finding(
            "outputs.missing",
            f"{path}, an output of step {name}, is missing{'; a copy was kept' if kept else lost}.",
            f"{first}; --accept outputs.missing continues without it.",
            step,
            choices=(*((BRING_BACK,) if kept else ()), "run the step again", "accept", "stop"),
            paths=(path,),
        )
    for step, path in changed:
        why = _own_doing(world, [path])
        yield Finding(
            "outputs.changed",
            f"{path}, an output of step {shown_step(step)}, has changed.{why}",
            "--accept outputs.changed (or --yes) keeps it as it is now; "
            f"--from-step {step_word(step)} runs the step again.",
            step,
            level=WARN if why else "",
            choices=("run the step again", "accept", "stop"),
            paths=(path,),
        )


def _look_at_outputs(world: World) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the outputs that are missing, and those that changed, each as step and path.

    First only files are looked at; which step wrote one is asked if something is wrong with it.
    """
    missing: list[tuple[str, str]] = []
    changed: list[tuple[str, str]] = []
    paths = [*world.steps.wrote]
    for record in world.steps.open.values():
        paths += _outputs(record)
    paths.sort()
    rows = world.artifact_rows
    if paths != [row[0] for row in rows]:  # else each artifact is an output, and the other way round
        stored = {row[0]: row for row in rows}
        rows = [stored.get(path, (path, b"", b"")) for path in paths]
        # What else finished steps recorded may have been written since: it is only looked whether it is there.
        folders = [world.project]
        origin = world.facts.get("imported")
        if isinstance(origin, dict) and isinstance(
            origin.get("path"), str
        ):  # perhaps relative to that document
            folders.append(os.path.join(world.project, os.path.dirname(origin["path"])))
        for key in sorted(stored.keys() - paths):
            about = world.artifacts.get(key, {})
            path, step = about.get("path"), about.get("step")
            if isinstance(path, str) and isinstance(step, str) and path not in paths:
                finished = world.steps.status(step) == "completed" and step not in world.inner
                if finished and not any(os.path.lexists(os.path.join(folder, path)) for folder in folders):
                    missing.append((step, path))
    doubtful = frozenset(paths if world.deep else _not_as_recorded(world, rows))
    if doubtful:
        # If several leaf steps wrote a file, the last in order counts.
        wrote = {p: step for step in world.leaves() for p in _outputs(world.steps[step]) if p in doubtful}
        known = newest_by_path(world.artifacts.values())
        entries = {path: known[path] for path in wrote if "hash" in known.get(path, ())}
        seen = compare_files(world.project, entries, deep=world.deep)
        for path, step in wrote.items():
            nameless = path not in seen and not os.path.lexists(os.path.join(world.project, path))
            if nameless or seen.get(path) == GONE:
                missing.append((step, path))
            elif seen.get(path) == CHANGED:
                changed.append((step, path))
    return missing, changed


def _outputs(record: Mapping[str, Any]) -> list[str]:
    if record.get("status") != "completed":
        return []
    return [path for path in record.get("outputs") or () if isinstance(path, str)]


def _not_as_recorded(world: World, rows: Iterable[Row]) -> list[str]:
    """Return the files to look at more closely: all but those whose stat is word for word in their record.

    The record is not even decoded: what `stat` says is looked for in its bytes, as the codec writes it (keys in order,
    nothing between them). A text in a record has its quotes escaped, so that it can never pass for that.
    """
    out, stat, start = [], os.stat, world.project.rstrip("/") + "/"
    for path, _, stored in rows:
        try:
            st = stat(start + path)
            facts = st.st_mtime_ns, st.st_ctime_ns, st.st_ino, st.st_size
            if b'"seen":[%d,%d,%d],"size":%d' % facts in stored:
                continue
        except (OSError, ValueError):  # of any kind, it is not as recorded
            pass
        out.append(path)
    return out


# -- tracked files


def files(world: World) -> Iterator[Finding]:
    """Find tracked files that differ. What the run itself changed, or git explains, is only a warning."""
    tracked = world.records.get("file", {})
    if not tracked:
        return
    others = {path for record in world.steps.values() for path in record.get("outputs") or ()}
    others |= own_files(world.store)
    entries = {
        path: about
        for path, about in tracked.items()
        if isinstance(about, dict)
        and path not in others
        and ("hash" in about or "target" in about or about.get("status"))
    }
    seen = compare_files(world.project, entries, deep=world.deep, modes=True)
    paths = [path for path, what in seen.items() if what in (CHANGED, GONE)]
    if not paths:
        return
    why = _own_doing(world, paths) or git_explains(world, paths)
    yield Finding(
        "files.changed",
        f"Tracked files differ from the checkpoint: {some(paths, between=', ')}.{why}",
        "--accept files.changed (or --yes) keeps them as they are; "
        f"`leftoff restore {world.run_id} PATH…` restores single files.",
        paths[0],
        level=WARN if why else "",
        diff=_diff(world, paths) or None,
        choices=("keep the current", "restore from the checkpoint", "stop"),
        paths=tuple(paths),
    )


def _diff(world: World, paths: list[str]) -> str:
    """Return a diff from the checkpoint to the present, for the first few files; secrets in it are masked."""
    from leftoff.engine.file_versions import present_diff, recorded_text

    parts = []
    for path in paths[:MOST_DIFFS]:
        try:
            old = recorded_text(world.store, world.records["file"][path])
            parts.append(present_diff(world.project, path, old, "checkpoint"))
        except (Corrupt, StoreUnavailable) as error:  # a difference is a help, and no verdict depends on it
            parts.append(f"{path}: {error.message} `leftoff fsck` tells more.")
    lines = "\n".join(part for part in parts if part is not None).splitlines()
    return world.settings.redactor().mask("\n".join(lines[:MOST_LINES]))


def _own_doing(world: World, paths: list[str]) -> str:
    """Return a sentence if the run itself may have changed these files, else an empty text.

    It may have if a step was in flight when it stopped, or if they were last changed before its last sign of life.
    """
    if world.in_flight() or world.attempts:
        return " A step was in flight, so that may be half done."
    if not world.is_head:
        return ""
    lease, beat = world.lease, 0
    if lease is not None and not (lease.who == ELSEWHERE and lease.beat == lease.since):
        beat = lease.beat or 0  # else the run arrived here, which is not a sign of life
    # The clock that stamps files may be late. A runner's own checkpoint follows closely after its steps. An
    # agent that reports has its files looked at again, so a change right after its report has another cause.
    late = 0 if DEFINITION in world.context else TICK_NS
    last = max(_last_work(world), beat) * 1_000_000 - late
    for path in paths:
        try:
            if os.lstat(os.path.join(world.project, path)).st_ctime_ns > last:
                return ""
        except OSError:  # when it went is not known
            return ""
    return " That was while the run was at work."


def _last_work(world: World) -> int:
    """Return when the run last worked: for a run of a workflow file that rests, when it came to rest. An approval or a
    note since then was not work of its steps."""
    at, row = world.version.at, world.row
    if DEFINITION not in world.context or world.facts.get("status") == "running":
        return at

    def came_to_rest(view: View) -> int:
        record = view.record(row.run, "run", "status")
        version = view.version(row.run, record.seq) if record is not None else None
        return min(at, version.at) if version is not None else at

    return world.store.read(came_to_rest)


def half_restored(world: World) -> Iterator[Finding]:
    """Report a rollback with files that was killed before all of them were in their place."""
    if RESTORING not in world.row.card:
        return
    from leftoff.engine.restoring import find_half_restored

    found = find_half_restored(world.store, world.row)
    if found is not None:
        yield Finding(
            "files.half_restored",
            found.message,
            "Wait for it."
            if found.busy
            else f"`{found.command}` completes it; --accept files.half_restored (or --yes) continues with the files as "
            "they are. What was there before is in the checkpoint `rollback_begin`.",
            world.run_id,
            level=REFUSE if found.busy else "",
            choices=() if found.busy else ("keep the current", "stop"),
            clears=("run", RESTORING),
        )


# -- git


def git(world: World) -> Iterator[Finding]:
    """Compare the branch and the commit that the run knows with those that are checked out."""
    branch, head = world.facts.get("git_branch"), _known_head(world)
    if not (branch or head) or run_git(world, "rev-parse", "--git-dir") is None:
        return
    checked_out = run_git(world, "symbolic-ref", "--quiet", "--short", "HEAD")
    if not head and checked_out == branch:
        yield from _dirty(world)  # a branch before its first commit: git has no ref for it
        return
    # A colleague's clone has a branch only at a remote.
    remotes = (run_git(world, "remote") or "").split() if branch else ()
    refs = [f"refs/heads/{branch}", *(f"refs/remotes/{remote}/{branch}" for remote in remotes)]
    if branch and all(run_git(world, "rev-parse", "--verify", "--quiet", ref) is None for ref in refs):
        yield Finding(
            "git.branch_gone",
            f"The git branch {branch} that the run worked on no longer exists.",
            f"Bring it back (`git branch {as_word(str(branch))} {(head or 'COMMIT')[:12]}`), or start a new run.",
            str(branch),
        )
    elif branch and checked_out != branch:
        yield Finding(
            "git.branch_other",
            f"The run worked on git branch {branch}; {checked_out or 'a detached HEAD'} is checked out.",
            f"`git switch {as_word(str(branch))}`, or resume here with --accept git.branch_other.",
            str(branch),
        )
    now = run_git(world, "rev-parse", "--verify", "--quiet", "HEAD")
    if head and now and now != head:
        listed = run_git(world, "log", "--oneline", f"--max-count={_COMMITS + 1}", f"{head}..HEAD")
        commits = listed.splitlines() if listed else []
        more = " and more" if len(commits) > _COMMITS else ""
        follows = run_git(world, "merge-base", "--is-ancestor", head, "HEAD") is not None
        told = ("" if follows else " to a commit that does not follow from it") + (
            f": {'; '.join(commits[:_COMMITS])}{more}" if commits else ""
        )
        message = f"HEAD was {head[:12]} and moved{told}."
        yield Finding("git.head_moved", message, "Nothing to do if that was intended.", now[:12])
    yield from _dirty(world)


def _known_head(world: World) -> str | None:
    """Return the commit that the run knows. Anything else is not passed to git."""
    head = world.facts.get("git_head")
    return head if is_commit(head) else None


def _dirty(world: World) -> Iterator[Finding]:
    known = world.said(DIRTY)
    if not isinstance(known, list):
        return
    folders = tuple(path for path in known if isinstance(path, str) and path.endswith("/"))
    dirty = dirty_paths(world.project) or ()
    new = [path for path in dirty if path not in known and not path.startswith(folders)]
    if new:
        own = {*world.records.get("file", {}), *own_files(world.store)}
        for about in (*world.steps.values(), *world.artifacts.values()):
            own.update(
                path for path in (*(about.get("outputs") or ()), about.get("path")) if isinstance(path, str)
            )
        new = [path for path in new if path not in own]
    if new:
        message = f"Uncommitted changes that the run does not know about: {some(new, between=', ')}."
        yield Finding("git.dirty", message, "Nothing to do if that was intended.", new[0])


def git_explains(world: World, paths: list[str]) -> str:
    """Return a sentence if commits that follow from the recorded one changed these files, else an empty text."""
    head = _known_head(world)
    if not head or run_git(world, "merge-base", "--is-ancestor", head, "HEAD") is None:
        return ""
    if run_git(world, "status", "--porcelain=v1", "--", *paths):
        return ""
    changed = run_git(world, "diff", "--name-only", "--relative", "-z", head, "HEAD", "--", *paths)
    same = changed is not None and set(paths) <= set(changed.split("\0"))
    return " Commits since then changed them." if same else ""


def run_git(world: World, *words: str) -> str | None:
    """Return what git prints, None if it fails or is not there."""
    try:
        found = git_output(git_command(world.project, *words), git_environment(), GIT_S)
    except (OSError, ValueError, StoreUnavailable):  # ValueError: a name with a NUL in it
        return None
    return found.decode(errors="replace").strip() if found is not None else None


# -- the issue that a run works on, compared with the snapshot that the run has of it


def issue(world: World) -> Iterator[Finding]:
    number = world.facts.get("issue")
    then = world.said(ISSUE) if number is not None else None  # ours, or the one of an imported document
    if not isinstance(then, dict):
        return
    from leftoff.engine.issue_tracker import Issues, Offline, snapshot

    issues = Issues(world.settings)
    if not issues.known:
        return
    name = f"#{number}"
    try:
        now = snapshot(issues.fetch(world.project, str(number)), None, world.now)
    except Offline as error:
        message = f"Issue {name} could not be checked: {error}."
        yield Finding("issue.offline", message, "Whether it changed is not known.", name)
        return
    if now["state"] == "closed" and str(then.get("state") or "open").lower() != "closed":
        hint = "--accept issue.closed resumes anyway."
        yield Finding("issue.closed", f"Issue {name} was closed.", hint, name)
    before = then.get("body") or ""
    # One with a secret in it was not kept.
    if "body" in then and isinstance(before, str) and before != now["body"]:
        from leftoff.engine.file_versions import unified

        diff = world.settings.redactor().mask(unified(before, now["body"], f"{name} (then)", f"{name} (now)"))
        hint = "Does it still ask for the same thing? --accept issue.body resumes anyway."
        yield Finding("issue.body", f"The text of issue {name} was modified.", hint, name, diff=diff)
    if isinstance(then.get("labels"), list) and sorted(map(str, then["labels"])) != now["labels"]:
        added = [label for label in now["labels"] if label not in then["labels"]]
        gone = [str(label) for label in then["labels"] if label not in now["labels"]]
        changes = (("new:", added), ("gone:", gone))
        told = "; ".join(f"{word} {', '.join(labels)}" for word, labels in changes if labels)
        hint = "Resuming adopts them." if world.is_head else "They stay as they are."
        yield Finding("issue.labels", f"The labels of issue {name} changed: {told}.", hint, name)
