"""Values in scripts: whatever a value holds, a real shell reads it as that text, and executes nothing of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leftoff.errors import BadDefinition, BadTemplate
from leftoff.workflow.definition.parse import parse
from leftoff.workflow.template.render import Templates, expands, is_posix

NASTY = [
    "'",
    '"',
    "\\",
    "`touch pwned`",
    "$(touch pwned)",
    "; touch pwned #",
    "; rm -rf * ; '",
    '"; touch pwned; "',
    "'; touch pwned; '",
    "\\'; touch pwned #",
    "\n touch pwned \n",
    "$HOME ${HOME} $((1+1)) $'x' $\"y\"",
    "a[$(touch pwned)]",
    "*",
    "~",
    "!!",
    "-n",
    "",
    " ",
    "\t\r\n\n",
    "é 漢字 🐋 \u202e \u00a0",
    "A=b",
    "#x",
    "EOF",
    "{a,b} <(touch pwned) >pwned 2>&1 & | ;",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
SHELLY = st.lists(
    st.sampled_from([*"'\"`$\\;&|<>(){}[]*?~#!=\n\t -", "$(", "${", "a", "touch pwned", "EOF", "é"]),
    max_size=12,
).map("".join)
VALUES = st.sampled_from(NASTY) | SHELLY | TEXT

# Every quoting that an author may put a value into; each prints it, with a dot at the end.
SCRIPT = """\
say() { printf '%s.\\0' "$@"; }
say {{ x }}
say "{{ x }}"
say '{{ x }}'
say "$(printf '%s.' {{ x }})"
say "$(printf '%s.' "{{ x }}")"
say "$(printf '%s.' '{{ x }}')"
say "$(say "$(printf '%s.' "{{ x }}")" | tr -d '\\0')"
say pre{{ x }}post "pre{{ x }}post" 'pre{{ x }}post'
y={{ x }}; say "$y"
if true; then say {{ x }}; fi
case {{ x }} in {{ x }}) say {{ x }} ;; *) say "it does not match itself" ;; esac
(say {{ x }}) | cat
for z in {{ [x, x] }}; do say "$z"; done
# a comment that's in nobody's way
"""


def printed(value: str) -> list[str]:
    """What SCRIPT prints."""
    inner = f"{value}."
    return [
        value, value, value, inner, inner, inner, f"{inner}.", f"pre{value}post", f"pre{value}post", f"pre{value}post",
        value, value, value, value, value, value,
    ]  # fmt: skip


def bash() -> str:
    found = shutil.which("bash")
    assert found, "these tests need bash"
    return found


def execute(shell: list[str], script: str, folder: Path) -> bytes:
    """What a script prints, in an empty folder that must be empty afterwards."""
    done = subprocess.run(
        [*shell, "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    assert (b"", []) == (done.stderr, os.listdir(folder)), script
    assert 0 == done.returncode, script
    return done.stdout


def shell(text: str, value: Any = "a b", **more: Any) -> str:
    return Templates().shell(text, {"x": value}, "step: run", **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, for all examples."""
    return tmp_path_factory.mktemp("scripts")


@pytest.mark.parametrize("which", ["bash", "sh"])
@pytest.mark.parametrize("value", NASTY)
def test_nasty_values(value: str, which: str, folder: Path) -> None:
    """Bare, in either quotes, in $(…), in words, assignments, loops and patterns: it arrives as it is."""
    argv = [bash(), "-eo", "pipefail"] if which == "bash" else ["/bin/sh", "-e"]
    got = execute(argv, shell(SCRIPT, value), folder)
    assert "".join(f"{text}.\0" for text in printed(value)) == got.decode()


@settings(max_examples=60)
@given(VALUES)
@example("'\"'\\''$(touch pwned)`")
def test_any_value(folder: Path, value: str) -> None:
    """The same for whatever text there is."""
    got = execute([bash(), "-eo", "pipefail"], shell(SCRIPT, value), folder)
    assert "".join(f"{text}.\0" for text in printed(value)) == got.decode()


@settings(max_examples=40)
@given(VALUES, st.sampled_from(["EOF", "'EOF'", '"EOF"', "\\EOF"]))
def test_here_documents(folder: Path, value: str, end: str) -> None:
    """In a here-document, expanded or not, it arrives too; where it would end the document, it is refused."""
    text = f"cat <<{end}\n<{{{{ x }}}}>\n{{{{ x }}}}\nEOF\nprintf '%s' {{{{ x }}}}\n"
    if "EOF" in value.split("\n"):
        with pytest.raises(BadTemplate, match="would end the here-document"):
            shell(text, value)
    else:
        assert f"<{value}>\n{value}\n{value}" == execute([bash()], shell(text, value), folder).decode()


FRAGMENTS = [
    "echo ", "{{ x }}", " ", "\n", "'", '"', "`", "$(", ")", "(", "((", "))", "$((", "${x:-", "}", "{ ", "; ", "| ",
    "#", "\\", "$", "$'", "$$", "case a in a) ",
    " esac", ";; ", "<<EOF", "<<'EOF'", "\nEOF\n", "[[ ", " ]]", "x=", "x=(",
    "a[", "f() ", "if true; then ", "fi", "for i in ", "; do ", "done", "<(", ">&", "it's", "<", "\\\n", "in ",
    'echo "{{ x }}"', "echo '{{ x }}'", 'echo "$(echo {{ x }})"', "cat <<EOF\n{{ x }}\nEOF\n",
]  # fmt: skip
PAYLOADS = [
    "; >pwned #", "$(>pwned)", "`>pwned`", "'; >pwned; '", '"; >pwned; "', "\n>pwned\n", "\nEOF\n>pwned\n",
    "') >pwned;", '\\"; >pwned #', "a[$(>pwned)]", "}; >pwned; {", ")); >pwned; ((", "\\'; >pwned #", "${x:=$(>pwned)}",
]  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=12), st.sampled_from(PAYLOADS))
def test_no_script_makes_a_value_a_command(folder: Path, fragments: list[str], payload: str) -> None:
    """However broken a script is: a value is refused, or it is text to the shell."""
    try:
        script = shell("".join([*fragments, " {{ x }}"]), payload)
    except BadTemplate:
        return
    subprocess.run(
        [bash(), "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert not (folder / "pwned").exists(), script
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("echo {{ x }}", "echo 'a b' c"),
        ('echo "{{ x }}"', 'echo "a b c"'),
        ("x=(z {{ x }})", "x=(z 'a b' c)"),
        ("for i in {{ x }}; do :; done", "for i in 'a b' c; do :; done"),
        ("echo {{ x | join(',') }}", "echo 'a b,c'"),
        ("echo {{ x | raw }}", "echo a b c"),
        ("echo {{ x | quote }}", "echo 'a b' c"),
        ("echo {{ x | tojson }}", 'echo \'["a b","c"]\''),
        ("echo {{ [] }}.", None),
        ("A={{ x }} env", None),
        ("echo {{ x }}.md", None),
    ],
)
def test_lists(text: str, wanted: str | None) -> None:
    """A list is as many words as it has entries; where it touches other text it is refused."""
    if wanted is None:
        with pytest.raises(BadTemplate, match="a list that touches other text"):
            shell(text, ["a b", "c"])
    else:
        assert wanted == shell(text, ["a b", "c"])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (3, "echo 3"),
        (True, "echo true"),
        (None, "echo null"),
        (0.5, "echo 0.5"),
        ({"a": "it's"}, "echo '{\"a\":\"it'\\''s\"}'"),
        ([], "echo "),
        ([["a", "b"], 1], 'echo \'["a","b"]\' 1'),
        ("", "echo ''"),
        ("plain/Text-1.0_x@y:z,%+", "echo plain/Text-1.0_x@y:z,%+"),
    ],
)
def test_other_values(value: Any, wanted: str) -> None:
    """What is no text is its JSON; what needs no quotes gets none."""
    assert wanted == shell("echo {{ x }}", value)


@pytest.mark.parametrize(
    "text",
    [
        "echo `cat {{ x }}`",
        'echo "`cat {{ x }}`"',
        "echo ${y:-{{ x }}}",
        'echo ${y:-"{{ x }}"}',
        "echo $(( {{ x }} + 1 ))",
        "(( y = {{ x }} ))",
        "echo $'{{ x }}'",
        "true # {{ x }}",
        'echo "${y:-\'}" {{ x }}',
        "y=$(cat <<EOF\n{{ x }}\nEOF\n)",
        "echo x >&{{ x }}",
        "echo $(echo case) {{ x }}",
    ],
)
def test_where_quotes_do_not_help(text: str) -> None:
    """A value that is plain may stand there (a number, in arithmetic); any other is refused, with the way out."""
    assert "1" in shell(text, "1")
    for value in ("a b", "$(touch pwned)", "'"):
        with pytest.raises(BadTemplate) as caught:
            shell(text, value)
        assert caught.value.message.startswith("step: run, line ")
        assert any(way in caught.value.hint for way in ("env:", "2>&1", "| int"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo ${{ x }}", "a `$` right before a value"),
        ('echo "${{ x }}"', "a `$` right before a value"),
        ("echo \\{{ x }}", "a backslash right before a value"),
        ("cat <<{{ x }}\n", "a here-document whose end is no plain word"),
        ("cat <<$END\n{{ x }}", "a here-document whose end is no plain word"),
    ],
)
def test_never(text: str, words: str) -> None:
    """Some places take no value at all."""
    for value in ("1", "a b"):
        with pytest.raises(BadTemplate) as caught:
            shell(text, value)
        assert words in caught.value.message


def test_the_line_is_told() -> None:
    """An error names the line of the script."""
    with pytest.raises(BadTemplate, match=r"^step: run, line 3: "):
        shell("echo\necho 'x\n'; echo `{{ x }}`")


def test_what_never_closes() -> None:
    """A quote that stays open says so, rather than let the shell guess."""
    with pytest.raises(BadTemplate, match='"…" that opens on line 2 never closes'):
        shell("echo\necho \"{{ x }}\necho 'it'\n")


def test_a_nul_is_refused() -> None:
    """No command can be given one."""
    with pytest.raises(BadTemplate, match="NUL"):
        shell("echo {{ x }}", "a\0b")


def test_raw_is_raw() -> None:
    """What opts out is script: it may open quotes for others."""
    assert "echo a b" == shell("echo {{ x | raw }}")
    assert "say \"'\" 'a b'" == Templates().shell(
        "say {{ q | raw }}'{{ q | raw }} {{ x }}", {"q": '"', "x": "a b"}, "w"
    )


def test_text_that_was_rendered_before() -> None:
    """A block or a macro gives a value like any other, quoted once and as a whole."""
    assert "echo '<a b>'" == shell("{% set y %}<{{ x }}>{% endset %}echo {{ y }}")
    assert "echo '-a b-'" == shell("{% macro m(v) %}-{{ v }}-{% endmacro %}echo {{ m(x) }}")
    assert "echo <'a b'>" == shell("{% set y %}<{{ x }}>{% endset %}echo {{ y | raw }}")
    assert "echo 'A B'\n" == shell("{% for y in [x] %}echo {{ y | upper }}\n{% endfor %}")


def test_characters_like_our_marks() -> None:
    """A value, or a script, may hold the characters that stand for values inside."""
    assert "echo '\ue000 \ue001' \ue000" == shell("echo {{ x }} \ue000", "\ue000 \ue001")
    assert "echo '\ue0001:0\ue001'" == shell("echo {{ x }}", "\ue0001:0\ue001")


@pytest.mark.parametrize(
    ("which", "posix"),
    [
        (None, True),
        ("bash", True),
        ("/bin/dash -e", True),
        (["/usr/bin/env", "zsh"], True),
        (["docker", "exec", "box", "sh", "-c"], True),
        ("sudo -u ada bash", True),
        (["docker", "exec", "box", "python3", "-c"], False),
        (["su", "ada", "sh", "-c"], False),
        ([], False),
        ("python3", False),
        (["node", "-e"], False),
        ("fish", False),
        (["ssh", "host", "bash"], False),
    ],
)
def test_which_shells_are_shells(which: Any, posix: bool) -> None:
    """Only where the quotes are known can a value be quoted."""
    assert posix == is_posix(which)
    text = "x({{ x }})"
    if not posix:
        with pytest.raises(BadTemplate) as caught:
            shell(text, shell=which)
        assert expands(which) == ("| tojson" not in caught.value.hint)


@pytest.mark.parametrize(
    "which",
    ["fish", "perl", "ruby3.1", "/usr/bin/php8.2", ["pwsh", "-c"], ["ssh", "host", "bash"], ["ssh", "host"]],
)
@pytest.mark.parametrize("text", ["x({{ x | tojson }})", "x {{ x | quote }}"])
def test_a_language_that_looks_into_its_texts(which: Any, text: str) -> None:
    """Where a text in double quotes is expanded, JSON is no literal; and quotes for a shell are none for others."""
    with pytest.raises(BadTemplate) as caught:
        shell(text, "$(touch x)", shell=which)
    assert "`env:`" in caught.value.hint
    step = f"shell: {json.dumps(which)}\n    run: {json.dumps(text)}"
    with pytest.raises(BadDefinition, match=r"f\.yaml:5:") as refused:
        parse(f"vars: {{x: y}}\nsteps:\n  - id: a\n    {step}\n", "f.yaml")
    assert "`env:`" in refused.value.hint
    assert "x 1" == shell("x {{ x | raw }}", 1, shell=which)


def test_another_language(folder: Path) -> None:
    """JSON is a literal in most languages; raw is raw."""
    text = "print({{ x | tojson }}, {{ x | raw }})"
    assert "print([1,2], 1 2)" == shell(text, [1, 2], shell="python3")
    value = 'it\'s "x" \\ é\n'
    script = shell("import sys; sys.stdout.write({{ x | tojson }})", value, shell="python3")
    assert value == execute([shutil.which("python3") or "python3"], script, folder).decode()
