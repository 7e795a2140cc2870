"""The server: the tools of one project, offered through the official SDK.

Arguments are checked here and not by the SDK, whose errors are written for whoever programs a server.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations

from leftoff._version import __version__
from leftoff.agents.mcp_tools import INSTRUCTIONS, LISTED, TOOLS, Tools
from leftoff.agents.mcp_words import bounded, compact, sorted_out, told
from leftoff.engine.quoting import quoted
from leftoff.errors import LeftoffError
from leftoff.host import debugging

_RESOURCES = "run://RUN_ID, run://RUN_ID/brief and checkpoint://CHECKPOINT_ID"
_PROMPT = {"properties": {"run_id": {"type": "string"}}}


class Server(MCPServer[Any]):
    """The tools, resources and prompts of one project."""

    def __init__(self, project: str, store: str | None) -> None:
        tools = Tools(project, store)
        self._kit = {name: _tool(getattr(tools, name), hints) for name, hints in TOOLS.items()}
        super().__init__(
            "leftoff",
            instructions=INSTRUCTIONS,
            version=__version__,
            log_level="CRITICAL",
            tools=[self._kit[name] for name in LISTED],
        )
        self.resource("run://{run_id}", name="run", mime_type="application/json")(tools.run_resource)
        self.resource("run://{run_id}/brief", name="brief", mime_type="text/plain")(tools.brief_resource)
        self.resource("checkpoint://{checkpoint_id}", name="checkpoint", mime_type="application/json")(
            tools.checkpoint_resource
        )
        self._prompts = {"resume": tools.resume_prompt, "handover": tools.handover_prompt}
        for name, make in self._prompts.items():
            self.prompt(name=name)(make)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool on a thread of its own."""
        tool = self._kit.get(name)
        if tool is None:
            raise ToolError(_no_such("tool", name, LISTED))
        try:
            given = sorted_out(name, tool.parameters, arguments)
            found = await anyio.to_thread.run_sync(partial(tool.fn, **given))
        except LeftoffError as error:
            raise ToolError(told(error)) from None
        except Exception as error:
            if debugging():
                traceback.print_exc(file=sys.stderr)
            why = f"{type(error).__name__}: {quoted(str(error))}"
            raise ToolError(
                f"{name} failed inside of leftoff: {why}. What was reported before is kept. "
                "Try it once more; if it fails again, tell the person, and continue without it."
            ) from None
        found = found if given.get("limit") else bounded(found)
        return CallToolResult(content=[TextContent(text=compact(found))], structured_content=found)

    async def list_tools(self) -> list[Any]:
        """List the tools, each with the parameters that have a description."""
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema = _plain(tool.input_schema)
        return tools

    async def read_resource(self, uri: Any, context: Any = None) -> Any:
        """Read a resource; one that is none is told what there is."""
        try:
            return await super().read_resource(uri, context)
        except ResourceError as error:
            if str(error).startswith("Unknown resource"):
                raise ResourceNotFoundError(f"There is no resource {uri}. There are {_RESOURCES}.") from None
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Any = None
    ) -> Any:
        """Render a prompt; what is wrong with the request is said."""
        if name not in self._prompts:
            raise MCPError(INVALID_PARAMS, _no_such("prompt", name, self._prompts))
        try:
            given = sorted_out(name, _PROMPT, arguments or {})
        except LeftoffError as error:
            raise MCPError(INVALID_PARAMS, told(error)) from None
        return await super().get_prompt(name, given, context)


def _tool(call: Any, hints: dict[str, bool]) -> Tool:
    title = call.__name__.replace("_", " ").capitalize()
    about = ToolAnnotations.model_validate(hints)
    text = " ".join(inspect.cleandoc(call.__doc__ or "").split())
    return Tool.from_function(call, title=title, description=text, annotations=about, structured_output=False)


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's parameters as it is listed, which is short: every client sends it to the model
    with each request. Of several kinds of value only the first is listed; ``sorted_out`` takes the others too."""
    known = {
        name: {key: value for key, value in _first(about).items() if key != "title"}
        for name, about in schema["properties"].items()
        if "description" in about
    }
    needed = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": known, **needed}


def _first(about: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in about.items() if key not in ("anyOf", "default")}
    return {**about["anyOf"][0], **rest} if "anyOf" in about else rest


def _no_such(what: str, name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no {what} {name!r}.{meant} There are {', '.join(known)}."
