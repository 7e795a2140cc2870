"""The operations: one function per verb, the same behind every face.

A face (the command, MCP, hooks, the page) parses what it was given, calls one operation with the `Project` it works in,
the `Caller` it works for and a request, and shows the answer. Rules live here and below, never in a face. Where an
operation would only forward, faces call the engine; the import contracts in pyproject.toml name the modules.
"""
