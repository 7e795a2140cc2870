"""What a dialect is: two pure functions between documents and records, and data that says how a protocol lives.

``decode`` fills a ``Draft`` from a document; ``encode`` makes the canonical document of a run at a version. Both are
wrapped here, by ``read`` and ``write``, which carry along whatever the dialect has no place for.

Obligations of a dialect:

1. ``encode`` uses nothing but the ``State`` it is given; equal states give equal documents.
2. ``decode`` never raises anything but ``Rejected`` or ``TooNew``; what it cannot use it leaves alone, with a line.
3. Decoding what was encoded gives the same records, as far as the protocol has a place for them.
4. Everything the protocol fixes (names, words, files, retention) is data of its module.
"""

from __future__ import annotations

import re

from leftoff.dialects.core import json_text
from leftoff.dialects.core.draft import Draft
from leftoff.dialects.core.repairs import Rejected, Repairs, shown
from leftoff.dialects.core.residue import patch, residue
from leftoff.engine.read.which import SESSION
from leftoff.engine.retention.policy import DEFAULT, phase

_CONTAINERS = (dict, list)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from leftoff.dialects.core.draft import Decoded, Source, State
    from leftoff.dialects.core.repairs import Reject
    from leftoff.dialects.importing.places import Loaded
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.retention.policy import Policy
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


class Dialect:
    """One protocol. A module has one instance, named ``DIALECT``."""

    name = ""
    about = ""
    #: how one of its runs begins
    starts = "leftoff start NAME --steps a,b,c"
    #: whether its files show every run but agents' ordinary sessions
    shows_all = True
    #: a short document of its own, and the file that it is in
    example: tuple[str, dict[str, Any]] | None = None
    #: keys of its documents, for spelling mistakes such as camelCase
    keys: tuple[str, ...] = ()
    #: further keys that a document may be known by
    marks: tuple[str, ...] = ()
    #: what is worked out from other entries: by its key, the keys of those
    derived: dict[str, tuple[str, ...]] = {}
    #: what it calls a step where it counts them
    counted: str | None = None
    #: whether its documents are YAML
    yaml = False
    #: whether the id in a document names one version of the run, rather than the run
    id_names_version = False
    #: entries that say which version a document shows, and when it was written
    stamps: tuple[str, ...] = ("checkpoint_id", "created_at", "updated_at", "last_checkpoint", "last_updated")
    #: its phases, where a person approves those
    approved_phases: tuple[str, ...] = ()
    #: whether files that come together, as in a clone, are taken in by their times, not in the order of `present`
    by_time = True
    #: how the absolute path of one of its files ends
    files = r"(?!)"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        """How much a document looks like one of this dialect: 0 not at all, 100 without doubt."""
        raise NotImplementedError

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        """Whether a document can be one of this dialect where somebody says that it is."""
        return self.owns(path) or self.recognise(document, path) > 0

    def foreign(self, path: str, keys: str) -> str:
        """Why a document is not accepted; ``keys``: those that it has."""
        return f"{path} is nothing of {self.name}: its keys are {keys}."

    def way(self, document: dict[str, Any]) -> str | None:
        """For a reader of files of no protocol: what it would read, and from where."""
        return None

    def is_own_id(self, name: str) -> bool:
        """Whether this is how the protocol names a checkpoint."""
        return False

    # -- how it lives

    def retention(self, project: str) -> Policy:
        """What is kept, where the project's settings do not say otherwise."""
        return DEFAULT

    def phase_of(self, version: Version) -> str:
        """The phase that a checkpoint belongs to, for rules that count per phase."""
        return phase(version)

    def retire(self, project: str, run_id: str, branch: str, now: int, *, removed: bool) -> None:
        """Move the files of a run that left the store to where the protocol keeps them; ``removed``: delete them."""

    # -- how it resumes

    def doubt(self, codes: Collection[str]) -> str | None:
        """What is asked first where these findings need a person; who says yes starts fresh."""
        return None

    #: whether a run that is blocked goes on once somebody has cleared its errors from the file
    errors_block = False

    def findings(self, state: State, project: str, now: int) -> Iterable[Finding]:
        """What it checks before a run goes on, beyond what is checked of every run: with the codes of the table."""
        return ()

    def settled(self, state: State, project: str) -> dict[str, dict[str, Any]]:
        """Steps that were in flight, as what they left behind says they ended."""
        return {}

    def is_over(self, state: State) -> bool:
        """Whether nothing is left of a run that was settled just now."""
        return False

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        """What is said when a run goes on."""
        return []

    def question(self, state: State) -> str | None:
        """What a person is asked before it does."""
        return None

    def options(self, phase: str, state: State, project: str) -> list[str]:
        """What a person can choose who approves a phase; one: it is approved, or not."""
        return ["approve"]

    def state_label(self, state: State) -> str | None:
        """The label that says on the issue where the work stands, if the protocol keeps one there."""
        return None

    # -- its mirror: the files that are kept in step

    def includes(self, row: RunRow) -> bool:
        """Whether a run is one of the protocol's own: only those are in its files, and go by its rules."""
        return bool(row.workflow != SESSION)

    #: whether a sign of life shows in its files
    beats = False

    #: whether the id of a run is that of the work, the same each time, rather than of the moment
    fixed_ids = True

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """The id and the steps of a run that is started, where the protocol fixes them.

        ``given``: workflow, title, issue and task, as they were given.
        """
        return None, []

    def dump(self, document: dict[str, Any]) -> str:
        """The document as the text of a file."""
        if not self.yaml:
            return json_text.dump(document)
        from leftoff.dialects.core import yaml_text

        return yaml_text.dump(document)

    def present(self, project: str) -> list[str]:
        """Its documents that are in the project now, relative to it."""
        return []

    def part_of(self, path: str) -> str | None:
        """Which part of a run's document a file holds; ``None``: the whole."""
        return None

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        """Where the documents of a run belong now, and which part of it each holds."""
        return {}

    def complete(self, document: dict[str, Any], part: str | None) -> dict[str, Any]:
        """A document as it is written when all of them are whole."""
        return document

    def underway(self, document: dict[str, Any], part: str | None) -> dict[str, Any] | None:
        """What a file says while the files are being written; ``None``: what it said before."""
        return None

    def before(self, mirror: Mirror, row: RunRow) -> bool:
        """Whatever must happen before its documents are written; whether something was taken in."""
        return False

    def shown(self, mirror: Mirror, row: RunRow) -> State | None:
        """The version that its documents show: the head, unless the protocol writes checkpoints only."""
        return mirror.state(row)

    def given_up(self, path: str) -> bool:
        """Whether a file lies where the protocol keeps what was given up."""
        return False

    def home(self, state: State, default: str) -> str:
        """Where a run's document is: where it was found, else where the protocol puts it."""
        origin = state.run("imported")
        path = origin.get("path") if isinstance(origin, dict) and origin.get("dialect") == self.name else None
        inside = isinstance(path, str) and not path.startswith(("/", "../")) and self.owns(f"/{path}")
        return str(path) if inside else default

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        """The files beside its documents: indexes, pages, messages."""

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        """A document that no longer belongs where it is."""
        mirror.memory.forget(path)
        mirror.remove(path)

    def names(self, state: State) -> list[str]:
        """What the protocol calls a checkpoint that shows this state."""
        return []

    def config(self, project: str) -> Any:
        """What ``sealed`` goes by: the project's folder, or what a file in it says, read before the transaction."""
        return project

    def doubts(self, config: Any) -> str | None:
        """What in its settings is read by nobody."""
        return None

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Any) -> Seal | None:
        """How a commit is sealed that was to be sealed so."""
        return seal

    def set_up(self, project: str) -> list[str]:
        """Files that the protocol wants to be there from the start, made where they are not; their paths."""
        return []

    def utilities(self) -> dict[str, str]:
        """Scripts that the protocol names, by their paths, which call leftoff; written where they are asked for."""
        return {}

    def ignored(self, project: str) -> list[str]:
        """Lines for `.gitignore`."""
        return []

    # -- its files

    def owns(self, path: str) -> bool:
        """Whether a file lies where this dialect keeps its documents."""
        return re.search(self.files, path) is not None

    def group(self, paths: list[str]) -> list[list[str]]:
        """Which files belong to one run."""
        return [[path] for path in paths]

    def hints(self, path: str) -> dict[str, str]:
        """What the place of a file says of it."""
        return {}

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """The documents of one run, oldest first."""
        return [load(path) for path in paths]

    def filled(self, document: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
        """A document that is only a part, with what is not said as it is; a whole one is left alone."""
        return filled(document, present, self.keys)

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        raise NotImplementedError

    def encode(self, state: State) -> dict[str, Any]:
        raise NotImplementedError


def read(
    dialect: Dialect, document: dict[str, Any], source: Source, repairs: Repairs, known: State | None = None
) -> Decoded:
    """A run out of a document, with everything that is in it."""
    document = respelt(document, dialect.keys, repairs)
    need_known(dialect, document, source)
    draft = Draft(source, repairs, known)
    dialect.decode(draft, document)
    decoded = draft.done()
    canonical = dialect.encode(stored(decoded.state()))
    for key, value in residue(canonical, document, dialect.derived).items():
        decoded.records["extra", key] = value
    return decoded


def stored(state: State) -> State:
    """As it will be read back: the keys of what is stored are in no order of their own."""
    state.records = {address: _in_order(value) for address, value in state.records.items()}
    return state


def _in_order(value: Any) -> Any:
    """A list without lists or dicts in it is itself: a document may have millions of numbers."""
    if type(value) is dict:
        return {
            key: _in_order(item) if type(item := value[key]) in _CONTAINERS else item for key in sorted(value)
        }
    if type(value) is list and any(type(item) in _CONTAINERS for item in value):
        return [_in_order(item) if type(item) in _CONTAINERS else item for item in value]
    return value


def need_known(dialect: Dialect, document: dict[str, Any], source: Source) -> None:
    """A document with none of a protocol's keys is none of its documents."""
    if dialect.keys and not any(key in document for key in (*dialect.keys, *dialect.marks)):
        keys = ", ".join(shown(key) for key in list(document)[:5])
        raise Rejected(dialect.foreign(source.path, keys))


def filled(document: dict[str, Any], present: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """With every entry that is not there as it is at present, if one of the protocol's own is not there."""
    if all(key in document for key in keys if key in present):
        return document
    return _deep(document, present)


def _deep(document: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    out = {
        key: _deep(value, present[key])
        if isinstance(value, dict) and isinstance(present.get(key), dict)
        else value
        for key, value in document.items()
    }
    return {**out, **{key: value for key, value in present.items() if key not in document}}


def write(dialect: Dialect, state: State) -> dict[str, Any]:
    """The document of a run at a version."""
    return patch(dialect.encode(state), state.of("extra"))


def respelt(document: dict[str, Any], keys: tuple[str, ...], repairs: Repairs) -> dict[str, Any]:
    """Known keys in the protocol's spelling: ``runId`` is read as ``run_id`` where that is not there."""
    known = {key.replace("_", "").lower(): key for key in keys}
    out: dict[str, Any] = {}
    for key, value in document.items():
        right = known.get(key.replace("_", "").replace("-", "").replace(" ", "").lower(), key)
        if right != key and right not in document and right not in out:
            repairs.add(f"the key {shown(key)} is read as {right}.")
            key = right
        out[key] = value
    return out
