"""The server: the tools of one project, offered through the official SDK.

Arguments are checked here and not by the SDK, whose errors are written for whoever programs a server.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from difflib import get_close_matches
from functools import partial
from typing import Any

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ToolAnnotations

from leftoff._version import __version__
from leftoff.agents.mcp_tools import INSTRUCTIONS, TOOLS, Tools
from leftoff.agents.mcp_words import sorted_out, told
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
            tools=list(self._kit.values()),
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
            raise ToolError(_no_such("tool", name, self._kit))
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
        return tool.fn_metadata.convert_result(found)

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
    return Tool.from_function(
        call, title=title, description=inspect.cleandoc(call.__doc__ or ""), annotations=about
    )


def _no_such(what: str, name: str, known: dict[str, Any]) -> str:
    near = get_close_matches(name, known, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no {what} {name!r}.{meant} There are {', '.join(known)}."
