"""The three APIs: how an answer is written in each, as a stream of events or as one document. No input, no output."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.real_agents.model.answers import Answer, Call, Request

Event = tuple[str | None, dict[str, Any]]
SIDE = {  # what requests get that are no work of the agent's: a title, a choice of model
    "anthropic": Answer('{"title": "a title", "isNewTopic": false}'),
    "openai": Answer("A title"),
    "gemini": Answer(
        '{"reasoning": "-", "model_choice": "pro", "complexity_reasoning": "-", "complexity_score": 50}'
    ),
}
# Helpers of Qwen Code that run by themselves after sessions: their requests are not the work that was asked for.
_MEMORY = ("managed memory extraction subagent", "performing a managed memory dream")
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STATES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 529: "UNAVAILABLE"}
_OWN = {429: "rate_limit_exceeded", 529: "server_is_overloaded"}


def request_of(path: str, body: dict[str, Any]) -> Request | None:
    """The request for an answer that was posted there; ``None`` where it is none."""
    path = path.partition("?")[0]
    own = next((name for name in ("opencode", "qwen") if path.startswith(f"/{name}/")), None)
    model = str(body.get("model") or "")
    if path.endswith("/messages"):
        is_memory = any(words in str(body.get("system")) for words in _MEMORY)
        is_work = bool(body.get("tools") and body.get("stream")) and not is_memory
        return Request(own or "claude", "anthropic", is_work, model, body)
    if path.endswith("/responses"):
        more = any(
            item.get("type") == "additional_tools"
            for item in body.get("input") or []
            if isinstance(item, dict)
        )
        return Request("codex", "openai", bool(body.get("tools")) or more, model, body)
    if path.lower().endswith("generatecontent"):
        name = path.rpartition("/")[2].partition(":")[0]
        return Request("gemini", "gemini", bool(body.get("tools")) and "stream" in path, name, body)
    return None


def _id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:24]}"


def refusal(api: str, answer: Answer) -> dict[str, Any]:
    """The body of an error."""
    message = answer.message or f"refused with {answer.status}"
    kind = _KINDS.get(answer.status, "api_error")
    if api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if api == "openai":
        kind = _OWN.get(answer.status, kind)
        return {"error": {"type": kind, "code": kind, "message": message}}
    details = []
    if answer.wait is not None:
        about = "type.googleapis.com/google.rpc."
        details.append({"@type": f"{about}RetryInfo", "retryDelay": f"{answer.wait}s"})
    state = _STATES.get(answer.status, "INTERNAL")
    return {"error": {"code": answer.status, "status": state, "message": message, "details": details}}


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    """An answer as one document, where no stream was asked for."""
    if request.api == "gemini":
        return _candidate(answer)
    about = {"id": _id("msg"), "type": "message", "role": "assistant", "model": request.model}
    ends = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    return {**about, "content": _blocks(answer), **ends, "usage": _usage(answer)}


def stream(request: Request, answer: Answer) -> Iterator[Event]:
    """An answer, event by event; the first says that it has begun."""
    return {"anthropic": _anthropic, "openai": _openai, "gemini": _gemini}[request.api](request, answer)


# -- Anthropic Messages


def _usage(answer: Answer) -> dict[str, int]:
    given, said = answer.tokens
    return {
        "input_tokens": given,
        "output_tokens": said,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": answer.text}] if answer.text else []
    calls = [
        {"type": "tool_use", "id": _id("toolu"), "name": call.name, "input": call.given}
        for call in answer.calls
    ]
    return [*said, *calls]


def _anthropic(request: Request, answer: Answer) -> Iterator[Event]:
    message = {**whole(request, Answer(tokens=(answer.tokens[0], 1))), "content": [], "stop_reason": None}
    yield _named({"type": "message_start", "message": message})
    for index, block in enumerate(_blocks(answer)):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _named({"type": "content_block_start", "index": index, "content_block": empty})
        yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": stop, "usage": {"output_tokens": answer.tokens[1]}})
    yield _named({"type": "message_stop"})


def _named(data: dict[str, Any]) -> Event:
    return data["type"], data


# -- OpenAI Responses


def _item(call: Call) -> dict[str, Any]:
    about = {"id": _id("fc"), "call_id": _id("call"), "status": "completed"}
    if isinstance(call.given, str):
        return {**about, "type": "custom_tool_call", "name": call.name, "input": call.given}
    space, dot, name = call.name.rpartition(".")
    item = {**about, "type": "function_call", "name": name, "arguments": json.dumps(call.given)}
    return {**item, "namespace": space} if dot else item


def _openai(request: Request, answer: Answer) -> Iterator[Event]:
    response: dict[str, Any] = {
        "id": _id("resp"),
        "object": "response",
        "status": "in_progress",
        "output": [],
    }
    yield _named({"type": "response.created", "response": response})
    items = [_item(call) for call in answer.calls]
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        said = {
            "type": "message",
            "id": _id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        items.insert(0, said)
    for index, item in enumerate(items):
        yield _named({"type": "response.output_item.added", "output_index": index, "item": item})
        yield _named({"type": "response.output_item.done", "output_index": index, "item": item})
    given, said_ = answer.tokens
    usage = {"input_tokens": given, "output_tokens": said_, "total_tokens": given + said_}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    yield _named(
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": items, "usage": usage},
        }
    )


# -- Gemini


def _candidate(answer: Answer) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    parts += [{"functionCall": {"name": call.name, "args": call.given}} for call in answer.calls]
    given, said = answer.tokens
    usage = {"promptTokenCount": given, "candidatesTokenCount": said, "totalTokenCount": given + said}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "scripted",
        "responseId": _id("r"),
    }


def _gemini(request: Request, answer: Answer) -> Iterator[Event]:
    thought = {"role": "model", "parts": [{"text": "I begin.", "thought": True}]}
    yield None, {"candidates": [{"content": thought, "index": 0}], "modelVersion": "scripted"}
    yield None, _candidate(answer)
