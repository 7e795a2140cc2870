"""Making the store of a project, and setting the project up for a protocol, whose files may not show every run."""

from __future__ import annotations

import os

from leftoff.errors import Usage
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.dialects.protocol import Dialect
    from leftoff.engine.config.project import Project


class Initialized(Fields):
    """Where the store of a project is, whether it was made just now, its folder below the project's (or nothing); how a
    run begins. Of a protocol: its name, whether its files show every run, which files were written for it, and which of
    its files are not for git."""

    store: str
    created: bool
    inside: str
    starts: str = "leftoff start NAME --steps a,b,c"
    dialect: str | None = None
    shows_all: bool = True
    written: Sequence[str] = ()
    ignored: Sequence[str] = ()


def init(project: Project, dialect: str | None = None, *, utilities: bool = False) -> Initialized:
    """Make the store. ``dialect``: say in leftoff.toml that the project follows a protocol; ``utilities``: write the
    scripts that it names."""
    if utilities and dialect is None:
        raise Usage("--utils is for the scripts of a protocol.", hint="Name it too: --dialect claude.")
    told = _follow(project, dialect, utilities=utilities) if dialect is not None else ()
    created = not project.store.exists()
    project.store.write(lambda tx: None)  # that makes the store, or brings an old schema up to date
    inside = os.path.relpath(project.store.folder, project.folder)
    return Initialized(project.store.name, created, "" if inside.split(os.sep)[0] == ".." else inside, *told)


def _follow(project: Project, name: str, *, utilities: bool) -> tuple[str, str, bool, list[str], list[str]]:
    from leftoff.dialects.registry import dialect, set_dialect

    found = dialect(name)
    if utilities and not found.utilities():
        raise Usage(f"{name} names no scripts.", hint="Leave --utils out.")
    written = set_dialect(project.folder, project.settings, name)
    project.forget_settings()
    written += found.set_up(project.folder)
    written += _write_scripts(project.folder, found) if utilities else []
    return found.starts, name, found.shows_all, written, found.ignored(project.folder)


def _write_scripts(folder: str, dialect: Dialect) -> list[str]:
    """The scripts of a protocol, where there are none: one that is somebody's stays as it is."""
    from leftoff.engine.workspace.project_files import ProjectFiles, write_new

    files, written = ProjectFiles(folder), []
    for path, text in dialect.utilities().items():
        if files.stat(path) is None:
            with files.open(path) as at:
                write_new(at, at.name, [text.encode()], 0o755)
            written.append(path)
    return written


def say_outside(project: Project, run_id: str) -> None:
    """Where the project follows a protocol, and its files do not show this new run: that is said."""
    follower = project.store.follower
    row = project.store.read(lambda view: view.find_run(run_id)) if follower is not None else None
    said = follower.outside(row) if follower is not None and row is not None else None
    if said is not None:
        project.say(f"leftoff: {said}")
