"""Which protocols there are, which one a project and a run follow, and what it adds to the verdict on a run.

Protocols themselves are loaded late: this module is also loaded to see that a project has no files of any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from os.path import join, lexists
from typing import TYPE_CHECKING, Any

from leftoff.engine.find import Target
from leftoff.engine.findings import STOP, UNAPPROVED, Finding
from leftoff.engine.judge import CheckProvider
from leftoff.engine.opening import run_by_id
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import Selection
from leftoff.engine.run_checks import World
from leftoff.engine.settings import FILE, Settings
from leftoff.errors import Conflict, Invalid, LeftoffError, Usage
from leftoff.model.words import STEP_ENDED
from leftoff.store.base import SqlStore
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.protocols.document_draft import State
    from leftoff.protocols.protocol import Dialect

BUILT_IN = ("bmad", "crunch", "dotagent", "sitebuilder", "claude")
#: of each protocol: if any of its files exist, one of these paths does
HOMES = {
    "bmad": ("_bmad-output/.runs",),
    "crunch": (".claude/crunch", ".claude/checkpoint-config.yaml"),
    "dotagent": ("memory/state",),
    "sitebuilder": ("docs/agentic-orchestration/progress", "progress/checkpoints"),
    "claude": (".claude/checkpoints", ".claude/data/checkpoints"),
}
_SURE = 40  # from this score on a document is taken for one of a protocol
_KEYS = ("dialect", "approvals")  # of the section [mirror]


def dialect(name: str) -> Dialect:
    """Return the protocol of that name."""
    if name not in BUILT_IN:
        raise Usage(f"There is no dialect {name!r}.", hint=f"Dialects: {', '.join(BUILT_IN)}.")
    found: Dialect = import_module(f"leftoff.protocols.{name}").DIALECT
    return found


def dialects() -> list[Dialect]:
    return [dialect(name) for name in BUILT_IN]


def recognise(document: dict[str, Any], path: str) -> Dialect:
    """Return the protocol that a document most likely belongs to."""
    from leftoff.protocols.loose_values import Rejected, shown_value

    if "$schema" in document and "properties" in document:
        raise Rejected(f"{path} is a JSON Schema, not a checkpoint.")
    best, found = max(
        ((each.recognise(document, path), each) for each in dialects()), key=lambda pair: pair[0]
    )
    if best >= _SURE:
        return found
    keys = ", ".join(shown_value(key) for key in list(document)[:5])
    hint = "Nothing of it was imported. If it is one of them all the same: --dialect D (`leftoff dialects`)."
    raise Rejected(f"{path} is none of the dialects that leftoff knows; its keys are {keys}.", hint=hint)


def mirrored(project: str, settings: Settings) -> Dialect | None:
    """Return the protocol whose files are kept in sync with the store, or ``None``."""
    return settings.parsed("mirror", _named) if settings.section("mirror") else None


def _named(section: dict[str, Any]) -> Dialect:
    """Return the protocol that a section [mirror] names."""
    for key in section:
        if key not in _KEYS:
            raise Invalid(f"[mirror] has no key {key!r}.", path=key, hint=f"Keys: {', '.join(_KEYS)}.")
    name = section.get("dialect")
    if name not in BUILT_IN:
        raise Invalid(
            f"[mirror] dialect cannot be {name!r}.", path="dialect", hint=f"Dialects: {', '.join(BUILT_IN)}."
        )
    found = dialect(name)
    phases, known = section.get("approvals", []), found.approved_phases
    if not isinstance(phases, list) or any(phase not in known for phase in phases):
        hint = f"A list of these: {', '.join(known)}." if known else f"{name} has no phases to approve."
        raise Invalid(f"[mirror] approvals is wrong: {phases!r}.", path="approvals", hint=hint)
    return found


def set_dialect(project: str, settings: Settings, name: str) -> list[str]:
    """Write to leftoff.toml that the project follows a protocol. Return the files that were written."""
    from leftoff.engine.project_files import ProjectFiles, mode_at, replace_at

    there = settings.section("mirror").get("dialect")
    if there == name:
        return []
    if settings.section("mirror"):
        raise Conflict(
            f"leftoff.toml has a section [mirror] already, for {there}.",
            hint="Edit it by hand: a project follows one protocol.",
        )
    files = ProjectFiles(project)
    text = (files.read(FILE) or b"").decode("utf-8-sig").removesuffix("\n")
    text = f'{text}\n\n[mirror]\ndialect = "{name}"\n' if text else f'[mirror]\ndialect = "{name}"\n'
    with files.open(FILE) as at:
        replace_at(at, [text.encode()], mode_at(at), new=0o666)
    return [FILE]


def point_out(project: Project) -> None:
    """If the project has files of a protocol but no run, say how to import them."""
    for name, homes in HOMES.items():
        if not any(lexists(join(project.folder, home)) for home in homes):
            continue
        try:
            found = dialect(name).present(project.folder)
        except LeftoffError:  # its settings cannot be read
            found = []
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            project.store.advice = f"`leftoff import . --dialect {name}` takes in what lies here."
            project.say(
                f"leftoff: files of the {name} protocol lie here ({found[0]}{more}), and no run. "
                f"`leftoff import . --dialect {name}` takes them in; "
                f"after `leftoff init --dialect {name}`, both stay in step."
            )


# -- the protocol of a run, and the verdict on it


def dialect_of(row: RunRow, project: str, settings: Settings) -> Dialect | None:
    """Return the protocol that the project follows, if the run belongs to it; else the one it was imported from."""
    followed = mirrored(project, settings)
    if followed is not None and followed.includes(row):
        return followed
    origin = row.card.get("imported")
    name = origin.get("dialect") if isinstance(origin, dict) else None
    return dialect(name) if name in BUILT_IN else None


def state_of(store: SqlStore, target: Target, dialect: Dialect) -> State:
    """Return a run at the version that is meant, as its protocol sees it."""
    from leftoff.protocols.protocol import state_at

    seq = target.version.seq if target.version is not None else None
    run_id = target.row.run_id
    return store.read(lambda view: state_at(store, view, run_by_id(view, run_id), dialect, seq))


def unapproved(state: State, settings: Settings) -> list[str]:
    """Return the phases that a person must approve before the next one begins, and has not approved yet."""
    steps, said = state.of("step"), state.of("approval")
    return [
        phase
        for phase in settings.section("mirror").get("approvals", [])
        if isinstance(steps.get(phase), dict) and steps[phase].get("status") in STEP_ENDED
        if not isinstance(said.get(phase), dict) or said[phase].get("status") != "approved"
    ]


class DialectChecks(CheckProvider):
    """What a protocol checks of a run, and what the outputs of steps say of them."""

    def __init__(self, dialect: Dialect, state: State, project: Project, target: Target) -> None:
        self._dialect = dialect
        self._settled = dialect.settled(state, project.folder) if target.version is None else {}
        self._unapproved = unapproved(state, project.settings)
        follower = project.store.follower
        self._deleted = follower.deleted(target.row.run_id) if follower is not None else None
        self.checks = (self._approvals, lambda world: dialect.findings(state, project.folder, world.now))
        if dialect.errors_block and not state.of("error"):
            self.dismisses = ("blocked.errors",)

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        if self._deleted is not None:
            yield Finding(
                "mirror.deleted",
                f"Somebody deleted {self._deleted}, the file of this run.",
                f"`leftoff finish --run {world.run_id} --status abandoned` gives it up; "
                "--accept mirror.deleted resumes and writes it again.",
                self._deleted,
            )

    def _approvals(self, world: World) -> Iterable[Finding]:
        for phase in self._unapproved:
            yield Finding(
                UNAPPROVED,
                f"{phase} is complete, and nobody has approved it.",
                f"`leftoff approve {world.run_id} {phase}` approves it; --accept {UNAPPROVED} continues without.",
                phase,
                choices=("approve", STOP),
            )

    def question(self, codes: Collection[str]) -> str | None:
        return self._dialect.doubt(codes)

    def known(self, world: World, selection: Selection) -> Mapping[str, tuple[str, str]]:
        return {
            path: ("run", "its output says that it failed")
            if record["status"] == "failed"
            else ("adopt", f"its output says that it is {record['status']}")
            for path, record in self._settled.items()
        }


def dialect_checks(project: Project, target: Target) -> DialectChecks | None:
    """Return the checks of the run's protocol; ``None`` if it follows none, or cannot be read."""
    dialect = dialect_of(target.row, project.folder, project.settings)
    if dialect is None:
        return None
    try:
        state = state_of(project.store, target, dialect)
    except LeftoffError:  # the verdict says what is wrong with it
        return None
    return DialectChecks(dialect, state, project, target)
