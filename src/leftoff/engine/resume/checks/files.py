"""Files as a run's records know them, compared with what is there."""

from __future__ import annotations

import os
from typing import NamedTuple

from leftoff.engine.workspace.file_state import CHANGED, GONE, compare_files, newest_by_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from leftoff.engine.resume.checks.world import World
    from leftoff.model.codec import Row

MOST_DIFFS = 5
MOST_LINES = 200


class Outputs:
    """Of finished steps: (step, path) that are gone, and that are not what they were. ``kept``: paths of which there is
    a copy in the store; ``lost``: of which there was one."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.lost: set[str] = set()
        self.missing: list[tuple[str, str]] = []
        self.changed: list[tuple[str, str]] = []


class Tracked(NamedTuple):
    """Tracked files that differ, and a diff where their content was kept."""

    paths: list[str]
    diff: str


def look_at_outputs(world: World) -> Outputs:
    """What finished steps wrote. First the files alone; whose they are is asked where something is wrong with one."""
    paths, out = [*world.steps.wrote], Outputs()
    for record in world.steps.open.values():
        paths += _outputs(record)
    paths.sort()
    rows = world.artifact_rows
    if paths != [row[0] for row in rows]:  # else each artifact is an output, and the other way round
        known = {row[0]: row for row in rows}
        rows = [known.get(path, (path, b"", b"")) for path in paths]
        out.missing += _artifacts_gone(world, known.keys() - paths, frozenset(paths))
    doubtful = paths if world.deep else _not_as_recorded(world, rows)
    if doubtful:
        _look_closer(world, doubtful, out)
    if out.missing:
        _look_for_copies(world, out)
    return out


def _look_for_copies(world: World, out: Outputs) -> None:
    """Of what is gone. Where one may be brought back without a further question, it is read to its end."""
    from leftoff.engine.workspace.file_versions import has_copy

    known = newest_by_path(world.artifact_records().values())
    captured = {path for _, path in out.missing if known.get(path, {}).get("captured")}
    out.kept = {path for path in captured if has_copy(world.store, known[path], whole=world.proves_copies)}
    out.lost = captured - out.kept


def _look_closer(world: World, doubtful: list[str], out: Outputs) -> None:
    """Files that may have changed. Of several leaf steps that wrote one, the last in order counts."""
    some, steps = frozenset(doubtful), world.steps
    wrote = {path: step for step in world.leaves() for path in _outputs(steps[step]) if path in some}
    known = newest_by_path(world.artifact_records().values())
    entries = {path: known[path] for path in wrote if "hash" in known.get(path, ())}
    seen = compare_files(world.project, entries, deep=world.deep)
    for path, step in wrote.items():
        if path not in seen:  # nothing but its name is known
            if not os.path.lexists(os.path.join(world.project, path)):
                out.missing.append((step, path))
        elif seen[path] == GONE:
            out.missing.append((step, path))
        elif seen[path] == CHANGED:
            out.changed.append((step, path))


def _artifacts_gone(world: World, others: Iterable[str], paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """What else finished steps recorded, and is gone. It may have been written on since then, so no more is asked."""
    for key in sorted(others):
        about = world.artifact_records().get(key, {})
        path, step = about.get("path"), about.get("step")
        if isinstance(path, str) and isinstance(step, str) and path not in paths:
            finished = world.steps.status(step) == "completed" and step not in world.inner()
            if finished and not any(os.path.lexists(os.path.join(at, path)) for at in _folders(world)):
                yield step, path


def _folders(world: World) -> list[str]:
    """What paths are relative to: the project; in a document that the run came from perhaps its own folder."""
    origin = world.facts.get("imported")
    path = origin.get("path") if isinstance(origin, dict) else None
    beside = [os.path.join(world.project, os.path.dirname(path))] if isinstance(path, str) else []
    return [world.project, *beside]


def _outputs(record: Mapping[str, Any]) -> list[str]:
    if record.get("status") != "completed":
        return []
    return [path for path in record.get("outputs") or () if isinstance(path, str)]


def _not_as_recorded(world: World, rows: Iterable[Row]) -> list[str]:
    """The files that must be looked at more closely: all but those whose stat is word for word in their record.

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
        except (OSError, ValueError):  # whatever it is, it is not as recorded
            pass
        out.append(path)
    return out


def look_at_tracked(world: World) -> Tracked:
    """Files that `track`, hooks or git brought in; those that are outputs are looked at as such."""
    files = world.records.get("file", {})
    if not files:
        return Tracked([], "")
    outputs = {path for record in world.steps.values() for path in record.get("outputs") or ()}
    others = outputs | world.own_files()
    entries = {
        path: about
        for path, about in files.items()
        if isinstance(about, dict)
        and path not in others
        and ("hash" in about or "target" in about or about.get("status"))
    }
    seen = compare_files(world.project, entries, deep=world.deep, modes=True)
    paths = [path for path, what in seen.items() if what in (CHANGED, GONE)]
    return Tracked(paths, _diff(world, paths) if paths else "")


def _diff(world: World, paths: list[str]) -> str:
    """From the checkpoint to what is there, for the first few; secrets in it are masked."""
    from leftoff.engine.workspace.file_state import present
    from leftoff.engine.workspace.file_versions import present_text, recorded_text, unified
    from leftoff.errors import Corrupt, StoreUnavailable

    parts = []
    for path in paths[:MOST_DIFFS]:
        try:
            old = recorded_text(world.store, world.records["file"][path])
        except Corrupt as error:
            parts.append(f"{path}: {error.message} `leftoff fsck` tells more.")
            continue
        except StoreUnavailable as error:  # a difference is a help, and no verdict hangs on it
            parts.append(f"{path}: {error.message}")
            continue
        new = present_text(world.project, path, present(world.project, path))
        if old is not None and new is not None:
            parts.append(unified(old, new, f"{path} (checkpoint)", f"{path} (now)"))
    lines = "\n".join(parts).splitlines()
    return world.settings.redactor().mask("\n".join(lines[:MOST_LINES]))
