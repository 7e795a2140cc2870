"""Machines whose clocks are hours apart: how long ago somebody was heard of is told by the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from leftoff.engine.lease import state
from leftoff.engine.project import open_store_at
from leftoff.engine.run_info import list_info
from leftoff.engine.run_info import run_info as one
from leftoff.host import Process
from leftoff.store.postgres import PostgresStore
from leftoff.store.rows import Holder, Lease
from tests.contract.scribe import AT, Scribe

HOUR = 3_600_000
HOURS = pytest.mark.parametrize("hours", [-5, 0, 5])


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = open_store_at(url)
    assert isinstance(store, PostgresStore)
    yield store
    store.close()


DRIVER = Holder("process", Process("elsewhere/1/2", 7, "1"), None, "far", AT)


def driven(store: PostgresStore, minutes: int, holder: Holder = DRIVER) -> Scribe:
    """A run that somebody on another machine drives, of whom nothing was heard for so long."""
    scribe = Scribe(store)
    store.write(lambda tx: tx.put_lease(scribe.run, 1, holder))
    ago = f"UPDATE lease SET heard = heard - interval '{minutes} min'"
    store.asked(ago)
    return scribe


def health(store: PostgresStore, scribe: Scribe, now: int) -> str:
    """As it is listed, and as it is shown."""
    shown = one(store, scribe.run, now)
    (listed,) = list_info(store, now)
    assert shown is not None and shown.health == listed.health
    return listed.health


@HOURS
@pytest.mark.parametrize(("minutes", "expected"), [(0, "alive"), (11, "quiet"), (60, "stalled")])
def test_health_of_a_driver(store: PostgresStore, minutes: int, expected: str, hours: int) -> None:
    """Whatever this machine's clock says, and whatever the driver's said when it beat."""
    scribe = driven(store, minutes)
    assert expected == health(store, scribe, AT + hours * HOUR)


@HOURS
@pytest.mark.parametrize(("beat", "expected"), [(AT + HOUR, "stalled"), (AT - HOUR, "alive")])
def test_health_of_who_reports(store: PostgresStore, beat: int, expected: str, hours: int) -> None:
    """A report behind a session's last beat is a sign of life: how much later it was, one clock has told."""
    scribe = driven(store, 60, Holder("session", None, "s-1", "far", beat))
    assert expected == health(store, scribe, AT + hours * HOUR)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass."""

    def pass_by(seconds: float) -> None:
        then = monotonic() + seconds
        monkeypatch.setattr("leftoff.store.rows.monotonic", lambda: then)

    return pass_by


def test_a_lease_that_is_kept_grows_older(store: PostgresStore, later: Callable[[float], None]) -> None:
    """Who watches goes by leases that were read long ago: that nothing was heard since counts, too."""
    scribe = driven(store, 0)
    lease = store.read(lambda view: view.lease(scribe.run))
    assert isinstance(lease, Lease)
    assert "unknown" == state(lease, AT)
    later(601)
    assert "silent" == state(lease, AT)
