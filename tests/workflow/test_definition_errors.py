"""What is wrong with a definition: each problem with its line and column, the word, and the nearest right one."""

from __future__ import annotations

import pytest

from leftoff.errors import BadDefinition
from leftoff.workflow.parse_definition import parse_definition


def wrong(text: str, **given: object) -> BadDefinition:
    with pytest.raises(BadDefinition) as caught:
        parse_definition(text, "flow.yaml", given=given)
    return caught.value


def told(text: str) -> list[str]:
    """The problems of a text, a line each."""
    error = wrong(text)
    lines = error.message.split("\n")
    return [f"{lines[0]}. {error.hint}"] if len(lines) == 1 else lines


# The text, and what is told of it: line:column, message, hint.
CASES = {
    "unknown key": (
        "name: x\nsteps:\n  - id: a\n    run: b\n    retrys: 3\n",
        "5:5: unknown key `retrys`. Did you mean `retries`?",
    ),
    "unknown key at the top": (
        "nmae: x\nsteps: [{id: a, run: b}]\n",
        "1:1: unknown key `nmae`. Did you mean `name`?",
    ),
    "unknown key, nothing near": (
        "zzz: x\nsteps: [{id: a, run: b}]\n",
        "1:1: unknown key `zzz`. Its keys are name, description, vars, other_vars, secrets, requires, defaults, ",
    ),
    "unknown key in retries": (
        "steps:\n  - id: a\n    run: b\n    retries: {max: 3, backof: 2s}\n",
        "4:23: unknown key `backof` in `retries`. Did you mean `backoff`?",
    ),
    "unknown key in defaults": (
        "defaults:\n  time_out: 3s\nsteps: [{id: a, run: b}]\n",
        "2:3: unknown key `time_out` in `defaults`. Did you mean `timeout`?",
    ),
    "unknown key in requires": (
        "requires: {tool: [git]}\nsteps: [{id: a, run: b}]\n",
        "1:12: unknown key `tool` in `requires`. Did you mean `tools`?",
    ),
    "unknown key in checkpoint": (
        "steps: [{id: a, run: b, checkpoint: {saves: true}}]\n",
        "1:38: unknown key `saves` in `checkpoint`. Did you mean `save`?",
    ),
    "unknown key in approval": (
        "steps: [{id: a, approval: {ask: Go?, option: [x]}}]\n",
        "1:38: unknown key `option` in `approval`. Did you mean `options`?",
    ),
    "a pattern as foreach": (
        "steps: [{id: a, run: b, foreach: '*.txt'}]\n",
        '1:34: `foreach: "*.txt"` is a pattern. Write foreach: {glob: "*.txt"}',
    ),
    "a number as foreach": (
        "steps: [{id: a, run: b, foreach: 3}]\n",
        "1:34: `foreach: 3` is not a list. Write foreach: [1, 2, 3]",
    ),
    "unknown key in foreach": (
        "steps: [{id: a, run: b, foreach: {globs: x}}]\n",
        "1:35: unknown key `globs` in `foreach`. Did you mean `glob`?",
    ),
    "duplicate id": (
        "steps:\n  - {id: a, run: b}\n  - {id: a, run: c}\n",
        "3:10: the id `a` is there twice. The first one is on line 2.",
    ),
    "duplicate id on one line": (
        "steps: [{id: a, run: b}, {id: a, run: c}]\n",
        "1:31: the id `a` is there twice. The first one is on line 1.",
    ),
    "duplicate key": (
        "steps:\n  - id: a\n    run: b\n    run: c\n",
        "4:5: the key `run` is there twice. The first one is on line 3.",
    ),
    "no id": ("steps:\n  - run: b\n", "2:5: a step without an `id`. Every step has one: `- id: build`."),
    "empty id": (
        "steps:\n  - id:\n    run: b\n",
        "2:8: `id` is empty. Give it a value, or leave the key out.",
    ),
    "slash in an id": (
        "steps: [{id: a/b, run: c}]\n",
        "1:14: the id `a/b` has a slash in it. For example: build, or task-001.",
    ),
    "blank at the end of an id": (
        "steps: [{id: 'a ', run: c}]\n",
        "1:14: the id `a` has a character that cannot be seen, or a blank at an end in it. "
        "For example: build, or task-001.",
    ),
    "two words for id": (
        "steps: [{id: a, step: b, run: c}]\n",
        "1:17: `step` and `id` are two words for one thing. Keep `id`.",
    ),
    "unknown need": (
        "steps:\n  - {id: build, run: a}\n  - {id: test, needs: [biuld], run: a}\n",
        "3:24: `needs` names a step that is not there: `biuld`. Did you mean `build`?",
    ),
    "needs itself": (
        "steps: [{id: a, needs: a, run: b}]\n",
        "1:24: steps wait for each other: a -> a.",
    ),
    "needs its phase": (
        "steps: [{id: p, steps: [{id: a, needs: [p], run: b}]}]\n",
        "1:41: steps wait for each other: p -> p/a -> p.",
    ),
    "needs its own step": (
        "steps: [{id: p, needs: [p/a], steps: [{id: a, run: b}]}]\n",
        "1:25: steps wait for each other: p -> p/a -> p.",
    ),
    "ambiguous need": (
        "steps:\n- {id: p, steps: [{id: a, run: b}]}\n- {id: q, steps: [{id: a, run: b}]}\n- {id: r, needs: a}\n",
        "4:18: several steps are called `a`. Say which one: p/a, q/a.",
    ),
    "two actions": (
        "steps:\n  - id: a\n    run: b\n    python: c:d\n",
        "4:5: a step does one thing, and this has `run` and `python`. Make it two steps.",
    ),
    "foreach on a phase": (
        "steps:\n  - id: p\n    foreach: [1]\n    steps: [{id: a, run: b}]\n",
        "3:5: `foreach` does not go with a phase. It goes with `run` or `python` or an agent step.",
    ),
    "foreach on an approval": (
        "steps: [{id: a, approval: Go?, foreach: [1]}]\n",
        "1:32: `foreach` does not go with an approval. It goes with `run` or `python` or an agent step.",
    ),
    "foreach by hand": (
        "steps: [{id: a, foreach: [1]}]\n",
        "1:17: `foreach` does not go with a manual step. It goes with `run` or `python` or an agent step.",
    ),
    "foreach from two places": (
        "steps: [{id: a, run: b, foreach: {glob: x, lines: y}}]\n",
        "1:34: `foreach` takes its items from one place. One of glob, lines, command.",
    ),
    "as without foreach": ("steps: [{id: a, run: b, as: x}]\n", "1:25: `as` without `foreach`"),
    "a reserved item": (
        "steps: [{id: a, run: b, foreach: [1], as: env}]\n",
        "1:43: `env` is a name that templates have already. Choose another name.",
    ),
    "a reserved variable": (
        "vars: {outputs: 1}\nsteps: [{id: a, run: b}]\n",
        "1:8: `outputs` is a name that templates have already. Choose another name.",
    ),
    "no steps": (
        "name: x\n",
        "1:1: a workflow without `steps`. For example: steps: [{id: hello, run: echo hello}]",
    ),
    "misspelt steps": ("name: x\nstesp: []\n", "2:1: unknown key `stesp`. Did you mean `steps`?"),
    "empty steps": ("steps: []\n", "1:8: `steps` is empty. A workflow, and a phase, has at least one step."),
    "steps as a mapping": (
        "steps:\n  build: {run: make}\n",
        "2:3: `steps` must be a list of steps, not a mapping. "
        "Each entry of the list is a step: `- id: build`, and below it `run: make`.",
    ),
    "a step that is text": (
        "steps:\n  - make\n",
        "2:5: `steps` must be a list of mappings, not `make`. "
        "Each entry of the list is a step: `- id: build`, and below it `run: make`.",
    ),
    "bad duration": (
        "steps:\n  - id: a\n    run: b\n    timeout: 5 minutes\n",
        "4:14: timeout: `5 minutes` is not a duration. A duration is like 500ms",
    ),
    "worse duration": (
        "steps: [{id: a, run: b, timeout: soon}]\n",
        "1:34: timeout: `soon` is not a duration. "
        "A duration is like 500ms, 2s, 30m, 1h30m or 7d; a plain number is seconds.",
    ),
    "another tool's word": (
        "steps: [{id: a, run: b, depends-on: c}]\n",
        "1:25: unknown key `depends-on`. Did you mean `needs`?",
    ),
    "another tool's word for the command": (
        "steps: [{id: a, command: b}]\n",
        "1:17: unknown key `command`. Did you mean `run`?",
    ),
    "a name and no id": ("steps: [{name: a, run: b}]\n", "1:10: unknown key `name`. Did you mean `id`?"),
    "a name and an id": (
        "steps: [{id: a, name: b, run: c}]\n",
        "1:17: unknown key `name`. Did you mean `title`?",
    ),
    "another tool's steps": ("jobs: []\n", "1:1: unknown key `jobs`. Did you mean `steps`?"),
    "a question by another name": (
        "steps: [{id: a, approval: {question: Go?}}]\n",
        "1:28: unknown key `question` in `approval`. Did you mean `ask`?",
    ),
    "a misspelt prompt": (
        "steps: [{id: a, agent: b, promt: c}]\n",
        "1:27: unknown key `promt`. Did you mean `prompt`?",
    ),
    "several commands": (
        "steps: [{id: a, run: [make, test]}]\n",
        "1:22: `run` must be text, not a list. Several commands are a block, `run: |`, a line each.",
    ),
    "no time at all": (
        "steps: [{id: a, run: b, timeout: 0}]\n",
        "1:34: `timeout` cannot be 0. Leave it out for none.",
    ),
    "wrong word": (
        "steps: [{id: a, run: b, on_failure: contine}]\n",
        "1:37: `on_failure` must be one of stop, continue, ask, not `contine`. Did you mean `continue`?",
    ),
    "a truth of YAML 1.1": (
        "steps: [{id: a, run: b, idempotent: no}]\n",
        "1:37: `idempotent` must be true or false, not `no`. Write false.",
    ),
    "retries without a number": (
        "steps: [{id: a, run: b, retries: {backoff: 2s}}]\n",
        "1:34: `retries` does not say how many: `max` is missing. For example: {max: 3, backoff: 2s}",
    ),
    "too few retries": (
        "steps: [{id: a, run: b, retries: -1}]\n",
        "1:34: `retries` must be a whole number from 0 on, not `-1`",
    ),
    "none at once": (
        "max_parallel: 0\nsteps: [{id: a, run: b}]\n",
        "1:15: `max_parallel` must be a whole number from 1 on, not `0`",
    ),
    "text for a mapping": (
        "steps: [{id: a, run: b, env: A=1}]\n",
        "1:30: `env` must be a mapping of names to text, not `A=1`",
    ),
    "a mapping for text": ("steps: [{id: a, run: {b: c}}]\n", "1:22: `run` must be text, not a mapping"),
    "an empty command": (
        "steps:\n  - id: a\n    run:\n",
        "3:9: `run` is empty. Give it a value, or leave the key out.",
    ),
    "no function": (
        "steps: [{id: a, python: tools.index}]\n",
        "1:25: `tools.index` does not name a function. Write module:function, like tools.index:build.",
    ),
    "an agent without a prompt": (
        "steps: [{id: a, agent: claude}]\n",
        "1:9: an agent without a prompt. Give it a `prompt`, or a `prompt_file`.",
    ),
    "a prompt without an agent": (
        "steps: [{id: a, prompt: Hi}]\n",
        "1:9: a prompt without an agent. Say whose it is: `agent: claude`.",
    ),
    "a prompt for a command": (
        "steps: [{id: a, run: b, prompt: Hi}]\n",
        "1:25: `prompt` does not go with `run`. It goes with an agent step.",
    ),
    "no question": (
        "steps: [{id: a, approval: {options: [x]}}]\n",
        "1:27: an approval without a question: `ask` is missing. For example: {ask: Publish it?}",
    ),
    "only a no": (
        "steps: [{id: a, approval: {ask: Go?, options: [reject]}}]\n",
        "1:47: no option approves. For example: [approve, reject]",
    ),
    "a secret that is written": (
        "secrets: ['TOKEN=abc']\nsteps: [{id: a, run: b}]\n",
        "1:11: `TOKEN=…` cannot name an environment variable. "
        "A secret is named here, never written: its value comes from the environment.",
    ),
    "our own variables": (
        "steps: [{id: a, run: b, env: {LEFTOFF_RUN: x}}]\n",
        "1:31: `LEFTOFF_RUN` is set by leftoff itself. Choose another name.",
    ),
    "what cannot be kept": ("vars: {a: .inf}\nsteps: [{id: a, run: b}]\n", "1:11: "),
    "nothing": ("", "1:1: nothing is in it. It begins with `name: …` and `steps:`."),
    "a list": (
        "- a\n",
        "1:1: a workflow is a mapping of keys to values. It begins with `name: …` and `steps:`.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_problem(name: str) -> None:
    """The place to the column, the word as it was written, and what to write instead."""
    text, wanted = CASES[name]
    lines = told(text)
    assert 1 == len(lines), lines
    assert lines[0].startswith(f"flow.yaml:{wanted}")


def test_all_at_once() -> None:
    """One look shows every problem, in the order of the file."""
    text = """\
name: x
defaults: {retrys: 3}
steps:
  - id: a
    run: echo {{ nme }}
    timeout: soon
  - id: a
    run: echo
    needs: [b]
  - run: echo
"""
    lines = told(text)
    places = [line.split(" ")[0] for line in lines]
    assert [f"flow.yaml:{place}:" for place in ("2:12", "5:18", "6:14", "7:9", "9:13", "10:5")] == places
    assert "6 problems; nothing was started." == wrong(text).hint


def test_a_variable_among_other_problems() -> None:
    """What no step could set is found although something else is wrong, too."""
    lines = told("steps:\n  - {id: a, run: 'echo {{ b }}', tiemout: 3s}\n")
    assert ["flow.yaml:2:27: `b` is not defined", "flow.yaml:2:34: unknown key `tiemout`"] == [
        line.partition(". ")[0] for line in lines
    ]


@pytest.mark.parametrize("key", ["rnu", "runn", "command", "pyhton", "aproval", "stesp", "agnet"])
def test_a_misspelt_action_is_one_problem(key: str) -> None:
    """What follows from it is not told."""
    text = f"steps:\n  - {{id: a, {key}: x, title: t}}\n  - {{id: b, run: x}}\n"
    assert [f"flow.yaml:2:13: unknown key `{key}`"] == [line.partition(". ")[0] for line in told(text)]


def test_a_misspelt_run_with_all_that_goes_with_it() -> None:
    """Keys that go with `run` are right beside it."""
    text = "steps:\n  - {id: a, rnu: x, foreach: [1], as: n, outputs: [x], env: {A: b}, timeout: 3s, checks: [x]}\n"
    assert ["flow.yaml:2:13: unknown key `rnu`. Did you mean `run`?"] == told(text)


def test_many() -> None:
    """The first twenty, and how many more there are."""
    lines = told("steps:\n" + "".join(f"  - {{id: a{n}, rnu: b}}\n" for n in range(30)))
    assert 21 == len(lines) and "flow.yaml: and 10 more" == lines[-1]


@pytest.mark.parametrize(
    ("text", "place", "circle"),
    [
        (
            "steps:\n- {id: a, needs: [b], run: x}\n- {id: b, needs: [a], run: x}\n",
            "2:19",
            "a -> b -> a",
        ),
        (
            "steps:\n- {id: a, needs: [c], run: x}\n- {id: b, run: x}\n- {id: c, run: x}\n",
            "2:19",
            "a -> c -> b -> a",
        ),
        (
            "steps:\n- {id: p, needs: [q], steps: [{id: a, run: x}]}\n- {id: q, needs: [p/a], run: x}\n",
            "2:19",
            "p/a -> p -> q -> p/a",
        ),
        (
            "steps:\n- {id: z, run: x}\n- {id: p, needs: [], steps: [{id: a, needs: [q], run: x}]}\n"
            "- {id: q, needs: [p], run: x}\n",
            "3:46",
            "p -> p/a -> q -> p",
        ),
    ],
)
def test_cycles(text: str, place: str, circle: str) -> None:
    """Steps that wait for each other are shown in a circle, also through phases."""
    error = wrong(text)
    shown = error.message.partition("steps wait for each other: ")[2].split(" -> ")
    wanted = circle.split(" -> ")
    assert error.message.startswith(f"flow.yaml:{place}: "), error.message
    assert shown[0] == shown[-1]
    doubled = shown[:-1] * 2
    assert any(wanted[:-1] == doubled[i : i + len(wanted) - 1] for i in range(len(shown))), error.message


def test_depth_of_phases() -> None:
    """Phases inside phases, as deep as anyone needs; deeper is refused."""
    inner = "{id: a, run: x}"
    for _ in range(20):
        inner = f"{{id: p, steps: [{inner}]}}"
    assert 1 == len(list(parse_definition(f"steps: [{inner}]", "f").leaves()))
    for _ in range(20):
        inner = f"{{id: p, steps: [{inner}]}}"
    assert "nested too deep" in wrong(f"steps: [{inner}]").message
