"""The model: runs as plain dictionaries, one per version, and handles with what they have buffered.

Nothing here knows how leftoff does it. A version is a whole copy of the state; a commit is a loop over changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import leftoff
from tests.model.encoding import Address, Json, State, digest, section

UNFINISHED = ("running", "paused", "blocked", "failed")
Seal = tuple[str, str | None, str | None]  # trigger, step, note


class Version:
    """One kept version of a run."""

    def __init__(self, seq: int, state: State, seal: Seal | None) -> None:
        self.seq = seq
        self.state = dict(state)  # an object of its own: two versions may be equal
        self.digest = digest(state)
        self.seal = seal  # trigger, step, note


class Run:
    """A run: every version that can still be read, by number."""

    def __init__(self, run_id: str) -> None:
        self.id = run_id
        self.versions: dict[int, Version] = {}
        self.newest = 0
        self.epoch = 1
        self.held = True

    @property
    def head(self) -> Version:
        return self.versions[self.newest]

    @property
    def state(self) -> State:
        return self.head.state

    @property
    def status(self) -> str:
        return str(self.state["run", "status"].value)

    def add(self, state: State, seal: Seal | None = None) -> Version:
        self.newest += 1
        self.versions[self.newest] = Version(self.newest, state, seal)
        return self.head

    def prune(self, drop: set[int]) -> None:
        """Forget the named checkpoints and every unsealed version, the head excepted."""
        for seq, version in list(self.versions.items()):
            if seq != self.newest and (seq in drop or version.seal is None):
                del self.versions[seq]

    def take(self) -> int:
        """The epoch of whoever drives it from now on (this process may already)."""
        if not self.held:
            self.epoch += 1
            self.held = True
        return self.epoch


class Pending:
    """A buffered change: put (a value), delete (none), or append (entries)."""

    def __init__(self, value: Json | None = None, entries: list[Any] | None = None) -> None:
        self.value = value
        self.entries = entries

    def onto(self, old: Json | None) -> Json | None:
        """What the record becomes; ``TypeError`` where there is no list to append to."""
        if self.entries is None:
            return self.value
        if old is None:
            return Json(self.entries)
        if not isinstance(old.value, list):
            raise TypeError("not a list")
        return Json([*old.value, *self.entries])


def with_changes(state: State, changes: dict[Address, Pending]) -> State:
    out = dict(state)
    for address, change in changes.items():
        value = change.onto(out.get(address))
        if value is None:
            out.pop(address, None)
        else:
            out[address] = value
    return out


class Handle:
    """A driven run as one object sees it: a version, and what it has buffered on top."""

    def __init__(self, run: Run, real: leftoff.Run, epoch: int) -> None:
        self.run = run
        self.real = real
        self.epoch = epoch
        self.views = [run.state]  # two where its version was pruned: it may see that one still, or the newest
        self.pending: dict[Address, Pending] = {}
        self.open: list[str] = []  # steps entered and not left
        self.sealed: list[tuple[Seal, State]] = []  # checkpoints that the present operation must have made
        self.orders: dict[str, int] = {}  # of steps made in this operation, as leftoff chose them

    @property
    def view(self) -> State:
        assert 1 == len(self.views)
        return self.views[0]

    @property
    def stale(self) -> bool:
        return self.epoch != self.run.epoch

    def put(self, collection: str, key: str, value: Any, content: bytes | None = None) -> None:
        self.pending[collection, key] = Pending(Json(value, content))

    def delete(self, collection: str, key: str) -> None:
        self.pending[collection, key] = Pending()

    def append(self, name: str, entry: Any) -> None:
        there = self.pending.get(("variable", name))
        if there is None:
            self.pending["variable", name] = Pending(entries=[entry])
        elif there.entries is not None:
            there.entries.append(entry)
        else:
            self.pending["variable", name] = Pending(
                Json([*(there.value.value if there.value else []), entry])
            )

    def visible(self, view: State) -> dict[str, Json]:
        """The variables that it shows: the version's, under what is buffered."""
        own = {address: change for address, change in self.pending.items() if address[0] == "variable"}
        return section(with_changes(view, own), "variable")

    def shown(self, collection: str) -> dict[str, Json]:
        """Any other collection, in the same way."""
        own = {address: change for address, change in self.pending.items() if address[0] == collection}
        return section(with_changes(self.view, own), collection)

    def commit(self, seal: Seal | None = None) -> Version | None:
        """The next version of the run; ``None`` where nothing differs."""
        state = with_changes(self.run.state, self.pending)
        version = None
        if seal is not None or state != self.run.state:
            version = self.run.add(state, seal)
        self.pending = {}
        self.views = [self.run.state]
        return version

    # -- steps. Their starts may be committed or not, so only the checkpoints that they make are foretold

    def seal(self, seal: Seal) -> None:
        """A checkpoint that must follow from all that is buffered."""
        before = self.sealed[-1][1] if self.sealed else self.run.state
        state = with_changes(before, self.pending)
        self.sealed.append((seal, state))
        self.pending = {}
        self.views = [state]

    def step(self, path: str) -> dict[str, Any] | None:
        found = self.shown("step").get(path)
        return found.value if found is not None else None

    def done(self, path: str) -> bool:
        record = self.step(path)
        return record is not None and record["status"] in ("completed", "skipped")

    def put_step(self, path: str, *drop: str, **facts: Any) -> None:
        old = self.step(path)
        if old is None:
            old = {"order": self.orders[path]}
        self.report_step(path, {k: v for k, v in {**old, **facts}.items() if k not in drop})

    def report_step(self, path: str, record: dict[str, Any]) -> None:
        """A step's record, the error beside it, and whether the run is blocked."""
        before = (self.step(path) or {}).get("status")
        self.put("step", path, record)
        status, error = record["status"], record.get("error")
        if status in ("failed", "blocked") and error is not None:
            about = {
                "step": path,
                "status": status,
                "at": record["completed_at"],
                "attempt": record["attempt"],
            }
            self.put("error", path, {**about, **error})
        elif status in ("completed", "skipped"):
            self.delete("error", path)
        if (before == "blocked") != (status == "blocked"):
            self.block_run()

    def block_run(self) -> None:
        own = {address: change for address, change in self.pending.items() if address[0] == "run"}
        status = with_changes(self.run.state, own)["run", "status"].value
        blocked = any(step.value["status"] == "blocked" for step in self.shown("step").values())
        if blocked and status in ("running", "failed"):
            self.put("run", "status", "blocked")
        elif not blocked and status == "blocked":
            self.put("run", "status", "running")

    def enter(self, path: str, now: str) -> None:
        before = self.step(path) or {}
        attempt, why = before.get("attempt", 0) + 1, why_again(before) or "first run"
        gone = ("completed_at", "error", "interrupted_at", "outputs", "result", "digest", "code")
        self.put_step(path, *gone, status="running", attempt=attempt, started_at=now, why=why)
        self.open.append(path)

    def complete(self, path: str, now: str, **result: Any) -> None:
        self.put_step(path, status="completed", completed_at=now, **result)
        self.seal(("step_complete", path, None))
        self.open.remove(path)

    def fail(self, path: str, error: BaseException, now: str) -> None:
        self.open.remove(path)
        if isinstance(error, Exception):
            told = {"type": type(error).__name__, "message": str(error)}
            self.put_step(path, status="failed", completed_at=now, error=told)
            self.seal(("error", path, told["message"]))
        else:
            why = f"attempt {(self.step(path) or {})['attempt']} was cut off"
            self.put_step(path, status="pending", interrupted_at=now, why=why)
            self.seal(("user_interrupt", path, None))

    @contextmanager
    def inside(self, path: str, now: str) -> Iterator[None]:
        """What ``with run.step(path)`` must do."""
        self.enter(path, now)
        try:
            yield
        except BaseException as error:
            self.fail(path, error, now)
            raise
        self.complete(path, now)

    def settle(self, status: str, now: str, seal: Seal | None = None) -> None:
        """The end of driving: the run's status, and the lease freed."""
        self.put("run", "status", status)
        if status in UNFINISHED:
            self.delete("run", "completed_at")
        else:
            self.put("run", "completed_at", now)
        self.commit(seal)
        self.run.held = False


def why_again(record: dict[str, Any]) -> str | None:
    """Why a step is tried again."""
    status, attempt = record.get("status"), record.get("attempt")
    if status == "pending" and "why" in record:
        return str(record["why"])
    if not attempt:
        return None
    if status in ("completed", "skipped"):
        return f"attempt {attempt} was {status}, and you asked for another one"
    words = {"running": "was cut off", "blocked": "was blocked", "waiting": "waited"}
    return f"attempt {attempt} {words.get(str(status), 'failed')}"


def put_back(record: dict[str, Any]) -> dict[str, Any]:
    """A step that is to be done again, because its last try did not end well."""
    out, why = {**record, "status": "pending"}, why_again(record)
    return {**out, "why": why} if why else {word: fact for word, fact in out.items() if word != "why"}


def opened(workflow: str, steps: list[str], variables: dict[str, Any], now: str, why: str) -> State:
    """The state of a run that has just been started."""
    program = os.path.basename(sys.argv[0])
    if program in ("", "-c", "-m"):
        program = "python"
    facts = {
        "workflow": workflow,
        "branch": "main",
        "status": "running",
        "created_at": now,
        "program": program,
        "why": why,
    }
    state: State = {("run", key): Json(value) for key, value in facts.items()}
    for order, path in enumerate(steps):
        state["step", path] = Json({"status": "pending", "order": order})
    for name, value in variables.items():
        state["variable", name] = Json(value)
    return state


LEFT_BEHIND = [("run", "completed_at"), ("run", "summary"), ("run", "why_again")]


def forked(source: Run, version: Version, branch: str, now: str, variables: dict[str, Any]) -> State:
    """The first state of a fork: what was in flight is to be done again."""
    state = {a: v for a, v in version.state.items() if a not in LEFT_BEHIND}
    parent = f"{source.id}@{version.seq}"
    own = {"branch": branch, "status": "running", "created_at": now, "parent": parent}
    own["why"] = f"forked from {parent}"
    for key, value in own.items():
        state["run", key] = Json(value)
    for (collection, key), record in list(state.items()):
        if collection == "step" and record.value["status"] == "running":
            state[collection, key] = Json(put_back(record.value))
    for name, value in variables.items():
        state["variable", name] = Json(value)
    return state


def is_blocked(state: State) -> bool:
    """Return whether a program must accept that a step is blocked before the run continues."""
    status = state["run", "status"].value
    paused = status == "paused" and any(
        record.value["status"] == "blocked"
        for (collection, _), record in state.items()
        if collection == "step"
    )
    return status == "blocked" or paused


def resumed(state: State) -> State:
    """A run that goes on: running, and what was in flight or failed is to be done."""
    out = dict(state)
    status = out["run", "status"].value
    before = {"running": "was interrupted", "failed": "had failed"}.get(status, f"was {status}")
    out["run", "why_again"] = Json(f"continued: it {before}")
    if status != "running":
        out["run", "status"] = Json("running")
        out.pop(("run", "completed_at"), None)
    for (collection, key), record in state.items():
        if collection == "step" and record.value["status"] in ("running", "failed"):
            kept = {word: fact for word, fact in record.value.items() if word != "completed_at"}
            out[collection, key] = Json(put_back(kept))
    return out
