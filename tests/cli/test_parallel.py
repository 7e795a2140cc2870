"""Several agents at once, each a process of its own, on one run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, environment, succeed
from tests.cli.runs import started

AGENT = """
for n in $(seq {steps}); do
    "{leftoff}" step done "{path}" --note "from {agent}" || exit 1
done
"""


def report(cwd: Path, agents: int, steps: int) -> None:
    """So many agents at once report so many steps each; every step and every note is there afterwards."""
    script = AGENT.replace("{steps}", str(steps)).replace("{leftoff}", str(LEFTOFF))
    workers = []
    for agent in range(agents):
        path = (
            f"agent-{agent}/step-$n" if agent % 2 else f"step-{agent}-$n"
        )  # some below a step, some beside each other
        text = script.replace("{path}", path).replace("{agent}", str(agent))
        workers.append(
            subprocess.Popen(
                ["bash", "-c", text], cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True
            )
        )
    errors = [worker.communicate()[1] for worker in workers]
    assert ([0] * agents, [""] * agents) == ([worker.returncode for worker in workers], errors)
    found = succeed("show", "latest", "--json", cwd=cwd).json
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
    assert succeed("fsck", "--json", cwd=cwd).json["ok"]


def test_agents_lose_nothing(tmp_path: Path) -> None:
    """Ten agents that report ten steps each at once: a hundred steps, none lost, no error, a clean store."""
    started(tmp_path)
    report(tmp_path, 10, 10)


@pytest.mark.crash_full
def test_many_agents_lose_nothing(tmp_path: Path) -> None:
    """Twenty agents that report fifty steps each at once: a thousand steps, none lost, no error, a clean store."""
    started(tmp_path)
    report(tmp_path, 20, 50)
