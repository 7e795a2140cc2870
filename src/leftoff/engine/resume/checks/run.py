"""Checks of the run itself: its bytes, what it says of its own state, its times, its order, its lease."""

from __future__ import annotations

from leftoff.clock import ago, iso, millis
from leftoff.engine.config.caller import CALLER
from leftoff.engine.read.state import met
from leftoff.engine.resume.finding import WARN, Finding
from leftoff.engine.write.lease import describe, stands_in_the_way, state, unseen
from leftoff.errors import Corrupt, NotFound
from leftoff.model.frozen import marks, place_of
from leftoff.model.ids import shown_step
from leftoff.model.words import ONCE_MORE, REPAIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from leftoff.engine.resume.checks.world import World

DAY_MS = 86_400_000
STALE_MS = 7 * DAY_MS
SLACK_MS = 120_000  # two clocks of one project may differ so much
REQUIRED = ("workflow", "status")
OWN = ("created_at",)  # not every document that a run is imported from says it
_SHOWN = 5
_ALLOW = "If it is not a secret, allow it in leftoff.toml ([redaction] allow) and run the step again."
_DONE = ("completed", "skipped")


def integrity(world: World) -> Iterator[Finding]:
    for code, error in world.damage:
        yield Finding(code, error.message, _hint_of_damage(world), getattr(error, "where", None) or None)
    if world.damage:
        return
    required = REQUIRED if "imported" in world.facts else (*REQUIRED, *OWN)
    missing = [name for name in required if world.facts.get(name) is None]
    if missing:
        names = ", ".join(missing)
        yield Finding("integrity.fields", f"The run's state lacks: {names}.", _hint_of_damage(world), names)


def blobs(world: World) -> Iterator[Finding]:
    """The copies of files that the run has: each is read where every byte is looked at."""
    if not world.deep:
        return
    known = {**world.records.get("file", {}), **world.artifact_records()}
    for path, about in known.items():
        hash = about.get("hash") if isinstance(about, dict) and about.get("captured") else None
        if not isinstance(hash, str):
            continue
        try:
            for _ in world.store.load_blob(bytes.fromhex(hash.partition(":")[2])):
                pass
        except (Corrupt, NotFound) as error:
            message = f"The run's copy of {about.get('path') or path} is damaged or missing: {error.message}"
            yield Finding("integrity.blob", message, _hint_of_damage(world), str(about.get("path") or path))


def _hint_of_damage(world: World) -> str:
    return f"{_back(world)}`leftoff fsck --repair` sets damage aside and says where."


def _back(world: World) -> str:
    whole = world.last_whole()
    if whole is None:
        return "No earlier checkpoint is intact. "
    return f"{whole} is intact: `leftoff resume {whole}` continues from there. "


def incomplete_write(world: World) -> Iterator[Finding]:
    safe, record = world.stated("interruption_safe")
    if safe is False:
        yield Finding(
            "integrity.incomplete_write",
            "The document this run was imported from says that it was cut short while being written "
            "(interruption_safe is false).",
            "Check its last step, then resume with --accept integrity.incomplete_write.",
            clears=record,
        )


def salvaged(world: World) -> Iterator[Finding]:
    about = world.records.get("context", {}).get(REPAIRED)
    if about is None:
        return
    message = about.get("message") if isinstance(about, dict) else None
    yield Finding(
        "integrity.salvaged",
        f"What the run did last may be lost. {message or ''}".rstrip(),
        "Finished steps may run again. Check what it did last, then resume with --accept integrity.salvaged.",
        clears=("context", REPAIRED),
    )


def not_resumable(world: World) -> Iterator[Finding]:
    if world.said("can_resume", "resumable") is not False:
        return
    warnings = world.said("warnings", "recovery_warnings", "resume_warnings") or _errors(world)
    told = "; ".join(map(str, warnings)) if isinstance(warnings, list) else str(warnings)
    message = "The run is marked as not resumable" + (f": {told}." if told else ".")
    yield Finding("recovery.not_resumable", message, "Resume an older checkpoint, or start a new run.")


def _errors(world: World) -> list[str]:
    """The messages of its open errors."""
    found = world.records.get("error", {}).values()
    return [str(error.get("message") if isinstance(error, dict) else error) for error in found]


def times(world: World) -> Iterator[Finding]:
    """Clocks that went wrong: what is recorded must lie in the past, and ends after beginnings."""
    latest = world.now + SLACK_MS
    known = {name: millis(world.facts.get(name)) for name in ("created_at", "updated_at", "last_activity")}
    future = [f"{name} ({iso(when)})" for name, when in known.items() if when is not None and when > latest]
    late, order = _misdated_steps(world, latest)
    future += late
    began, ended = known["created_at"], millis(world.facts.get("completed_at"))
    if began is not None and ended is not None and ended < began:
        order.append(f"the run itself ({iso(ended)}, started {iso(began)})")
    if world.version.at > latest:
        future.append(f"version {world.version.seq} ({iso(world.version.at)})")
    hint = "Was a clock wrong? If everything else is right, resume with --accept {}."
    if future:
        yield Finding(
            "time.future", f"Dated in the future: {_some(future)}.", hint.format("time.future"), future[0]
        )
    if order:
        yield Finding(
            "time.order",
            f"Completed before they started: {_some(order)}.",
            hint.format("time.order"),
            order[0],
        )


def _misdated_steps(world: World, latest: int) -> tuple[list[str], list[str]]:
    """Steps that are dated in the future, and those that ended before they began."""
    future, order = [], []
    now = iso(world.now)
    for path, step in world.steps.open.items():
        started, completed = step.get("started_at"), step.get("completed_at")
        if _in_order(started, completed, now):
            continue
        began, ended = millis(started), millis(completed)
        if max(began or 0, ended or 0) > latest:
            future.append(path)
        if began is not None and ended is not None and ended < began:
            order.append(path)
    return future, order


def _in_order(started: object, completed: object, now: str) -> bool:
    """Whether times that are written alike are seen to be in order by their texts alone, as nearly all are."""
    if completed is None:
        return started is None or (isinstance(started, str) and len(started) == len(now) and started <= now)
    if not isinstance(started, str) or not isinstance(completed, str):
        return False
    return len(started) == len(completed) == len(now) and started <= completed <= now


def age(world: World) -> Iterator[Finding]:
    last = last_activity(world)
    if world.now - last > STALE_MS:
        yield Finding(
            "age.stale",
            f"The last activity was {ago(last, world.now, words=True)}, on {iso(last)[:10]}.",
            "Is it still relevant? --accept age.stale resumes it; `leftoff run --fresh` or `start` begins a new run.",
        )


def last_activity(world: World) -> int:
    """As the run, or the document that it came from, states it; else its last commit."""
    stated = [millis(world.said(name)) for name in ("last_activity", "last_updated", "last_heartbeat")]
    known = [when for when in stated if when is not None]
    beat = world.lease.beat if world.lease is not None and world.lease.beat is not None else 0
    return max(known) if known else max(world.version.at, beat if world.is_head else 0)


def progress(world: World) -> Iterator[Finding]:
    """A step that is completed though what it needs is not; a phase that was passed over."""
    wrong = [*_before_needs(world), *_phases_skipped(world)]
    if wrong:
        yield Finding(
            "progress.illegal",
            f"These steps are out of order: {_some(wrong)}.",
            "Check them (`leftoff show --steps`). --from-step STEP runs one and the later ones again; "
            "--accept progress.illegal resumes anyway.",
            wrong[0].partition(" ")[0],
        )


def _before_needs(world: World) -> Iterator[str]:
    graph = world.records.get("context", {}).get("graph")
    needs = graph.get("needs") if isinstance(graph, dict) else None
    for path, wanted in needs.items() if isinstance(needs, dict) else ():
        if world.steps.status(path) != "completed" or not isinstance(wanted, list):
            continue
        for other in wanted:
            undone = world.steps.status(other) in ("pending", "running", "waiting", "blocked")
            if undone and ONCE_MORE not in world.steps[other]:
                yield f"{shown_step(path)} is completed before {shown_step(other)}, which it needs"


def _phases_skipped(world: World) -> Iterator[str]:
    """Phases follow one another, unless a graph says otherwise: none is begun while one before it is untouched."""
    if isinstance(world.records.get("context", {}).get("graph"), dict):
        return
    if not any(
        step.get("kind") == "phase" and step.get("status") == "pending" for step in world.steps.open.values()
    ):
        return
    phases = [path for path, step in world.steps.items() if step.get("kind") == "phase" and "/" not in path]
    phases.sort(key=lambda path: world.steps[path].get("order", 0))
    begun = [world.steps[path].get("status") in (*_DONE, "running") for path in phases]
    for index, path in enumerate(phases):
        untouched = world.steps[path].get("status") == "pending" and ONCE_MORE not in world.steps[path]
        if untouched and any(begun[index + 1 :]):
            yield f"{shown_step(path)} was passed over"


def lease(world: World) -> Iterator[Finding]:
    """Somebody drives it; or did, cannot be seen from here, and has been silent for long."""
    if world.lease is None or not world.lease.held:
        return
    who = describe(world.lease)
    if stands_in_the_way(world.lease, world.now, world.session):
        hint = unseen(world.lease, world.now) or f"Wait for it, or stop it: `leftoff stop {world.run_id}`."
        yield Finding("lease.held", f"Run {world.run_id} is driven by {who}.", hint, world.run_id)
    elif world.lease.kind == "process" and state(world.lease, world.now) == "silent":
        message = f"Run {world.run_id} was driven by {who}, which cannot be seen from here."
        hint = "If it is gone, --accept lease.silent (or --yes) takes the run over."
        yield Finding("lease.silent", message, hint, world.run_id)


def criteria(world: World) -> Iterator[Finding]:
    if world.facts.get("status") != "completed":
        return
    unmet = [name for name, about in world.records.get("criterion", {}).items() if met(about) is False]
    if not unmet:
        return
    steps = [
        about["step"]
        for name, about in world.records["criterion"].items()
        if name in unmet and isinstance(about, dict) and isinstance(about.get("step"), str)
    ]
    could = f" These steps could meet them: {_some([*map(shown_step, dict.fromkeys(steps or world.leaves()))], ', ')}."
    yield Finding(
        "criteria.unmet",
        f"The run is completed, but these criteria are not met: {_some(unmet)}.{could}",
        f"`leftoff resume {world.run_id} --only STEP` runs a step again.",
        unmet[0],
        level=WARN,
    )


def blocked(world: World) -> Iterator[Finding]:
    """Also of a run that was paused while it was: that resolves nothing."""
    status = world.facts.get("status")
    paused = status == "paused" and any(step.get("status") == "blocked" for step in world.steps.open.values())
    if status != "blocked" and not paused:
        return
    told, errors = [], world.records.get("error", {})
    for path, error in errors.items():
        message = error.get("message") if isinstance(error, dict) else error
        told.append(f"{shown_step(path)}: {message}")
    yield Finding(
        "blocked.errors",
        f"The run is blocked: {_some(told)}." if told else "The run is blocked.",
        f"Once it is resolved: `leftoff unblock {world.run_id}`. "
        "--accept blocked.errors runs what does not depend on it.",
        next(iter(errors), None),
        choices=("clear them", "go on without", "stop"),
    )


def prerequisites(world: World) -> Iterator[Finding]:
    met, record = world.stated("prerequisites_met")
    if met is False:
        yield Finding(
            "prerequisite.missing",
            "The document this run was imported from says that its prerequisites are not met.",
            "Provide them, then resume with --accept prerequisite.missing.",
            clears=record,
        )


def redacted(world: World, given: Collection[str]) -> Iterator[Finding]:
    """Secret variables of a run that somebody reports on, which are neither given again nor in the environment."""
    for name in world.redacted:
        if name not in given and not CALLER.has(name):
            message = f"The variable {name} is a secret and was not stored."
            hint = f"Give it again: --var {name}=…, or {name} in the environment; "
            hint += "--accept variables.redacted resumes without it."
            yield Finding("variables.redacted", message, hint, name)


def results(world: World) -> Iterator[Finding]:
    """Results of finished steps that were stored without what looked like a secret."""
    found = {}
    for path in world.redacted_steps:
        record = world.steps[path]
        holes = marks(record.get("result")) if record.get("status") == "completed" else []
        if holes:
            found[path] = [place_of(hole).lstrip(".") for hole in holes]
    for path in list(found)[:_SHOWN]:
        what = _some([place or "all of it" for place in found[path]], ", ")
        message = (
            f"The result of step {shown_step(path)} was stored without what looked like a secret: {what}."
        )
        yield Finding("result.redacted", f"{message} Reading it raises Redacted.", _ALLOW, path)
    if len(found) > _SHOWN:
        message = f"So were the results of {len(found) - _SHOWN} more steps."
        yield Finding("result.redacted", message, _ALLOW, list(found)[_SHOWN])


def _some(words: list[str], between: str = "; ") -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return between.join(words[:_SHOWN]) + more
