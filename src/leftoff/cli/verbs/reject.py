"""``leftoff reject``: a person says no to a step that waits for an approval."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.cli.verbs.approve import NOTE, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "reject",
    "Reject a step that is waiting for a decision: the step fails with an error of type `rejected` that "
    "says who rejected it and why. Works from anywhere, like `leftoff approve`.",
    usage="[RUN] [STEP]",
    most=2,
    options=(NOTE, *CURRENT),
    examples="""  leftoff reject dev-story-20260131-090500 sign-off
  leftoff reject @ sign-off --note "the cache is not thought through\"""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.steps.approvals import REJECT

    return decide(args, ctx, REJECT)
