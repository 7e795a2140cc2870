"""What a dialect works with: where a document lies, a run at a version, and a run that is being read."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.core.repairs import Rejected, Repairs, shown
from leftoff.dialects.core.times import read_time
from leftoff.engine.read.show import in_order, inner_steps
from leftoff.errors import LeftoffError
from leftoff.model.fields import Fields
from leftoff.model.ids import MAX_KEY, MAX_RUN_ID, check_key, check_run_id
from leftoff.model.words import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.words import Words

    Records = dict[tuple[str, str], Any]

DONE = ("completed", "skipped")
#: of a step's record, what leftoff keeps itself; whatever else is in it is the protocol's
STEP_FIELDS = frozenset("status order outputs attempt started_at completed_at error result title".split())
MOST_STEPS = 10_000  # a number that says how many there are is believed up to here
MOST_RECORDS = 1_000_000  # of one document: each takes about a kilobyte of memory on its way in
_NOT_AN_ID = str.maketrans({c: "-" for c in map(chr, range(128)) if not (c.isalnum() or c in "._-")})


def fit_id(given: str) -> str:
    """An id with what no id can have replaced."""
    fit = given.translate(_NOT_AN_ID).encode("ascii", "replace").decode().replace("?", "-")
    return fit.lstrip(".-")[:MAX_RUN_ID]


def version_numbers(given: Any) -> list[int] | None:
    """`2.1` as numbers; ``None`` where it is no version."""
    parts = str(given).split(".")
    return [*map(int, parts)] if all(p.isascii() and p.isdigit() and len(p) < 6 for p in parts) else None


class Source:
    """Where a document lies: its path for people, its name, when it was changed, and what its place says of it."""

    def __init__(self, path: str, modified: int = 0, **hints: str) -> None:
        self.path = path
        self.modified = modified
        self.hints = hints

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class State(Fields):
    """A run at one version, as a dialect sees it."""

    run_id: str
    records: Records
    at: int
    alias: str | None = None  # the protocol's own id of this version
    trigger: str | None = None
    step: str | None = None  # that it was sealed for
    beat: int | None = None  # the last sign of life that the store has
    told: int | None = None  # and that the document tells of
    _by: dict[str, dict[str, Any]] | None = None
    _steps: list[tuple[str, dict[str, Any]]] | None = None
    _leaves: list[tuple[str, dict[str, Any]]] | None = None

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
        if self._steps is None:
            steps = {path: value for path, value in self.of("step").items() if isinstance(value, dict)}
            self._steps = [(path, steps[path]) for path in in_order(steps)]
        return self._steps

    def leaves(self) -> list[tuple[str, dict[str, Any]]]:
        if self._leaves is None:
            inner = inner_steps(self.of("step"))
            self._leaves = [(path, step) for path, step in self.steps() if path not in inner]
        return self._leaves


class Decoded(Fields):
    """A run as a document has it."""

    run_id: str
    records: Records
    at: int
    aliases: list[str]
    trigger: str | None
    beat: int | None = None  # the last sign of life that it tells of

    def state(self) -> State:
        alias = self.aliases[0] if self.aliases else None
        return State(self.run_id, self.records, self.at, alias=alias, trigger=self.trigger, told=self.beat)


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
        self.beat: int | None = None
        self._taken: dict[tuple[str, str], int] = {}  # which number the next record of a key gets
        self._size = 0  # in records

    # -- what is found

    def name(self, given: str) -> str:
        """The run's id, made fit to be one; as it was written, it is an alias."""
        fit = fit_id(given)
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
        if name and len(name) <= MAX_RUN_ID and name.isprintable() and name not in self.aliases:
            self.aliases.append(name)

    def run(self, key: str, value: Any) -> None:
        if isinstance(value, str):  # a listing shows it: no more than a line, and nothing that ends a text
            value = value.replace("\0", "\ufffd")[:MAX_KEY]
        if value is not None:
            self.records["run", key] = value

    def put(self, collection: str, key: str, value: Any) -> bool:
        """Put a record; whether its key can be one, is free, and is not leftoff's own."""
        if is_own(collection, key):
            return False
        try:
            check_key(key, collection)
        except LeftoffError:
            return False
        if (collection, key) in self.records or (collection == "step" and not _is_path(key)):
            return False
        self._size += 1 if collection != "variable" or type(value) not in (list, dict) else 1 + len(value)
        if self._size > MOST_RECORDS:
            raise Rejected(f"{self.source.path} would become more than {MOST_RECORDS:,} records.")
        self.records[collection, key] = value
        return True

    def put_free(self, collection: str, key: str, value: Any) -> None:
        """Put a record under this key, or the next free one behind it."""
        number, wanted = self._taken.get((collection, key), 2), key or "-"
        while (collection, wanted) in self.records:
            wanted, number = f"{key}#{number}", number + 1
        self._taken[collection, key] = number
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
        began = self.known.run("created_at") if self.known is not None else None
        if ("run", "created_at") not in self.records and (began or at):
            self.run("created_at", began or iso(at))
            if began is None:
                self.repairs.add(f"when the run began is not said; read as {iso(at)}.")
        return Decoded(self.run_id, self.records, at, self.aliases, self.trigger, self.beat)


def _is_path(key: str) -> bool:
    return not (key.startswith("/") or key.endswith("/") or "//" in key)
