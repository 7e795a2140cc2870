"""Places where a shell reads a value a second time are refused, and nothing that is let pass executes one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.errors import BadTemplate
from leftoff.workflow.template.check import refused
from leftoff.workflow.template.environment import check_environment
from leftoff.workflow.template.render import Templates, is_ksh
from tests.cli.command import call

REFUSED = {
    "eval": "eval {{ x }}",
    "eval in quotes": 'eval "echo \'{{ x }}\'"',
    "eval of a command's output": 'eval "$(printf %s {{ x }})"',
    "let with a command's output": 'let "$(echo {{ x }})"',
    "a number that a command prints": "[[ $(basename {{ x }}) -gt 3 ]]",
    "two commands inside": "[[ $(echo {{ x }})$(wc -l < {{ y }}) -gt 3 ]]",
    "eval in a condition": "if eval {{ x }}; then :; fi",
    "eval in quotes itself": "'ev'al {{ x }}",
    "eval behind a backslash": "\\eval {{ x }}",
    "eval behind other words": "A=1 command -p eval {{ x }}",
    "eval behind a redirection": "2>/dev/null eval {{ x }}",
    "eval behind both": "&>/dev/null eval &>log {{ x }}",
    "eval on the next line": "eval \\\n  {{ x }}",
    "eval in a function": "function f { eval {{ x }}; }",
    "eval in a loop": "for i in 1; do eval {{ x }}; done",
    "eval in a case": "case a in a) eval {{ x }} ;; esac",
    "eval in a substitution": 'echo "$(eval {{ x }})"',
    "eval in backticks": "echo `eval {{ x }}`",
    "eval in a here-document": "cat <<EOF\n$(eval {{ x }})\nEOF\n",
    "trap": "trap 'rm -rf {{ x }}' EXIT",
    "source": ". {{ x }}",
    "source of output": "source <(echo {{ x }})",
    "alias": "alias a={{ x }}",
    "unset": "unset {{ x }}",
    "read": "read -r {{ x }} < file",
    "mapfile": "mapfile -t {{ x }} < file",
    "getopts": "getopts ab {{ x }}",
    "printf -v": "printf -v {{ x }} %s 1",
    "printf -v at once": 'printf "-v{{ x }}" %s 1',
    "printf %n": "printf 'abc%n' {{ x }}",
    "declare": "declare {{ x }}",
    "declare a name": 'declare "n{{ x }}=1"',
    "declare an element": 'declare "n[{{ x }}]=1"',
    "declare a number": "declare -i n={{ x }}",
    "a number declared elsewhere": "n={{ x }}; typeset -i n",
    "a reference": "declare -n n; n={{ x }}",
    "a list": "declare -a n={{ x }}",
    "export": "export {{ x }}",
    "local": "f() { local -i n={{ x }}; }",
    "let": "let n={{ x }}",
    "arithmetic": "echo $(( {{ x }} + 1 ))",
    "an arithmetic command": "(( n = {{ x }} ))",
    "an arithmetic loop": "for (( i = 0; i < {{ x }}; i++ )); do :; done",
    "a subscript": "a[{{ x }}]=1",
    "a subscript in quotes": "a['{{ x }}']=1",
    "a subscript of a list": "a=([{{ x }}]=1)",
    "a subscript in braces": "echo ${a[{{ x }}]}",
    "an offset": "echo ${a:{{ x }}}",
    "an indirection": "echo ${!{{ x }}}",
    "a test of numbers": "[[ {{ x }} -eq 1 ]]",
    "the other side of it": '[[ 1 -lt "{{ x }}" ]]',
    "a test of numbers, later": "[[ -n a && {{ x }} -eq 1 ]]",
    "a test of names": "[[ -v {{ x }} ]]",
    "[ -v": "[ -v {{ x }} ]",
    "test -v": "test -v {{ x }}",
    "wait -p": "wait -n -p {{ x }}",
    "a variable that is expanded": "PS4={{ x }}",
    "a variable that is read": "BASH_ENV={{ x }} bash file",
    "a variable that is a number": "export RANDOM={{ x }}",
    "sh -c": "sh -c 'echo {{ x }}'",
    "bash -euc": '/bin/bash -eu -o pipefail -c "cat {{ x }}"',
    "env bash -c": "env A=1 bash -c {{ x }}",
    "xargs sh -c": "ls | xargs sh -c 'echo {{ x }}' sh",
    "find -exec sh -c": "find . -exec sh -c 'echo {{ x }}' {} \\;",
    "busybox sh -c": "busybox sh -c {{ x }}",
    "su -c": 'su ada -c "cat {{ x }}"',
    "flock -c": "flock file -c {{ x }}",
    "ssh": "ssh -p 22 host cat {{ x }}",
    "watch": "watch -n 1 {{ x }}",
    "a pipe into a shell": "echo {{ x }} | sh",
    "a longer pipe": "echo {{ x }} | sed s/a/b/ | sudo bash -e",
    "a pipe on two lines": "echo {{ x }} |\n  sh",
    "a pipe with errors": "echo {{ x }} |& bash",
    "a group into a shell": "{ echo a; echo {{ x }}; } | sh",
    "a subshell into a shell": "(echo {{ x }}) | sh",
    "a loop into a shell": "for i in 1; do echo {{ x }}; done | sh",
    "xargs into a shell": "echo {{ x }} | xargs -I{} sh -c 'echo {}'",
    "a here-document for a shell": "bash -s <<EOF\necho {{ x }}\nEOF\n",
    "one that does not expand": "ssh host <<'EOF'\necho {{ x }}\nEOF\n",
    "one in a pipe": "cat <<EOF | sh\necho {{ x }}\nEOF\n",
    "one in a pipe on two lines": "cat <<EOF |\necho {{ x }}\nEOF\nsh\n",
    "a here-string for a shell": "bash <<< {{ x }}",
    "output as a script": "bash <(echo {{ x }})",
    "output as input": "bash < <(echo {{ x }})",
    "a shell that reads what is printed": "echo {{ x }} > >(bash)",
    "one beside it": "tee >(sh) <<< {{ x }}",
    "a shell that reads an open file": "sh /dev/stdin <<< {{ x }}",
    "one under another name": "bash /proc/self/fd/0 <<EOF\necho {{ x }}\nEOF\n",
    "one that is not its input": ". /dev/fd/3 3<<EOF\necho {{ x }}\nEOF\n",
    "a callback": "mapfile -C eval -c 1 a <<< {{ x }}",
    "commands for later": "echo {{ x }} | at now",
    "commands for later on lines": "batch <<EOF\necho {{ x }}\nEOF\n",
    "the user's own shell": '"$SHELL" -c "echo {{ x }}"',
    "the user's own shell in braces": "${SHELL} -c {{ x }}",
    "a prompt that a loop gives": "for PS4 in {{ x }}; do set -x; done",
    "a prompt that is read": "read -r PS4 <<< {{ x }}",
    "env -S": "env -S {{ x }}",
    "env -S among others": "env -iS{{ x }}",
    "env --split-string": "env --split-string={{ x }}",
    "npx -c": "npx -c {{ x }}",
    "hyperfine": "hyperfine 'cat {{ x }}'",
    "adb shell": "adb shell ls {{ x }}",
    "a number that a loop gives": "declare -i n; for n in {{ x }}; do :; done",
    "a number that is read": "declare -i n; read -r n <<< {{ x }}",
    "a number that is printed": "declare -i n; printf -v n %s {{ x }}",
    "braces that make words": "{eval,{{ x }}}",
    "braces that make options": "printf {-v,'{{ x }}'} a",
    "arithmetic as it was once written": "echo $[ {{ x }} ]",
    "a name that goes on": 'echo "$GITHUB{{ x }}"',
    "one without quotes": "echo $GITHUB{{ x }}",
    "one over a line's end": 'echo "$GITHUB\\\n{{ x }}"',
    "one in a here-document": "cat <<EOF\n$GITHUB{{ x }}\nEOF\n",
    "one in braces": "echo ${GITHUB{{ x }}}",
    "an argument that goes on": 'echo "$1{{ x }}"',
    "quote in double quotes": 'echo "{{ x | quote }}"',
    "quote in single quotes": "echo '{{ x | quote }}'",
    "quote in dollar quotes": "echo $'{{ x | quote }}'",
}  # fmt: skip

ALLOWED = {
    "an argument of sh -c": "sh -c 'echo \"$1\"' sh {{ x }}",
    "an argument of xargs sh -c": "echo a | xargs sh -c 'echo \"$0\"' {{ x }}",
    "the file of a shell": "bash {{ x }}",
    "input of a script": "echo {{ x }} | bash file.sh",
    "a pipe past a word": "echo {{ x }} | grep bash",
    "the argument of a file that is read": ". ./file {{ x }}",
    "a value of a variable": "export A={{ x }} B=1; local c={{ x }}",
    "a value in a list": "a=({{ x }} eval)",
    "printf": "printf '%s %d\\n' {{ x }} {{ x }}",
    "a host": "ssh -i {{ x }} {{ x }} uptime",
    "a number in [": "[ {{ x }} -eq 1 ]",
    "a number in $((…))": "echo $(( {{ x | int }} + {{ xs | length }} + {{ 3 }} ))",
    "a number in [[": "[[ {{ x | int }} -eq 1 ]]",
    "a number of a command": '[[ "$(wc -l < {{ x }})" -eq 1 ]]',
    "text in [[": "[[ {{ x }} == a && -f {{ x }} ]]",
    "a number in a subscript": "a[{{ x | int }}]=1",
    "what comes instead": "echo ${y:-{{ x | int }}}",
    "a name in braces": 'echo "${GITHUB}{{ x }}"',
    "a dollar that is none": 'echo "\\$GITHUB{{ x }}" \'$GITHUB{{ x }}\'',
    "quote": "cp {{ x | quote }} \"$(dirname {{ x | quote }})\"",
    "quote in a script that is written": "cat > file.sh <<EOF\ncp {{ x | quote }} .\nEOF\n",
    "braces that are none": "echo '{\"a\":1,\"b\":{{ x }}}' {{ x }}/{a,b}",
    "a reader that is no shell": "tee >(cat) <<< {{ x }}",
    "lines that are counted": "[[ $(wc -l < {{ x }}) -gt 3 ]]",
    "hits that are counted": '[[ "$(cat {{ x }} | grep -ic b)" -gt 3 ]]',
    "lines that are counted with": 'f={{ x }}; echo $(( $(wc -l < "$f") + 1 ))',
    "the length of a text": "s={{ x }}; echo $(( ${#s} + 1 ))",
    "a key that is text": "declare -A m; k={{ x }}; m[$k]=1",
    "text beside a number": '[[ "$s" == a && $n -gt 1 ]]; s={{ x }}',
    "env": "env A={{ x }} npx tool {{ x }}",
    "behind a word that is not known": 'npx "$TOOL" {{ x }}; vagrant "$1" {{ x }}; gcloud info "$A" {{ x }}',
    "after eval": "eval true; echo {{ x }}",
    "beside eval": "eval true | cat {{ x }}",
    "words that are none": "echo eval {{ x }}; case eval in eval) echo {{ x }} ;; esac",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    """Whatever the value: it is known before anything runs, and said again should it come to that."""
    found = refused(text)
    assert found is not None
    assert found.sure, found.message
    with pytest.raises(BadTemplate):
        Templates().shell(text, {"x": "$(touch pwned)"}, "step: run")


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_allowed(text: str) -> None:
    """What is read once only may stand."""
    found = refused(text)
    assert found is None or not found.sure, found.message


COUNTED = [
    "n={{ x }}; echo $((n + 1))", "export n={{ x }}; (( n++ ))", 'n="{{ x }}"; [[ $n -gt 3 ]]', "n={{ x }}; let m=n",
    "n={{ x }}; a=(1); echo ${a[n]}", "n={{ x }}; s=abc; echo ${s:n:1}", "for n in {{ x }}; do echo $((n)); done",
    "read -r n <<< {{ x }}; echo $((n))", "printf -v n %s {{ x }}; echo $((n))",
    "for ((i=0;i<n;i++)) do :; done; n={{ x }}", "n={{ x }}; [[ ${a[n]} == 1 ]]", "n={{ x }}; [[ $((n)) == 1 ]]",
    "n={{ x }}; a[n]=1", "n={{ x }}; a=([n]=1)", "n={{ x }}; unset 'a[n]'", "n={{ x }}; [[ -v a[n] ]]",
    "n={{ x }}; bash -c 'let m=n'", "n=({{ x }}); echo $((n[0]))", "n=(1)\nn+=(\n  {{ x }}\n)\necho $(( ${n[1]} ))",
    "n={{ x }}; declare -i i=$n", "f() { local -i i=n; }; n={{ x }}; f",
]  # fmt: skip


@pytest.mark.parametrize("text", COUNTED)
def test_a_variable_that_is_counted_with(text: str) -> None:
    """Bash executes what is in it there: it gets a number, and `--check` says that no other value will do."""
    for number in (7, "7", " -3 ", "1.5", "0x1f", ""):
        Templates().shell(text, {"x": number}, "step: run")
    for other in ("a[$(touch pwned)]", "HOME", "7+a[`id`]"):
        with pytest.raises(BadTemplate, match=r"\$n, which the script counts with"):
            Templates().shell(text, {"x": other}, "step: run")
    found = refused(text)
    assert found is not None
    assert not found.sure


@pytest.mark.parametrize(
    "text",
    ["echo $(( ${#a[@]} - 1 ))", 'for ((i=0; i<${#a[@]}; i++)); do echo "${a[i]}"; done', "declare -i i=3"],
)
def test_a_list_that_is_not_counted_with(text: str) -> None:
    """How many entries it has is no content of it."""
    assert refused(f"a=({{{{ x }}}} b)\n{text}") is None
    Templates().shell(f"a=({{{{ x }}}} b)\n{text}", {"x": ["two words", "a[$(touch pwned)]"]}, "step: run")


NOT_COUNTED = [
    """python3 -c 'import os; print(os.environ["n"])'""", "node -e 'let m = process.env.n; console.log(m)'",
    'echo "let\'s build $n"', 'echo "let n through"', "# let n be what it is\ntrue", "echo x | grep -v 'x[a-n]'",
    "python3 - <<'EOF'\nd = {'n': 1}\nd['n'] = 2\nprint((d['n']))\nEOF", "awk '{ seen[n]++ }' f", "ls file[n]",
    "sed -E 's/v[k-n]+//'",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_COUNTED)
def test_what_looks_like_counting_and_is_none(text: str) -> None:
    """Programs of other languages, patterns and sentences: any text may be in a variable beside them."""
    Templates().shell("n={{ x }}; " + text, {"x": "a[$(touch pwned)]"}, "step: run")
    check_environment([text], {"n": "two words"}, "step")
    assert refused("n={{ x }}; " + text) is None


def test_the_environment_of_another_interpreter(tmp_path: Path) -> None:
    """No shell counts with anything there."""
    flow = "name: f\nsteps: [{id: a, shell: python3, env: {N: '{{ x }}'}, run: 'N = 1; print ((N))'}]\n"
    (tmp_path / "f.yaml").write_text(flow)
    done = call("run", "f.yaml", "--var", "x=two words", cwd=tmp_path)
    assert 0 == done.code, done.out


def test_a_variable_of_the_environment_that_is_counted_with(tmp_path: Path) -> None:
    """The same goes for what a step has in `env`."""
    flow = "name: f\nsteps: [{id: a, env: {N: '{{ x }}', T: '{{ x }}'}, run: 'echo $((N + 1)) \"$T\"'}]\n"
    (tmp_path / "f.yaml").write_text(flow)
    assert 0 == call("run", "f.yaml", "--var", "x=3", cwd=tmp_path).code
    done = call("run", "f.yaml", "--fresh", "--var", "x=a[$(touch pwned)]", cwd=tmp_path)
    assert 1 == done.code
    assert "a value for $N, which the script counts with" in done.out
    assert not (tmp_path / "pwned").exists()


def test_run_refuses_before_anything_starts(tmp_path: Path) -> None:
    """The place and the way out are named; the step before it did not run."""
    flow = "name: f\nvars: {x: a}\nsteps:\n  - {id: a, run: touch ran}\n  - {id: b, run: 'trap \"rm {{ x }}\" EXIT'}\n"
    (tmp_path / "f.yaml").write_text(flow)
    for more in (["--check"], []):
        done = call("run", "f.yaml", *more, cwd=tmp_path)
        assert (2, "") == (done.code, done.out)
        assert "f.yaml:5:28: a value after `trap`, which reads it as commands" in done.err
        assert "`env:`" in done.err
    assert ["f.yaml"] == os.listdir(tmp_path)


# -- attacked with real shells

PAYLOADS = [
    "$(>pwned)", "`>pwned`", "a[$(>pwned)]", "a[`>pwned`]", "a[$(>pwned)]=1", "($(>pwned))", "x;>pwned", "x\n>pwned\n",
    "?$(>pwned)", "-eq", "';>pwned;'", '";>pwned;"', "a[0$(>pwned)]", "%n", "-v", "-c", "eval", "_TOKEN",
]  # fmt: skip
VALUE = """{{ x }};"{{ x }}";'{{ x }}';n={{ x }};n="{{ x }}";a[{{ x }}]=1;"a{{ x }}";{{ y }};$({{ x }})\
;"$(echo {{ x }})";$(( {{ x }} ));${a:-{{ x }}};${a:{{ x }}};<(echo {{ x }});`echo {{ x }}`;"$A{{ x }}";{{ x | quote }}\
;"{{ x | quote }}";a=({{ x }});-v{{ x }};{eval,{{ x }}};"${A}{{ x }}\""""
COMMAND = """echo;eval;trap;unset;read;printf;printf -v;printf %d;printf %s;let;declare;export;local;readonly\
;typeset -i;declare -a;declare -n;set --;set -A;shift;exit;return;test;[;[[;[ -v;[[ -v;[[ 1 -eq;test 1 -eq\
;sh -c;bash -euc;bash;.\
;source;xargs sh -c;alias;getopts a;mapfile;wait -p;cd;kill;case;for i in;command;builtin;exec;env;time;!;;A=1;PS4=\
;RANDOM=;print -P;bash <<<;sh <;cat <<EOF |;repeat;integer;umask"""
BEFORE = ["", "", "if ", "{ ", "( ", "f() { ", "a=(1); ", "A=b ", "! ", "for i in 1; do ", "typeset -i n; "]
AFTER = [
    "", " ]", " ]]", " in", " 1", " < /dev/null", " EXIT", " | sh", " | bash -s", " | cat", "; set -x; :", " -eq 1 ]]",
    " -eq 1 ]", " && :", "\nEOF\n", "; do :; done", " in a) ;; esac", "; declare -i n", " %s 1",
]  # fmt: skip
END = ["", "", "; fi", "; }", " )", "; }; f", "; done", "; echo {{ x }}"]
LINE = st.tuples(
    *map(
        st.sampled_from,
        (BEFORE, COMMAND.split(";"), [" "], VALUE.split(";"), ["", "", " {{ y }}", " 1 {{ x }}"], AFTER, END),
    )
).map("".join)


def attack(folder: Path, lines: list[str], payloads: tuple[str, str]) -> None:
    """A script that is let pass is executed by every shell, with values that would leave a file behind."""
    text = "\n".join(lines)
    for shell in SHELLS:
        found = refused(text, ksh=is_ksh(shell))
        if found is not None and found.sure:
            return
        try:
            script = Templates().shell(text, {"x": payloads[0], "y": payloads[1]}, "step: run", shell=shell)
        except BadTemplate:
            continue
        subprocess.run(
            [shell, "-c", script],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
            env={"PATH": os.environ["PATH"], "A": "1"},
        )  # fmt: skip
        left = [path.name for path in folder.iterdir()]
        for name in left:
            (folder / name).unlink()
        assert "pwned" not in left, (shell, script)


SHELLS = [found for name in ("bash", "dash", "zsh") if (found := shutil.which(name))]
ATTACKS = (
    st.lists(LINE, min_size=1, max_size=2),
    st.tuples(st.sampled_from(PAYLOADS), st.sampled_from(PAYLOADS)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, for all examples."""
    return tmp_path_factory.mktemp("scripts")


@settings(max_examples=60)
@given(*ATTACKS)
def test_nothing_that_passes_is_executed(folder: Path, lines: list[str], payloads: tuple[str, str]) -> None:
    """Generated commands, in every shell there is."""
    attack(folder, lines, payloads)


@pytest.mark.crash_full
@settings(max_examples=3000)
@given(*ATTACKS)
def test_nothing_that_passes_is_executed_at_length(
    folder: Path, lines: list[str], payloads: tuple[str, str]
) -> None:
    """The same, much longer."""
    attack(folder, lines, payloads)
