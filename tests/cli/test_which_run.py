"""Which run a verb means: every verb in every situation, by name, with --run, by the environment, and without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Called, call, succeed
from tests.cli.people import ask, put
from tests.cli.terminal import Terminal

READS = {
    "show": ("show",),
    "log": ("log",),
    "logs": ("logs",),
    "brief": ("brief",),
    "diff": ("diff",),
    "verify": ("verify",),
    "get": ("get", "step/x"),
    "cat": ("cat", "notes.txt"),
    "export": ("export", "-o", "out.leftoff"),
}
REPORTS = {
    "step": ("step", "done", "x"),
    "set": ("set", "k=1"),
    "put": ("put", "knowledge", "k", "1"),
    "note": ("note", "hello"),
    "save": ("save",),
    "beat": ("beat",),
    "next": ("next",),
    "pause": ("pause",),
    "track": ("track", "notes.txt"),
    "artifact": ("artifact", "notes.txt"),
    "finish": ("finish",),
}
DECIDES = {
    "approve": ("approve",),
    "reject": ("reject",),
    "unblock": ("unblock",),
    "stop": ("stop",),
    "rollback": ("rollback", "--good"),
    "rm": ("rm", "--yes"),
    "archive": ("archive",),
}
SITUATIONS = ("none", "one", "two", "finished", "other", "archived")
#: where RUN stands if it is named positionally; other verbs name it with --run only
POSITIONAL = {*READS, "save", "beat", "next", "pause", "finish", *DECIDES}


def start(folder: Path, run: str, *words: str) -> None:
    succeed("start", "site", "--run-id", run, "--steps", "x,y", *words, cwd=folder)
    succeed("track", "notes.txt", "--run", run, cwd=folder)
    succeed("save", "--run", run, cwd=folder)


def one(folder: Path) -> None:
    start(folder, "a")


def two(folder: Path) -> None:
    start(folder, "a")
    start(folder, "b")


def finished(folder: Path) -> None:
    two(folder)
    for run in ("a", "b"):
        succeed("finish", "--run", run, cwd=folder)


def other(folder: Path) -> None:
    start(folder, "a", "--branch", "dev")


def archived(folder: Path) -> None:
    start(folder, "a")
    succeed("finish", "--run", "a", cwd=folder)
    succeed("archive", "a", cwd=folder)


MAKE: dict[str, Callable[[Path], None]] = {
    "one": one,
    "two": two,
    "finished": finished,
    "other": other,
    "archived": archived,
}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in each situation."""
    top = tmp_path_factory.mktemp("situations")
    for name in SITUATIONS:
        (top / name).mkdir()
        (top / name / "notes.txt").write_text("hello\n")
        MAKE.get(name, lambda folder: None)(top / name)
    return top


@pytest.fixture
def at(templates: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copied(name: str, number: int = 0) -> Path:
        return Path(shutil.copytree(templates / name, tmp_path / f"{name}-{number}"))

    numbers = iter(range(1000))
    return lambda name: copied(name, next(numbers))


def named(verb: str, words: tuple[str, ...], run: str) -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    """The same run named in every way that the verb has."""
    ways: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "--run": ((*words, "--run", run), {}),
        "LEFTOFF_RUN": (words, {"LEFTOFF_RUN": run}),
    }
    if verb == "cat":
        ways["positional"] = (("cat", f"{run}:notes.txt"), {})
    elif verb in POSITIONAL:
        ways["positional"] = ((*words, run), {})
    return ways


def told(done: Called) -> str:
    return f"{done.out}{done.err}"


# -- reading


@pytest.mark.parametrize("situation", SITUATIONS)
def test_reading_without_a_name(situation: str, at: Callable[[str], Path]) -> None:
    """The latest unfinished run of the branch, else the latest at all; it says which where there was a choice."""
    folder = at(situation)
    expected = {"none": None, "one": "a", "two": "b", "finished": "b", "other": "a", "archived": None}[
        situation
    ]
    for verb, words in READS.items():
        done = call(*words, cwd=folder)
        if expected is None:
            assert 3 == done.code, str(done)
            assert (situation == "archived") == ("1 archived" in done.err), str(done)
        else:
            assert 0 == done.code, str(done)
            assert (situation in ("two", "finished")) == (f", {expected}" in done.err), str(done)
        if verb in ("show", "brief", "verify") and expected:
            assert expected == call(*words, "--json", cwd=folder).json["run_id"]


@pytest.mark.parametrize("situation", SITUATIONS[1:])
def test_reading_by_name(situation: str, at: Callable[[str], Path]) -> None:
    """The run that is named, in every way, whether it is finished, archived, or on another branch; nothing else is
    said."""
    folder = at(situation)
    verbs = ("show", "get", "cat") if situation == "archived" else tuple(READS)
    for verb, words in [(verb, READS[verb]) for verb in verbs]:
        for way, (given, env) in named(verb, words, "a").items():
            if verb == "get" and way == "positional":
                given = ("get", "step/x", "a")
            done = call(*given, cwd=folder, **env)
            assert 0 == done.code and "latest" not in done.err, f"{way}: {done}"
            if verb in ("show", "brief", "verify"):
                assert "a" == call(*given, "--json", cwd=folder, **env).json["run_id"]


# -- reporting


@pytest.mark.parametrize("situation", SITUATIONS)
def test_reporting_without_a_name(situation: str, at: Callable[[str], Path]) -> None:
    """The only unfinished run of the branch; of several none, and they are listed; of another branch it is named."""
    expected = {"none": 3, "one": 0, "two": 2, "finished": 3, "other": 3, "archived": 3}[situation]
    folder = at(situation)
    for words in REPORTS.values():
        done = call(*words, cwd=folder)
        assert expected == done.code, str(done)
        if situation == "two":
            assert "\n  a  site  running" in done.err and "\n  b  site  running" in done.err, str(done)
        if situation == "other":
            assert "there is on dev" in done.err and "--run a" in done.err, str(done)


def test_reporting_by_name(at: Callable[[str], Path]) -> None:
    """The run that is named, in every way, also beside others and on another branch."""
    for situation in ("two", "other"):
        folder = at(situation)
        for verb, words in REPORTS.items():
            for way, (given, env) in named(verb, words, "a").items():
                before = head(folder, "a")
                done = call(*given, cwd=folder, **env)
                assert 0 == done.code, f"{way}: {done}"
                changes = verb in ("set", "put", "note", "save", "artifact") and way == "--run"
                assert not changes or head(folder, "a") > before, f"{way}: {done}"


def head(folder: Path, run: str) -> int:
    return int(succeed("show", run, "--json", cwd=folder).json["head"]["seq"])


# -- deciding


def ready(folder: Path, verb: str, situation: str) -> None:
    """The runs as the decision needs them."""
    runs = {"none": "", "archived": "", "one": "a", "other": "a"}.get(situation, "ab")
    for run in runs if situation != "finished" else "":
        if verb in ("approve", "reject"):
            put(folder, "step", "y", {"status": "waiting", "kind": "approval"}, run)
            ask(folder, "y", run, options=["approve", "reject"])
        elif verb == "unblock":
            succeed("step", "block", "x", "--error", "no key", "--run", run, cwd=folder)
        elif verb == "archive":
            succeed("finish", "--run", run, cwd=folder)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_deciding_without_a_name(situation: str, at: Callable[[str], Path]) -> None:
    """The runs that fit are listed, also if there is only one."""
    codes = {"none": 3, "one": 2, "two": 2, "finished": 3, "other": 3, "archived": 3}
    for verb, words in DECIDES.items():
        folder = at(situation)
        ready(folder, verb, situation)
        done = call(*words, cwd=folder)
        expected = codes[situation]
        if verb in ("rm", "archive") and situation != "none":
            expected = 2
        assert expected == done.code, str(done)
        if situation == "one" and verb != "archive":
            assert "\n  a  site  " in done.err and f"Name the run: `leftoff {verb} a" in done.err, str(done)
        if situation == "two":
            assert "\n  a  site  " in done.err and "\n  b  site  " in done.err, str(done)
        if situation == "other":
            assert "there is on dev" in done.err, str(done)
            assert ("--run a" if expected == 3 else "\n  a  site  ") in done.err, str(done)


@pytest.mark.parametrize("verb", DECIDES)
def test_deciding_by_name(verb: str, at: Callable[[str], Path]) -> None:
    """The run that is named, in every way; a name that several fit is not guessed."""
    for situation in ("two", "other"):
        for way, (given, env) in named(verb, DECIDES[verb], "a").items():
            folder = at(situation)
            ready(folder, verb, situation)
            done = call(*given, cwd=folder, **env)
            assert 0 == done.code, f"{way}: {done}"
            if situation == "two":
                state = succeed("show", "b", "--json", cwd=folder).json["status"]
                assert "running" == state or verb in ("unblock", "archive")
    folder = at("two")
    ready(folder, verb, "two")
    assert 2 == call(*DECIDES[verb], "SITE", cwd=folder).code


@pytest.mark.parametrize(
    "words",
    [
        ("show", "a", "--run", "b"),
        ("log", "a~0", "--run", "b"),
        ("cat", "a:notes.txt", "--run", "b"),
        ("rm", "a", "--run", "b", "--yes"),
        ("approve", "a", "x", "--run", "b"),
        ("approve", "a", "--run", "b"),
        ("reject", "a", "--run", "b"),
        ("unblock", "a", "--run", "b"),
        ("logs", "a", "--run", "b"),
        ("stop", "site", "--run", "b"),
        ("pause", "a", "--run", "b"),
        ("verify", "a", "--run", "site"),
        ("fork", "a", "--run", "b"),
        ("export", "a", "--run", "b", "-o", "x"),
        ("set", "a=1", "--run", "a@1"),
    ],
)
def test_two_names(words: tuple[str, ...], at: Callable[[str], Path]) -> None:
    """Two different runs, or a version where a run is needed, are wrong usage."""
    done = call(*words, cwd=at("two"))
    assert 2 == done.code, str(done)


def test_the_same_run_twice(at: Callable[[str], Path]) -> None:
    """Named in both ways, it is one run; `@` is the one that --run names."""
    folder = at("two")
    for words in (("show", "a", "--run", "a"), ("show", "@~0", "--run", "a"), ("show", "--run", "a@2")):
        assert "a" == succeed(*words, "--json", cwd=folder).json["run_id"]
    assert 2 == succeed("show", "--run", "a@2", "--json", cwd=folder).json["head"]["seq"]


def test_one_word_beside_the_option(at: Callable[[str], Path]) -> None:
    """It is a step of the run that --run names; where there is no such step but such a run, that was named twice."""
    folder = at("two")
    ready(folder, "unblock", "two")
    assert "a" == succeed("logs", "a", "--run", "a", "--json", cwd=folder).json["run_id"]
    assert 0 == succeed("unblock", "a", "--run", "a", "--json", cwd=folder).json["steps"]["blocked"]
    ready(folder, "approve", "two")
    assert 1 == succeed("approve", "@", "--run", "a", "--json", cwd=folder).json["steps"]["completed"]
    succeed("start", "other", "--run-id", "x", cwd=folder)
    assert "b" == succeed("logs", "x", "--run", "b", "--json", cwd=folder).json["run_id"]
    assert 0 == succeed("unblock", "x", "--run", "b", "--json", cwd=folder).json["steps"]["blocked"]
    assert 3 == call("logs", "nothing", "--run", "b", cwd=folder).code


@pytest.mark.parametrize("word", ["@", "@~0", "@2", "@@2"])
def test_a_variable_that_names_itself(word: str, at: Callable[[str], Path]) -> None:
    """`@` is the current run, and what that is the variable says: wrong usage, not an endless search."""
    folder = at("one")
    for words in (READS["show"], REPORTS["set"], DECIDES["stop"], ("resume", "--dry-run")):
        done = call(*words, cwd=folder, LEFTOFF_RUN=word)
        assert 2 == done.code and "LEFTOFF_RUN is @" in done.err, str(done)


def test_a_wrong_variable_is_named(at: Callable[[str], Path]) -> None:
    """Nobody typed the name that is not found: the error says where it comes from."""
    folder = at("one")
    for words in (*READS.values(), *REPORTS.values(), *DECIDES.values()):
        done = call(*words, cwd=folder, LEFTOFF_RUN="nothing")
        assert 3 == done.code and "LEFTOFF_RUN names it" in done.err, str(done)


def test_stop_does_not_take_a_paused_run(at: Callable[[str], Path]) -> None:
    """By its workflow's name, the one that runs is meant."""
    folder = at("two")
    succeed("pause", "b", cwd=folder)
    assert "a" == succeed("stop", "site", "--json", cwd=folder).json["run_id"]


def test_what_does_not_fit_is_not_offered(at: Callable[[str], Path]) -> None:
    """No run is over: there is none to be archived, and nobody is asked which."""
    with Terminal("archive", cwd=at("one")) as terminal:
        assert 2 == terminal.end(), terminal.shown
    assert "No run on branch main has ended" in terminal.shown and "Which one" not in terminal.shown


def test_a_person_is_asked(at: Callable[[str], Path]) -> None:
    """On a terminal several runs are shown, and one is picked by its number or its name."""
    folder = at("two")
    ready(folder, "approve", "two")
    with Terminal("approve", cwd=folder) as terminal:
        terminal.expect("Which one? [1-2]: ")
        assert "b  site" in terminal.shown and "a  site" in terminal.shown
        terminal.type("7\n")
        terminal.expect("Please answer a number")
        terminal.type("a\n")
        assert 0 == terminal.end()
    records = succeed("show", "a", "--json", cwd=folder).json["records"]["approval"]
    assert "approved" == records["y"]["status"]


def test_archived_runs_are_counted(at: Callable[[str], Path]) -> None:
    """`ls` says how many there are, and one is found by its workflow's name."""
    folder = at("archived")
    assert "1 archived" in succeed("ls", cwd=folder).err
    assert {"runs": [], "archived": 1} == succeed("ls", "--json", cwd=folder).json
    assert "a" == succeed("show", "Site", "--json", cwd=folder).json["run_id"]
    succeed("rm", "site", "--yes", cwd=folder)
    assert 3 == call("show", "a", cwd=folder).code
