"""Templates: values as text, conditions, expressions; what is wrong is told in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import BadTemplate, Invalid
from leftoff.workflow.templates import Templates

VALUES: dict[str, Any] = {
    "name": "a b",
    "files": ["x/one.pdf", "two.tar.gz"],
    "count": 3,
    "ratio": 0.5,
    "flag": True,
    "nothing": None,
    "deep": {"list": [1, None, "é"]},
    "empty": [],
    "self": "unreachable",
    "odd name": 1,
}


@pytest.fixture
def templates() -> Templates:
    return Templates()


def wrong(templates: Templates, text: str, values: Mapping[str, Any] = VALUES) -> BadTemplate:
    with pytest.raises(BadTemplate) as caught:
        templates.render(text, values, "convert: run")
    return caught.value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("no template", "no template"),
        ("{{ name }}", "a b"),
        ("{{ count }} {{ ratio }} {{ flag }} {{ nothing }}", "3 0.5 true null"),
        ("{{ files }}", '["x/one.pdf","two.tar.gz"]'),
        ("{{ deep }}", '{"list":[1,null,"é"]}'),
        ("{{ deep.list[2] }}", "é"),
        ("{{ files | join(',') }}", "x/one.pdf,two.tar.gz"),
        ("{{ files[0] | stem }} {{ files[1] | stem }}", "one two.tar"),
        ("{{ files[0] | basename }} {{ files[0] | dirname }} {{ files[0] | ext }}", "one.pdf x .pdf"),
        ("{{ 'one' | dirname }}|{{ 'one' | ext }}|{{ 'a/b/' | basename }}", ".||b"),
        ("{{ files | map('stem') | join(' ') }}", "one two.tar"),
        ("{{ deep | tojson }}", '{"list":[1,null,"é"]}'),
        ("{{ name | quote }} {{ name | raw }}", "'a b' a b"),
        ("{{ missing | default('x') }}", "x"),
        ("{% for f in files %}{{ f }};{% endfor %}", "x/one.pdf;two.tar.gz;"),
        ("{% if flag %}yes{% endif %}", "yes"),
        ("{% set x %}<{{ name }}>{% endset %}{{ x }}", "<a b>"),
        ("{% raw %}{{ name }}{% endraw %}", "{{ name }}"),
        ("${#list[@]} {# not a comment #} {{ count }}", "${#list[@]} {# not a comment #} 3"),
        ("{{ count }}\n", "3\n"),
        ("{{ '<&>' }}", "<&>"),
        ("{{ 9007199254740993 }}", "9007199254740993"),
    ],
)
def test_text(text: str, wanted: str, templates: Templates) -> None:
    """Text is inserted bare, anything else as the JSON that it is; nothing is escaped, no newline lost."""
    assert wanted == templates.render(text, VALUES, "x")


@pytest.mark.parametrize(
    ("value", "number"), [("41", 41), (" -7 ", -7), ("1.9", 1), (2.5, 2), (True, 1), (None, 0), (3, 3)]
)
def test_a_whole_number(value: Any, number: int, templates: Templates) -> None:
    """`| int` reads text, and cuts off what follows the point."""
    assert number == templates.value("x | int", {"x": value}, "x")


@pytest.mark.parametrize("value", ["abc", "", "nan", "1e400", [1]])
def test_no_whole_number(value: Any, templates: Templates) -> None:
    """It is named, and what to do."""
    error = wrong(templates, "{{ x | int }}", {"x": value})
    shown = value if isinstance(value, str) else "[1]"
    assert f"convert: run: `| int` of what is not a number: {shown!r}" == error.message
    assert "Give a number" in error.hint


@given(st.text())
def test_text_without_braces_is_untouched(text: str) -> None:
    """What is no template is left alone."""
    if "{{" not in text and "{%" not in text:
        assert text == Templates().render(text, {}, "x") == Templates().shell(text, {}, "x")[0]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_a_value_comes_back(value: Any) -> None:
    """An expression gives the value itself, of its own type."""
    assert value == Templates().value("x", {"x": value}, "w")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("files", ["x/one.pdf", "two.tar.gz"]),
        ("{{ files }}", ["x/one.pdf", "two.tar.gz"]),
        ("{{- count + 1 -}}", 4),
        ("{{ -1 }}", -1),
        ("[count, name]", [3, "a b"]),
        ("files[1:]", ["two.tar.gz"]),
        ("nothing", None),
        ("{'a': {'b': 1}}", {"a": {"b": 1}}),
    ],
)
def test_values(text: str, wanted: object, templates: Templates) -> None:
    """With or without braces."""
    assert wanted == templates.value(text, VALUES, "x")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ count == 3 }}", True),
        ("count > 3", False),
        ("{{ flag and not empty }}", True),
        ("{{ nothing }}", False),
        ("{{ empty }}", False),
        ("{{ files }}", True),
        ("{{ name }}", True),
        ("{{ 'false' }}", False),
        ("{{ 'No' }}", False),
        ("{{ 0 }}", False),
        ("{% if flag %}true{% else %}false{% endif %}", True),
        ("{% if empty %}true{% endif %}", False),
        ("{{ flag }} {{ flag }}", True),
        ("{{ missing is defined }}", False),
    ],
)
def test_conditions(text: str, wanted: bool, templates: Templates) -> None:
    """A value is true as in Python; text is false where it says so."""
    assert wanted == templates.test(text, VALUES, "x")


def test_names(templates: Templates) -> None:
    """What a template takes from outside, without what it makes itself or always has."""
    text = "{{ a.b[c] }}{% for x in xs %}{{ x }}{{ loop.index }}{% endfor %}{% set y = 1 %}{{ y }}{{ range(f(d)) }}"
    assert {"a", "c", "xs", "f", "d"} == templates.names(text)
    assert set() == templates.names("plain")
    with pytest.raises(BadTemplate):
        templates.names("{{ a b }}")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("{{ nmae }}", "convert: run: `nmae` is not defined", "Did you mean `name`?"),
        ("one\ntwo {{ cuont }}\n", "convert: run, line 2: `cuont` is not defined", "Did you mean `count`?"),
        (
            "{{ zzz }}",
            "`zzz` is not defined",
            "Give it under `vars`, with --var, or let an earlier step set it.",
        ),
        ("{{ deep.lits }}", "`deep.lits` is not defined", "It is read from something that does not have it."),
        ("{{ files[9] }}", "`files[9]` is not defined", ""),
        ("{{ zzz.a }}", "`zzz` is not defined", ""),
        ("{{ name | stme }}", "there is no filter `stme`", "Did you mean `stem`?"),
        ("{{ count is evne }}", "there is no test `evne`", "Did you mean `even`?"),
        ("{{ faild('x') }}", "there is no function `faild`", ""),
        ("{{ name", "unexpected end of input", "{% raw %}"),
        ("{{ .Names }}", "unexpected `.`", "{% raw %}"),
        ("{{ count + name }}", "number and string", ""),
        ("{{ files | stem }}", "takes the path of one file, not a list", "files[0]"),
        ("{% include 'x' %}", "template", ""),
        ("{{ 1 // 0 }}", "convert: run", ""),
        ("{% if zzz %}{% endif %}", "`zzz` is not defined", ""),
        ("{% for x in zzz %}{% endfor %}", "`zzz` is not defined", ""),
    ],
)
def test_what_is_wrong(text: str, message: str, hint: str, templates: Templates) -> None:
    """The step, the line, the name and the nearest right one."""
    error = wrong(templates, text)
    assert error.message.startswith("convert: run") and message in error.message
    assert hint in error.hint and error.exit_code == 4


def test_what_a_function_says(templates: Templates) -> None:
    """An error of ours passes with its hint; any other is named; a function that is not called is no value."""

    def failed(step: str) -> int:
        raise Invalid(f"There is no step {step}.", hint="Its steps: a, b.")

    error = wrong(templates, "{{ failed('c') }}", {"failed": failed})
    assert ("convert: run: There is no step c.", "Its steps: a, b.") == (error.message, error.hint)
    assert "KeyError" in wrong(templates, "{{ f() }}", {"f": lambda: VALUES["x"]}).message
    assert "a function: call it" in wrong(templates, "{{ f }}", {"f": lambda: 1}).message
    assert "positional argument" in wrong(templates, "{{ f(1) }}", {"f": lambda: 1}).message


class Lazy(Mapping[str, Any]):
    """A mapping that counts how often it is asked."""

    def __init__(self, of: dict[str, Any]) -> None:
        self.of = of
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        return self.of[key]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("nobody may go through all of it")

    def __len__(self) -> int:
        return len(self.of)


def test_values_are_looked_at_only_when_asked(templates: Templates) -> None:
    """A mapping is asked for the key that is used, by name or in brackets, and for no other."""
    outputs = Lazy({"a": ["x"], "b-c": ["y"]})
    assert "x y" == templates.render("{{ outputs.a[0] }} {{ outputs['b-c'][0] }}", {"outputs": outputs}, "w")
    assert ["a", "b-c"] == outputs.asked


def test_a_large_variable_is_not_copied(templates: Templates) -> None:
    """An expression gives the very object that was handed in."""
    files = [f"{n}.pdf" for n in range(10_000)]
    assert files is templates.value("files", {"files": files}, "w")


def test_a_variable_called_self(templates: Templates) -> None:
    """It cannot be had in a template, and is in nobody's way."""
    assert "a b" == templates.render("{{ name }}", VALUES, "w")
