"""Help is complete: every verb explains itself, has a page and a test, and a wrong word is met with the right one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from leftoff.cli.help_verbs import synonyms
from leftoff.cli.options import COMMON, DAILY, GROUPS, HIDDEN, LISTED, SAME, VERBS, parse_words, spec_of
from leftoff.engine.settings import _CHECKS as CHECKS
from leftoff.errors import Usage
from leftoff.workflow.parse_definition import KEYS as FILE_KEYS
from leftoff.workflow.parse_steps import ALL as STEP_KEYS
from tests.cli.command import call, succeed
from tools import reference

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=sorted(VERBS))
def verb(request: pytest.FixtureRequest) -> str:
    """Each verb in turn."""
    name: str = request.param
    return name


def flat(text: str) -> str:
    """Without the breaks of lines."""
    return " ".join(text.split())


def test_says_how_it_is_called(verb: str) -> None:
    """A usage line, what it is for, every option explained, the common ones too."""
    spec = spec_of(verb)
    text = spec.help()
    assert spec.verb == verb
    assert text.startswith(f"usage: leftoff {verb}")
    assert len(spec.about) > 10 and flat(spec.about) in flat(text)
    for option in spec.options:
        assert len(option.help) > 3, option.name
        assert re.search(rf"^  {re.escape(option.name)}\b", text, re.MULTILINE)
        assert flat(option.help) in flat(text)
    for name in COMMON:
        assert re.search(rf"^  {name}\b", text, re.MULTILINE)


def calls_in(examples: str) -> list[list[str]]:
    """The calls of leftoff in a verb's examples, as words."""
    found = re.findall(r"leftoff ((?:[^#|)\";\n]|\"[^\"]*\")*)", examples)
    return [shlex.split(re.split(r"\s{3,}", line)[0]) for line in found]


def test_examples_would_be_understood(verb: str) -> None:
    """At least one example, each of which the options of its verb accept."""
    calls = calls_in(spec_of(verb).examples)
    own = [words for words in calls if any(SAME.get(word, word) == verb for word in words)]
    assert own, f"{verb} has no example"
    for words in calls:
        at = next(i for i, word in enumerate(words) if SAME.get(word, word) in VERBS)
        parse_words(spec_of(SAME.get(words[at], words[at])), words[:at] + words[at + 1 :])


def test_lines_fit(verb: str) -> None:
    """The text fits a terminal of 80 columns, but for words that are longer; examples may take 120."""
    text, _, examples = spec_of(verb).help().partition("\nexamples:")
    assert [] == [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]
    assert [] == [line for line in examples.splitlines() if len(line) > 120]


def test_the_reference_is_up_to_date() -> None:
    """The generated parts of docs/reference are what `make reference` would write."""
    assert [] == [str(page) for page in reference.stale()], "run `make reference`"
    for name in ("findings.md", "exit-codes.md"):
        assert "| ? |" not in (reference.PAGES / name).read_text(), f"{name} has a row without an explanation"


def test_the_reference_has_every_key() -> None:
    """Every setting of leftoff.toml, and every key of a workflow file."""
    settings, workflow = (
        (reference.PAGES / name).read_text() for name in ("settings.md", "workflow-file.md")
    )
    for section, keys in CHECKS.items():
        part = settings.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert [] == [key for key in keys if f"| `{key}`" not in part], section
    assert [] == [
        key for key in (*FILE_KEYS, *STEP_KEYS) if not re.search(rf"^\|[^|]*`{key}`", workflow, re.MULTILINE)
    ]


def test_has_a_page(verb: str) -> None:
    """The page of a visible verb has an example that runs; all others are on one page."""
    folder = reference.PAGES / "cli"
    page = folder / f"{verb}.md"
    if verb in reference.VISIBLE:
        assert "```console" in page.read_text() and f"]({verb}.md)" in (folder / "index.md").read_text()
    else:
        assert f"## leftoff {verb}\n" in (folder / "plumbing.md").read_text()


def test_has_a_test_of_its_own(verb: str) -> None:
    """tests/cli/test_NAME.py drives the real command."""
    path = ROOT / "tests" / "cli" / f"test_{verb}.py"
    assert path.exists(), f"there is no tests/cli/test_{verb}.py"
    assert f'"{verb}"' in path.read_text()


def test_all_lists_every_verb(project: Path) -> None:
    """By group, each once, with its one line; plumbing and verbs with a better name are not listed."""
    text = succeed("help", "--all", cwd=project).out
    for name in HIDDEN:
        assert not re.search(rf"^  {name} ", text, re.MULTILINE)
    assert 35 <= len(LISTED) <= 45
    for name, (group, about) in LISTED.items():
        assert group in GROUPS
        assert 1 == len(re.findall(rf"^  {name} +{re.escape(about)}$", text, re.MULTILINE))
    assert max(map(len, text.splitlines())) <= 88


def test_the_verbs_of_every_day_come_first(project: Path) -> None:
    """Ten with their one line, the others by name; `leftoff` alone shows it too, as wrong usage."""
    text = succeed("help", cwd=project).out
    explained = re.findall(r"^  (\w+)  +(.*)$", text, re.MULTILINE)
    assert [(name, VERBS[name][1]) for name in DAILY] == explained
    assert 10 == len(DAILY)
    assert set(LISTED) <= set(re.findall(r"\w+", text))
    for words in (["--help"], ["-h"]):
        assert text == succeed(*words, cwd=project).out
    alone = call(cwd=project)
    assert (2, text) == (alone.code, alone.out)


def test_help_in_three_ways(project: Path) -> None:
    """`help VERB`, `VERB --help` and `VERB -h` are one; other words for a verb lead to it."""
    wanted = succeed("help", "resume", cwd=project).out
    for words in (["resume", "--help"], ["resume", "-h"], ["help", "continue"], ["reprendre", "--help"]):
        assert wanted == succeed(*words, cwd=project).out


def test_help_needs_no_project(tmp_path: Path) -> None:
    """Neither a broken settings file nor a missing store is in its way, and nothing is made."""
    (tmp_path / "leftoff.toml").write_text("this is not TOML")
    succeed("help", cwd=tmp_path)
    succeed("help", "ls", cwd=tmp_path)
    assert ["leftoff.toml"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("stauts", "status"),
        ("stat", "status"),
        ("shwo", "show"),
        ("resum", "resume"),
        ("exprot", "export"),
        ("hlep", "help"),
    ],
)
def test_the_nearest_verb_is_suggested(typed: str, meant: str, project: Path) -> None:
    """A slip of the fingers costs one look."""
    for words in ([typed], ["help", typed]):
        result = call(*words, cwd=project)
        assert 2 == result.code
        assert (
            f"leftoff has no verb '{typed}'." in result.err
            and f"Did you mean `leftoff {meant}`?" in result.err
        )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("checkout", "`leftoff rollback REF --files` or `leftoff restore PATH` or `leftoff fork REF`"),
        ("cancel", "`leftoff stop` or `leftoff finish --status abandoned`"),
        ("undo", "`leftoff rollback REF`"),
        ("ui", "`leftoff serve --open`"),
        ("backup", "`leftoff store backup FOLDER`"),
        ("config", "`leftoff init` or `leftoff trust`"),
        ("abort", "`leftoff stop` or `leftoff finish --status abandoned`"),
        ("retry", "`leftoff resume --failed`"),
        ("restrat", "`leftoff resume` or `leftoff run FILE --fresh`"),
        ("flow.yaml", "`leftoff run flow.yaml`"),
        ("version", "`leftoff --version`"),
    ],
)
def test_words_of_other_tools_are_answered(typed: str, meant: str, project: Path) -> None:
    """What git, gh, make or Prefect call it is answered with the command that does it here."""
    result = call(typed, cwd=project)
    assert 2 == result.code
    assert f"Did you mean {meant}?" in result.err


def test_a_suggestion_names_the_run_that_is_there(project: Path) -> None:
    """`undo`, `share` and `why` are answered with commands that work as they are printed."""
    succeed("start", "release", "--run-id", "r1", cwd=project)
    for n in range(3):  # a run with one checkpoint can only go back to that
        succeed("set", f"n={n}", cwd=project)
        succeed("save", cwd=project)
        newest = [each["seq"] for each in succeed("history", "--json", cwd=project).json["checkpoints"][:2]]
        assert f"`leftoff rollback r1@{newest[-1]}`" in call("undo", cwd=project).err
    assert "`leftoff export r1 -o r1.leftoff`" in call("share", cwd=project).err
    assert "`leftoff show r1` or `leftoff resume --dry-run`" in call("why", cwd=project).err


def test_topics(project: Path) -> None:
    """Exit codes and REFs are explained like a verb."""
    for word, part in (("exit-codes", "130  interrupted"), ("refs", "RUN@id:1234"), ("ref", "RUN@id:1234")):
        assert part in succeed("help", word, cwd=project).out
        assert part in succeed("help", word, "--json", cwd=project).json["text"]


def test_nothing_far_is_suggested(project: Path) -> None:
    """A word that is like no verb is not explained by one."""
    for word in ("nosuch", "fooo", "xyz"):
        assert "Did you mean" not in call(word, cwd=project).err


def test_what_is_suggested_would_be_understood() -> None:
    """Every suggestion names a verb, with options it has and no more words than it takes; no verb is suggested away."""
    assert not set(synonyms()) & {*VERBS, *SAME}
    for words in (
        command.split() for commands in synonyms().values() for command in commands if command[0] != "-"
    ):
        parse_words(spec_of(words[0]), words[1:])


@pytest.mark.parametrize(("word", "verb"), sorted(SAME.items()))
def test_other_words_for_a_verb(word: str, verb: str, project: Path) -> None:
    """Git's, gh's and everybody's words for exactly the same are the verb itself."""
    assert succeed("help", verb, cwd=project).out == succeed(word, "--help", cwd=project).out


def test_a_synonym_does_what_its_verb_does(project: Path) -> None:
    """Not only in help: list and ls, view and show, delete and rm."""
    succeed("start", "release", "--run-id", "release-1", cwd=project)
    assert succeed("ls", cwd=project).out == succeed("list", cwd=project).out
    assert succeed("show", "--json", cwd=project).json == succeed("view", "--json", cwd=project).json
    succeed("delete", "release-1", "--yes", cwd=project)
    assert [] == succeed("list", "--all", "--json", cwd=project).json["runs"]


def test_the_nearest_option_is_suggested() -> None:
    """Of the verb's own, and of the common ones."""
    with pytest.raises(Usage) as caught:
        parse_words(spec_of("export"), ["run", "--jsn"])
    assert "Did you mean --json?" in caught.value.hint


def test_version(project: Path) -> None:
    """One line, wherever it is asked."""
    import leftoff

    for word in ("--version", "-V"):
        assert f"leftoff {leftoff.__version__}\n" == succeed(word, cwd=project).out
        for words in ((word, "--json"), ("--json", word)):
            assert {"version": leftoff.__version__} == succeed(*words, cwd=project).json
