"""`foreach`: where the items come from, what they are called, and what they amount to."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.command import call, succeed
from tests.workflow.flows import lines, run

ODD = [
    "with blank",
    "a/b/c",
    "ünïcode-日本",
    'it\'s "quoted" $(touch pwned) `touch pwned`; touch pwned',
    "-n",
    "100%",
    "x" * 3000,
    "",
    "two\nlines",
    "..",
    "#",
]


SOURCES = {
    "[a, b, c]": ["a", "b", "c"],
    "['{{ first }}', b]": ["one", "b"],
    "names": ["one", "two"],
    '"{{ names }}"': ["one", "two"],
    '"{{ names | reverse | list }}"': ["two", "one"],
    "{variable: names}": ["one", "two"],
    '{glob: "in/*.txt"}': ["in/a b.txt", "in/b.txt"],
    '{glob: "in/**/*.md"}': ["in/deep/er/c.md"],
    '{lines: "list-{{ first }}"}': ["eins", "  zwei ", "drei"],
    "{command: \"printf '%s\\\\n' {{ first }} 'x y' ''\"}": ["one", "x y"],
    "[]": [],
    '{glob: "nothing/*", allow_empty: true}': [],
    '{command: "true"}': [],
}


def test_items_come_from(project: Path) -> None:
    """A list, a variable, an expression, files, lines or a command: in that order, and no item is no error."""
    (project / "in/deep/er").mkdir(parents=True)
    for name in ("in/b.txt", "in/a b.txt", "in/deep/er/c.md"):
        (project / name).touch()
    (project / "list-one").write_text("eins\n\n  zwei \r\ndrei")
    steps = "".join(
        f"""
  - id: each{n}
    foreach: {source}
    as: it
    run: printf '%s\\n' {{{{ it }}}} >> trace{n}
  - {{id: after{n}, run: "echo {{{{ completed('each{n}') }}}} > after{n}"}}"""
        for n, source in enumerate(SOURCES)
    )
    head = "name: fan\nvars: {first: one, names: [one, two]}\nmax_parallel: 1\nsteps:"
    ran = run(project, head + steps + "\n")
    statuses = ran.statuses()
    for n, (source, expected) in enumerate(SOURCES.items()):
        assert expected == lines(project, f"trace{n}"), source
        assert [str(len(expected))] == lines(project, f"after{n}"), source
        assert "completed" == statuses[f"each{n}"], source
    found = [(event["step"], event["items"]) for event in ran.of("foreach")]
    assert [(f"each{n}", len(expected)) for n, expected in enumerate(SOURCES.values())] == found


def test_a_mapping_gives_its_keys_and_values(project: Path) -> None:
    """The items of a mapping have a `key` and a `value`, and are called by their key."""
    ran = run(
        project,
        """
        name: fan
        vars: {ages: {ada: 36, bob: 7}}
        max_parallel: 1
        steps:
          - {id: each, foreach: ages, run: "echo {{ item.key }}={{ item.value }} >> trace"}
        """,
    )
    assert ["ada=36", "bob=7"] == lines(project, "trace")
    assert ["each", "each/ada", "each/bob"] == list(ran.statuses())


def test_items_of_every_type_keep_it(project: Path) -> None:
    """Numbers, flags, nothing, lists and mappings reach the step as what they are; a mapping is called by its name."""
    items = [3, 2.5, True, None, ["a", "b c"], {"name": "n1", "size": 4}, {"size": 5}]
    ran = run(
        project,
        f"""
        name: fan
        vars: {{things: {json.dumps(items)}}}
        max_parallel: 1
        steps:
          - {{id: each, foreach: things, run: "printf '%s\\\\n' {{{{ item | tojson }}}} >> trace"}}
        """,
    )
    assert items == [json.loads(line) for line in lines(project, "trace")]
    steps = ran.steps()
    assert ["each", "each/3", "each/2.5", "each/3#2", "each/4", "each/5", "each/n1", "each/7"] == list(steps)
    assert items == [record["item"] for path, record in steps.items() if path != "each"]


def test_items_of_odd_names(project: Path) -> None:
    """Whatever an item is, it has a step of its own, reaches the command as it is, and can be asked for."""
    ran = run(
        project,
        f"""
        name: fan
        vars: {{odd: {json.dumps(ODD)}}}
        steps:
          - id: each
            foreach: odd
            run: printf '%s\\0' {{{{ item }}}} > "out.$LEFTOFF_ATTEMPT"; echo "$LEFTOFF_STEP" > "step.$LEFTOFF_ATTEMPT"
            outputs: []
        """,
    )
    got = sorted(path.read_text().removesuffix("\0") for path in project.glob("out.*"))
    assert sorted(ODD) == got
    assert not (project / "pwned").exists()
    paths = [path for path in ran.statuses() if path != "each"]
    assert len(ODD) == len(paths) == ran.run["steps"]["completed"]
    assert sorted(paths) == sorted(p.read_text().removesuffix("\n") for p in project.glob("step.*"))
    assert "each/a%2Fb%2Fc" in paths and "each/with blank" in paths


def test_equal_items_are_steps_of_their_own(project: Path) -> None:
    """An item that is there twice is done twice."""
    ran = run(
        project,
        """
        name: fan
        steps:
          - {id: each, foreach: [a, a, "a#2", b, a], run: echo "$LEFTOFF_STEP" >> trace}
        """,
    )
    expected = ["each/a", "each/a#2", "each/a#2#2", "each/a#3", "each/b"]
    assert expected == sorted(lines(project, "trace"))
    assert ["each", "each/a", "each/a#2", "each/a#2#2", "each/b", "each/a#3"] == list(ran.statuses())


def test_a_file_whose_name_is_no_text(project: Path) -> None:
    """A name that is not UTF-8 cannot be recorded: said by name, and nothing runs under a wrong one."""
    with open(os.fsencode(project / "in-") + b"\xff.txt", "w"):
        pass
    ran = run(
        project,
        """
        name: fan
        steps:
          - {id: each, foreach: {glob: "in-*"}, run: touch ran}
        """,
        code=1,
    )
    (failed,) = ran.of("step_failed")
    assert "each" == failed["step"] and "UTF-8" in failed["error"]["message"]
    assert not (project / "ran").exists()


def test_items_that_cannot_be_found_fail_the_step(project: Path) -> None:
    """No list, no file, a command that fails: the step fails, says so, and nothing after it runs."""
    ran = run(
        project,
        r"""
        name: fan
        vars: {number: 5}
        defaults: {on_failure: ask}
        steps:
          - {id: list, foreach: number, run: touch ran}
          - {id: file, needs: [], foreach: {lines: no-such-file}, run: touch ran}
          - {id: command, needs: [], foreach: {command: exit 4}, run: touch ran}
          - {id: text, needs: [], foreach: {command: "printf '\\377'"}, run: touch ran}
          - {id: after, needs: [list], run: touch ran}
        """,
        code=1,
    )
    steps = ran.steps()
    said = {"list": "a list is needed", "file": "no-such-file", "command": "exit code 4", "text": "UTF-8"}
    assert {**dict.fromkeys(said, "failed"), "after": "pending"} == ran.statuses()
    assert [] == [step for step, words in said.items() if words not in steps[step]["error"]["message"]]
    assert not (project / "ran").exists()


def test_the_command_of_a_foreach_is_tried_again(project: Path) -> None:
    """A command that finds the items is retried like any other; what it printed before counts for nothing."""
    ran = run(
        project,
        """
        name: fan
        steps:
          - id: each
            foreach: {command: "test -e once && echo right || { touch once; echo wrong; exit 1; }"}
            retries: {max: 1, backoff: 0s}
            run: echo {{ item }} >> trace
        """,
    )
    assert ["right"] == lines(project, "trace")
    assert ["each", "each/right"] == list(ran.statuses())


def test_what_items_leave_is_there_for_later_steps(project: Path) -> None:
    """`outputs`, `results`, `completed` of a `foreach` are those of all its items, in their order."""
    (project / "tools.py").write_text("def size(name):\n    return {'name': name, 'length': len(name)}\n")
    run(
        project,
        """
        name: fan
        steps:
          - {id: write, foreach: [b, a, c d], run: "echo > {{ item }}.out", outputs: ["{{ item }}.out"]}
          - {id: measure, foreach: "{{ outputs.write }}", as: path, python: "tools:size", with: {name: "{{ path }}"}}
          - id: after
            run: |
              printf '%s\\n' {{ outputs.write }} > names
              echo {{ results.measure[2].length }} {{ completed('measure') }} > numbers
        """,
    )
    assert ["b.out", "a.out", "c d.out"] == lines(project, "names")
    assert ["7 3"] == lines(project, "numbers")


def test_many_items(project: Path) -> None:
    """More items than one commit declares: all are done, once each."""
    ran = run(
        project,
        """
        name: fan
        steps:
          - {id: each, foreach: "{{ range(510) | list }}", max_parallel: 8, run: "echo {{ item }} >> trace"}
        """,
    )
    assert list(range(510)) == sorted(int(line) for line in lines(project, "trace"))
    assert {"completed": 510, "total": 510}.items() <= ran.run["steps"].items()
    assert 0 == succeed("fsck", cwd=project).code


ACCOUNTS = '[{"name": "ada", "password": "hunter2hunter2"}, {"name": "bob", "password": "swordfish99"}]'


def test_an_item_with_a_secret_in_it_is_the_same_in_every_try(project: Path) -> None:
    """On record a password in an item is redacted; a retry, and a resumed run that is given it again, have it whole."""
    ran = run(
        project,
        """
        name: fan
        max_parallel: 1
        steps:
          - id: each
            foreach: accounts
            as: account
            retries: {max: 1, backoff: 0s}
            run: echo {{ account.name }} {{ account.password }} >> trace; test $(wc -l < trace) -eq 3
        """,
        "--var",
        f"accounts={ACCOUNTS}",
        code=1,
    )
    ada = "ada hunter2hunter2"
    assert [ada, ada] == lines(project, "trace")
    assert {"redacted": True} == ran.steps()["each/ada"]["item"]["password"]
    assert 7 == call("resume", ran.id, cwd=project).code
    call("resume", ran.id, "--var", f"accounts={ACCOUNTS}", cwd=project)
    assert [ada, ada, ada, "bob swordfish99"] == lines(project, "trace")[:4]
