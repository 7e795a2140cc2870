"""The files of an archive: bundles, and beside each a page, what listings show of its run, and what it is found by.

The bundle is what counts: a page that is damaged hides no run, and can be made again. It carries a checksum, so that no
listing says what was never written.
"""

from __future__ import annotations

import errno
import os

from leftoff.engine.workspace.project_files import ProjectFiles
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.model.codec import decode, text
from leftoff.model.hashing import sha256
from leftoff.model.ids import parse_ref
from leftoff.store.bundle.write import open_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUFFIX, PAGE = ".leftoff", ".json"
TRASH = "trash"  # a folder in the archive
SUM = "sum"  # pages of old have none
DAMAGED = "damaged"  # of a page: that it cannot be read. Its run is listed all the same


def bundles_in(folder: str) -> list[str]:
    """The files of archived runs in a folder."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [path for name in names if is_bundle(path := os.path.join(folder, name))]


def lost_bundles(folder: str | None) -> dict[str, str]:
    """By run, the pages of an archive and its trash whose bundle is in neither: whoever takes one away takes its page
    first, or has put its run elsewhere."""
    places = [] if folder is None else [folder, os.path.join(folder, TRASH)]
    pages = [
        os.path.join(place, name) for place in places if os.path.isdir(place) for name in os.listdir(place)
    ]
    found = {run_of(path): path for path in sorted(pages) if path.endswith(PAGE)}
    # Only now: the bundle of a page is there before it.
    there = {run_of(path) for place in places for path in bundles_in(place)} if found else set()
    return {run_id: path for run_id, path in found.items() if run_id not in there and os.path.isfile(path)}


def run_of(path: str) -> str:
    """The run of a bundle, or of a page, by its name."""
    name = os.path.basename(path)
    name = name.removesuffix(SUFFIX if name.endswith(SUFFIX) else PAGE)  # one of them: an id may end so, too
    return name.rpartition("~")[0] if os.path.basename(os.path.dirname(path)) == TRASH else name


def is_bundle(path: str) -> bool:
    """Not a link, which may have come along with a repository: what it leads to is no run of ours."""
    return path.endswith(SUFFIX) and os.path.isfile(path) and not os.path.islink(path)


def has_id(folder: str, run_id: str) -> bool:
    """Whether an archived run has this id, one in the trash included: it is taken."""
    if is_bundle(os.path.join(folder, run_id + SUFFIX)):
        return True
    trash = os.path.join(folder, TRASH)
    names = os.listdir(trash) if os.path.isdir(trash) else []
    # By their names first: there may be many, and somebody waits.
    return any(name.startswith(f"{run_id}~") and is_bundle(os.path.join(trash, name)) for name in names)


def page_of(path: str) -> str:
    """The page of a bundle."""
    return path.removesuffix(SUFFIX) + PAGE


def write_page(path: str, about: dict[str, Any]) -> None:
    """Durably, at once or not at all."""
    if os.path.isdir(path):
        raise StoreUnavailable(
            f"{path} is a folder, and a page of the archive should be there.",
            hint="leftoff makes no such thing. Move it away, then try again.",
        )
    temp, fd = open_part(os.path.dirname(path))
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text({**about, SUM: _sum(about)}))
        file.flush()
        os.fsync(fd)
        os.replace(temp, path)


def read_page(path: str) -> dict[str, Any]:
    """What a page says. ``FileNotFoundError`` where there is none, ``ValueError`` where it is not what was written."""
    folder, name = os.path.split(path)
    data = ProjectFiles(folder).read(name)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "There is no plain file", path)
    found = decode(data)
    said = found.pop(SUM, None) if isinstance(found, dict) else ""
    if said is not None and said != _sum(found):
        raise ValueError(f"{path} is not what was written")
    if str(found.get("run_id", run_of(path))) != run_of(path):
        raise ValueError(f"{path} is the page of another run")
    return dict(found)


def _sum(about: dict[str, Any]) -> str:
    return sha256(text(about).encode()).hexdigest()[:16]


def refuse_unknown(pages: list[dict[str, Any]], text: str, folder: str | None) -> None:
    """Nothing is not there only because the page that it is found by is damaged, or its bundle is gone."""
    base = parse_ref(text).base
    if base in lost_bundles(folder):
        raise Corrupt(
            f"The bundle of the archived run {base} is gone.",
            where=str(folder),
            hint="Nothing else has that run: look for a backup of the archive. `leftoff fsck --repair` notes the loss.",
        )
    unknown = [str(about["run_id"]) for about in pages if about.get(DAMAGED)]
    if unknown:
        raise Corrupt(
            f"Nothing is called {text}, as far as is known: a page of the archive is damaged, "
            f"of run {', '.join(unknown)}.",
            hint="Nothing was changed. `leftoff fsck --repair` makes it again; or name that run by its id.",
        )


def free_stem(start: str, number: int) -> str:
    """A name in the trash that no other run has: one of the same id may lie there."""
    while os.path.exists(f"{start}~{number}{SUFFIX}"):
        number += 1
    return f"{start}~{number}"
