"""The pipeline of a data engineer: fetch 200 documents in eight threads from an API that fails, merge, publish once.

    python -m bench.sides.pipeline TOOL FOLDER COUNT    TOOL: plain, leftoff, functions, dbos or prefect

The API takes 20 ms and refuses the first request for each fifth document. What happened is in `FOLDER/log`, a line for
each: `fetch N` when a request begins, `got N` when it succeeded, `published TOTAL`.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

THREADS = 8
RETRIES = 3


class Refused(Exception):
    """The API is busy."""


class Work:
    """What the steps do, whoever calls them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.numbers = folder, list(range(count))

    def say(self, *words: Any) -> None:
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, (" ".join(map(str, words)) + "\n").encode())
        os.close(log)

    def fetch(self, number: int) -> int:
        self.say("fetch", number)
        time.sleep(0.02)
        asked = self.folder / f"asked-{number}"
        if number % 5 == 0 and not asked.exists():
            asked.touch()
            raise Refused(number)
        self.say("got", number)
        return number * number

    def publish(self, total: int) -> int:
        self.say("published", total)
        return total


def plain(work: Work) -> None:
    def patient(number: int) -> int:
        for _ in range(RETRIES):
            try:
                return work.fetch(number)
            except Refused:
                time.sleep(0.01)
        return work.fetch(number)

    with ThreadPoolExecutor(THREADS) as pool:
        work.publish(sum(pool.map(patient, work.numbers)))


def leftoff(work: Work) -> None:
    import leftoff

    retries = {"max": RETRIES, "backoff": 0.01}
    with leftoff.open(work.folder / ".leftoff").run("pipeline", run_id="p") as run:
        found = run.map(work.fetch, work.numbers, max_parallel=THREADS, retries=retries, retry_on=Refused)
        run.do("publish", work.publish, sum(found))


def functions(work: Work) -> None:
    import leftoff

    fetch = leftoff.step(work.fetch, retries={"max": RETRIES, "backoff": 0.01}, retry_on=Refused)
    publish = leftoff.step(work.publish)
    flow = leftoff.workflow(
        lambda: publish(sum(fetch.map(work.numbers, max_parallel=THREADS))), name="pipeline"
    )
    flow.run(run_id="p", store=leftoff.open(work.folder / ".leftoff"))


def dbos(work: Work) -> None:
    from dbos import DBOS, SetWorkflowID

    from bench.sides import durable

    retry: dict[str, Any] = {"retries_allowed": True, "max_attempts": RETRIES + 1, "interval_seconds": 0.01}
    fetch = DBOS.step(name="fetch", **retry)(lambda number: work.fetch(number))
    publish = DBOS.step(name="publish")(lambda total: work.publish(total))

    def one(number: int) -> int:
        return int(fetch(number))

    document = DBOS.workflow(name="document")(one)

    def whole() -> int:
        queue = DBOS.retrieve_queue("documents")
        handles = [queue.enqueue(document, number) for number in work.numbers]
        return int(publish(sum(handle.get_result() for handle in handles)))

    flow = DBOS.workflow(name="pipeline")(whole)
    durable.launch(str(work.folder))
    DBOS.register_queue("documents", worker_concurrency=THREADS)
    with SetWorkflowID("p"):
        flow()


def prefect(work: Work) -> None:
    os.environ["PREFECT_LOCAL_STORAGE_PATH"] = str(work.folder / "results")
    from prefect import flow, task
    from prefect.task_runners import ThreadPoolTaskRunner

    def by_argument(_: Any, given: dict[str, Any]) -> str:
        return "-".join(map(str, given.items()))

    keep: dict[str, Any] = {"persist_result": True, "cache_key_fn": by_argument}
    fetch: Any = task(retries=RETRIES, retry_delay_seconds=0.01, **keep)(lambda number: work.fetch(number))
    publish: Any = task(**keep)(lambda total: work.publish(total))

    def pipeline() -> int:
        futures = [fetch.submit(number) for number in work.numbers]
        return int(publish(sum(future.result() for future in futures)))

    run: Any = flow(task_runner=ThreadPoolTaskRunner(max_workers=THREADS))(pipeline)
    run()


if __name__ == "__main__":
    tool, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    {each.__name__: each for each in (plain, leftoff, functions, dbos, prefect)}[tool](Work(folder, count))
