"""A store that cannot be written to any more while a run is driven: exit 8, clear words, a resume that completes."""

from __future__ import annotations

import resource
import time

from tests.workflow.driving import Driver, Flow, mark, wait

TWO = f"""
name: two
steps:
  - id: a
    run: "{mark("a")}"
  - id: b
    run: "{mark("b")}; {wait()}"
  - id: c
    needs: [a]
    run: "{mark("c")}; {wait("gate-c")}"
  - id: d
    needs: [b, c]
    run: "{mark("d")}"
"""


def limited(driver: Driver) -> None:
    """No file may be written beyond where it is small: a full disk that needs no root. Its steps are not concerned."""
    hard = resource.prlimit(driver.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(driver.pid, resource.RLIMIT_FSIZE, (4096, hard))


def test_a_disk_that_fills_ends_the_run_in_words(flow: Flow) -> None:
    """Exit 8 and what to do; the processes of its steps are ended, as nobody could record them; resume completes."""
    flow.write(TWO)
    driver = flow.run()
    flow.started("b")
    flow.started("c")
    limited(driver)
    flow.file("gate")
    driver.end(8)
    assert [] == flow.processes()
    assert driver.said.startswith("leftoff: ") and "Traceback" not in driver.said
    assert [8] == [8 for told in driver.events if told.get("error", {}).get("code") == "store_unavailable"]
    shown = flow.show()
    assert ("running", "dead", "completed") == (shown["status"], shown["health"], flow.status("a"))
    flow.file("gate-c")
    flow.resume().end(0)
    assert [1, 1] == [len(flow.starts(name)) for name in "ad"]
    assert 1 == len(flow.starts("b")), "it ended with 0, and that was on disk"
    assert 2 == len(flow.starts("c"))


def test_a_beat_that_fails_is_no_reason_to_end(flow: Flow) -> None:
    """A sign of life that cannot be written is tried again: what matters is what must be recorded."""
    flow.file("leftoff.toml", "[heartbeat]\ninterval = 0.05\n")
    flow.write(TWO)
    driver = flow.run()
    flow.started("b")
    flow.started("c")
    driver.until("step_start", step="c")
    hard = resource.prlimit(driver.pid, resource.RLIMIT_FSIZE)[1]
    limited(driver)
    time.sleep(0.5)  # some beats
    assert driver.process.poll() is None, str(driver)
    resource.prlimit(driver.pid, resource.RLIMIT_FSIZE, (hard, hard))
    flow.file("gate")
    flow.file("gate-c")
    driver.end(0)


def test_an_attempts_folder_that_cannot_be_made(flow: Flow) -> None:
    """What a step's process needs is part of the store, too: exit 8, and no step failed."""
    flow.write(TWO)
    flow.file("gate")
    flow.file("gate-c")
    flow.succeed("start", "other")
    flow.file(".leftoff/attempts", "in the way")
    driver = flow.run()
    driver.end(8)
    assert "attempts" in driver.said
    assert {"pending"} == {record["status"] for record in flow.steps().values()}
    (flow.folder / ".leftoff/attempts").unlink()
    flow.resume().end(0)
