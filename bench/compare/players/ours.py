"""leftoff: a run with a step per call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import leftoff
from bench.compare.job import Job, change, state


def versions() -> dict[str, str]:
    return {"leftoff": leftoff.__version__}


@contextmanager
def store(job: Job) -> Iterator[leftoff.Store]:
    opened = leftoff.open(job.place / ".leftoff")
    try:
        yield opened
    finally:
        opened.close()


def drive(job: Job) -> None:
    os.chdir(job.folder)
    with store(job) as opened:
        job.say("found", finished(opened))
        if not completed(opened):
            steps(opened, job)
    job.say("finished", job.count)


def steps(opened: leftoff.Store, job: Job) -> None:
    """Continue the unfinished run, or start one."""
    try:
        run = opened.run("pipeline")
    except leftoff.CannotResume as error:
        for finding in error.findings:
            print(finding)
        raise
    with run:

        def step(number: int) -> str:
            result = job.step(number)
            if job.files:
                run.artifact(job.output(number))
            return result

        for number in range(job.count):
            run.do(f"step-{number}", step, number)


def completed(opened: leftoff.Store) -> bool:
    try:
        return opened.get("pipeline").status == "completed"
    except leftoff.NotFound:
        return False


def finished(opened: leftoff.Store) -> int:
    try:
        return opened.get("pipeline").info.steps["completed"]
    except leftoff.NotFound:
        return 0


def found(job: Job) -> int:
    with store(job) as opened:
        return finished(opened)


def grow(job: Job) -> None:
    with store(job) as opened, opened.run("pipeline", variables=state()) as run:

        def step(number: int) -> None:
            key, text = change(number)
            run.variables[key] = text

        for number in range(job.count):
            run.do(f"step-{number}", step, number)


def read(job: Job) -> list[str]:
    with store(job) as opened:
        steps = opened.get("pipeline").steps
        return [steps[f"step-{number}"]["result"] for number in range(job.count)]
