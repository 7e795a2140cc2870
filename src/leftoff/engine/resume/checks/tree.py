"""Checks of the project's tree: outputs of finished steps, tracked files, git."""

from __future__ import annotations

import os

from leftoff.engine.config.git_head import is_commit
from leftoff.engine.read.state import DEFINITION
from leftoff.engine.resume.finding import BRING_BACK, REFUSE, WARN, Finding
from leftoff.engine.workspace.file_state import TICK_NS
from leftoff.engine.workspace.git import DIRTY, dirty_paths, git_command, git_environment
from leftoff.engine.write.lease import ELSEWHERE
from leftoff.model.ids import as_word, shown_step, step_word
from leftoff.model.words import ISSUE, RESTORING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.engine.resume.checks.world import World
    from leftoff.store.base import View


_SHOWN = 5
_COMMITS = 10
GIT_S = 20.0


def outputs(world: World) -> Iterator[Finding]:
    """What finished steps wrote: gone, or not what it was. What the run itself changed is no surprise."""
    from leftoff.engine.resume.checks.files import look_at_outputs

    seen = look_at_outputs(world)
    for step, path in seen.missing:
        kept, name = path in seen.kept, shown_step(step)
        lost = "; the copy that was kept is damaged or gone" if path in seen.lost else ""
        word = step_word(step)
        first = f"--yes restores the copy; --from-step {word} runs" if kept else f"--yes runs {name} again"
        yield Finding(
            "outputs.missing",
            f"{path}, an output of step {name}, is missing{'; a copy was kept' if kept else lost}.",
            f"{first + ' the step again' if kept else first}; --accept outputs.missing continues without it.",
            step,
            choices=(*((BRING_BACK,) if kept else ()), "run the step again", "accept", "stop"),
            paths=(path,),
        )
    for step, path in seen.changed:
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


def files(world: World) -> Iterator[Finding]:
    """Tracked files that differ. Where the run itself changed them, or git explains it, that is no surprise."""
    from leftoff.engine.resume.checks.files import look_at_tracked

    seen = look_at_tracked(world)
    if not seen.paths:
        return
    why = _own_doing(world, seen.paths) or git_explains(world, seen.paths)
    shown = ", ".join(seen.paths[:_SHOWN]) + (
        f" and {len(seen.paths) - _SHOWN} more" if len(seen.paths) > _SHOWN else ""
    )
    yield Finding(
        "files.changed",
        f"Tracked files differ from the checkpoint: {shown}.{why}",
        "--accept files.changed (or --yes) keeps them as they are; "
        f"`leftoff restore {world.run_id} PATH…` restores single files.",
        seen.paths[0],
        level=WARN if why else "",
        diff=seen.diff or None,
        choices=("keep the current", "restore from the checkpoint", "stop"),
        paths=tuple(seen.paths),
    )


def _own_doing(world: World, paths: list[str]) -> str:
    """Whether the run itself may have changed these files; in a sentence.

    It has where a step was in flight when it stopped, or where they were last changed before its last sign of life.
    """
    if world.in_flight() or world.attempts:
        return " A step was in flight, so that may be half done."
    if not world.is_head:
        return ""
    lease = world.lease
    arrived = (
        lease is not None and lease.who == ELSEWHERE and lease.beat == lease.since
    )  # here; no sign of life
    beat = lease.beat or 0 if lease is not None and not arrived else 0
    # The clock that stamps files may be late. A runner's own checkpoint follows close behind what its steps did; who
    # reports has their files looked at again, and whatever comes right behind a report is somebody else's.
    late = 0 if DEFINITION in world.records.get("context", {}) else TICK_NS
    last = max(_last_work(world), beat) * 1_000_000 - late
    for path in paths:
        try:
            if os.lstat(os.path.join(world.project, path)).st_ctime_ns > last:
                return ""
        except OSError:  # when it went, nobody knows
            return ""
    return " That was while the run was at work."


def _last_work(world: World) -> int:
    """When the run was at work last. One of a runner that rests was so until it came to rest: who approves, or notes
    something since then, has done none of its work."""
    at, row = world.version.at, world.row
    if DEFINITION not in world.records.get("context", {}) or world.facts.get("status") == "running":
        return at

    def came_to_rest(view: View) -> int:
        record = view.record(row.run, "run", "status")
        version = view.version(row.run, record.seq) if record is not None else None
        return min(at, version.at) if version is not None else at

    return world.store.read(came_to_rest)


def half_restored(world: World) -> Iterator[Finding]:
    """A rollback with files that was killed before all of them were in their place."""
    from leftoff.engine.workspace.restoring import find_half_restored

    found = find_half_restored(world.store, world.row)
    if found is not None:
        yield Finding(
            "files.half_restored",
            found.told(),
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
    facts = world.facts
    branch, head = facts.get("git_branch"), _known_head(world)
    if not (branch or head) or run_git(world, "rev-parse", "--git-dir") is None:
        return
    now = run_git(world, "symbolic-ref", "--quiet", "--short", "HEAD")
    if not head and now == branch:
        yield from _dirty(world)  # a branch before its first commit: git has no ref for it
        return
    if branch and not _has_branch(world, str(branch)):
        yield Finding(
            "git.branch_gone",
            f"The git branch {branch} that the run worked on no longer exists.",
            f"Bring it back (`git branch {as_word(str(branch))} {(head or 'COMMIT')[:12]}`), or start a new run.",
            str(branch),
        )
    elif branch and now != branch:
        yield Finding(
            "git.branch_other",
            f"The run worked on git branch {branch}; {now or 'a detached HEAD'} is checked out.",
            f"`git switch {as_word(str(branch))}`, or resume here with --accept git.branch_other.",
            str(branch),
        )
    yield from _moved(world, head)
    yield from _dirty(world)


def _has_branch(world: World, branch: str) -> bool:
    """Whether a branch is here, or at a remote: a colleague's clone has only that."""
    if run_git(world, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is not None:
        return True
    remotes = (run_git(world, "remote") or "").split()
    refs = (f"refs/remotes/{remote}/{branch}" for remote in remotes)
    return any(run_git(world, "rev-parse", "--verify", "--quiet", ref) is not None for ref in refs)


def _known_head(world: World) -> str | None:
    """The commit that the run knows; what is none is not told to git."""
    head = world.facts.get("git_head")
    return head if is_commit(head) else None


def _moved(world: World, head: str | None) -> Iterator[Finding]:
    now = run_git(world, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head or not now or now == head:
        return
    listed = run_git(world, "log", "--oneline", f"--max-count={_COMMITS + 1}", f"{head}..HEAD")
    commits = listed.splitlines() if listed else []
    more = " and more" if len(commits) > _COMMITS else ""
    follows = run_git(world, "merge-base", "--is-ancestor", head, "HEAD") is not None
    told = ("" if follows else " to a commit that does not follow from it") + (
        f": {'; '.join(commits[:_COMMITS])}{more}" if commits else ""
    )
    yield Finding(
        "git.head_moved",
        f"HEAD was {head[:12]} and moved{told}.",
        "Nothing to do if that was intended.",
        now[:12],
    )


def _dirty(world: World) -> Iterator[Finding]:
    known = world.said(DIRTY)
    if not isinstance(known, list):
        return
    folders = tuple(path for path in known if isinstance(path, str) and path.endswith("/"))
    dirty = dirty_paths(world.project) or ()
    new = [path for path in dirty if path not in known and not path.startswith(folders)]
    if new:
        own = {*world.records.get("file", {}), *world.own_files()}
        for about in (*world.steps.values(), *world.artifact_records().values()):
            own.update(
                path for path in (*(about.get("outputs") or ()), about.get("path")) if isinstance(path, str)
            )
        new = [path for path in new if path not in own]
    if new:
        shown = ", ".join(new[:_SHOWN]) + (f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else "")
        yield Finding(
            "git.dirty",
            f"Uncommitted changes that the run does not know about: {shown}.",
            "Nothing to do if that was intended.",
            new[0],
        )


def git_explains(world: World, paths: list[str]) -> str:
    """Whether commits that follow from the recorded one made these files what they are; in a sentence."""
    head = _known_head(world)
    if not head or run_git(world, "merge-base", "--is-ancestor", head, "HEAD") is None:
        return ""
    if run_git(world, "status", "--porcelain=v1", "--", *paths):
        return ""
    changed = run_git(world, "diff", "--name-only", "--relative", "-z", head, "HEAD", "--", *paths)
    same = changed is not None and set(paths) <= set(changed.split("\0"))
    return " Commits since then changed them." if same else ""


def run_git(world: World, *words: str, strip: bool = True) -> str | None:
    """What git prints; ``None`` where it fails, or is not there."""
    import subprocess

    try:
        done = subprocess.run(
            git_command(world.project, *words),
            env=git_environment(),
            capture_output=True,
            text=True,
            timeout=GIT_S,
            errors="replace",
        )
    except (OSError, ValueError, subprocess.SubprocessError):  # a name with a NUL in it is none of git's
        return None
    if done.returncode != 0:
        return None
    return done.stdout.strip() if strip else done.stdout


# -- the issue that a run works on, compared with the snapshot that the run has of it


def issue(world: World) -> Iterator[Finding]:
    number = world.facts.get("issue")
    if number is None:
        return
    from leftoff.engine.workspace.issue_tracker import Issues, Offline, snapshot

    then = world.said(ISSUE)  # ours, or the one of the document that the run came from
    if not isinstance(then, dict):
        return
    issues = world.settings.parsed("issues", Issues)
    if not issues.known:
        return
    name = f"#{number}"
    try:
        now = snapshot(issues.fetch(world.project, str(number)), None, world.now)
    except Offline as error:
        yield Finding(
            "issue.offline",
            f"Issue {name} could not be checked: {error}.",
            "Whether it changed is not known.",
            name,
        )
        return
    yield from _compare(world, name, then, now)


def _compare(world: World, name: str, then: dict[str, Any], now: dict[str, Any]) -> Iterator[Finding]:
    if now["state"] == "closed" and str(then.get("state") or "open").lower() != "closed":
        yield Finding(
            "issue.closed", f"Issue {name} was closed.", "--accept issue.closed resumes anyway.", name
        )
    before = then.get("body") or ""
    # One with a secret in it was not kept.
    if "body" in then and isinstance(before, str) and before != now["body"]:
        from leftoff.engine.workspace.file_versions import unified

        diff = world.settings.redactor().mask(unified(before, now["body"], f"{name} (then)", f"{name} (now)"))
        hint = "Does it still ask for the same thing? --accept issue.body resumes anyway."
        yield Finding("issue.body", f"The text of issue {name} was modified.", hint, name, diff=diff)
    if isinstance(then.get("labels"), list) and sorted(map(str, then["labels"])) != now["labels"]:
        added = [label for label in now["labels"] if label not in then["labels"]]
        gone = [str(label) for label in then["labels"] if label not in now["labels"]]
        told = "; ".join(
            f"{word} {', '.join(some)}" for word, some in (("new:", added), ("gone:", gone)) if some
        )
        yield Finding(
            "issue.labels",
            f"The labels of issue {name} changed: {told}.",
            "Resuming adopts them." if world.is_head else "They stay as they are.",
            name,
        )
