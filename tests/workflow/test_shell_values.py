"""Values in scripts: a real shell reads each value as it is, wherever it stands, and executes nothing of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.errors import BadDefinition, BadTemplate
from leftoff.workflow.parse_definition import parse_definition
from leftoff.workflow.templates import Templates
from tests.cli.command import call, succeed
from tests.workflow.flows import lines, path_with_leftoff, run

SHELLS = {
    "bash": ["bash", "-eo", "pipefail"],
    "sh": ["/bin/sh", "-e"],
    "dash": ["dash", "-e"],
    "zsh": ["zsh", "-e"],
    "ksh": ["ksh", "-e"],
    "busybox": ["busybox", "sh", "-e"],
}
NASTY = [
    "plain",
    "",
    "a  b",
    "'",
    '"',
    "\\",
    "a\\",
    "`touch pwned`",
    '"; touch pwned; "',
    "'; touch pwned; '",
    "\\'; touch pwned #",
    "\n touch pwned \n",
    "$HOME ${HOME} $((1+1)) $'x' $\"y\"",
    "a[$(touch pwned)]",
    "* ? [a-z] {a,b}",
    "~",
    "-n",
    "\t\r\n\n",
    "é 漢字 🐋 \u202e \u00a0",
    "#x",
    "\nEOF\ntouch pwned\n",
    "<(touch pwned) >pwned 2>&1 & | ;",
    "${LEFTOFF_1?}",
]

# Each line prints the value. What it prints stands before it, with V for the value.
POSITIONS = r"""
V         | say {{ x }}
V         | say "{{ x }}"
V         | say '{{ x }}'
<V>       | say "<{{ x }}>"
preVpost  | say pre{{ x }}post
preVpost  | say 'pre{{ x }}post'
VV        | say "{{ x }}{{ x }}"
VV        | say {{ x }}{{ x }}
VV        | say '{{ x }}'"{{ x }}"
\V        | say '\{{ x }}'
\V        | say "\\{{ x }}"
$V        | say "\${{ x }}"
V.        | say "$(printf '%s.' {{ x }})"
V.        | say "$(printf '%s.' "{{ x }}")"
V.        | say "$(printf '%s.' '{{ x }}')"
V..       | say "$(printf '%s.' "$(printf '%s.' "{{ x }}")")"
V.        | say "$( (printf '%s.' {{ x }}) | cat)"
V         | y={{ x }}; say "$y"
V         | y='{{ x }}' && say "$y"
V         | y="{{ x }}" sh -c 'printf "%s.\000" "$y"'
3V        | n=3; say $n{{ x }}
3V        | n=3; say "$n{{ x }}"
V         | if true; then say {{ x }}; fi
V         | case {{ x }} in {{ x }}) say {{ x }} ;; *) say no ;; esac
V         | case {{ x }} in ({{ x }}) say {{ x }} ;; esac
V         | (say {{ x }}) | cat
V         | { say {{ x }}; }
V         | for z in {{ x }}; do say "$z"; done
V         | f() { say "$1"; }; f {{ x }}
V         | say \
V         |     {{ x }}
V         | say {{ x }} # it's a comment with {{ x }} and "a quote
V         | # {{ x }} `
a#V       | say a#{{ x }}
a #V      | say a\ #{{ x }}
V#        | say {{ x }}#
V         | say "${none:-}{{ x }}"
V         | say "${#y}" >/dev/null; say {{ x }}
V         | say "$#" >/dev/null; say {{ x }}
V         | say "$(( (1 + 2) << 3 ))" >/dev/null; say {{ x }}
V         | say "`echo \`echo x\``" >/dev/null; say {{ x }}
"""
HERE_DOCUMENTS = """
cat <<EOF; printf '.\\0'
it's "{{ x }}" $(printf '%s.' "{{ x }}") ${none:-its} $((1 << 2)) {{ x }}
EOF
cat <<-END | cat; printf '.\\0'
\t\t{{ x }}
\tEND
say "$(cat <<EOF
({{ x }}
EOF
)"
cat <<'ONE' >/dev/null; cat <<TWO; printf '.\\0'
it's
ONE
{{ x }}
TWO
say {{ x }}
"""


def shell(text: str, value: Any = "a b", **more: Any) -> str:
    """Return the script alone."""
    return Templates().shell(text, {"x": value}, "step: run", **more)[0]


def execute(argv: list[str], text: str, values: dict[str, Any], folder: Path) -> str:
    """Return what a script prints. Nothing may be on standard error, and the folder must stay empty."""
    script, held = Templates().shell(text, values, "step: run", shell=argv)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **held}
    done = subprocess.run(
        [*argv, "-c", script], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=env
    )
    assert (0, b"", []) == (done.returncode, done.stderr, os.listdir(folder))
    return done.stdout.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(params=SHELLS)
def argv(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = SHELLS[request.param]
    if shutil.which(found[0]) is None:
        pytest.skip(f"{found[0]} is not installed")
    return found


def test_positions(argv: list[str], folder: Path) -> None:
    """Bare, in quotes, in $(…), in words, assignments, loops and patterns: each nasty value arrives as it is."""
    rows = [line.partition("|")[::2] for line in POSITIONS.strip().split("\n")]
    script, wanted, values = ["say() { printf '%s.\\0' \"$@\"; }"], [], {}
    for number, value in enumerate(NASTY):
        values[f"v{number}"] = value
        for printed, line in rows:
            script.append(line.strip().replace("{{ x }}", f"{{{{ v{number} }}}}"))
            if not line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
                wanted.append((line, printed.strip().replace("V", value)))
    got = execute(argv, "\n".join(script) + "\n", values, folder).split("\0")[:-1]
    assert [f"{text}." for _, text in wanted] == got


def test_here_documents(argv: list[str], folder: Path) -> None:
    """In a here-document a value arrives too, and cannot end it."""
    for value in NASTY:
        got = execute(argv, "say() { printf '%s.\\0' \"$@\"; }" + HERE_DOCUMENTS, {"x": value}, folder)
        first = f'it\'s "{value}" {value}. its 4 {value}\n'
        assert [first, f"{value}\n", f"({value}".rstrip("\n"), f"{value}\n", value, ""] == got.split(".\0")


WORDS = st.recursive(
    st.sampled_from(["{{ x }}", '"{{ x }}"', "'{{ x }}'", "a", "'it\"s'", '"it\'s"', "\\'"]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | inner.map(lambda word: f"\"$(printf '%s.' {word})\"")
        | inner.map(lambda word: f"\"<$(cat <<E{len(word)}\n$(printf '%s.' {word})\nE{len(word)}\n)>\"")
    ),
    max_leaves=6,
)


@settings(max_examples=30)
@given(WORDS, st.sampled_from(NASTY))
def test_nested_words(folder: Path, word: str, value: str) -> None:
    """A word that is put together of such places means the same as with the value in a variable."""
    plain = word
    for place in ("'{{ x }}'", '"{{ x }}"', "{{ x }}"):
        plain = plain.replace(place, '"$X"')
    script, held = Templates().shell(f"printf '%s.' {word}", {"x": value}, "w")
    out = [
        subprocess.run(
            ["bash", "-c", text], cwd=folder, env={"PATH": os.environ["PATH"], **env}, **_QUIET
        ).stdout
        for text, env in ((script, held), (f"printf '%s.' {plain}", {"X": value}))
    ]
    assert out[0] == out[1]
    assert [] == os.listdir(folder)


PIECES = [
    "{{ x }}", " ", "\n", "'", '"', "`", "$(", ")", "(", "((", "))", "$((", "${y:-", "${#y}", "}", "; ", "| cat ", "#",
    "\\", "$'", "case a in a) ", " esac", ";; ", "<<EOF", "<<'EOF'", "<<-EOF", "\nEOF\n", "\n\tEOF\n", "y=", "y=(",
    "if true; then ", "fi", "for i in ", "; do ", "done", "<(", ">&2 ", "it's", "\\\n", "<<<", "$y", "1 << 2", '"$(',
    ')"', '"${y:-', 'echo "{{ x }}"', "echo '{{ x }}'", "echo $(echo {{ x }})\n", "cat <<EOF\n{{ x }}\nEOF\n",
    "echo {{ x }}\n",
]  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10).map("".join))
def test_any_script(folder: Path, text: str) -> None:
    """In any script a value is refused, or a plain word means what it would mean if it were written there."""
    text = f"{text} {{{{ x }}}}"
    try:
        script, held = Templates().shell(text, {"x": "word"}, "w")
    except BadTemplate:
        return
    plain, quiet, env = (
        text.replace("{{ x }}", "word"),
        {**_QUIET, "check": False},
        {"PATH": os.environ["PATH"]},
    )
    if subprocess.run(["bash", "-n", "-c", plain], **quiet).returncode == 0:
        wanted = subprocess.run(["bash", "-c", plain], cwd=folder, env=env, **quiet).stdout
        assert wanted == subprocess.run(["bash", "-c", script], cwd=folder, env=env | held, **quiet).stdout


_QUIET: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60, "check": True}


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("echo {{ x }}", 3, "echo 3"),
        ("echo {{ x }}", -0.5, "echo -0.5"),
        ('echo "{{ x }}"', True, 'echo "true"'),
        ("echo '{{ x }}'", None, "echo 'null'"),
        (
            "echo $(({{ x }} + 1)) ${y:-{{ x }}} `seq {{ x }}` $'{{ x }}'",
            3,
            "echo $((3 + 1)) ${y:-3} `seq 3` $'3'",
        ),
        ("cat <<'E'\n{{ x }}\nE\n", 3, "cat <<'E'\n3\nE\n"),
        ("echo a[{{ x }}] >&{{ x }}", 3, "echo a[3] >&3"),
        ("echo {{ x }}>f", 3, 'echo "${LEFTOFF_1?}">f'),
        ("echo $y{{ x }}", 3, 'echo $y"${LEFTOFF_1?}"'),
        ('echo "$y{{ x }}"', 3, 'echo "$y${LEFTOFF_1?}"'),
        ("echo $((x + {{ x }}))", "41", "echo $((x + ${LEFTOFF_1?}))"),
        ('echo "$((echo {{ x }}) | cat)"', "a", 'echo "$((echo "${LEFTOFF_1?}") | cat)"'),
        ("echo {{ x }}", {"a": 1}, 'echo "${LEFTOFF_1?}"'),
        ("echo {{ x | tojson }}", 3, 'echo "${LEFTOFF_1?}"'),
        ("# {{ x }}\necho", "a\nb", "# ...\necho"),
    ],
)
def test_what_is_written(text: str, value: Any, wanted: str) -> None:
    """Numbers, true, false and null are literal, unless that would mean something else there."""
    assert wanted == shell(text, value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("say {{ x }}", ["a b", "3", "$c", '["d"]']),
        ("say z {{ x }};", ["z", "a b", "3", "$c", '["d"]']),
        ("(say {{ x }})", ["a b", "3", "$c", '["d"]']),
        ("for i in {{ x }}; do say $i; done", ["a", "b", "3", "$c", '["d"]']),
        ("say {{ x | quote }}", ["a b", "3", "$c", '["d"]']),
        ("say {{ x[:3] | join(',') }}", ["a b,3,$c"]),
        ("say {{ x | tojson }}", ['["a b",3,"$c",["d"]]']),
        ('say "{{ x[:3] | quote }}"', ["'a b' 3 '$c'"]),
        ("say {{ [] }}.", None),
        ("say {{ [] }}", [""]),
        ("say '{{ x }}'", None),
        ('say "{{ x }}"', None),
        ("A={{ x }} env", None),
        ("say {{ x }}.md", None),
        ("say a\\ {{ x }}", None),
        ("cat <<E\n{{ x }}\nE\n", None),
    ],
)
def test_lists(text: str, wanted: list[str] | None, folder: Path) -> None:
    """A free-standing list is one word per item. Anywhere else it is refused, and `join` is named."""
    values = {"x": ["a b", 3, "$c", ["d"]]}
    if wanted is None:
        with pytest.raises(BadTemplate, match=r"^step: run, line \d, column \d+: a list ") as caught:
            execute(["bash"], text, values, folder)
        assert "| join" in caught.value.hint
    else:
        got = execute(["bash", "-f"], "say() { printf '%s\\n' \"$@\"; }\n" + text, values, folder)
        assert wanted == got.split("\n")[:-1]


REFUSED = {
    "backticks": ("echo `cat {{ x }}`", "2:11: a value in `…`", "env:"),
    "backticks in quotes": ('echo "`cat {{ x }}`"', "2:12: a value in `…`", "env:"),
    "braces": ("echo ${y:-{{ x }}}", "2:11: a value in ${…}", "env:"),
    "braces in quotes": ('echo "${y:-{{ x }}}"', "2:12: a value in ${…}", "env:"),
    "a command in braces": ('echo "${y:-$(cat {{ x }})}"', "2:18: a value in ${…}", "env:"),
    "ansi": ("echo $'{{ x }}'", "2:8: a value in $'…'", "env:"),
    "ansi with a quote": ("echo $'it\\'s {{ x }}'", "2:14: a value in $'…'", "env:"),
    "quoted here": ("cat <<'E'\n{{ x }}\nE\n", "3:1: a value in a here-document whose end is quoted", "env:"),
    "quoted here 2": (
        'cat <<"E"\n{{ x }}\nE\n',
        "3:1: a value in a here-document whose end is quoted",
        "env:",
    ),
    "quoted here 3": (
        "cat <<\\E\n{{ x }}\nE\n",
        "3:1: a value in a here-document whose end is quoted",
        "env:",
    ),
    "braces in here": ("cat <<E\n${y:-{{ x }}}\nE\n", "3:6: a value in ${…}", "env:"),
    "case in $(…)": ("y=$(case a in a) echo {{ x }};; esac)", "2:23: a value after `case` in $(…)", "env:"),
    "after case in $(…)": (
        "y=$(\ncase a in a) b;; esac); echo {{ x }}",
        "3:30: a value after `case`",
        "env:",
    ),
    "dollar": ("echo ${{ x }}", "2:7: a `$` right before a value", "{{ … }}"),
    "dollar in quotes": ('echo "${{ x }}"', "2:8: a `$` right before a value", "\\$"),
    "backslash": ("echo \\{{ x }}", "2:7: a backslash right before a value", "backslash"),
    "backslash in here": ("cat <<E\n\\{{ x }}\nE\n", "3:2: a backslash right before a value", "backslash"),
    "redirection": ("echo x >&{{ x }}", "2:10: a value right after `>&`", "2>&1"),
    "redirection in quotes": ('echo x >& "{{ x }}"', "2:12: a value right after `>&`", "2>&1"),
    "end of here": ("cat <<{{ x }}\n", "2:7: a here-document whose end is a value", "<<EOF"),
    "never closes": (
        "echo\necho \"{{ x }}\necho 'it'\n",
        '3:7: "…" that opens on line 2 of the script',
        "Close it",
    ),
    "never closes either": (
        "echo $(echo {{ x }}",
        "2:13: $(…) that opens on line 1 of the script",
        "Close it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Where a reference would not give the value, it is refused with line and column, before the run and in it."""
    text, wanted, hint = REFUSED[name]
    script = "true\n" + text
    with pytest.raises(BadTemplate) as caught:
        shell(script, "a b")
    line, column, what = wanted.split(":", 2)
    what = (
        what.replace("line 1", "line 2")
        if "opens on line 1" in what
        else what.replace("on line 2", "on line 3")
    )
    assert caught.value.message.startswith(f"step: run, line {line}, column {column}:{what}")
    assert hint in caught.value.hint
    indented = "".join(f"      {row}\n" for row in script.split("\n"))
    with pytest.raises(BadDefinition) as refused:
        parse_definition(f"vars: {{x: y}}\nsteps:\n  - id: a\n    run: |\n{indented}", "f.yaml")
    assert refused.value.message.startswith(f"f.yaml:{int(line) + 4}:{int(column) + 6}:{what}")
    assert hint in refused.value.hint


def test_refused_in_the_run_only() -> None:
    """Whether a value is a number, or a list that comes from outside, is known when the step starts."""
    text = "vars: {x: y, files: [a]}\nsteps:\n  - id: a\n    run: echo "
    for line in ("$(({{ x }} + 1))", "'{{ files[0] }}'", "{{ x }}.md", '"{{ x }}"'):
        parse_definition(text + json.dumps(line)[1:-1].replace('\\"', '"') + "\n", "f.yaml")
    for value in ("a b", "a[$(touch pwned)]", ""):
        with pytest.raises(BadTemplate, match="not a whole number") as caught:
            shell("echo $(({{ x }} + 1))", value)
        assert "| int" in caught.value.hint
    for line in ("'{{ files }}'", "{{ files }}.md"):
        with pytest.raises(BadDefinition, match=r"f\.yaml:4:\d+: a list "):
            parse_definition(text + line + "\n", "f.yaml")
    with pytest.raises(BadTemplate, match="step: run, line 3: a value in `…`"):
        shell("{% for y in [x] %}\n\necho `{{ y }}`{% endfor %}")
    with pytest.raises(BadTemplate, match="NUL"):
        shell("echo {{ x }}", "a\0b")


def test_raw_and_blocks() -> None:
    """`raw` is script. What a block or a macro made is a value like any other."""
    assert "echo a b" == shell("echo {{ x | raw }}")
    assert 'say "\'" "${LEFTOFF_1?}"' == shell("say {{ '\"' | raw }}'{{ '\"' | raw }} {{ x }}")
    for text, value in (
        ("{% set y %}<{{ x }}>{% endset %}echo {{ y }}", "<a b>"),
        ("{% macro m(v) %}-{{ v }}-{% endmacro %}echo {{ m(x) }}", "-a b-"),
        ("{% for y in [x] %}echo {{ y | upper }}{% endfor %}", "A B"),
        ("echo {{ x | tojson }}", '"a b"'),
    ):
        assert ('echo "${LEFTOFF_1?}"', {"LEFTOFF_1": value}) == Templates().shell(text, {"x": "a b"}, "w")
    assert 'echo <"${LEFTOFF_1?}">' == shell("{% set y %}<{{ x }}>{% endset %}echo {{ y | raw }}")
    assert 'echo "${LEFTOFF_1?}" \ue000' == shell("echo {{ x }} \ue000", "\ue000 \ue001")


@pytest.mark.parametrize(
    ("which", "supported"),
    [
        (None, True),
        ("bash", True),
        ("/bin/dash -e", True),
        (["/usr/bin/env", "zsh"], True),
        (["docker", "exec", "box", "sh", "-c"], True),
        ("sudo -u ada bash -eo pipefail", True),
        ("busybox sh", True),
        (["docker", "exec", "box", "python3", "-c"], False),
        ("python3", False),
        (["node", "-e"], False),
        ("fish", False),
        ("ruby3.1", False),
    ],
)
def test_which_shells(which: Any, supported: bool) -> None:
    """A value in a script for anything else is an error that names `env:`, before the run and in it."""
    if supported:
        assert 'x "${LEFTOFF_1?}"' == shell("x {{ x }}", shell=which)
        return
    with pytest.raises(BadTemplate, match="hands values to shells only") as caught:
        shell("x({{ x }})", shell=which)
    with pytest.raises(BadDefinition, match=r"f\.yaml:5:12: leftoff hands values to shells only") as refused:
        parse_definition(
            f"vars: {{x: y}}\nsteps:\n  - id: a\n    shell: {json.dumps(which)}\n    run: x({{{{ x }}}})\n",
            "f.yaml",
        )
    assert "`env:`" in caught.value.hint and "`env:`" in refused.value.hint
    assert "x a b" == shell("x {{ x | raw }}", shell=which)
    if which in ("fish", "ruby3.1"):  # in these, "…" may hold code
        with pytest.raises(BadTemplate):
            shell("x({{ x | tojson }})", shell=which)
    else:
        assert 'x("a b")' == shell("x({{ x | tojson }})", shell=which)


# -- through the command


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path


def test_a_run(project: Path) -> None:
    """Values reach `run`, `checks`, `criteria` and the command of a `foreach`, in each shell, and no one else."""
    run(
        project,
        r"""
        name: all
        vars: {x: "it's $(touch pwned) \"a\"", files: [a b, c], n: 3}
        steps:
          - id: one
            run: printf '%s\n' {{ x }} {{ files }} $(({{ n }} + 1)) > one
            checks: ["grep -qF {{ x }} one"]
            criteria: {right: 'test "$(head -n 1 one)" = "{{ x }}"'}
          - id: two
            shell: dash
            run: |
              cat > two <<EOF
              {{ x }}
              EOF
          - id: three
            foreach: {command: "printf '%s\n' {{ files }}"}
            run: echo "<{{ item }}>" >> three
          - id: four
            shell: python3
            env: {X: "{{ x }}"}
            run: import os; open("four", "w").write(os.environ["X"])
          - id: five
            run: sh -c "printf %s {{ x | quote }}" > five
        """,
    )
    value = 'it\'s $(touch pwned) "a"'
    assert [value, "a b", "c", "4"] == lines(project, "one")
    assert [value] == lines(project, "two")
    assert ["<a b>", "<c>"] == sorted(lines(project, "three"))
    assert value == (project / "four").read_text() == (project / "five").read_text()
    assert not (project / "pwned").exists()


@pytest.mark.parametrize("wrapper", ["env -i", "env -u LEFTOFF_1"])
def test_a_dropped_value(project: Path, wrapper: str) -> None:
    """A program that drops the environment makes the step fail, rather than work on an empty value."""
    path = f'PATH="{os.environ["PATH"]}"' if wrapper == "env -i" else ""
    step = {"id": "a", "shell": f"{wrapper} {path} bash", "run": "rm -rf ./{{ x }}/*; touch done"}
    ran = run(project, json.dumps({"name": "f", "vars": {"x": "value"}, "steps": [step]}), code=1)
    assert not (project / "done").exists()
    assert "LEFTOFF_1: parameter not set" in ran.steps()["a"]["error"]["tail"]


def test_inherited_values_are_removed(project: Path) -> None:
    """A run that is started inside a step does not see the values of that step."""
    (project / "inner.yaml").write_text(
        "name: inner\nsteps:\n  - {id: a, run: 'env | grep -c ^LEFTOFF_[0-9] > inner || true'}\n"
    )
    flow = """
        name: outer
        vars: {x: value}
        steps:
          - {id: a, run: 'echo {{ x }}; leftoff run inner.yaml --run-id inner'}
        """
    run(project, flow, PATH=path_with_leftoff())
    assert ["0"] == lines(project, "inner")


@pytest.mark.parametrize(
    ("size", "count", "fits"), [(100_000, 1, True), (100_001, 1, False), (99_000, 11, False)]
)
def test_too_large(project: Path, size: int, count: int, fits: bool) -> None:
    """What is too large fails before the step starts, and `leftoff get` is named; that works for any size."""
    given = {f"v{number}": f"{number:02}" + "x" * (size - 2) for number in range(count)}
    shown = " ".join(f"{{{{ {name} }}}}" for name in given)
    steps = [{"id": "a", "on_failure": "continue", "run": f"touch began; echo {shown} | wc -c > out"}]
    if not fits:
        steps.append({"id": "b", "run": "leftoff get v0 | wc -c > out"})
    (project / "f.yaml").write_text(json.dumps({"name": "f", "vars": given, "steps": steps}))
    words = ["run", "f.yaml", "--run-id", "r"]
    called = call(*words, cwd=project, PATH=path_with_leftoff())
    if fits:
        assert (0, str(size + 1)) == (called.code, (project / "out").read_text().strip()), str(called)
        return
    assert 1 == called.code and not (project / "began").exists(), str(called)
    message = succeed("show", "r", "--json", cwd=project).json["step_records"][0]["error"]["message"]
    assert "too large for the environment" in message and "`leftoff get NAME`" in message
    assert str(size + 1) == (project / "out").read_text().strip()


def test_values_are_part_of_the_cache_key(project: Path) -> None:
    """With --reuse a step runs again if a value of its script changed, though its script did not."""
    (project / "f.yaml").write_text(
        "name: f\nvars: {x: a, y: b}\nsteps:\n  - {id: a, run: 'echo {{ x }} >> log'}\n"
    )
    for words in ((), (), ("--var", "y=c"), ("--var", "x=d"), ("--var", "x=d")):
        succeed("run", "f.yaml", "--reuse", *words, cwd=project)
    assert ["a", "d"] == lines(project, "log")
    plan = succeed("run", "f.yaml", "--reuse", "--dry-run", "--json", "--var", "x=e", cwd=project).json[
        "plan"
    ]
    assert ("run", "its command changed") == (plan[0]["action"], plan[0]["why"])


def test_secrets_in_values_are_redacted(project: Path) -> None:
    """A value that a step prints, or that the shell traces, is redacted in its log as any other text."""
    token = "ghp_" + "a1B2" * 9
    (project / "f.yaml").write_text(
        "name: f\nother_vars: true\nsteps:\n  - {id: a, run: 'set -x; echo {{ x }}; env'}\n"
    )
    succeed("run", "f.yaml", "--var", f"x=see {token}", "--run-id", "r", cwd=project)
    log = succeed("logs", "r", "a", cwd=project).out
    assert "LEFTOFF_1=see [redacted" in log and token not in log
    for path in (project / ".leftoff").rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path
