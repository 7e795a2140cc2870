"""``leftoff mcp``: the MCP server, on stdin and stdout."""

from __future__ import annotations

import os
import signal

from leftoff.cli.options import Spec
from leftoff.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "mcp",
    "Serve this project's runs to an agent through the Model Context Protocol, on stdin and stdout, until "
    "stdin ends. `leftoff install` sets an agent up to start it. It needs the extra `mcp`: pip install "
    "'leftoff[mcp]'.",
    examples="""  leftoff mcp
  leftoff mcp --project /path/to/project""",
)


def run(args: Args, ctx: Context) -> int:
    try:
        from leftoff.agents.mcp.serve import Server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise Unsupported(
            "The MCP server needs a package that is not installed.", hint="pip install 'leftoff[mcp]'"
        ) from None
    server = Server(ctx.project.folder, args.store)
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # a call that is cut off was never committed
    server.run()
    return 0
