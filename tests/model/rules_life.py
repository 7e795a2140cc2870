"""Rules about the life of runs: steps, fork, rollback, resume, the end; prune, reopen, crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from leftoff.errors import CannotResume, LeaseHeld, StaleEpoch, StepDone
from tests.model import values, world
from tests.model.encoding import NO_ARGUMENTS, Json, canon
from tests.model.machine import Ground, abandon, picks

paths = st.sampled_from(values.STEPS)
driven = precondition(lambda self: self.handles)
some = precondition(lambda self: self.runs)
MOST_RUNS = 4


class Boom(Exception):
    """What a step of the tests fails with."""


class LifeRules(Ground):
    """Start, fork, roll back, resume, pause, finish, prune, remove, close, crash."""

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(
        steps=st.lists(paths, unique=True, max_size=4),
        value=values.values,
        workflow=st.sampled_from(["w", "v"]),
    )
    def start(self, steps: list[str], value: Any, workflow: str) -> None:
        self.tick()
        variables = {"x": value}
        real = self.store.start(workflow, steps=steps, variables=variables)
        run = world.Run(real.id)
        why = next(info for info in self.store.list() if info.run_id == real.id).to_json()["why"]
        assert why == "first run" or any(why.startswith(f"a new run: {other.id} ") for other in self.runs)
        run.add(world.opened(workflow, steps, variables, self.now, why))
        self.runs.append(run)
        self.check_handle(self.adopt(run, real, 1))

    @precondition(lambda self: self.handles and len(self.runs) < MOST_RUNS)
    @rule(
        pick=picks,
        at=picks,
        head=st.booleans(),
        extra=st.dictionaries(st.sampled_from(["x", "y"]), values.values, max_size=1),
    )
    def fork(self, pick: int, at: int, head: bool, extra: dict[str, Any]) -> None:
        handle = self.handle_at(pick)
        version = None if head else self.version_at(handle.run, at)
        if not self.settle_buffer(handle):
            return
        ref = None if version is None else version.seq
        real = handle.real.fork(branch="other", ref=ref, **extra)
        run = world.Run(real.id)
        source = version or handle.run.head
        state = world.forked(handle.run, source, "other", self.now, extra)
        run.add(state, ("manual", None, f"fork of {handle.run.id}@{source.seq}"))
        self.runs.append(run)
        self.check_handle(self.adopt(run, real, 1))

    @driven
    @rule(pick=picks, at=picks)
    def rollback(self, pick: int, at: int) -> None:
        handle = self.handle_at(pick)
        version = self.version_at(handle.run, at)
        if not self.settle_buffer(handle):
            return
        if handle.stale:
            with pytest.raises(StaleEpoch):
                handle.real.rollback(version.seq)
            self.forget(handle)
            return
        found = handle.real.rollback(version.seq)
        assert self.rolled_back(handle.run, version).digest == found.digest
        handle.views = [handle.run.state]
        self.check_handle(handle)

    def rolled_back(self, run: world.Run, version: world.Version) -> world.Version:
        """Where a run that rests is there already, nothing is put back. Else the present is sealed if it was not, and a
        version comes that is equal to the old one. Then it is driven."""
        made = version
        if version.seq != run.newest or run.status == "running":
            if run.head.seal is None:
                run.add({**run.state}, ("manual", None, "before a rollback"))  # another version, though equal
            name = self.store.get(run.id).at(version.seq).version.id or f"version {version.seq}"
            note = f" ({version.seal[2]})" if version.seal and version.seal[2] else ""
            made = run.add(version.state, ("rollback", None, f"back to {name}{note}"))
        if run.status != "running":
            running = {**run.state, ("run", "status"): Json("running")}
            running.pop(("run", "completed_at"), None)
            run.add(running)
        return made

    @some
    @rule(pick=picks, at=picks, exact=st.booleans())
    def resume(self, pick: int, at: int, exact: bool) -> None:
        """A handle more on the run: a second one where there is one, at an older version where one is named."""
        self.tick()
        run = self.run_at(pick)
        version = self.version_at(run, at) if exact else None
        if version is None and run.status not in world.UNFINISHED:
            with pytest.raises(CannotResume):
                self.store.resume(run.id)
            return
        ref = run.id if version is None else f"{run.id}@{version.seq}"
        accept = []
        if world.is_blocked((version or run.head).state):
            with pytest.raises(CannotResume):
                self.store.resume(ref)
            accept = ["blocked.errors"]
        real = self.store.resume(ref, accept=accept)
        handle = self.adopt(run, real, run.take())
        if version is not None and version is not run.head:
            self.rolled_back(run, version)
        state = world.resumed(run.state)
        if state != run.state:
            run.add(state)
        handle.views = [run.state]
        self.check_handle(handle)

    @driven
    @rule(pick=picks, how=st.sampled_from(["pause", "noted", "completed", "failed", "abandoned"]))
    def settle(self, pick: int, how: str) -> None:
        handle = self.handle_at(pick, sharp=True)
        if handle.stale or self.unappendable(handle):
            self.forget(handle)
            return
        if how == "pause":
            handle.real.pause()
            handle.settle("paused", self.now)
        elif how == "noted":
            handle.real.pause("lunch")
            handle.settle("paused", self.now, ("session_end", None, "lunch"))
        else:
            handle.real.finish(how)
            handle.settle(how, self.now)
        self.forget(handle)

    # -- steps

    @driven
    @rule(
        pick=picks,
        path=paths,
        result=values.values,
        ends=st.sampled_from(["well", "boom", "ctrl-c"]),
        again=st.booleans(),
    )
    def do(self, pick: int, path: str, result: Any, ends: str, again: bool) -> None:
        handle = self.handle_at(pick, sharp=True)
        if handle.stale or self.unappendable(handle):
            return
        self.catch_up(handle)  # where its step stands depends on the others that it has seen
        if handle.done(path) and not again:
            self.do_again(handle, path)
            return
        error = {"well": None, "boom": Boom("it broke"), "ctrl-c": KeyboardInterrupt()}[ends]

        def work() -> Any:
            handle.real.variables["x"] = [path, ends]
            if error is not None:
                raise error
            return result

        if error is None:
            found = handle.real.do(path, work, again=again)
            assert canon(result, sort_keys=False) == canon(found, sort_keys=False)
        else:
            with pytest.raises(type(error)):
                handle.real.do(path, work, again=again)
        self.learn_orders(handle)
        handle.enter(path, self.now)
        handle.put("variable", "x", [path, ends])
        if error is None:
            code = handle.real.steps[path]["code"]  # a digest of the bytecode of `work`
            handle.complete(path, self.now, result=result, digest=NO_ARGUMENTS, code=code)
        else:
            handle.fail(path, error, self.now)
        self.played(handle)
        self.check_handle(handle)

    def do_again(self, handle: world.Handle, path: str) -> None:
        """A finished step gives its result and does not run."""
        found: Any = handle.real.do(path, lambda: pytest.fail("it ran again"))
        record = handle.step(path)
        assert record is not None and canon(record.get("result")) == canon(found)
        with pytest.raises(StepDone):
            handle.real.step(path)

    def learn_orders(self, handle: world.Handle) -> None:
        """Where leftoff put new steps: behind those that stand beside them, in this handle's eyes."""
        found = {path: record["order"] for path, record in handle.real.steps.items()}
        for path, order in found.items():
            if handle.step(path) is None and ("step", path) not in handle.run.state:  # nor did others make it
                parent = path.rpartition("/")[0]
                beside = [p for p in found if p.rpartition("/")[0] == parent and handle.step(p) is not None]
                assert all(found[p] < order for p in beside), path
        handle.orders = found

    @driven
    @rule(
        pick=picks,
        tree=st.lists(st.tuples(paths, st.sampled_from(["well", "well", "boom"])), min_size=1, max_size=3),
    )
    def nested(self, pick: int, tree: list[tuple[str, str]]) -> None:
        """Steps inside steps; an error fails every step that it leaves."""
        handle = self.handle_at(pick, sharp=True)
        if handle.stale or self.unappendable(handle):
            return
        self.catch_up(handle)

        def play(step: Any, below: list[tuple[str, str]]) -> None:
            with step as inside:
                handle.real.put("message", inside.path, len(below))
                if len(below) > 1:
                    play(inside.step(below[1][0], again=True), below[1:])
                if below[0][1] == "boom":
                    raise Boom(inside.path)

        def expect(path: str, below: list[tuple[str, str]]) -> None:
            with handle.inside(path, self.now):
                handle.put("message", path, len(below))
                if len(below) > 1:
                    expect(f"{path}/{below[1][0]}", below[1:])
                if below[0][1] == "boom":
                    raise Boom(path)

        happened = _outcome(lambda: play(handle.real.step(tree[0][0], again=True), tree))
        self.learn_orders(handle)
        assert _outcome(lambda: expect(tree[0][0], tree)) == happened
        self.played(handle)

    @driven
    @rule(
        pick=picks,
        path=paths,
        items=st.lists(st.sampled_from(values.ITEMS), max_size=4),
        stop=st.integers(0, 6),
        times=st.sampled_from([1, 1, 3]),
    )
    def each(self, pick: int, path: str, items: list[str], stop: int, times: int) -> None:
        """A loop over items, left by ``break`` at one of them or run to its end; also many, quickly."""
        handle = self.handle_at(pick, sharp=True)
        if handle.stale or self.unappendable(handle):
            return
        self.catch_up(handle)
        items = [item if n == 0 else f"{item}{n}" for n in range(times) for item in items]
        seen = []
        for item in handle.real.each(path, items):
            seen.append(item)
            if len(seen) == stop:
                break
            handle.real.variables["y"] = [item, len(seen)]
        self.learn_orders(handle)
        assert self.expect_each(handle, path, items, stop) == seen
        self.played(handle)

    @staticmethod
    def catch_up(handle: world.Handle) -> None:
        """See what others committed: in the middle of several steps it is not foretold when that happens."""
        handle.real.refresh()
        handle.views = [handle.run.state]

    def expect_each(self, handle: world.Handle, path: str, items: list[str], stop: int) -> list[str]:
        keyed = _keyed(path, items)
        new = [below for _, below in keyed if handle.step(below) is None]
        if new and handle.step(path) is None:
            handle.put_step(path, status="pending", each=True)
        for below in new:
            handle.put_step(below, status="pending")
        seen: list[str] = []
        for item, below in keyed:
            if handle.done(below):
                continue
            if (handle.step(path) or {}).get("status") != "running":
                old = handle.step(path) or {}
                began = None if old.get("status") in ("completed", "skipped") else old.get("started_at")
                known = {"status": "running", "started_at": began or self.now, "each": True}
                handle.put_step(path, "completed_at", **known)
            handle.enter(below, self.now)
            seen.append(item)
            if len(seen) == stop:
                handle.open.remove(below)
                handle.put_step(below, "started_at", status="pending")
                why = world.why_again(handle.step(path) or {})
                handle.put_step(path, status="pending", **({"why": why} if why else {}))
                return seen
            handle.put("variable", "y", [item, len(seen)])
            handle.complete(below, self.now)
        if seen or (handle.step(path) or {}).get("status") != "completed":
            handle.put_step(path, "error", "interrupted_at", status="completed", completed_at=self.now)
            handle.seal(("step_complete", path, None))
        return seen

    @driven
    @rule(
        pick=picks,
        path=paths,
        status=st.sampled_from(["pending", "waiting", "completed", "blocked", "skipped"]),
    )
    def put_step(self, pick: int, path: str, status: str) -> None:
        """A step reported as a record."""
        handle = self.handle_at(pick, sharp=True)
        record = {"status": status, "order": 5, "by": "hand"}
        handle.real.put("step", path, record)
        handle.report_step(path, record)
        assert canon(record) == canon(handle.real.steps[path])

    # -- upkeep

    @some
    @rule(pick=picks, chosen=st.sets(st.integers(0, 12)), sweeps=st.booleans())
    def prune(self, pick: int, chosen: set[int], sweeps: bool) -> None:
        run = self.run_at(pick)
        sealed = [version for _, version in sorted(run.versions.items()) if version.seal is not None]
        drop = [sealed[index].seq for index in chosen if index < len(sealed)]
        view = self.store.get(run.id)
        self.store.prune(run.id, [str(view.at(seq).version.id) for seq in drop])
        run.prune(set(drop))
        kept = [version.state for version in run.versions.values()]
        for handle in self.handles:
            if handle.run is run and not any(view is state for view in handle.views for state in kept):
                handle.views = [*handle.views, run.state]
        if sweeps:
            self.store.sweep()
        self.check_history(run)
        self.check_gone(run)

    @some
    @rule(pick=picks)
    def remove(self, pick: int) -> None:
        run = self.run_at(pick)
        if run.held:
            with pytest.raises(LeaseHeld):
                self.store.remove(run.id)
            return
        self.store.remove(run.id)
        self.runs.remove(run)
        self.removed.append(run.id)
        for handle in [handle for handle in self.handles if handle.run is run]:
            self.forget(handle)

    @rule(how=st.sampled_from(["close", "crash", "copy"]))
    def reopen(self, how: str) -> None:
        """Close the store, or leave it as a killed process would; then open what is on disk."""
        if how == "close":
            for handle in list(self.handles):
                self.settle(self.handles.index(handle), "pause")
            self.store.close()
            self.store = self.open(self.project)
            return
        crashed, old = self.store, self.project
        if how == "copy":
            self.folders += 1
            self.copy(old, self.base / f"p{self.folders}")
        for handle in list(self.handles):
            self.forget(handle)
        abandon(crashed)
        self.store = self.open(self.base / f"p{self.folders}")


def _keyed(path: str, items: list[str]) -> list[tuple[str, str]]:
    """Each item with the path of its step."""
    out: list[tuple[str, str]] = []
    taken: set[str] = set()
    for item in items:
        part = item.replace("%", "%25").replace("/", "%2F")
        below, number = f"{path}/{part}", 2
        while below in taken:
            below, number = f"{path}/{part}#{number}", number + 1
        taken.add(below)
        out.append((item, below))
    return out


def _outcome(work: Any) -> str:
    try:
        work()
    except Boom as error:
        return f"boom: {error}"
    return "well"
