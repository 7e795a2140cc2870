"""What differs between two states, told by variable, step, artifact and file."""

from __future__ import annotations

from leftoff.engine.read.state import Reader, seen_step
from leftoff.model.values import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from leftoff.store.base import Store, View

SECTIONS = {"variables": "variable", "steps": "step", "artifacts": "artifact", "files": "file"}
_FILES = ("artifact", "file")


class Changed:
    """One entry that is there on both sides."""

    def __init__(self, old: Any, new: Any) -> None:
        self.old = old
        self.new = new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Changed) and (self.old, self.new) == (other.old, other.new)

    def __hash__(self) -> int:
        return hash((repr(self.old), repr(self.new)))

    def __repr__(self) -> str:
        return f"{self.old!r} → {self.new!r}"


class Section:
    """One kind of entry: what was added, removed, changed."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any], moved: set[str]) -> None:
        self.added = {key: new[key] for key in new if key not in old}
        self.removed = {key: old[key] for key in old if key not in new}
        self.changed = {key: Changed(old[key], new[key]) for key in new if key in old and key in moved}

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        changed = {key: {"from": entry.old, "to": entry.new} for key, entry in self.changed.items()}
        return {"added": self.added, "removed": self.removed, "changed": changed}

    def __repr__(self) -> str:
        return f"<added {self.added}, removed {self.removed}, changed {self.changed}>"


class Diff:
    """Two versions compared; ``records`` has every other collection that differs."""

    def __init__(self, sections: dict[str, Section], records: dict[str, Section]) -> None:
        self.variables = sections["variables"]
        self.steps = sections["steps"]
        self.artifacts = sections["artifacts"]
        self.files = sections["files"]
        self.records = records

    def only(self, paths: Collection[str]) -> Diff:
        """Of these files, or what lies in these folders."""

        def within(section: Section) -> Section:
            out = Section({}, {}, set())
            for name in ("added", "removed", "changed"):
                found = getattr(section, name)
                setattr(out, name, {key: each for key, each in found.items() if _named(key, each, paths)})
            return out

        none = Section({}, {}, set())
        files = {"artifacts": within(self.artifacts), "files": within(self.files)}
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


def _named(key: str, entry: Any, paths: Collection[str]) -> bool:
    about = entry.new if isinstance(entry, Changed) else entry
    path = str(about.get("path") or key) if isinstance(about, dict) else key
    return is_among(path, paths)


def is_among(path: str, paths: Collection[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    return any(path == each or each in ("", ".") or path.startswith(f"{each}/") for each in paths)


def file_records(store: Store, run: int, run_id: str, seq: int) -> dict[str, Any]:
    """What a version knows of files, tracked ones and artifacts, by path."""

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


def diff(store: Store, old: tuple[int, str, int], new: tuple[int, str, int]) -> Diff:
    """Compare two versions, each given as run number, run id and seq."""

    def work(view: View) -> Diff:
        return compare(Reader(store, view, *old), Reader(store, view, *new))

    return store.read(work)


def compare(old: Reader, new: Reader) -> Diff:
    collections = set(old.collections()) | set(new.collections()) | set(SECTIONS.values())
    sections = {name: _section(old, new, word) for name, word in SECTIONS.items()}
    others = sorted(collections - set(SECTIONS.values()) - {"item"})
    return Diff(sections, {word: section for word in others if (section := _section(old, new, word))})


def _section(old: Reader, new: Reader, collection: str) -> Section:
    """Hashes first: only what differs is decoded."""
    before, after = old.raw(collection), new.raw(collection)
    if collection == "variable":
        # A spread variable's head stays the same while its items change: compare values.
        left, right = _values(old), _values(new)
        moved = {k for k in right if k in left and not same(left[k], right[k])}
        return Section(_seen(left, right), _seen(right, left), moved)
    moved = {k for k, r in after.items() if k in before and before[k].hash != r.hash}
    gone = {k for k in before if k not in after}
    come = {k for k in after if k not in before}
    if not (moved or gone or come):
        return Section({}, {}, set())
    left = {k: v for k, v in old.plain(collection).items() if k in moved or k in gone}
    right = {k: v for k, v in new.plain(collection).items() if k in moved or k in come}
    if collection == "step":
        left, right = (
            {k: _without(seen_step(record), "cache") for k, record in side.items()} for side in (left, right)
        )
    if collection in _FILES:
        moved = {
            k
            for k in moved
            if not same(*(_without(about, "seen", "captured_at") for about in (left[k], right[k])))
        }
        left, right = ({k: _without(about, "seen") for k, about in side.items()} for side in (left, right))
    return Section(left, right, moved)


def _values(reader: Reader) -> dict[str, Any]:
    return {key: value.plain for key, value in reader.values("variable").items()}


def _seen(these: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """As people see them, unless that would hide what changed: a list that became a tuple."""
    out = {key: readable(value) for key, value in these.items()}
    alike = (key for key in out if key in others and same(out[key], readable(others[key])))
    return {**out, **{key: these[key] for key in alike}}


def _without(about: Any, *names: str) -> Any:
    """A record without what says nothing to people: what this machine's file system said of a file, when it was looked
    at, by what a later run knows that nothing changed."""
    return {k: v for k, v in about.items() if k not in names} if isinstance(about, dict) else about


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values, 0.0 and -0.0 two."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and (type(left) is not float or repr(left) == repr(right))
