"""Random workflows, executed by processes that die at random moments.

`python -m tests.workflow.functions_fuzz FROM TO` tries the seeds of a range.

A seed gives a tree of calls, maps, parts, deferred calls and ways to deal with failures, and how often each step fails.
Each execution is a forked child that may die at any event: before and after each transaction, at the begin and the end
of each step. It is started again until the workflow completes. Nothing that is recorded as completed may run again
(but for the clean-up of a failure that is tried again), no execution may end in any other way than it should.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leftoff
from leftoff.store.sqlite import SqliteStore

Node = tuple[Any, ...]
DIED, FAILED, WRONG = 9, 3, 77
MOST = 80  # executions of one workflow


class Plan:
    """What a seed stands for."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._labels = 0
        self.nodes = self._sequence(0)
        self.fails = {f"L{n}": self._random.choice([0, 0, 0, 0, 1, 2]) for n in range(1, self._labels + 1)}
        self.cleaning = {node[2] for node in walk(self.nodes) if node[0] == "clean"}

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _sequence(self, depth: int) -> list[Node]:
        return [self._node(depth) for _ in range(self._random.randint(1, 4))]

    def _node(self, depth: int) -> Node:
        inner = ["part", "sooner", "later", "catch", "clean"] if depth < 3 else []
        kind = self._random.choice(["call", "call", "map", *inner])
        if kind == "call":
            return kind, self._label()
        if kind == "map":
            return (
                kind,
                [self._label() for _ in range(self._random.randint(0, 4))],
                self._random.randint(1, 3),
            )
        if kind in ("sooner", "later"):
            return kind, self._label(), self._label()
        if kind == "part":
            return kind, self._sequence(depth + 1), self._random.randint(1, 2)
        return kind, self._sequence(depth + 1), self._label()


def walk(nodes: list[Node]) -> Iterator[Node]:
    """All nodes of a tree."""
    for node in nodes:
        yield node
        if node[0] in ("part", "catch", "clean"):
            yield from walk(node[1])


class Child:
    """One execution, which may die at its n-th event."""

    def __init__(self, plan: Plan, folder: Path, die_at: int) -> None:
        self._plan = plan
        self._log = folder / "log"
        self._events = 0
        self._die_at = die_at
        write = SqliteStore.write

        def watched(store: SqliteStore, work: Any, *, durable: bool = True) -> Any:
            self.event()
            done = write(store, work, durable=durable)
            self.event()
            return done

        SqliteStore.write = watched  # type: ignore[method-assign, assignment]

    def event(self) -> None:
        self._events += 1
        if self._events == self._die_at:
            os._exit(DIED)

    def body(self, label: str) -> str:
        """A step: it fails as often as the plan says, whoever executes it."""
        with self._log.open("a") as log:
            log.write(f"{label}\n")
        self.event()
        if starts(self._log)[label] <= self._plan.fails[label]:
            raise ValueError(label)
        self.event()
        return label

    def threads(self, nodes: list[Node]) -> list[str]:
        step = leftoff.step(self.body, name="step")
        got: list[str] = []
        for kind, *rest in nodes:
            if kind == "call":
                got.append(step(rest[0]))
            elif kind == "map":
                got += step.map(rest[0], max_parallel=rest[1])
            elif kind == "part":
                part: Any = leftoff.workflow(lambda _, inner=rest[0]: self.threads(inner), name="part")
                got += part(0) if rest[1] == 1 else part.map([0])[0]
            elif kind in ("sooner", "later"):
                handle = step.defer(rest[0])
                got += (
                    [handle.result(), step(rest[1])] if kind == "sooner" else [step(rest[1]), handle.result()]
                )
            else:
                try:
                    got += self.threads(rest[0])
                except ValueError:
                    got.append(step(rest[1]))
                    if kind == "clean":
                        raise
        return got

    async def body_later(self, label: str) -> str:
        await asyncio.sleep(0)
        return self.body(label)

    async def tasks(self, nodes: list[Node]) -> list[str]:
        step = leftoff.step(self.body_later, name="step")
        got: list[str] = []
        for kind, *rest in nodes:
            if kind == "call":
                got.append(await step(rest[0]))
            elif kind == "map" and rest[1] == 1:
                got += await step.map(rest[0], max_parallel=2)
            elif kind == "map":
                found = await asyncio.gather(*map(step, rest[0]), return_exceptions=rest[1] == 3)
                got += [str(one) for one in found]
            elif kind == "part":

                async def inside(_: int, inner: list[Node] = rest[0]) -> list[str]:
                    return await self.tasks(inner)

                part = leftoff.workflow(inside, name="part")
                got += await part(0) if rest[1] == 1 else (await asyncio.gather(part(0)))[0]
            elif kind in ("sooner", "later"):
                handle = step.defer(rest[0])
                got += (
                    [await handle, await step(rest[1])]
                    if kind == "sooner"
                    else [await step(rest[1]), await handle]
                )
            else:
                try:
                    got += await self.tasks(rest[0])
                except ValueError:
                    got.append(await step(rest[1]))
                    if kind == "clean":
                        raise
        return got

    def execute(self, store: leftoff.Store, kind: str) -> None:
        nodes = self._plan.nodes
        if kind == "threads":
            leftoff.workflow(lambda: self.threads(nodes), name="flow").run(store=store, run_id="r")
            return

        async def flow() -> list[str]:
            return await self.tasks(nodes)

        asyncio.run(leftoff.workflow(flow).run(store=store, run_id="r"))


def starts(log: Path) -> Counter[str]:
    """How often each step was begun."""
    return Counter(log.read_text().split()) if log.exists() else Counter()


def fork(plan: Plan, folder: Path, die_at: int, kind: str) -> int:
    """The exit code of one execution."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = WRONG
    try:
        Child(plan, folder, die_at).execute(leftoff.open(folder / ".leftoff"), kind)
        code = 0
    except ValueError as error:
        own = isinstance(error, leftoff.LeftoffError) and not isinstance(error, leftoff.StepFailed)
        code = WRONG if own else FAILED
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


def completed(folder: Path) -> dict[str, str]:
    """The completed steps by path, with their labels."""
    with leftoff.open(folder / ".leftoff") as store:
        try:
            steps = store.get("r").steps.items()
        except leftoff.NotFound:
            return {}
        done = {path: step.get("args", {}) for path, step in steps if step["status"] == "completed"}
    return {path: args["label"] for path, args in done.items() if "label" in args}


def check(seed: int, kind: str, folder: Path) -> str | None:
    """What went wrong with a workflow, if anything did."""
    plan, chance = Plan(seed), random.Random(f"{seed} {kind}")
    before: dict[str, str] = {}
    begun: Counter[str] = Counter()
    for turn in range(MOST):
        die_at = chance.randint(1, 80) if turn < MOST // 2 and chance.random() < 0.8 else 0
        code = fork(plan, folder, die_at, kind)
        if code not in (0, DIED, FAILED):
            return f"execution {turn} ended with {code}"
        now, ran = completed(folder), starts(folder / "log")
        for path, label in now.items():
            if before.get(path) == label and ran[label] != begun[label] and label not in plan.cleaning:
                return f"{path} ({label}) was completed, and ran again in execution {turn}"
        before, begun = now, ran
        if code == 0:
            return verdict(folder)
    return "it never completes"


def verdict(folder: Path) -> str | None:
    """A completed run has nothing in flight, and its store is whole."""
    with leftoff.open(folder / ".leftoff") as store:
        view = store.get("r")
        left = [path for path, step in view.steps.items() if step["status"] == "running"]
        if view.status != "completed" or left or not store.fsck().ok:
            return f"it ended {view.status}, with {left} running"
    return None


def main(first: int, last: int) -> int:
    """Say what went wrong, and where its store is."""
    wrong = 0
    for seed in range(first, last):
        for kind in ("threads", "tasks"):
            folder = Path(tempfile.mkdtemp(prefix="leftoff-fuzz-"))
            problem = check(seed, kind, folder)
            if problem is None:
                shutil.rmtree(folder)
            else:
                wrong += 1
                print(f"seed {seed}, {kind}: {problem} ({folder})", flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
