"""Several machines drive the runs of one store, while machines die, lines are cut and the server is restarted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import leftoff
from leftoff.engine.project import open_store_at
from tests.crash.harness import require_root
from tests.crash.verdict import Violation
from tests.postgres.machines import Machine, Network, ProxyLine, cut_off, judge
from tests.postgres.proxy import Proxy
from tests.postgres.server import SETTINGS, Server

LEASE_S = "1.5"


@pytest.fixture
def lines(server: Server, name: str) -> Iterator[list[ProxyLine]]:
    """One for each machine."""
    made = [Proxy(server.folder) for _ in range(3)]
    yield [ProxyLine(proxy, name) for proxy in made]
    for proxy in made:
        proxy.go_silent(False)
        proxy.close()


def fill(location: str, runs: int, steps: int) -> None:
    with leftoff.open(location) as store:
        for number in range(runs):
            names = [f"s{step}" for step in range(steps)]
            store.start("work", run_id=f"r{number}", steps=names).pause()


def play(lines: list[ProxyLine], url: str, folder: Path, *broken: str) -> None:
    """A run for each machine. The first is cut off in a step until somebody else has done it, the third, if there is
    one, is killed in a step, and the second has to do the rest."""
    steps = 4
    fill(url, len(lines), steps)
    store = open_store_at(url)
    machines: dict[int, Machine] = {}

    def begin(number: int, *, holds: bool = False) -> Machine:
        words = (LEASE_S, str(steps), *broken)
        machines[number] = Machine(lines[number], folder / f"m{number}", number, *words, holds=holds)
        return machines[number]

    try:
        held = [begin(number, holds=True) for number in range(len(lines)) if number != 1]
        for machine in held:
            machine.held()
        for machine in held[1:]:
            machine.end(kill=True)
        begin(1)
        run_id = cut_off(machines[0], store)
        machines[0].end()
        machines[1].end()
    finally:
        store.close()
        for machine in machines.values():
            machine.end(kill=True)
    assert broken or ["lost", run_id, "StaleEpoch"] in machines[0].said
    judge(url, len(lines), steps)


def test_a_machine_that_is_cut_off(lines: list[ProxyLine], url: str, tmp_path: Path) -> None:
    """Everything is done once, whoever began it; what it commits too late is refused."""
    play(lines, url, tmp_path)


def test_without_fencing(lines: list[ProxyLine], url: str, tmp_path: Path) -> None:
    """Machines that commit whether they still drive or not are found out."""
    with pytest.raises(Violation, match="an old epoch"):
        play(lines[:2], url, tmp_path, "unfenced")


@pytest.fixture
def network() -> Iterator[tuple[Network, Server]]:
    """Four machines in namespaces of their own, and a server that all of them reach."""
    require_root()
    with ExitStack() as stack:
        net = Network(4)
        stack.callback(net.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leftoff-network-")))
        folder.chmod(0o755)  # for the server's user
        server = Server(folder / "server")
        server.make({**SETTINGS, "listen_addresses": f"'{net.address}'", "fsync": "on"})
        with open(server.data / "pg_hba.conf", "a") as file:
            file.write(f"host all all {net.addresses} trust\n")
        server.start()
        stack.callback(server.stop)
        yield net, server


def four(net: Network, server: Server, folder: Path, runs: int, *broken: str) -> None:
    """One is killed, one cut off for longer than its lease, and the server is restarted twice."""
    steps = 10
    url = server.url("four")
    fill(url, runs, steps)
    store = open_store_at(url)
    machines = [Machine(net.line(n, "four"), folder / f"m{n}", n, "3", str(steps), *broken) for n in range(4)]
    try:
        machines[3].wait_for(lambda: len(machines[3].said) > 6, "it finishes nothing")
        server.stop("immediate")
        server.start()
        run_id = cut_off(machines[0], store)
        machines[1].wait_for(lambda: machines[1].found("drives"), "it drives nothing")
        machines[1].end(kill=True)
        server.stop("fast")
        server.start()
        for n in (0, 2, 3):
            machines[n].end()
    finally:
        store.close()
        for machine in machines:
            machine.end(kill=True)
    assert broken or ["lost", run_id, "StaleEpoch"] in machines[0].said
    judge(url, runs, steps)


@pytest.mark.crash_full
def test_four_machines(network: tuple[Network, Server], tmp_path: Path) -> None:
    """200 runs: every one is finished, no step is committed twice, no old epoch gets in."""
    four(*network, tmp_path, 200)


@pytest.mark.crash_full
def test_four_machines_without_fencing(network: tuple[Network, Server], tmp_path: Path) -> None:
    """The same, by machines that do not ask whether they still drive: this is what the other test would find."""
    with pytest.raises(Violation, match="an old epoch"):
        four(*network, tmp_path, 60, "unfenced")
