"""What `run` says while it works: events for programs, lines for pipes, a display for terminals."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.workflow.flows import run, write

TEXT = """
name: shown
steps:
  - {id: a, title: The first, run: "echo out of a; echo err of a >&2", estimate: 2s}
  - {id: each, foreach: [x, y], run: "echo {{ item }} > {{ item }}.out", outputs: ["{{ item }}.out"]}
  - {id: skipped, when: "false", run: "true"}
  - {id: bad, run: "echo why; exit 4", retries: {max: 1, backoff: 0s}, on_failure: continue}
  - {id: z, run: "true"}
"""


def test_events(project: Path) -> None:
    """`--json`: one event per line, each with its time, the first `start`, the last `end` with the run; no output."""
    ran = run(project, TEXT, code=1)
    assert "" == ran.called.err
    events = ran.events
    assert ("start", "end") == (events[0]["event"], events[-1]["event"])
    assert all(event["at"].endswith("Z") for event in events[:-1])
    assert {"run_id": ran.id, "workflow": "shown", "resumed": False}.items() <= events[0].items()
    assert [
        ("step_start", "a"),
        ("step_done", "a"),
        ("step_done", "each"),
        ("step_skipped", "skipped"),
        ("step_start", "bad"),
        ("step_failed", "bad"),
        ("step_start", "bad"),
        ("step_failed", "bad"),
        ("step_start", "z"),
        ("step_done", "z"),
    ] == [
        told
        for told in ran.told("step_start", "step_done", "step_skipped", "step_failed")
        if "/" not in told[1]
    ]
    assert {"title": "The first", "attempt": 1, "estimate": 2.0}.items() <= ran.of("step_start")[0].items()
    assert (1, "failed") == (events[-1]["exit"], events[-1]["run"]["status"])
    shown = succeed("show", ran.id, "--json", cwd=project).json
    same = set(events[-1]["run"]) - {"updated_at"}
    assert {key: events[-1]["run"][key] for key in same} == {key: shown[key] for key in same}
    assert [] == ran.of("output")
    assert ["why"] == ran.of("step_failed")[-1]["tail"].splitlines()


def test_piped_text_is_a_line_per_event(project: Path) -> None:
    """Piped, each event is one line with its time, in plain text; what failed steps printed is on stderr."""
    write(project, TEXT)
    called = call("run", "flow.yaml", cwd=project)
    assert 1 == called.code
    lines = called.out.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  \S", line) for line in lines), called.out
    assert "\x1b" not in called.out + called.err
    text = called.out
    for said in (
        "started: 5 steps",
        "a: started, estimated 2",
        "each: 2 items",
        "each/x: done in ",
        "→ x.out",
        "skipped: skipped: its condition is false: false",
        "bad: failed, attempt 1: It ended with exit code 4; again in 0",
        "bad: started, attempt 2",
        "has failed: ",
    ):
        assert said in text, f"{said!r} is not in\n{text}"
    assert "out of a" not in called.out + called.err
    assert "bad │ why" in called.err
    run_id = lines[0].split()[1]
    assert f"leftoff logs {run_id} --failed" in called.err and f"leftoff resume {run_id}" in called.err


def test_a_reader_that_leaves_does_not_end_the_work(project: Path) -> None:
    """`leftoff run | head -1`: the run goes on to its end."""
    import os
    import subprocess

    from tests.cli.command import LEFTOFF, environment

    write(project, "name: pipe\nsteps:\n" + "".join(f"  - {{id: s{n}, run: 'true'}}\n" for n in range(8)))
    read, out = os.pipe()
    os.close(read)
    done = subprocess.run(
        [str(LEFTOFF), "run", "flow.yaml"], cwd=project, env=environment(), stdout=out, stderr=subprocess.PIPE
    )
    os.close(out)
    assert (0, b"") == (done.returncode, done.stderr)
    assert 8 == succeed("show", "latest", "--json", cwd=project).json["steps"]["completed"]


def test_on_a_terminal_the_output_of_steps_scrolls_by(project: Path) -> None:
    """On a terminal what steps print is shown with the step's name, and the end says how to continue."""
    write(project, TEXT)
    with Terminal("run", "flow.yaml", cwd=project, columns=100) as terminal:
        assert 1 == terminal.end(), terminal.shown
    shown = terminal.shown
    assert "out of a" in shown and "err of a" in shown
    assert "has failed" in shown and "continues from here" in shown
    assert "Traceback" not in shown


def test_a_terminal_is_asked_about_an_unfinished_run(project: Path) -> None:
    """On a terminal `run` asks what to do about an unfinished run, and does what is answered."""
    first = run(project, TEXT, code=1)
    with Terminal("run", "flow.yaml", cwd=project, columns=100) as terminal:
        terminal.expect("(r)esume")
        terminal.type("s\n")
        assert 1 == terminal.end(), terminal.shown
    assert "abandoned" == succeed("show", first.id, "--json", cwd=project).json["status"]
    with Terminal("run", "flow.yaml", cwd=project, columns=100) as terminal:
        terminal.expect("(r)esume")
        terminal.type("r\n")
        assert 1 == terminal.end(), terminal.shown
    assert "bad" in terminal.shown


def test_a_secret_is_asked_for_on_a_terminal(project: Path) -> None:
    """A secret that is not in the environment is asked for, is not shown while it is typed, and reaches the step."""
    write(
        project,
        "name: asks\nsecrets: [API_KEY]\nsteps: [{id: a, run: 'echo \"$API_KEY\" | wc -c > length'}]\n",
    )
    with Terminal("run", "flow.yaml", cwd=project, columns=100) as terminal:
        terminal.expect("API_KEY")
        terminal.type("wombat-7-eucalyptus\n")
        assert 0 == terminal.end(), terminal.shown
    assert "wombat" not in terminal.shown
    assert "20" == (project / "length").read_text().strip()
