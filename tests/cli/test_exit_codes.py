"""Every exit code of the table, provoked one by one, by the real command.

Exit 1 is a step that failed while leftoff ran it, which comes with `leftoff run`; until then only an error of
leftoff's own ends with it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import leftoff
from leftoff import errors
from tests.cli.command import call, succeed
from tests.cli.runs import driven, release, started
from tests.cli.terminal import CTRL_C, Terminal
from tests.seams import SEAMS


def test_0_done(project: Path) -> None:
    """Done; reporting that a step failed is done, too."""
    started(project)
    assert 0 == call("step", "fail", "collect", "--error", "no network", cwd=project).code
    assert 0 == call("ls", cwd=project).code


def test_1_an_error_of_our_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is one line and a hint, never a traceback; LEFTOFF_DEBUG=1 shows it."""
    from leftoff.cli import dispatch

    def stumble(words: list[str]) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(SEAMS["dispatch._run"], stumble)
    assert 1 == dispatch.dispatch(["ls"])
    monkeypatch.setenv("LEFTOFF_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        dispatch.dispatch(["ls"])


def test_130_while_a_module_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a class is made comes out of Python as another error; it is Ctrl-C all the same."""
    from leftoff.cli import dispatch

    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def load(words: list[str]) -> int:
        try:
            type("Step", (), {"field": Interrupted()})
        except KeyboardInterrupt as error:  # as Python 3.12 leaves it
            raise RuntimeError("Error calling __set_name__") from error
        return 0

    monkeypatch.setattr(SEAMS["dispatch._run"], load)
    assert 130 == dispatch.dispatch(["resume"])
    assert "Internal error" not in capsys.readouterr().err


def test_2_wrong_usage(project: Path) -> None:
    """An unknown verb or option, bad JSON, a REF that names nothing."""
    started(project)
    for words in (["frobnicate"], ["ls", "--frobnicate"], ["set", "x:={"], ["show", ""]):
        assert 2 == call(*words, cwd=project).code, words


def test_2_ambiguous(project: Path) -> None:
    """Two unfinished runs on a branch: a writing verb lists them and does nothing."""
    runs = [started(project, "release", "--run-id", name) for name in ("one", "two")]
    result = call("set", "a=1", cwd=project)
    assert 2 == result.code and all(run in result.err for run in runs)


def test_3_no_such_thing(project: Path) -> None:
    """No such run, checkpoint, variable, step or file."""
    started(project, "release", "--run-id", "release-1")
    for line in ("show nothing", "show release-1@99", "get nothing", "get step/x", "artifact no/such"):
        assert 3 == call(*line.split(), cwd=project).code, line


@pytest.mark.damages_store
def test_4_corrupt(project: Path) -> None:
    """A captured file that was changed is a problem for fsck; a store that is none, for every verb."""
    release(project)
    (project / "page.txt").write_bytes(bytes(range(256)) * 100)
    succeed("artifact", "page.txt", cwd=project)
    (blob,) = (path for path in (project / ".leftoff" / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(blob.read_bytes()[:-1])
    assert 4 == call("fsck", cwd=project).code
    for name in ("store.db-wal", "store.db-shm"):
        (project / ".leftoff" / name).unlink(missing_ok=True)
    (project / ".leftoff" / "store.db").write_text("not a database")
    assert 4 == call("ls", cwd=project).code


def test_4_nothing_imported(project: Path) -> None:
    """An import that imported nothing."""
    (project / "text").write_text("hello")
    assert 4 == call("import", "text", cwd=project).code


def test_4_unsupported(project: Path) -> None:
    """A store of a kind that this leftoff does not have."""
    assert 4 == call("ls", "--store", "ftp://x/y", cwd=project).code


def test_5_somebody_drives_it(project: Path) -> None:
    """A live process drives the run: what needs the lease is refused, what does not works beside it."""
    with driven(project) as run:
        for words in (["finish"], ["pause"], ["rollback", f"{run}@1"], ["resume", run]):
            result = call(*words, "--run", run, cwd=project)
            assert 5 == result.code, str(result)
        succeed("set", "a=1", "--run", run, cwd=project)


def test_5_a_key_exists(project: Path) -> None:
    """`put --new` never overwrites."""
    started(project)
    succeed("put", "knowledge", "k", "1", "--new", cwd=project)
    assert 5 == call("put", "knowledge", "k", "2", "--new", cwd=project).code


def test_5_an_id_exists(project: Path) -> None:
    """An unfinished run of that id."""
    started(project, "x", "--run-id", "x-1")
    assert 5 == call("start", "x", "--run-id", "x-1", cwd=project).code


def test_5_an_old_attempt(project: Path) -> None:
    """A report with a token that is nobody's."""
    started(project)
    assert 5 == call("step", "done", "a", cwd=project, LEFTOFF_ATTEMPT="bogus").code


def test_6_refused(project: Path) -> None:
    """A run that was given up cannot be resumed; what to do instead is told."""
    run = started(project)
    succeed("finish", "--status", "abandoned", cwd=project)
    result = call("resume", run, cwd=project)
    assert 6 == result.code and f"leftoff fork {run}" in result.err


def test_7_a_person_must_decide(project: Path) -> None:
    """A question without a terminal; --yes answers it."""
    started(project, "release", "--run-id", "release-1")
    result = call("rm", "release-1", cwd=project)
    assert 7 == result.code and "--yes" in result.err
    succeed("rm", "release-1", "--yes", cwd=project)


def test_8_out_of_reach(project: Path) -> None:
    """A store that is a file, an output that takes nothing."""
    (project / ".leftoff").write_text("a file")
    assert 8 == call("start", "x", cwd=project).code


def test_130_interrupted(project: Path) -> None:
    """Ctrl-C at a question, and while watching."""
    started(project, "release", "--run-id", "release-1")
    with Terminal("rm", "release-1", cwd=project) as terminal:
        terminal.expect("[y/N]")
        terminal.type(CTRL_C)
        assert 130 == terminal.end()
    assert ["release-1"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]


def test_every_error_has_a_code_of_the_table() -> None:
    """No class of error ends with a number that the table does not have."""
    known = {0, 1, 2, 3, 4, 5, 6, 7, 8, 130}
    pending: list[type[errors.LeftoffError]] = [errors.LeftoffError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        assert kind.exit_code in known and re.fullmatch(r"[a-z_]+", kind.code), kind


def test_the_python_api_raises_the_same(project: Path) -> None:
    """Whoever calls from Python finds the exit code on the error."""
    with leftoff.open(project / ".leftoff") as store, pytest.raises(leftoff.NotFound) as caught:
        store.start("x").finish()
        store.get("nothing")
    assert 3 == caught.value.exit_code
