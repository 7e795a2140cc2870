"""Wrong inputs, by the dozen: each is met with its exit code, what is wrong and what to do, and changes nothing.

The table says what is given and what must come of it. Every case is tried twice, for people and with ``--json``.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.cli.command import Called, call, succeed

RUN = "release-1"
LONG = "x" * 100_000
DIGITS = "9" * 5_000


@dataclass(frozen=True)
class Wrong:
    """What is given, the exit code, and a part of what is told."""

    words: tuple[str | bytes, ...]
    code: int
    told: str
    env: dict[str, Any] = field(default_factory=dict)
    input: str | None = None


def wrong(*words: str | bytes, code: int, told: str, input: str | None = None, **env: str) -> Wrong:
    return Wrong(words, code, told, env, input)


USAGE: dict[str, Wrong] = {
    "verify of too much": wrong("verify", RUN, RUN, code=2, told="does not take"),
    "unblock of too much": wrong("unblock", RUN, "a", "b", code=2, told="does not take"),
    "supervise with a word": wrong("supervise", "everything", code=2, told="does not take"),
    "unknown verb": wrong("frobnicate", code=2, told="no verb"),
    "verb with a newline": wrong("l\ns", code=2, told="no verb"),
    "verb that is not UTF-8": wrong(b"\xff\xfe", code=2, told="no verb"),
    "empty verb": wrong("", code=2, told="no verb"),
    "verb of another tool": wrong("checkout", code=2, told="no verb"),
    "prune with an option it has not": wrong("prune", "--force", code=2, told="no option --force"),
    "agent that nobody knows": wrong("install", "nothing", code=2, told="cannot set up 'nothing'"),
    "uninstall of an agent that nobody knows": wrong(
        "uninstall", "nothing", code=2, told="cannot set up 'nothing'"
    ),
    "hooks that nobody knows": wrong("hook", "nothing", code=2, told="no hooks for 'nothing'"),
    "server with a word": wrong("mcp", "extra", code=2, told="does not take 'extra'"),
    "an answer that is none": wrong(
        "resume", "--answer", "files.changed", code=2, told="--answer takes CODE=CHOICE"
    ),
    "an answer to no finding": wrong(
        "resume", "--answer", "nothing=stop", code=2, told="no finding 'nothing'"
    ),
    "a page at no port": wrong("serve", "--port", "many", code=2, told="number from 0 to 65535"),
    "a page for others without a name": wrong("serve", "--host", "0.0.0.0", code=2, told="--allow-host NAME"),
    "a page of no folder": wrong("serve", "nothing-there", code=2, told="no folder"),
    "a page below no path": wrong("serve", "--base-path", "x y", code=2, told="--base-path"),
    "protocols with a word": wrong("protocols", "extra", code=2, told="does not take 'extra'"),
    "utility that nobody knows": wrong("compat", "nothing", code=2, told="no utility 'nothing'"),
    "workflow file that is not there": wrong("run", "nothing.yaml", code=3, told="nothing.yaml"),
    "option without a verb": wrong("--frobnicate", code=2, told="no option --frobnicate"),
    "no verb": wrong("--json", code=2, told="no verb"),
    "unknown option": wrong("ls", "--frobnicate", code=2, told="no option --frobnicate"),
    "unknown short option": wrong("ls", "-x", code=2, told="no option -x"),
    "flag with a value": wrong("ls", "--all=yes", code=2, told="--all takes no value"),
    "common flag with a value": wrong("ls", "--json=yes", code=2, told="--json takes no value"),
    "option without its value": wrong("ls", "--limit", code=2, told="--limit needs a value"),
    "common option without its value": wrong("ls", "--project", code=2, told="--project needs a value"),
    "word too many": wrong("ls", "everything", code=2, told="does not take 'everything'"),
    "words too many": wrong("diff", "a", "b", "c", code=2, told="does not take 'c'"),
    "too few words": wrong("step", "done", code=2, told="needs"),
    "nothing to set": wrong("set", code=2, told="needs"),
    "nothing to put": wrong("put", "knowledge", "k", code=2, told="needs"),
    "nothing to import": wrong("import", code=2, told="needs PATH"),
    "nothing to export": wrong("export", code=2, told="needs -o FILE"),
    "export without a file": wrong("export", RUN, code=2, told="needs -o FILE"),
    "limit below zero": wrong("ls", "--limit", "-1", code=2, told="--limit"),
    "limit in words": wrong("ls", "--limit", "many", code=2, told="--limit"),
    "limit as a float": wrong("ls", "--limit", "1e5", code=2, told="--limit"),
    "huge limit": wrong("ls", "--limit", DIGITS, code=2, told="--limit"),
    "unknown status": wrong("ls", "--status", "dancing", code=2, told="dancing"),
    "unknown status to finish with": wrong("finish", "--status", "paused", code=2, told="--status"),
    "unknown trigger": wrong("save", "--trigger", "boredom", code=2, told="boredom"),
    "unknown report": wrong("step", "explode", "collect", code=2, told="explode"),
    "decision without a step": wrong("approve", RUN, code=3, told="is waiting for a decision"),
    "rejection with a choice": wrong(
        "reject", RUN, "build", "--choice", "x", code=2, told="no option --choice"
    ),
    "attempt in words": wrong("logs", RUN, "--attempt", "last", code=2, told="--attempt"),
    "logs followed as JSON": wrong("logs", RUN, "-f", "--json", code=2, told="cannot be combined"),
    "total in words": wrong("start", "x", "--total", "many", code=2, told="--total"),
    "total below zero": wrong("start", "x", "--total", "-3", code=2, told="--total"),
    "unknown shell": wrong("completion", "tcsh", code=2, told="bash, zsh or fish"),
    "unknown verb to explain": wrong("help", "frobnicate", code=2, told="no verb"),
    "unknown protocol": wrong("import", "x", "--protocol", "klingon", code=2, told="--protocol"),
    "init with a protocol that is none": wrong("init", "--protocol", "x", code=2, told="no protocol 'x'"),
    "project that is not there": wrong("ls", "--project", "no/such/folder", code=2, told="no folder"),
    "project that is a file": wrong("ls", "--project", "page.txt", code=2, told="not a folder"),
    "project from outside": wrong("ls", code=2, told="no folder", LEFTOFF_PROJECT="/no/such"),
    "argument that is not UTF-8": wrong("set", b"k=\xff\xfe", code=2, told="UTF-8"),
    "project that is not UTF-8": wrong("ls", "--project", b"\xff", code=2, told="UTF-8"),
}

REFS: dict[str, Wrong] = {
    "archive of nothing": wrong("archive", "nothing", code=3, told="Nothing is called nothing"),
    "stop of nothing": wrong("stop", "nothing", code=3, told="Nothing is called nothing"),
    "handover of nothing": wrong(
        "handover", "nothing", "--to", "codex", code=3, told="Nothing is called nothing"
    ),
    "unknown ref": wrong("show", "nothing", code=3, told="Nothing is called nothing"),
    "empty ref": wrong("show", "", code=2, told="empty REF"),
    "ref with a newline": wrong("show", "a\nb", code=3, told="Nothing is called"),
    "ref with an escape": wrong("show", "\x1b[31mred", code=3, told="Nothing is called"),
    "ref without end": wrong("show", LONG, code=3, told="Nothing is called"),
    "ref that is not UTF-8": wrong("show", b"\xff", code=2, told="UTF-8"),
    "back by a word": wrong("show", f"{RUN}~x", code=3, told="Nothing is called"),
    "back too far": wrong("show", f"{RUN}~99999", code=3, told="further back"),
    "back without end": wrong("show", f"{RUN}~{DIGITS}", code=3, told="further back"),
    "nothing at nothing": wrong("show", "@@", code=3, told="@@"),
    "half a ref": wrong("show", f"{RUN}@", code=3, told="Nothing is called"),
    "no such seq": wrong("show", f"{RUN}@99999", code=3, told="99999"),
    "no seq that large": wrong("show", f"{RUN}@{DIGITS}", code=3, told="no checkpoint"),
    "negative seq": wrong("show", f"{RUN}@-1", code=3, told="no checkpoint -1"),
    "no such prefix": wrong("show", f"{RUN}@zzzz", code=3, told="no checkpoint zzzz"),
    "no such all-digit prefix": wrong("show", "00000000000000", code=3, told="Nothing is called"),
    "prefix too short": wrong("show", "abc", code=3, told="Nothing is called abc"),
    "no such issue": wrong("show", "#404", code=3, told="#404"),
    "version of nothing": wrong("show", "nothing@1", code=3, told="nothing"),
    "nothing to go back to": wrong("rollback", f"{RUN}@99999", code=3, told="99999"),
    "nothing to fork": wrong("fork", "nothing", code=3, told="Nothing is called nothing"),
    "nothing to remove": wrong("rm", "nothing", code=3, told="Nothing is called nothing"),
    "nothing to resume": wrong("resume", "nothing", code=3, told="Nothing is called nothing"),
    "nothing to brief on": wrong("brief", "nothing", code=3, told="Nothing is called nothing"),
    "nothing to log": wrong("history", "nothing", code=3, told="Nothing is called nothing"),
    "nothing to compare": wrong("diff", RUN, "nothing", code=3, told="Nothing is called nothing"),
    "nothing to export": wrong("export", "nothing", "-o", "x", code=3, told="Nothing is called nothing"),
    "one version to export": wrong("export", f"{RUN}~0", "-o", "x", code=2, told="an export has them all"),
    "current run that is not there": wrong("set", "a=1", code=3, told="nothing", LEFTOFF_RUN="nothing"),
    "run that is not there": wrong("set", "a=1", "--run", "nothing", code=3, told="nothing"),
    "empty branch": wrong("set", "a=1", "--branch", "", code=2, told="--branch is empty"),
    "empty branch to list": wrong("ls", "--branch", "", code=2, told="--branch is empty"),
    "empty branch to fork to": wrong("fork", "@", "--branch", "", code=2, told="--branch is empty"),
    "empty branch to resume on": wrong("resume", "--branch=", code=2, told="--branch is empty"),
    "branch without a run": wrong("set", "a=1", "--branch", "empty", code=3, told=RUN),
    "branch from outside": wrong("note", "x", code=3, told=RUN, LEFTOFF_BRANCH="empty"),
    "variable that is not there": wrong("get", "nothing", code=3, told="nothing"),
    "record that is not there": wrong("get", "knowledge/nothing", code=3, told="nothing"),
    "step that is not there": wrong("get", "step/nothing", code=3, told="nothing"),
    "which of several": wrong("set", "a=1", "--branch", "crowd", code=2, told="2 unfinished runs"),
}

VALUES: dict[str, Wrong] = {
    "assignment without a value": wrong("set", "novalue", code=2, told="novalue"),
    "assignment to nothing": wrong("set", "=value", code=2, told=""),
    "bad JSON": wrong("set", "k:={bad", code=2, told="JSON"),
    "JSON that is none": wrong("set", "k:=NaN", code=2, told="JSON"),
    "JSON and more": wrong("set", "k:=1 2", code=2, told="JSON"),
    "JSON without end": wrong("set", "k:=" + "[" * 50_000, code=2, told=""),
    "number without end": wrong("set", f"k:={DIGITS}", code=2, told=""),
    "one bad among good": wrong("set", "good=1", "k:={bad", code=2, told="JSON"),
    "value from no file": wrong("set", "k=@no/such/file", code=3, told="no/such/file"),
    "value from a folder": wrong("set", "k=@.", code=3, told="folder"),
    "name without end": wrong("set", f"{LONG}=1", code=2, told="too long"),
    "bad JSON to put": wrong("put", "knowledge", "k", "{bad", code=2, told="JSON"),
    "unknown collection": wrong("put", "nonsense", "k", "1", code=2, told="nonsense"),
    "empty key": wrong("put", "knowledge", "", "1", code=2, told="empty"),
    "step of no status": wrong("put", "step", "x", '{"status": "dancing"}', code=2, told="dancing"),
    "key that is taken": wrong("put", "knowledge", "K1", "2", "--new", code=5, told="already exists"),
    "bad result": wrong("step", "done", "collect", "--result", "{bad", code=2, told="JSON"),
    "result from no file": wrong("step", "done", "build", "--result", "@no/such", code=3, told="no/such"),
    "output that is not there": wrong("step", "done", "build", "--output", "no/such", code=3, told="no/such"),
    "empty step": wrong("step", "done", "", code=2, told=""),
    "step with an empty part": wrong("step", "done", "a//b", code=2, told="empty part"),
    "step without end": wrong("step", "start", LONG, code=2, told="too long"),
    "step declared twice": wrong("start", "x", "--steps", "a,b,a", code=2, told="twice"),
    "empty workflow": wrong("start", "", code=2, told="empty"),
    "run id with a space": wrong("start", "x", "--run-id", "a b", code=2, told="run id"),
    "run id that climbs": wrong("start", "x", "--run-id", "../x", code=2, told="run id"),
    "run id that is taken": wrong("start", "x", "--run-id", RUN, code=5, told="--resume"),
    "fork under a taken id": wrong("fork", RUN, "--run-id", RUN, code=5, told=RUN),
    "variable for a start": wrong("start", "x", "--var", "novalue", code=2, told="novalue"),
    "decision on a version": wrong("approve", f"{RUN}@1", "build", code=2, told=RUN),
    "decision nobody asked for": wrong("approve", RUN, "build", code=5, told="needs no approval"),
    "decision on no step": wrong("reject", RUN, "nothing", code=3, told="has no step nothing"),
    "logs of no step": wrong("logs", RUN, "buidl", code=3, told="Did you mean build?"),
    "logs of a step as if it were a run": wrong("logs", "build", code=3, told="leftoff logs @ build"),
    "undelete of what nobody removed": wrong("undelete", "no-such", code=3, told="no-such"),
    "artifact that is not there": wrong("artifact", "no/such", code=3, told="no/such"),
    "artifact that is a folder": wrong("artifact", ".", code=3, told=""),
    "restore without a path": wrong("restore", "latest", code=2, told="leftoff restore latest PATH"),
    "restore of what nobody tracked": wrong("restore", "latest", "page.txt", code=3, told="has no file"),
    "restore outside the project": wrong(
        "restore", "latest", "/etc/passwd", code=4, told="outside the project"
    ),
    "cat without a path": wrong("cat", "latest", code=2, told="leftoff cat latest:PATH"),
    "cat of what nobody tracked": wrong("cat", "latest:no/such", code=3, told="has no file"),
    "track outside the project": wrong("track", "/etc/passwd", code=4, told="outside the project"),
    "track of git's own": wrong("track", ".git/config", code=4, told="belongs to git"),
    "track of nothing": wrong("track", code=2, told="--git"),
    "file that is not there": wrong("track", "page.txt", "no/such", code=3, told="no/such"),
    "attempt of nobody": wrong(
        "step", "done", "build", code=5, told="LEFTOFF_ATTEMPT", LEFTOFF_ATTEMPT="bogus"
    ),
    "store that is asked for nothing": wrong(
        "store", code=2, told="needs info | migrate | backup FOLDER | copy"
    ),
    "store that is asked for something else": wrong("store", "move", code=2, told="does not take 'move'"),
    "trust that is listed and taken back": wrong(
        "trust", "--list", "--revoke", code=2, told="cannot be combined"
    ),
    "removal without a yes": wrong("rm", RUN, code=7, told="--yes"),
    "export into no folder": wrong("export", RUN, "-o", "no/such/x", code=3, told="no folder"),
    "export onto a folder": wrong("export", RUN, "-o", ".", code=2, told="not a regular file"),
    "export onto the store": wrong("export", RUN, "-o", ".leftoff/store.db", code=2, told="inside the store"),
    "store of a kind that is not there": wrong("ls", "--store", "ftp://x/y", code=4, told="ftp://"),
    "store from outside": wrong("ls", code=4, told="ftp://", LEFTOFF_STORE="ftp://x/y"),
}

SETTINGS = {
    "TOML that is none": "this is [not TOML",
    "lists in lists without end": "a = " + "[" * 20_000 + "]" * 20_000,
    "unknown section": "[nonsense]\nx = 1\n",
    "unknown key": "[heartbeat]\nintervall = 3\n",
    "wrong type": "store = 5\n",
    "bad duration": '[heartbeat]\ninterval = "soon"\n',
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project to be copied: one unfinished run on main, two on another branch, one that is completed."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "page.txt").write_text("hello")
    with leftoff.open(folder / ".leftoff") as store:
        store.start("done", run_id="done-1").finish()
        for number in (1, 2):
            store.start("crowd", run_id=f"crowd-{number}", branch="crowd").pause()
        run = store.start("release", run_id=RUN, steps=["collect", "build"])
        with run.step("collect"):
            run.put("knowledge", "K1", {"text": "known"})
        run.pause()
    return folder


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    folder = tmp_path / "home"
    shutil.copytree(template, folder)
    return folder


def state(folder: Path) -> dict[str, Any]:
    """What must not change: every run with its seq and digest, and every file outside the store."""
    with leftoff.open(folder / ".leftoff") as store:
        runs = {run.run_id: (run.row.seq, run.row.digest, run.status) for run in store.list()}
    outside = {str(p.relative_to(folder)) for p in folder.rglob("*") if ".leftoff" not in p.parts}
    return {"runs": runs, "files": outside}


def check_told(result: Called, code: int, told: str) -> None:
    """The exit code; what is wrong and what to do, each on its line; nothing that a terminal would obey."""
    assert code == result.code, str(result)
    assert "Traceback" not in result.err + result.out, str(result)
    assert "Internal error" not in result.err, str(result)
    lines = result.err.splitlines()
    assert lines and lines[0].startswith("leftoff: "), str(result)
    assert len(lines) >= 2 and lines[1].strip(), f"it does not say what to do\n{result}"
    assert told in result.err, str(result)
    assert all(c.isprintable() or c in "\n\t" for c in result.err), str(result)
    assert len(result.err) < 5000


def check_document(result: Called, code: int) -> None:
    """With --json: exactly one document, with the error in it."""
    assert code == result.code, str(result)
    (line,) = result.out.splitlines()
    error = json.loads(line)["error"]
    assert {"code", "message", "hint"} <= set(error)
    assert error["code"] and error["message"] and error["hint"], str(result)


CASES = {
    **{f"usage: {name}": case for name, case in USAGE.items()},
    **{f"ref: {name}": case for name, case in REFS.items()},
    **{f"value: {name}": case for name, case in VALUES.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_input(name: str, home: Path) -> None:
    """Its exit code, two lines at least, no traceback, one document with --json, and nothing changed."""
    case = CASES[name]
    before = state(home)
    told = call(*case.words, cwd=home, input=case.input, **case.env)
    check_told(told, case.code, case.told)
    assert "" == told.out or "--json" in case.words, str(told)
    words = case.words if "--json" in case.words else ("--json", *case.words)
    check_document(call(*words, cwd=home, input=case.input, **case.env), case.code)
    assert before == state(home)


def test_there_are_enough_of_them() -> None:
    """At least sixty, and every verb gets at least one."""
    from leftoff.cli.options import VERBS

    assert len(CASES) >= 60
    tried = {word for case in CASES.values() for word in case.words if word in VERBS}
    assert set(VERBS) - tried <= {"status", "next", "heartbeat", "pause", "demo", "fsck"}


@pytest.mark.parametrize("verb", ["status", "next", "heartbeat", "pause", "demo", "fsck"])
def test_verbs_that_take_little(verb: str, home: Path) -> None:
    """Those too say what they do not take."""
    check_told(call(verb, "a", "b", cwd=home), 2, "does not take")
    check_told(call(verb, "--frobnicate", cwd=home), 2, "no option --frobnicate")


@pytest.mark.parametrize("what", SETTINGS)
def test_wrong_settings(what: str, home: Path) -> None:
    """A wrong leftoff.toml stops every verb that reads it, with the file's name; help still works."""
    (home / "leftoff.toml").write_text(SETTINGS[what])
    for words in (["ls"], ["set", "a=1"], ["show", RUN]):
        check_told(call(*words, cwd=home), 2, "leftoff.toml")
        check_document(call(*words, "--json", cwd=home), 2)
    succeed("help", cwd=home)
    (home / "leftoff.toml").unlink()


def test_two_checkpoints_with_one_prefix(home: Path) -> None:
    """An ambiguous prefix lists its candidates, and one more character helps; of all digits too."""
    with leftoff.open(home / ".leftoff") as store:
        run = store.resume(RUN)
        seen: dict[str, str] = {}
        pair: tuple[str, str] | None = None
        while pair is None:
            version = run.checkpoint()
            assert version.checkpoint is not None
            prefix = version.checkpoint[:4]
            if prefix in seen and seen[prefix][4] != version.checkpoint[4]:
                pair = seen[prefix], version.checkpoint
            seen[prefix] = version.checkpoint
        run.pause()
    result = call("show", pair[0][:4], cwd=home)
    check_told(result, 2, "several")
    assert all(one[:12] in result.err for one in pair)
    check_told(call("rollback", f"{RUN}@{pair[0][:4]}", cwd=home), 2, "several")
    succeed("show", pair[0][:12], cwd=home)


def test_digits_are_a_seq(home: Path) -> None:
    """`RUN@12` is version 12 and nothing else; an id always has a letter among its first four digits."""
    with leftoff.open(home / ".leftoff") as store:
        run = store.resume(RUN)
        versions = [run.checkpoint() for _ in range(20)]
        run.pause()
    assert not [version.id for version in versions if version.id and version.id[:4].isdigit()]
    for version in versions[:3]:
        for ref in (f"{RUN}@{version.seq}", f"{RUN}@{version.id}", str(version.id)[:6]):
            assert version.seq == succeed("show", ref, "--json", cwd=home).json["head"]["seq"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("tag=1.10", "1.10"),
        ("sha=1e5", "1e5"),
        ("n=12", 12),
        ("zip=007", "007"),
        ("text=a\nb\tc", "a\nb\tc"),
        ("empty=", ""),
        ("list=[1, 2]", [1, 2]),
        ("half=[1, 2", "[1, 2"),
        ("yes=true", True),
        ("Yes=True", "True"),
        ("nan=NaN", "NaN"),
        ("eq=a=b", "a=b"),
        ("uni=ümläut ✓", "ümläut ✓"),
        (f"long={LONG}", LONG),
        ("minus=-1", -1),
        ("big=123456789012345678901234567890", 123456789012345678901234567890),
    ],
    ids=lambda value: str(value)[:20],
)
def test_odd_but_right_values(given: str, wanted: object, home: Path) -> None:
    """A number only where it prints back identically; anything else is the text that was given."""
    name = given.partition("=")[0]
    succeed("set", given, cwd=home)
    document = succeed("get", "--json", cwd=home).json
    assert wanted == document[name] and type(wanted) is type(document[name])


@pytest.mark.parametrize(
    "name", ["new\nline", "\x1b[31mred\x1b[0m", "ümläut", "a'b\"c$(d)`e`", "..", "-", "a" * 300]
)
def test_odd_but_right_names(name: str, home: Path) -> None:
    """They are kept as they are, and shown so that no terminal obeys them."""
    words = ["--title", name, "--steps", "one", "--branch", "odd"]
    run_id = succeed("start", name, *words, cwd=home).out.strip()
    assert run_id.isprintable() and "/" not in run_id
    succeed("step", "start", name.strip("/"), "--run", run_id, cwd=home)
    document = succeed("show", run_id, "--json", cwd=home).json
    assert (name, name) == (document["workflow"], document["title"])
    for words in (["ls"], ["show", run_id], ["status"], ["log", run_id], ["brief", run_id]):
        result = succeed(*words, cwd=home)
        assert all(c.isprintable() or c == "\n" for c in result.out + result.err), str(result)


def test_environment_that_is_odd(home: Path) -> None:
    """Empty variables count as unset."""
    empty = {
        f"LEFTOFF_{name}": "" for name in ("RUN", "BRANCH", "SESSION", "ATTEMPT", "STORE", "PROJECT", "STEP")
    }
    succeed("set", "a=1", cwd=home, **empty)
    assert "1\n" == succeed("get", "a", cwd=home, **empty).out
    assert os.listdir(home)
