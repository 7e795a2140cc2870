"""The child half of a side: one object in a process of its own, called over its pipes.

`python -m bench.worker MODULE:CLASS JSON` builds CLASS(**JSON), then answers one JSON line per request.
A process of its own, because background threads, two SQLite libraries and a shared GIL would blur figures.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import TextIO


def private_stdout() -> TextIO:
    """Keep the reply channel to ourselves: whatever a library prints goes to stderr instead."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def answer(target: object, line: str) -> dict[str, object]:
    """Call what the request names; an exception becomes a reply, so that the parent can say what failed."""
    request = json.loads(line)
    try:
        return {"ok": getattr(target, request["call"])(**request["args"])}
    except Exception:
        return {"error": traceback.format_exc()}


def build(name: str, params: str) -> object:
    """Import and construct the side."""
    module, _, class_name = name.partition(":")
    return getattr(importlib.import_module(module), class_name)(**json.loads(params))


def main(argv: list[str]) -> int:
    """Serve requests until stdin closes."""
    channel = private_stdout()
    try:
        target = build(argv[0], argv[1])
        reply: dict[str, object] = {"ok": None}
    except Exception:
        target, reply = None, {"error": traceback.format_exc()}
    print(json.dumps(reply), file=channel, flush=True)
    if target is None:
        return 1
    for line in sys.stdin:
        print(json.dumps(answer(target, line)), file=channel, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
