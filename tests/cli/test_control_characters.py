"""No verb prints on a terminal what the terminal would obey; a program gets values as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import call
from tests.cli.terminal import Terminal

# ESC, a question to the terminal, a link, a title, BEL, C1, an overriding direction, a line that hides what it said
HOSTILE = "a\x1b[6nb\x1b]8;;mailto:x\x07c\x1b]0;t\x07\x07d\x9b5ne\u202ef\rg"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NAME = "odd\x1b[6n\u202e.txt"

VERBS = """
ls|ls --all --branch=*|status|show|show --steps|show --variables|show --artifacts|show --files|log|logs|verify
resume --dry-run|resume --list|diff|diff @~1 @|get v|get note/000001|get step/*|get|next --run r2|brief
handover r1 --to claude|cat r1:odd|status --markdown|prune --dry-run|show *|get *|step done x --run z*|run *|import *
install claude --dry-run|set --json *=1|approve r1 *
"""
CASES = [words for line in VERBS.strip().split("\n") for words in line.split("|")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / NAME).write_text(HOSTILE)
    (folder / f"{NAME}.json").write_text("{}")
    for words in (
        ("start", HOSTILE, "--title", HOSTILE, "--run-id", "r1", "--branch", HOSTILE),
        ("step", "start", HOSTILE, "--title", HOSTILE),
        ("step", "fail", HOSTILE, "--error", HOSTILE, "--resume-with", HOSTILE),
        ("step", "block", "later", "--error", HOSTILE),
        ("note", HOSTILE),
        ("set", f"v={HOSTILE}", f"{HOSTILE}={HOSTILE}"),
        ("artifact", NAME, "--name", "odd"),
        ("track", NAME),
        ("save", "--note", HOSTILE),
        ("start", "other", "--run-id", "r2", "--steps", HOSTILE, "--branch", HOSTILE),
    ):
        done = call(*words, cwd=folder, LEFTOFF_RUN="" if words[0] == "start" else "r1")
        assert 0 == done.code, done
    (folder / NAME).write_text(f"{HOSTILE} changed\n")
    return folder


def printed(project: Path, words: list[str], **env: str) -> str:
    with Terminal(*words, cwd=project, env={"LEFTOFF_RUN": "r1", **env}) as terminal:
        terminal.end()
    return terminal.raw


def obeyed(raw: str) -> list[str]:
    """What a terminal would do more than show it."""
    text = COLOURS.sub("", raw).replace("\r\n", "\n")
    return [c for c in text if not c.isprintable() and c not in "\n\t"]


@pytest.mark.parametrize("case", CASES)
def test_a_value_is_shown_and_not_obeyed(case: str, project: Path) -> None:
    """Whatever a title, a step, a note, a variable, a branch or a file is called."""
    raw = printed(project, [HOSTILE if word == "*" else word.replace("*", HOSTILE) for word in case.split()])
    assert [] == obeyed(raw), raw
    assert raw.strip() or case == "prune --dry-run"


@pytest.mark.parametrize("case", ["ls", "show", "log", "brief"])
def test_nor_without_colours(case: str, project: Path) -> None:
    """A terminal without colours is one all the same."""
    assert [] == obeyed(printed(project, [case], NO_COLOR="1"))


def test_a_question_is_harmless(project: Path) -> None:
    """What a person is asked may name anything."""
    with Terminal("rm", "r2", cwd=project) as terminal:
        terminal.expect("[y/N]")
        terminal.type("n\n")
        terminal.end()
    assert [] == obeyed(terminal.raw)


def test_a_program_gets_the_value_as_it_is(project: Path) -> None:
    """`get`, `next` and `cat` of a pipe are raw by contract."""
    assert f"{HOSTILE}\n" == _piped(project, "get", "v")
    assert f"{HOSTILE}\n" == call("next", cwd=project, LEFTOFF_RUN="r2").out
    assert HOSTILE == _piped(project, "cat", "r1:odd")


def _piped(project: Path, *words: str) -> str:
    return call(*words, cwd=project, LEFTOFF_RUN="r1").out
