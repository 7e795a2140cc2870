"""The document that describes the interface for programs, as OpenAPI 3.1, made from the table of its addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from leftoff._version import __version__
from leftoff.operations.pages.actions import FLAG, MAP, TEXT, WORDS

BASE = "/api/projects/{project}"
_SCHEMAS: dict[str, dict[str, Any]] = {
    TEXT: {"type": "string"},
    WORDS: {"type": "array", "items": {"type": "string"}},
    FLAG: {"type": "boolean"},
    MAP: {"type": "object", "additionalProperties": {"type": "string"}},
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


class Described(Protocol):
    """An address that is read."""

    @property
    def path(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def query(self) -> dict[str, str]: ...


def document(
    reads: Iterable[Described], actions: Mapping[str, Mapping[str, str]], base: str
) -> dict[str, Any]:
    """All of it. ``base``: the path of a proxy."""
    paths: dict[str, Any] = {
        "/api/projects": {"get": _operation("What is served.", "", {})},
        "/api/events": {"get": _stream()},
    }
    for each in reads:
        paths[BASE + each.path] = {"get": _operation(each.about, BASE + each.path, each.query)}
    paths[BASE + "/fsck"] = {"get": _operation("How far the last check of the store is.", BASE, {})}
    if actions:
        paths[BASE + "/fsck"]["post"] = _operation("Begin a check of the store, as `fsck`.", BASE, {})
        paths[BASE + "/prune"]["post"] = _operation("Let go what retention no longer keeps.", BASE, {})
    for name, fields in actions.items():
        path = f"{BASE}/runs/{{run}}/{name}"
        paths[path] = {**paths.get(path, {}), "post": _action(name, path, fields)}
        ahead = f"{BASE}/runs/{{run}}/ahead/{name}"
        paths[ahead] = {"get": _operation(f"What {name} would do; nothing is changed.", ahead, {})}
    return {
        "openapi": "3.1.0",
        "info": {"title": "leftoff", "version": __version__},
        "servers": [{"url": base or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"error": _ERROR},
        },
    }


def _operation(about: str, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    named = [name for name in ("project", "run") if f"{{{name}}}" in path]
    given: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    given += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in query.items()
    ]
    return {"summary": about, "parameters": given, "responses": _responses("application/json")}


def _action(name: str, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {field: _SCHEMAS[kind] for field, kind in fields.items()},
        "additionalProperties": False,
    }
    body = {"content": {"application/json": {"schema": schema}}}
    return {**_operation(f"As `leftoff {name}`.", path, {}), "requestBody": body}


def _stream() -> dict[str, Any]:
    found = _operation("What happens, as server-sent events.", "", {"cursor": "what was seen last"})
    return {**found, "responses": _responses("text/event-stream")}


def _responses(kind: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}}
    return {
        "200": {"description": "as the command prints it with --json", "content": {kind: {}}},
        "default": {"description": "what is wrong, and what to do", "content": error},
    }
