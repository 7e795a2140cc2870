"""A step while it is read: a draft becomes a ``Step`` when every step is known, since only then can its ``needs`` be
looked up.
"""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.workflow.definition.source import Node
    from leftoff.workflow.template.template_words import Site


# In an id that cannot be used: the file is wrong, and reading goes on for the sake of other errors.
STAND_IN = "\0"


class Draft:
    """What was read of a step so far."""

    def __init__(self, node: Node, path: str, kind: str) -> None:
        self.node = node
        self.path = path
        self.fields: dict[str, Any] = {"path": path, "kind": kind, "line": node.line, "column": node.column}
        self.needs: Node | None = None
        self.children: list[Draft] = []
        self.sites: list[Site] = []

    @property
    def id(self) -> str:
        return str(self.fields["id"])


class Inherited(Fields):
    """What a step has unless it says otherwise: from ``defaults``, then from each phase around it."""

    fields: dict[str, Any]
    sites: dict[str, list[Site]]

    def below(self, draft: Draft) -> Inherited:
        """The same for what is inside a phase."""
        names = ["on_failure", "env", "cwd"]
        passed = {name: draft.fields[name] for name in names if name in draft.fields}
        own: dict[str, list[Site]] = {}
        for site in draft.sites:
            if site.key in ("env", "cwd"):
                own.setdefault(site.key, []).append(site)
        return Inherited({**self.fields, **passed}, {**self.sites, **own})
