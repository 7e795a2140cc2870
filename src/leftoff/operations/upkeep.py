"""Keeping a store in order: what goes by the project's rules, by itself or when somebody asks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project


def by_itself(project: Project) -> None:
    """Retention once a day, where the project wants it. Never on verbs that agents call often."""
    if not (project.settings.section("retention") or project.settings.section("mirror")):
        return
    from leftoff.dialects.retention import Upkeep
    from leftoff.errors import LeftoffError

    try:
        Upkeep(project).by_itself()
    except (LeftoffError, OSError) as error:
        project.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")
