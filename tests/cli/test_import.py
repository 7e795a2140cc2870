"""`leftoff import`: runs from elsewhere, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import leftoff
from tests.cli.command import call, succeed
from tests.cli.test_export import started


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A run, exported."""
    here = tmp_path / "here"
    here.mkdir()
    started(here)
    succeed("export", "site", "-o", "../run.leftoff", cwd=here)
    return tmp_path / "run.leftoff"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another project."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


def run_ids(folder: Path) -> list[str]:
    with leftoff.open(folder / ".leftoff") as store:
        return [run.run_id for run in store.list()]


def test_same_ids_and_digests(bundle: Path, there: Path, tmp_path: Path) -> None:
    """What `export` wrote comes back exactly, and says so."""
    document = succeed("import", str(bundle), "--json", cwd=there).json
    (run_id,) = run_ids(there)
    entry = {
        "run_id": run_id,
        "path": str(bundle),
        "protocol": "leftoff",
        "dialect": "leftoff",
        "repairs": [],
        "new": True,
    }
    assert {"imported": [entry], "rejected": [], "dry_run": False} == document
    histories = []
    for folder in (tmp_path / "here", there):
        with leftoff.open(folder / ".leftoff") as store:
            histories.append([version.to_json() for version in store.get(run_id).history()])
    assert histories[0] == histories[1]


def test_twice_is_once(bundle: Path, there: Path) -> None:
    """The second time it is reported as imported, and nothing changed."""
    succeed("import", str(bundle), cwd=there)
    again = succeed("import", str(bundle), "--json", cwd=there)
    assert [False] == [entry["new"] for entry in again.json["imported"]]
    assert "already here, unchanged" in succeed("import", str(bundle), cwd=there).out
    assert 1 == len(run_ids(there))


def test_conflict_is_exit_5(bundle: Path, there: Path) -> None:
    """A run that went on here is not overwritten."""
    succeed("import", str(bundle), cwd=there)
    (run_id,) = run_ids(there)
    with leftoff.open(there / ".leftoff") as store:
        run = store.resume(f"{run_id}~1", accept=["outputs.missing"])
        run.variables["x"] = 1
        run.finish()
    for words in (["--dry-run"], [], ["--strict"]):
        result = call("import", str(bundle), "--json", *words, cwd=there)
        assert 5 == result.code
        assert [] == result.json["imported"]
        assert ["conflict"] == [entry["code"] for entry in result.json["rejected"]]
        assert f"leftoff rm {run_id}" in result.err
    with leftoff.open(there / ".leftoff") as store:
        assert 1 == store.get(run_id).variables["x"]


def test_dry_run_writes_nothing(bundle: Path, there: Path) -> None:
    """It says what would happen, and there is not even a store afterwards."""
    result = succeed("import", str(bundle), "--dry-run", "--json", cwd=there)
    assert result.json["dry_run"] and 1 == len(result.json["imported"])
    assert "would be imported" in succeed("import", str(bundle), "--dry-run", cwd=there).out
    assert [] == list(there.iterdir())


def test_nothing_imported_is_exit_4(there: Path) -> None:
    """What is not a bundle is rejected by path and reason; a missing file is exit 3."""
    (there / "text").write_text("hello")
    (there / "folder").mkdir()
    (there / "empty").touch()
    os.mkfifo(there / "pipe")
    names = ["text", "folder", "empty", "pipe"]
    result = call("import", *names, "--json", cwd=there)
    assert 4 == result.code
    assert [] == result.json["imported"]
    assert [(name, "invalid") for name in names] == [(e["path"], e["code"]) for e in result.json["rejected"]]
    assert 2 * len(names) <= len(result.err.splitlines())
    missing = call("import", "missing", "--json", cwd=there)
    assert (3, ["not_found"]) == (missing.code, [e["code"] for e in missing.json["rejected"]])
    assert not (there / ".leftoff").exists()


def test_some_of_many(bundle: Path, there: Path) -> None:
    """What is good comes in, what is not is named; --strict makes that exit 4."""
    (there / "text").write_text("hello")
    result = call("import", "text", str(bundle), "--json", cwd=there)
    assert (0, 1, 1) == (result.code, len(result.json["imported"]), len(result.json["rejected"]))
    assert 4 == call("import", "text", str(bundle), "--strict", cwd=there).code
    assert 0 == call("import", str(bundle), "--strict", cwd=there).code


def test_the_store_itself_is_no_bundle(bundle: Path, there: Path) -> None:
    """Naming the live database among the files does it no harm."""
    succeed("import", str(bundle), cwd=there)
    result = call("import", str(bundle), ".leftoff/store.db", "--json", cwd=there)
    assert (0, ["invalid"]) == (result.code, [e["code"] for e in result.json["rejected"]])
    assert "is an SQLite database, but not a leftoff bundle" in result.err
    succeed("fsck", cwd=there)


def test_a_bundle_is_no_document(bundle: Path, there: Path) -> None:
    """A file that is said to be of another protocol is read as that, and rejected where it is not."""
    result = call("import", str(bundle), "--protocol", "bmad", "--json", cwd=there)
    assert (4, ["invalid"]) == (result.code, [entry["code"] for entry in result.json["rejected"]])
    succeed("import", str(bundle), "--protocol", "leftoff", cwd=there)


@pytest.mark.parametrize("report", ["beat", "save"])
def test_a_run_that_was_running_is_not_driven_here(there: Path, tmp_path: Path, report: str) -> None:
    """Whoever drove it did so elsewhere; who reports on it here is alive."""
    (tmp_path / "here").mkdir()
    succeed("start", "w", "--run-id", "r", cwd=tmp_path / "here")
    succeed("export", "r", "-o", "../r.leftoff", cwd=tmp_path / "here")
    succeed("import", "../r.leftoff", cwd=there)
    shown = succeed("show", "r", "--json", cwd=there).json
    assert ("running", "dead") == (shown["status"], shown["health"])
    succeed(report, "--run", "r", cwd=there)
    assert "alive" == succeed("show", "r", "--json", cwd=there).json["health"]
