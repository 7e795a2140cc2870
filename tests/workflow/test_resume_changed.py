"""A definition that changed while its run rested, and what was never stored: asked about, or said, or taken."""

from __future__ import annotations

from tests.workflow.driving import Flow, mark, wait

THREE = f"""
name: three
steps:
  - id: a
    run: "{mark("a")}"
  - id: b
    run: "{mark("b")}; test -e good"
  - id: c
    run: "{mark("c")}"
"""


def half_done(flow: Flow, text: str = THREE) -> None:
    """A run whose first step is done and whose second one failed."""
    flow.write(text)
    flow.run().end(1)
    flow.file("good")


def starts(flow: Flow, names: str = "abc") -> list[int]:
    return [len(flow.starts(name)) for name in names]


# -- later steps


def test_steps_that_are_not_done_may_change(flow: Flow) -> None:
    """It is said, and the run goes on under the new definition."""
    half_done(flow)
    flow.write(THREE.replace("test -e good", "echo better"))
    driver = flow.resume()
    driver.end(0)
    assert ["changed: b." in told["message"] for told in driver.of("warning")] == [True]
    assert "better\n" == flow.succeed("logs", "r", "b").out
    assert [1, 2, 1] == starts(flow)


def test_new_steps_are_done_and_removed_ones_are_not(flow: Flow) -> None:
    """Steps that were added are part of the run from now on; those that were removed before they were done are gone."""
    half_done(flow)
    text = THREE.replace("- id: c", "- id: x\n    needs: []\n    title: Ex").replace("starts.c", "starts.x")
    flow.write(text + f'  - id: y\n    run: "{mark("y")}"\n')
    driver = flow.resume()
    driver.end(0)
    message = driver.of("warning")[0]["message"]
    assert "new: x, y" in message and "removed: c" in message
    assert [1, 2, 0, 1, 1] == starts(flow, "abcxy")
    shown = flow.show()
    assert ["a", "b", "x", "y"] == [record["step"] for record in shown["step_records"]]
    assert ("completed", 100, 4) == (shown["status"], shown["percent"], shown["steps"]["total"])


def test_a_failed_step_that_was_removed_is_gone(flow: Flow) -> None:
    """Its failure is no part of the run any more."""
    half_done(flow)
    flow.write(THREE.replace(f'  - id: b\n    run: "{mark("b")}; test -e good"\n', ""))
    flow.resume().end(0)
    shown = flow.show()
    assert ["a", "c"] == [record["step"] for record in shown["step_records"]]
    assert "completed" == shown["status"] and not shown["records"].get("error")


def test_a_step_that_runs_and_was_removed_is_ended(flow: Flow) -> None:
    """Nobody waits for it any more, so it must not run on."""
    text = THREE.replace("test -e good", wait())
    flow.write(text)
    driver = flow.run()
    flow.started("b")
    driver.kill()
    flow.write(text.replace(f'  - id: b\n    run: "{mark("b")}; {wait()}"\n', ""))
    flow.resume().end(0)
    assert ["a", "c"] == list(flow.steps())


def test_a_foreach_that_was_removed_takes_its_items_along(flow: Flow) -> None:
    """Items that were not done are gone with it."""
    fan = f"""
name: fan
steps:
  - id: each
    foreach: [1, 2, 3]
    max_parallel: 1
    run: "{mark("each")}; test $(cat starts.each | wc -l) -ne 1"
  - id: last
    run: "{mark("last")}"
"""
    half_done(flow, fan)
    flow.write(f"""
name: fan
steps:
  - id: last
    run: "{mark("last")}"
""")
    flow.resume().end(0)
    assert ["last"] == list(flow.steps())
    assert "completed" == flow.show()["status"]


def test_a_question_that_changed_is_asked_anew(flow: Flow) -> None:
    """What waits for a person shows what the definition says now."""
    text = "name: ask\nsteps:\n  - id: ok\n    approval: Is it good?\n"
    flow.write(text)
    flow.run().end(7)
    flow.write(text.replace("Is it good?", "{ask: Is it better?, options: [fine, reject]}"))
    driver = flow.resume()
    driver.end(7)
    assert [["fine", "reject"]] == [told["options"] for told in driver.of("waiting")]
    flow.succeed("approve", "r", "ok", "--choice", "fine")
    flow.resume().end(0)


# -- finished steps


def changed_first(flow: Flow) -> None:
    half_done(flow)
    flow.write(THREE.replace('starts.a"', 'starts.a; echo other"'))


def test_a_finished_step_that_changed_is_asked_about(flow: Flow) -> None:
    """Would it still be done? Nobody here can know."""
    changed_first(flow)
    before = flow.show()
    done = flow.call("resume", "r")
    assert 7 == done.code and "--accept definition.changed" in done.err
    assert " --from-step " in done.err
    assert " a." in done.err
    assert before == flow.show()


def test_accepting_it_goes_on(flow: Flow) -> None:
    """Finished is finished; and the next resume does not ask again."""
    changed_first(flow)
    flow.resume("--accept", "definition.changed").end(0)
    assert [1, 2, 1] == starts(flow)


def test_a_finished_step_that_was_removed_is_asked_about(flow: Flow) -> None:
    """So is one that the definition does not have any more; it stays in the records."""
    half_done(flow)
    flow.write(THREE.replace(f'  - id: a\n    run: "{mark("a")}"\n', ""))
    assert 7 == flow.call("resume", "r").code
    flow.resume("--yes").end(0)
    assert ["a", "b", "c"] == list(flow.steps())


def test_how_a_step_is_tried_may_change(flow: Flow) -> None:
    """Timeouts, retries, titles and comments do not change what was done."""
    half_done(flow)
    flow.write(
        "# better\n" + THREE.replace("- id: a", "- id: a\n    timeout: 5m\n    retries: 2\n    title: First")
    )
    driver = flow.resume()
    driver.end(0)
    assert not driver.of("warning")


def test_a_step_that_is_in_flight_counts_as_done(flow: Flow) -> None:
    """What an earlier driver started under another definition is not taken for the new one without asking."""
    text = THREE.replace("test -e good", wait())
    flow.write(text)
    driver = flow.run()
    flow.started("b")
    driver.kill()
    flow.write(text.replace(wait(), f"{wait()}; echo more"))
    assert 7 == flow.call("resume", "r").code
    driver = flow.resume("--restart", "--yes")
    flow.started("b", 2)
    flow.file("gate")
    driver.end(0)
    assert "more\n" == flow.succeed("logs", "r", "b").out


def test_items_that_are_done_count_too(flow: Flow) -> None:
    """A `foreach` of which some items are done is in part finished."""
    text = f"""
name: fan
steps:
  - id: each
    foreach: [1, 2]
    max_parallel: 1
    run: "{mark("each")}; test {{{{ item }}}} -eq 1"
"""
    flow.write(text)
    flow.run().end(1)
    flow.write(text.replace("-eq 1", "-gt 0"))
    assert 7 == flow.call("resume", "r").code
    flow.resume("--yes").end(0)
    assert 3 == len(flow.starts("each"))


# -- the file itself


def test_without_its_file_the_runs_own_copy_is_used(flow: Flow) -> None:
    """A run remembers the definition that it was started from."""
    half_done(flow)
    (flow.folder / "flow.yaml").unlink()
    driver = flow.resume()
    driver.end(0)
    assert ["flow.yaml is gone; the run's own copy of it is used."] == [
        told["message"] for told in driver.of("warning")
    ]
    assert [1, 2, 1] == starts(flow)


def test_a_file_that_became_wrong_changes_nothing(flow: Flow) -> None:
    """A definition with an error in it is told with its place, and the run stays as it is."""
    half_done(flow)
    before = flow.show()
    flow.write(THREE.replace("- id: c\n    run", "- id: c\n    runn"))
    done = flow.call("resume", "r")
    assert 2 == done.code and "flow.yaml:9:5" in done.err
    assert before == flow.show()


# -- what was never stored

SECRET = f"""
name: secret
vars: {{word: plain}}
steps:
  - id: a
    run: "{mark("a")}; test {{{{ api_key }}}} = $(rev key)"
  - id: b
    run: "{mark("b")}; test -e good; echo {{{{ word }}}}"
"""


def test_a_secret_variable_is_asked_for_again(flow: Flow) -> None:
    """A variable whose value was redacted must be given again where a step that is left needs it; --yes is no value."""
    flow.file("key", "hunter2-and-more"[::-1])
    flow.write(SECRET.replace("test {{ api_key }}", "test -e good; test {{ api_key }}"))
    flow.run("--var", "api_key=hunter2-and-more").end(1)
    flow.file("good")
    done = flow.call("resume", "r", "--yes")
    assert 7 == done.code and "--var api_key=" in done.err
    flow.resume("--var", "api_key=hunter2-and-more").end(0)
    for path in (flow.folder / ".leftoff").rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_a_secret_variable_that_nobody_needs_any_more_is_not(flow: Flow) -> None:
    """Once the steps that use it are done, it is not asked for."""
    flow.file("key", "hunter2-and-more"[::-1])
    flow.write(SECRET)
    flow.run("--var", "api_key=hunter2-and-more").end(1)
    flow.file("good")
    flow.resume().end(0)
    assert [1, 2] == starts(flow, "ab")


def test_secrets_are_asked_for_again(flow: Flow) -> None:
    """What the workflow takes from the environment must be there again on resume."""
    text = THREE.replace("name: three", "name: three\nsecrets: [TOKEN]")
    flow.write(text.replace("test -e good", "test -e good; test $TOKEN"))
    flow.run(env={"TOKEN": "x-y-z-secret"}).end(1)
    flow.file("good")
    before = flow.show()
    done = flow.call("resume", "r")
    assert 7 == done.code and "TOKEN" in done.err
    assert before == flow.show()
    flow.resume(env={"TOKEN": "x-y-z-secret"}).end(0)


def test_variables_given_on_resume_count(flow: Flow) -> None:
    """`--var` sets a variable for the steps that are left."""
    flow.write(SECRET.replace("test {{ api_key }} = $(rev key)", "true"))
    flow.run().end(1)
    flow.file("good")
    flow.resume("--var", "word=fresh").end(0)
    assert "fresh\n" == flow.succeed("logs", "r", "b").out
    assert "fresh" == flow.show()["variables"]["word"]


def test_variables_given_at_the_start_are_known_ever_after(flow: Flow) -> None:
    """A variable that only `--var` gave need not be given again, neither to `resume` nor to `run --resume`."""
    flow.write(
        f"name: w\nsteps:\n  - id: a\n    run: '{mark('a')}; test {{{{ word }}}} -eq $(cat starts.a | wc -l)'\n"
    )
    flow.run("--var", "word=4").end(1)
    assert 2 == flow.call("run", "flow.yaml", "--fresh").code
    flow.resume().end(1)
    flow.drive("run", "flow.yaml", "--resume").end(1)
    flow.drive("run", "flow.yaml", "--yes").end(0)


def test_a_definition_with_a_secret_in_it_is_resumed_from_its_file(flow: Flow) -> None:
    """A text that holds a secret is not stored: the file is needed, and that it changed cannot be told in detail."""
    text = THREE.replace("test -e good", "test -e good; export AWS_SECRET=AKIAIOSFODNN7EXAMPLQ")
    half_done(flow, text)
    (flow.folder / "flow.yaml").rename(flow.folder / "away")
    done = flow.call("resume", "r")
    assert 6 == done.code and "flow.yaml" in done.err
    flow.write(text.replace("starts.c", "starts.x"))
    assert 7 == flow.call("resume", "r").code
    flow.resume("--accept", "definition.changed").end(0)
    assert [1, 2, 0, 1] == starts(flow, "abcx")


def test_what_is_required_is_looked_for_again(flow: Flow) -> None:
    """Tools, variables and paths that the workflow needs are looked for before it goes on."""
    flow.file("tools/x")
    half_done(flow, THREE.replace("name: three", "name: three\nrequires: {paths: [tools/x]}"))
    (flow.folder / "tools/x").unlink()
    assert 7 == flow.call("resume", "r").code
    assert [1, 1, 0] == starts(flow)
    flow.resume("--yes").end(0)
