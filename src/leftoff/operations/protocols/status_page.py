"""A page of the project, named by ``[status] file`` in leftoff.toml, in which one table is kept current.

The table is sitebuilder's "Active Checkpoints". The page belongs to whoever writes it: only the table under the heading
is ours. Everything else stays byte for byte, the page is replaced in one rename, and processes that commit at once take
turns, so that the last one to write has seen what the others did.
"""

from __future__ import annotations

import os

from leftoff.dialects.sitebuilder_status import TITLE, table
from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, read_at, replace_at
from leftoff.errors import Invalid, LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.workspace.project_files import Place

HEADING = TITLE.encode()
_TRIES = 5
PATIENCE_S = 5.0  # for others who write the page


def update_page(project: Project) -> None:
    """Keep the table current that `[status] file` names; a page that cannot be written undoes nothing."""
    try:
        path = page_path(project.folder, project.settings)
        if path is not None and project.store.exists():
            keep_current(path, lambda: table(project.store, project.now, project.limits), project.folder)
    except (LeftoffError, OSError) as error:
        why = f"{error.message} {error.hint}" if isinstance(error, LeftoffError) else str(error)
        project.say(f"leftoff: the page of `[status] file` is not up to date: {why}")


def page_path(project: str, settings: Settings) -> str | None:
    """The page that leftoff.toml names, if it names one."""
    return settings.parsed("status", lambda section: _named(project, section))


def _named(project: str, section: dict[str, Any]) -> str | None:
    unknown = sorted(key for key in section if key != "file")
    if unknown:
        raise Invalid(f'[status] has no key "{unknown[0]}".', path=unknown[0], hint="Known: file.")
    if "file" not in section:
        return None
    name = section["file"]
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise Invalid(
            f"status.file must be a path, not {name!r}.", path="file", hint='For example: file = "STATUS.md"'
        )
    return os.path.normpath(os.path.join(project, name))


def keep_current(path: str, make: Callable[[], str], project: str = "") -> bool:
    """Rewrite the table in the page if it differs; whether it did. ``make`` is called when it is our turn.

    Below the project no link is followed to the page; elsewhere, it is its own folder that is opened.
    """
    import fcntl

    from leftoff.files import lock_within

    root = project if project and path.startswith(os.path.join(project, "")) else os.path.dirname(path)
    with ProjectFiles(root).open(os.path.relpath(path, root)) as at:
        if not lock_within(at.folder, fcntl.LOCK_EX, PATIENCE_S):
            return False  # whoever has it may be stopped: the next commit tries again
        for _ in range(_TRIES):
            mode, seen = mode_at(at), _seen(at)
            before = (read_at(at) or b"") if seen is not None else b""
            after = replaced(before, make().encode())
            if after == before:
                return False
            if _seen(at) == seen:
                replace_at(at, [after], mode, new=0o666)
                return True
        return False  # somebody writes it all the time: the next commit tries again


def _seen(at: Place) -> tuple[int, int, int, int] | None:
    """What tells the page from the one that somebody else wrote meanwhile."""
    info = at.lstat()
    return (info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode) if info is not None else None


def replaced(page: bytes, fresh: bytes) -> bytes:
    """The page with this table under the heading; the heading comes at the end where it is missing."""
    lines = page.splitlines(keepends=True)
    heading = _heading(lines)
    if heading is None:
        end = b"\r\n" if page.endswith(b"\r\n") else b"\n"
        gap = b"" if not page else end if page.endswith((b"\n", b"\r")) else end + end
        return page + gap + HEADING + end + end + fresh.replace(b"\n", end) + end
    end = b"\r\n" if lines[heading].endswith(b"\r\n") else b"\n"
    begin, stop = _table(lines, heading + 1)
    shown = fresh.replace(b"\n", end)
    if begin == stop:  # no table yet: behind the heading, with an empty line on both sides
        first = lines[heading] if lines[heading].endswith((b"\n", b"\r")) else lines[heading] + end
        rest = lines[heading + 1 :]
        gap = b"" if rest and not rest[0].strip() else end if rest else b""
        return b"".join([*lines[:heading], first, end, shown, end, gap, *rest])
    if lines[stop - 1].endswith((b"\n", b"\r")):
        shown += end
    return b"".join([*lines[:begin], shown, *lines[stop:]])


def _heading(lines: list[bytes]) -> int | None:
    """Where the heading is; not the one in a block of code."""
    for number, line in _outside_code(lines, 0):
        if line.strip().rstrip(b"#").rstrip().lower() == HEADING.lower():
            return number
    return None


def _table(lines: list[bytes], start: int) -> tuple[int, int]:
    """The lines of the first table before the next heading; an empty range where there is none."""
    begin: int | None = None
    stop: int | None = None
    for number, line in _outside_code(lines, start):
        if stop is not None and number != stop:
            break
        if line.lstrip().startswith(b"|"):
            begin, stop = (number if begin is None else begin), number + 1
        elif begin is not None or line.startswith(b"#"):
            break
    return (start, start) if begin is None or stop is None else (begin, stop)


def _outside_code(lines: list[bytes], start: int) -> list[tuple[int, bytes]]:
    out, fence = [], b""
    for number, line in enumerate(lines[start:], start):
        mark = line.lstrip()[:3]
        if fence:
            fence = b"" if mark == fence else fence
        elif mark in (b"```", b"~~~"):
            fence = mark
        else:
            out.append((number, line))
    return out
