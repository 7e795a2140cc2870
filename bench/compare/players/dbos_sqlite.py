"""DBOS on SQLite, its system database in the player's folder: a workflow with a step per call."""

from __future__ import annotations

from importlib.metadata import version

from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID

from bench.compare.job import Job, change, state

current: Job


def versions() -> dict[str, str]:
    return {"dbos": version("dbos")}


@DBOS.step()
def one(number: int) -> str:
    return current.step(number)


@DBOS.workflow()
def pipeline(count: int) -> None:
    for number in range(count):
        one(number)


@DBOS.step()
def edit(number: int) -> tuple[str, str]:
    return change(number)


@DBOS.workflow()
def editing(count: int) -> int:
    """A step returns its change; the workflow has the state, which a recovery rebuilds from the changes."""
    now = state()
    for number in range(count):
        key, text = edit(number)
        now[key] = text
    return len(now)


def url(job: Job) -> str:
    return f"sqlite:///{job.folder}/dbos.sqlite"


def launch(job: Job) -> None:
    global current
    current = job
    DBOS(
        config=DBOSConfig(
            name="compare",
            system_database_url=url(job),
            log_level="ERROR",
            application_version="1",
            executor_id="local",
            run_admin_server=False,
        )
    )
    DBOS.launch()


def drive(job: Job) -> None:
    job.say("found", found(job))
    launch(job)
    with SetWorkflowID("pipeline"):
        handle = DBOS.start_workflow(pipeline, job.count)
    handle.get_result()
    DBOS.destroy()
    job.say("finished", job.count)


def outputs(job: Job) -> list[str]:
    """What the finished steps returned."""
    if not (job.place / "dbos.sqlite").exists():
        return []
    client = DBOSClient(system_database_url=url(job))
    try:
        return [step["output"] for step in client.list_workflow_steps("pipeline")]
    finally:
        client.destroy()


def found(job: Job) -> int:
    return len(outputs(job))


def grow(job: Job) -> None:
    launch(job)
    with SetWorkflowID("pipeline"):
        editing(job.count)
    DBOS.destroy()


def read(job: Job) -> list[str]:
    return outputs(job)
