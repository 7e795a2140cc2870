"""`leftoff heartbeat`."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.engine.run_info import health
from leftoff.store.rows import Lease, RunRow
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import call, succeed
from tests.cli.runs import driven, started

HOUR = 3_600_000


def seen(cwd: Path, run: str) -> tuple[RunRow, Lease]:
    """The run and its lease, as they are stored."""
    store = SqliteStore(str(cwd / ".leftoff"))
    try:
        row = store.read(lambda view: view.find_run(run))
        assert row is not None
        lease = store.read(lambda view: view.lease(row.run))
        assert lease is not None
        return row, lease
    finally:
        store.close()


@pytest.mark.parametrize("words", [(), ("--session", "s-1")])
def test_a_beat_is_a_sign_of_life_and_no_version(words: tuple[str, ...], tmp_path: Path) -> None:
    """It prints nothing and changes nothing of the run; with a lease or without, the run counts as alive."""
    run = started(tmp_path, "flow", *words)
    done = succeed("heartbeat", cwd=tmp_path)
    assert ("", "") == (done.out, done.err)
    assert {"run_id": run, "seq": 1} == succeed("heartbeat", "--json", cwd=tmp_path).json
    row, lease = seen(tmp_path, run)
    assert lease.beat is not None and lease.held is bool(words)
    assert lease.beat > row.updated_at
    lease.beat = row.updated_at + 2 * HOUR  # the last report is long ago, the beat is not
    assert "alive" == health(row, lease, lease.beat + 1000)
    assert "quiet" == health(row, lease, lease.beat + 700_000)
    assert "stalled" == health(row, lease, lease.beat + HOUR)
    assert "stalled" == health(row, None, lease.beat)


def test_beside_a_live_driver(tmp_path: Path) -> None:
    """The driver's lease stays the driver's."""
    with driven(tmp_path) as run:
        before = seen(tmp_path, run)[1]
        succeed("heartbeat", cwd=tmp_path)
        after = seen(tmp_path, run)[1]
        assert (before.process, before.epoch, before.kind) == (after.process, after.epoch, after.kind)


def test_without_a_run(tmp_path: Path) -> None:
    """Exit 3, and no store is made."""
    done = call("heartbeat", cwd=tmp_path)
    assert 3 == done.code and "leftoff start" in done.err
    assert [] == list(tmp_path.iterdir())
