"""What the verbs share: the common options, and how an error is told."""

from __future__ import annotations

import argparse
import os
import sys

from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def parser(verb: str, about: str, examples: str) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="leftoff",
        usage=f"leftoff {verb} [options]",
        description=about,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    out.add_argument("verb", choices=[verb], help=argparse.SUPPRESS)
    out.add_argument("--project", metavar="DIR", help="the project's folder")
    out.add_argument("--store", metavar="URL", help="the store: a folder or URL")
    out.add_argument("--json", action="store_true", help="print one JSON document")
    return out


def guarded(work: Callable[[], int], *, as_json: bool) -> int:
    """Run a verb; an error becomes two lines on stderr (and one document on stdout with --json), never a traceback."""
    try:
        return work()
    except LeftoffError as error:
        if os.environ.get("LEFTOFF_DEBUG") == "1":
            raise
        tell(error, as_json=as_json)
        return error.exit_code


def tell(error: LeftoffError, *, as_json: bool) -> None:
    print(f"leftoff: {error.message}", file=sys.stderr)
    if error.hint:
        print(error.hint, file=sys.stderr)
    if as_json:
        print_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})


def print_json(document: Any) -> None:
    import json

    print(json.dumps(document, ensure_ascii=False, indent=2))
