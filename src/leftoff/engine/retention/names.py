"""What an archived run is found by: its page says what it is called, its bundle has the ids of its checkpoints."""

from __future__ import annotations

from contextlib import closing

from leftoff.engine.retention import shelf
from leftoff.engine.retention.bundle_check import BACKUP
from leftoff.engine.retention.page import run_of
from leftoff.errors import Ambiguous, BadData, NotFound, Unsupported
from leftoff.model.ids import LEAST, is_id_prefix
from leftoff.store.bundle.read import BundleReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, View

    Found = tuple[
        str, str, int, str, int
    ]  # a run, the id and seq of its checkpoint, how and when it was made

NAMES = "names"  # on the page: what its checkpoints are called by a protocol


def is_of(about: dict[str, Any], name: str) -> bool:
    """Whether a run has this id."""
    return bool(about["run_id"] == name)


def carries(about: dict[str, Any], name: str) -> bool:
    """Whether a checkpoint of it has this other name."""
    return name in (about.get(NAMES) or ())


def carries_longer(about: dict[str, Any], name: str) -> bool:
    """Whether a checkpoint of it has another name that starts so."""
    return len(name) >= LEAST and any(str(own).startswith(name) for own in about.get(NAMES) or ())


def is_called(about: dict[str, Any], name: str) -> bool:
    """Whether a run's workflow, its title or its issue is this."""
    if name.startswith("#"):
        return bool(about.get("issue") == name[1:])
    known = (about.get("workflow"), about.get("title"))
    return any(isinstance(own, str) and own.casefold() == name.casefold() for own in known)


def with_checkpoint(store: Store, paths: list[str], text: str) -> str | None:
    """The archived run that has the checkpoint whose id starts so; ``Ambiguous`` where several have. Every bundle is
    looked into: only for what names nothing else."""
    if not is_id_prefix(text):
        return None
    found = [*_on_shelf(store, text), *(each for path in paths for each in _in_bundle(path, text))]
    if len(found) > 1:
        listed = [(id, f"{run_id}@{seq}", trigger, at) for run_id, id, seq, trigger, at in found]
        raise Ambiguous(f"{text} names several checkpoints.", listed=listed)
    return found[0][0] if found else None


def _in_bundle(path: str, text: str) -> list[Found]:
    try:
        with closing(BundleReader(path, glance=True)) as reader, reader.guard():
            return [
                (run_of(path), str(id), seq, str(trigger), at)
                for seq, _, at, _, id, trigger, *_ in reader.rows("versions")
                if id is not None and str(id).startswith(text)
            ]
    except NotFound:  # it was taken out just now
        return []
    except Unsupported:
        raise
    except BadData as error:
        error.hint = BACKUP
        raise


def _on_shelf(store: Store, text: str) -> list[Found]:
    def look(view: View) -> list[Found]:
        return [
            (row.run_id, version.checkpoint or "", version.seq, version.trigger or "", version.at)
            for row in view.archived()
            for _, version in view.checkpoints(text, row.run)
        ]

    return store.read(look) if shelf.rows(store) else []
