"""A protocol: how its documents become records and records documents, and data about its files and its life.

``decode`` fills a `Draft` from a document, ``encode`` makes the document of a run at a version. `read` and `write` wrap
them. Fields that the protocol does not map, and values that it writes in another form, are stored in the collection
`extra` and laid over the encoded document when it is written. So they survive, and a protocol need not think of them.

What a protocol owes:

1. ``encode`` uses only the `State` it is given; equal states give equal documents.
2. ``decode`` raises only `Rejected` or `TooNew`. It leaves alone what it cannot use, and reports it.
3. Decoding an encoded document gives the same records, as far as the protocol has fields for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leftoff.engine.commit import Seal
from leftoff.engine.find import SESSION
from leftoff.engine.findings import Finding
from leftoff.engine.opening import run_by_id
from leftoff.engine.retention_policy import DEFAULT, Policy, phase
from leftoff.engine.run_reader import Reader
from leftoff.errors import NoCheckpoint
from leftoff.model.changes import ChangeSet, Version
from leftoff.model.codec import same_json
from leftoff.model.words import AS_WRITTEN, imported_from
from leftoff.protocols.document_draft import Draft, Source, State
from leftoff.protocols.document_text import dump_json
from leftoff.protocols.loose_values import Reject, Rejected, Repairs, shown_value
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:  # both are built on this module
    from leftoff.protocols.import_documents import Loaded
    from leftoff.protocols.sync import Sync

IMPORTED = "imported"  # the run record that says where a run came from
MOST_VERSIONS = 500  # versions that are searched for the one a file was written from
_LONG = 200  # characters of a key of `extra`
_NONE: Any = object()


class Protocol:
    """One protocol. Its module has one instance, named ``PROTOCOL``."""

    name = ""
    about = ""
    #: how a user starts a run of it
    starts = "leftoff start NAME --steps a,b,c"
    #: whether its files show every run except agents' ordinary sessions
    shows_all = True
    #: a short document, and the path of its file
    example: tuple[str, dict[str, Any]]
    #: fields of its documents; other spellings such as camelCase are read as these
    keys: tuple[str, ...] = ()
    #: further fields by which a document is known
    marks: tuple[str, ...] = ()
    #: fields that are computed; never merged
    derived: tuple[str, ...] = ()
    #: the word for a step, if the protocol counts them
    counted: str | None = None
    #: whether its documents are YAML
    yaml = False
    #: whether the id in a document names one version of the run, not the run
    id_names_version = False
    #: fields that say which version a document shows, and when it was written
    stamps: tuple[str, ...] = ("checkpoint_id", "created_at", "updated_at", "last_checkpoint", "last_updated")
    #: its phases, if a person approves them
    approved_phases: tuple[str, ...] = ()
    #: whether new files are imported in the order of their times, not of `present`
    by_time = True
    #: how the absolute path of one of its files ends
    files = r"(?!)"
    #: whether a blocked run continues when its errors are removed from the file
    errors_block = False
    #: whether a heartbeat is written to its files
    beats = False
    #: whether the id of a run is that of the work, the same each time
    fixed_ids = True

    # -- documents

    def recognise(self, document: dict[str, Any], path: str) -> int:
        """Return how much a document looks like one of this protocol, from 0 to 100."""
        raise NotImplementedError

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        """Return whether a document can belong to this protocol when the user names it."""
        return self.owns(path) or self.recognise(document, path) > 0

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        raise NotImplementedError

    def encode(self, state: State) -> dict[str, Any]:
        raise NotImplementedError

    def filled(self, document: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
        """Return a partial document completed with present values. A whole document is returned as it is."""
        return filled(document, present, self.keys)

    def dump(self, document: dict[str, Any]) -> str:
        if not self.yaml:
            return dump_json(document)
        from leftoff.protocols.document_yaml import dump_yaml  # loads PyYAML

        return dump_yaml(document)

    def is_own_id(self, name: str) -> bool:
        """Return whether this is how the protocol names a checkpoint."""
        return False

    def names(self, state: State) -> list[str]:
        """Return the protocol's names for a checkpoint that shows this state."""
        return []

    # -- files on their way in

    def owns(self, path: str) -> bool:
        """Return whether a file is where this protocol stores its documents."""
        return re.search(self.files, path) is not None

    def group(self, paths: list[str]) -> list[list[str]]:
        """Return which files belong to one run."""
        return [[path] for path in paths]

    def hints(self, path: str) -> dict[str, str]:
        """Return what the place of a file says about its run."""
        return {}

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """Return the documents of one run, oldest first."""
        return [load(path) for path in paths]

    # -- runs

    def includes(self, row: RunRow) -> bool:
        """Return whether a run belongs to the protocol: is in its files, and follows its rules."""
        return bool(row.workflow != SESSION)

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """Return the id and the steps of a new run, if the protocol fixes them.

        ``given``: the workflow, title, issue and task that the user gave.
        """
        return None, []

    def retention(self, project: str) -> Policy:
        """Return what is kept, unless the project's settings say otherwise."""
        return DEFAULT

    def phase_of(self, version: Version) -> str:
        """Return the phase of a checkpoint, for rules that count per phase."""
        return phase(version)

    def config(self, project: str) -> Any:
        """Return the protocol's own settings: for ``sealed``, read before the transaction, and for the files."""
        return project

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Any) -> Seal | None:
        """Return how a commit is sealed. Called inside the commit."""
        return seal

    def set_up(self, project: str) -> list[str]:
        """Create the files that the protocol needs from the start. Return their paths."""
        return []

    def utilities(self) -> dict[str, str]:
        """Return the scripts that the protocol names, by path. They call leftoff."""
        return {}

    def ignored(self, project: str) -> list[str]:
        """Return lines for `.gitignore`."""
        return []

    # -- resuming

    def doubt(self, codes: Collection[str]) -> str | None:
        """Return the question that is asked first about these findings. Yes means: start fresh."""
        return None

    def findings(self, state: State, project: str, now: int) -> Iterable[Finding]:
        """Return what the protocol itself checks before a run resumes."""
        return ()

    def settled(self, state: State, project: str) -> dict[str, dict[str, Any]]:
        """Return the steps that were running, as their outputs say they ended."""
        return {}

    def is_over(self, state: State) -> bool:
        """Return whether nothing is left of a run whose steps were just settled."""
        return False

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        """Return the lines that are printed when a run resumes."""
        return []

    def question(self, state: State) -> str | None:
        """Return the question that is asked before a run resumes."""
        return None

    def options(self, phase: str, state: State, project: str) -> list[str]:
        """Return the choices of a person who approves a phase."""
        return ["approve"]

    def state_label(self, state: State) -> str | None:
        """Return the issue's label for this state, if the protocol has one."""
        return None

    # -- sync

    def present(self, project: str) -> list[str]:
        """Return the paths of its documents in the project."""
        return []

    def part_of(self, path: str) -> str | None:
        """Return which part of a run's document a file holds; ``None``: the whole."""
        return None

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        """Return the paths of a run's documents, with the part that each holds."""
        return {}

    def home(self, state: State, default: str) -> str:
        """Return where a run's document was found, else the default."""
        origin = state.run(IMPORTED)
        path = origin.get("path") if isinstance(origin, dict) and imported_from(origin) == self.name else None
        inside = isinstance(path, str) and not path.startswith(("/", "../")) and self.owns(f"/{path}")
        return str(path) if inside else default

    def shown(self, sync: Sync, row: RunRow) -> State | None:
        """Return the version that the files show: the head, unless the protocol writes only checkpoints."""
        return sync.state(row)

    def complete(self, document: dict[str, Any], part: str | None) -> dict[str, Any]:
        """Return a document as it is written when all files of the run are complete."""
        return document

    def underway(self, document: dict[str, Any], part: str | None) -> dict[str, Any] | None:
        """Return what a file says while the run's files are being written; ``None``: what it said before."""
        return None

    def before(self, sync: Sync, row: RunRow) -> None:
        """Prepare writing the documents."""

    def after(self, sync: Sync, row: RunRow, state: State) -> None:
        """Write the files next to its documents: indexes, pages, messages."""

    def leave(self, sync: Sync, path: str, run_id: str) -> None:
        """Remove a document that no longer belongs at its place."""
        sync.base.forget(path)
        sync.remove(path)

    def archive(self, sync: Sync, path: str, run_id: str) -> None:
        """Put a document of an archived run where the protocol keeps it. It is not followed any more."""
        sync.base.forget(path)

    def given_up(self, path: str) -> bool:
        """Return whether a file is in the protocol's folder for abandoned work."""
        return False


# -- documents and records


def decode_document(
    protocol: Protocol, document: dict[str, Any], source: Source, repairs: Repairs, known: State | None = None
) -> State:
    """Return the run that a document describes, with all of its fields."""
    document = respelt(document, protocol.keys, repairs)
    need_known_fields(protocol, document, source)
    draft = Draft(source, repairs, known)
    protocol.decode(draft, document)
    decoded = draft.done()
    extra = left_over(protocol.encode(decoded), document)
    return replace(decoded, records=decoded.records | {("extra", key): extra[key] for key in extra})


def write(protocol: Protocol, state: State) -> dict[str, Any]:
    """Return the document of a run at a version."""
    document, extra = protocol.encode(state), dict(state.of("extra"))
    form = extra.pop(AS_WRITTEN, None)
    if isinstance(form, dict) and isinstance(form.get("was"), dict) and isinstance(form.get("said"), dict):
        document = lay_over(document, form["was"], form["said"])
    for key, value in extra.items():
        *outer, last = key.split("/")
        inside: Any = document
        for part in outer:
            if isinstance(inside.get(part), dict):
                inside[part] = dict(inside[part])
            inside = inside.get(part)
            if not isinstance(inside, dict):
                break
        else:
            inside.setdefault(last, value)
    return document


def left_over(encoded: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the records of `extra` that turn the encoded document into the one that was read.

    A field that the protocol does not have is a separate record. All values that it would write in another form are
    in one record, next to the encoded values (``was``): they hold only while those are the same.
    """
    extra: dict[str, Any] = {}
    was, said = _differences((), encoded, document, extra)
    if was or said:
        extra[AS_WRITTEN] = {"was": was, "said": said}
    return extra


def _differences(
    path: tuple[str, ...], encoded: dict[str, Any], document: dict[str, Any], extra: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    was: dict[str, Any] = {}
    said: dict[str, Any] = {}
    for key in {**encoded, **document}:
        ours, theirs = encoded.get(key, _NONE), document.get(key, _NONE)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            inner = _differences((*path, key), ours, theirs, extra)
            if any(inner):
                was[key], said[key] = inner
        elif ours is _NONE and _is_plain(name := "/".join((*path, key)), len(path) + 1):
            extra[name] = theirs
        elif not same_json(ours, theirs):
            if ours is not _NONE:
                was[key] = ours
            if theirs is not _NONE:
                said[key] = theirs
    return was, said


def _is_plain(name: str, parts: int) -> bool:
    """Return whether the path of an unknown field can be the key of a record."""
    inner = name.split("/")
    plain = len(inner) == parts and all(inner) and "%" not in name and "\0" not in name
    return plain and len(name) <= _LONG and name != AS_WRITTEN


def lay_over(document: dict[str, Any], was: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return the document with every value as it was written, where the document's own is still what it was."""
    out = dict(document)
    for key in {**was, **said}:
        now, old, new = (values.get(key, _NONE) for values in (document, was, said))
        if isinstance(old, dict) and isinstance(new, dict):
            if isinstance(now, dict):
                out[key] = lay_over(now, old, new)
        elif same_json(now, old):
            if new is _NONE:
                out.pop(key, None)
            else:
                out[key] = new
    return out


def renewed(
    document: dict[str, Any], base: dict[str, Any], computed: dict[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """Return the document with each of these fields as it is computed now, if it is unchanged since ``base``."""
    out = dict(document)
    for key in keys:
        first, _, rest = key.partition("/")
        before, inner = base.get(first, _NONE), out.get(first)
        if rest:
            if isinstance(inner, dict) and isinstance(before, dict) and isinstance(computed.get(first), dict):
                out[first] = renewed(inner, before, computed[first], [rest])
        elif first in out and same_json(inner, before):
            out[first] = computed.get(first)
    return out


def need_known_fields(protocol: Protocol, document: dict[str, Any], source: Source) -> None:
    """Raise if a document has none of the protocol's fields."""
    if protocol.keys and not any(key in document for key in (*protocol.keys, *protocol.marks)):
        raise foreign(protocol, document, source.path)


def foreign(protocol: Protocol, document: dict[str, Any], path: str) -> Rejected:
    """Return the error for a document that does not belong to a protocol."""
    keys = ", ".join(shown_value(key) for key in list(document)[:5])
    hint = "Nothing of it was imported. `leftoff protocols` shows what the files of each one look like."
    return Rejected(f"{path} is nothing of {protocol.name}: its keys are {keys}.", hint=hint)


def filled(document: dict[str, Any], present: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a document with each missing field as it is at present, if one of the protocol's own is missing."""
    if all(key in document for key in keys if key in present):
        return document
    return _completed(document, present)


def _completed(document: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    out = {
        key: _completed(value, present[key])
        if isinstance(value, dict) and isinstance(present.get(key), dict)
        else value
        for key, value in document.items()
    }
    return {**out, **{key: value for key, value in present.items() if key not in document}}


def respelt(document: dict[str, Any], keys: tuple[str, ...], repairs: Repairs) -> dict[str, Any]:
    """Return a document whose known fields have the protocol's spelling: ``runId`` is read as ``run_id``."""
    known = {key.replace("_", "").lower(): key for key in keys}
    out: dict[str, Any] = {}
    for key, value in document.items():
        right = known.get(key.replace("_", "").replace("-", "").replace(" ", "").lower(), key)
        if right != key and right not in document and right not in out:
            repairs.add(f"the key {shown_value(key)} is read as {right}.")
            key = right
        out[key] = value
    return out


# -- versions


def run_named(run_id: str) -> Callable[[View], RunRow]:
    """Return a function that finds a run by its id, for a report."""
    return lambda view: run_by_id(view, run_id)


def state_at(store: SqlStore, view: View, row: RunRow, protocol: Protocol, seq: int | None = None) -> State:
    """Return a run at a version (``None``: its head) as the protocol sees it."""
    version = view.version(row.run, row.seq if seq is None else seq)
    lease = view.lease(row.run) if seq is None else None
    reader = Reader(store, view, row.run, row.run_id, seq)
    names = [name for name in reader.collections() if name != "item"]
    records = {(name, key): value for name in names for key, value in reader.plain(name).items()}
    alias = own_alias(protocol, version)
    if version is not None and version.checkpoint is None:  # named like the checkpoint before it
        sealed = view.versions(row.run, sealed=True, before=version.seq, limit=1)
        alias = own_alias(protocol, sealed[0]) if sealed else None
    return State(
        row.run_id,
        records,
        version.at if version is not None else row.updated_at,
        [alias] if alias is not None else [],
        trigger=version.trigger if version is not None else None,
        step=version.step if version is not None else None,
        beat=lease.beat if lease is not None else None,
    )


def own_alias(protocol: Protocol, version: Version | None) -> str | None:
    """Return the protocol's own id of a version, the longest if there are several."""
    if version is None:
        return None
    return max((name for name in version.aliases if protocol.is_own_id(name)), key=len, default=None)


def own_id(protocol: Protocol, theirs: State) -> str | None:
    """Return the protocol's own id in a document, if it names a version."""
    names = theirs.aliases if protocol.id_names_version else ()
    return next((name for name in names if protocol.is_own_id(name)), None)


def base_of(store: SqlStore, view: View, row: RunRow, protocol: Protocol, theirs: State) -> State | None:
    """Return the version that a document was written from: by its id, by its time, or the last one imported."""
    own = own_id(protocol, theirs)
    named = view.aliased(own, row.run) if own is not None else None
    if named is not None:
        return state_at(store, view, row, protocol, named[1].seq)
    if own is not None:  # a new checkpoint follows the last one before it
        sealed = view.versions(row.run, sealed=True, limit=MOST_VERSIONS)
        before = next((version for version in sealed if version.at <= theirs.at), None)
        return state_at(store, view, row, protocol, before.seq) if before is not None else None
    record = view.record(row.run, "run", IMPORTED)
    seq = record.seq if record is not None else 0
    for version in view.versions(row.run, sealed=False, limit=MOST_VERSIONS):
        if version.at == theirs.at:
            seq = max(seq, version.seq)
            break
    try:
        return state_at(store, view, row, protocol, seq) if seq else None
    except NoCheckpoint:  # pruned
        return None
