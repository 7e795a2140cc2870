"""The faces that agents see: hooks that keep a session's progress, an MCP server, steps that an agent does.

One adapter serves several agents: what differs between them (names of events and tools, command lines, lines that
they print) is in tables here, and everything else calls the same operations as the command does.
"""

# The agents that leftoff can be installed for, by their commands.
AGENTS = ("claude", "codex", "gemini", "opencode", "qwen")
