"""Archived runs from elsewhere that this user said yes to: the yes is on their pages, and is taken back there."""

from __future__ import annotations

from leftoff.engine.lifecycle.origin import TRUSTED
from leftoff.engine.retention.archive import OURS, bundles
from leftoff.engine.retention.archive_trash import in_trash
from leftoff.engine.retention.page import page_of, read_page, run_of, write_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, Tx


def distrust_archived(store: Store) -> list[str]:
    """They come back as they came here, those in the trash included; their ids."""
    theirs = [path for path in [*bundles(store), *in_trash(store)] if _trusted(path)]

    def work(tx: Tx) -> None:
        for path in theirs:
            about = _trusted(path)  # else it was taken out
            if about:
                write_page(page_of(path), {key: value for key, value in about.items() if key != OURS})

    if theirs:
        store.write(work)
    return [run_of(path) for path in theirs]


def _trusted(path: str) -> dict[str, Any]:
    """The page of a bundle, if it says that its run was trusted; else an empty one."""
    try:
        about = read_page(page_of(path))
    except (OSError, ValueError):
        return {}
    return about if str(about.get(OURS) or "").startswith(f"{TRUSTED} ") else {}
