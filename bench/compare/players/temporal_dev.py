"""Temporal's development server with its database in the player's folder: a workflow with an activity per step."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError
from temporalio.worker import Worker

from bench.compare.job import Job, change, state

PATIENCE = timedelta(seconds=2)  # of an activity; a driver that died is noticed after it
current: Job


def versions() -> dict[str, str]:
    said = subprocess.run(["temporal", "--version"], capture_output=True, text=True, check=True).stdout
    return {"temporalio": version("temporalio"), "server": said.strip()}


@activity.defn
def one(number: int) -> str:
    return current.step(number)


@activity.defn
def edit(number: int) -> list[str]:
    return list(change(number))


@workflow.defn(sandboxed=False)
class Pipeline:
    """One activity after the other."""

    @workflow.run
    async def run(self, count: int) -> None:
        for number in range(count):
            await workflow.execute_activity(one, number, start_to_close_timeout=PATIENCE)


@workflow.defn(sandboxed=False)
class Editing:
    """An activity returns its change; the workflow has the state, which a replay rebuilds from the changes."""

    @workflow.run
    async def run(self, count: int) -> int:
        now = state()
        for number in range(count):
            key, text = await workflow.execute_activity(edit, number, start_to_close_timeout=PATIENCE)
            now[key] = text
        return len(now)


async def connect(job: Job) -> Client:
    return await Client.connect(f"127.0.0.1:{job.port}")


async def execute(job: Job, flow: Any) -> None:
    """Be the worker until the workflow is finished."""
    global current
    current = job
    client = await connect(job)
    with ThreadPoolExecutor(4) as pool:
        worker = Worker(
            client,
            task_queue="compare",
            workflows=[Pipeline, Editing],
            activities=[one, edit],
            activity_executor=pool,
        )
        async with worker:
            await client.execute_workflow(
                flow,
                job.count,
                id="pipeline",
                task_queue="compare",
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )


async def results(job: Job) -> list[str]:
    """What the finished activities returned, from the workflow's history."""
    client = await connect(job)
    history = await client.get_workflow_handle("pipeline").fetch_history()
    found: list[str] = []
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            payloads = event.activity_task_completed_event_attributes.result.payloads
            found += await client.data_converter.decode(payloads)
    return found


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 600))


def drive(job: Job) -> None:
    job.say("found", found(job))
    wait(execute(job, Pipeline.run))
    job.say("finished", job.count)


def found(job: Job) -> int:
    try:
        return len(wait(results(job)))
    except RPCError as error:
        if "not found" in str(error).lower() or "no rows" in str(error).lower():
            return 0
        raise


def grow(job: Job) -> None:
    wait(execute(job, Editing.run))


def read(job: Job) -> list[str]:
    return list(wait(results(job)))
