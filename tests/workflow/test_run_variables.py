"""Run variables: what a step sets, what the next one sees, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.workflow.flows import lines, path_with_leftoff, run

TYPED = """\
word=hello
number=3
tag=1.10
flag=true
nothing=null
list=[1, "two"]
map={"a": 1}
equals=a=b=c
empty=
forced:="3"
blank=  two  words
at=@no-such-file
quoted="x"
word=the later line wins
"""


def test_lines_are_typed_as_set_does_it(project: Path) -> None:
    """`key=value` lines in LEFTOFF_VARS are typed as `leftoff set` types them; the later line wins."""
    (project / "typed").write_text(TYPED)
    ran = run(project, 'name: sets\nsteps: [{id: a, run: cat typed >> "$LEFTOFF_VARS"}]\n')
    assert {
        "word": "the later line wins",
        "number": 3,
        "tag": "1.10",
        "flag": True,
        "nothing": None,
        "list": [1, "two"],
        "map": {"a": 1},
        "equals": "a=b=c",
        "empty": "",
        "forced": "3",
        "blank": "  two  words",
        "at": "@no-such-file",
        "quoted": '"x"',
    } == ran.variables()


def test_json_lines_set_several(project: Path) -> None:
    """A line that is a JSON object sets each of its keys, whole."""
    (project / "more").write_text('{"a": {"deep": [1, {"x": null}]}, "b": "ü\\n"}\n{"c": 1.5}\nd=4\n')
    ran = run(project, 'name: sets\nsteps: [{id: a, run: cat more >> "$LEFTOFF_VARS"}]\n')
    assert {"a": {"deep": [1, {"x": None}]}, "b": "ü\n", "c": 1.5, "d": 4} == ran.variables()


@pytest.mark.parametrize("line", ["no equals sign", "{not json}", "=3", '{"a": NaN}', "bad:={"])
def test_a_line_that_cannot_be_read_fails_the_step(project: Path, line: str) -> None:
    """A bad line is the step's failure, names the line, and nothing that stood beside it is kept."""
    (project / "bad").write_text(f"fine=1\n{line}\n")
    ran = run(project, 'name: sets\nsteps: [{id: a, run: cat bad >> "$LEFTOFF_VARS"}]\n', code=1)
    assert {} == ran.variables()
    error = ran.steps()["a"]["error"]
    assert "invalid" == error["type"] and "2: " in error["message"], error


def test_the_next_steps_see_them(project: Path) -> None:
    """What a step set is there for templates of those that run later, in place of what the file or the command said."""
    ran = run(
        project,
        """
        name: sees
        vars: {a: file, b: file, c: file, deep: {list: [1, 2]}}
        steps:
          - {id: before, run: "echo {{ a }} {{ b }} {{ c }} {{ deep.list[1] }} > before"}
          - {id: sets, run: 'echo c=step >> "$LEFTOFF_VARS"; echo "new={{ b }}-new" >> "$LEFTOFF_VARS"'}
          - {id: after, run: "echo {{ a }} {{ b }} {{ c }} {{ new }} > after"}
        """,
        "--var",
        "b=given",
        "--var",
        'deep={"list": [0, 7]}',
    )
    assert ["file given file 7"] == lines(project, "before")
    assert ["file given step given-new"] == lines(project, "after")
    assert {"a": "file", "b": "given", "c": "step", "new": "given-new", "deep": {"list": [0, 7]}} == (
        ran.variables()
    )


def test_many_steps_at_once_set_theirs(project: Path) -> None:
    """Steps that end together all have their variables seen by the one that needs them."""
    steps = "\n".join(
        f"  - {{id: s{n}, needs: [], run: 'echo v{n}={n} >> \"$LEFTOFF_VARS\"', checks: ['true']}}"
        for n in range(12)
    )
    names = ", ".join(f"s{n}" for n in range(12))
    values = " ".join(f"{{{{ v{n} }}}}" for n in range(12))
    last = f"  - {{id: last, needs: [{names}], run: 'echo {values} > all'}}"
    run(project, f"name: many\nmax_parallel: 12\nsteps:\n{steps}\n{last}\n")
    assert [" ".join(map(str, range(12)))] == lines(project, "all")


def test_of_a_failed_attempt_nothing_is_kept_but_what_it_committed(project: Path) -> None:
    """What a failed attempt wrote to LEFTOFF_VARS is discarded; what it set with `leftoff set` stays."""
    ran = run(
        project,
        """
        name: discards
        vars: {old: 1}
        steps:
          - id: a
            retries: {max: 1, backoff: 0s}
            run: |
              if [ -e once ]; then echo second=2 >> "$LEFTOFF_VARS"; exit 0; fi
              touch once
              echo first=1 >> "$LEFTOFF_VARS"; echo old=9 >> "$LEFTOFF_VARS"
              leftoff set committed=3
              exit 1
          - {id: b, run: "echo {{ old }} {{ second }} {{ committed }} > seen"}
        """,
        PATH=path_with_leftoff(),
    )
    assert {"old": 1, "second": 2, "committed": 3} == ran.variables()
    assert ["1 2 3"] == lines(project, "seen")


def test_what_a_step_sets_with_the_command_is_seen_by_the_next(project: Path) -> None:
    """`leftoff set` inside a step commits at once; the next step's templates have the new value."""
    run(
        project,
        """
        name: command
        vars: {x: old}
        steps:
          - {id: a, run: "echo {{ x }} >> seen; leftoff set x=new"}
          - {id: b, run: "echo {{ x }} >> seen; test \\"$(leftoff get x)\\" = new"}
        """,
        PATH=path_with_leftoff(),
    )
    assert ["old", "new"] == lines(project, "seen")


def test_only_what_shall_persist_does(project: Path) -> None:
    """`variables_to_persist`: of what this step set only those are kept; earlier ones are untouched."""
    ran = run(
        project,
        """
        name: persist
        vars: {earlier: 1, changed: 1}
        steps:
          - id: a
            run: printf '%s\\n' kept=2 dropped=2 changed=2 >> "$LEFTOFF_VARS"
            checkpoint: {variables_to_persist: [kept, never_set]}
          - id: b
            run: echo none=3 >> "$LEFTOFF_VARS"
            checkpoint: {variables_to_persist: []}
          - {id: c, run: echo all=4 >> "$LEFTOFF_VARS"}
        """,
    )
    assert {"earlier": 1, "changed": 1, "kept": 2, "all": 4} == ran.variables()


def test_a_value_is_one_word_whatever_is_in_it(project: Path) -> None:
    """A variable with quotes, blanks and `; rm -rf` in it reaches a command as one argument, and runs nothing."""
    (project / "precious").touch()
    nasty = '\'; rm -rf precious; echo "$(rm precious)" `rm precious` \\ \n* $HOME'
    ran = run(
        project,
        """
        name: quotes
        steps:
          - {id: bare, run: "printf '%s' {{ nasty }} > bare"}
          - {id: double, run: "printf '%s' \\"<{{ nasty }}>\\" > double"}
          - {id: single, run: "printf '%s' '<{{ nasty }}>' > single"}
          - {id: by-env, env: {IT: "{{ nasty }}"}, run: "printf '%s' \\"$IT\\" > by-env"}
          - {id: handed-on, run: "printf 'nasty2:=%s\\n' {{ nasty | tojson }} >> $LEFTOFF_VARS"}
          - {id: raw, run: "echo {{ command | raw }}"}
        """,
        "--var",
        "nasty:=" + json.dumps(nasty),
        "--var",
        "command=raw > raw",
    )
    assert [nasty, f"<{nasty}>", f"<{nasty}>", nasty, "raw\n"] == [
        (project / name).read_text() for name in ("bare", "double", "single", "by-env", "raw")
    ]
    assert nasty == ran.variables()["nasty2"]
    assert (project / "precious").exists()


def test_a_variable_that_nobody_sets_is_an_error(project: Path) -> None:
    """An undefined variable is found before anything runs where it can be; where it cannot, its step fails."""
    ran = run(
        project,
        """
        name: undefined
        vars: {project_name: demo}
        steps:
          - {id: a, run: touch ran}
          - {id: b, run: "echo {{ projct_name }}"}
        """,
        code=None,
    )
    assert ran.code in (1, 2)
    said = ran.called.out + ran.called.err
    assert "projct_name" in said and "project_name" in said
    if ran.code == 2:
        assert not (project / "ran").exists()


def test_a_large_variable(project: Path) -> None:
    """A variable of thousands of entries is kept entry by entry, and the steps that use it do not mind."""
    (project / "big.py").write_text(
        "import json, os\n"
        "open(os.environ['LEFTOFF_VARS'], 'a').write(json.dumps({'big': [{'n': n} for n in range(5000)]}) + '\\n')\n"
    )
    ran = run(
        project,
        """
        name: large
        steps:
          - {id: a, run: python3 big.py}
          - {id: b, run: "echo {{ big | length }} {{ big[4999].n }} > seen"}
        """,
    )
    assert ["5000 4999"] == lines(project, "seen")
    assert 5000 == len(json.loads(succeed("get", "big", "--run", ran.id, cwd=project).out))
