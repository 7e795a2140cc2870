"""What Python code logs in a step is the step's log, whoever logs it and however the step ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.api.others import program, start_program, wait_for
from tests.cli.command import LEFTOFF, environment, succeed

log = logging.getLogger("tests.work")


@pytest.fixture(autouse=True)
def level() -> Any:
    """As a program has it that wants to see what it does."""
    log.setLevel(logging.INFO)
    yield
    log.setLevel(logging.NOTSET)


def lines(run_id: str, project: Path) -> dict[str, list[str]]:
    """What was logged, by step, without times and levels."""
    found = succeed("logs", run_id, "--json", cwd=project).json["logs"]
    return {
        each["step"]: [line.split(": ", 1)[-1] for line in (each["text"] or "").splitlines()]
        for each in found
    }


def test_each_line_is_in_its_steps_log(project: Path) -> None:
    """Of `do`, `each`, `step` and what it contains, of the program's own loggers, the run's and the step's."""
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        log.info("before")
        run.do("do", lambda: log.info("done %s", 1))
        for item in run.each("each", ["a/b", "c"]):
            log.info(item)
        with run.step("outer") as step:
            step.log.info("outer")
            with step.step("inner"):
                run.log.info("inner")
            leftoff.logger.warning("outer again")
            log.debug("nobody wants this")
        log.info("after")
    assert {
        "do": ["done 1"],
        "each/a%2Fb": ["a/b"],
        "each/c": ["c"],
        "outer": ["outer", "outer again"],
        "outer/inner": ["inner"],
    } == lines("r", project)
    assert "work: a/b" in succeed("logs", "r", "each [a/b]", cwd=project).out


def test_threads_and_tasks_are_told_apart(project: Path) -> None:
    """Those of `map`, and of durable functions; a thread that a step starts by itself works for the step."""
    together = threading.Barrier(2, timeout=30)

    def work(number: int) -> None:
        together.wait()
        log.info("thread %s", number)
        together.wait()

    async def wait(number: int) -> None:
        log.info("task %s begins", number)
        await asyncio.sleep(0)
        log.info("task %s ends", number)

    @leftoff.step(timeout=30)
    def fetch(number: int) -> None:
        together.wait()
        log.info("fetched %s", number)

    @leftoff.workflow
    def crawl() -> None:
        fetch.map([1, 2], max_parallel=2)

    with leftoff.open(".leftoff") as store:
        with store.start("w", run_id="r") as run:
            run.map(work, [1, 2], max_parallel=2)
            asyncio.run(run.map(wait, [1, 2], max_parallel=2))
            run.do("own", lambda: _in_a_thread(lambda: log.info("from a thread of its own")))
        crawl.run(run_id="crawl", store=store)
    assert {
        **{f"work/{n}": [f"thread {n}"] for n in (1, 2)},
        **{f"wait/{n}": [f"task {n} begins", f"task {n} ends"] for n in (1, 2)},
        "own": ["from a thread of its own"],
    } == lines("r", project)
    assert {"1-fetch/1": ["fetched 1"], "1-fetch/2": ["fetched 2"]} == lines("crawl", project)


def test_a_step_that_was_left_open_takes_no_lines_of_others(project: Path) -> None:
    """Its run was paused with the store; a thread of another run's step works for that one."""
    with leftoff.open(".leftoff") as store:
        left = store.start("w", run_id="left").step("a")
        copy_context().run(left.__enter__)
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        run.do("own", lambda: _in_a_thread(lambda: log.info("mine")))
    assert {"own": ["mine"]} == lines("r", project)


def _in_a_thread(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_secrets_are_masked_before_they_are_written(project: Path) -> None:
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        run.do("a", lambda: log.info("token=%s", "ghp_0123456789abcdefghijABCDEFGHIJ"))
    written = b"".join(
        path.read_bytes() for path in (project / ".leftoff/attempts").rglob("*") if path.is_file()
    )
    assert b"token=" in written and b"ghp_0123" not in written


def test_a_programs_own_logging_stays_as_it_is(run: leftoff.Run, caplog: pytest.LogCaptureFixture) -> None:
    """Its handlers get each record once, also where somebody else makes the records."""
    handlers = list(logging.getLogger().handlers)
    run.do("a", lambda: log.info("once"))
    assert ["once"] == [record.getMessage() for record in caplog.records]
    assert handlers == logging.getLogger().handlers
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **named: before(*args, **named))
    try:
        run.do("b", lambda: log.info("chained"))
    finally:
        logging.setLogRecordFactory(before)
    assert ["once", "chained"] == [record.getMessage() for record in caplog.records]


def test_a_failed_step_tells_what_it_raised(project: Path) -> None:
    """In `logs` and `logs --failed`, behind what it logged; of items too, and where nothing was logged at all."""

    def work(number: int) -> None:
        if number == 2:
            log.info("about to fail")
            raise ValueError("no two")

    def silent() -> None:
        raise KeyError("k")

    with leftoff.open(".leftoff") as store:
        run = store.start("w", run_id="r")
        run.map(work, [1, 2], keep_going=True)
        with pytest.raises(KeyError):
            run.do("silent", silent)
        run.pause()
    shown = succeed("logs", "r", "--failed", cwd=project).out
    assert "work/2" in shown and "about to fail\nTraceback (most recent call last):" in shown
    assert (
        'raise ValueError("no two")' in shown
        and "ValueError: no two\n" in shown
        and "KeyError: 'k'\n" in shown
    )
    found = succeed("logs", "r", "silent", "--json", cwd=project).json["logs"]
    assert [("KeyError", None)] == [(each["error"]["type"], each["text"]) for each in found]


def test_what_was_logged_before_a_kill_is_there(project: Path) -> None:
    """Under its own attempt; the next one has a log of its own."""
    text = """
import leftoff, logging, os
with leftoff.run("w") as run:
    def work():
        logging.getLogger("x").warning("try %s", run.steps["a"]["attempt"])
        if run.steps["a"]["attempt"] == 1:
            os.kill(os.getpid(), 9)
    run.do("a", work)
"""
    assert -signal.SIGKILL == program(text, project).returncode
    run_id = succeed("ls", "--json", cwd=project).json["runs"][0]["run_id"]
    assert {"a": ["try 1"]} == lines(run_id, project)
    assert 0 == program(text, project).returncode
    assert {"a": ["try 2"]} == lines(run_id, project)
    assert "try 1" in succeed("logs", run_id, "a", "--attempt", "1", cwd=project).out


def test_it_can_be_followed(project: Path) -> None:
    """A line is shown while its step still runs."""
    text = """
import leftoff, sys
with leftoff.run("w") as run:
    def work():
        run.log.info("half way")
        print("logged", flush=True)
        sys.stdin.readline()
        run.log.info("all the way")
    run.do("a", work)
"""
    child = start_program(text, project)
    wait_for(child, "logged")
    words = [str(LEFTOFF), "logs", "-f"]
    with subprocess.Popen(
        words, cwd=project, env=environment(), stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert "==> a (attempt 1, running" in following.stdout.readline()
        assert "half way" in following.stdout.readline()
        child.communicate("\n", timeout=120)
        assert "all the way" in following.stdout.read()


def test_names_that_are_too_long_for_a_file(project: Path) -> None:
    name = "x" * 300
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        run.do(name, lambda: log.info("here"))
    assert {name: ["here"]} == lines("r", project)


def test_show_tells_what_was_raised(project: Path) -> None:
    """Kind, message and place of each, also of items; and what a step returned that could not be kept."""
    with leftoff.open(".leftoff") as store:
        run = store.start("w", run_id="r")
        run.map(lambda item: [][item], [7], name="map", keep_going=True)
        with pytest.raises(leftoff.Invalid):
            run.do("kept", object)
        run.pause()
    page = succeed("show", "r", cwd=project).out
    assert "map/7  IndexError: list index out of range\n" in page and "lambda item: [][item]" in page
    assert "it returned <object object" in page and "\\n" not in page.partition("Errors")[2]
    errors = {s["step"]: s["error"] for s in succeed("show", "r", "--json", cwd=project).json["step_records"]}
    assert "IndexError" == errors["map/7"]["type"] and "[][item]" in errors["map/7"]["traceback"]


def test_no_line_is_written_through_a_link(project: Path, tmp_path: Path) -> None:
    """A log that is a link to another file is left alone."""
    victim = tmp_path / "victim"
    victim.touch()
    place = project / ".leftoff" / "attempts" / "r" / "steps" / "a" / "1"
    place.parent.mkdir(parents=True)
    place.symlink_to(victim)
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        run.do("a", lambda: log.info("a line"))
    assert "" == victim.read_text()
    place.unlink()
