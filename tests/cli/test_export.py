"""`leftoff export`: one file with a whole run."""

from __future__ import annotations

import stat
from pathlib import Path

import leftoff
from tests.cli.command import call, succeed


def started(folder: Path, name: str = "site") -> str:
    """A run with two checkpoints and a file."""
    page = folder / "page.txt"
    page.write_text("hello " * 1000)
    with leftoff.open(folder / ".leftoff") as store, store.run(name, steps=["a", "b"]) as run:
        for step in ("a", "b"):
            with run.step(step):
                run.artifact(page)
    return run.id


def test_says_what_it_wrote(project: Path) -> None:
    """One line for people, one document for programs; the file is private."""
    run_id = started(project)
    told = succeed("export", run_id, "-o", "run.leftoff", cwd=project)
    assert told.out.startswith(f"run.leftoff: run {run_id}, 2 checkpoint(s), 1 file(s), ")
    document = succeed("export", "latest", "-o", "run.leftoff", "--json", cwd=project).json
    size = Path("run.leftoff").stat().st_size
    assert (run_id, "run.leftoff", 2, 1, size) == tuple(
        document[key] for key in ("run_id", "path", "checkpoints", "blobs", "bytes")
    )
    assert 0o600 == stat.S_IMODE(Path("run.leftoff").stat().st_mode)


def test_same_run_same_bytes(project: Path) -> None:
    """Nothing in it says when or where it was written."""
    started(project)
    for name in ("one", "two"):
        succeed("export", "site", "-o", name, cwd=project)
    assert Path("one").read_bytes() == Path("two").read_bytes()


def test_wrong_calls(project: Path) -> None:
    """No file, a pipe, a version, no such run, no such folder, a place inside the store: each with its exit code."""
    run_id = started(project)
    for words, code, told in [
        ((run_id,), 2, "needs -o FILE"),
        ((run_id, "-o"), 2, "-o needs a value"),
        ((run_id, "-o", "-"), 2, "not to stdout"),
        ((run_id, "-o", ""), 2, "needs -o FILE"),
        ((f"{run_id}~0", "-o", "x"), 2, "an export has them all"),
        (("nothing", "-o", "x"), 3, "Nothing is called nothing"),
        ((run_id, "-o", "no/such/x"), 3, "There is no folder"),
        ((run_id, "-o", "."), 2, "not a regular file"),
        ((run_id, "-o", ".leftoff/store.db"), 2, "inside the store"),
        ((run_id, "-o", "/dev/full"), 2, "not a regular file"),
    ]:
        result = call("export", *words, cwd=project)
        assert code == result.code and told in result.err, str(result)
    assert {".leftoff", "page.txt"} == {path.name for path in project.iterdir()}
