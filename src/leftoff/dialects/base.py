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

import os
import re

from leftoff.clock import iso
from leftoff.dialects import json_text
from leftoff.dialects.report import Rejected, Repairs, shown
from leftoff.dialects.residue import patch, residue
from leftoff.dialects.times import read_time
from leftoff.engine.keeping import DEFAULT, phase
from leftoff.engine.show import in_order, inner_steps
from leftoff.errors import LeftoffError
from leftoff.model.ids import MAX_RUN_ID, check_key, check_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.mirror import Mirror
    from leftoff.dialects.places import Loaded
    from leftoff.dialects.words import Words
    from leftoff.engine.keeping import Policy
    from leftoff.engine.report import Make
    from leftoff.model.versions import Version
    from leftoff.store.rows import RunRow

    Reject = Callable[[str, LeftoffError], None]

    Records = dict[tuple[str, str], Any]

DONE = ("completed", "skipped")
MOST_STEPS = 10_000  # a number that says how many there are is believed up to here
_NOT_AN_ID = str.maketrans({c: "-" for c in map(chr, range(128)) if not (c.isalnum() or c in "._-")})


class Source:
    """Where a document lies: its path for people, its name, when it was changed, and what its place says of it."""

    __slots__ = ("hints", "modified", "path")

    def __init__(self, path: str, modified: int = 0, **hints: str) -> None:
        self.path = path
        self.modified = modified
        self.hints = hints

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class State:
    """A run at one version, as a dialect sees it."""

    def __init__(
        self,
        run_id: str,
        records: Records,
        at: int,
        *,
        alias: str | None = None,
        trigger: str | None = None,
        beat: int | None = None,
        interval: int = 300,
    ) -> None:
        self.run_id = run_id
        self.records = records
        self.at = at
        self.alias = alias  # the protocol's own id of this version
        self.trigger = trigger
        self.beat = beat
        self.interval = interval  # seconds between beats
        self._by: dict[str, dict[str, Any]] | None = None

    def of(self, collection: str) -> dict[str, Any]:
        """The records of a collection by key, in key order."""
        if self._by is None:
            self._by = {}
            for name, key in sorted(self.records):
                self._by.setdefault(name, {})[key] = self.records[name, key]
        return self._by.get(collection, {})

    def run(self, key: str, default: Any = None) -> Any:
        return self.of("run").get(key, default)

    @property
    def status(self) -> str:
        return str(self.run("status", "running"))

    @property
    def updated_at(self) -> str:
        return iso(self.at)

    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Every step, in declared order."""
        steps = {path: value for path, value in self.of("step").items() if isinstance(value, dict)}
        return [(path, steps[path]) for path in in_order(steps)]

    def leaves(self) -> list[tuple[str, dict[str, Any]]]:
        inner = inner_steps(self.of("step"))
        return [(path, step) for path, step in self.steps() if path not in inner]


class Decoded:
    """A run as a document has it."""

    def __init__(
        self, run_id: str, records: Records, at: int, aliases: list[str], trigger: str | None
    ) -> None:
        self.run_id = run_id
        self.records = records
        self.at = at
        self.aliases = aliases
        self.trigger = trigger

    def state(self) -> State:
        alias = self.aliases[0] if self.aliases else None
        return State(self.run_id, self.records, self.at, alias=alias, trigger=self.trigger)


class Draft:
    """A run that is being read: what is put in is checked, what cannot be is left to the residue."""

    def __init__(self, source: Source, repairs: Repairs, known: State | None) -> None:
        self.source = source
        self.repairs = repairs
        self.known = known
        self.run_id = ""
        self.records: Records = {}
        self.aliases: list[str] = []
        self.at: int | None = None
        self.trigger: str | None = None

    # -- what is found

    def name(self, given: str) -> str:
        """The run's id, made fit to be one; as it was written, it is an alias."""
        fit = given.translate(_NOT_AN_ID).encode("ascii", "replace").decode().replace("?", "-")
        fit = fit.lstrip(".-")[:MAX_RUN_ID]
        try:
            self.run_id = check_run_id(fit)
        except LeftoffError:
            raise Rejected(f"{self.source.path}: {shown(given)} cannot name a run.") from None
        if fit != given:
            self.alias(given)
            self.repairs.add(
                f"the id {shown(given)} is kept as {fit}; what was written is another name for it."
            )
        return fit

    def alias(self, name: str) -> None:
        if name and len(name) <= MAX_RUN_ID and "\n" not in name and name not in self.aliases:
            self.aliases.append(name)

    def run(self, key: str, value: Any) -> None:
        if value is not None:
            self.records["run", key] = value

    def put(self, collection: str, key: str, value: Any) -> bool:
        """Put a record; whether its key can be one and is free."""
        try:
            check_key(key, collection)
        except LeftoffError:
            return False
        if (collection, key) in self.records or (collection == "step" and not _is_path(key)):
            return False
        self.records[collection, key] = value
        return True

    def put_free(self, collection: str, key: str, value: Any) -> None:
        """Put a record under this key, or the next free one behind it."""
        number, wanted = 2, key or "-"
        while (collection, wanted) in self.records:
            wanted, number = f"{key}#{number}", number + 1
        self.put(collection, wanted, value)

    # -- what a document says, as the kind of value that is wanted

    def text(self, document: dict[str, Any], key: str) -> str | None:
        value = document.get(key)
        if isinstance(value, str):
            return value or None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.repairs.add(f"{key}: the number {shown(value)} is read as text.")
            return str(value)
        self._unusable(key, value, "text")
        return None

    def number(self, document: dict[str, Any], key: str) -> int | None:
        value = document.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str):
            digits = value.strip().lstrip("~").rstrip("%").strip()
            if digits.isascii() and digits.isdigit() and len(digits) < 10:
                self.repairs.add(f"{key}: {shown(value)} is read as the number {int(digits)}.")
                return int(digits)
        self._unusable(key, value, "a number")
        return None

    def entries(self, document: dict[str, Any], key: str) -> list[Any]:
        value = document.get(key)
        if isinstance(value, list):
            return value
        if isinstance(value, str) and value.strip():
            self.repairs.add(f"{key}: the text {shown(value)} is read as a list of one.")
            return [value]
        self._unusable(key, value, "a list")
        return []

    def mapping(self, document: dict[str, Any], key: str) -> dict[str, Any]:
        value = document.get(key)
        if isinstance(value, dict):
            return value
        self._unusable(key, value, "an object")
        return {}

    def ordinals(self, document: dict[str, Any], key: str) -> list[int]:
        """Numbers of steps; one number alone says how many of them are done."""
        value = document.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_STEPS:
            self.repairs.add(f"{key}: the number {value} is read as the first {value}.")
            return list(range(1, value + 1))
        out = []
        for entry in self.entries(document, key):
            number = self.number({key: entry}, key)
            if number is not None and 0 < number <= MOST_STEPS:
                out.append(number)
            else:
                self.repairs.add(f"{key}: {shown(entry)} is no step's number; left out.")
        return out

    def time(self, document: dict[str, Any], key: str) -> int | None:
        return read_time(document.get(key), self.repairs, key, self.source.modified or None)

    def iso(self, document: dict[str, Any], key: str) -> str | None:
        found = self.time(document, key)
        return iso(found) if found is not None else None

    def status(self, words: Words, document: dict[str, Any], key: str, default: str) -> str:
        return words.read(document.get(key), default, self.repairs, key)

    def _unusable(self, key: str, value: Any, wanted: str) -> None:
        if value is not None and value != "":
            self.repairs.add(f"{key}: {shown(value)} is not {wanted}; kept as it is written.")

    def done(self) -> Decoded:
        at = self.at if self.at is not None else self.source.modified
        return Decoded(self.run_id, self.records, at, self.aliases, self.trigger)


def _is_path(key: str) -> bool:
    return not (key.startswith("/") or key.endswith("/") or "//" in key)


class Dialect:
    """One protocol. A module has one instance, named ``DIALECT``."""

    name = ""
    about = ""
    #: keys of its documents, for spelling mistakes such as camelCase
    keys: tuple[str, ...] = ()
    #: whether its documents are YAML
    yaml = False
    #: whether the id in a document names one version of the run, rather than the run
    id_names_version = False
    #: how the absolute path of one of its files ends
    files = r"(?!)"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        """How much a document looks like one of this dialect: 0 not at all, 100 without doubt."""
        raise NotImplementedError

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

    #: what is asked where a state looks wrong; ``None``: it goes on
    corrupted: str | None = None

    def refuses(self, state: State) -> str | None:
        """Why a run cannot be resumed."""
        return None

    def settled(self, state: State, project: str) -> dict[str, dict[str, Any]]:
        """Steps that were in flight, as what they left behind says they ended."""
        return {}

    def doubts(self, state: State, project: str, now: int) -> list[str]:
        """Why a state should not be trusted as it is."""
        return []

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        """What is said when a run goes on."""
        return []

    def question(self, state: State) -> str | None:
        """What a person is asked before it does."""
        return None

    # -- its mirror: the files that are kept in step

    #: whether a sign of life shows in its files
    beats = False

    def same_run(self, run_id: str) -> str:
        """The id that a document of this run carries."""
        return run_id

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """The id and the steps of a run that is started, where the protocol fixes them.

        ``given``: workflow, title, issue and task, as they were given.
        """
        return None, []

    def dump(self, document: dict[str, Any]) -> str:
        """The document as the text of a file."""
        if not self.yaml:
            return json_text.dump(document)
        from leftoff.dialects import yaml_text

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

    def before(self, mirror: Mirror, row: RunRow) -> bool:
        """Whatever must happen before its documents are written; whether something was taken in."""
        return False

    def shown(self, mirror: Mirror, row: RunRow) -> State | None:
        """The version that its documents show: the head, unless the protocol writes checkpoints only."""
        return mirror.state(row)

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
        full = mirror.desk.full(path)
        mirror.desk.forget(path)
        if os.path.lexists(full):
            os.unlink(full)

    def names(self, state: State) -> list[str]:
        """What the protocol calls a checkpoint that shows this state."""
        return []

    def sealing(self, make: Make, project: str) -> Make:
        """A report, sealed as the protocol wants it."""
        return make

    def set_up(self, project: str) -> list[str]:
        """Files that the protocol wants to be there from the start, made where they are not; their paths."""
        return []

    def ignored(self) -> list[str]:
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

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        raise NotImplementedError

    def encode(self, state: State) -> dict[str, Any]:
        raise NotImplementedError


def read(
    dialect: Dialect, document: dict[str, Any], source: Source, repairs: Repairs, known: State | None = None
) -> Decoded:
    """A run out of a document, with everything that is in it."""
    document = respelt(document, dialect.keys, repairs)
    draft = Draft(source, repairs, known)
    dialect.decode(draft, document)
    decoded = draft.done()
    for key, value in residue(dialect.encode(decoded.state()), document).items():
        decoded.records["extra", key] = value
    return decoded


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
