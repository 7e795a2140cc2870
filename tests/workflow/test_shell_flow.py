"""Values that a script hands on, by variables, functions and pipes, are not evaluated in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.errors import BadTemplate
from leftoff.workflow.template.check import refused
from leftoff.workflow.template.environment import check_environment
from leftoff.workflow.template.render import Templates
from tests.cli.command import call
from tests.workflow.test_shell_positions import PAYLOADS, attack

HOSTILE = "a[$(touch pwned)]"
ORDINARY = (Path(__file__).parent / "ordinary_scripts.txt").read_text().splitlines()

COUNTED = [
    "n={{ x }}; m=$n; echo $((m))",
    "set -- {{ x }}; echo $(($1))",
    "f() { echo $(($1)); }; f {{ x }}",
    "function f { [[ $2 -gt 1 ]]; }; f 1 {{ x }}",
    "echo {{ x }} | while read n; do echo $((n)); done",
    "while read n; do echo $((n)); done <<EOF\n{{ x }}\nEOF\n",
    "n={{ x }}\nread m <<EOF\n$n\nEOF\necho $((m))",
    "while read n; do echo $((n)); done < <(echo {{ x }})",
    "(read n; echo $((n))) <<< {{ x }}",
    "echo {{ x }} | { read n; echo $((n)); }",
    "f() { read n; (( n )); }; echo {{ x }} | f",
    "declare -i i; n={{ x }}; i=$n",
    "exec 3<<< {{ x }}; read -u 3 n; echo $((n))",
    "f() { local -i k=$1; }; f {{ x }}",
    "n={{ x }}; m+=$n; echo $((m))",
    "export n={{ x }}; readonly m=$n; (( m > 1 ))",
    "mapfile -t a <<< {{ x }}; echo $((a[0]))",
    "m=$(echo {{ x }}); echo $((m))",
    "n={{ x }}; printf -v m %s $n; echo $((m))",
    "n={{ x }}; : ${m:=$n}; echo $((m))",
    "n={{ x }}; m=`echo $n`; echo $((m))",
    "f() { shift; echo $(($1)); }; f a {{ x }}",
    'g() { f "$@"; }; f() { echo $(($2)); }; g 1 {{ x }}',
    "f() { for a; do echo $((a)); done; }; f {{ x }}",
    'f() { echo "$1"; }; n=$(f {{ x }}); echo $((n))',
    "bash -c 'm=$1; echo $((m))' sh {{ x }}",
    "echo {{ x }} | xargs bash -c 'echo $(($1))' sh",
    "n={{ x }}; k=n; echo $(($k))",
    "set -- -a {{ x }}; while getopts a: o; do echo $((OPTARG)); done",
    ": {{ x }}; echo $(($_))",
    "n={{ x }}; let n",
    "echo {{ x }} | read -r n; typeset -i n",
    "main() { f {{ x }}; }; f() { [[ ( $1 -eq 1 ) ]]; }; main",
    "f() { case $1 in a) ;; *) echo $(($1)) ;; esac; }; f {{ x }}",
    'IFS=, read -ra p <<< {{ x }}; for i in "${p[@]}"; do echo $((i)); done',
    "n={{ x }}; eval 'm=$n'; echo $((m))",
    "declare -A m; a=(1); n={{ x }}; echo ${a[n]}",
    "n={{ x }}; echo $[n + 1]",
    "f() { s=abc; echo ${s:$1}; }; f {{ x }}",
    "f() { local -n out=$1; out=$2; }; f res {{ x }}; echo $((res))",
    "n={{ x }}; k=n; m=${!k}; echo $((m))",
]
EVALUATED = [
    "n={{ x }}; echo ${!n}",
    "n={{ x }}; m=$n; [[ -v $m ]]",
    "n={{ x }}; declare -n r=$n",
    "n={{ x }}; unset $n",
    'n={{ x }}; m="rm $n"; trap "$m" EXIT',
    'n={{ x }}; eval "echo $n"',
    'n={{ x }}; bash -c "echo $n"',
    'f() { eval "$1"; }; f {{ x }}',
    'n={{ x }}; echo "$n" | sh',
    "n={{ x }}; bash <<EOF\necho $n\nEOF\n",
    'n={{ x }}; printf -v "$n" a',
    "n={{ x }}; echo ${n@P}",
    'try() { "$@"; }; try eval {{ x }}',
    "[[ $(echo {{ x }} | cat) -gt 1 ]]",
    "[[ $(date +{{ x }}) -gt 1 ]]",
    'f() { read "$1" < file; }; f {{ x }}',
    "n={{ x }}; PS4=$n",
    'n={{ x }}; source <(echo "$n")',
    'n={{ x }}; declare "$n=1"',
]
SPLIT = [
    "n={{ x }}; [ $n = a ]",
    "n={{ x }}; $n",
    "n={{ x }}; echo a >&$n",
    "n={{ x }}; printf $n",
    "n={{ x }}; env $n",
]


@pytest.mark.parametrize("text", COUNTED)
def test_counted_in_the_end(text: str) -> None:
    """Whatever its way, the script gets a number or the step ends with an error; `--check` says so."""
    Templates().shell(text, {"x": 7}, "step: run")
    with pytest.raises(BadTemplate, match=r"counts with|number"):
        Templates().shell(text, {"x": HOSTILE}, "step: run")
    found = refused(text)
    assert found is not None
    assert not found.sure
    assert refused(text.replace("{{ x }}", "{{ x | int }}")) is None


@pytest.mark.parametrize("text", EVALUATED)
def test_evaluated_in_the_end(text: str) -> None:
    """As commands, or as a name: that is refused whatever the value is."""
    found = refused(text)
    assert found is not None
    assert found.sure, found.message


@pytest.mark.parametrize("text", SPLIT)
def test_words_made_of_a_variable(text: str) -> None:
    """Without quotes a value is several words, and one of them may be an option or a command."""
    Templates().shell(text, {"x": "plain"}, "step: run")
    with pytest.raises(BadTemplate, match="by way of"):
        Templates().shell(text, {"x": f"-v {HOSTILE}"}, "step: run")
    assert refused(text.replace("$n", '"$n"').replace(">&", "> ")) is None


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_scripts(text: str) -> None:
    """Scripts as people write them, where no value gets to such a place, take any value, and nothing is said."""
    script = text.replace("\\n", "\n").replace("\\t", "\t") if "EOF" in text else text
    found = refused(script)
    assert found is None, found.message


@pytest.mark.parametrize("text", [*COUNTED, *EVALUATED, *SPLIT])
def test_from_the_environment(text: str) -> None:
    """A value of `env` is followed as one in the script is; ``| raw`` is the author's word."""
    with pytest.raises(BadTemplate, match="env: a value"):
        check_environment([text.replace("{{ x }}", "$X")], {"X": f"-v {HOSTILE}"}, "step")


@pytest.mark.parametrize(
    "text", ["a=(case) {{ x }}", "a+=( case y )\necho {{ x }}", "a=(b (c) {{ x }}", "a=(x ((y {{ x }}"]
)
def test_what_cannot_be_read(text: str) -> None:
    """A list with words or parentheses in it that stand for something else elsewhere is an error of the template."""
    with pytest.raises(BadTemplate):
        Templates().shell(text, {"x": "a b"}, "s")


def test_patterns_in_a_list() -> None:
    """zsh's qualifiers are no commands."""
    assert "a=(*(N)); echo 'a b'" == Templates().shell(
        "a=(*(N)); echo {{ x }}", {"x": "a b"}, "s", shell="zsh"
    )


def test_the_error_names_the_way(tmp_path: Path) -> None:
    """Line and column of the value, the variables that it goes through, and what to write."""
    flow = (
        "name: f\nvars: {x: a}\nsteps:\n  - id: a\n    run: |\n      n={{ x }}\n      m=$n\n      unset $m\n"
    )
    (tmp_path / "f.yaml").write_text(flow)
    done = call("run", "f.yaml", "--check", cwd=tmp_path)
    assert 2 == done.code
    told = "f.yaml:6:9: a value after `unset`, which takes it for the name of a variable, by way of $n, handed on to $m"
    assert told in done.err
    assert "Write the name of the variable" in done.err


def test_the_error_at_run_time_names_the_line() -> None:
    """Of the value, not the last one of the script."""
    with pytest.raises(BadTemplate, match=r"^step: run, line 2: a value for \$m, handed on to \$n"):
        Templates().shell("a=1\nm={{ x }}; n=$m\necho $((n))\n", {"x": HOSTILE}, "step: run")


def test_the_environment_of_checks(tmp_path: Path) -> None:
    """The environment of a step is that of its checks; a file that bash reads first is named by plain words."""
    for more in ("checks: ['eval \"$T\"']", "criteria: {c: 'eval \"$T\"'}", "env: {BASH_ENV: '{{ x }}'}"):
        env = "" if "BASH_ENV" in more else "env: {T: '{{ x }}'}, "
        flow = f"name: f\nvars: {{x: '$(touch pwned)'}}\nsteps: [{{id: a, {env}run: 'true', {more}}}]\n"
        (tmp_path / "f.yaml").write_text(flow)
        assert call("run", "f.yaml", "--fresh", cwd=tmp_path).code in (1, 2)
        assert not (tmp_path / "pwned").exists()


# -- attacked with real shells

INTO = """n={{ x }};n="{{ x }}";set -- {{ x }}@n=$1;read -r n <<< {{ x }};n=$(echo {{ x }})\
;for n in {{ x }}@do :@done;n=({{ x }});f() { n=$1@}@f {{ x }};printf -v n %s {{ x }}\
;read n < <(echo {{ x }});mapfile -t n <<< {{ x }};: {{ x }}@n=$_"""
ON = """m=$n;m="$n";m+=$n;m=${n#z};m=$(echo "$n");m=`echo "$n"`;read -r m <<< "$n";for m in $n@do :@done\
;: ${m:=$n};q=("$n")@m=${q[0]};set -- "$n"@m=$1;g() { m=$1@}@g "$n";eval 'm=$n';export m=$n;k=n@m=${!k}\
;[[ $n =~ .* ]]@m=$BASH_REMATCH;m=$n$n"""
END = """echo $((m));(( m ));[[ $m -eq 1 ]];let k=m;a=(1)@echo ${a[m]};a[$m]=1;s=a@echo ${s:m};declare -i k=$m\
;echo ${!m};[[ -v $m ]];[ -v "$m" ];unset "$m";printf -v "$m" x;eval "$m";sh -c "$m";echo "$m" | sh\
;bash <<< "$m";[ $m = x ];declare "$m";echo "${m@P}";h() { echo $(($1))@}@h "$m";h() { "$@"@}@h eval "$m"\
;echo "$m" | while read z@do echo $((z))@done;echo $(( $(echo "$m") ));echo "$m"\
;k=${m//[!0-9]/}@echo $((k));k=$(echo "$m" | tr -cd 0-9)@(( k ));k=${#m}@(( k ))\
;bash -c 'echo $(($1))' sh "$m";$m;printf $m"""
AROUND = [
    "{}",
    "{}",
    "if true\nthen\n{}\nfi",
    "( {}\n)",
    "main() {{\n{}\n}}\nmain a",
    'echo "$({}\n)"',
    "while :\ndo\n{}\nbreak\ndone",
]
LINES = st.tuples(
    *(st.sampled_from(part.replace("@", "\n").split(";")) for part in (INTO, ON, END)),
    st.sampled_from(AROUND),
).map(lambda found: [found[0], found[3].format("\n".join(found[1:3]))])
ATTACKS = (LINES, st.tuples(st.sampled_from(PAYLOADS), st.sampled_from(PAYLOADS)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, for all examples."""
    return tmp_path_factory.mktemp("scripts")


@settings(max_examples=60)
@given(*ATTACKS)
def test_nothing_that_is_handed_on_is_executed(
    folder: Path, lines: list[str], payloads: tuple[str, str]
) -> None:
    """Generated ways from a value to where it would be evaluated, in every shell there is."""
    attack(folder, lines, payloads)


@pytest.mark.crash_full
@settings(max_examples=3000)
@given(*ATTACKS)
def test_nothing_that_is_handed_on_is_executed_at_length(
    folder: Path, lines: list[str], payloads: tuple[str, str]
) -> None:
    """The same, much longer."""
    attack(folder, lines, payloads)
