"""What the scripted model says: words, calls of tools, a refusal; and what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

IN, OUT = 1000, 200  # tokens that a request and its answer are said to have, unless an answer says otherwise


@dataclass(frozen=True)
class Call:
    """A call of a tool. An input that is text is that of a freeform tool (Responses API)."""

    name: str
    given: dict[str, Any] | str


@dataclass(frozen=True)
class Answer:
    """One answer of the model.

    ``waits``: it begins, and goes on only when the bed lets it: whoever asked is to be killed meanwhile.
    ``status``: an error of the service instead of an answer; ``wait`` is how many seconds it says to wait.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    waits: bool = False
    status: int = 200
    message: str = ""
    wait: int | None = None
    tokens: tuple[int, int] = (IN, OUT)

    @property
    def refuses(self) -> bool:
        return self.status != 200


DONE = Answer("All done.")


@dataclass(frozen=True)
class Request:
    """One request for an answer. ``agent``: who asks. ``main``: it offers tools, so it is the agent's own work, and no
    title or the like."""

    agent: str
    api: str
    main: bool
    model: str
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """Every text that the model was given, but for the descriptions of tools."""
        return [text for key, value in self.body.items() if key != "tools" for text in _texts(value)]

    def says(self, words: str) -> bool:
        return any(words in text for text in self.texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


@dataclass
class Served:
    """What was served: the accounts that leftoff's figures are compared with."""

    answers: int = 0  # to main requests, refusals apart
    turns: int = 0  # as all agents count them: one for each call of a tool, one for an answer without any
    refusals: int = 0
    tokens: dict[str, list[int]] = field(default_factory=dict)  # by model, of all requests: in, out

    def count(self, request: Request, answer: Answer) -> None:
        if answer.refuses:
            self.refusals += 1
            return
        self.answers += request.main
        self.turns += request.main * max(1, len(answer.calls))
        have = self.tokens.setdefault(request.model, [0, 0])
        for at, number in enumerate(answer.tokens):
            have[at] += number

    def cost(self, prices: Callable[[str], tuple[float, float]]) -> float:
        """In dollars, by the prices of a million tokens of each model."""
        spent = 0.0
        for model, (given, said) in self.tokens.items():
            price_in, price_out = prices(model)
            spent += (given * price_in + said * price_out) / 1e6
        return spent
