"""The same games as tests/model plays, against a server: a plain dictionary and leftoff never disagree."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from leftoff.engine.project import open_store_at
from leftoff.store.store_copy import copy_store
from tests.model.rules_data import DataRules
from tests.model.rules_life import LifeRules
from tests.postgres.server import Server
from tests.seams import SEAMS

THOROUGH = os.environ.get("LEFTOFF_HYPOTHESIS") == "thorough"
PARTS, STEPS = (4, 80) if THOROUGH else (1, 40)
EXAMPLES = int(os.environ.get("LEFTOFF_EXAMPLES", 200)) // PARTS if THOROUGH else 3

_games = itertools.count(1)


@pytest.mark.parametrize("part", range(PARTS))
def test_never_disagrees(server: Server, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Every version that is kept reads back exactly, in any order of work, failures, crashes, copies and prunes."""
    monkeypatch.setattr(SEAMS["run_buffer.IN_A_ROW"], 1 << 60)
    monkeypatch.setattr(SEAMS["run_steps.extract_tb"], lambda *_: [])

    class Machine(DataRules, LifeRules):
        """Every rule there is, on a server: each game in projects of its own."""

        def __init__(self) -> None:
            self.game = f"m{os.getpid()}-{next(_games)}"
            super().__init__()

        def location(self, project: Path) -> str:
            return server.url(f"{self.game}-{project.name}")

        def copy(self, old: Path, new: Path) -> None:
            """The files of the project, and the store as a backup of it has it: nobody drives a run there."""
            shutil.copytree(old, new)
            source, target = open_store_at(self.location(old)), open_store_at(self.location(new))
            if source.exists():
                copy_store(source, target, others_write=True)
            source.close()
            target.close()
            for run in self.runs:
                run.held = False

        def teardown(self) -> None:
            super().teardown()
            with psycopg.connect(server.url(), autocommit=True) as conn:
                for number in range(self.folders + 1):
                    conn.execute(f'DROP SCHEMA IF EXISTS "leftoff_{self.game}-p{number}" CASCADE'.encode())

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        deadline=None,
    )
    run_state_machine_as_test(Machine, settings=chosen)
