"""Trust that a person gives: what a project would run or lead outside, shown; then remembered, listed, taken back."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.config import trust
from leftoff.engine.config.settings import tables_of
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.config.trust import Item, Remembered


class Trust(Fields):
    """What of a project needs trust: the settings that have it, and those that do not."""

    project: str
    given: list[Item]
    asked: list[Item]

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "items": [
                {**item.to_json(), "trusted": trusted}
                for trusted, items in ((True, self.given), (False, self.asked))
                for item in items
            ],
        }


def look(project: Project) -> Trust:
    """What in the project would run a command or lead outside of it."""
    folder = project.folder
    items, link = trust.items_of(folder, tables_of(folder)), trust.link_of(folder)
    items = [*items, *([link] if link is not None else [])]
    asked = trust.not_trusted(folder, items)
    return Trust(folder, [item for item in items if item not in asked], asked)


def give(project: Project, asked: Trust) -> None:
    """A person has seen it, and says yes."""
    for item in asked.asked:
        trust.remember(project.folder, item, iso(project.now))
    project.forget_settings()


def given() -> list[Remembered]:
    """All that this user trusts, in every project."""
    return trust.remembered()


def take_back(project: Project) -> list[Remembered]:
    """Nothing of this project is trusted any more; what is damaged goes too."""
    import os

    here = os.path.realpath(project.folder)
    found = [known for known in trust.remembered() if known.item is None or known.project == here]
    for known in found:
        trust.forget(known)
    project.forget_settings()
    return found
