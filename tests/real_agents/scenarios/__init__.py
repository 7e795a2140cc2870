"""The scenarios: each is a small function, and what it finds is what leftoff's own command says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.real_agents.agents import Agent
from tests.real_agents.bed import Bed

Play = Callable[[Bed, Agent], str | None]


@dataclass(frozen=True)
class Scenario:
    """What is promised, and how that is tried with one agent. It gives back what is worth a note, if anything.

    ``once``: all agents take part in it together.
    """

    name: str
    promise: str
    play: Play
    once: bool = False


ALL: list[Scenario] = []


def scenario(name: str, promise: str, *, once: bool = False) -> Callable[[Play], Play]:
    """A function that is one; they are played in the order in which they were written."""

    def add(play: Play) -> Play:
        ALL.append(Scenario(name, promise, play, once))
        return play

    return add
