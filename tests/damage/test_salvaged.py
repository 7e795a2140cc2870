"""What a repair could not prove is said run by run, and a run that lost versions asks before it resumes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.store.fsck import check
from leftoff.store.repair import repair
from leftoff.store.sqlite.wal import HEADER, STEP, Log
from tests.cli.command import call, succeed
from tests.damage.store import PAGE
from tests.damage.test_tampering import tamper

pytestmark = pytest.mark.damages_store
KEPT = ("variables", "step_records", "status", "head")


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run of several steps that is completed, all of it in the log."""
    folder = tmp_path_factory.mktemp("worked")
    steps = "abcdefghijkl"
    succeed("start", "flow", "--run-id", "r", "--steps", ",".join(steps), cwd=folder)
    for number, step in enumerate(steps):
        succeed("set", f"n={number}", f"text={'t' * 900}{number}", f"v{number}={'v' * 900}", cwd=folder)
        succeed("step", "done", step, "--result", json.dumps({"n": number, "text": "r" * 400}), cwd=folder)
    succeed("finish", cwd=folder)
    return folder


def state(folder: Path) -> dict[str, Any]:
    shown = succeed("show", "r", "--json", cwd=folder).json
    return {key: shown[key] for key in KEPT}


def check_told(folder: Path, expected: dict[str, Any], what: str) -> str:
    """After a repair the run is as it was; or it is told that it is not, and it asks. What became of it."""
    told = call("fsck", "--repair", "--json", cwd=folder)
    assert 0 == told.code, f"{what}: {told}"
    losses = {loss["run_id"]: loss for loss in told.json["salvaged"]}
    if call("show", "r", cwd=folder).code != 0:
        assert losses["r"]["kept"] is None, what
        return "gone"
    if state(folder) == expected:
        return "whole"
    assert "r" in losses, f"{what}: not a word"
    loss = losses["r"]
    assert loss["kept"] is not None, what
    verdict = call("verify", "r", "--json", cwd=folder)
    codes = [f["code"] for f in verdict.json["findings"] if f["level"] == "ask"]
    if loss["newest"] == loss["kept"]:
        return "whole"
    assert 7 == verdict.code, f"{what}: {verdict}"
    assert "integrity.salvaged" in codes, what
    return "set back"


def zeroed(worked: Path, folder: Path) -> list[str]:
    """Each page of zeros in turn, and repaired: what became of the run."""
    whole = folder / "whole"
    shutil.copytree(worked, whole)
    with leftoff.open(whole / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    expected = state(whole)
    data = (whole / ".leftoff" / "store.db").read_bytes()
    found = []
    for number in range(1, len(data) // PAGE):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        start = number * PAGE
        (copy / ".leftoff" / "store.db").write_bytes(data[:start] + bytes(PAGE) + data[start + PAGE :])
        found.append(check_told(copy, expected, f"page {number + 1} of zeros"))
    return found


def test_every_zeroed_page(worked: Path, tmp_path: Path) -> None:
    """A run that a repair sets back is never set back without a word; and some pages do set it back."""
    found = zeroed(worked, tmp_path)
    assert len(found) > 20
    assert "set back" in found and "whole" in found


def test_a_repair_that_is_cut_short_leaves_no_unmarked_run(
    worked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark comes with the new database: dying right after that took the old one's place changes nothing."""
    folder = tmp_path / "copy"
    shutil.copytree(worked, folder)
    with leftoff.open(folder / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
        newest = store.get("r").info.row.seq
    tamper(
        folder / ".leftoff", "UPDATE record SET data = x'4a31' WHERE collection = 'variable' AND key = 'text'"
    )

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repair, "inspect", stopping(check.inspect, die))
    with pytest.raises(KeyboardInterrupt), leftoff.open(folder / ".leftoff") as store:
        store.fsck(repair=True)
    monkeypatch.undo()
    verdict = call("verify", "r", "--json", cwd=folder)
    assert 7 == verdict.code
    assert "integrity.salvaged" in [finding["code"] for finding in verdict.json["findings"]]
    assert newest < succeed("show", "r", "--json", cwd=folder).json["head"]["seq"]
    assert 2 == call("put", "context", "salvaged", "null", "--run", "r", cwd=folder).code


def stopping(inspect: Any, die: Any) -> Any:
    """Look at the store once, and die where it is looked at again."""
    looks: list[Any] = []

    def look(store: Any) -> Any:
        if looks:
            die()
        looks.append(store)
        return inspect(store)

    return look


def test_a_log_that_is_cut_asks(worked: Path, tmp_path: Path) -> None:
    """Commits of a damaged log are gone after a repair: the run says so, and goes on once that is accepted."""
    folder = tmp_path / "copy"
    shutil.copytree(worked, folder)
    wal = folder / ".leftoff" / "store.db-wal"
    log = Log(wal.read_bytes())
    start = HEADER + log.valid // 2 * STEP
    noise = random.Random(1).randbytes(3 * STEP)
    wal.write_bytes(log.data[:start] + noise + log.data[start + len(noise) :])
    assert 4 == call("show", "r", cwd=folder).code
    told = call("fsck", "--repair", cwd=folder)
    assert 0 == told.code
    assert "salvaged: run r: " in told.out
    verdict = call("verify", "r", "--json", cwd=folder)
    assert ["integrity.salvaged"] == [f["code"] for f in verdict.json["findings"] if f["level"] == "ask"]
    assert 7 == verdict.code
    assert 7 == call("resume", "r", "--yes", cwd=folder).code
    succeed("resume", "r", "--accept", "integrity.salvaged", cwd=folder)
    assert 0 == call("verify", "r", cwd=folder).code


def test_a_run_that_is_lost_is_named(project: Path) -> None:
    """A repair that leaves a whole run out does not end with "Clean.": it says which, and where the rest of it lies."""
    for run in ("r", "other"):
        succeed("start", "w", "--run-id", run, cwd=project)
        succeed("set", "x=1", "--run", run, cwd=project)
    tamper(project / ".leftoff", "UPDATE version SET digest = zeroblob(32) WHERE run = 1")
    told = succeed("fsck", "--repair", cwd=project).out.splitlines()
    (lost,) = [line for line in told if line.startswith("  lost: run r: ")]
    assert "What is left is clean. Runs lost: r." == told[-1]
    assert '"x"' in Path(lost.rpartition(" is in ")[2].removesuffix(".")).read_text()
    assert "Clean." == succeed("fsck", cwd=project).out.splitlines()[-1]
