"""The MCP server: the operations of leftoff as tools that a model can call. Loaded by `leftoff mcp` alone."""
