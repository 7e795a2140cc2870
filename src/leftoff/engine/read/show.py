"""One run at one version, whole: what `show` prints, and whoever wants to look at everything at once."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.read.info import LIMITS, Listing, RunInfo, health
from leftoff.engine.read.state import PROVED, Reader, need_version, seen_step
from leftoff.engine.write.head import need_run
from leftoff.model.codec import text
from leftoff.model.ids import parent_of, with_item
from leftoff.model.words import STANDS
from leftoff.store.rows import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View

STEP_KEYS = (
    "step",
    "title",
    "status",
    "attempt",
    "started_at",
    "completed_at",
    "outputs",
    "result",
    "error",
)
_OWN = ("variable", "item", "step", "artifact", "file")  # have a place of their own in the document
_NO_ORDER = 1 << 40
BEGINNING = 200  # entries of a list, where not all is wanted


class _Then(Listing):
    """What a listing would have said of one run at one version."""

    def __init__(self, known: tuple[str | None, str | None, str]) -> None:
        super().__init__(None, [], 0)
        self._known = known

    def of(self, row: RunRow) -> tuple[str | None, str | None, str]:
        return self._known


def document(
    store: Store,
    target: Target,
    now: int,
    limits: tuple[int, int] = LIMITS,
    whole: Collection[str] | None = None,
) -> dict[str, Any]:
    """The run as its listing has it, then its variables, steps, artifacts, files and records, all at that version.

    ``whole``: of which other collections the values are wanted (``None``: of all); of the rest there are only the
    keys, and of long lists only how they begin.
    """
    return store.read(lambda view: _document(store, view, target, (now, *limits), whole))


def _document(
    store: Store, view: View, target: Target, times: tuple[int, int, int], whole: Collection[str] | None
) -> dict[str, Any]:
    row = need_run(view, target.row.run, target.row.run_id)
    seq = row.seq if target.version is None else target.version.seq
    version = need_version(view, row.run, row.run_id, seq)
    if seq == row.seq:
        view.prove(row, PROVED)
    reader = Reader(store, view, row.run, row.run_id, seq)
    steps = reader.plain("step")
    ordered = in_order(steps)
    alive = health(row, view.lease(row.run), *times)
    if seq != row.seq:
        row = as_of(row, version, reader.plain("run"))
    inner = inner_steps(steps)
    leaves = [path for path in ordered if path not in inner]
    after = ("pending", "failed") if row.status in STANDS else ("pending",)  # see info.next_leaf
    then = next((path for path in leaves if steps[path].get("status") in after), None)
    known = _first(leaves, steps, "running", "waiting"), then, alive
    info = RunInfo(row, _Then(known))
    return {
        **info.to_json(),
        "version": version.to_json(),
        "variables": reader.plain("variable") if whole is None else reader.beginnings(BEGINNING),
        "step_records": [step_record(path, steps[path], steps.get(parent_of(path))) for path in ordered],
        "artifacts": [_named("name", key, about) for key, about in reader.plain("artifact").items()],
        "files": [_named("path", key, about) for key, about in reader.plain("file").items()],
        "records": _others(reader, whole),
    }


def in_order(steps: Mapping[str, Any]) -> list[str]:
    """Step paths as they were declared: by the order of each part of the path."""

    def rank(path: str) -> list[tuple[int, str]]:
        out, at = [], -1
        while True:
            at = path.find("/", at + 1)
            part = path if at < 0 else path[:at]
            if part in steps:  # what is no step of its own takes no place either
                order = steps[part].get("order")
                out.append((order if isinstance(order, int) else _NO_ORDER, part))
            if at < 0:
                return out

    return sorted(steps, key=rank)


def step_record(path: str, record: dict[str, Any], above: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A step as documents have it: the keys that are always there, then whatever else is known of it. ``above``: the
    record of the step that contains it."""
    record = seen_step(record)
    out = {key: record.get(key) for key in STEP_KEYS}
    out["step"] = path
    out["outputs"] = record.get("outputs") or []
    out.update((key, value) for key, value in record.items() if key not in out and key != "order")
    return out if "item" in out else with_item(out, path, above=above)


def as_of(row: RunRow, version: Version, own: dict[str, Any]) -> RunRow:
    """The listing's row as it was at an older version."""
    card = {"created_at": iso(row.created_at), **own}
    issue = card.pop("issue", None)
    columns = (
        row.run,
        row.run_id,
        row.n,
        version.seq,
        version.digest,
        version.counts,
        version.at,
        row.created_at,
        card.pop("workflow", row.workflow),
        card.pop("branch", row.branch),
        card.pop("status", row.status),
        card.pop("title", None),
        None if issue is None else str(issue),
        card.pop("session_id", None),
        text(card),
        row.hidden,
        version.checkpoint,
    )
    return RunRow(columns)


def inner_steps(paths: Iterable[str]) -> set[str]:
    """The paths that have others below them."""
    out: set[str] = set()
    for path in paths:
        while (path := parent_of(path)) and path not in out:
            out.add(path)
    return out


def _first(paths: Iterable[str], steps: dict[str, Any], *words: str) -> str | None:
    for word in words:
        for path in paths:
            if steps[path].get("status") == word:
                return path
    return None


def _named(key: str, name: str, about: Any) -> dict[str, Any]:
    return {key: name, **about} if isinstance(about, dict) else {key: name, "value": about}


def _others(reader: Reader, whole: Collection[str] | None) -> dict[str, dict[str, Any]]:
    found = {
        name: reader.plain(name) if whole is None or name in whole else dict.fromkeys(reader.keys(name))
        for name in reader.collections()
        if name not in _OWN
    }
    return {name: records for name, records in found.items() if records}
