"""The words that the table is written in: a case, operations, and what several cases share."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.parity.playing import Op


class Case(NamedTuple):
    """One run: what is done in it, by scripts too, in which surroundings."""

    name: str
    ops: tuple[Op, ...]
    scripts: dict[str, Any] = {}  # by the name of the face that plays it
    toml: str = ""
    env: dict[str, str] = {}
    git: bool = False
    without: dict[str, str] = {}  # who could play it, but does not, and why


# -- operations, as the table writes them


def start(workflow: str = "flow", **options: Any) -> Op:
    return Op("start", {"workflow": workflow, **options})


def step(action: str, path: str = "a", **options: Any) -> Op:
    return Op("step", {"action": action, "step": path, **options})


def put(collection: str, key: str, value: Any, **options: Any) -> Op:
    return Op("put", {"collection": collection, "key": key, "value": value, **options})


def op(verb: str, **options: Any) -> Op:
    return Op(verb, options)


def anyhow(done: Op) -> Op:
    """By the command, where the face has no such operation."""
    return done._replace(anyhow=True)


def sets(**variables: Any) -> Op:
    return Op("set", {"variables": variables})


def note(text: str, **options: Any) -> Op:
    return Op("note", {"text": text, **options})


def write(path: str, text: str) -> Op:
    return Op("write", {"path": path, "text": text})


AB = start(steps=["a", "b"])
DONE_BOTH = (AB, step("done"), step("done", "b"))
PAUSED = anyhow(op("pause"))
SECRET = "nothing-that-looks-like-one"
KEY = "sk-ant-api03-" + "k" * 40
OF_A_WORKFLOW = {"LEFTOFF_SECRETS": "WORKFLOW_SECRET", "WORKFLOW_SECRET": SECRET}
ISSUES = '[issues]\nfile = "issue-{issue}.json"\n'
ISSUE = '{"title": "It breaks", "labels": ["state:ready"], "state": "open"}'


TRACK = anyhow(op("track", path="f"))
COMMIT = op("git", command="commit -q --allow-empty -m second")
REQUEST = op("request", step="sign-off", ask="Publish?")
CLOSED = '{"title": "It breaks", "labels": ["state:done"], "state": "closed"}'
OUTPUT = (write("out.txt", "1"), start(steps=["a", "b"]), step("done", outputs=["out.txt"]))
FAILED = {"error": "HTTP 500", "type": "ValueError"}
