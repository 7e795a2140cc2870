"""A plain dictionary against leftoff: whatever is played, in whatever order, the two never disagree.

``LEFTOFF_HYPOTHESIS=thorough`` plays for a long time.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.rules_data import DataRules
from tests.model.rules_life import LifeRules
from tests.seams import SEAMS

# Read before the fixtures take leftoff's variables away.
THOROUGH = os.environ.get("LEFTOFF_HYPOTHESIS") == "thorough"
PARTS, STEPS = (8, 80) if THOROUGH else (1, 40)  # parts can be played beside each other
EXAMPLES = int(os.environ.get("LEFTOFF_EXAMPLES", 2000)) // PARTS if THOROUGH else 25


class Machine(DataRules, LifeRules):
    """Every rule there is."""


@pytest.mark.parametrize("part", range(PARTS))
def test_never_disagrees(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Every version that is kept reads back exactly, in any order of work, failures, crashes and prunes."""
    monkeypatch.setattr(
        SEAMS["run_buffer.IN_A_ROW"], 1 << 60
    )  # which starts are told must not depend on the time they take
    monkeypatch.setattr(
        SEAMS["run_steps.extract_tb"], lambda *_: []
    )  # a dictionary cannot know the lines of a program
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        deadline=None,
    )
    run_state_machine_as_test(Machine, settings=chosen)
