"""What goes by itself, with whoever writes: once a day, and when the grace of removed blobs is over."""

from __future__ import annotations

import os

from leftoff import log
from leftoff.engine.retention import trash
from leftoff.engine.retention.policy import trash_age
from leftoff.engine.retention.prune import sweep
from leftoff.errors import LeftoffError
from leftoff.files import SWEPT, is_due, mark_done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project


def tidy(project: Project) -> None:
    """Whatever is in the way of it, the verb it came with has done its work: it is tried again tomorrow."""
    store, now, stamp = project.store, project.now, os.path.join(project.store_folder, SWEPT)
    try:
        if is_due(stamp, now):
            mark_done(stamp, now)
            trash.sweep(store, now, trash_age(project.settings.section("retention")))
            sweep(store, thorough=False)
        else:
            store.sweep(thorough=False)
    except (LeftoffError, OSError) as error:
        log.debug("did not sweep: %s", error)
