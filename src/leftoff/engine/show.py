"""One run at one version: the whole document that `show` prints, pages of its steps, their graph, their times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from leftoff.clock import iso, millis
from leftoff.engine.approvals import how
from leftoff.engine.find import Target, need_run
from leftoff.engine.quoting import FROM, named, quoted, source_of, word
from leftoff.engine.run_info import LIMITS, RunInfo, health, next_leaf, step_counts
from leftoff.engine.run_reader import PROVED, Reader, need_version, seen_step
from leftoff.model.changes import Version, counts_of
from leftoff.model.codec import text
from leftoff.model.ids import parent_of, quote_part, shown_step, step_word, with_item
from leftoff.model.words import FINISHED, STANDS, STEP_STATUS, in_words
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow

STEP_KEYS = (
    "step", "title", "status", "attempt", "why", "started_at", "completed_at", "outputs", "result", "error",
)  # fmt: skip
_OWN = ("variable", "item", "step", "artifact", "file")  # have their own place in the document
_NO_ORDER = 1 << 40
BEGINNING = 200  # entries of a list, if not all are wanted


# -- the whole document


def document(
    store: SqlStore,
    target: Target,
    now: int,
    limits: tuple[int, int] = LIMITS,
    whole: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the run as listings have it, with its variables, steps, artifacts, files and records at that version.

    ``whole``: of which other collections the values are wanted (``None``: of all). Of the rest the document has only
    the keys, and of long lists only the beginning.
    """
    return store.read(lambda view: _document(store, view, target, (now, *limits), whole))


def _document(
    store: SqlStore, view: View, target: Target, times: tuple[int, int, int], whole: Collection[str] | None
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
    leaves = {path: steps[path].get("status") for path in leaf_steps(steps) if not steps[path].get("allowed")}
    working = (path for word in ("running", "waiting") for path in leaves if leaves[path] == word)
    after = ("pending", "failed") if row.status in STANDS else ("pending",)  # see info.next_leaf
    then = next((path for path in leaves if leaves[path] in after), None)
    records = {
        name: reader.plain(name) if whole is None or name in whole else dict.fromkeys(reader.keys(name))
        for name in reader.collections()
        if name not in _OWN
    }
    about = RunInfo(row, (next(working, None), then, alive)).to_json()
    if bundle := view.fact(f"{FROM} {row.run}"):
        about["why"] = f"imported from {bundle}; {about['why']}"
    return {
        **about,
        "version": version.to_json(),
        "variables": reader.plain("variable") if whole is None else reader.beginnings(BEGINNING),
        "step_records": [step_record(path, steps[path], steps.get(parent_of(path))) for path in ordered],
        "artifacts": [_named("name", key, about) for key, about in reader.plain("artifact").items()],
        "files": [_named("path", key, about) for key, about in reader.plain("file").items()],
        "records": {name: found for name, found in records.items() if found},
    }


def _named(key: str, name: str, about: Any) -> dict[str, Any]:
    return {key: name, **about} if isinstance(about, dict) else {key: name, "value": about}


def in_order(steps: Mapping[str, Any]) -> list[str]:
    """Return step paths as they were declared: by the order of each part of the path."""

    def rank(path: str) -> list[tuple[int, str]]:
        out, at = [], -1
        while True:
            at = path.find("/", at + 1)
            part = path if at < 0 else path[:at]
            if part in steps:  # a folder that is not a step has no place
                order = steps[part].get("order")
                out.append((order if isinstance(order, int) else _NO_ORDER, part))
            if at < 0:
                return out

    return sorted(steps, key=rank)


def inner_steps(paths: Iterable[str]) -> set[str]:
    """Return the paths that have others below them."""
    out: set[str] = set()
    for path in paths:
        while (path := parent_of(path)) and path not in out:
            out.add(path)
    return out


def leaf_steps(steps: Mapping[str, Any]) -> list[str]:
    """Return the paths without others below them, as they were declared."""
    inner = inner_steps(steps)
    return [path for path in in_order(steps) if path not in inner]


def step_record(path: str, record: dict[str, Any], above: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a step as documents have it: the keys that are always there, then the others. ``above``: the record of
    the step that contains it."""
    record = seen_step(record)
    out = {key: record.get(key) for key in STEP_KEYS}
    out["step"] = path
    out["outputs"] = record.get("outputs") or []
    out.update((key, value) for key, value in record.items() if key not in out and key != "order")
    return {"item": None, **(out if "item" in out else with_item(out, path, above=above))}


def as_of(row: RunRow, version: Version, own: dict[str, Any]) -> RunRow:
    """Return the listing's row as it was at an older version. ``own``: the `run` records of that version."""
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


# -- pages of steps

FIRST = ("", "")


class StepsWanted(NamedTuple):
    """Which leaf steps: of these statuses (none: of all), with a text in their path, after a place in their order."""

    status: Sequence[str] = ()
    text: str = ""
    after: tuple[str, str] = FIRST
    limit: int = 50


class StepPage(NamedTuple):
    """Steps in declared order, as documents have them; where the next page begins, if there is one; and how many there
    are of each status."""

    steps: list[dict[str, Any]]
    next: tuple[str, str] | None
    counts: dict[str, int]


def step_page(store: SqlStore, target: Target, wanted: StepsWanted) -> StepPage:
    """Return one page of a run's steps. Only what is on the page is read, except of an older version."""
    work = _page_now if target.version is None else _page_then
    return store.read(lambda view: work(store, view, target, wanted))


def _page_now(store: SqlStore, view: View, target: Target, wanted: StepsWanted) -> StepPage:
    from heapq import merge

    row = view.run_row(target.row.run) or target.row
    words = (wanted.text, quote_part(wanted.text)) if wanted.text else FIRST
    counts = counts_of(row.counts)
    some = [word for word in wanted.status or STEP_STATUS if counts.get(word)]
    found = list(
        merge(*(view.leaf_page(row.run, word, wanted.after, words, wanted.limit + 1) for word in some))
    )
    on_page = found[: wanted.limit]
    reader = Reader(store, view, row.run, row.run_id)
    steps = [
        step_record(path, reader.record("step", path), reader.record("step", parent_of(path)))
        for _, path in on_page
    ]
    return StepPage(steps, on_page[-1] if len(found) > len(on_page) else None, counts)


def _page_then(store: SqlStore, view: View, target: Target, wanted: StepsWanted) -> StepPage:
    """Read an older version whole; its places are numbers."""
    steps = Reader(store, view, target.row.run, target.row.run_id, target.seq).plain("step")
    counts = dict.fromkeys(STEP_STATUS, 0)
    found = []
    for path in leaf_steps(steps):
        status = str(steps[path].get("status"))
        counts[status] = counts.get(status, 0) + 1
        has_text = wanted.text.casefold() in f"{path} {shown_step(path)}".casefold()
        if has_text and (not wanted.status or status in wanted.status):
            found.append(path)
    begin = int(wanted.after[0]) if wanted.after[0].isascii() and wanted.after[0].isdigit() else 0
    end = begin + wanted.limit
    records = [step_record(path, steps[path], steps.get(parent_of(path))) for path in found[begin:end]]
    return StepPage(records, (str(end), "") if len(found) > end else None, counts)


# -- the graph

MOST = 200  # nodes


class GraphNode(NamedTuple):
    """A step in the graph. ``before``: the steps it waits for. ``counts``: its items by status, if it has any."""

    step: str
    title: str
    level: int
    before: list[str]
    status: str
    counts: dict[str, int] = {}


class StepGraph(NamedTuple):
    """The nodes by level and order. ``left_out``: how many more there are."""

    nodes: list[GraphNode]
    left_out: int = 0


def step_graph(store: SqlStore, target: Target) -> StepGraph:
    """Return the steps of a run as a graph. A run without a workflow file has its steps in a row.

    A step with many items is one node with their counts.
    """

    def look(view: View) -> StepGraph:
        row, nodes = target.row, list[GraphNode]()
        reader = Reader(store, view, row.run, row.run_id)
        graph = reader.record("context", "graph")
        if not isinstance(graph.get("batches"), list):
            page = step_page(store, Target(row, None), StepsWanted(limit=MOST))
            for level, record in enumerate(page.steps):
                path, title = record["step"], str(record.get("title") or shown_step(record["step"]))
                before = [nodes[-1].step] if nodes else []
                nodes.append(GraphNode(path, title, level, before, str(record.get("status"))))
            return StepGraph(nodes, max(0, sum(page.counts.values()) - len(nodes)))
        needs = graph["needs"] if isinstance(graph.get("needs"), dict) else {}
        paths = [(str(path), level) for level, batch in enumerate(graph["batches"]) for path in batch]
        for path, level in paths[:MOST]:
            record = reader.record("step", path)
            told = record.get("title")
            title = told if isinstance(told, str) and told else shown_step(path)
            before = [str(each) for each in needs.get(path) or []]
            below = view.leaf_counts(row.run, path) if view.has_below(row.run, path) else {}
            nodes.append(GraphNode(path, title, level, before, str(record.get("status") or "pending"), below))
        return StepGraph(nodes, max(0, len(paths) - MOST))

    return store.read(look)


# -- times


def timing(store: SqlStore, row: RunRow, now: int) -> dict[str, float | None]:
    """Return seconds: ``used`` by steps so far, ``estimated`` for all that have an estimate, ``left`` of it."""
    steps = store.read(lambda view: Reader(store, view, row.run, row.run_id).plain("step"))
    inner = inner_steps(steps)
    used, known = 0.0, []
    for path, record in steps.items():
        if path not in inner:
            took, estimate = 0.0, record.get("estimate")
            began, ended = millis(record.get("started_at")), millis(record.get("completed_at"))
            if record.get("status") == "running" and ended is None:
                ended = now
            if began is not None and ended is not None and record.get("status") != "pending":
                took = max(0.0, ended - began) / 1000
            used += took
            if isinstance(estimate, (int, float)) and not isinstance(estimate, bool):
                known.append((float(estimate), took, record.get("status") in ("completed", "skipped")))
    if not known:
        return {"used": used, "estimated": None, "left": None}
    left = sum(max(0.0, estimate - took) for estimate, took, done in known if not done)
    return {"used": used, "estimated": sum(estimate for estimate, _, _ in known), "left": left}


_SHOWN = 3
_LOOKED_AT = 100  # steps, until one is found that is not the runner's
_RUNNERS = ("run", "python", "agent", "approval", "manual")  # what a step of a workflow does
_TOLD = {
    "running": "in progress",
    "waiting": "waiting for a person",
    "blocked": "blocked",
    "failed": "failed",
}


class NextStep:
    """A step to do, or none; and why."""

    def __init__(
        self, row: RunRow, why: str, step: str | None = None, title: Any = None, instructions: str = ""
    ) -> None:
        self.run_id = row.run_id
        self.source: str | None = None  # where the run came from, if not from here
        self.step = step
        self.title = title if isinstance(title, str) else None
        self.instructions = instructions or None
        self.why = why

    def to_json(self) -> dict[str, Any]:
        out = {name: getattr(self, name) for name in ("step", "title", "instructions", "why", "run_id")}
        return with_item({**out, "source": self.source} if self.source else out, self.step)


def next_step(store: SqlStore, view: View, row: RunRow) -> NextStep:
    """Return what to do now."""
    if row.status in FINISHED:
        found = NextStep(row, f"The run {in_words(row.status)}.")
    else:
        reader = Reader(store, view, row.run, row.run_id)
        leaves = view.leaves(row.run, "waiting", _LOOKED_AT)
        manual = next((path for path in leaves if reader.record("step", path).get("kind") == "manual"), None)
        path = manual or _pending(reader, view, row)
        found = NextStep(row, _why(reader, view, row, path, manual is not None), path)
        if path is not None:
            record, error = reader.record("step", path), reader.record("error", path)
            told = (record.get("instructions"), error.get("resume_with"))
            instructions = "\n".join(text for text in told if isinstance(text, str))
            found = NextStep(row, found.why, path, record.get("title"), instructions)
    found.source = source_of(view, row) or None
    return found


def _pending(reader: Reader, view: View, row: RunRow) -> str | None:
    """Return the first step to be done that is not the runner's."""

    def is_runners(path: str) -> bool:
        record = reader.record("step", path)
        return record.get("kind") in _RUNNERS or "item" in record

    first = next_leaf(view, row)
    if first is None or not is_runners(first):
        return first
    others = view.leaves(row.run, "pending", _LOOKED_AT)
    return next((path for path in others if not is_runners(path)), None)


def _why(reader: Reader, view: View, row: RunRow, path: str | None, waits: bool) -> str:
    counts, listed = step_counts(row), counts_of(row.counts)
    total, done = counts["total"], counts["completed"] + counts["skipped"]
    progress = f"{done} of {total} steps are done"
    if path is not None and waits:
        said = [f"{progress}, and the run is waiting for this one."]
        said.append(f"`leftoff step done {named(step_word(path))}` reports it done.")
    elif path is not None:
        failed = reader.record("step", path).get("status") == "failed"
        what = "this one failed, and runs again first" if failed else "this is the first that is pending"
        said = [f"{progress}, and {what}."]
    elif total == 0:
        said = ["No steps are declared, and none was reported."]
    elif done == total:
        said = [f"All {total} steps are done."]
    elif listed["pending"]:
        said = [f"{progress}. The others are the runner's: `leftoff resume {row.run_id}`."]
    elif total > sum(listed.values()):
        said = [f"{progress}; those that are to come have no names yet."]
    else:
        said = [f"{progress}, and none is pending."]
    if row.status != "running":
        said.append(f"The run {in_words(row.status)}.")
    for status in _TOLD:
        if counts[status]:
            said += _held(reader, view, row, status, path)
    return " ".join(said)


def _held(reader: Reader, view: View, row: RunRow, status: str, offered: str | None) -> list[str]:
    """Say of the steps that are not offered what is the matter with each."""
    paths = [path for path in view.leaves(row.run, status, _SHOWN + 2) if path != offered]
    out = []
    for path in paths[:_SHOWN]:
        asked = _asked(reader, row.run_id, path) if status == "waiting" else ""
        error = reader.record("step", path).get("error")
        message = error.get("message") if isinstance(error, dict) else None
        said = f"{word(shown_step(path))} {in_words(_TOLD[status])}"
        out.append(asked or (f"{said}: {quoted(str(message))}." if message else f"{said}."))
    return [*out, "More are too."] if len(paths) > _SHOWN else out


def _asked(reader: Reader, run_id: str, path: str) -> str:
    """Say what a step wants to have decided, and by which command."""
    about = reader.record("approval", path)
    if not about:
        return ""
    ask = f": {quoted(about['ask'])}" if isinstance(about.get("ask"), str) else ""
    until = f" until {word(about['deadline'])}" if about.get("deadline") else ""
    options = about.get("options")
    chosen = f" ({', '.join(map(word, options))})" if isinstance(options, list) else ""
    command = named(how(run_id, path, options=options))
    return f"{word(shown_step(path))} is waiting for a decision{until}{ask}{chosen} `{command}`."
