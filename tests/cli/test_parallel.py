"""Several agents at once, each a process of its own, on one run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, environment, succeed
from tests.postgres.conftest import location as location
from tests.postgres.conftest import name as name
from tests.postgres.conftest import server as server
from tests.postgres.conftest import url as url

AGENT = """
for n in $(seq {steps}); do
    "{leftoff}" step done "{path}" --note "from {agent}" || exit 1
done
"""


def report(cwd: Path, agents: int, steps: int, store: str) -> None:
    """So many agents at once report so many steps each; every step and every note is there afterwards."""
    succeed("start", "release", cwd=cwd, LEFTOFF_STORE=store)
    script = AGENT.replace("{steps}", str(steps)).replace("{leftoff}", str(LEFTOFF))
    workers = []
    for agent in range(agents):
        path = (
            f"agent-{agent}/step-$n" if agent % 2 else f"step-{agent}-$n"
        )  # some below a step, some beside each other
        text = script.replace("{path}", path).replace("{agent}", str(agent))
        workers.append(
            subprocess.Popen(
                ["bash", "-c", text],
                cwd=cwd,
                env=environment(LEFTOFF_STORE=store),
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    errors = [worker.communicate()[1] for worker in workers]
    assert ([0] * agents, [""] * agents) == ([worker.returncode for worker in workers], errors)
    found = succeed("show", "latest", "--json", cwd=cwd, LEFTOFF_STORE=store).json
    paths = {record["step"] for record in found["step_records"]}
    wanted = {
        f"agent-{a}/step-{n}" if a % 2 else f"step-{a}-{n}"
        for a in range(agents)
        for n in range(1, steps + 1)
    }
    assert wanted == paths
    assert {"completed"} == {record["status"] for record in found["step_records"]}
    total = agents * steps
    assert (total, total, 1 + total) == (
        found["steps"]["completed"],
        len(found["records"]["note"]),
        found["head"]["seq"],
    )
    assert succeed("fsck", "--json", cwd=cwd, LEFTOFF_STORE=store).json["ok"]


def test_agents_lose_nothing(tmp_path: Path) -> None:
    """Six agents that report five steps each at once: thirty steps, none lost, no error, a clean store."""
    report(tmp_path, 6, 5, str(tmp_path / ".leftoff"))


def test_agents_of_a_server_lose_nothing(tmp_path: Path, url: str) -> None:
    """The same with a store on a server, a few of them."""
    report(tmp_path, 4, 3, url)


@pytest.mark.crash_full
def test_many_agents_lose_nothing(tmp_path: Path, location: str) -> None:
    """Twenty agents that report fifty steps each at once: a thousand steps, none lost, no error, a clean store."""
    report(tmp_path, 20, 50, location)
