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
from leftoff.model.words import OLD_PROTOCOLS, STEP_ENDED, imported_from
from leftoff.store.base import SqlStore
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.protocols.document_draft import State
    from leftoff.protocols.protocol import Protocol

BUILT_IN = ("bmad", "crunch", "dotagent", "sitebuilder", "claude-checkpoints")
#: of each protocol: if any of its files exist, one of these paths does
HOMES = {
    "bmad": ("_bmad-output/.runs",),
    "crunch": (".claude/crunch", ".claude/checkpoint-config.yaml"),
    "dotagent": ("memory/state",),
    "sitebuilder": ("docs/agentic-orchestration/progress", "progress/checkpoints"),
    "claude-checkpoints": (".claude/checkpoints", ".claude/data/checkpoints"),
}
_SURE = 40  # from this score on a document is taken for one of a protocol
_KEYS = ("name", "approvals")  # of the section [protocol]


def protocol(name: str) -> Protocol:
    """Return the protocol of that name, or of a name that it had before."""
    name = OLD_PROTOCOLS.get(name, name)
    if name not in BUILT_IN:
        raise Usage(f"There is no protocol {name!r}.", hint=f"Protocols: {', '.join(BUILT_IN)}.")
    found: Protocol = import_module(f"leftoff.protocols.{name.replace('-', '_')}").PROTOCOL
    return found


def protocols() -> list[Protocol]:
    return [protocol(name) for name in BUILT_IN]


def recognise(document: dict[str, Any], path: str) -> Protocol:
    """Return the protocol that a document most likely belongs to."""
    from leftoff.protocols.loose_values import Rejected, shown_value

    if "$schema" in document and "properties" in document:
        raise Rejected(f"{path} is a JSON Schema, not a checkpoint.")
    best, found = max(
        ((each.recognise(document, path), each) for each in protocols()), key=lambda pair: pair[0]
    )
    if best >= _SURE:
        return found
    keys = ", ".join(shown_value(key) for key in list(document)[:5])
    hint = (
        "Nothing of it was imported. If it is one of them all the same: --protocol D (`leftoff protocols`)."
    )
    raise Rejected(
        f"{path} is not a checkpoint of a protocol that leftoff knows; its keys are {keys}.", hint=hint
    )


def followed_protocol(project: str, settings: Settings) -> Protocol | None:
    """Return the protocol whose files are kept in sync with the store, or ``None``."""
    return settings.parsed("protocol", _named) if settings.section("protocol") else None


def _named(section: dict[str, Any]) -> Protocol:
    """Return the protocol that a section [protocol] names."""
    for key in section:
        if key not in _KEYS:
            raise Invalid(f"[protocol] has no key {key!r}.", path=key, hint=f"Keys: {', '.join(_KEYS)}.")
    name = section.get("name")
    try:
        found = protocol(name if isinstance(name, str) else "")
    except Usage as error:
        raise Invalid(f"[protocol] name cannot be {name!r}.", path="name", hint=error.hint) from None
    phases, known = section.get("approvals", []), found.approved_phases
    if not isinstance(phases, list) or any(phase not in known for phase in phases):
        hint = f"A list of these: {', '.join(known)}." if known else f"{name} has no phases to approve."
        raise Invalid(f"[protocol] approvals is wrong: {phases!r}.", path="approvals", hint=hint)
    return found


def set_protocol(project: str, settings: Settings, name: str) -> list[str]:
    """Write to leftoff.toml that the project follows a protocol. Return the files that were written."""
    from leftoff.engine.project_files import ProjectFiles, mode_at, replace_at

    there = followed_protocol(project, settings)
    if there is not None and there.name == name:
        return []
    if there is not None:
        raise Conflict(
            f"leftoff.toml has a section [protocol] already, for {there.name}.",
            hint="Edit it by hand: a project follows one protocol.",
        )
    files = ProjectFiles(project)
    text = (files.read(FILE) or b"").decode("utf-8-sig").removesuffix("\n")
    text = f'{text}\n\n[protocol]\nname = "{name}"\n' if text else f'[protocol]\nname = "{name}"\n'
    with files.open(FILE) as at:
        replace_at(at, [text.encode()], mode_at(at), new=0o666)
    return [FILE]


def point_out(project: Project) -> None:
    """If the project has files of a protocol but no run, say how to import them."""
    for name, homes in HOMES.items():
        if not any(lexists(join(project.folder, home)) for home in homes):
            continue
        try:
            found = protocol(name).present(project.folder)
        except LeftoffError:  # its settings cannot be read
            found = []
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            project.store.advice = f"`leftoff import . --protocol {name}` imports them."
            project.say(
                f"leftoff: this project has files of the protocol {name} ({found[0]}{more}), but no run. "
                f"`leftoff import . --protocol {name}` imports them; "
                f"after `leftoff init --protocol {name}`, both stay in sync."
            )


# -- the protocol of a run, and the verdict on it


def protocol_of(row: RunRow, project: str, settings: Settings) -> Protocol | None:
    """Return the protocol that the project follows, if the run belongs to it; else the one it was imported from."""
    followed = followed_protocol(project, settings)
    if followed is not None and followed.includes(row):
        return followed
    name = imported_from(row.card.get("imported"))
    return protocol(name) if name in BUILT_IN else None


def state_of(store: SqlStore, target: Target, protocol: Protocol) -> State:
    """Return a run at the version that is meant, as its protocol sees it."""
    from leftoff.protocols.protocol import state_at

    seq = target.version.seq if target.version is not None else None
    run_id = target.row.run_id
    return store.read(lambda view: state_at(store, view, run_by_id(view, run_id), protocol, seq))


def unapproved(state: State, settings: Settings) -> list[str]:
    """Return the phases that a person must approve before the next one begins, and has not approved yet."""
    steps, said = state.of("step"), state.of("approval")
    return [
        phase
        for phase in settings.section("protocol").get("approvals", [])
        if isinstance(steps.get(phase), dict) and steps[phase].get("status") in STEP_ENDED
        if not isinstance(said.get(phase), dict) or said[phase].get("status") != "approved"
    ]


class ProtocolChecks(CheckProvider):
    """What a protocol checks of a run, and what the outputs of steps say of them."""

    def __init__(self, protocol: Protocol, state: State, project: Project, target: Target) -> None:
        self._protocol = protocol
        self._settled = protocol.settled(state, project.folder) if target.version is None else {}
        self._unapproved = unapproved(state, project.settings)
        follower = project.store.follower
        self._deleted = follower.deleted(target.row.run_id) if follower is not None else None
        self.checks = (self._approvals, lambda world: protocol.findings(state, project.folder, world.now))
        if protocol.errors_block and not state.of("error"):
            self.dismisses = ("blocked.errors",)

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        if self._deleted is not None:
            yield Finding(
                "sync.deleted",
                f"{self._deleted}, the file of this run, was deleted.",
                f"`leftoff finish --run {world.run_id} --status abandoned` gives it up; "
                "--accept sync.deleted resumes and writes it again.",
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
        return self._protocol.doubt(codes)

    def known(self, world: World, selection: Selection) -> Mapping[str, tuple[str, str]]:
        return {
            path: ("run", "its output says that it failed")
            if record["status"] == "failed"
            else ("adopt", f"its output says that it is {record['status']}")
            for path, record in self._settled.items()
        }


def protocol_checks(project: Project, target: Target) -> ProtocolChecks | None:
    """Return the checks of the run's protocol; ``None`` if it follows none, or cannot be read."""
    protocol = protocol_of(target.row, project.folder, project.settings)
    if protocol is None:
        return None
    try:
        state = state_of(project.store, target, protocol)
    except LeftoffError:  # the verdict says what is wrong with it
        return None
    return ProtocolChecks(protocol, state, project, target)
