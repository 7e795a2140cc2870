"""Where the files of each protocol lie: looked at before a dialect is loaded, which costs more than the call."""

from __future__ import annotations

from os.path import join, lexists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project

# Of each protocol whose files are kept in step: one of these is there where any file of it is.
HOMES = {
    "bmad": ("_bmad-output/.runs",),
    "crunch": (".claude/crunch", ".claude/checkpoint-config.yaml"),
    "dotagent": ("memory/state",),
    "sitebuilder": ("docs/agentic-orchestration/progress", "progress/checkpoints"),
    "claude": (".claude/checkpoints", ".claude/data/checkpoints"),
}


def point_out(project: Project) -> None:
    """Where there is no run, but files of a protocol lie: they are named, and how to take them in."""
    for name, homes in HOMES.items():
        found = (
            _present(name, project.folder)
            if any(lexists(join(project.folder, home)) for home in homes)
            else []
        )
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            project.store.advice = f"`leftoff import . --dialect {name}` takes in what lies here."
            project.say(
                f"leftoff: files of the {name} protocol lie here ({found[0]}{more}), and no run. "
                f"`leftoff import . --dialect {name}` takes them in; "
                f"after `leftoff init --dialect {name}`, both stay in step."
            )


def _present(name: str, folder: str) -> list[str]:
    from leftoff.dialects.core.registry import dialect
    from leftoff.errors import LeftoffError

    try:
        return dialect(name).present(folder)
    except LeftoffError:  # its configuration cannot be read: it is there all the same
        return []
