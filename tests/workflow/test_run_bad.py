"""What goes wrong, and what is said then: definitions, files, commands, output without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.workflow.flows import refused, run, write

WRONG = [
    ("cycle", "steps: [{id: a, needs: [c], run: x}, {id: b, run: x}, {id: c, run: x}]", ["a", "c", "->"]),
    ("not yaml", "steps: [{id: a, run: 'x'", ["flow.yaml:"]),
    ("tab", "steps:\n\t- {id: a, run: x}", ["flow.yaml:3:1"]),
    ("unknown key", "steps: [{id: a, runn: x}]", ["flow.yaml:2:17", "runn", "run"]),
    ("bad template", "steps: [{id: a, run: 'echo {{ x'}]", ["flow.yaml:2"]),
]


@pytest.mark.parametrize(("text", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_definition_starts_nothing(project: Path, text: str, said: list[str]) -> None:
    """Exit 2, the place and the word are named, and no run, no store is made."""
    called = refused(project, f"name: wrong\n{text}\n", code=2)
    assert all(word in called.err for word in said), called.err
    assert "" == called.out
    assert not (project / ".leftoff").exists()
    document = call("run", "flow.yaml", "--json", cwd=project).json
    assert "bad_definition" == document["error"]["code"]


def test_a_file_that_is_not_there(project: Path) -> None:
    """No such file: exit 3, by name; a folder, too; an empty file is a wrong definition."""
    called = call("run", "no-such.yaml", cwd=project)
    assert 3 == called.code and "no-such.yaml" in called.err
    assert 3 == call("run", ".", cwd=project).code
    (project / "empty.yaml").touch()
    assert 2 == call("run", "empty.yaml", cwd=project).code


@pytest.mark.parametrize(
    "words", [["--resume", "--fresh"], ["--max-parallel", "0"], ["--var", "x"], ["extra"]]
)
def test_wrong_words(project: Path, words: list[str]) -> None:
    """Options that contradict each other or make no sense: exit 2, and nothing is started."""
    refused(project, "name: words\nsteps: [{id: a, run: touch ran}]\n", *words, code=2)
    assert not (project / "ran").exists()


def test_a_step_that_prints_without_end(project: Path) -> None:
    """5 MB of output are kept in the log, whole, and hold nothing up; the record has the last lines only."""
    ran = run(
        project,
        """
        name: prints
        steps:
          - {id: a, run: "(yes 0123456789abcdef || :) | head -c 5000000; echo; echo the last line; exit 1"}
        """,
        code=1,
    )
    (log,) = (project / ".leftoff/attempts").rglob("log")
    assert 5_000_000 < log.stat().st_size < 5_100_000
    error = ran.steps()["a"]["error"]
    assert "the last line" == error["tail"].splitlines()[-1]
    assert len(error["tail"]) < 10_000


def test_a_line_without_end(project: Path) -> None:
    """Megabytes without a line's end are kept as well, and NUL and other bytes that are no text do no harm."""
    ran = run(
        project,
        """
        name: prints
        steps:
          - {id: a, run: "head -c 3000000 /dev/zero | tr '\\\\0' x; printf '\\\\000\\\\377\\\\033[31m'; exit 1"}
        """,
        code=1,
    )
    assert "failed" == ran.statuses()["a"]
    (log,) = (project / ".leftoff/attempts").rglob("log")
    assert 3_000_000 < log.stat().st_size


def test_a_step_that_closes_its_output(project: Path) -> None:
    """A step without stdout and stderr still runs to its own end, and its exit code counts."""
    ran = run(
        project,
        """
        name: closes
        steps:
          - {id: a, run: "exec >&- 2>&-; sleep 0.2; touch ran"}
          - {id: b, run: "exec >&- 2>&-; exit 6", on_failure: continue}
        """,
        code=1,
    )
    assert (project / "ran").exists()
    assert 6 == ran.steps()["b"]["error"]["exit_code"]


def test_a_command_that_cannot_be_executed(project: Path) -> None:
    """Not there, not executable, no such shell or folder: the step fails, and it is said which."""
    (project / "not-executable").write_text("echo")
    ran = run(
        project,
        """
        name: cannot
        defaults: {on_failure: continue}
        steps:
          - {id: a, run: no-such-command}
          - {id: b, run: ./not-executable}
          - {id: c, shell: [no-such-shell, -c], run: x}
          - {id: d, shell: no-such-shell, run: x}
          - {id: e, cwd: flow.yaml, run: x}
          - {id: f, agent: claude, prompt: do it}
        """,
        code=1,
    )
    said = ("command not found", "ermission denied", "no-such-shell", "no-such-shell", "flow.yaml")
    errors = [step["error"] for step in ran.steps().values()]
    for error, words in zip(errors, (*said, "claude cannot be started"), strict=True):
        assert words in error["message"] + error.get("tail", ""), error


def test_a_template_that_fails_when_it_is_rendered(project: Path) -> None:
    """A name that only a run can know and that nobody set: its step fails without a try, and others are named."""
    ran = run(
        project,
        """
        name: late
        vars: {report_path: x}
        steps:
          - id: a
            run: echo other=1 >> $LEFTOFF_VARS
            checkpoint: {variables_to_persist: [other, reprt_path, nothing_here, not_there]}
          - {id: b, run: "echo {{ reprt_path }}", retries: 3, on_failure: continue}
          - {id: c, run: "echo {{ results.a.name }}", on_failure: continue}
          - {id: d, run: "echo fine", outputs: ["{{ nothing_here }}"], on_failure: continue}
          - {id: e, foreach: "{{ not_there }}", run: "true", on_failure: continue}
          - {id: f, run: touch reached}
        """,
        code=1,
    )
    steps = ran.steps()
    assert ["completed", "failed", "failed", "failed", "failed", "completed"] == [
        steps[path]["status"] for path in "abcdef"
    ]
    message = steps["b"]["error"]["message"]
    assert "reprt_path" in message and "report_path" in message
    assert steps["b"]["attempt"] is None  # nothing was tried, and trying again would not help
    assert "nothing_here" in steps["d"]["error"]["message"]


def test_a_value_that_no_command_line_can_hold(project: Path) -> None:
    """A NUL in a value cannot be an argument: the step fails and says so."""
    ran = run(
        project,
        'name: nul\nvars: {x: "a\\0b"}\nsteps: [{id: a, run: "echo {{ x }}"}]\n',
        code=None,
    )
    assert ran.code in (1, 2)
    assert "Traceback" not in ran.called.err


def test_a_store_that_cannot_be_made(project: Path) -> None:
    """Where the store cannot be, nothing runs: exit 8 with the place."""
    write(project, "name: store\nsteps: [{id: a, run: touch ran}]\n")
    (project / ".leftoff").write_text("a file")
    called = call("run", "flow.yaml", cwd=project)
    assert called.code in (4, 8) and ".leftoff" in called.err
    assert not (project / "ran").exists()
    (project / ".leftoff").unlink()


def test_the_definition_may_be_anywhere(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file outside of the project works in the project."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "flow.yaml").write_text("name: elsewhere\nsteps: [{id: a, run: pwd > where}]\n")
    succeed("run", str(elsewhere / "flow.yaml"), cwd=project)
    assert str(project) == (project / "where").read_text().strip()


def test_everything_of_the_issue_in_one_definition(project: Path) -> None:
    """`step:` for `id:`, `type:`, titles, estimates, phases, items, conditions, checks and criteria work together."""
    (project / "src/deep").mkdir(parents=True)
    for name in ("a", "deep/b c"):
        (project / f"src/{name}.pdf").write_text(name)
    (project / "tools").mkdir()
    (project / "tools/index.py").write_text("def build():\n    return {'pages': 2}\n")
    ran = run(
        project,
        """
        name: dev-story
        description: Implement one story
        vars: {project_name: demo, reviewers: [ada, bob]}
        requires: {tools: [sh], env: [HOME], paths: [tools/]}
        defaults: {retries: 1, timeout: 30m}
        max_parallel: 4
        steps:
          - step: research
            type: research
            run: mkdir -p reports && echo {{ project_name }} > reports/research.json
            outputs: [reports/research.json]
            estimate: 5m
          - id: implementation
            steps:
              - id: convert
                foreach: {glob: "src/**/*.pdf"}
                as: pdf
                run: mkdir -p out; cat {{ pdf }} > out/{{ pdf | stem }}.md
                outputs: ["out/{{ pdf | stem }}.md"]
                max_parallel: 8
                retries: {max: 3, backoff: 2s, factor: 2, jitter: true}
                on_failure: continue
              - {id: index, needs: [], python: "tools.index:build"}
          - id: publish
            needs: [implementation]
            when: "{{ failed('implementation/convert') == 0 }}"
            run: cat ../{{ outputs.research[0] }} > index.html; echo $SITE >> index.html
            env: {SITE: "{{ reviewers[0] }}"}
            cwd: tools
            idempotent: false
            checks: ["test -s tools/index.html"]
            criteria: {"2_files_created": "test $(ls out/*.md | wc -l) -eq 2"}
        """,
    )
    assert {"completed"} == set(ran.statuses().values())
    assert "demo\nada\n" == (project / "tools/index.html").read_text()
    assert {"out/a.md", "out/b c.md", "reports/research.json"} == {a["path"] for a in ran.show()["artifacts"]}
    assert ran.show()["records"]["criterion"]["2_files_created"]["met"] is True
