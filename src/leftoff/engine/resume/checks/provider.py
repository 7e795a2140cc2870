"""What a layer adds to the verdict on a run: its checks, and what it knows of the run's steps.

Each layer that knows something of a run has a provider: the engine, the workflow that executes it, the protocol that
it follows. They stand in a chain; whoever is first in it knows best.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.plan import Layout
    from leftoff.engine.resume.request import Selection
    from leftoff.errors import LeftoffError

    Check = Callable[[World], Iterable[Finding]]


class CheckProvider:
    """One link of the chain; whatever it does not know stays as it is here."""

    #: checks that only look at what was read
    quick: Sequence[Check] = ()
    #: checks that wait for processes and disks; they are made beside each other
    waiting: Sequence[Check] = ()
    #: codes that are nothing to worry about in this run
    dismisses: Collection[str] = ()
    #: why the run could not be executed
    problem: LeftoffError | None = None

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        """What is found in view of what is asked for."""
        return ()

    def known(self, world: World, selection: Selection) -> Mapping[str, tuple[str, str]]:
        """What becomes of steps that were in flight or decided, and why."""
        return {}

    def question(self, codes: Collection[str]) -> str | None:
        """What is asked before anything else where these findings need a person; who says yes begins anew."""
        return None

    def layout(self, world: World) -> Layout | None:
        """The run's steps as they are by now, where that is another than its records say."""
        return None

    def runs_once(self, path: str) -> bool:
        """Whether a step must not simply run a second time."""
        return False
