"""Steps of a run by the page: however many there are, only those that are shown are read."""

from __future__ import annotations

from heapq import merge

from leftoff.engine.read.show import in_order, inner_steps, step_record
from leftoff.engine.read.state import Reader
from leftoff.model.fields import Fields
from leftoff.model.ids import parent_of, quote_part, shown_step
from leftoff.model.versions import counts_of
from leftoff.model.words import STEP_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.store.base import Store, View

FIRST = ("", "")


class StepsWanted(Fields):
    """Which leaf steps: of these statuses (none: of all), with a text in their path, behind a place in their order."""

    status: Sequence[str] = ()
    text: str = ""
    after: tuple[str, str] = FIRST
    limit: int = 50


class StepPage(Fields):
    """Steps in declared order, as documents have them; where the next page begins, if there is one; and how many there
    are of each status."""

    steps: list[dict[str, Any]]
    next: tuple[str, str] | None
    counts: dict[str, int]


def step_page(store: Store, target: Target, wanted: StepsWanted) -> StepPage:
    """One page of a run's steps, as they are or as they were at a version."""
    if target.version is None:
        return store.read(lambda view: _now(store, view, target, wanted))
    return store.read(lambda view: _then(store, view, target, wanted))


def _now(store: Store, view: View, target: Target, wanted: StepsWanted) -> StepPage:
    row = view.run_row(target.row.run) or target.row
    words = (wanted.text, quote_part(wanted.text)) if wanted.text else FIRST
    counts = counts_of(row.counts)
    some = [word for word in wanted.status or STEP_STATUS if counts.get(word)]
    pages = [view.leaf_page(row.run, word, wanted.after, words, wanted.limit + 1) for word in some]
    found = list(merge(*pages))
    shown = found[: wanted.limit]
    reader = Reader(store, view, row.run, row.run_id)
    steps = [step_record(path, _record(reader, path), _record(reader, parent_of(path))) for _, path in shown]
    return StepPage(steps, shown[-1] if len(found) > len(shown) else None, counts)


def _record(reader: Reader, path: str) -> dict[str, Any]:
    found = reader.value("step", path)
    return dict(found.plain) if found is not None else {}


def _then(store: Store, view: View, target: Target, wanted: StepsWanted) -> StepPage:
    """A version is read whole; its places are numbers."""
    row = target.row
    steps = Reader(store, view, row.run, row.run_id, target.seq).plain("step")
    inner = inner_steps(steps)
    leaves = [path for path in in_order(steps) if path not in inner]
    counts = dict.fromkeys(STEP_STATUS, 0)
    for path in leaves:
        status = str(steps[path].get("status"))
        counts[status] = counts.get(status, 0) + 1
    found = [
        path
        for path in leaves
        if (not wanted.status or steps[path].get("status") in wanted.status)
        and wanted.text.casefold() in f"{path} {shown_step(path)}".casefold()
    ]
    begin = int(wanted.after[0]) if wanted.after[0].isascii() and wanted.after[0].isdigit() else 0
    shown, end = found[begin : begin + wanted.limit], begin + wanted.limit
    records = [step_record(path, steps[path], steps.get(parent_of(path))) for path in shown]
    return StepPage(records, (str(end), "") if len(found) > end else None, counts)
