"""What the protocol that a run follows adds to the verdict on it."""

from __future__ import annotations

from leftoff.engine.findings import STOP, UNAPPROVED, Finding
from leftoff.engine.judge import CheckProvider
from leftoff.errors import LeftoffError
from leftoff.model.words import STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from leftoff.engine.find import Target
    from leftoff.engine.project import Project
    from leftoff.engine.resume_answers import Selection
    from leftoff.engine.run_facts import World
    from leftoff.engine.settings import Settings
    from leftoff.protocols.document_draft import State
    from leftoff.protocols.protocol import Dialect
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow


class DialectChecks(CheckProvider):
    """What a protocol checks of a run, and what the outputs of steps say of them."""

    def __init__(self, dialect: Dialect, state: State, project: str, *, is_head: bool) -> None:
        self._settled = dialect.settled(state, project) if is_head else {}
        self.checks = (self._approvals, lambda world: dialect.findings(state, project, world.now))
        self._dialect = dialect
        self.deleted: str | None = None  # the run's file, if somebody deleted it
        self.unapproved: list[str] = []  # phases that are complete, and that no person has approved yet
        if dialect.errors_block and not state.of("error"):
            self.dismisses = ("blocked.errors",)

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        if self.deleted is not None:
            yield Finding(
                "mirror.deleted",
                f"Somebody deleted {self.deleted}, the file of this run.",
                f"`leftoff finish --run {world.run_id} --status abandoned` gives it up; "
                "--accept mirror.deleted resumes and writes it again.",
                self.deleted,
            )

    def _approvals(self, world: World) -> Iterable[Finding]:
        for phase in self.unapproved:
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
    """Those of the run's protocol; ``None`` where it follows none, or cannot be read."""
    dialect = dialect_of(target.row, project.folder, project.settings)
    if dialect is None:
        return None
    try:
        state = state_of(project.store, target, dialect)
    except LeftoffError:  # what is wrong with it, the verdict says
        return None
    checks = DialectChecks(dialect, state, project.folder, is_head=target.version is None)
    follower = project.store.follower
    checks.deleted = follower.deleted(target.row.run_id) if follower is not None else None
    checks.unapproved = unapproved(state, project.settings)
    return checks


def unapproved(state: State, settings: Settings) -> list[str]:
    """The phases that a person is to approve before the next one begins, and has not."""
    from leftoff.protocols.registry import phases_to_approve

    steps, said = state.of("step"), state.of("approval")
    return [
        phase
        for phase in phases_to_approve(settings)
        if isinstance(steps.get(phase), dict) and steps[phase].get("status") in STEP_ENDED
        if not isinstance(said.get(phase), dict) or said[phase].get("status") != "approved"
    ]


def dialect_of(row: RunRow, project: str, settings: Settings) -> Dialect | None:
    """The protocol that the project follows, if the run is one of its own; else the one it was imported from."""
    if settings.section("mirror"):
        from leftoff.protocols.registry import mirrored

        followed = mirrored(project, settings)
        if followed is not None and followed.includes(row):
            return followed
    origin = row.card.get("imported")
    name = origin.get("dialect") if isinstance(origin, dict) else None
    if not isinstance(name, str):
        return None
    from leftoff.protocols.registry import BUILT_IN, dialect

    return dialect(name) if name in BUILT_IN else None


def state_of(store: Store, target: Target, dialect: Dialect) -> State:
    """The run at the version that is meant, as its protocol sees it."""
    from leftoff.engine.opening import find
    from leftoff.protocols.protocol import state_at

    seq = target.version.seq if target.version is not None else None
    run_id = target.row.run_id
    return store.read(lambda view: state_at(store, view, find(view, run_id), dialect, seq))
