"""A run on its way between a document and records: `State` is written, `Draft` is filled by reading.

Both have what several protocols share: notes as one text, errors as a list, counted steps, lists of files. The last
functions write texts in pages of Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from leftoff.clock import iso
from leftoff.engine.findings import Finding
from leftoff.engine.show import in_order, inner_steps
from leftoff.engine.tracking import DELETED, WAS
from leftoff.errors import LeftoffError
from leftoff.model.ids import MAX_KEY, MAX_RUN_ID, check_key, check_run_id, quote_part
from leftoff.model.words import is_own
from leftoff.protocols.loose_values import Rejected, Repairs, Words, read_time, shown_under, shown_value

Records = dict[tuple[str, str], Any]
Leaves = Sequence[tuple[str, dict[str, Any]]]

DONE = ("completed", "skipped")
#: fields of a step's record that leftoff writes itself; all others belong to the protocol
STEP_FIELDS = frozenset("status order outputs attempt why started_at completed_at error result title".split())
_READ = "order outputs attempt attempts started_at completed_at output error adopted total".split()
NUMBER = "number"  # the place of an entry in its list
#: fields of a file's record that leftoff adds when it looks at the file
_FOUND = ("hash", "size", "mode", "seen", "followed", "captured", "captured_at", WAS)
MOST_STEPS = 10_000  # the highest number of steps that is believed
_NOT_AN_ID = str.maketrans({c: "-" for c in map(chr, range(128)) if not (c.isalnum() or c in "._-")})


def fit_id(given: str) -> str:
    """Return an id with every character replaced that a run id cannot have."""
    fit = given.translate(_NOT_AN_ID).encode("ascii", "replace").decode().replace("?", "-")
    return fit.lstrip(".-")[:MAX_RUN_ID]


class Source:
    """Where a document was found: its path, the time of its last change, and what its place says about it."""

    def __init__(self, path: str, modified: int = 0, **hints: str) -> None:
        self.path = path
        self.modified = modified
        self.hints = hints

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class State:
    """A run at one version: as the store has it, or as a document describes it."""

    run_id: str
    records: Records
    at: int
    aliases: list[str] = field(default_factory=list)  # first the protocol's own id of this version
    trigger: str | None = None
    step: str | None = None  # the step that the version was sealed for
    beat: int | None = None  # the last heartbeat in the store
    told: int | None = None  # the last heartbeat in the document

    @property
    def alias(self) -> str | None:
        return self.aliases[0] if self.aliases else None

    @cached_property
    def _collections(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, key in sorted(self.records):
            found.setdefault(name, {})[key] = self.records[name, key]
        return found

    def of(self, collection: str) -> dict[str, Any]:
        """Return the records of a collection by key, in key order."""
        return self._collections.get(collection, {})

    def listed(self, collection: str) -> list[tuple[str, Any]]:
        """Return the records of a collection by their number; those without one follow, by key."""

        def place(item: tuple[str, Any]) -> tuple[int, str]:
            number = item[1].get(NUMBER) if isinstance(item[1], dict) else None
            return (number if isinstance(number, int) else 1 << 30), item[0]

        return sorted(self.of(collection).items(), key=place)

    def run(self, key: str, default: Any = None) -> Any:
        return self.of("run").get(key, default)

    def about(self, key: str) -> dict[str, Any]:
        """Return a record of `context`."""
        found = self.of("context").get(key)
        return found if isinstance(found, dict) else {}

    def fields(self, table: dict[str, tuple[str, str]]) -> dict[str, Any]:
        """Return the fields of a document that are records of `run`."""
        return {key: self.run(record) for key, (record, _) in table.items()}

    @property
    def status(self) -> str:
        return str(self.run("status", "running"))

    @property
    def updated_at(self) -> str:
        return iso(self.at)

    # -- steps

    @cached_property
    def steps(self) -> Leaves:
        """Every step, in declared order."""
        found = {path: value for path, value in self.of("step").items() if isinstance(value, dict)}
        return [(path, found[path]) for path in in_order(found)]

    @cached_property
    def leaves(self) -> Leaves:
        """The steps that have no steps below them, in declared order."""
        inner = inner_steps(self.of("step"))
        return [(path, step) for path, step in self.steps if path not in inner]

    def step_record(self, path: str) -> dict[str, Any]:
        record = self.of("step").get(path)
        return record if isinstance(record, dict) else {}

    def left(self) -> list[str]:
        """Return the leaf steps that are not done."""
        return [path for path, step in self.leaves if step.get("status") not in DONE]

    # -- steps by number, for protocols that count them

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each step: its name if that is a number, else its place or the next free number."""
        paths = [path for path, _ in self.leaves]
        out = {path: int(path) for path in paths if is_step_number(path) and path[0] != "0"}
        taken, last = set(out.values()), 0
        for place, path in enumerate(paths, 1):
            if path not in out:
                last = max(place, last + 1)
                while last in taken:
                    last += 1
                out[path] = last
        return out

    @cached_property
    def numbered(self) -> dict[int, str]:
        """The step of each number."""
        return {number: path for path, number in self.numbers.items()}

    @property
    def done(self) -> list[int]:
        return sorted(self.numbers[path] for path, step in self.leaves if step.get("status") in DONE)

    @property
    def total(self) -> int:
        declared = self.run("total")
        return max([declared if is_int(declared) else 0, *self.numbered])

    def step_names(self, key: str) -> dict[str, dict[str, str]]:
        """Return the names of steps by number, so that a reader of the file alone knows them."""
        names = {str(n): path for n, path in sorted(self.numbered.items()) if path != str(n)}
        return {key: names} if names else {}

    def passed_over(self) -> Iterator[Finding]:
        """Report steps that are not done and come before one that is."""
        passed = [self.numbered.get(number, str(number)) for number in gaps(self.done)]
        if passed:
            more = f" and {len(passed) - 5} more" if len(passed) > 5 else ""
            yield Finding(
                "progress.illegal",
                f"Step {max(self.done)} is completed, but not {', '.join(passed[:5])}{more}.",
                "They are still pending. --accept progress.illegal resumes anyway.",
                passed[0],
            )

    # -- other fields of documents

    def notes(self, *but: str) -> str:
        """Return the notes as one text."""
        return "\n".join(note_text(value) for key, value in self.of("note").items() if key not in but)

    def issues(self) -> list[Any]:
        """Return the errors: a bare text if only the message is known, else an object."""
        entries = [
            without(about, NUMBER) if isinstance(about, dict) else about for _, about in self.listed("error")
        ]
        return [e["message"] if isinstance(e, dict) and list(e) == ["message"] else e for e in entries]

    def files(self, status: str) -> list[str]:
        """Return the paths of the files that the run created, with its artifacts, or of those that it modified."""
        found: dict[str, None] = {}
        for path, about in self.of("file").items():
            known = about if isinstance(about, dict) else {}
            word = known.get(WAS) if known.get("status") == DELETED else known.get("status")
            if (word == "created") == (status == "created"):
                found[path] = None
        made = self.artifact_paths if status == "created" else {}
        found |= dict.fromkeys(sorted(made, key=lambda path: (made[path], path)))
        return list(found)

    @cached_property
    def artifact_paths(self) -> dict[str, str]:
        """The paths of artifacts, with the time at which each was captured."""
        found = [about for about in self.of("artifact").values() if isinstance(about, dict)]
        return {a["path"]: str(a.get("captured_at", "")) for a in found if isinstance(a.get("path"), str)}


class Draft:
    """A run that is being read. Records are checked when they are put; what cannot be a record stays in `extra`."""

    def __init__(self, source: Source, repairs: Repairs, known: State | None) -> None:
        self.source = source
        self.repairs = repairs
        self.known = known
        self.run_id = ""
        self.records: Records = {}
        self.aliases: list[str] = []
        self.at: int | None = None
        self.told: int | None = None  # the last heartbeat in the document
        self._taken: dict[tuple[str, str], int] = {}  # the number that the next record of a key gets

    # -- records

    def name(self, given: str) -> str:
        """Set the run's id. If it has to be changed to be one, the original becomes an alias."""
        fit = fit_id(given)
        try:
            self.run_id = check_run_id(fit)
        except LeftoffError:
            raise Rejected(f"{self.source.path}: {shown_value(given)} cannot name a run.") from None
        if fit != given:
            self.alias(given)
            self.repairs.add(
                f"the id {shown_value(given)} is kept as {fit}; what was written is another name for it."
            )
        return fit

    def alias(self, name: str | None) -> None:
        if name and len(name) <= MAX_RUN_ID and name.isprintable() and name not in self.aliases:
            self.aliases.append(name)

    def run(self, key: str, value: Any) -> None:
        if isinstance(value, str):  # a listing shows it in one line
            value = value.replace("\0", "\ufffd")[:MAX_KEY]
        if value is not None:
            self.records["run", key] = value

    def fields(self, document: dict[str, Any], table: dict[str, tuple[str, str]]) -> None:
        """Read fields into records of `run`. ``table``: field to record and kind (`text`, `number`, `iso`)."""
        for key, (record, kind) in table.items():
            self.run(record, getattr(self, kind)(document, key))

    def put(self, collection: str, key: str, value: Any) -> bool:
        """Put a record. Return whether its key is valid, free and not one of leftoff's own."""
        if is_own(collection, key):
            return False
        try:
            check_key(key, collection)
        except LeftoffError:
            return False
        is_path = not (key.startswith("/") or key.endswith("/") or "//" in key)
        if (collection, key) in self.records or (collection == "step" and not is_path):
            return False
        self.records[collection, key] = value
        return True

    def put_free(self, collection: str, key: str, value: Any) -> None:
        """Put a record under this key, or under the next free one: `key#2`."""
        number, wanted = self._taken.get((collection, key), 2), key or "-"
        while (collection, wanted) in self.records:
            wanted, number = f"{key}#{number}", number + 1
        self._taken[collection, key] = number
        self.put(collection, wanted, value)

    def put_all(self, collection: str, document: dict[str, Any], key: str) -> None:
        """Put the entries of a mapping as records."""
        for name, value in self.mapping(document, key).items():
            self.put(collection, name, value)

    # -- fields of a document, as the kind of value that is wanted

    def text(self, document: dict[str, Any], key: str) -> str | None:
        value = document.get(key)
        if isinstance(value, str):
            return value or None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.repairs.add(f"{key}: the number {shown_value(value)} is read as text.")
            return str(value)
        self._unusable(key, value, "text")
        return None

    def number(self, document: dict[str, Any], key: str) -> int | None:
        value = document.get(key)
        if is_int(value):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str):
            digits = value.strip().lstrip("~").rstrip("%").strip()
            if digits.isascii() and digits.isdigit() and len(digits) < 10:
                self.repairs.add(f"{key}: {shown_value(value)} is read as the number {int(digits)}.")
                return int(digits)
        self._unusable(key, value, "a number")
        return None

    def entries(self, document: dict[str, Any], key: str) -> list[Any]:
        value = document.get(key)
        if isinstance(value, list):
            return value
        if isinstance(value, str) and value.strip():
            self.repairs.add(f"{key}: the text {shown_value(value)} is read as a list of one.")
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
        """Return the numbers of steps. A single number N stands for the first N."""
        value = document.get(key)
        if is_int(value) and 0 <= value <= MOST_STEPS:
            self.repairs.add(f"{key}: the number {value} is read as the first {value}.")
            return list(range(1, value + 1))
        out = []
        for entry in self.entries(document, key):
            number = self.number({key: entry}, key)
            if number is not None and 0 < number <= MOST_STEPS:
                out.append(number)
            else:
                self.repairs.add(f"{key}: {shown_value(entry)} is no step's number; left out.")
        return out

    def time(self, document: dict[str, Any], key: str, where: str | None = None) -> int | None:
        return read_time(document.get(key), self.repairs, where or key, self.source.modified or None)

    def iso(self, document: dict[str, Any], key: str, where: str | None = None) -> str | None:
        found = self.time(document, key, where)
        return iso(found) if found is not None else None

    def status(self, words: Words, document: dict[str, Any], key: str, default: str) -> str:
        return words.read(document.get(key), default, self.repairs, key)

    def as_written(self, what: str, value: Any, wrong: str) -> None:
        """Report a value that no record can hold. It stays in the document."""
        self.repairs.add(f"{what}: {shown_under(what, value)} {wrong}; kept as it is written.")

    def _unusable(self, key: str, value: Any, wanted: str) -> None:
        if value is not None and value != "":
            self.as_written(key, value, f"is not {wanted}")

    # -- parts that several protocols have

    def notes(self, text: str | None) -> None:
        """Put the notes of a text. Known notes that are still in it keep their keys; what follows is a new one."""
        if not text:
            return
        known = self.known.of("note") if self.known is not None else {}
        joined = self.known.notes() if self.known is not None else ""
        if known and (text == joined or text.startswith(joined + "\n")):
            for key, value in known.items():
                self.put("note", key, value)
            text = text[len(joined) + 1 :]
        if text:
            self.put_free("note", f"{self.source.modified:015d}-written", {"text": text})

    def issues(self, entries: list[Any], name: str) -> None:
        """Put errors. An entry that names its step becomes that step's error; the others are numbered."""
        for number, entry in enumerate(entries, 1):
            about = dict(entry) if isinstance(entry, dict) else {"message": entry}
            step = about.get("step")
            own = isinstance(step, str) and bool(step) and ("error", step) not in self.records
            if not own:
                about[NUMBER] = number
            self.put_free("error", str(step) if own else f"{name}-{number:03d}", about)

    def items(
        self, entries: list[Any], what: str, words: Words, *, key: str = "id", below: str = ""
    ) -> list[str]:
        """Put the entries of a list as steps. Return their statuses. ``what``: the word for one of them."""
        found = []
        for number, entry in enumerate(entries):
            about = dict(entry) if isinstance(entry, dict) else {key: entry}
            name = about.pop(key, None)
            if not isinstance(name, (str, int)) or isinstance(name, bool) or name == "":
                self.as_written(f"{what}s", entry, f"has no {key}")
                continue
            status = words.read(about.pop("status", None), "pending", self.repairs, f"{what} {name}")
            record: dict[str, Any] = {"status": status, "order": number}
            attempts, output, error = self.number(about, "attempts"), about.get("output"), about.get("error")
            if attempts is not None:  # one that was put back counts again when it starts
                record["attempt"] = attempts - 1 if status == "pending" and attempts > 0 else attempts
            record |= self.times(about)
            if output and isinstance(output, (str, list)):
                record["outputs"] = output if isinstance(output, list) else [output]
            if error is not None:
                record["error"] = error if isinstance(error, dict) else {"message": error}
            record |= without(about, *_READ)
            if self.put("step", below + quote_part(str(name)), record):
                found.append(status)
            else:
                self.repairs.add(f"the {what} {shown_value(name)} is there twice; the first one counts.")
        return found

    def times(self, about: dict[str, Any]) -> dict[str, str]:
        """Return when a step began and ended, as far as the document has it."""
        found = {key: self.iso(about, key) for key in ("started_at", "completed_at")}
        return {key: when for key, when in found.items() if when is not None}

    def counted(self, done: list[int], *others: int | None, names: Any = None) -> None:
        """Put counted steps, up to the highest number. ``names``: as the document has them; known steps keep theirs."""
        called = dict(self.known.numbered) if self.known is not None else {}
        taken = {*called.values()}
        for key, name in names.items() if isinstance(names, dict) else ():
            named = is_step_number(str(key)) and isinstance(name, str) and name and not is_step_number(name)
            if named and int(key) not in called and name not in taken:
                called[int(key)] = name
                taken.add(name)
        count = max([n for n in (*others, *done) if n is not None and 0 < n <= MOST_STEPS], default=0)
        for number in range(1, count + 1):
            record = {"status": "completed" if number in done else "pending", "order": number - 1}
            if not self.put("step", called.get(number, str(number)), record):
                self.put("step", str(number), record)

    def files(self, document: dict[str, Any], key: str, status: str | None = None) -> None:
        """Put records of `file`, by path. A file that is known as an artifact is left out."""
        made = self.known.artifact_paths if self.known is not None and status == "created" else {}
        for entry in self.entries(document, key):
            about = dict(entry) if isinstance(entry, dict) else {"path": entry}
            path = about.get("path")
            if not isinstance(path, str) or not path:
                self.as_written(key, entry, "names no file")
            elif path not in made:
                if status is not None:
                    about["status"] = status
                if not self.put("file", path, about):
                    self.repairs.add(f"{key}: {shown_value(path)} is there twice, or cannot be a name.")

    def done(self) -> State:
        at = self.at if self.at is not None else self.source.modified
        began = self.known.run("created_at") if self.known is not None else None
        if ("run", "created_at") not in self.records and (began or at):
            self.run("created_at", began or iso(at))
            if began is None:
                self.repairs.add(f"when the run began is not said; read as {iso(at)}.")
        return State(self.run_id, self.records, at, self.aliases, told=self.told)


def is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_step_number(path: str) -> bool:
    return path.isascii() and path.isdigit() and len(path) < 6 and int(path) > 0


def gaps(done: list[int]) -> list[int]:
    """Return the numbers of steps that are not done and come before one that is."""
    return sorted(set(range(1, max(done, default=0))) - set(done))


def without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a mapping without the entries of these names."""
    return {key: item for key, item in value.items() if key not in names}


def note_text(note: object) -> str:
    if isinstance(note, dict):
        note = note.get("text", "")
    return note if isinstance(note, str) else ""


def about_file(about: dict[str, Any]) -> dict[str, Any]:
    """Return a file record without the fields that leftoff adds when it looks at the file."""
    return without(about, *_FOUND) if "captured_at" in about else about


# -- texts of a run in a page of Markdown: one line each, and never markup

_MARKUP = str.maketrans({"\\": "\\\\", "`": "\\`", "<": "&lt;", ">": "&gt;"})


def one_line(value: Any) -> str:
    """Return a text without line breaks and control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())


def inline(value: Any) -> str:
    """Return text for a paragraph, a heading or an entry of a list."""
    return one_line(value).translate(_MARKUP)


def cell(value: Any) -> str:
    """Return text for a cell of a table."""
    return inline(value).replace("|", "\\|")
