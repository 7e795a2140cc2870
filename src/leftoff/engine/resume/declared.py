"""Before a Python program goes on with a run: only what the run declared or tracked is checked.

A program that resumes itself after a crash must not be held up by what it has nothing to do with: git, an issue, how
long ago it was.
"""

from __future__ import annotations

from leftoff.engine.resume.checks import run as own
from leftoff.engine.resume.checks import tree
from leftoff.engine.resume.checks.world import World
from leftoff.engine.resume.finding import REFUSE, check_codes, levelled, levels_of, stop_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from leftoff.engine.config.settings import Settings
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.finding import Finding
    from leftoff.store.base import Store

CHECKS: tuple[Callable[[World], Iterable[Finding]], ...] = (
    own.integrity,
    own.incomplete_write,
    own.not_resumable,
    tree.half_restored,
    tree.outputs,
    tree.files,
)


def refuse_unless(
    accept: Collection[str],
    store: Store,
    target: Target,
    now: int,
    project: str,
    settings: Settings,
    *,
    how: str | None = None,
) -> None:
    """`CannotResume`, unless what stands in the way is accepted. ``how``: the call, up to where ``accept=`` goes."""
    accepted = check_codes(accept)
    levels = levels_of(settings.section("verify"))
    world = World(store, target, now, project, settings, whole=False)
    found: list[Finding] = []
    for check in CHECKS if not world.damage else CHECKS[:1]:
        found += [levelled(finding, levels) for finding in check(world)]
    if world.damage:
        raise world.damage[0][1]
    stop_at(
        [f for f in found if f.level == REFUSE or f.code not in accepted],
        f"{how or f'leftoff.resume({world.run_id!r}, '}accept={{codes}}) goes on all the same.",
    )
