"""What a step waits for: names as they are written, looked up and made whole paths.

A name is a sibling's id, else a whole path, else an id that only one step has. Where nothing is said, a step waits for
the one before it in the same list.
"""

from __future__ import annotations

from leftoff.workflow.definition.drafts import STAND_IN
from leftoff.workflow.definition.model import Step
from leftoff.workflow.definition.parse_values import Values, shown
from leftoff.workflow.definition.problems import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.definition.drafts import Draft
    from leftoff.workflow.definition.source import Node


class Needs:
    """Turns drafts into steps."""

    def __init__(self, values: Values, drafts: list[Draft]) -> None:
        self.values = values
        self.paths: dict[str, Draft] = {}
        self.ids: dict[str, list[str]] = {}
        self.places: dict[tuple[str, str], Node] = {}  # where a step says that it waits for another
        stack = list(reversed(drafts))
        while stack:
            draft = stack.pop()
            if STAND_IN not in draft.path:
                self.paths[draft.path] = draft
                self.ids.setdefault(draft.id, []).append(draft.path)
            stack.extend(reversed(draft.children))

    def steps(self, drafts: list[Draft]) -> tuple[Step, ...]:
        """The steps of one list."""
        out: list[Step] = []
        siblings = {draft.id: draft.path for draft in drafts if STAND_IN not in draft.path}
        for index, draft in enumerate(drafts):
            needs: tuple[str, ...] = (drafts[index - 1].path,) if index else ()
            if draft.needs is not None:
                needs = self._all(draft, draft.needs, siblings)
            out.append(Step(**draft.fields, needs=needs, steps=self.steps(draft.children)))
        return tuple(out)

    def _all(self, draft: Draft, node: Node, siblings: dict[str, str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for entry in self.values.entries(node, "needs"):
            path = self._one(draft, entry, siblings)
            if path:
                found[path] = None
                self.places[draft.path, path] = entry
        return tuple(found)

    def _one(self, draft: Draft, node: Node, siblings: dict[str, str]) -> str:
        name = self.values.text(node, "needs")
        if not name:
            return ""
        path = self._find(name, node, siblings)
        if path == draft.path:
            self._wrong(node, f"`{name}` waits for itself", "Leave it out of its own `needs`.")
        elif path and draft.path.startswith(f"{path}/"):
            self._wrong(
                node, f"`{name}` is the phase that this step is in", "It cannot end before its steps do."
            )
        elif path and path.startswith(f"{draft.path}/"):
            self._wrong(node, f"`{name}` is inside this phase", "A phase cannot wait for its own steps.")
        else:
            return path
        return ""

    def _find(self, name: str, node: Node, siblings: dict[str, str]) -> str:
        if name in siblings:
            return siblings[name]
        if name in self.paths:
            return name
        found = self.ids.get(name, [])
        if len(found) > 1:
            self._wrong(node, f"several steps are called `{name}`", f"Say which one: {', '.join(found)}.")
        elif not found:
            hint = nearest(name, [*siblings, *self.paths, *self.ids]) or self._known()
            self._wrong(node, f"`needs` names a step that is not there: `{shown(name)}`", hint)
        return found[0] if len(found) == 1 else ""

    def _known(self) -> str:
        names = list(self.paths)
        return f"The steps are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."

    def _wrong(self, node: Node, message: str, hint: str) -> None:
        self.values.problems.add(node, message, hint)
