"""leftoff: a run with a step per call."""

from __future__ import annotations

import os

import leftoff
from bench.compare.job import Job, change, state



def versions() -> dict[str, str]:
    return {"leftoff": leftoff.__version__}


def store(job: Job) -> leftoff.Store:
    return leftoff.open(job.place / ".leftoff")


def drive(job: Job) -> None:
    os.chdir(job.folder)
    job.say("found", found(job))
    try:
        done = store(job).get("pipeline").status == "completed"
    except leftoff.NotFound:
        done = False
    if not done:
        steps(job)
    job.say("finished", job.count)


def steps(job: Job) -> None:
    """Continue the unfinished run, or start one."""
    with store(job).run("pipeline") as run:

        def step(number: int) -> str:
            result = job.step(number)
            if job.files:
                run.artifact(job.output(number))
            return result

        for number in range(job.count):
            run.do(f"step-{number}", step, number)


def found(job: Job) -> int:
    try:
        return store(job).get("pipeline").info.steps["completed"]
    except leftoff.NotFound:
        return 0


def grow(job: Job) -> None:
    with store(job).run("pipeline", variables={"state": state()}) as run:

        def step(number: int) -> None:
            key, text = change(number)
            run.variables["state"] = {**run.variables["state"], key: text}

        for number in range(job.count):
            run.do(f"step-{number}", step, number)


def read(job: Job) -> list[str]:
    steps = store(job).get("pipeline").steps
    return [steps[f"step-{number}"]["result"] for number in range(job.count)]
