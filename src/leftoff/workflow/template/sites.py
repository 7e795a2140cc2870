"""Where a template stands in a file, so that what is wrong inside it has a line and a column of its own."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.definition.source import Node

# How a template is used: as text, as a script, as a condition, as one expression.
TEXT, SHELL, TEST, EXPRESSION = "text", "shell", "test", "expression"


class Site(Fields):
    """A template, the step that it belongs to, and the key of that step that holds it."""

    step: str
    key: str
    name: str  # for people: env.SITE
    node: Node
    text: str
    mode: str
    item: bool = True  # whether a foreach's item is known in it

    def within(self, step: str) -> Site:
        """The same template, as another step has it."""
        found: Site = self.but(step=step)
        return found

    def offset(self, start: int, snippet: str, source: str) -> int:
        """Where in the source a piece of the template begins.

        Quotes, escapes, folds and indentation lie between the two texts; but a piece that is written as it is occurs
        in both equally often before the place.
        """
        span = source[self.node.start : self.node.end]
        at, found = self.text.find(snippet), span.find(snippet)
        while 0 <= at < start and found >= 0:
            at, found = self.text.find(snippet, at + 1), span.find(snippet, found + 1)
        return self.node.start + max(found, 0)
