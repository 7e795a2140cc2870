"""Setting an agent up: hooks, the MCP server, a skill and two commands, merged into what its user has already.

Settings files belong to people. They are changed as text, never written anew: comments, order, indentation and line
ends stay, and taking everything out again leaves the bytes that were there before.
"""
