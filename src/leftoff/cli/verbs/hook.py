"""``leftoff hook``: an agent's hook event, kept."""

from __future__ import annotations

import sys

from leftoff.cli.options import Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

AGENTS = ("claude", "codex", "gemini")

SPEC = Spec(
    "hook",
    "Read an agent's hook event as JSON from stdin and record it: the session's todo list as steps, its "
    "files, and checkpoints at the end of a turn and before a compaction. `leftoff install` sets an agent "
    "up to call it.\n\n"
    "Prints context for the agent if the event has room for it (the brief of an unfinished run). Always "
    "exits 0; errors are logged in .leftoff/hook.log. An event that cannot be recorded now waits in "
    ".leftoff/spool; the next hook or command records it.",
    usage="claude|codex|gemini",
    least=1,
    most=1,
    options=(
        Opt(
            "--user",
            None,
            "called in every folder: create a store only in a git repository, or use an existing one",
        ),
    ),
    examples="""  cat event.json | leftoff hook claude
  cat event.json | leftoff hook gemini --user""",
)


def run(args: Args, ctx: Context) -> int:
    if args.rest[0] not in AGENTS:
        raise Usage(f"There are no hooks for {args.rest[0]!r}.", hint=f"One of {', '.join(AGENTS)}.")
    if sys.stdin.isatty():
        raise Usage("`leftoff hook` reads an event on stdin.", hint="`leftoff install claude` sets it up.")
    from leftoff.agents.hooks.hook_process import HookCall, run_hook

    call = HookCall(args.rest[0], anywhere=args.user, project=args.project, store=args.store)
    answer = run_hook(call, sys.stdin.buffer.read())
    try:
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except OSError:  # the agent does not listen any more
        pass
    return 0
