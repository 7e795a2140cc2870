"""Which steps run when a run is resumed: those that failed or were never done, no others; unless one goes back."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import leftoff
from leftoff.store.sqlite import SqliteStore
from tests.workflow.driving import Flow, mark, until, wait

STORY = f"""
name: story
steps:
  - id: a
    run: "{mark("a")}"
  - id: b
    when: "{{{{ false }}}}"
    run: "{mark("b")}"
  - id: c
    run: "{mark("c")}; test -e good"
  - id: d
    run: "{mark("d")}"
"""


def test_failed_steps_run_again_and_finished_ones_never(flow: Flow) -> None:
    """What is completed or skipped stays so; what failed is done again, and what waited for it is done then."""
    flow.write(STORY)
    flow.run().end(1)
    assert "failed" == flow.show()["status"]
    flow.file("good")
    driver = flow.resume()
    driver.end(0)
    assert {"a": "skip", "b": "skip", "c": "run", "d": "run"} == {
        s: do for s, (do, _) in driver.plan().items()
    }
    assert [1, 0, 2, 1] == [len(flow.starts(name)) for name in "abcd"]
    steps = flow.steps()
    assert ["completed", "skipped", "completed", "completed"] == [steps[name]["status"] for name in "abcd"]
    assert steps["c"]["error"] is None
    assert {} == flow.show()["records"].get("error", {})


def test_a_failure_gets_its_retries_anew(flow: Flow) -> None:
    """A step that used up its retries has all of them again after a resume."""
    text = STORY.replace("  - id: c\n", "  - id: c\n    retries: {max: 1, backoff: 0s}\n")
    flow.write(text)
    flow.run().end(1)
    assert 2 == len(flow.starts("c"))
    flow.resume().end(1)
    assert 4 == len(flow.starts("c")) == flow.steps()["c"]["attempt"]


def test_a_run_that_is_complete_has_nothing_left(flow: Flow) -> None:
    """Resuming it says so, runs nothing, and is no failure."""
    flow.write(STORY.replace("; test -e good", ""))
    flow.run().end(0)
    before = flow.show()
    done = flow.call("resume", "r")
    assert 0 == done.code
    assert "nothing is left to do" in done.out
    assert before == flow.show()
    assert "completed" == flow.succeed("resume", "r", "--json").json["run"]["status"]


def test_run_resume_goes_on_and_run_asks(flow: Flow) -> None:
    """`run FILE` beside an unfinished run of the same workflow asks; `--resume` goes on with it, `--yes` too."""
    flow.write(STORY)
    flow.drive("run", "flow.yaml").end(1)
    asked = flow.call("run", "flow.yaml")
    assert 7 == asked.code
    assert "run flow.yaml --resume" in asked.err and "run flow.yaml --fresh" in asked.err
    flow.call("run", "flow.yaml", "--yes")
    assert [1, 2] == [len(flow.starts(name)) for name in "ac"]
    flow.file("good")
    flow.succeed("run", "flow.yaml", "--resume")
    assert [1, 3, 1] == [len(flow.starts(name)) for name in "acd"]
    assert 1 == len(flow.succeed("ls", "--all", "--json").json["runs"])


def test_start_fresh_ends_what_the_old_run_left(flow: Flow) -> None:
    """`--fresh` abandons the unfinished run, and nothing of it runs on."""
    flow.write(f"name: w\nsteps:\n  - id: a\n    run: '{mark('a')}; {wait()}'\n")
    driver = flow.drive("run", "flow.yaml", "--run-id", "old")
    flow.started("a")
    driver.kill()
    before = flow.processes()
    driver = flow.drive("run", "flow.yaml", "--fresh")
    flow.started("a", 2)
    assert not set(before) & set(flow.processes())
    flow.file("gate")
    driver.end(0)
    assert "abandoned" == flow.show("old")["status"]


PHASES = f"""
name: phases
steps:
  - id: first
    steps:
      - id: a
        run: "{mark("a")}"
      - id: b
        needs: []
        run: "{mark("b")}; {wait()}"
      - id: hand
        needs: []
  - id: last
    run: "{mark("last")}"
"""


def test_batches_and_phases_begin_and_end_once(flow: Flow) -> None:
    """However many lives a run has; a phase whose last step a person did is over, too."""
    flow.write(PHASES)
    driver = flow.run()
    flow.started("b")
    until(lambda: flow.status("first/a") == "completed", "a to be done")
    driver.kill()
    assert "running" == flow.status("first")
    flow.file("gate")
    flow.resume().end(7)
    flow.succeed("step", "done", "first/hand", "--run", "r")
    flow.resume().end(0)
    steps, triggers = flow.steps(), flow.triggers()
    assert {"completed"} == {record["status"] for record in steps.values()}
    words = ("batch_start", "batch_complete", "phase_transition")
    assert [1, 1, 1] == [triggers.count(word) for word in words], triggers
    assert (1, 1, 1) == tuple(len(flow.starts(name)) for name in ("a", "b", "last"))


# -- items

ITEMS = f"""
name: fan
steps:
  - id: each
    foreach: {{glob: "in/*"}}
    max_parallel: 1
    run: "{mark("each")}; {wait("gate-{{ item | stem }}")}"
  - id: after
    run: "{mark("after")}"
"""


def test_a_resumed_foreach_has_the_items_it_began_with(flow: Flow) -> None:
    """Items are looked for once: files that came or went since change nothing, and items that are done stay done."""
    for name in "abc":
        flow.file(f"in/{name}.txt")
    flow.file("gate-a")
    flow.write(ITEMS)
    driver = flow.run()
    flow.started("each", 2)
    driver.kill_all()
    (flow.folder / "in/c.txt").unlink()
    flow.file("in/d.txt")
    for name in "bcd":
        flow.file(f"gate-{name}")
    driver = flow.resume()
    driver.end(0)
    steps = flow.steps()
    assert ["each/in%2Fa.txt", "each/in%2Fb.txt", "each/in%2Fc.txt"] == [s for s in steps if "/" in s]
    assert [1, 2, 1] == [steps[step]["attempt"] for step in steps if "/" in step]
    assert "skip" == driver.plan()["each/in%2Fa.txt"][0]
    assert 4 == len(flow.starts("each"))
    assert ("completed", "completed") == (steps["each"]["status"], steps["after"]["status"])


def test_an_item_that_still_runs_is_followed(flow: Flow) -> None:
    """Items are recovered one by one, like steps."""
    for name in "ab":
        flow.file(f"in/{name}.txt")
    flow.write(ITEMS)
    driver = flow.run()
    flow.started("each")
    driver.kill()
    driver = flow.resume()
    assert "each/in%2Fa.txt" == driver.until("reattached")["step"]
    flow.file("gate-a")
    flow.file("gate-b")
    driver.end(0)
    assert 2 == len(flow.starts("each"))


def test_items_that_failed_run_again(flow: Flow) -> None:
    """Of a `foreach` that failed, only the items that did."""
    text = ITEMS.replace(wait("gate-{{ item | stem }}"), "test -e gate-{{ item | stem }}")
    flow.write(text.replace("    max_parallel: 1\n", "    on_failure: continue\n"))
    for name in "abc":
        flow.file(f"in/{name}.txt")
    flow.file("gate-b")
    flow.run().end(1)
    assert (3, 1) == (len(flow.starts("each")), len(flow.starts("after")))
    for name in "ac":
        flow.file(f"gate-{name}")
    flow.resume().end(0)
    assert (5, 1) == (len(flow.starts("each")), len(flow.starts("after")))
    assert "completed" == flow.status("each")


def test_a_half_declared_foreach_is_declared_again(flow: Flow) -> None:
    """A driver that died while it recorded the items: each item that is there at last runs once, and no other."""
    flow.write("""
name: fan
steps:
  - id: each
    foreach: {lines: items}
    max_parallel: 4
    run: "echo {{ item }} >> done"
""")
    flow.file("items", "".join(f"{number}\n" for number in range(20_000)))
    driver = flow.run()
    driver.until("start")
    with looking_into(flow) as steps:
        until(lambda: steps() > 1, "the first items")
        driver.signal(signal.SIGSTOP)
        assert 1 < steps() < 20_001, "the driver was too fast, or too slow"
    driver.kill_all()
    flow.file("items", "7\n8\n20001\n")
    flow.resume().end(0)
    assert ["20001", "7", "8"] == sorted(flow.lines("done"))
    assert ["each/7", "each/8", "each/20001"] == [step for step in flow.steps() if "/" in step]


@contextmanager
def looking_into(flow: Flow) -> Iterator[Callable[[], int]]:
    """How many steps are on record, asked without the cost of a command."""
    store = SqliteStore(str(flow.folder / ".leftoff"))
    row = store.read(lambda view: view.find_run("r"))
    assert row is not None
    try:
        yield lambda: len(store.read(lambda view: view.hashes(row.run, "step")))
    finally:
        store.close()


COMMAND = f"""
name: fan
steps:
  - id: each
    foreach: {{command: "{mark("find")}; {wait()}; cat items"}}
    run: "{mark("each")}"
"""


def test_the_command_of_a_foreach_is_followed(flow: Flow) -> None:
    """The command that finds the items is an attempt like any other."""
    flow.file("items", "a\nb\n")
    flow.write(COMMAND)
    driver = flow.run()
    flow.started("find")
    driver.kill()
    driver = flow.resume()
    driver.until("reattached", step="each")
    flow.file("gate")
    driver.end(0)
    assert (1, 2) == (len(flow.starts("find")), len(flow.starts("each")))
    assert ["each/a", "each/b"] == [step for step in flow.steps() if "/" in step]


def test_the_command_of_a_foreach_is_adopted(flow: Flow) -> None:
    """What it printed while nobody drove is taken."""
    flow.file("items", "a\nb\n")
    flow.write(COMMAND)
    driver = flow.run()
    flow.started("find")
    driver.kill()
    flow.file("gate")
    flow.gone()
    flow.resume().end(0)
    assert (1, 2) == (len(flow.starts("find")), len(flow.starts("each")))


# -- going back

LINE = f"""
name: line
steps:
  - id: a
    run: "{mark("a")}; echo n=$(cat starts.a | wc -l) >> $LEFTOFF_VARS"
  - id: b
    run: "{mark("b")}; echo {{{{ n }}}} > seen"
  - id: each
    foreach: {{glob: "in/*"}}
    run: "{mark("each")}"
  - id: c
    run: "{mark("c")}"
"""


def counts(flow: Flow) -> list[int]:
    return [len(flow.starts(name)) for name in ("a", "b", "each", "c")]


def test_from_step_does_it_and_every_later_one_again(flow: Flow) -> None:
    """It asks first, as finished steps would run again; the history is kept, and items are looked for anew."""
    flow.write(LINE)
    flow.file("in/x")
    flow.run().end(0)
    asked = flow.call("resume", "r", "--from-step", "b")
    assert 7 == asked.code and "b, each [in/x], c" in asked.err
    assert [1, 1, 1, 1] == counts(flow)
    (flow.folder / "in/x").unlink()
    for name in "yz":
        flow.file(f"in/{name}")
    flow.resume("--from-step", "b", "--yes").end(0)
    assert [1, 2, 3, 2] == counts(flow)
    assert ["each/in%2Fy", "each/in%2Fz"] == [step for step in flow.steps() if "/" in step]
    assert "rollback" in flow.triggers()
    assert ["completed", 100] == [flow.show()[key] for key in ("status", "percent")]


def test_from_an_item_does_that_item_and_the_later_ones_again(flow: Flow) -> None:
    """Going back into the middle of a `foreach` keeps its items."""
    flow.write(
        LINE.replace(
            'run: "echo $LEFTOFF_ATTEMPT >> starts.each"',
            'max_parallel: 1\n    run: "echo $LEFTOFF_ATTEMPT >> starts.each"',
        )
    )
    for name in "xyz":
        flow.file(f"in/{name}")
    flow.run().end(0)
    flow.file("in/w")
    flow.resume("--from-step", "each/in%2Fy", "--yes").end(0)
    assert [1, 1, 5, 2] == counts(flow)
    assert 3 == len([step for step in flow.steps() if "/" in step])


def test_from_step_recovers_what_else_was_in_flight(flow: Flow) -> None:
    """A step before the one that is named, and that ended well while nobody drove, is adopted; later ones are ended."""
    flow.write(f"""
name: two
steps:
  - id: a
    run: "{mark("a")}; {wait("gate-a")}"
  - id: b
    needs: []
    run: "{mark("b")}; {wait("gate-b")}"
""")
    driver = flow.run()
    flow.started("a")
    flow.started("b")
    driver.kill()
    flow.file("gate-a")
    until(lambda: (flow.attempt("a") / "exit").exists(), "the end of a")
    before = flow.processes()
    driver = flow.resume("--from-step", "b", "--yes")
    flow.started("b", 2)
    until(lambda: not set(before) & set(flow.processes()), "the end of what was in flight")
    flow.file("gate-b")
    driver.end(0)
    assert (1, 2) == (len(flow.starts("a")), len(flow.starts("b")))


def test_an_older_version_is_gone_back_to(flow: Flow) -> None:
    """In place, with the variables of that time, after asking; later versions can still be read."""
    flow.write(LINE)
    flow.file("in/x")
    flow.run().end(0)
    log = flow.succeed("log", "r", "--json").json["checkpoints"]
    after_a = next(c for c in log if c["step"] == "a")
    flow.succeed("set", "n=99", "--run", "r")
    asked = flow.call("resume", f"r@{after_a['seq']}")
    assert 7 == asked.code and "3 finished steps would run again" in asked.err
    assert [1, 1, 1, 1] == counts(flow)
    flow.drive("resume", f"r@{after_a['seq']}", "--yes").end(0)
    assert [1, 2, 2, 2] == counts(flow)
    assert "1\n" == (flow.folder / "seen").read_text()
    assert 99 == flow.succeed("show", f"r@{log[0]['seq'] + 1}", "--json").json["variables"]["n"]
    assert "completed" == flow.show()["status"]


def test_what_was_rolled_back_is_done_again(flow: Flow) -> None:
    """`rollback`, then resume: the run goes on from the version that it was taken back to."""
    flow.write(LINE)
    flow.file("in/x")
    flow.run().end(0)
    after_b = next(c for c in flow.succeed("log", "r", "--json").json["checkpoints"] if c["step"] == "b")
    flow.succeed("rollback", f"r@{after_b['seq']}", "--yes")
    flow.resume().end(0)
    assert [1, 1, 2, 2] == counts(flow)


def test_going_back_waits_for_what_it_needs(flow: Flow) -> None:
    """A rewind that cannot be followed by going on does not happen: here a secret is missing."""
    flow.write(LINE.replace("name: line", "name: line\nsecrets: [WORD]"))
    flow.file("in/x")
    flow.run(env={"WORD": "sesame-opens"}).end(0)
    before = flow.show()
    done = flow.call("resume", "r~2", "--yes")
    assert 7 == done.code and "WORD" in done.err
    assert before == flow.show()


def test_a_fork_is_a_run_of_its_own(flow: Flow) -> None:
    """A fork of a run that a runner drives is resumed like any run; what was in flight in the first stays there."""
    flow.write(LINE.replace('run: "echo $LEFTOFF_ATTEMPT >> starts.c"', f'run: "{mark("c")}; {wait()}"'))
    flow.file("in/x")
    driver = flow.run()
    flow.started("c")
    flow.succeed("fork", "r", "--branch", "other", "--run-id", "f")
    second = flow.drive("resume", "f")
    flow.started("c", 2)
    flow.file("gate")
    driver.end(0)
    second.end(0)
    assert [1, 1, 1, 2] == counts(flow)
    assert [1, 1] == [flow.steps(run)["c"]["attempt"] for run in ("r", "f")]
    assert ["completed", "completed"] == [flow.show(run)["status"] for run in ("r", "f")]


def test_removing_a_run_removes_what_its_steps_printed(flow: Flow) -> None:
    """Once the trash is empty, nothing of a removed run is left, and of other runs everything."""
    flow.write("name: w\nsteps:\n  - id: a\n    run: echo words\n")
    flow.run().end(0)
    flow.drive("run", "flow.yaml", "--run-id", "other").end(0)
    flow.succeed("rm", "r", "--yes")
    flow.succeed("prune", "--empty-trash")
    assert ["other"] == [path.name for path in (flow.folder / ".leftoff/attempts").iterdir()]
    assert "words\n" == flow.succeed("logs", "other", "a").out


def test_what_a_removal_left_behind_is_swept(flow: Flow) -> None:
    """Whoever removed a run may have died before it was done."""
    flow.write("name: w\nsteps:\n  - id: a\n    run: echo words\n")
    flow.run().end(0)
    flow.file(".leftoff/attempts/gone/0123456789abcdef/log", "words")
    store = leftoff.open(flow.folder / ".leftoff")
    store.sweep()
    store.close()
    assert ["r"] == [path.name for path in (flow.folder / ".leftoff/attempts").iterdir()]


def test_a_run_whose_step_still_runs_is_not_removed(flow: Flow) -> None:
    """Its driver is gone, but not its work."""
    flow.write(f"name: w\nsteps:\n  - id: a\n    run: '{mark('a')}; {wait()}'\n")
    driver = flow.run()
    flow.started("a")
    driver.kill()
    done = flow.call("rm", "r", "--yes")
    assert 5 == done.code and "leftoff stop r" in done.err
    flow.succeed("stop", "r")
    flow.succeed("rm", "r", "--yes")
    flow.succeed("prune", "--empty-trash")
    assert [] == list((flow.folder / ".leftoff/attempts").iterdir())
