"""The command. A verb is chosen from ``sys.argv`` before anything heavy is imported; each has a module of its own."""

from __future__ import annotations

import sys

VERBS = {"fsck": "leftoff.cli.fsck"}


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    verb = next((a for a in args if not a.startswith("-")), "")
    home = VERBS.get(verb)
    if args and args[0] == "--version":
        from leftoff._version import __version__

        print(f"leftoff {__version__}")
        return 0
    if home is None:
        print(f"leftoff: there is no verb {verb!r}." if verb else "leftoff: say what to do.", file=sys.stderr)
        print(f"Verbs: {', '.join(sorted(VERBS))}. `leftoff VERB --help` explains one.", file=sys.stderr)
        return 2
    from importlib import import_module

    return int(import_module(home).main(args))
