"""What is known of templates before anything runs, each with the place of the very word."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.errors import BadDefinition
from leftoff.workflow.parse_definition import parse_definition, review

NOT_SET = "Give it under `vars` or with --var, or name it where an earlier step sets it."


def told(text: str, *given: str) -> list[str]:
    """The problems of a text, a line each; none where it is right."""
    try:
        parse_definition(text, "flow.yaml", given=given)
    except BadDefinition as error:
        lines = error.message.split("\n")
        return [f"{lines[0]}. {error.hint}"] if len(lines) == 1 else lines
    return []


def doubts(text: str, folder: Path) -> list[str]:
    """What is doubtful in a text, without the file's name."""
    path = folder / "flow.yaml"
    path.write_text(text)
    return [line.removeprefix(f"{path}:") for line in review(str(path))[1]]


# The keys of a step (the first of two, the other being `late`), and what is told of them.
CASES = {
    "undefined": ("run: echo {{ zzz }}", f"3:18: `zzz` is not defined. {NOT_SET}"),
    "the nearest": ("run: echo {{ topc }}", "3:18: `topc` is not defined. Did you mean `topic`?"),
    "in double quotes": ('run: "é \\"x\\" {{ zzz }}"', "3:22: `zzz` is not defined"),
    "the second of two": ("run: echo {{ topic }} topc {{ topc }}", "3:35: `topc` is not defined"),
    "in a block": ("run: |\n      echo one\n      echo {{ topc }}", "5:15: `topc` is not defined"),
    "in a folded block": ("run: >\n      echo one\n      echo {{ topc }}", "5:15: `topc` is not defined"),
    "in outputs": ("outputs: [a, 'b/{{ topc }}']\n    run: x", "3:24: `topc` is not defined"),
    "in env": ("env: {A: 'x', B: '{{ topc }}'}\n    run: x", "3:26: `topc` is not defined"),
    "in cwd": ("cwd: a/{{ topc }}\n    run: x", "3:15: `topc` is not defined"),
    "in instructions": ("instructions: Do {{ topc }}.", "3:25: `topc` is not defined"),
    "in criteria": ("criteria: {a: 'test {{ secrets }}'}\n    run: x", "3:28: templates do not see secrets"),
    "in a condition": ("when: topic == tpic", "3:20: `tpic` is not defined"),
    "in a condition with braces": ("when: '{{ tpic }}'", "3:15: `tpic` is not defined"),
    "in a statement": ("run: '{% if topc %}x{% endif %}'", "3:17: `topc` is not defined"),
    "in arguments": ("python: a:b\n    with: {x: [1, {y: '{{ topc }}'}]}", "4:27: `topc` is not defined"),
    "in a prompt": ("agent: claude\n    prompt: See {{ topc }}", "4:20: `topc` is not defined"),
    "in a question": ("approval: Is {{ topc }} fine?", "3:21: `topc` is not defined"),
    "in a list of items": ("run: x\n    foreach: [a, '{{ topc }}']", "4:22: `topc` is not defined"),
    "as a list of items": (
        "run: x\n    foreach: topics",
        "4:14: `topics` is not defined. Did you mean `topic`?",
    ),
    "an item too early": (
        "run: x\n    foreach: '{{ item }}'",
        "4:18: `item` is not defined. Give it under `vars`",
    ),
    "the wrong item": (
        "run: 'echo {{ item }}'\n    foreach: [1]\n    as: pdf",
        "3:19: `item` is not defined. The item is called `pdf`",
    ),
    "an unknown filter": (
        "run: echo {{ topic | uper }}",
        "3:26: there is no filter `uper`. Did you mean `upper`?",
    ),
    "an unknown test": (
        "run: echo {{ topic is defind }}",
        "3:27: there is no test `defind`. Did you mean `defined`?",
    ),
    "not a test": (
        "run: echo {{ topic is not strnig }}",
        "3:31: there is no test `strnig`. Did you mean `string`?",
    ),
    "syntax": ("run: echo {{ topic topic }}", "3:24: template: unexpected identifier"),
    "a brace that stays open": ("run: echo é {{ topic", "3:17: template: a `{{` without its `}}`"),
    "other braces": (
        "run: docker ps --format '{{.Names}}'",
        "3:32: template: unexpected `.`. Put braces that are not a template",
    ),
    "a secret": (
        "run: curl {{ TOKEN }}",
        "3:18: `TOKEN` is a secret, and templates do not see secrets. "
        'A secret is in the environment of every step: write "$TOKEN" in the script.',
    ),
    "a secret in brackets": ("run: curl {{ env['TOKEN'] }}", "3:22: `TOKEN` is a secret"),
    "a secret of the environment": ("run: curl {{ env.TOKEN }}", "3:22: `TOKEN` is a secret"),
    "secrets as elsewhere": ("run: curl {{ secrets.TOKEN }}", "3:18: templates do not see secrets"),
    "outputs of no step": (
        "run: echo {{ outputs.lat[0] }}",
        "3:26: there is no step `lat`. Did you mean `late`?",
    ),
    "outputs in brackets": (
        "run: echo {{ outputs['lat'] }}",
        "3:26: there is no step `lat`. Did you mean `late`?",
    ),
    "results of no step": ("run: echo {{ results.lat.x }}", "3:26: there is no step `lat`"),
    "failed of no step": ("when: failed('lat') == 0", "3:18: there is no step `lat`. Did you mean `late`?"),
    "status of no step": (
        "when: status(\"zzz\") == 'failed'",
        "3:18: there is no step `zzz`. The steps are early, late",
    ),
    "a dash": (
        "run: echo {{ outputs.sign-off }}",
        "3:26: there is no step `sign`. A name with a dash in it goes in brackets: outputs['sign-off'].",
    ),
    "a dollar": (
        "run: echo ${{ topic }}",
        "3:16: a `$` right before a value. Write {{ … }} for a value of the workflow",
    ),
    "a backslash": ("run: echo \\{{ topic }}", "3:16: a backslash right before a value"),
    "another language": (
        "run: print({{ topic }})\n    shell: python3",
        "3:16: leftoff hands values to shells only, not to `python3`",
    ),
    "another language in a list": (
        "run: x({{ topic | upper }})\n    shell: [node, -e]",
        "3:12: leftoff hands values to shells only, not to `node -e`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_problem(name: str) -> None:
    """The line and the column of the word, in whatever style the text is written."""
    keys, wanted = CASES[name]
    text = f"""\
steps:
  - id: early
    {keys}
  - {{id: late, run: x}}
  - {{id: sign-off, approval: Go?}}
vars: {{topic: whales}}
secrets: [TOKEN]
"""
    lines = told(text)
    assert 1 == len(lines), lines
    assert lines[0].startswith(f"flow.yaml:{wanted}")


@pytest.mark.parametrize(
    "keys",
    [
        "run: echo {{ topic }} {{ env.HOME }} {{ run.id }}",
        "run: echo {{ zzz | default('x') }} {{ zzz | d(1) }}",
        "run: '{% if zzz is defined %}{{ zzz }}{% endif %}'",
        "run: '{% for x in topic %}{{ x }}{{ loop.index }}{% endfor %}'",
        "run: '{% set x = 1 %}{{ x }}'",
        "run: '{% raw %}{{ zzz }}{% endraw %}'",
        "run: echo ${#list[@]} $TOKEN ${TOKEN} {# zzz #}",
        "when: failed('early') == 0 and status('late') != 'x'",
        """run: "echo {{ [1, 2] | map('upper') | join(sep) if false else {'a': {'b': 1}}.a }}" """,
        "run: print({{ topic | tojson }}, '{{ topic | raw }}')\n    shell: python3",
        "run: echo {{ item }}\n    foreach: [1]",
        "run: echo {{ pdf }}\n    foreach: [1]\n    as: pdf",
        "run: echo {{ given }}",
        "run: echo '${{ topic }}'",
    ],
)
def test_what_is_right(keys: str) -> None:
    """No false alarm: what is defined, guarded, made by the template itself, or none of ours."""
    text = f"vars: {{topic: whales, sep: ' '}}\nsteps:\n  - id: early\n    {keys}\n  - {{id: late, run: x}}\n"
    assert [] == told(text, "given")


def test_what_an_earlier_step_could_set() -> None:
    """A variable is wrong only where nobody could have set it by then."""
    later = "steps:\n- {id: a, run: 'echo {{ x }}'}\n- {id: b, run: set-x}\n"
    assert 1 == len(told(later))
    earlier = "steps:\n- {id: b, run: set-x}\n- {id: a, run: 'echo {{ x }}'}\n"
    assert [] == told(earlier)
    beside = "steps:\n- {id: a, run: 'echo {{ x }}'}\n- {id: b, needs: [], run: set-x}\n"
    assert [] == told(beside)


def test_what_a_step_keeps() -> None:
    """Of a step with `variables_to_persist`, those; an approval sets nothing, what is done by hand may."""
    keeps = (
        "steps:\n- {{id: a, run: b, checkpoint: {{variables_to_persist: [x]}}}}\n"
        "- {{id: c, run: 'echo {{{{ {} }}}}'}}\n"
    )
    assert [] == told(keeps.format("x"))
    assert ["flow.yaml:3:25: `y` is not defined"] == [
        line.partition(". ")[0] for line in told(keeps.format("y"))
    ]
    asks = "steps:\n- {id: a, approval: Go?}\n- {id: c, run: 'echo {{ x }}'}\n"
    assert 1 == len(told(asks))
    by_hand = "steps:\n- {id: a}\n- {id: c, run: 'echo {{ x }}'}\n"
    assert [] == told(by_hand)


def test_a_step_does_not_see_what_it_sets_itself() -> None:
    """Its variables are taken in when it is complete, which is after its checks."""
    assert 1 == len(told("steps: [{id: a, run: b, checks: ['test -s {{ x }}']}]"))
    assert 1 == len(told("steps: [{id: a, run: b, outputs: ['{{ x }}']}]"))


def test_what_is_inherited_is_told_once() -> None:
    """A template of the defaults, or of a phase, is wrong in one place, however many steps have it."""
    text = """\
defaults: {env: {A: '{{ zzz }}'}, checkpoint: {variables_to_persist: []}}
steps:
  - {id: a, run: x}
  - id: p
    needs: []
    cwd: '{{ yyy }}'
    steps: [{id: b, run: x}, {id: c, needs: [], run: x}]
"""
    assert ["flow.yaml:1:25: `zzz` is not defined", "flow.yaml:6:14: `yyy` is not defined"] == [
        line.partition(". ")[0] for line in told(text)
    ]


def test_doubts(tmp_path: Path) -> None:
    """A name much like a known one, and a step that need not be over."""
    text = """\
vars: {topic: whales, n: 1}
steps:
  - {id: a, python: 'm:f'}
  - id: b
    run: |
      echo {{ topc }} {{ outputs.beside }}
      echo $(({{ n }} + 1))
  - {id: beside, needs: [a], run: x}
"""
    assert [
        "6:15: `topc` is not under `vars`; an earlier step must set it. Did you mean `topic`?",
        "6:34: nothing says that `beside` is over before `b` starts. `needs: [beside]` makes sure of it.",
    ] == doubts(text, tmp_path)


def test_no_doubts(tmp_path: Path) -> None:
    """Of what is merely set by an earlier step, and of phases and steps that are over, there are none."""
    text = """\
steps:
  - {id: a, run: 'echo found=1 >> "$LEFTOFF_VARS"'}
  - {id: p, steps: [{id: b, run: x}]}
  - {id: c, run: 'echo {{ found }} {{ outputs.p }} {{ outputs.a }} {{ failed("p/b") }}', checks: ['{{ outputs.c }}']}
"""
    assert [] == doubts(text, tmp_path)


def test_a_name_that_no_script_before_it_knows() -> None:
    """After a step that runs a script, too: what it sets stands in it, or under `variables_to_persist`."""
    late = "  - {id: b, run: 'echo {{ count }}'}\n"
    assert ["3:27: `count` is not defined"] == [
        line.partition(":")[2].partition(". ")[0] for line in told("steps:\n  - {id: a, run: make}\n" + late)
    ]
    assert [] == told("steps:\n  - {id: a, run: leftoff set count=3}\n" + late)
    assert [] == told("steps:\n  - {id: a, run: make, checkpoint: {variables_to_persist: [count]}}\n" + late)
    assert [] == told("steps:\n  - {id: a, python: 'm:f'}\n" + late)


def test_results_of_a_later_step() -> None:
    """They are not there yet; the advice makes no circle."""
    text = (
        "steps:\n  - {id: a, run: 'cat {{ outputs.b }} {{ results.b }}'}\n  - {id: b, run: x, outputs: [x]}\n"
    )
    lines = told(text)
    assert ["2:34: `b` runs after `a`", "2:50: `b` runs after `a`"] == [
        line.partition(":")[2].partition(". ")[0] for line in lines
    ]
    assert "needs" not in lines[0]
