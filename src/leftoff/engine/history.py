"""A run's history: its checkpoints and forks, what differs between two versions, and when which step was tried.

The numbers of versions only grow, also after a rollback: its checkpoint follows the one that it equals, and those
in between end their own line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Any, NamedTuple

from leftoff.clock import millis
from leftoff.engine.find import Target
from leftoff.engine.run_reader import Reader, seen_step
from leftoff.engine.show import StepsWanted, step_page
from leftoff.host import ALIVE
from leftoff.model.changes import NOTHING, Version
from leftoff.model.codec import same_json
from leftoff.model.typed import readable
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow

# -- checkpoints


def checkpoints(store: SqlStore, target: Target) -> list[Version]:
    """Return the checkpoints up to the version that the target names, newest first."""
    before = None if target.version is None else target.version.seq + 1

    def work(view: View) -> list[Version]:
        return view.versions(target.row.run, sealed=True, before=before)

    return store.read(work)


def refused(store: SqlStore, target: Target, versions: list[Version]) -> set[int]:
    """Return the versions that say they cannot be resumed. Only a protocol's document records it."""
    row = target.row

    def work(view: View) -> set[int]:
        out = set()
        for version in versions:
            if version.aliases:
                run = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
                if run.get("can_resume") is False or run.get("resumable") is False:
                    out.add(version.seq)
        return out

    return store.read(work)


def latest_checkpoint(store: SqlStore, target: Target) -> dict[str, Any] | None:
    """Return the newest checkpoint of a run as JSON."""
    newest = store.read(lambda view: view.versions(target.row.run, sealed=True, limit=1))
    return {**newest[0].to_json(), "can_resume": not refused(store, target, newest)} if newest else None


def nearest_seq(seqs: list[int], seq: int) -> int | None:
    """Return the newest of these that is not newer than ``seq``: itself, if it is a checkpoint and still there."""
    at = bisect_right(seqs, seq)
    return seqs[at - 1] if at else None


def forks(store: SqlStore, run_id: str) -> list[tuple[int, RunRow]]:
    """Return the runs that were forked from this one, with the seq that each starts from."""
    found = []
    for row in store.read(lambda view: view.list_runs({"forked_from": run_id})):
        source, _, seq = str(row.card.get("parent") or "").rpartition("@")
        if source == run_id and seq.isascii() and seq.isdigit():
            found.append((int(seq), row))
    return found


# -- what differs

SECTIONS = {"variables": "variable", "steps": "step", "artifacts": "artifact", "files": "file"}


class Changed(NamedTuple):
    """One entry that is there on both sides."""

    old: Any
    new: Any

    def __repr__(self) -> str:
        return f"{self.old!r} → {self.new!r}"


class Section:
    """One kind of entry: what was added, removed, changed."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any], moved: set[str]) -> None:
        self.added = {key: new[key] for key in new if key not in old}
        self.removed = {key: old[key] for key in old if key not in new}
        self.changed = {key: Changed(old[key], new[key]) for key in new if key in old and key in moved}

    def within(self, paths: Collection[str]) -> Section:
        """Return the entries whose files are among these paths."""

        def is_file(key: str, about: Any) -> bool:
            return is_among(str(about.get("path") or key) if isinstance(about, dict) else key, paths)

        out = Section({}, {}, set())
        out.added = {key: each for key, each in self.added.items() if is_file(key, each)}
        out.removed = {key: each for key, each in self.removed.items() if is_file(key, each)}
        out.changed = {key: each for key, each in self.changed.items() if is_file(key, each.new)}
        return out

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        changed = {key: {"from": entry.old, "to": entry.new} for key, entry in self.changed.items()}
        return {"added": self.added, "removed": self.removed, "changed": changed}

    def __repr__(self) -> str:
        return f"<added {self.added}, removed {self.removed}, changed {self.changed}>"


class Diff:
    """Two versions compared. ``records`` has every other collection that differs."""

    def __init__(self, sections: dict[str, Section], records: dict[str, Section]) -> None:
        self.variables = sections["variables"]
        self.steps = sections["steps"]
        self.artifacts = sections["artifacts"]
        self.files = sections["files"]
        self.records = records

    def only(self, paths: Collection[str]) -> Diff:
        """Return what differs in these files, or in the files of these folders."""
        none = Section({}, {}, set())
        files = {"artifacts": self.artifacts.within(paths), "files": self.files.within(paths)}
        return Diff({"variables": none, "steps": none, **files}, {})

    def __bool__(self) -> bool:
        own = (self.variables, self.steps, self.artifacts, self.files)
        return any(own) or any(self.records.values())

    def to_json(self) -> dict[str, Any]:
        out = {name: getattr(self, name).to_json() for name in SECTIONS}
        out["records"] = {name: section.to_json() for name, section in self.records.items() if section}
        return out

    def __repr__(self) -> str:
        return f"<diff {self.to_json()}>"


def is_among(path: str, paths: Collection[str]) -> bool:
    """Return whether a path is one of these, or below one."""
    return any(path == each or each in ("", ".") or path.startswith(f"{each}/") for each in paths)


def file_records(store: SqlStore, run: int, run_id: str, seq: int) -> dict[str, Any]:
    """Return what a version knows of tracked files and artifacts, by path."""

    def look(view: View) -> dict[str, Any]:
        reader = Reader(store, view, run, run_id, seq)
        made = (about for about in reader.plain("artifact").values() if isinstance(about, dict))
        found = {about["path"]: about for about in made if isinstance(about.get("path"), str)}
        tracked = {path: about for path, about in reader.plain("file").items() if isinstance(about, dict)}
        return {
            path: about
            for path, about in {**found, **tracked}.items()
            if "hash" in about or "target" in about or about.get("status") == "deleted"
        }

    return store.read(look)


def diff(store: SqlStore, old: tuple[int, str, int], new: tuple[int, str, int]) -> Diff:
    """Compare two versions, each given as run number, run id and seq."""

    def work(view: View) -> Diff:
        left, right = Reader(store, view, *old), Reader(store, view, *new)
        own = set(SECTIONS.values())
        sections = {name: _section(left, right, word) for name, word in SECTIONS.items()}
        others = sorted({*left.collections(), *right.collections()} - own - {"item"})
        records = {word: section for word in others if (section := _section(left, right, word))}
        return Diff(sections, records)

    return store.read(work)


def _section(old: Reader, new: Reader, collection: str) -> Section:
    """Compare one collection, by hashes first: only what differs is decoded."""
    if collection == "variable":  # the head of a spread variable stays the same while its items change
        left = {key: value.plain for key, value in old.values("variable").items()}
        right = {key: value.plain for key, value in new.values("variable").items()}
        moved = {key for key in right if key in left and not same_json(left[key], right[key])}
        return Section(_seen(left, right), _seen(right, left), moved)
    before, after = old.raw(collection), new.raw(collection)
    moved = {key for key, record in after.items() if key in before and before[key].hash != record.hash}
    if not moved and before.keys() == after.keys():
        return Section({}, {}, set())
    left = {key: about for key, about in old.plain(collection).items() if key in moved or key not in after}
    right = {key: about for key, about in new.plain(collection).items() if key in moved or key not in before}
    if collection == "step":  # the cache key says only what a later run compares
        left, right = (
            {key: _without(seen_step(record), "cache") for key, record in side.items()}
            for side in (left, right)
        )
    if collection in (
        "artifact",
        "file",
    ):  # when a file was looked at is not a change, nor its mtime on this machine
        moved = {
            key
            for key in moved
            if not same_json(*(_without(side[key], "seen", "captured_at") for side in (left, right)))
        }
        left, right = (
            {key: _without(about, "seen") for key, about in side.items()} for side in (left, right)
        )
    return Section(left, right, moved)


def _seen(these: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return values as people see them, unless that would hide what changed: a list that became a tuple."""
    out = {key: readable(value) for key, value in these.items()}
    alike = (key for key in out if key in others and same_json(out[key], readable(others[key])))
    return {**out, **{key: these[key] for key in alike}}


def _without(about: Any, *names: str) -> Any:
    return {k: v for k, v in about.items() if k not in names} if isinstance(about, dict) else about


_DEEPEST = 6  # levels into a value before it is compared whole
Path = tuple[str | int, ...]


def differences(old: Any, new: Any, path: Path = ()) -> list[tuple[Path, Any, Any]]:
    """Return the places where two values differ. ``NOTHING`` stands for a side that does not have the place."""
    if same_json(old, new):
        return []
    left, right = (dict(enumerate(each)) if isinstance(each, list) else each for each in (old, new))
    inner = isinstance(left, dict) and isinstance(right, dict) and type(old) is type(new)
    if len(path) >= _DEEPEST or not old or not new or not inner:
        return [(path, old, new)]
    out = []
    for key in sorted({*left, *right}):
        before, after = left.get(key, NOTHING), right.get(key, NOTHING)
        if before is NOTHING or after is NOTHING:
            out.append(((*path, key), before, after))
        else:
            out += differences(before, after, (*path, key))
    return out


def place_name(path: Path) -> str:
    """Return a place in a value as people read it: ``items[2].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


# -- when what was done

_EVER = 1 << 62
COMPLETED, FAILED, RUNNING, CUT_OFF, WAITING = "completed", "failed", "running", "cut off", "waiting"


class Life(NamedTuple):
    """What one driver did, from taking the run to losing it: the commits of one epoch."""

    epoch: int
    began: int
    ended: int
    commits: int


class Tried(NamedTuple):
    """One attempt at a step, or one wait for a person: from when to when (``None``: not over), and its outcome."""

    step: str
    number: int
    began: int
    ended: int | None
    became: str


class Lives(NamedTuple):
    """The lives of a run, and what was tried in them (or in one), oldest first. ``cut``: older ones are left out."""

    lives: list[Life]
    tried: list[Tried]
    cut: bool


def find_lives(store: SqlStore, target: Target, epoch: int | None, most: int) -> Lives:
    """Return the lives of a run, and its last so many attempts. ``epoch``: those of one life."""

    def look(view: View) -> Lives:
        run = target.row.run
        found = [Life(*columns) for columns in view.lives(run)]
        since, until = 0, _EVER
        for number, life in enumerate(found):
            if life.epoch == epoch:  # a life lasts until the next one begins
                since, until = life.began, found[number + 1].began if number + 1 < len(found) else _EVER
        attempts = view.latest_attempts(run, since, until, most)
        tried = []
        for each in attempts:
            became = CUT_OFF
            if each.ended_at is not None and each.exit_code is not None:
                became = COMPLETED if each.exit_code == 0 else FAILED
            elif each.ended_at is None and each.process is not None and each.process.state() == ALIVE:
                became = RUNNING
            tried.append(Tried(each.step, each.number, each.started_at, each.ended_at, became))
        with_rows = {each.step for each in tried}
        others = [
            Tried(step, 1, began, millis(about.get("decided_at")), WAITING)
            for step, about in Reader(store, view, run, target.row.run_id).plain("approval").items()
            if isinstance(about, dict) and (began := millis(about.get("asked_at"))) is not None
        ]
        others += _of_records(store, target, with_rows, most)
        tried += [each for each in others if since <= each.began < until]
        tried.sort(key=lambda each: (each.began, each.step, each.number))
        return Lives(found, tried[-most:], len(attempts) == most or len(tried) > most)

    return store.read(look)


def _of_records(store: SqlStore, target: Target, with_rows: set[str], most: int) -> list[Tried]:
    """Return the attempts of steps that have no rows for them: those of Python code and of agents."""
    begun = StepsWanted(status=("running", "completed", "failed", "blocked"), limit=most)
    out = []
    for record in step_page(store, target, begun).steps:
        began = millis(record.get("started_at"))
        if began is None or record["step"] in with_rows or record.get("kind") == "approval":
            continue
        ended, status = millis(record.get("completed_at")), record.get("status")
        became = status if status in (COMPLETED, FAILED, RUNNING) else CUT_OFF
        number = record.get("attempt")
        out.append(Tried(record["step"], number if isinstance(number, int) else 1, began, ended, became))
    return out
