"""Durable functions: a Python workflow whose steps are calls of functions."""

from __future__ import annotations

from typing import Any

import leftoff
from tests.parity.playing import Face


class Functions(Face):
    """Plays the function of a case; its steps are ``done`` and ``fail``."""

    name = "functions"
    takes_operations = False

    def script(self, names: str) -> None:
        """`a b! a`: calls of steps of these names, where one with a mark fails."""

        @leftoff.workflow(name="flow")
        def flow() -> None:
            for name in names.split():
                _step(name.rstrip("!"), fails=name.endswith("!"))()

        store = leftoff.open(self.folder / ".leftoff")
        try:
            flow.run(store=store, run_id=self.run_id)
        except (ValueError, leftoff.StepFailed):
            pass
        finally:
            store.close()


def _step(name: str, *, fails: bool) -> Any:
    def body() -> dict[str, int]:
        if fails:
            raise ValueError("HTTP 500")
        return {"n": 1}

    body.__name__ = name
    return leftoff.step(body)
