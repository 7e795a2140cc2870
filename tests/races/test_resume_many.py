"""Many machines go on with the same run at the same moment: one drives it, the others are told who does."""

from __future__ import annotations

from leftoff.engine.opening import Opening, open_run, start_new_run
from leftoff.engine.project import open_store_at
from leftoff.errors import LeaseHeld
from leftoff.host import Process
from tests.contract.rules.transactions import in_threads
from tests.contract.scribe import AT
from tests.postgres.conftest import location as location
from tests.postgres.conftest import name as name
from tests.postgres.conftest import server as server
from tests.postgres.conftest import url as url

STORES = 20  # each a connection or more; several machines take turns with one


def race(location: str, machines: int) -> None:
    """Nobody waits for long, one epoch is given, and it is the one that commits."""
    stores = [open_store_at(location) for _ in range(min(STORES, machines))]
    start_new_run(stores[0], Opening("nightly", run_id="r", steps=["a"]), AT, scrubber=None)
    won: list[int] = []
    refused: list[LeaseHeld] = []

    def go(machine: int) -> None:
        driver = Process(f"machine-{machine}/boot/1", 100 + machine, "1"), f"driver {machine}"
        try:
            won.append(open_run(stores[machine % len(stores)], "r", AT, driver=driver)[1] or 0)
        except LeaseHeld as error:
            refused.append(error)

    in_threads(go, range(machines))
    assert ([1], machines - 1) == (won, len(refused))
    row = stores[0].read(lambda view: view.find_run("r"))
    assert row is not None
    assert 1 == stores[0].read(lambda view: view.head(row.run))[3]  # type: ignore[index]
    assert [] == stores[0].check()["problems"]
    for store in stores:
        store.close()


def test_a_race_of_two_hundred_to_resume(location: str) -> None:
    race(location, 200)
