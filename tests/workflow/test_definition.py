"""A workflow file as a definition: every key means what the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leftoff.errors import BadDefinition, NotFound
from leftoff.workflow.definition import Approval, Foreach, Requires, StepDefinition, Workflow
from leftoff.workflow.durations import Retries
from leftoff.workflow.parse_definition import load_definition, parse_definition, review

STORY = """\
name: dev-story
description: Implement one story
vars: {project_name: demo, reviewers: [ada, bob]}
secrets: [GITHUB_TOKEN]
requires: {tools: [git], env: [HOME], paths: [tools/]}
defaults: {retries: 1, timeout: 30m}
max_parallel: 3
steps:
  - id: research
    type: analysis
    title: Look around
    run: python tools/research.py --topic {{ project_name }}
    outputs: [reports/research.json]
    estimate: 5m
  - step: architecture
    agent: claude
    prompt: Read {{ outputs.research[0] }} …
    turns: 30
    outputs: docs/architecture.md
    checkpoint: {save: false, variables_to_persist: [path, tech]}
  - id: sign-off
    approval: {ask: "Approve docs/architecture.md?", options: [approve, roundtable, reject]}
    timeout: 7d
  - id: implementation
    env: {A: phase, B: phase}
    cwd: src
    on_failure: continue
    max_parallel: 2
    steps:
      - id: convert
        foreach: {glob: "src/**/*.pdf"}
        as: pdf
        run: pdf2md {{ pdf }} -o out/{{ pdf | stem }}.md
        outputs: ["out/{{ pdf | stem }}.md"]
        max_parallel: 8
        retries: {max: 3, backoff: 2s, factor: 3, jitter: false}
        env: {B: own, PORT: 8080}
      - id: index
        needs: []
        python: tools.index:build
        with: {folder: out, depth: 2}
        on_failure: ask
  - id: review-by-hand
    instructions: Read the pages aloud.
  - id: publish
    needs: [implementation, review-by-hand]
    when: "{{ failed('implementation/convert') == 0 }}"
    run: ./publish.sh
    shell: [bash, -x]
    idempotent: false
    checks: test -s out/index.html
    criteria: {"29_files_created": "test $(ls out/*.md | wc -l) -eq 29"}
"""


@pytest.fixture
def story() -> Workflow:
    """The whole example."""
    return parse_definition(STORY, "flow.yaml")


def step(workflow: Workflow, path: str) -> StepDefinition:
    found = workflow.find(path)
    assert found is not None
    return found


def one(text: str) -> StepDefinition:
    """A workflow of a single step, given by its keys."""
    return parse_definition(f"steps:\n  - id: a\n    {text}\n", "flow.yaml").steps[0]


def test_the_top(story: Workflow) -> None:
    """What is said once, for all steps."""
    assert ("dev-story", "Implement one story", 3) == (story.name, story.description, story.max_parallel)
    assert {"project_name": "demo", "reviewers": ["ada", "bob"]} == story.vars
    assert ("GITHUB_TOKEN",) == story.secrets
    assert Requires(("git",), ("HOME",), ("tools/",)) == story.requires
    assert ("flow.yaml", STORY) == (story.path, story.text)
    assert story.digest.startswith("sha256:") and 71 == len(story.digest)


def test_what_is_left_out() -> None:
    """Only `steps` is needed: the name is the file's, and four run at once."""
    workflow = parse_definition("steps: [{id: a, run: 'true'}]", "jobs/nightly.build.yaml")
    assert ("nightly.build", 4, {}, ()) == (
        workflow.name,
        workflow.max_parallel,
        workflow.vars,
        workflow.secrets,
    )
    only = workflow.steps[0]
    assert ("run", "stop", True, True, None, None) == (
        only.kind,
        only.on_failure,
        only.idempotent,
        only.save,
        only.timeout,
        only.persist,
    )
    assert Retries(0) == only.retries


def test_steps_in_order(story: Workflow) -> None:
    """Depth first, as they stand in the file; leaves are those that do something."""
    paths = [found.path for found in story.walk()]
    assert [
        "research",
        "architecture",
        "sign-off",
        "implementation",
        "implementation/convert",
        "implementation/index",
        "review-by-hand",
        "publish",
    ] == paths
    assert [path for path in paths if path != "implementation"] == [found.path for found in story.leaves()]
    assert story.find("implementation/nothing") is None
    assert ("implementation", "convert") == (
        step(story, "implementation/convert").parent,
        step(story, "implementation/convert").id,
    )


def test_kinds(story: Workflow) -> None:
    """What a step does follows from its keys; without any it is done by hand."""
    assert ["run", "agent", "approval", "phase", "run", "python", "manual", "run"] == [
        s.kind for s in story.walk()
    ]


def test_places(story: Workflow) -> None:
    """A step knows where it stands."""
    assert [(9, 5), (15, 5), (30, 9)] == [
        (s.line, s.column) for s in (story.steps[0], story.steps[1], step(story, "implementation/convert"))
    ]


def test_needs(story: Workflow) -> None:
    """Nothing said: the step before, of the same list. An empty list: nothing."""
    needs = {s.path: s.needs for s in story.walk()}
    assert () == needs["research"] == needs["implementation/convert"] == needs["implementation/index"]
    assert ("research",) == needs["architecture"]
    assert ("sign-off",) == needs["implementation"]
    assert ("implementation", "review-by-hand") == needs["publish"]


def test_needs_by_name() -> None:
    """A sibling's id comes before a whole path, and that before an id that only one step has."""
    text = """
steps:
  - {id: build, run: a}
  - id: one
    steps:
      - {id: build, run: a}
      - {id: test, needs: build, run: a}
      - {id: only, run: a}
  - id: two
    needs: []
    steps:
      - {id: pick, needs: [one/build, only, build], run: a}
"""
    workflow = parse_definition(text, "f")
    assert ("one/build",) == step(workflow, "one/test").needs
    assert ("one/build", "one/only", "build") == step(workflow, "two/pick").needs


def test_defaults_and_phases(story: Workflow) -> None:
    """A step has what it says, else what its phase says, else the defaults; environments are put together."""
    convert, index = step(story, "implementation/convert"), step(story, "implementation/index")
    assert {"A": "phase", "B": "own", "PORT": "8080"} == convert.env
    assert {"A": "phase", "B": "phase"} == index.env
    assert ("src", "src", "") == (convert.cwd, index.cwd, step(story, "publish").cwd)
    assert ("continue", "ask", "stop") == (
        convert.on_failure,
        index.on_failure,
        step(story, "publish").on_failure,
    )
    assert (Retries(3, 2.0, 3.0, False), Retries(1)) == (convert.retries, index.retries)
    assert (2, 8, None) == (
        step(story, "implementation").max_parallel,
        convert.max_parallel,
        index.max_parallel,
    )
    assert 1800 == convert.timeout == step(story, "architecture").timeout


def test_defaults_are_for_what_works(story: Workflow) -> None:
    """An approval does not run out after what is meant for commands, and what is done by hand is not tried again."""
    assert 7 * 86400 == step(story, "sign-off").timeout
    assert step(story, "review-by-hand").timeout is None
    assert Retries(0) == step(story, "sign-off").retries == step(story, "review-by-hand").retries
    workflow = parse_definition("defaults: {timeout: 1s}\nsteps: [{id: a, approval: Go?}]", "f")
    assert workflow.steps[0].timeout is None


def test_all_defaults() -> None:
    """Everything that may be a default, and how a step leaves it."""
    text = """
defaults: {shell: zsh, env: {A: 1}, cwd: x, checkpoint: {save: false, variables_to_persist: []}, idempotent: false,
           on_failure: ask}
steps:
  - {id: a, run: b}
  - {id: c, run: b, shell: sh, env: {A: 2}, cwd: y, checkpoint: true, idempotent: true, on_failure: stop}
"""
    a, c = parse_definition(text, "f").steps
    assert ("zsh", {"A": "1"}, "x", False, (), False, "ask") == (
        a.shell,
        a.env,
        a.cwd,
        a.save,
        a.persist,
        a.idempotent,
        a.on_failure,
    )
    assert ("sh", {"A": "2"}, "y", True, True, "stop") == (
        c.shell,
        c.env,
        c.cwd,
        c.save,
        c.idempotent,
        c.on_failure,
    )


def test_actions(story: Workflow) -> None:
    """What each kind of step is given."""
    assert {"agent": "claude", "prompt": "Read {{ outputs.research[0] }} …", "turns": 30} == step(
        story, "architecture"
    ).agent
    assert ("tools.index:build", {"folder": "out", "depth": 2}) == (
        step(story, "implementation/index").python,
        step(story, "implementation/index").args,
    )
    assert (
        Approval("Approve docs/architecture.md?", ("approve", "roundtable", "reject"))
        == step(story, "sign-off").approval
    )
    assert Approval("Go on?", ("approve", "reject")) == one("approval: Go on?").approval
    assert "Read the pages aloud." == step(story, "review-by-hand").instructions
    assert ["bash", "-x"] == step(story, "publish").shell


def test_single_texts_are_lists_of_one(story: Workflow) -> None:
    """`outputs` and `checks` take one text, or several."""
    assert ("docs/architecture.md",) == step(story, "architecture").outputs
    assert ("test -s out/index.html",) == step(story, "publish").checks
    assert {"29_files_created": "test $(ls out/*.md | wc -l) -eq 29"} == step(story, "publish").criteria


def test_checkpoints(story: Workflow) -> None:
    """Whether a step's end is sealed, and which of its variables are kept."""
    assert (False, ("path", "tech")) == (
        step(story, "architecture").save,
        step(story, "architecture").persist,
    )
    assert (False, True) == (one("checkpoint: false").save, one("checkpoint: true").save)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[a, 2, {b: c}]", Foreach("list", ["a", 2, {"b": "c"}])),
        ("pdfs", Foreach("variable", "pdfs")),
        ("'{{ pdfs }}'", Foreach("variable", "{{ pdfs }}")),
        ("{variable: pdfs}", Foreach("variable", "pdfs")),
        ("{glob: '*.md'}", Foreach("glob", "*.md")),
        ("{lines: list.txt}", Foreach("lines", "list.txt")),
        ("{command: ls}", Foreach("command", "ls")),
        ("{list: [1]}", Foreach("list", [1])),
    ],
)
def test_where_items_come_from(text: str, wanted: Foreach) -> None:
    """A list, a variable, a pattern, a file's lines, a command's lines."""
    text = f"vars: {{pdfs: []}}\nsteps: [{{id: a, run: 'echo {{{{ item }}}}', foreach: {text}}}]"
    found = parse_definition(text, "f").steps[0]
    assert (wanted, "item") == (found.foreach, found.item_name)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("n > 2", "{{ n > 2 }}"), ("'{{ n }}'", "{{ n }}"), ("true", "{{ true }}"), ("false", "{{ false }}")],
)
def test_a_condition_is_always_a_template(text: str, wanted: str) -> None:
    """Braces around a condition may be left out."""
    assert wanted == parse_definition(f"vars: {{n: 1}}\nsteps: [{{id: a, when: {text}}}]", "f").steps[0].when


def test_scalars_are_taken_as_they_are_written() -> None:
    """Where text is wanted a number, a version or a truth value is that text."""
    found = parse_definition(
        "steps: [{id: 007, run: true, title: 1.10, env: {A: yes, B: null, C: ''}}]", "f"
    ).steps[0]
    assert ("007", "true", "1.10") == (found.id, found.run, found.title)
    assert {"A": "yes", "B": "null", "C": ""} == found.env


def test_key_facts_are_json(story: Workflow) -> None:
    """What decides what a step does can be stored, and comes back equal."""
    for found in story.walk():
        assert found.key_facts() == json.loads(json.dumps(found.key_facts()))


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("run: a", "run: b", False),
        ("run: a", "run: a, env: {A: 1}", False),
        ("run: a, foreach: [1]", "run: a, foreach: [1, 2]", False),
        ("run: a, foreach: [1]", "run: a, foreach: [1], as: x", False),
        ("approval: Go?", "approval: {ask: Go?, options: [yes]}", False),
        ("run: a", "run: a, title: T, description: D, type: X, estimate: 5m", True),
        ("run: a", "run: a, timeout: 5m, retries: 3, on_failure: ask, idempotent: false", True),
        ("run: a", "run: a, checkpoint: {save: false}", True),
    ],
)
def test_key_facts_tell_changes(before: str, after: str, same: bool) -> None:
    """What a step does is in them; how it is called and how often it is tried is not."""
    first, second = (
        parse_definition(f"steps: [{{id: s, {text}}}]", "f").steps[0] for text in (before, after)
    )
    assert same == (first.key_facts() == second.key_facts())


def test_a_file(tmp_path: Path) -> None:
    """Read from disk, under the name that was given."""
    path = tmp_path / "é.yaml"
    path.write_text("steps: [{id: a, run: echo ü}]")
    workflow = load_definition(str(path))
    assert (str(path), "é", "echo ü") == (workflow.path, workflow.name, workflow.steps[0].run)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Exit 3: no such file; a folder is none either."""
    for path in (tmp_path / "nothing.yaml", tmp_path, tmp_path / "nothing" / "x.yaml"):
        with pytest.raises(NotFound) as caught:
            load_definition(str(path))
        assert str(path) in caught.value.message


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The place of the first byte that is not UTF-8, in lines and characters."""
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"name: x\n# \xc3\xa9 \xff\n")
    with pytest.raises(BadDefinition, match=r"flow.yaml:2:5: not UTF-8 text"):
        load_definition(str(path))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    """Ten megabytes are the most."""
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"#" * (10 * 2**20 + 1))
    with pytest.raises(BadDefinition, match="too large"):
        load_definition(str(path))


def test_many_steps() -> None:
    """A long file is read in full; a chain is as long as it is."""
    text = "steps:\n" + "".join(f"  - {{id: s{n}, run: echo {n}}}\n" for n in range(2_000))
    workflow = parse_definition(text, "f")
    assert 2_000 == len(list(workflow.leaves()))
    assert ("s1998",) == workflow.steps[-1].needs


def test_review_gives_doubts(tmp_path: Path) -> None:
    """What may well be right is told apart from what is wrong."""
    path = tmp_path / "flow.yaml"
    path.write_text(
        "vars: {topic: x}\nsteps:\n  - {id: a, python: 'm:f'}\n  - {id: c, run: 'echo {{ topc }}'}\n"
    )
    workflow, doubts = review(str(path))
    assert 2 == len(workflow.steps)
    told = f"{path}:4:27: `topc` is not under `vars`; an earlier step must set it. Did you mean `topic`?"
    assert [told] == doubts
